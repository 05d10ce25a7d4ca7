// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender, its receiver and a path between them, into which feedback is thrown that cannot be true. Used by the property test and by
//! the fuzz target.

use std::collections::VecDeque;

use makeway_core::rate::packets::PacketReport;
use makeway_core::rate::{
    AckRanges, AnyController, AnyReporter, Arrival, Config as Rates, Feedback, RateController,
    Report, Reporter,
};
use makeway_core::send::fifo::Fifo;
use makeway_core::send::{Config, Datagram, Sender};
use makeway_core::units::{Duration, Instant, Rate};

/// Events on the path.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Time passes, and everybody does what is due; one packet of this number is lost, none where it is 0.
    Pass { by: Duration, loss: u64 },
    /// Feedback comes that the receiver did not send.
    Forge(Forgery),
    /// Any feedback comes.
    Any(Feedback),
}

/// How feedback is made that cannot be true.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // Some hundred in a test.
pub enum Forgery {
    /// On a packet that is this number ahead of the last one sent.
    Ahead(u64),
    /// Feedback that came before, this number ago, comes again.
    Again(usize),
    /// As the last, but a figure is out of its range.
    Absurd(f64),
    /// As the last, but the packet was held this time longer than it was away.
    HeldTooLong(Duration),
    /// Feedback of another controller.
    Kind(Report),
}

pub struct Path {
    sender: Sender<AnyController, Fifo, ()>,
    reporter: AnyReporter,
    now: Instant,
    there: VecDeque<(Instant, Arrival)>,
    back: VecDeque<(Instant, Feedback)>,
    /// When each packet was sent.
    sent: Vec<Instant>,
    believed: Vec<Feedback>,
    rejected: u64,
}

/// One way.
const DELAY: Duration = Duration::from_millis(20);

#[allow(dead_code)]
impl Path {
    pub fn new(rates: Rates) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        Self {
            sender: Sender::new(Config::default(), rates.controller(), Fifo),
            reporter: rates.reporter(),
            now,
            there: VecDeque::new(),
            back: VecDeque::new(),
            sent: Vec::new(),
            believed: Vec::new(),
            rejected: 0,
        }
    }

    pub fn run(&mut self, op: Op) {
        match op {
            Op::Pass { by, loss } => self.pass(by, loss),
            Op::Forge(forgery) => {
                let Some(feedback) = self.forge(forgery) else {
                    return;
                };
                assert!(!self.hear(&feedback), "{feedback:?} was believed");
            }
            Op::Any(feedback) => {
                self.hear(&feedback);
            }
        }
    }

    /// How many reports of the receiver were believed.
    pub fn believed(&self) -> usize {
        self.believed.len()
    }

    /// Whether feedback is believed; what is not is counted and changes nothing.
    fn hear(&mut self, feedback: &Feedback) -> bool {
        let before = self.sender.rate().clone();
        let believed = self.sender.handle_feedback(self.now, feedback).is_ok();
        if !believed {
            self.rejected += 1;
            let after = self.sender.rate();
            assert!(after.rate() <= before.rate(), "it raised the rate");
            let [before, after] = [&before, after].map(|state| format!("{state:?}"));
            assert_eq!(after, before, "{feedback:?} changed something");
        }
        assert_eq!(self.sender.stats().rejected.total(), self.rejected);
        believed
    }

    fn forge(&self, forgery: Forgery) -> Option<Feedback> {
        let last = *self.believed.last()?;
        let packet = last.highest;
        Some(match forgery {
            Forgery::Ahead(by) => Feedback {
                highest: (self.sent.len() as u64).saturating_add(by),
                ..last
            },
            Forgery::Again(ago) => *self.believed.iter().rev().nth(ago)?,
            Forgery::Absurd(figure) => {
                let report = match last.report {
                    Report::LossEvents { received, .. } => Report::LossEvents {
                        rate: figure,
                        received,
                    },
                    Report::Packets(_) => Report::Packets(PacketReport::new(self.now)),
                    Report::Acks(_) => {
                        let mut ranges = AckRanges::default();
                        ranges.push(0, u64::MAX);
                        Report::Acks(ranges)
                    }
                    Report::Arrivals { bytes, .. } => Report::Arrivals {
                        interval: Duration::ZERO,
                        packets: 10,
                        bytes,
                        shortest: None,
                    },
                    other => other,
                };
                let highest = self.sent.len() as u64 - 1;
                let held = Duration::ZERO;
                Feedback {
                    highest,
                    held,
                    report,
                }
            }
            Forgery::HeldTooLong(by) => {
                let away = self.now.saturating_since(*self.sent.get(packet as usize)?);
                Feedback {
                    held: away + by,
                    ..last
                }
            }
            Forgery::Kind(report) => {
                let kind = std::mem::discriminant(&report);
                if kind == std::mem::discriminant(&last.report) {
                    return None;
                }
                Feedback { report, ..last }
            }
        })
    }

    fn pass(&mut self, by: Duration, loss: u64) {
        let end = self.now + by;
        while self.now < end {
            self.step(loss);
            // Often enough for every timer.
            self.now += Duration::from_millis(1);
        }
    }

    fn step(&mut self, loss: u64) {
        let now = self.now;
        while let Some(arrival) = pop_due(&mut self.there, now) {
            self.reporter.on_arrival(now, arrival);
        }
        while let Some(feedback) = self.reporter.poll_feedback(now) {
            self.back.push_back((now + DELAY, feedback));
        }
        while let Some(feedback) = pop_due(&mut self.back, now) {
            if self.hear(&feedback) {
                self.believed.push(feedback);
            }
        }
        self.sender.handle_timeout(now);
        // Enough for tests at any rate.
        for _ in 0..20 {
            let datagram = Datagram {
                class: 0,
                len: 1000,
                deadline: Instant::FAR_FUTURE,
                frame: None,
            };
            self.sender.enqueue(now, datagram, ());
            let Some(transmit) = self.sender.poll_transmit(now) else {
                break;
            };
            self.sent.push(now);
            if loss > 0 && transmit.sequence % loss == loss - 1 {
                continue;
            }
            let arrival = Arrival {
                sequence: transmit.sequence,
                bytes: transmit.datagram.len,
                rtt: self.sender.rate().rtt(),
                window: None,
                marked: false,
            };
            self.there.push_back((now + DELAY, arrival));
        }
    }
}

/// Operations from a fuzzer's bytes, sixteen for each.
#[allow(dead_code)]
pub fn read(bytes: &[u8]) -> Vec<Op> {
    let op = |b: &[u8; 16]| {
        let [a, c] =
            [&b[0..8], &b[8..16]].map(|half| u64::from_le_bytes(half.try_into().expect("eight")));
        // The lowest bits choose; the shift makes large and small numbers as frequent.
        let (kind, number, other) = (a % 8, c >> (a >> 3 & 63), a >> 9);
        match kind {
            0..3 => Op::Pass {
                by: Duration::from_millis(number % 300),
                loss: other % 64,
            },
            3 => Op::Forge(match other % 4 {
                0 => Forgery::Ahead(number),
                1 => Forgery::Again(number as usize % 1000),
                2 => Forgery::Absurd(if other & 4 > 0 {
                    f64::NAN
                } else {
                    -1.0 - number as f64
                }),
                _ => Forgery::HeldTooLong(Duration::from_nanos(number)),
            }),
            _ => Op::Any(Feedback {
                highest: other >> (c & 63),
                held: Duration::from_nanos(number),
                report: report(kind, number, other),
            }),
        }
    };
    let chunks = bytes
        .chunks_exact(16)
        .filter_map(|chunk| chunk.first_chunk());
    chunks.map(op).collect()
}

fn report(kind: u64, number: u64, other: u64) -> Report {
    match kind {
        4 | 5 => Report::LossEvents {
            rate: f64::from_bits(if kind == 4 { number << 11 } else { other << 7 }),
            received: Rate::from_bps(other),
        },
        6 => {
            let mut ranges = AckRanges::default();
            for i in 0..number % 20 {
                ranges.push(other % 1000 + i * (number >> 60), other % (500 + i));
            }
            Report::Acks(ranges)
        }
        _ => Report::Arrivals {
            interval: Duration::from_nanos(number),
            packets: other as u32,
            bytes: number,
            shortest: (other & 1 > 0).then(|| Duration::from_nanos(other >> 1)),
        },
    }
}

fn pop_due<T: Copy>(queue: &mut VecDeque<(Instant, T)>, now: Instant) -> Option<T> {
    let (_, item) = *queue.front().filter(|(at, _)| *at <= now)?;
    queue.pop_front();
    Some(item)
}
