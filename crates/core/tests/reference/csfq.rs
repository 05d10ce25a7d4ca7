// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSFQ in real numbers, with the discipline's own random numbers; where a random number is too close to the probability
//! to call, the discipline is believed.

use super::Config;
use makeway_core::packet::{DropReason, Packet, Tag};
use makeway_core::random::Rng;
use makeway_core::sched::CsfqParams;
use makeway_core::units::{Instant, Rate};

pub struct Csfq {
    params: CsfqParams,
    rate: Option<Rate>,
    flows: Vec<Average>,
    arrival: Average,
    accepted: Average,
    /// 0: everything passes.
    alpha: f64,
    tmp_alpha: f64,
    congested: bool,
    start_time: Instant,
    kalpha: u32,
    rng: Rng,
}

#[derive(Clone, Default)]
struct Average {
    bps: f64,
    last: Instant,
}

impl Average {
    fn count(&mut self, now: Instant, bytes: u64, window_ns: u64) -> f64 {
        let (t, k) = (
            now.saturating_since(self.last).as_nanos() as f64 / 1e9,
            window_ns as f64 / 1e9,
        );
        self.last = now;
        let bits = bytes as f64 * 8.0;
        self.bps = if t == 0.0 {
            self.bps + bits / k
        } else {
            -(-t / k).exp_m1() * bits / t + (-t / k).exp() * self.bps
        };
        self.bps
    }
}

/// The largest integer of twelve bits that fits, times a power of two.
fn written(bps: f64) -> Tag {
    let mut power = 0;
    while (bps.round() / f64::from(1u32 << power)).floor() >= 4096.0 {
        power += 1;
    }
    let mantissa = (bps / f64::from(1u32 << power)).round() as u32;
    Tag((power * 2048 + mantissa).clamp(1, 65_535) as u16)
}

fn read(tag: Tag) -> f64 {
    match u32::from(tag.0) {
        code if code < 4096 => f64::from(code),
        code => f64::from(2048 + code % 2048) * f64::from(1u32 << (code / 2048 - 1)),
    }
}

impl Csfq {
    pub fn new(config: &Config) -> Self {
        Self {
            params: config.csfq,
            rate: config.rate,
            flows: vec![Average::default(); config.limits.flows as usize],
            arrival: Average::default(),
            accepted: Average::default(),
            alpha: 0.0,
            tmp_alpha: 0.0,
            congested: false,
            start_time: Instant::ZERO,
            kalpha: 29,
            rng: Rng::new(config.seed),
        }
    }

    /// The packet's label, and whether it is dropped by chance.
    pub fn arrive(
        &mut self,
        now: Instant,
        pkt: &Packet,
        weight: u64,
        held: u64,
        seen: Option<DropReason>,
    ) -> (Tag, bool) {
        let len = pkt.len().get();
        let window = self.params.flow_window.as_nanos();
        let tag = match (self.params.edge, pkt.tag()) {
            (true, _) => {
                let rate = self.flows[pkt.flow.0 as usize].count(now, len, window);
                written(rate / weight as f64)
            }
            (false, Tag(0)) => written(self.flows[0].count(now, len, window)),
            (false, tag) => tag,
        };
        let label = read(tag);
        let (mut goes_on, mut drops) = (tag, false);
        if self.alpha > 0.0 && self.alpha < label {
            let prob = 1.0 - self.alpha / label;
            // 2^-64 of 64 random bits.
            let random = self.rng.next_u64() as f64 / 18_446_744_073_709_551_616.0;
            drops = match (random - prob).abs() < 1e-7 {
                true => seen == Some(DropReason::Early),
                false => random < prob,
            };
            goes_on = written(self.alpha);
        }
        self.estimate_alpha(now, len, label, drops, held);
        (goes_on, drops)
    }

    fn estimate_alpha(&mut self, now: Instant, len: u64, label: f64, dropped: bool, held: u64) {
        let Some(rate) = self.rate else {
            return;
        };
        let c = rate.bps() as f64;
        let window = self.params.window.as_nanos();
        let a = self.arrival.count(now, len, window);
        let f = self
            .accepted
            .count(now, if dropped { 0 } else { len }, window);
        let full = held >= self.params.threshold.get();
        if self.alpha == 0.0 {
            self.tmp_alpha = self.tmp_alpha.max(label);
            if full {
                self.alpha = self.tmp_alpha.max(1.0).min(c);
                self.restart(now, a >= c);
            }
            return;
        }
        let over = now >= self.start_time + self.params.window;
        match (a >= c, self.congested) {
            (true, true) if over => {
                self.alpha = (self.alpha * c / f).min(c).max(1.0);
                self.restart(now, true);
            }
            (true, true) => {}
            (is, was) if is != was => self.restart(now, is),
            _ if !over => self.tmp_alpha = self.tmp_alpha.max(label),
            _ => {
                self.alpha = if full { self.tmp_alpha.min(c) } else { 0.0 };
                self.restart(now, false);
            }
        }
    }

    fn restart(&mut self, now: Instant, congested: bool) {
        (self.start_time, self.congested) = (now, congested);
        (self.tmp_alpha, self.kalpha) = (0.0, 29);
    }

    pub fn overflow(&mut self) {
        if self.alpha > 0.0 && self.kalpha > 0 {
            self.kalpha -= 1;
            self.alpha = (self.alpha - self.alpha / 100.0).max(1.0);
        }
    }
}
