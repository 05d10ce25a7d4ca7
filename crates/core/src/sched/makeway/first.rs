// SPDX-License-Identifier: MIT OR Apache-2.0
//! Departures that go before bulk, and what bulk and new flows are owed for them.

use super::record::STANDS;
use super::{
    Class, DEBT, DEBT_TURNS, Makeway, OWED_NEW, OWED_OF, OWED_STANDING, OWED_USERS, order_of,
};
use crate::packet::{DropReason, Packet};
use crate::sched::Drops;
use crate::sched::order::{Order, Position};
use crate::units::Instant;

impl Makeway {
    /// The packet of a flow in standing or on probation, of which `aged` has aged, or else of a new one.
    pub(super) fn first(
        &mut self,
        now: Instant,
        aged: Option<u32>,
        drops: &mut Drops,
    ) -> Option<Packet> {
        self.judge_new(now);
        let position = match self.orders[order_of(Class::Standing)].shortest() {
            Some(shortest) => self.elder(aged, shortest),
            None => self.orders[order_of(Class::New)].shortest()?,
        };
        let flow = self.pool.flow_at(position.node);
        let record = &self.flows[flow as usize].record;
        let stands = record.class != Class::New && record.stands(now);
        let mut pkt = self.take(now, flow);
        let deadline = self.meter.deadline();
        while stands
            && now.saturating_since(pkt.arrived) > deadline
            && self.flows[flow as usize].record.packets > 0
        {
            self.give_up(now, pkt, DropReason::Sojourn, drops);
            pkt = self.take(now, flow);
        }
        self.owe(&pkt);
        Some(pkt)
    }

    /// The new flow with the longest queue is judged: beside those in standing, or new ones that are kept short, it may not be
    /// served at all, and a flow that is not served sends no packet by which it could be judged. As bulk it has a floor.
    fn judge_new(&mut self, now: Instant) {
        // No queue of a new flow stands.
        if now.saturating_since(self.earliest) <= STANDS {
            return;
        }
        let Some(longest) = self.orders[order_of(Class::New)].longest() else {
            self.earliest = now;
            return;
        };
        let flow = self.pool.flow_at(longest.node);
        let past = &mut self.rests[flow as usize].past;
        if self.flows[flow as usize].record.waits_in_vain(now, past) {
            self.change(flow, Class::New, Class::Bulk);
        }
    }

    /// Adds the debts for `pkt`, which goes before bulk.
    fn owe(&mut self, pkt: &Packet) {
        let record = &self.flows[pkt.flow.0 as usize].record;
        let (is_new, goes_first) = (record.class == Class::New, record.goes_first());
        let len = u64::from(pkt.len_u32());
        let is_behind = !is_new && self.orders[order_of(Class::New)].shortest().is_some();
        // Half as much if bulk waits too, which has the other half.
        self.owed_new = match is_behind {
            true if self.waiting > 0 => self.owed_new + len * OWED_STANDING / 2,
            true => self.owed_new + len * OWED_STANDING,
            false => 0,
        };
        if self.waiting == 0 {
            self.owed = 0;
            return;
        }
        self.owed += len * if is_new { OWED_NEW } else { OWED_STANDING };
        if self.is_before_others(pkt) {
            self.owed_others += len * OWED_USERS;
            if goes_first {
                self.meter.on_owed();
            }
            if is_new {
                self.charge(pkt);
            }
        }
    }

    /// Whether bulk of other users than that of `pkt` waits.
    fn is_before_others(&self, pkt: &Packet) -> bool {
        let user = self.flows[pkt.flow.0 as usize].user;
        self.waiting > self.users[user as usize].waiting
    }

    /// The user of `pkt`, of a new flow, pays for it by turns of its bulk flows.
    fn charge(&mut self, pkt: &Packet) {
        let user = self.flows[pkt.flow.0 as usize].user;
        let user = &mut self.users[user as usize];
        if user.in_round {
            let most = DEBT.min(self.quantum * DEBT_TURNS);
            // A large packet of bulk may have cost more already, and that stays.
            let least = user.deficit.min(-most);
            user.deficit = (user.deficit - i64::from(pkt.len_u32())).max(least);
        }
    }

    /// The new flow with the shortest queue, if it is owed its first packet; and bulk, if that waits, is owed as much, where flow `aged` has
    /// aged.
    fn behind(&self, aged: Option<u32>) -> Option<Position> {
        // Mostly no new flow waits behind others.
        if self.owed_new == 0 || self.standing == 0 {
            return None;
        }
        let shortest = self.orders[order_of(Class::New)].shortest()?;
        let len = u64::from(self.pool.head_len(shortest));
        let is_owed = self.owed_new >= OWED_OF * len
            && (self.waiting == 0 || self.is_owed_to_bulk(len, aged));
        is_owed.then_some(shortest)
    }

    /// The packet that a new flow is owed. Those in standing can take all of the link without a queue that stands, and a call that begins would
    /// wait until it is bulk. If bulk waits too, it pays, so that those in standing lose nothing.
    pub(super) fn owed_to_new(&mut self, now: Instant, aged: Option<u32>) -> Option<Packet> {
        let flow = self.pool.flow_at(self.behind(aged)?.node);
        let pkt = self.take(now, flow);
        let paid = OWED_OF * u64::from(pkt.len_u32());
        self.owed_new -= paid;
        self.owed = self.owed.saturating_sub(paid);
        self.owed_others = self.owed_others.saturating_sub(paid);
        if self.is_before_others(&pkt) {
            self.charge(&pkt);
        }
        Some(pkt)
    }
}
