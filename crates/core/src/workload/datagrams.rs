// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work that `makeway-lab bench send` measures: a call's datagrams through a [`Sender`].

use core::fmt;

use super::Rng;
use crate::rate::{Feedback, FeedbackError, RateController};
use crate::send::{Config, Datagram, Event, Policy, Sender};
use crate::units::{Bytes, Duration, Instant, Rate};

/// An operation on a sender, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendCase {
    /// One datagram leaves, then as many come as bring the queue back to N. Lifetimes are such that some expire where lateness
    /// matters.
    Pairs,
    /// Two datagrams come for each that leaves, and the queue is full at N: each second one costs one.
    Overload,
}

impl SendCase {
    /// Every case, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::Pairs, Self::Overload];

    /// The name in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Overload => "overload",
        }
    }
}

impl fmt::Display for SendCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A case for a number of datagrams that wait.
///
/// One datagram of four is audio of 214 B, class 0; the others are video of 1026 B, class 1, in frames of five. Deadlines are uniform in
/// 100 to 300 ms after a datagram comes, and N datagrams leave in 200 ms.
#[derive(Clone, Debug)]
pub struct SendBench<P> {
    case: SendCase,
    waiting: u32,
    sender: Sender<Open, P, u64>,
    rng: Rng,
    now: Instant,
    step: Duration,
    video: u32,
}

/// Parts of a video frame.
const PARTS: u32 = 5;

impl<P: Policy> SendBench<P> {
    /// A queue of `waiting` datagrams, 1 to 2^24.
    pub fn new(case: SendCase, policy: P, waiting: u32, seed: u64) -> Self {
        let config = Config {
            packets: waiting,
            // Never reached: packets are the limit here.
            bytes: Bytes::new(u64::from(waiting) * 2000),
            ..Config::default()
        };
        let mut bench = Self {
            case,
            waiting,
            sender: Sender::new(config, Open, policy),
            rng: Rng::new(seed),
            now: Instant::ZERO,
            step: Duration::from_millis(200) / u64::from(waiting.max(1)),
            video: 0,
        };
        for _ in 0..waiting {
            bench.enqueue();
        }
        // Until what expires has found its share.
        bench.run(4 * u64::from(waiting));
        bench
    }

    /// Lets at least this number of datagrams come to their end; returns their number.
    #[inline(never)]
    pub fn run(&mut self, datagrams: u64) -> u64 {
        let mut ended = 0;
        while ended < datagrams {
            let sent = self.sender.poll_transmit(self.now);
            core::hint::black_box(sent.map(|transmit| transmit.payload));
            match self.case {
                SendCase::Pairs => {
                    while self.sender.backlog().packets < self.waiting {
                        self.enqueue();
                    }
                }
                SendCase::Overload => {
                    self.enqueue();
                    self.enqueue();
                }
            }
            self.now += self.step;
            while let Some(event) = self.sender.poll_event() {
                ended += u64::from(matches!(event, Event::Outcome(..)));
            }
        }
        ended
    }

    /// The sender under measurement.
    pub fn sender(&self) -> &Sender<impl RateController, P, u64> {
        &self.sender
    }

    fn enqueue(&mut self) {
        let lifetime = 100_000 + self.rng.below(200_000);
        let is_audio = self.rng.below(4) == 0;
        let (class, len) = if is_audio { (0, 214) } else { (1, 1026) };
        self.video = self.video.wrapping_add(u32::from(!is_audio));
        let datagram = Datagram {
            class,
            len,
            deadline: self.now + Duration::from_micros(lifetime.into()),
            frame: (!is_audio).then_some(self.video / PARTS),
        };
        self.sender.enqueue(self.now, datagram, lifetime.into());
    }
}

/// A controller that always lets the next one go.
#[derive(Clone, Debug)]
struct Open;

impl RateController for Open {
    fn next_send(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }

    fn on_sent(&mut self, _now: Instant, _sequence: u64, _bytes: u32) {}

    fn on_feedback(&mut self, _now: Instant, _feedback: &Feedback) -> Result<(), FeedbackError> {
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_timeout(&mut self, _now: Instant) {}

    fn rate(&self) -> Rate {
        Rate::default()
    }

    fn rtt(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::AnyPolicy;

    #[test]
    fn the_queue_stays_as_long_as_it_says_and_each_policy_does_what_it_is_for() {
        for case in SendCase::ALL {
            for policy in AnyPolicy::all() {
                let mut bench = SendBench::new(case, policy, 64, 1);
                bench.run(10_000);
                let waiting = bench.sender().backlog().packets;
                // A frame goes as a whole.
                let least = if case == SendCase::Overload {
                    64 - 2 * PARTS
                } else {
                    64
                };
                assert!((least..=64).contains(&waiting), "{case} {policy} {waiting}");
                let stats = bench.sender().stats();
                let count = |what: fn(&crate::send::ClassStats) -> u64| -> u64 {
                    stats.classes().iter().map(what).sum()
                };
                assert!(count(|c| c.sent) > 1000, "{case} {policy}");
                let discards = ["sbpn1", "sbpn2", "weighted"].contains(&policy.name());
                assert_eq!(case == SendCase::Overload, count(|c| c.evicted) > 0);
                if case == SendCase::Pairs {
                    assert_eq!(discards, count(|c| c.expired) > 0, "{policy}");
                }
                assert_eq!(stats.unread, 0);
            }
        }
    }
}
