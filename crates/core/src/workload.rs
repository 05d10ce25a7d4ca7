// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up traffic, the same for the same seed: for benches, tests, fuzzing and floods.
//!
//! Flows are drawn uniformly, so that no cache is flattered. Sizes on the wire follow the "simple
//! IMIX" that testers use, 7 : 4 : 1 of 64, 594 and 1518 bytes (RFC 6985 describes such mixes), each
//! with up to 31 bytes more so that backlogs differ.

mod cases;
mod datagrams;

pub use crate::random::Rng;
use alloc::boxed::Box;
pub use cases::{Bench, Case};
pub use datagrams::{SendBench, SendCase};

use crate::packet::{FlowId, Handle, Packet, UserId};
use crate::units::{Bytes, Instant};

/// The largest packet of the mix, bytes.
const LARGEST: u16 = 1549;

/// Packets of a size of the mix have up to this many bytes more.
const SPREAD: u16 = 31;

/// An endless stream of packets of `flows` flows.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: Rng,
    flows: u32,
    users: u32,
    handle: u32,
    /// The mix, to draw from: 64 to 1549 bytes.
    sizes: Box<[u16; 1024]>,
}

impl Workload {
    /// Packets of flows below `flows`, which belong to `users` users in turn; both at least 1.
    pub fn new(seed: u64, flows: u32, users: u32) -> Self {
        let mut rng = Rng::new(seed);
        let sizes = core::array::from_fn(|_| {
            let base = match rng.below(12) {
                0..7 => 64,
                7..11 => 594,
                _ => LARGEST - SPREAD,
            };
            base + rng.below(u32::from(SPREAD) + 1) as u16
        });
        Self {
            rng,
            sizes: Box::new(sizes),
            flows: flows.max(1),
            users: users.max(1),
            handle: 0,
        }
    }

    /// The next packet, of a uniformly random flow.
    pub fn packet(&mut self, now: Instant) -> Packet {
        let flow = self.rng.below(self.flows);
        self.packet_of(now, FlowId(flow))
    }

    /// The next packet, of `flow`. Handles count up from zero and wrap around.
    pub fn packet_of(&mut self, now: Instant, flow: FlowId) -> Packet {
        let size = self.sizes[self.rng.next_u64() as usize % self.sizes.len()];
        self.packet_with(now, flow, size)
    }

    /// The next packet, of `flow`, as large as the largest of the mix.
    pub fn large_packet_of(&mut self, now: Instant, flow: FlowId) -> Packet {
        self.packet_with(now, flow, LARGEST)
    }

    fn packet_with(&mut self, now: Instant, flow: FlowId, size: u16) -> Packet {
        let handle = Handle(self.handle);
        self.handle = self.handle.wrapping_add(1);
        // A power of two in the benches, so that it costs no division there.
        let user = UserId(match self.users.is_power_of_two() {
            true => flow.0 & (self.users - 1),
            false => flow.0 % self.users,
        });
        Packet::new(now, handle, flow, user, Bytes::new(size.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_packets_and_all_flows_appear() {
        let packets = |seed| {
            let mut w = Workload::new(seed, 10, 3);
            (0..200)
                .map(|_| w.packet(Instant::ZERO))
                .collect::<Vec<_>>()
        };
        assert_eq!(packets(1), packets(1));
        assert_ne!(packets(1), packets(2));
        for flow in 0..10 {
            assert!(
                packets(1)
                    .iter()
                    .any(|p| p.flow.0 == flow && p.user().0 == flow % 3)
            );
        }
    }
}
