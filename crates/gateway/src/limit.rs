// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue limits: as they are asked for, and as a link has them.

use makeway_core::framing::Framing;
use makeway_core::sched::Limits;
use makeway_core::units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Flows that a queue knows at least.
pub const FLOWS: u32 = 1024;
/// Users with a weight that a queue knows at most: the map of a qdisc has room for them.
pub(crate) const MOST_WEIGHTS: u32 = 1024;

/// A queue limit as it is asked for. A part that is missing follows from the other one, and both follow from the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// Most packets.
    pub packets: Option<u32>,
    /// Most bytes on the wire.
    pub bytes: Option<u64>,
}

impl Limit {
    /// Both parts; of the same part in both the one of `later`.
    pub fn and(self, later: Self) -> Self {
        Self {
            packets: later.packets.or(self.packets),
            bytes: later.bytes.or(self.bytes),
        }
    }

    /// Whether it holds anything.
    pub fn is_any(self) -> bool {
        self.packets != Some(0) && self.bytes != Some(0)
    }

    /// The limits on a link of `rate` whose largest IP packet has `mtu` bytes. By the rate: T. Bonald, L. Muscariello, N. Ostallo, ICC 2011,
    /// section III.B, names 50 to 200 full packets. 200 ms of the rate lie in that range for 3 to 12 Mbit/s:
    /// a deep buffer keeps a stream that stalls for a moment below the downloads. Above 240 Mbit/s 200 packets
    /// are less than the 10 ms that TCP needs at the round trips of a good access line.
    pub fn on(self, rate: Rate, framing: Framing, mtu: u32) -> Limits {
        const MOST: u32 = 1 << 20;
        let packets_in = |time| (rate * time).get() / 1500;
        let by_rate = || {
            let packets = packets_in(Duration::from_millis(200)).clamp(50, 200);
            let packets = packets.max(packets_in(Duration::from_millis(10)));
            u32::try_from(packets).unwrap_or(u32::MAX).min(MOST)
        };
        // A limit in bytes alone is the one that counts: small packets fit it too.
        let by_bytes = |bytes: u64| {
            let packets = u32::try_from(bytes / 64).unwrap_or(u32::MAX);
            packets.clamp(1, MOST)
        };
        let packets = match (self.packets, self.bytes) {
            (Some(packets), _) => packets,
            (None, Some(bytes)) => by_bytes(bytes),
            (None, None) => by_rate(),
        };
        let largest = framing.wire(Bytes::new(u64::from(mtu.max(1500)))).get();
        let all = u64::from(packets).saturating_mul(largest);
        Limits {
            packets,
            bytes: Bytes::new(self.bytes.unwrap_or(all.min(u64::from(u32::MAX)))),
            flows: FLOWS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(limit: Limit, rate: &str) -> (u32, u64) {
        let limits = limit.on(rate.parse().unwrap(), Framing::default(), 1500);
        (limits.packets, limits.bytes.get())
    }

    #[test]
    fn without_a_limit_it_follows_the_rate_between_50_and_200_packets() {
        let packets = |rate| on(Limit::default(), rate).0;
        assert_eq!(packets("640kbit"), 50);
        assert_eq!(packets("10mbit"), 166);
        assert_eq!(packets("20mbit"), 200);
        assert_eq!(packets("100mbit"), 200);
        // 10 ms at 1 Gbit/s.
        assert_eq!(packets("1gbit"), 833);
    }

    #[test]
    fn a_limit_that_is_asked_for_is_the_one_that_counts() {
        let packets = |n| Limit {
            packets: Some(n),
            ..Limit::default()
        };
        let bytes = |n| Limit {
            bytes: Some(n),
            ..Limit::default()
        };
        assert_eq!(on(packets(20), "10mbit"), (20, 30_000));
        assert_eq!(on(bytes(64_000), "10mbit"), (1000, 64_000));
        assert_eq!(on(bytes(64_000).and(packets(7)), "10mbit"), (7, 64_000));
        assert_eq!(packets(9).and(packets(7)), packets(7));
        assert!(packets(1).is_any() && Limit::default().is_any());
        assert!(!packets(0).is_any() && !bytes(0).and(packets(1)).is_any());
    }
}
