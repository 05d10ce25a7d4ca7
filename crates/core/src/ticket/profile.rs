// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service profiles: whether a packet is inside what its source was promised (DiffServ).
//!
//! Source: D. Clark, W. Fang, "Explicit Allocation of Best-Effort Packet Delivery Service", IEEE/ACM
//! Transactions on Networking 6(4), 1998, section IV; as ns-2's TSW2CM and RFC 2859 have it: while the estimated rate is
//! above the profile, a packet is outside with probability `(AvgRate - target) / AvgRate`.

use super::Tsw;
use crate::packet::Tag;
use crate::random::Rng;
use crate::units::{Bytes, Duration, Instant, Rate};

/// Tag of a packet inside its profile.
pub const IN: Tag = Tag(1);
/// Tag of any other packet.
pub const OUT: Tag = Tag(0);

/// The meter of one source.
#[derive(Clone, Debug)]
pub struct Meter {
    target: Rate,
    sent: Tsw,
    rng: Rng,
}

impl Meter {
    /// ns-2's: a second.
    pub const WINDOW: Duration = Duration::from_secs(1);

    /// A source that was promised `target`.
    pub fn new(target: Rate, window: Duration, seed: u64) -> Self {
        Self {
            target,
            sent: Tsw::new(window),
            rng: Rng::new(seed),
        }
    }

    /// The tag of the packet of `len` that is sent now.
    pub fn tag(&mut self, now: Instant, len: Bytes) -> Tag {
        self.sent.count(now, len.get());
        let window = u128::from(self.sent.window().as_nanos());
        let target = ((u128::from(self.target.bps()) * window) << Tsw::BITS) / 8_000_000_000;
        let rate = self.sent.in_window();
        let excess = rate.saturating_sub(target);
        // excess / rate, in 32 bits.
        let is_out = u128::from(self.rng.below(u32::MAX)) * rate < excess << 32;
        if is_out { OUT } else { IN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of 50 000 packets of 1000 B, `us` apart, that is inside 800 kbit/s.
    fn inside(us: u64) -> f64 {
        let mut meter = Meter::new(Rate::from_bps(800_000), Meter::WINDOW, 1);
        let tags = (0..50_000).map(|n| {
            let now = Instant::ZERO + Duration::from_micros(us * n);
            meter.tag(now, Bytes::new(1000))
        });
        tags.filter(|tag| *tag == IN).count() as f64 / 50_000.0
    }

    #[test]
    fn what_is_inside_is_the_profile() {
        // 100 packets a second are promised.
        assert_eq!(inside(10_100), 1.0);
        // 125, 200, 1000: five standard deviations of the binomial are 0.011 at most.
        for (us, part) in [(8000, 0.8), (5000, 0.5), (1000, 0.1)] {
            assert!((inside(us) - part).abs() < 0.011, "{us}: {}", inside(us));
        }
    }
}
