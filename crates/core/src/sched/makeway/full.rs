// SPDX-License-Identifier: MIT OR Apache-2.0
//! A full buffer: the flow that pays.
//!
//! As longest queue drop (SQF's Algorithm 1), but of the user that holds most for its weight: a host with many short queues pays
//! before one with one that is longer than each of them. Each user, and the link, remember the longest and the heaviest that they
//! have seen as packets came, so that no search is needed; the longest flow of all is known exactly.

use super::{FlowState, Makeway, order_of};
use crate::sched::order::{Order, Position};
use crate::sched::standing::Class;

/// A standing queue counts this part for the drop, while less than 3/4 of the buffer stands.
pub(crate) const SHIELD: u64 = 64;

impl Makeway {
    /// Flows in standing hold more than 3/4 of the buffer.
    pub(super) fn standing_is_most(&self) -> bool {
        self.standing > self.most / 4 * 3
    }

    /// A flow's position by its size for the drop.
    pub(super) fn sized(&self, position: Position, packets: u32) -> Position {
        // With all that is held, no more than 2^32; see `Limits::MOST_BYTES`.
        let bytes = position.bytes.saturating_add(packets * self.slot);
        Position { bytes, ..position }
    }

    /// A flow's size for the drop.
    fn size(&self, flow: u32) -> u64 {
        let packets = self.flows[flow as usize].record.packets;
        self.sized(self.pool.position(flow), packets).bytes.into()
    }

    /// The flow that pays for a full buffer.
    pub(super) fn longest(&self) -> Option<u32> {
        let [new, standing, bulk] = [Class::New, Class::Standing, Class::Bulk].map(|class| {
            let position = self.orders[order_of(class)].longest()?;
            Some(self.pool.flow_at(position.node))
        });
        let size = |flow: Option<u32>| flow.map_or(0, |flow| self.size(flow));
        let other = if size(new) > size(bulk) { new } else { bulk };
        let pays = other.map(|flow| self.longest_of_heaviest(flow));
        let shield = match self.standing_is_most() {
            true => 1,
            false => SHIELD,
        };
        match size(standing) >= size(other).max(size(pays)) * shield {
            true => standing,
            false => pays,
        }
    }

    /// The longest flow not in standing of the user that holds most: `other` is the longest of all users, of new ones by bytes.
    fn longest_of_heaviest(&self, other: u32) -> u32 {
        let flow = self.users[self.heaviest as usize].longest;
        let FlowState { record, user, .. } = &self.flows[flow as usize];
        let is_valid = *user == self.heaviest && record.packets > 0 && !record.goes_first();
        let is_longer =
            self.flows[other as usize].user != self.heaviest || self.size(flow) > self.size(other);
        match is_valid && is_longer {
            true => flow,
            false => other,
        }
    }

    /// A packet of `flow`, which is not in standing, has come: whether it is its user's longest, and that one the heaviest.
    pub(super) fn weigh(&mut self, flow: u32) {
        let at = self.flows[flow as usize].user;
        let longest = self.users[at as usize].longest;
        if longest != flow {
            let FlowState { record, user, .. } = &self.flows[longest as usize];
            if *user != at || record.goes_first() || self.size(flow) > self.size(longest) {
                self.users[at as usize].longest = flow;
            }
        }
        if at == self.heaviest {
            return;
        }
        let [user, heaviest] = [at, self.heaviest].map(|at| &self.users[at as usize]);
        if user.held * u64::from(heaviest.weight) > heaviest.held * u64::from(user.weight) {
            self.heaviest = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet};
    use crate::sched::{Drops, Scheduler};
    use crate::units::{Bytes, Instant};

    fn makeway() -> Makeway {
        Makeway::new(limits(100, 900_000), 1, Bytes::new(1538), 1)
    }

    /// The flows that pay as `n` packets of a flow come, each of `len` bytes, and then those of the next; each counts 1538 B more.
    fn paid(makeway: &mut Makeway, packets: &[(u32, u32, u64)]) -> Vec<u32> {
        let mut drops = Drops::default();
        for &(n, flow, len) in packets {
            for _ in 0..n {
                makeway.enqueue(Instant::ZERO, packet(0, flow, len), &mut drops);
            }
        }
        drops.drain().map(|(pkt, _)| pkt.flow.0).collect()
    }

    /// 15 000 B in ten packets, and 5824 B in 91.
    #[test]
    fn of_new_flows_the_one_with_many_small_packets_pays() {
        assert_eq!(paid(&mut makeway(), &[(10, 0, 1500), (91, 1, 64)]), [1]);
    }

    /// Flow 0, in standing, has a size of 91 140 B, flow 1 3038 B and flow 2, in 1400 bytes, 109 060 B.
    #[test]
    fn a_flow_in_standing_does_not_pay_beside_a_new_one_with_many_small_packets() {
        let mut makeway = makeway();
        assert!(paid(&mut makeway, &[(1, 0, 1500)]).is_empty());
        makeway.flows[0].record.class = Class::Standing;
        makeway.change(0, Class::New, Class::Standing);
        let packets = [(29, 0, 1500), (1, 1, 1500), (70, 2, 20)];
        assert_eq!(paid(&mut makeway, &packets), [2]);
    }
}
