// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender that sends 50 000 packets a second over UDP on the loopback, on one core.
//!
//! It has always something to send, and a packet is due each 20 us, counted from the beginning: what left late is made up for. It
//! sleeps where nothing is due for a while, so that it measures what an application gets that shares its machine.

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
    /// Of those that left, in percent; the others found the receiver's buffer full.
    received_percent: f64,
    /// Processor time of the sending thread, the kernel's for it included.
    pub core_percent: f64,
    /// From when a packet was due to when it was handed to the socket.
    pub error_ms: Errors,
}

#[derive(Serialize)]
pub struct Errors {
    p50: f64,
    pub p99: f64,
    max: f64,
}

impl fmt::Display for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Errors { p50, p99, max } = self.error_ms;
        write!(
            f,
            "paced: {:.0} packet/s of {LEN} B over UDP, {:.1} % of them received, {:.0} % of a core; late by {p50:.3} ms (p50), \
             {p99:.3} ms (p99), {max:.3} ms (max)",
            self.rate, self.received_percent, self.core_percent
        )
    }
}

pub fn run(seconds: u64) -> anyhow::Result<Paced> {
    let [from, to] = [bound()?, bound()?];
    from.connect(to.local_addr()?)?;
    let all = seconds * WANTED;
    let received = std::thread::spawn(move || receive(&to));
    let config = Config {
        packets: WAITING,
        ..Config::default()
    };
    let metronome = Metronome {
        next: Instant::ZERO + Duration::from_millis(1),
    };
    let mut sender = Sender::new(config, metronome, Sbpn2::default());
    let payload = vec![0; LEN as usize];
    let mut errors = Histogram::new();
    let began = time::Instant::now();
    // 584 years fit.
    let clock = || Instant::from_nanos(began.elapsed().as_nanos() as u64);
    let processor = processor_ns();
    let mut now = clock();
    while errors.count() < all {
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
        match sender.poll_transmit(now) {
            Some(_) => {
                errors.record(clock().saturating_since(due));
                from.send(&payload)
                    .context("the loopback takes no packet")?;
            }
            None => sleep(due.saturating_since(now)),
        }
        while sender.poll_event().is_some() {}
        now = clock();
    }
    let core = (processor_ns() - processor) as f64;
    let lasted = now.saturating_since(Instant::ZERO).as_secs_f64();
    // An empty packet ends it, and is not counted. It may find no room.
    while !received.is_finished() {
        from.send(&[])?;
        sleep(Duration::from_millis(10));
    }
    let received = received.join().expect("the receiver only counts")?;
    Ok(Paced {
        wanted: WANTED as f64,
        rate: all as f64 / lasted,
        received_percent: 100.0 * received as f64 / all as f64,
        core_percent: core / lasted / 1e7,
        error_ms: Errors {
            p50: errors.quantile(0.5).as_millis_f64(),
            p99: errors.quantile(0.99).as_millis_f64(),
            max: errors.max().as_millis_f64(),
        },
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
