// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender that sends 50 000 packets a second over UDP on the loopback, on one core.
//!
//! It has always something to send, and a packet is due each 20 us, counted from the beginning: what left late is made up for. It
//! sleeps where nothing is due for a while, so that it measures what an application gets that shares its machine. A bare loop that sleeps and
//! sends likewise takes turns with it, a second each: its errors are those of the machine.

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
    /// Of those that left, the bare loop's included, in percent; the others found the receiver's buffer full.
    received_percent: f64,
    /// Processor time of the sending thread, the kernel's for it included.
    pub core_percent: f64,
    /// From when a packet was due to when it was handed to the socket.
    pub error_ms: Errors,
    /// The same of the bare loop.
    bare_error_ms: Errors,
    /// Processor time and errors, by those of the bare loop.
    pub ratio: Ratios,
}

#[derive(Serialize)]
pub struct Ratios {
    pub core: f64,
    p50: f64,
    pub p99: f64,
    max: f64,
}

#[derive(Serialize)]
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
             {p99:.3} ms (p99), {max:.3} ms (max); by a bare loop: {:.2} of its processor time, {:.2} of its p99",
            self.rate, self.received_percent, self.core_percent, self.ratio.core, self.ratio.p99
        )
    }
}

/// Turns of one of the two: how late packets were, processor time and time, both in ns.
struct Turns {
    errors: Histogram,
    core: f64,
    lasted: f64,
}

impl Turns {
    fn new() -> Self {
        Self {
            errors: Histogram::new(),
            core: 0.0,
            lasted: 0.0,
        }
    }

    /// A second's packets: `next` says when one was due that leaves now, or until when to sleep.
    fn add(
        &mut self,
        from: &UdpSocket,
        mut next: impl FnMut(Instant) -> Result<Instant, Instant>,
    ) -> anyhow::Result<()> {
        let payload = vec![0; LEN as usize];
        let began = time::Instant::now();
        // 584 years fit.
        let clock = || Instant::from_nanos(began.elapsed().as_nanos() as u64);
        let processor = processor_ns();
        let all = self.errors.count() + WANTED;
        while self.errors.count() < all {
            let now = clock();
            match next(now) {
                Ok(due) => {
                    self.errors.record(clock().saturating_since(due));
                    from.send(&payload)
                        .context("the loopback takes no packet")?;
                }
                Err(due) => sleep(due.saturating_since(now)),
            }
        }
        self.core += (processor_ns() - processor) as f64;
        self.lasted += clock().saturating_since(Instant::ZERO).as_nanos() as f64;
        Ok(())
    }
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
    let (mut with, mut without) = (Turns::new(), Turns::new());
    for _ in 0..seconds {
        without.add(&from, bare())?;
        with.add(&from, ours())?;
    }
    // An empty packet ends it, and is not counted. It may find no room.
    while !received.is_finished() {
        from.send(&[])?;
        sleep(Duration::from_millis(10));
    }
    let received = received.join().expect("the receiver only counts")?;
    let all = (2 * seconds * WANTED) as f64;
    let [error_ms, bare_error_ms] = [&with, &without].map(|turns| Errors::of(&turns.errors));
    Ok(Paced {
        wanted: WANTED as f64,
        rate: with.errors.count() as f64 / with.lasted * 1e9,
        received_percent: 100.0 * received as f64 / all,
        core_percent: with.core / with.lasted * 100.0,
        ratio: Ratios {
            core: (with.core / with.lasted) / (without.core / without.lasted),
            p50: error_ms.p50 / bare_error_ms.p50,
            p99: error_ms.p99 / bare_error_ms.p99,
            max: error_ms.max / bare_error_ms.max,
        },
        error_ms,
        bare_error_ms,
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
