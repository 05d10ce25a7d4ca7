// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender that sends 50 000 packets a second over UDP on the loopback, on one core.
//!
//! It has always something to send, and a packet is due each 20 us, counted from the beginning: what left late is made up for. It
//! sleeps where nothing is due for a while, so that it measures what an application gets that shares its machine. A bare loop that sleeps and
//! sends likewise takes turns with it, a second each: its errors are those of the machine. A ratio is the median over pairs of a second of the one
//! and a second of the other, so that a stall of the machine is in one pair.

use std::fmt;
use std::net::UdpSocket;
use std::time;

use anyhow::Context;
use makeway_core::measure::Histogram;
use makeway_core::rate::{Feedback, FeedbackError, RateController};
use makeway_core::send::sbpn2::Sbpn2;
use makeway_core::send::{Config, Datagram, Sender};
use makeway_core::units::{Duration, Instant, Rate};
use serde::Serialize;

use super::super::rounds::processor_ns;

/// Packets a second.
const WANTED: u64 = 50_000;
/// Payload of each.
const LEN: u32 = 1026;
/// Datagrams that wait.
const WAITING: u32 = 32;

/// Its result.
#[derive(Serialize)]
pub struct Paced {
    pub wanted: f64,
    /// Packets a second that left.
    pub rate: f64,
    /// Share of the departures that was received, the bare loop's included, in percent; the receiver's buffer was full for the others.
    received_percent: f64,
    /// Processor time of the sending thread, the kernel's for it included.
    pub core_percent: f64,
    /// From when a packet was due to when it was handed to the socket.
    pub error_ms: Errors,
    /// The same of the bare loop.
    bare_error_ms: Errors,
    /// Rate, processor time and errors, by those of the bare loop: medians over pairs of seconds.
    pub ratio: Ratios,
}

#[derive(Serialize)]
pub struct Ratios {
    pub rate: f64,
    pub core: f64,
    p50: f64,
    pub p99: f64,
    max: f64,
}

#[derive(Clone, Copy, Serialize)]
pub struct Errors {
    p50: f64,
    pub p99: f64,
    max: f64,
}

impl Errors {
    fn of(errors: &Histogram) -> Self {
        Self {
            p50: errors.quantile(0.5).as_millis_f64(),
            p99: errors.quantile(0.99).as_millis_f64(),
            max: errors.max().as_millis_f64(),
        }
    }
}

impl fmt::Display for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Errors { p50, p99, max } = self.error_ms;
        write!(
            f,
            "paced: {:.0} packet/s of {LEN} B over UDP, {:.1} % of them received, {:.0} % of a core; late by {p50:.3} ms (p50), \
             {p99:.3} ms (p99), {max:.3} ms (max); by a bare loop: {:.4} of its rate, {:.2} of its processor time, \
             {:.2} of its p99",
            self.rate,
            self.received_percent,
            self.core_percent,
            self.ratio.rate,
            self.ratio.core,
            self.ratio.p99
        )
    }
}

/// A second's packets of one of the two: how late they were, processor time and time, both in ns.
pub struct Turn {
    errors: Histogram,
    core: f64,
    lasted: f64,
}

impl Turn {
    /// `next` says when a packet was due that leaves now, or until when to sleep.
    fn take(
        from: &UdpSocket,
        mut next: impl FnMut(Instant) -> Result<Instant, Instant>,
    ) -> anyhow::Result<Self> {
        let payload = vec![0; LEN as usize];
        let mut errors = Histogram::new();
        let began = time::Instant::now();
        // 584 years fit.
        let clock = || Instant::from_nanos(began.elapsed().as_nanos() as u64);
        let processor = processor_ns();
        while errors.count() < WANTED {
            let now = clock();
            match next(now) {
                Ok(due) => {
                    errors.record(clock().saturating_since(due));
                    from.send(&payload)
                        .context("the loopback takes no packet")?;
                }
                Err(due) => sleep(due.saturating_since(now)),
            }
        }
        Ok(Self {
            errors,
            core: (processor_ns() - processor) as f64,
            lasted: clock().saturating_since(Instant::ZERO).as_nanos() as f64,
        })
    }

    fn core(&self) -> f64 {
        self.core / self.lasted
    }

    fn rate(&self) -> f64 {
        self.errors.count() as f64 / self.lasted * 1e9
    }
}

impl Paced {
    /// Result of as many turns of the sender as of the bare loop, in the order in which they were taken.
    pub fn of(with: &[Turn], without: &[Turn]) -> Self {
        let ratio = |figure: &dyn Fn(&Turn) -> f64| {
            let pairs = with.iter().zip(without);
            median(pairs.map(|(with, without)| figure(with) / figure(without)))
        };
        let [error_ms, bare_error_ms] = [with, without].map(|turns| {
            let mut all = Histogram::new();
            turns.iter().for_each(|turn| all.merge(&turn.errors));
            Errors::of(&all)
        });
        let errors = |figure: fn(Errors) -> f64| ratio(&|turn| figure(Errors::of(&turn.errors)));
        let lasted: f64 = with.iter().map(|turn| turn.lasted).sum();
        let core: f64 = with.iter().map(|turn| turn.core).sum();
        Self {
            wanted: WANTED as f64,
            rate: with.len() as f64 * WANTED as f64 / lasted * 1e9,
            received_percent: 0.0,
            core_percent: core / lasted * 100.0,
            ratio: Ratios {
                rate: ratio(&Turn::rate),
                core: ratio(&Turn::core),
                p50: errors(|errors| errors.p50),
                p99: errors(|errors| errors.p99),
                max: errors(|errors| errors.max),
            },
            error_ms,
            bare_error_ms,
        }
    }
}

/// NaN of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn metronome() -> Metronome {
    Metronome {
        next: Instant::ZERO + Duration::from_millis(1),
    }
}

/// A sender with `WAITING` datagrams at any time.
fn ours() -> impl FnMut(Instant) -> Result<Instant, Instant> {
    let config = Config {
        packets: WAITING,
        ..Config::default()
    };
    let mut sender = Sender::new(config, metronome(), Sbpn2::default());
    move |now| {
        while sender.backlog().packets < WAITING {
            let datagram = Datagram {
                class: 1,
                len: LEN,
                deadline: Instant::FAR_FUTURE,
                frame: None,
            };
            sender.enqueue(now, datagram, ());
        }
        let due = sender.rate().next;
        let left = sender.poll_transmit(now);
        while sender.poll_event().is_some() {}
        left.map(|_| due).ok_or(due)
    }
}

/// A clock alone.
fn bare() -> impl FnMut(Instant) -> Result<Instant, Instant> {
    let mut metronome = metronome();
    move |now| {
        let due = metronome.next;
        if due > now {
            return Err(due);
        }
        metronome.on_sent(now, 0, LEN);
        Ok(due)
    }
}

pub fn run(seconds: u64) -> anyhow::Result<Paced> {
    let [from, to] = [bound()?, bound()?];
    from.connect(to.local_addr()?)?;
    let received = std::thread::spawn(move || receive(&to));
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for second in 0..seconds {
        // Neither is always the first of a pair.
        if second % 2 == 0 {
            without.push(Turn::take(&from, bare())?);
            with.push(Turn::take(&from, ours())?);
        } else {
            with.push(Turn::take(&from, ours())?);
            without.push(Turn::take(&from, bare())?);
        }
    }
    // An empty packet ends it, and is not counted. It may find no room.
    while !received.is_finished() {
        from.send(&[])?;
        sleep(Duration::from_millis(10));
    }
    let received = received.join().expect("the receiver only counts")?;
    let all = (2 * seconds * WANTED) as f64;
    Ok(Paced {
        received_percent: 100.0 * received as f64 / all,
        ..Paced::of(&with, &without)
    })
}

fn bound() -> anyhow::Result<UdpSocket> {
    UdpSocket::bind(("127.0.0.1", 0)).context("no UDP socket on the loopback")
}

/// Counts packets until an empty one comes.
fn receive(socket: &UdpSocket) -> anyhow::Result<u64> {
    let mut buffer = [0; 2048];
    let mut received = 0;
    while socket.recv(&mut buffer)? > 0 {
        received += 1;
    }
    Ok(received)
}

fn sleep(span: Duration) {
    std::thread::sleep(time::Duration::from_nanos(span.as_nanos()));
}

/// One packet each 20 us, from the first on.
struct Metronome {
    next: Instant,
}

impl RateController for Metronome {
    fn next_send(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn on_sent(&mut self, _now: Instant, _sequence: u64, _bytes: u32) {
        self.next += Duration::from_nanos(1_000_000_000 / WANTED);
    }

    fn on_feedback(&mut self, _now: Instant, _feedback: &Feedback) -> Result<(), FeedbackError> {
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_timeout(&mut self, _now: Instant) {}

    fn rate(&self) -> Rate {
        Rate::from_bps(WANTED * u64::from(LEN) * 8)
    }

    fn rtt(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_seconds_side_by_side_so_that_one_stall_is_in_one_of_them() {
        let turn = |ms: u64, core| {
            let mut errors = Histogram::new();
            (0..WANTED).for_each(|_| errors.record(Duration::from_millis(ms)));
            Turn {
                errors,
                core,
                lasted: 1e9,
            }
        };
        // The third second of the sender was one of a stall.
        let with = [turn(2, 2e8), turn(20, 4e8), turn(500, 9e8)];
        let without = [turn(1, 1e8), turn(10, 2e8), turn(10, 2e8)];
        let paced = Paced::of(&with, &without);
        assert!((paced.ratio.p99 - 2.0).abs() < 0.1, "{}", paced.ratio.p99);
        assert_eq!((paced.ratio.core, paced.ratio.rate), (2.0, 1.0));
        assert!((paced.core_percent - 50.0).abs() < 1e-9);
    }
}
