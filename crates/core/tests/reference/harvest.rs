// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PPS paper's section 4 in real numbers, with the discipline's own random numbers; where a random number is too close
//! to the probability to call, the discipline is believed.

use makeway_core::packet::{DropReason, Packet, Tag};
use makeway_core::random::Rng;
use makeway_core::sched::TredParams;
use makeway_core::ticket::{Codec, Tickets};
use makeway_core::units::Instant;

use super::Config;

pub struct Harvest {
    codec: Codec,
    params: TredParams,
    /// `InTktRate` and `Capacity`, times the window.
    tickets: f64,
    capacity: Option<f64>,
    front: Instant,
    rng: Rng,
}

impl Harvest {
    pub fn new(config: &Config) -> Self {
        let window = config.tred.window.as_secs_f64();
        let rate = config.rate;
        Self {
            codec: config.codec,
            params: config.tred.clone(),
            tickets: 0.0,
            capacity: rate.map(|rate| (rate.bps() as f64 / 8.0 * window).floor()),
            front: Instant::ZERO,
            rng: Rng::new(!config.seed),
        }
    }

    pub fn count(&mut self, now: Instant, pkt: &Packet) {
        let window = self.params.window.as_nanos() as f64;
        let since = now.saturating_since(self.front).as_nanos() as f64;
        let tickets = self.codec.decode(pkt.tag()).as_f64() * pkt.len().get() as f64;
        self.tickets = (self.tickets + tickets) * window / (since + window);
        self.front = now;
    }

    /// The packet's tag from here on, and why it is dropped early; `phase` says which thresholds the average is above.
    pub fn arrive(
        &mut self,
        pkt: &Packet,
        [on, over]: [bool; 2],
        seen: Option<DropReason>,
    ) -> (Tag, Option<DropReason>) {
        if over {
            return (pkt.tag(), Some(DropReason::Forced));
        }
        let in_tkt = self.codec.decode(pkt.tag()).as_f64();
        // In whole steps of tickets, as both are.
        let avg_tkt = self.capacity.map_or(0.0, |bytes| {
            (self.tickets / bytes * 65_536.0).floor() / 65_536.0
        });
        let avg_tkt = avg_tkt.min(Tickets::MAX.as_f64());
        if !on || in_tkt >= avg_tkt {
            return (pkt.tag(), None);
        }
        // 2^-64 of 64 random bits.
        let random = self.rng.next_u64() as f64 / 18_446_744_073_709_551_616.0;
        let p = 1.0 - in_tkt / avg_tkt;
        let drops = match (random - p).abs() < 1e-4 {
            true => seen == Some(DropReason::Early),
            false => random < p,
        };
        if drops {
            return (pkt.tag(), Some(DropReason::Early));
        }
        let avg_tkt = Tickets::from_scaled((avg_tkt * 65_536.0) as u128);
        (self.codec.encode(avg_tkt), None)
    }
}
