// SPDX-License-Identifier: MIT OR Apache-2.0
//! NCQ from lists of everything that ever came.

use super::Config;
use makeway_core::framing::Framing;
use makeway_core::packet::Packet;
use makeway_core::random::Rng;
use makeway_core::sched::NcqParams;
use makeway_core::units::{Bytes, Fraction, Instant};

pub struct Ncq {
    params: NcqParams,
    framing: Framing,
    /// For each packet that was taken in: whether it could have been favoured, and whether it was.
    taken: Vec<(bool, bool)>,
    /// Content of the bucket of each flow in ns of its rate, and since when.
    buckets: Vec<(u64, Instant)>,
    threshold: u64,
    rng: Rng,
    /// For each packet that was favoured or sent since the last correction: how many had been taken in, bytes
    /// times the unfavoured that waited, and whether it was favoured.
    work: Vec<(usize, u128, bool)>,
    /// How many had been taken in when the threshold kept a packet back.
    confined: Vec<usize>,
}

const ONE: u128 = 1 << 48;

impl Ncq {
    pub fn new(config: &Config, flows: usize) -> Self {
        let params = &config.ncq;
        Self {
            framing: config.framing,
            params: params.clone(),
            taken: Vec::new(),
            buckets: vec![(0, Instant::ZERO); flows],
            threshold: params.threshold.scaled(),
            rng: Rng::new(config.seed),
            work: Vec::new(),
            confined: Vec::new(),
        }
    }

    /// Whether `pkt` could be favoured. Every packet is asked about, those too that are refused.
    pub fn could_be_favoured(&mut self, now: Instant, pkt: &Packet) -> bool {
        let mut is_slow = false;
        if let Some(low) = self.params.low_rate {
            let (level, since) = &mut self.buckets[pkt.flow.0 as usize];
            let depth = (low.burst / low.rate).as_nanos();
            *level = level.saturating_sub(now.saturating_since(*since).as_nanos());
            *level = (*level + (pkt.len() / low.rate).as_nanos()).min(depth * 2);
            *since = now;
            is_slow = *level <= depth;
        }
        // A packet of IP is short if one of 129 bytes costs as much or more.
        let wire = |len| self.framing.wire(Bytes::new(len));
        let is_short = (0..self.params.length.get()).any(|len| wire(len) >= pkt.len());
        (is_short || is_slow) && (self.params.control || !pkt.is_control())
    }

    /// Whether it is, of a flow with this number waiting.
    pub fn is_favoured(&mut self, could: bool, waiting: usize) -> bool {
        if !could || (self.params.keep_order && waiting > 0) {
            return false;
        }
        let all = self.taken.len();
        let window = self.params.window.map_or(all + 1, |n| n as usize);
        let counted = &self.taken[(all + 1).saturating_sub(window)..];
        let received = counted.len() as u128 + 1;
        let could = counted.iter().filter(|(could, _)| *could).count() as u128 + 1;
        let favoured = counted.iter().filter(|(_, was)| *was).count() as u128;
        let allowed = u128::from(self.threshold) * received;
        let is_favoured = match self.params.probabilistic {
            true => u128::from(self.rng.next_u64() >> 16) * could < allowed,
            // 0.05 may be a step of 2^-49 more.
            false => favoured * ONE + received / 2 < allowed,
        };
        if !is_favoured {
            self.confined.push(all);
        }
        is_favoured
    }

    /// It is taken in, while this number of unfavoured ones wait.
    pub fn take(&mut self, pkt: &Packet, could: bool, is_favoured: bool, waiting: usize) {
        if is_favoured {
            self.worked(pkt, waiting, true);
        }
        self.taken.push((could, is_favoured));
        let (Some(target), Some(window)) = (self.params.extra_wait, self.params.window) else {
            return;
        };
        let (all, window) = (self.taken.len(), window as usize);
        if !all.is_multiple_of(2 * window) {
            return;
        }
        // Events while the second of two windows came, its first packet's own coming not included.
        let from = all - window;
        let sum = |favoured: bool| -> u128 {
            let second = self.work.iter().filter(|(at, ..)| *at >= from);
            second.filter(|w| w.2 == favoured).map(|w| w.1).sum()
        };
        let (extra, waited) = (sum(true), sum(false));
        let kept_back = self.confined.iter().any(|at| *at >= from);
        self.work.clear();
        self.confined.clear();
        let without = waited.saturating_sub(extra);
        if without == 0 {
            return;
        }
        let unit = 1u128 << 24;
        let wanted = match extra {
            0 => 2 * unit,
            extra => (u128::from(target.scaled()) * without / extra) >> 24,
        };
        if wanted > unit && !kept_back {
            return;
        }
        let factor = (unit + wanted.clamp(unit / 2, 2 * unit)) / 2;
        let part = u128::from(self.threshold) * factor;
        let rest = (ONE - u128::from(self.threshold)) * unit;
        let least = Fraction::ratio(1, 1 << 20).scaled();
        let threshold = (part * ONE / (part + rest)) as u64;
        self.threshold = threshold.clamp(least, ONE as u64 - least);
    }

    /// A packet is sent while this number of unfavoured ones wait.
    pub fn send(&mut self, pkt: &Packet, waiting: usize) {
        self.worked(pkt, waiting, false);
    }

    fn worked(&mut self, pkt: &Packet, waiting: usize, favoured: bool) {
        let work = u128::from(pkt.len().get()) * waiting as u128;
        self.work.push((self.taken.len(), work, favoured));
    }
}
