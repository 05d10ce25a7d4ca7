// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender by itself: datagrams with classes and deadlines in, at the rate that the caller sets.

use makeway_core::rate::external::External;
use makeway_core::send::{AnyPolicy, Config, Datagram, Event};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{guarded, scenario as refused};
use crate::scheduler::instant;

/// A queue before a path of known rate.
#[pyclass(module = "makeway._makeway")]
pub struct Sender {
    inner: makeway_core::send::Sender<External, AnyPolicy, Py<PyAny>>,
    now: Instant,
}

#[pymethods]
impl Sender {
    #[new]
    fn new(
        policy: &str,
        rate: &str,
        one_way: Option<&str>,
        packets: u32,
        size: &str,
        largest: u32,
    ) -> PyResult<Self> {
        let policy: AnyPolicy = policy.parse().map_err(refused)?;
        let rate: Rate = rate.parse().map_err(refused)?;
        let one_way: Option<Duration> = one_way.map(str::parse).transpose().map_err(refused)?;
        let bytes: Bytes = size.parse().map_err(refused)?;
        if packets == 0 || largest == 0 {
            return Err(PyValueError::new_err(
                "a queue of 0 packets, or packets of 0 B: give 1 at least",
            ));
        }
        let config = Config {
            packets,
            bytes,
            largest,
            one_way,
            ..Config::default()
        };
        let inner = makeway_core::send::Sender::new(config, External::new(rate), policy);
        Ok(Self {
            inner,
            now: Instant::ZERO,
        })
    }

    /// Number of the datagram, from 0.
    fn enqueue(
        &mut self,
        now: f64,
        payload: Py<PyAny>,
        size: u32,
        class: u8,
        deadline: f64,
        frame: Option<u32>,
    ) -> PyResult<u64> {
        let now = self.at(now)?;
        let deadline = instant(deadline, Instant::ZERO)?;
        let datagram = Datagram {
            class,
            len: size,
            deadline,
            frame,
        };
        guarded(|| Ok(self.inner.enqueue(now, datagram, payload).0))
    }

    /// The datagram to send now: number, payload.
    fn poll_transmit(&mut self, now: f64) -> PyResult<Option<(u64, Py<PyAny>)>> {
        let now = self.at(now)?;
        let transmit = guarded(|| Ok(self.inner.poll_transmit(now)))?;
        Ok(transmit.map(|transmit| (transmit.id.0, transmit.payload)))
    }

    /// When to ask again, in seconds.
    fn poll_timeout(&self) -> Option<f64> {
        self.inner
            .poll_timeout()
            .map(|at| at.as_nanos() as f64 / 1e9)
    }

    /// Ends of datagrams since the last call: number, class, outcome.
    fn outcomes(&mut self) -> Vec<(u64, u8, &'static str)> {
        let mut outcomes = Vec::new();
        while let Some(event) = self.inner.poll_event() {
            if let Event::Outcome(id, datagram, outcome) = event {
                outcomes.push((id.0, datagram.class, outcome.name()));
            }
        }
        outcomes
    }

    fn set_rate(&mut self, now: f64, rate: &str) -> PyResult<()> {
        let now = self.at(now)?;
        let rate: Rate = rate.parse().map_err(refused)?;
        self.inner
            .change_rate(now, |external| external.set(rate, None));
        Ok(())
    }

    /// Datagrams and bytes.
    fn backlog(&self) -> (u32, u64) {
        let backlog = self.inner.backlog();
        (backlog.packets, backlog.bytes.get())
    }
}

impl Sender {
    fn at(&mut self, now: f64) -> PyResult<Instant> {
        self.now = instant(now, self.now)?;
        Ok(self.now)
    }
}
