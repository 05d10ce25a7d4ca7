// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discipline by itself: packets in, packets out, time given by the caller.

use std::path::Path;

use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::sched::{self, Drops, Env};
use makeway_core::units::{Bytes, Instant};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use crate::errors::{guarded, scenario as refused};

/// Flows that it may hold; a flow is a number below.
const FLOWS: u32 = 1 << 16;

/// A discipline on a link of `rate`, with the keys of a scenario's `queue` table.
#[pyclass(module = "makeway._makeway", unsendable)]
pub struct Scheduler {
    inner: Box<dyn sched::Scheduler + Send>,
    name: String,
    held: Vec<Option<Py<PyAny>>>,
    free: Vec<u32>,
    drops: Drops,
    dropped: Vec<(Py<PyAny>, &'static str)>,
    now: Instant,
}

/// Settings of a queue are checked as those of a scenario, by one.
const TEXT: &str = "duration = \"1s\"\n[node.a]\n[node.b]\n[link.line]\nbetween = [\"a\", \"b\"]\nqueue = { at = \"a\" }\n\
    [flow.any]\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";

#[pymethods]
impl Scheduler {
    /// `settings` are `queue.KEY=VALUE` and `rate=RATE` of a link.
    #[new]
    fn new(settings: Vec<String>, seed: u64) -> PyResult<Self> {
        let set: Vec<String> = settings
            .iter()
            .map(|set| format!("link.line.{set}"))
            .collect();
        let scenario = makeway_scenario::parse(TEXT, "queue", Path::new("."), &set);
        let scenario = scenario.map_err(|error| {
            // The link of this one is no one's business.
            refused(
                error
                    .to_string()
                    .replace("link.line.queue.", "")
                    .replace("link.line.", ""),
            )
        })?;
        let egress = &scenario.links[0].egress[0];
        let env = Env {
            seed,
            ..egress.env(&scenario.tags, FLOWS, seed)
        };
        let inner = guarded(|| sched::build(&egress.queue.spec, &env).map_err(refused))?;
        Ok(Self {
            inner,
            name: egress.queue.spec.discipline().name().into(),
            held: Vec::new(),
            free: Vec::new(),
            drops: Drops::default(),
            dropped: Vec::new(),
            now: Instant::ZERO,
        })
    }

    #[getter]
    fn discipline(&self) -> &str {
        &self.name
    }

    fn enqueue(
        &mut self,
        now: f64,
        packet: Py<PyAny>,
        size: u64,
        flow: u32,
        user: u32,
    ) -> PyResult<()> {
        let now = self.at(now)?;
        if size == 0 || size > Packet::MAX_LEN.get() {
            return Err(PyValueError::new_err(format!(
                "a packet of {size} B: give 1 to {} B",
                Packet::MAX_LEN.get()
            )));
        }
        if flow >= FLOWS || user >= UserId::MOST.min(FLOWS) {
            return Err(PyValueError::new_err(format!(
                "flow {flow} of user {user}: flows are numbered below {FLOWS}, users below {}",
                UserId::MOST.min(FLOWS)
            )));
        }
        let handle = match self.free.pop() {
            Some(handle) => {
                self.held[handle as usize] = Some(packet);
                handle
            }
            None => {
                self.held.push(Some(packet));
                u32::try_from(self.held.len() - 1)
                    .map_err(|_| PyOverflowError::new_err("too many packets"))?
            }
        };
        let pkt = Packet::new(
            now,
            Handle(handle),
            FlowId(flow),
            UserId(user),
            Bytes::new(size),
        );
        guarded(|| {
            self.inner.enqueue(now, pkt, &mut self.drops);
            Ok(())
        })?;
        self.take_drops();
        Ok(())
    }

    fn dequeue(&mut self, now: f64) -> PyResult<Option<Py<PyAny>>> {
        let now = self.at(now)?;
        let pkt = guarded(|| Ok(self.inner.dequeue(now, &mut self.drops)))?;
        self.take_drops();
        Ok(pkt.and_then(|pkt| self.release(pkt)))
    }

    /// Dropped packets and reasons since the last call.
    fn drops(&mut self) -> Vec<(Py<PyAny>, &'static str)> {
        std::mem::take(&mut self.dropped)
    }

    /// In seconds; none while it is empty.
    fn next_departure(&self) -> Option<f64> {
        self.inner
            .next_departure()
            .map(|at| at.as_nanos() as f64 / 1e9)
    }

    /// Packets and bytes.
    fn backlog(&self) -> (u32, u64) {
        let backlog = self.inner.backlog();
        (backlog.packets, backlog.bytes.get())
    }
}

impl Scheduler {
    fn at(&mut self, now: f64) -> PyResult<Instant> {
        self.now = instant(now, self.now)?;
        Ok(self.now)
    }

    fn release(&mut self, pkt: Packet) -> Option<Py<PyAny>> {
        let place = pkt.handle.0;
        self.free.push(place);
        self.held.get_mut(place as usize)?.take()
    }

    fn take_drops(&mut self) {
        let drops: Vec<_> = self.drops.drain().collect();
        for (pkt, reason) in drops {
            let packet = self.release(pkt);
            self.dropped
                .extend(packet.map(|packet| (packet, reason.name())));
        }
    }
}

/// `now` in seconds, not before `last`.
pub fn instant(now: f64, last: Instant) -> PyResult<Instant> {
    if !(0.0..1e9).contains(&now) {
        return Err(PyValueError::new_err(format!(
            "a time of {now} s: give seconds from 0 to 10^9"
        )));
    }
    let at = Instant::from_nanos((now * 1e9).round() as u64);
    if at < last {
        let last = last.as_nanos() as f64 / 1e9;
        return Err(PyValueError::new_err(format!(
            "a time of {now} s after one of {last} s: time never runs backwards"
        )));
    }
    Ok(at)
}
