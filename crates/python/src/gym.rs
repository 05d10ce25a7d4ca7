// SPDX-License-Identifier: MIT OR Apache-2.0
//! Episodes: runs of a scenario that pause, in each of which a program sets the rate of one flow. The half of `makeway.gym` that
//! simulates, for one environment or many on threads.

use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration as Elapsed, Instant as Clock};

use makeway_core::units::{Duration, Rate};
use makeway_sim::{Controlled, Delays, Observation, Options, Session};
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;

use crate::errors::{RunError, guarded, scenario as refused};
use crate::scenario::{Run, Scenario};
use crate::signals::Signals;

/// Figures of an interval, in the order of a row; `makeway.gym.Interval` has the same names.
pub const NAMES: [&str; 18] = [
    "time_s",
    "length_s",
    "rate_bps",
    "sent_bps",
    "delivered_bps",
    "delay_p50_s",
    "delay_p95_s",
    "delay_max_s",
    "base_s",
    "rtt_s",
    "loss",
    "marks",
    "sent_packets",
    "delivered_packets",
    "lost_packets",
    "backlog_packets",
    "backlog_bytes",
    "over",
];
type Row = Vec<f64>;

/// From the least to the largest time between two steps.
const EVERY: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(60)];
/// A thread of its own is worth its start for that much work.
const WORTH: Elapsed = Elapsed::from_micros(200);
/// Steps of a run that goes on to its end, between which Ctrl-C is seen.
const SECOND: Duration = Duration::from_secs(1);

/// Runs of one scenario beside each other, each of a replication of its own.
#[pyclass(frozen, module = "makeway._makeway")]
pub struct Episodes {
    scenario: Arc<makeway_scenario::Scenario>,
    flow: String,
    every: Duration,
    cores: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    /// `None`: not begun, or finished.
    episodes: Vec<Option<Episode>>,
    /// Time of the last step, of all together.
    busy: Elapsed,
}

struct Episode {
    session: Session,
    flow: Controlled,
    replication: u64,
    /// Delays of the last interval that had any.
    delay: Delays,
}

#[pymethods]
impl Episodes {
    #[new]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        flow: String,
        every: &str,
        count: usize,
    ) -> PyResult<Self> {
        let every: Duration = every.parse().map_err(refused)?;
        let [least, most] = EVERY;
        if !(least..=most).contains(&every) {
            return Err(refused(format!(
                "`every` is {every}: write a time from {least} to {most}, like 100ms"
            )));
        }
        let scenario = scenario.model();
        // For its errors, before the first episode.
        py.detach(|| guarded(|| Episode::new(&scenario, &flow, 0).map(drop)))?;
        Ok(Self {
            scenario,
            flow,
            every,
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            inner: Mutex::new(Inner {
                episodes: (0..count).map(|_| None).collect(),
                busy: Elapsed::ZERO,
            }),
        })
    }

    #[getter]
    fn every_s(&self) -> f64 {
        self.every.as_secs_f64()
    }

    /// Begins a new episode at each place with a replication, and goes on to the start of its flow.
    fn reset(&self, py: Python<'_>, replications: Vec<Option<u64>>) -> PyResult<Vec<Option<Row>>> {
        py.detach(|| {
            let mut inner = self.locked()?;
            // As a rule longer than a step.
            let threads = self.cores;
            self.each(&mut inner, replications, threads, |episode, replication| {
                let new = episode.insert(Episode::new(&self.scenario, &self.flow, replication)?);
                let start = new.session.starts(new.flow);
                new.session.run_until(start);
                Ok(new.row())
            })
        })
    }

    /// Sets a rate at each place with one, in bit/s, and goes on for a step.
    fn step(&self, py: Python<'_>, rates: Vec<Option<u64>>) -> PyResult<Vec<Option<Row>>> {
        py.detach(|| {
            let mut inner = self.locked()?;
            let worth = inner.busy.as_nanos() / WORTH.as_nanos();
            let threads = self.cores.min(usize::try_from(worth).unwrap_or(usize::MAX));
            self.each(&mut inner, rates, threads, |episode, rate| {
                let Some(episode) = episode else {
                    return Err(not_begun());
                };
                if episode.is_over() {
                    return Err(PyRuntimeError::new_err(
                        "the episode is over: call reset() before the next step()",
                    ));
                }
                let until = episode.session.now() + self.every;
                let until = until.min(episode.session.stops(episode.flow));
                episode.session.set_rate(episode.flow, Rate::from_bps(rate));
                episode.session.run_until(until);
                Ok(episode.row())
            })
        })
    }

    /// Drops all episodes, and their memory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.locked()?.episodes.fill_with(|| None);
            Ok(())
        })
    }

    /// Ends the episode at `place`: it goes on to the end of the scenario with the rate of now, and is reported.
    fn run(&self, py: Python<'_>, place: usize) -> PyResult<Run> {
        py.detach(|| {
            let mut inner = self.locked()?;
            let count = inner.episodes.len();
            let Some(episode) = inner.episodes.get_mut(place) else {
                return Err(PyIndexError::new_err(format!(
                    "there is no environment {place}: give a place from 0 to {}",
                    count.saturating_sub(1)
                )));
            };
            let mut episode = episode.take().ok_or_else(not_begun)?;
            drop(inner);
            let mut signals = Signals::new();
            let outcome = guarded(|| {
                let session = &mut episode.session;
                while session.now() < session.end() && signals.go_on(|_| Ok(())) {
                    let until = session.now() + SECOND;
                    session.run_until(until);
                }
                Ok(())
            });
            signals.result()?;
            outcome?;
            let replication = episode.replication;
            let outcome = guarded(|| episode.session.finish().map_err(cannot))?;
            Ok(Run::new(outcome, &self.scenario, replication))
        })
    }
}

impl Episodes {
    /// An error instead of a wait, as of a store: the one that holds it may be waiting for the interpreter's lock.
    fn locked(&self) -> PyResult<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err(
                "the environment is in use by another thread: give each thread one of its own",
            )),
        }
    }

    /// Does `work` at each place that `wanted` has a value for. An episode in which it panics is gone.
    fn each<T: Send>(
        &self,
        inner: &mut Inner,
        wanted: Vec<Option<T>>,
        threads: usize,
        work: impl Fn(&mut Option<Episode>, T) -> PyResult<Row> + Sync,
    ) -> PyResult<Vec<Option<Row>>> {
        let count = inner.episodes.len();
        if wanted.len() != count {
            return Err(PyRuntimeError::new_err(format!(
                "{} values for {count} environments: give one for each",
                wanted.len()
            )));
        }
        let items: Vec<(&mut Option<Episode>, Option<T>)> =
            inner.episodes.iter_mut().zip(wanted).collect();
        let done = on_threads(items, threads, |(place, value)| {
            let Some(value) = value else {
                return (Elapsed::ZERO, Ok(None));
            };
            let began = Clock::now();
            let mut episode = place.take();
            let mut is_whole = false;
            let row = guarded(|| {
                let row = work(&mut episode, value);
                is_whole = true;
                row
            });
            if is_whole {
                *place = episode;
            }
            (began.elapsed(), row.map(Some))
        });
        inner.busy = done.iter().map(|(time, _)| *time).sum();
        done.into_iter().map(|(_, row)| row).collect()
    }
}

impl Episode {
    fn new(
        scenario: &Arc<makeway_scenario::Scenario>,
        flow: &str,
        replication: u64,
    ) -> PyResult<Self> {
        let options = Options {
            replication,
            ..Options::default()
        };
        let mut session = Session::new(Arc::clone(scenario), options).map_err(cannot)?;
        let flow = session.control(flow).map_err(refused)?;
        Ok(Self {
            session,
            flow,
            replication,
            delay: Delays {
                p50: Duration::ZERO,
                p95: Duration::ZERO,
                max: Duration::ZERO,
            },
        })
    }

    fn is_over(&self) -> bool {
        self.session.now() >= self.session.stops(self.flow)
    }

    /// The interval since the last row.
    fn row(&mut self) -> Row {
        let seen = self.session.observe(self.flow);
        self.delay = seen.delay.unwrap_or(self.delay);
        row(&seen, self.delay, self.is_over())
    }
}

/// In the order of [`NAMES`].
fn row(seen: &Observation, delay: Delays, is_over: bool) -> Row {
    let length = seen.to.saturating_since(seen.from).as_secs_f64();
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let seconds = |time: Option<Duration>| time.map_or(0.0, Duration::as_secs_f64);
    let sent_bits = seen.sent.bytes.get() as f64 * 8.0;
    vec![
        seen.to.as_nanos() as f64 / 1e9,
        length,
        seen.rate.bps() as f64,
        if length > 0.0 {
            sent_bits / length
        } else {
            0.0
        },
        seen.delivery.bps() as f64,
        delay.p50.as_secs_f64(),
        delay.p95.as_secs_f64(),
        delay.max.as_secs_f64(),
        seconds(seen.base),
        seconds(seen.rtt),
        share(seen.lost, seen.lost + seen.delivered.packets),
        share(seen.marked, seen.delivered.packets),
        seen.sent.packets as f64,
        seen.delivered.packets as f64,
        seen.lost as f64,
        f64::from(seen.backlog.packets),
        seen.backlog.bytes.get() as f64,
        f64::from(u8::from(is_over)),
    ]
}

/// Does `work` for each of `items`, on `threads` threads at most; results in the order of the items.
fn on_threads<T: Send, R: Send>(
    mut items: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let work = &work;
    thread::scope(|scope| {
        let mut workers = Vec::with_capacity(threads);
        while !items.is_empty() {
            let rest = items.split_off(share.min(items.len()));
            let part = std::mem::replace(&mut items, rest);
            workers.push(scope.spawn(move || part.into_iter().map(work).collect::<Vec<R>>()));
        }
        let mut results = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(part) => results.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

fn cannot(error: makeway_sim::RunError) -> PyErr {
    RunError::new_err(error.to_string())
}

fn not_begun() -> PyErr {
    PyRuntimeError::new_err(
        "the episode has not begun, its run was taken, or the environment was closed: call reset() first",
    )
}

/// A rate like `2mbit` in bit/s.
#[pyfunction]
pub fn rate_bps(rate: &str) -> PyResult<u64> {
    rate.parse().map(Rate::bps).map_err(refused)
}
