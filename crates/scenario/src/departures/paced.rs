// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of a trace, cut in packets and spread in time.

use std::collections::VecDeque;
use std::sync::Arc;

use makeway_core::units::{Bytes, Duration};

use super::{Departure, LEAST_PAYLOAD, rtp_time, shortened};
use crate::model::{Frame, Pace};

/// Frames cut in packets and spread by [`Pace`]; the trace repeats for ever.
pub struct Paced {
    frames: Arc<[Frame]>,
    /// After it the trace repeats, in ns.
    period: u64,
    payload: u64,
    pace: Pace,
    /// The frame that comes next, counted over all rounds.
    next: usize,
    ready: VecDeque<Departure>,
    seq: u64,
    /// When the last packet was due.
    last: u64,
}

impl Paced {
    pub fn new(frames: Arc<[Frame]>, period: Duration, payload: u64, pace: Pace) -> Self {
        Self {
            period: period.as_nanos().max(1_000_000),
            frames,
            payload: payload.max(LEAST_PAYLOAD),
            pace,
            next: 0,
            ready: VecDeque::new(),
            seq: 0,
            last: 0,
        }
    }

    /// Time and size of the n-th frame over all rounds.
    fn frame(&self, n: usize) -> (u64, u64) {
        let frame = self.frames[n % self.frames.len()];
        let round = (n / self.frames.len()) as u64 * self.period;
        (round + frame.at.as_nanos(), frame.bytes.get())
    }

    /// Makes the packets of the frames that leave between `from` and `from + length` ready.
    fn spread(&mut self, count: usize, from: u64, length: u64) {
        // Packets are spaced evenly, at any size: the short one that ends a frame must not
        // bring the next one close behind it.
        let cut = |n| self.frame(self.next + n).1.div_ceil(self.payload);
        let total: u64 = (0..count).map(cut).sum();
        let mut before = 0_u64;
        for _ in 0..count {
            let (due, mut left) = self.frame(self.next);
            self.next += 1;
            while left > 0 {
                let size = left.min(self.payload);
                left -= size;
                let share = u128::from(length) * u128::from(before) / u128::from(total.max(1));
                let at = from + share as u64;
                let gap = if length == 0 { 0 } else { at - self.last };
                self.last = at;
                self.ready.push_back(Departure {
                    at,
                    gap: shortened(gap),
                    seq: self.seq,
                    payload: size.max(LEAST_PAYLOAD),
                    timestamp: rtp_time(due),
                    marker: left == 0 && self.frame(self.next).0 != due,
                });
                self.seq += 1;
                before += 1;
            }
        }
    }
}

impl Iterator for Paced {
    type Item = Departure;

    fn next(&mut self) -> Option<Departure> {
        if self.frames.iter().all(|frame| frame.bytes == Bytes::ZERO) {
            return None;
        }
        while self.ready.is_empty() {
            let (at, _) = self.frame(self.next);
            match self.pace {
                Pace::Burst => self.spread(1, at, 0),
                Pace::Frame => {
                    let (after, _) = self.frame(self.next + 1);
                    self.spread(1, at, after.saturating_sub(at));
                }
                Pace::Slice(length) => {
                    let length = length.as_nanos().max(1);
                    let from = at / length * length;
                    let end = from + length;
                    let count = (0..)
                        .take_while(|n| self.frame(self.next + n).0 < end)
                        .count();
                    self.spread(count, from, length);
                }
            }
        }
        self.ready.pop_front()
    }
}
