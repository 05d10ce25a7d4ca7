// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makeway: priority that a flow earns by its behaviour, keeps through bursts and stalls, loses when it builds a
//! standing queue, and regains without help.
//!
//! Sources: the order of those that go first and the drop are SQF's (T. Bonald, L. Muscariello, N. Ostallo, ICC 2011, Algorithm
//! 1, [`super::sqf`]); that a threshold bounds their share is NCQ's ([`super::ncq`]); that users share by weights is of PPS; that what
//! is too old is not sent is of SBPN ([`crate::send`]). Bulk flows have deficit round robin as `fq-codel` (RFC 8290) and CoDel (RFC
//! 8289, [`super::codel`]). The test for starving streams is S. Floyd, K. Fall, "Promoting the use of end-to-end congestion control in
//! the Internet", IEEE/ACM ToN 7(4), 1999, the other way round. The rest is ours; docs/disciplines/makeway.md argues it.
//!
//! Flows are *new*, in good *standing*, on *probation* or *bulk*. Those in standing or on probation leave first, the shortest queue first
//! and for 7 of 8 bytes a burst that has waited for 20 ms ([`aged`]); then new ones, the shortest queue first, with a tenth of the link beside those in standing ([`first`]); then bulk flows by turns. A flow changes its class when a packet of it comes ([`record`] has the constants):
//!
//! | from | to | when |
//! | --- | --- | --- |
//! | new | bulk | its queue has stood (not been empty) for 250 ms; or after 4 s in which it has not come to stand, 5 s with an eighth of the link, in which it is tested |
//! | new | standing | it fits, or the link is not contended; and after 2 s, the last of them without a loss or a queue that stood, or after 4 s, if it has shown its rate |
//! | standing | bulk | its queue stood for longer than it has earned: 2 s, and one in four in which it did not, up to 8 s; or those in standing are crowded, and it brings a quarter more than it ever did while they were not, but has less than half of their traffic |
//! | new, standing | bulk | asked, it responds: on a contended link, when it brings more than an eighth of it, or large packets while those in standing are crowded, and more than it has shown or has filled the buffer alone, it loses one of 16 large packets for a second; what then falls below 11/16, or has back what it gave when that ends, is elastic; so is a flow that grows by a third all the same, or in standing brings more than it has shown when those in standing have 3/4 of the link |
//! | bulk | probation | it starves, is no TCP and fits: for a second (twice as long each time that it grew on probation) its arrivals are 8 times what TCP would send at its loss, of a quarter or more; or for four seconds (and twice as long each time) more than TCP would, of a fifth or more |
//! | probation | standing | after 4 s |
//! | probation | bulk | it brings half as much again as it did when it starved, and an eighth of the link; or as from standing |
//! | bulk | new | `2^d` s without a loss or a queue that stood, with less than an eighth of the link or no more than it has shown to be its own; `d`, 2 at first and 6 at most, grows with each fall and shrinks with each 8 s in standing; up to 2, `2^d` s are enough |
//!
//! A flow fits if it and those in standing are within 9/10 of the link (3/5 where bulk of other users waits, once those bring an eighth), and those are not crowded: had
//! packets waiting for a whole window, or hold 3/4 of the buffer. A bulk flow that does not, and loses half of its packets for 2 s, has an eighth of a turn.
//!
//! The link is contended if it was busy for a whole window: bulk waits, or those that go first have more than the link.
//! A flow has shown half as much again as it brought while it could have had more: while no bulk waited and the buffer was empty at times,
//! or those that go first left half of the link; and as it brought when it was asked and went on.
//!
//! A packet of a flow in standing whose queue stands is dropped at 75 ms, later on a slow link, if another is behind it. While bulk waits it gets a tenth
//! of the link, 3/8 where it is other users', a quarter beside new flows. A full buffer takes from the longest queue of the user that holds
//! most, from one in standing if it is 64 times longer; a packet's size there is its bytes and its share of the limit in packets, a quantum at most, so that
//! many small packets are no small queue.
//!
//! CoDel's target for a bulk flow's queue is 20 ms, and doubles, to 80 ms at most, if the link idles after a drop or a mark of it ([`lift`]).
//! For two seconds after a flow fell its packets that have waited for 300 ms are dropped, but for four ([`bulk`]).
//!
//! Cost per packet: O(1) amortised, as for `fq-codel`; nothing looks at flows that the packet is not of.

mod aged;
mod bulk;
mod first;
mod full;
mod lift;
mod meter;
mod record;

use super::codel::{CoDelParams, Control, Law};
use super::order::{Buckets, Order, Position};
use super::queues::{Moved, Pool};
use super::spec::{self, Describe, FULL_FRAME};
use super::standing::{Class, Standing};
use super::turns::{Turn, Turns};
use super::{Backlog, DropFrom, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, FlowId, Packet, UserId};
use crate::param::Visitor;
use crate::units::{Bytes, Instant};
use aged::Bursts;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
pub(crate) use full::SHIELD;
use lift::{IdleTime, Lift, TARGET};
use meter::{Meter, Waiting};
pub(crate) use record::STANDS;
use record::{Past, Record};

/// Owed to bulk for each byte that goes before it, in 120ths: a ninth of those in standing, 3/5 if other users
/// wait, a third of new flows. Those in standing owe a ninth to new flows too.
pub(crate) const OWED_OF: u64 = 120;
pub(crate) const OWED_STANDING: u64 = 13;
pub(crate) const OWED_USERS: u64 = 72;
const OWED_NEW: u64 = 40;
/// Bytes that may go first beyond that while bulk of other users waits.
const BURST: u64 = 256 << 10;
/// The debt of a user's bulk flows for its new ones, which went first, at most: bytes, and turns with weight 1, so that a departure
/// passes few turns with any quantum.
const DEBT: i64 = 64 << 10;
const DEBT_TURNS: i64 = 64;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakewayParams {
    /// Bytes that a bulk flow, and a user of weight 1, may send in a round; 64 B to 1 MiB.
    pub quantum: Bytes,
}

impl Default for MakewayParams {
    /// One full Ethernet frame on the wire.
    fn default() -> Self {
        Self {
            quantum: FULL_FRAME,
        }
    }
}

impl Describe for MakewayParams {
    const NAME: &'static str = "makeway";
    const ABOUT: &'static str =
        "flows without a standing queue, then new flows, then users and flows in turn";
    const IN_THE_KERNEL: bool = true;

    fn needs(&self) -> Needs {
        Needs {
            users: true,
            weights: true,
            drops_longest: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        spec::quantum(&mut self.quantum, visit);
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        let mut makeway = Makeway::new(env.limits, env.users, self.quantum, env.seed);
        for (user, weight) in &env.weights {
            makeway.set_weight(*user, *weight);
        }
        Box::new(makeway)
    }
}

/// The order that flows of `class` are in: two classes share one.
fn order_of(class: Class) -> usize {
    match class {
        Class::New => 0,
        Class::Standing | Class::Probation => 1,
        Class::Bulk => 2,
    }
}

/// Priority that is earned.
#[derive(Clone, Debug)]
pub struct Makeway {
    pool: Pool,
    flows: Vec<FlowState>,
    rests: Vec<FlowRest>,
    users: Vec<User>,
    /// Flows with packets by size; see [`order_of`].
    orders: [Buckets; 3],
    bursts: Bursts,
    /// Bulk flows of each user, and the users that have some.
    flow_turns: Turns,
    user_turns: Turns,
    round: Turn,
    /// Packets of bulk flows, and of those in standing.
    waiting: u32,
    standing: u32,
    /// 120ths of bytes: to bulk, to that of other users, and to new flows behind those in standing.
    owed: u64,
    owed_others: u64,
    owed_new: u64,
    /// The limit in packets.
    most: u32,
    meter: Meter,
    idle: IdleTime,
    /// CoDel's, without a lift.
    law: Law,
    quantum: i64,
    /// Size of a packet for the drop beside its bytes.
    slot: u32,
    /// The user that holds most for its weight, of those of whom a packet came since it held less.
    heaviest: u32,
    /// No new flow with packets has had them for longer than since then.
    earliest: Instant,
}

/// State of a flow that each packet of it reads: with many flows a line of the cache is a miss, and this is one line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct FlowState {
    user: u32,
    /// In the round of its user; and before its first turn there.
    in_round: bool,
    is_fresh: bool,
    record: Record,
}

// Less where 64 bits are aligned to 32.
const _: () = assert!(size_of::<FlowState>() == 64 && size_of::<FlowRest>() <= 144);

/// The rest of a flow's state, which most packets of a flow that is not bulk do without.
#[derive(Clone, Debug, Default)]
struct FlowRest {
    past: Past,
    deficit: i64,
    control: Control,
    lift: Lift,
}

#[derive(Clone, Debug)]
struct User {
    flows: Turn,
    in_round: bool,
    is_fresh: bool,
    weight: u32,
    /// Packets of its bulk flows.
    waiting: u32,
    deficit: i64,
    /// The size of its new and bulk flows for the drop, and the longest of them, of those that had a packet since.
    held: u64,
    longest: u32,
}

impl Makeway {
    /// No packets; `users` users of weight 1, each of which, and each flow of it, may send `quantum` bytes in a round.
    /// `seed` is that of its orders of flows.
    pub fn new(limits: Limits, users: u32, quantum: Bytes, seed: u64) -> Self {
        let user = User {
            flows: Turn::EMPTY,
            in_round: false,
            is_fresh: false,
            weight: 1,
            waiting: 0,
            deficit: 0,
            held: 0,
            longest: 0,
        };
        let slot = (limits.bytes.get() / u64::from(limits.packets)).min(quantum.get());
        let most = limits.bytes.get() + slot * u64::from(limits.packets);
        let order = || {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            Buckets::new(limits.packets + 1, most, seed)
        };
        Self {
            pool: Pool::new(limits, 0),
            flows: vec![FlowState::default(); limits.flows as usize],
            rests: vec![FlowRest::default(); limits.flows as usize],
            users: vec![user; users as usize],
            orders: [order(), order(), order()],
            bursts: Bursts::new(limits.packets + 1),
            flow_turns: Turns::new(limits.flows),
            user_turns: Turns::new(users),
            round: Turn::EMPTY,
            waiting: 0,
            standing: 0,
            owed: 0,
            owed_others: 0,
            owed_new: 0,
            most: limits.packets,
            meter: Meter::default(),
            idle: IdleTime::default(),
            law: Law::new(CoDelParams {
                target: TARGET,
                ecn: true,
                ..CoDelParams::default()
            }),
            // At most 1 MiB.
            quantum: quantum.get() as i64,
            slot: slot as u32,
            heaviest: 0,
            earliest: Instant::ZERO,
        }
    }

    /// A flow's position in the order of its class: by bytes, which decide who goes first; of bulk by size, which decides
    /// who pays.
    fn ranked(&self, class: Class, position: Position, packets: u32) -> Position {
        match class {
            Class::Bulk => self.sized(position, packets),
            _ => position,
        }
    }

    /// After a packet came or went, where there had been `before`.
    fn update(&mut self, moved: &Moved, before: u32) {
        let record = &self.flows[moved.packet.flow.0 as usize].record;
        let (class, now) = (record.class, record.packets);
        let old = self.ranked(class, moved.old, before);
        let new = self.ranked(class, moved.new, now);
        self.orders[order_of(class)].update(old, new);
    }

    /// The first packet of `flow`, which has one.
    fn take(&mut self, now: Instant, flow: u32) -> Packet {
        let moved = self.pool.pop(self.pool.position(flow), DropFrom::Head);
        self.bursts.remove(moved.slot);
        let FlowState { record, user, .. } = &mut self.flows[flow as usize];
        record.account(now, &mut self.rests[flow as usize].past);
        let before = record.packets;
        record.packets -= 1;
        let user = &mut self.users[*user as usize];
        match record.class {
            Class::Standing | Class::Probation => self.standing -= 1,
            class => {
                user.held -= u64::from(moved.packet.len_u32() + self.slot);
                if class == Class::Bulk {
                    self.waiting -= 1;
                    user.waiting -= 1;
                }
            }
        }
        self.update(&moved, before);
        moved.packet
    }

    fn give_up(&mut self, now: Instant, pkt: Packet, why: DropReason, drops: &mut Drops) {
        self.rests[pkt.flow.0 as usize].past.on_loss(now, 1);
        drops.push(pkt, why);
    }
}

// Arrivals.
impl Makeway {
    /// The class of `flow`, as a packet of `user` comes.
    fn meet(&mut self, now: Instant, flow: u32, user: u32) {
        let state = &mut self.flows[flow as usize];
        let rest = &mut self.rests[flow as usize];
        if state.record.is_forgotten(now) {
            state.record.begin(now, &mut rest.past);
            rest.lift = Lift::default();
        }
        // A flow belongs to the user of the packet that made it active.
        if state.record.packets == 0 && !state.in_round {
            state.user = user;
        }
        state.record.account(now, &mut rest.past);
        self.meter.turn(now);
        if self.pool.backlog().packets == 0 {
            self.meter.on_begin();
            self.idle.end(now, self.meter.frame());
            self.earliest = now;
        }
        if state.record.is_settled(now, &rest.past) {
            return;
        }
        let user = state.user;
        let mut link = self.meter.link();
        link.crowded |= self.standing_is_most();
        link.others |= self.waiting > self.users[user as usize].waiting;
        let record = &mut self.flows[flow as usize].record;
        let past = &mut self.rests[flow as usize].past;
        let was = record.class;
        let class = record.judge(now, link, past);
        if class.goes_first() && !was.goes_first() {
            self.meter.on_raised(past.most());
        }
        if class != was {
            self.change(flow, was, class);
        }
    }

    /// `flow` is in another class; its packets change the order.
    fn change(&mut self, flow: u32, from: Class, to: Class) {
        if to == Class::Bulk {
            // CoDel did not see the packets that left since the flow was bulk before.
            self.rests[flow as usize].control = Control::default();
        }
        let FlowState { record, user, .. } = &self.flows[flow as usize];
        let packets = record.packets;
        if packets == 0 {
            return;
        }
        if to == Class::New {
            self.earliest = self.earliest.min(record.busy());
        }
        let position = self.pool.position(flow);
        let [old, new] = [from, to].map(|class| self.ranked(class, position, packets));
        let size = u64::from(self.sized(position, packets).bytes);
        let user = &mut self.users[*user as usize];
        match from {
            Class::Standing | Class::Probation => self.standing -= packets,
            class => {
                user.held -= size;
                if class == Class::Bulk {
                    self.waiting -= packets;
                    user.waiting -= packets;
                }
            }
        }
        match to {
            Class::Standing | Class::Probation => self.standing += packets,
            class => {
                user.held += size;
                if class == Class::Bulk {
                    self.waiting += packets;
                    user.waiting += packets;
                    self.enter(flow);
                }
            }
        }
        self.orders[order_of(from)].update(old, Position::NONE);
        self.orders[order_of(to)].update(Position::NONE, new);
    }

    /// `flow`, which is bulk and has packets, has turns in the round of its user, and that user in the round of users.
    fn enter(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if state.in_round {
            return;
        }
        (state.in_round, state.is_fresh) = (true, true);
        self.rests[flow as usize].deficit = self.quantum;
        let user = &mut self.users[state.user as usize];
        self.flow_turns.push_front(&mut user.flows, flow);
        if !user.in_round {
            (user.in_round, user.is_fresh, user.deficit) = (true, true, self.quantum);
            self.user_turns.push_front(&mut self.round, state.user);
        }
    }
}

impl Scheduler for Makeway {
    fn enqueue(&mut self, now: Instant, mut pkt: Packet, drops: &mut Drops) {
        if !self.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let flow = pkt.flow.0;
        // Its state is another miss, and comes meanwhile.
        self.pool.fetch_queue(flow);
        self.meet(now, flow, pkt.user().0);
        let state = &mut self.flows[flow as usize];
        state.record.on_arrival(pkt.len_u32());
        let past = &mut self.rests[flow as usize].past;
        if state.record.is_asked(pkt.len_u32(), past) && !pkt.mark() {
            return drops.push(pkt, DropReason::Early);
        }
        let before = state.record.packets;
        state.record.on_queued(now);
        let user = &mut self.users[state.user as usize];
        let goes_first = state.record.goes_first();
        if goes_first {
            self.standing += 1;
        } else {
            user.held += u64::from(pkt.len_u32() + self.slot);
        }
        if state.record.class == Class::Bulk {
            self.waiting += 1;
            user.waiting += 1;
            self.enter(flow);
        }
        let moved = self.pool.push(pkt);
        self.update(&moved, before);
        match goes_first {
            true => self.list(now, &moved),
            false => self.weigh(flow),
        }
        while self.pool.is_over() {
            let Some(longest) = self.longest() else {
                break;
            };
            if self.waiting == 0 {
                self.rests[longest as usize].past.on_full(self.meter.sent());
            }
            let dropped = self.take(now, longest);
            self.give_up(now, dropped, DropReason::LongestQueue, drops);
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        // No turn passes, however often an empty buffer is asked.
        if self.pool.backlog().packets == 0 {
            return None;
        }
        let aged = self.aged(now);
        let first = match self.owed_to_new(now, aged) {
            None if self.is_due(aged) => None,
            None => self.first(now, aged, drops),
            due => due,
        };
        let pkt = match first {
            Some(pkt) => pkt,
            None => self.bulk(now, drops)?,
        };
        let record = &mut self.flows[pkt.flow.0 as usize].record;
        self.meter.turn(now);
        let waited = now.saturating_since(pkt.arrived);
        record.on_departure(now, waited, self.meter.short());
        let waiting = Waiting {
            all: self.pool.backlog().packets,
            standing: self.standing,
            bulk: self.waiting,
        };
        if waiting.all == 0 {
            self.idle.begin(now);
        }
        let len = pkt.len_u32().into();
        self.meter.on_departure(record.class, len, waiting);
        Some(pkt)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.pool.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.pool.backlog()
    }

    fn forget(&mut self, flow: FlowId) {
        let Some(state) = self.flows.get_mut(flow.0 as usize) else {
            return;
        };
        if state.in_round {
            let user = &mut self.users[state.user as usize];
            self.flow_turns.remove(&mut user.flows, flow.0);
        }
        *state = FlowState::default();
        self.rests[flow.0 as usize] = FlowRest::default();
    }

    fn set_weight(&mut self, user: UserId, weight: u32) -> bool {
        assert!(
            (1..=65_536).contains(&weight),
            "weight {weight} is outside 1 to 65536"
        );
        self.users[user.0 as usize].weight = weight;
        true
    }

    fn standing(&self, flow: FlowId) -> Option<Standing> {
        let state = self.flows.get(flow.0 as usize)?;
        state.record.standing(&self.rests[flow.0 as usize].past)
    }
}

#[cfg(test)]
mod tests;
