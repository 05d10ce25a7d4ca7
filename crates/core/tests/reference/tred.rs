// SPDX-License-Identifier: MIT OR Apache-2.0
//! TRED's scaling of RED's probability, in real numbers, by looking at every packet of two intervals.

use makeway_core::packet::{Packet, Tag};
use makeway_core::sched::TredParams;
use makeway_core::ticket::Codec;
use makeway_core::units::Instant;

pub struct Tred {
    codec: Codec,
    params: TredParams,
    /// Number of the interval, and tickets, of each arrival with tickets.
    seen: Vec<(u64, f64)>,
    /// `ExpectTktRate` and `ExpectPktRate`, times the window.
    tickets: f64,
    bytes: f64,
    front: Instant,
}

impl Tred {
    pub fn new(codec: Codec, params: TredParams) -> Self {
        Self {
            codec,
            params,
            seen: Vec::new(),
            tickets: 0.0,
            bytes: 0.0,
            front: Instant::ZERO,
        }
    }

    /// By what the packet's probability is multiplied.
    pub fn factor(&mut self, now: Instant, pkt: &Packet) -> f64 {
        let came = self.codec.decode(pkt.tag()).as_f64();
        let number = now.as_nanos() / self.params.interval.as_nanos();
        self.seen.retain(|(seen, _)| seen + 1 >= number);
        if pkt.tag() == Tag(0) {
            return if self.seen.is_empty() { 1.0 } else { f64::MAX };
        }
        self.seen.push((number, came));
        let least = self.seen.iter().map(|(_, tickets)| *tickets);
        let least = least.fold(f64::INFINITY, f64::min);
        // Tickets are multiples of 2^-16 and K one of 1/100, so this is exact.
        if came * 100.0 < least * f64::from(self.params.k) {
            let window = self.params.window.as_nanos() as f64;
            let since = now.saturating_since(self.front).as_nanos() as f64;
            let len = pkt.len().get() as f64;
            for (sum, n) in [(&mut self.tickets, came * len), (&mut self.bytes, len)] {
                *sum = (*sum + n) * window / (since + window);
            }
            self.front = now;
        }
        let ratio = self.tickets / self.bytes / came;
        (0..self.params.exponent).fold(1.0, |factor, _| factor * ratio)
    }
}
