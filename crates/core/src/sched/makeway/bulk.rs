// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk: turns of users and of the flows of each, by deficit, and CoDel in the flow whose turn it is.

use super::{BURST, Class, Drops, FULL_FRAME, Makeway, OWED_OF};
use crate::packet::{DropReason, Ecn, Packet};
use crate::units::{Bytes, Duration, Instant};

/// Until this time has passed since its fall, packets of a bulk flow that have waited for longer than [`STALE`] are dropped while more than
/// [`KEPT`] wait; CoDel then drops nothing for [`RESPONDS`].
const CLEARS: Duration = Duration::from_secs(2);
const STALE: Duration = Duration::from_millis(300);
const KEPT: u32 = 4;
const RESPONDS: Duration = Duration::from_millis(500);

impl Makeway {
    /// Whether bulk's turn has come, where flow `aged` has aged.
    pub(super) fn is_due(&self, aged: Option<u32>) -> bool {
        self.waiting > 0 && self.is_owed_to_bulk(self.quantum.unsigned_abs(), aged)
    }

    /// Whether bulk is owed these bytes and need not wait for flow `aged`, or that of other users is owed more than it waits for.
    pub(super) fn is_owed_to_bulk(&self, bytes: u64, aged: Option<u32>) -> bool {
        self.owed >= OWED_OF * (bytes + self.grace(aged)) || self.owed_others >= OWED_OF * BURST
    }

    /// The bulk flow whose turn it is.
    fn turn(&mut self) -> Option<u32> {
        loop {
            let at = self.user_turns.head(self.round)?;
            let user = &mut self.users[at as usize];
            if user.deficit <= 0 {
                user.deficit += self.quantum * i64::from(user.weight);
                user.is_fresh = false;
                self.user_turns.rotate(&mut self.round);
                continue;
            }
            while let Some(at) = self.flow_turns.head(user.flows) {
                let flow = &mut self.flows[at as usize];
                let rest = &mut self.rests[at as usize];
                let is_bulk = flow.record.class == Class::Bulk;
                if is_bulk && flow.record.packets > 0 && rest.deficit > 0 {
                    return Some(at);
                }
                if is_bulk && flow.record.packets > 0 {
                    let floods = rest.past.floods();
                    rest.deficit += if floods {
                        self.quantum / 8
                    } else {
                        self.quantum
                    };
                } else if !is_bulk || !flow.is_fresh {
                    flow.in_round = false;
                    self.flow_turns.remove(&mut user.flows, at);
                    continue;
                }
                // Also one that is empty after its first turn, so that nobody lives on first turns.
                flow.is_fresh = false;
                self.flow_turns.rotate(&mut user.flows);
            }
            if user.is_fresh {
                user.is_fresh = false;
                self.user_turns.rotate(&mut self.round);
            } else {
                user.in_round = false;
                self.user_turns.remove(&mut self.round, at);
            }
        }
    }

    /// Drops what `flow`, which is bulk, has had for too long since it fell. TCP in slow start falls with a queue that takes a second or more of a
    /// bulk flow's part, and what it has to send again would wait behind all of that. CoDel would drop some of what is sent again.
    fn clear(&mut self, now: Instant, flow: u32, drops: &mut Drops) {
        loop {
            let record = &self.flows[flow as usize].record;
            if record.packets <= KEPT || now.saturating_since(record.since()) >= CLEARS {
                return;
            }
            let head = self.pool.head(self.pool.position(flow));
            if now.saturating_since(head.arrived) <= STALE {
                return;
            }
            let stale = self.take(now, flow);
            self.give_up(now, stale, DropReason::Sojourn, drops);
            self.rests[flow as usize].control.spare(now + RESPONDS);
        }
    }

    /// A packet of the bulk flow whose turn it is, as CoDel leaves it.
    pub(super) fn bulk(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        let flow = self.turn()?;
        self.clear(now, flow, drops);
        let rest = &mut self.rests[flow as usize];
        let target = rest.lift.target(now, &self.idle);
        let mut control = core::mem::take(&mut rest.control);
        // A full packet behind the head is no queue (RFC 8289 §5.6), in cells or not, and with any quantum.
        let head = self.pool.head_len(self.pool.position(flow));
        let mtu = Bytes::new(head.into()).max(FULL_FRAME);
        let mut law = self.law.with(target, mtu);
        let mut popped = 0;
        let pop = || {
            if self.flows[flow as usize].record.packets == 0 {
                return None;
            }
            popped += 1;
            let pkt = self.take(now, flow);
            Some((pkt, Bytes::new(self.pool.bytes(flow).into())))
        };
        // CoDel never empties a queue: there is one.
        let pkt = control.dequeue(now, &mut law, pop, drops)?;
        let rest = &mut self.rests[flow as usize];
        rest.control = control;
        let len = i64::from(pkt.len_u32());
        rest.deficit -= len;
        if popped > 1 || pkt.ecn() == Ecn::Marked {
            rest.past.on_loss(now, popped - 1);
            rest.lift.on_cut(now);
        }
        let user = self.flows[flow as usize].user;
        self.users[user as usize].deficit -= len;
        let paid = OWED_OF * u64::from(pkt.len_u32());
        self.owed = self.owed.saturating_sub(paid);
        self.owed_others = self.owed_others.saturating_sub(paid);
        Some(pkt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Handle, UserId};
    use crate::sched::Scheduler;
    use crate::sched::testing::limits;
    use crate::units::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn makeway(quantum: u64) -> Makeway {
        Makeway::new(limits(200, 1_000_000), 1, Bytes::new(quantum), 1)
    }

    /// `n` packets of `len` bytes of flow 0 arrive.
    fn come(makeway: &mut Makeway, ms: u64, n: u32, len: u64) {
        let mut drops = Drops::default();
        for _ in 0..n {
            let pkt = Packet::new(at(ms), Handle(0), FlowId(0), UserId(0), Bytes::new(len));
            makeway.enqueue(at(ms), pkt, &mut drops);
        }
        assert!(drops.is_empty());
    }

    /// A packet of it departs; the number of those dropped before.
    fn leave(makeway: &mut Makeway, ms: u64) -> usize {
        let mut drops = Drops::default();
        makeway.dequeue(at(ms), &mut drops).unwrap();
        drops.drain().count()
    }

    #[test]
    fn a_flow_that_was_not_bulk_meanwhile_is_not_dropped_from_for_that_time() {
        let mut makeway = makeway(1538);
        // Its queue stands; CoDel drops from 390 ms on.
        come(&mut makeway, 0, 1, 1000);
        come(&mut makeway, 260, 40, 1000);
        assert_eq!([290, 391].map(|ms| leave(&mut makeway, ms)), [0, 1]);
        makeway.flows[0].record.class = Class::Standing;
        makeway.change(0, Class::Bulk, Class::Standing);
        // 38 packets: all but the last are late.
        assert_eq!(leave(&mut makeway, 420), 37);
        come(&mut makeway, 5_000, 40, 1000);
        makeway.flows[0].record.class = Class::Bulk;
        makeway.change(0, Class::Standing, Class::Bulk);
        assert_eq!(leave(&mut makeway, 5_030), 0);
    }

    /// As at 512 kbit/s, where a packet of 1500 B in cells takes 26.5 ms.
    #[test]
    fn a_packet_behind_another_is_no_queue_also_if_it_is_longer_than_the_quantum() {
        let mut makeway = makeway(1538);
        come(&mut makeway, 0, 1, 1696);
        come(&mut makeway, 260, 10, 1696);
        for _ in 0..10 {
            assert_eq!(leave(&mut makeway, 290), 0);
        }
        // One waits, and another arrives.
        for ms in (290..3000).step_by(26) {
            come(&mut makeway, ms, 1, 1696);
            assert_eq!(leave(&mut makeway, ms), 0, "at {ms} ms");
        }
        assert_eq!(makeway.flows[0].record.class, Class::Bulk);
    }

    #[test]
    fn codel_drops_from_a_queue_that_stands_with_any_quantum() {
        for quantum in [64, 1538, 1 << 20] {
            let mut makeway = makeway(quantum);
            come(&mut makeway, 0, 1, 1000);
            come(&mut makeway, 260, 40, 1000);
            let dropped = [290, 391].map(|ms| leave(&mut makeway, ms));
            assert_eq!(dropped, [0, 1], "{quantum} B");
        }
    }

    /// Packets that are dropped as one departs `ms` after a flow fell with 50, which came 251 ms before.
    fn cleared(ms: u64) -> usize {
        let mut makeway = makeway(1538);
        come(&mut makeway, 0, 49, 1000);
        come(&mut makeway, 251, 1, 1000);
        leave(&mut makeway, 251 + ms)
    }

    #[test]
    fn what_a_flow_that_fell_has_kept_for_too_long_is_dropped_but_for_four_packets() {
        assert_eq!(cleared(49), 0);
        assert_eq!(cleared(50), 46);
        assert_eq!(cleared(1999), 46);
        // From then on CoDel alone drops from it.
        assert_eq!(cleared(2000), 0);
    }

    #[test]
    fn codel_waits_for_the_response_of_a_flow_that_was_dropped_from_as_it_fell() {
        let mut makeway = makeway(1538);
        come(&mut makeway, 0, 49, 1000);
        come(&mut makeway, 251, 1, 1000);
        come(&mut makeway, 280, 60, 1000);
        assert_eq!(leave(&mut makeway, 301), 49);
        // CoDel sees a queue above its target all the time; its interval is 100 ms.
        come(&mut makeway, 570, 60, 1000);
        for _ in 0..60 {
            assert_eq!(leave(&mut makeway, 580), 0);
        }
        assert_eq!([800, 801].map(|ms| leave(&mut makeway, ms)), [0, 1]);
    }
}
