// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts of flows in standing that have aged, and go before shorter queues.
//!
//! The shortest queue first leaves the longest one, a video whose frames are bursts, for the end of each busy period. So the oldest
//! packet goes first once it has waited for [`AGED`], as under FIFO, which has the least longest wait of all orders. Two bounds keep others
//! from its abuse. Only bursts age: a flow's backlog that is a small part of the bytes that it is known to bring in a window, and is no
//! standing queue. A larger one waits behind shorter queues, and delays itself alone. And the shortest queue has a part of the bytes:
//! a packet of a call is small, so that it waits for a full frame or two.
//!
//! Cost per packet: O(1) amortised. A packet joins the end of a list as it comes, and leaves it as it goes, from any place, or from its head once its flow has fallen.

use super::Makeway;
use super::record::{Past, Record};
use crate::sched::order::Position;
use crate::sched::queues::Moved;
use crate::sched::ring::Ring;
use crate::units::{Duration, Instant};

/// A packet that has waited for this time has aged, if it also has waited for longer than a queue that does not stand lets it
/// ([`Meter::short`](super::meter::Meter::short)), the time of four full frames.
const AGED: Duration = Duration::from_millis(20);
/// While a packet has aged, this part of the bytes in standing is the shortest queue's.
const AGED_OF: u64 = 8;
/// A backlog of more than this part of the bytes that a flow brings in a window is no burst: 134 ms of its rate.
const BURST_OF: u64 = 4;
/// While a packet has aged, bulk waits until it is owed this part of a window's bytes more: 7.5 ms of the link. It has 13/133 of the link,
/// and so at least 9 % in every second all the same.
const GRACE_OF: u64 = 72;

/// Packets in standing that can age.
#[derive(Clone, Debug)]
pub struct Bursts {
    /// Their slots, by arrival.
    packets: Ring,
    /// Bytes, `AGED_OF - 1` for each that the shortest queue may send before a packet that has aged. No more than its first packet costs,
    /// and a packet.
    spare: u64,
}

impl Bursts {
    /// For slots below `slots`.
    pub fn new(slots: u32) -> Self {
        Self {
            packets: Ring::new(slots),
            spare: 0,
        }
    }

    /// The packet in `slot` leaves.
    pub fn remove(&mut self, slot: u32) {
        if self.packets.contains(slot) {
            self.packets.remove(slot);
        }
    }
}

/// Whether a flow with this backlog, in bytes, and record has a burst.
fn is_burst(record: &Record, past: &Past, bytes: u32, now: Instant) -> bool {
    !record.stands(now) && u64::from(bytes) * BURST_OF <= u64::from(past.usual())
}

impl Makeway {
    /// A packet of a flow in standing came: whether it can age.
    pub(super) fn list(&mut self, now: Instant, moved: &Moved) {
        let flow = moved.packet.flow.0 as usize;
        let past = &self.rests[flow].past;
        if is_burst(&self.flows[flow].record, past, moved.new.bytes, now) {
            self.bursts.packets.push(moved.slot);
        }
    }

    /// The flow of the oldest packet that can age, if that has.
    pub(super) fn aged(&mut self, now: Instant) -> Option<u32> {
        // Each packet leaves the list once, so that this is O(1) amortised.
        let (oldest, flow) = loop {
            let oldest = self.bursts.packets.head()?;
            let flow = self.pool.flow_at(oldest);
            if self.flows[flow as usize].record.goes_first() {
                break (oldest, flow);
            }
            self.bursts.packets.remove(oldest);
        };
        let least = AGED.max(self.meter.short());
        let waited = now.saturating_since(self.pool.arrived_at(oldest));
        (waited >= least).then_some(flow)
    }

    /// Bytes that bulk is owed and waits for, if a flow has aged.
    pub(super) fn grace(&self, aged: Option<u32>) -> u64 {
        aged.map_or(0, |_| self.meter.sent() / GRACE_OF)
    }

    /// The flow in standing that goes first, where `shortest` has the shortest queue.
    pub(super) fn elder(&mut self, aged: Option<u32>, shortest: Position) -> Position {
        let aged = aged.map_or(shortest, |flow| self.pool.position(flow));
        if aged == shortest {
            return shortest;
        }
        let due = u64::from(self.pool.head_len(shortest)) * (AGED_OF - 1);
        if self.bursts.spare >= due {
            self.bursts.spare -= due;
            return shortest;
        }
        self.bursts.spare += u64::from(self.pool.head_len(aged));
        aged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Handle, Packet, UserId};
    use crate::sched::standing::Class;
    use crate::sched::testing::limits;
    use crate::sched::{Drops, Scheduler};
    use crate::units::Bytes;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn come(makeway: &mut Makeway, ms: u64, flow: u32) {
        let mut drops = Drops::default();
        let pkt = Packet::new(at(ms), Handle(0), FlowId(flow), UserId(0), Bytes::new(1000));
        makeway.enqueue(at(ms), pkt, &mut drops);
        assert!(drops.is_empty());
    }

    #[test]
    fn packets_of_a_flow_that_fell_hold_up_nobody() {
        let mut makeway = Makeway::new(limits(200, 1_000_000), 1, Bytes::new(1538), 1);
        for ms in (0..3000).step_by(20) {
            for flow in [0, 1] {
                come(&mut makeway, ms, flow);
                makeway.dequeue(at(ms), &mut Drops::default()).unwrap();
            }
        }
        // Three that can age are before one of the other flow.
        for flow in [0, 0, 0, 1] {
            come(&mut makeway, 3000, flow);
        }
        makeway.flows[0].record.class = Class::Bulk;
        makeway.change(0, Class::Standing, Class::Bulk);
        assert_eq!(makeway.aged(at(3025)), Some(1));
    }
}
