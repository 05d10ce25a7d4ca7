// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on a sender, and a controller whose rate, RTT and next send time a test sets.

use std::cell::Cell;
use std::rc::Rc;

use makeway_core::rate::{Feedback, FeedbackError, RateController};
use makeway_core::units::{Duration, Instant, Rate};

/// Operations on a sender.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// With so long from now to the deadline.
    Enqueue {
        class: u8,
        len: u32,
        lifetime: Duration,
        frame: Option<u32>,
    },
    /// A frame as a whole: the lengths of its parts, and how many frames back those are that it depends on.
    Frame {
        class: u8,
        lens: [Option<u32>; 4],
        lifetime: Duration,
        back: [Option<u8>; 2],
    },
    /// The controller lets one go, if there is one.
    Transmit,
    /// A transport that could take one is asked, and does not.
    Peek,
    /// The longest that a packet carries.
    Largest(u32),
    Advance(Duration),
    Rtt(Option<Duration>),
    /// Rate of the controller; it knows none if this is zero.
    Rate(Rate),
}

impl Op {
    /// Operations from a fuzzer's bytes, four for each.
    #[allow(dead_code)]
    pub fn read(bytes: &[u8]) -> Vec<Op> {
        let op = |b: &[u8]| match b[0] % 10 {
            0..4 if b[0] >= 200 => Op::Frame {
                class: b[1] % 2,
                lens: [0, 2, 4, 6]
                    .map(|bit| Some(u32::from(b[2] >> bit & 3) * 500).filter(|len| *len > 0)),
                lifetime: Duration::from_millis(b[3].into()),
                back: [b[1] / 2 % 8, b[1] / 16].map(|back| back.checked_sub(1)),
            },
            0..4 => Op::Enqueue {
                class: b[1] % 4,
                len: u32::from(b[2]) * 8,
                lifetime: Duration::from_millis(b[3].into()),
                frame: (b[1] >= 128).then(|| u32::from(b[1] / 4)),
            },
            4..6 => Op::Transmit,
            6 => Op::Advance(Duration::from_micros(u64::from(b[1]) << (b[2] % 10))),
            7 => Op::Peek,
            8 => Op::Largest(u32::from(b[1]) * 8),
            _ if b[2] % 2 == 1 => Op::Rate(Rate::from_bps(u64::from(b[1]) << (b[3] % 20))),
            _ => Op::Rtt((b[1] > 0).then(|| Duration::from_millis(b[1].into()))),
        };
        bytes.chunks_exact(4).map(op).collect()
    }
}

/// A controller whose rate, RTT and next send time a test sets; it counts reports of an empty queue.
#[derive(Clone, Debug, Default)]
pub struct Script(Rc<Told>);

#[derive(Debug, Default)]
struct Told {
    next_send: Cell<Option<Instant>>,
    rtt: Cell<Option<Duration>>,
    rate: Cell<Rate>,
    sent: Cell<u64>,
    idle: Cell<u64>,
}

#[allow(dead_code)]
impl Script {
    pub fn allow(&self, at: Option<Instant>) {
        self.0.next_send.set(at);
    }

    pub fn set_rtt(&self, rtt: Option<Duration>) {
        self.0.rtt.set(rtt);
    }

    pub fn set_rate(&self, rate: Rate) {
        self.0.rate.set(rate);
    }

    pub fn idle(&self) -> u64 {
        self.0.idle.get()
    }
}

impl RateController for Script {
    fn next_send(&self) -> Option<Instant> {
        self.0.next_send.get()
    }

    fn on_sent(&mut self, _now: Instant, sequence: u64, _bytes: u32) {
        assert_eq!(sequence, self.0.sent.get(), "numbers without gaps");
        self.0.sent.set(sequence + 1);
        self.0.next_send.set(None);
    }

    fn on_nothing_to_send(&mut self, _now: Instant) {
        self.0.idle.set(self.0.idle.get() + 1);
    }

    fn on_feedback(&mut self, _now: Instant, _feedback: &Feedback) -> Result<(), FeedbackError> {
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_timeout(&mut self, _now: Instant) {}

    fn rate(&self) -> Rate {
        self.0.rate.get()
    }

    fn rtt(&self) -> Option<Duration> {
        self.0.rtt.get()
    }
}
