// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fair between users, shortest queue first inside each: weighted deficit round robin over users; of
//! the user whose turn it is, a packet of the flow that holds the least bytes. When the buffer is full,
//! one packet less in the longest flow of the user that holds the most bytes for its weight.
//!
//! Source: T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic",
//! ICC 2011, section VI: "FQ at user level and SQF at flow level", named there as future work. Deficit
//! round robin: M. Shreedhar, G. Varghese, SIGCOMM 1995.
//!
//! | papers | here |
//! | --- | --- |
//! | `ActiveList`, of users | [`Ring`] `active` |
//! | `Q_i` | `quantum * weight` |
//! | `DC_i` | `deficit` |
//! | `get_shortest`, `get_longest` in a user | [`Treap`] `flows` of the user |
//!
//! Cost per packet: O(log f) in the flows of the user, and O(log u) in the users for the drop.
//!
//! Departures from the papers: none where they speak. Chosen by us: drops compare `bytes / weight`
//! exactly, by cross-multiplication, and of equal users the one that has stood there for longest
//! gives the packet; a user whose shortest flow's packet exceeds its deficit waits for its next turn
//! even if another flow of it holds a smaller one. In backlogs a packet counts [`LEAST_COST`] bytes at least. A flow belongs to the user of the packet that made
//! it active, until it is empty.

use super::order::{Forest, NIL, Nodes, Position, Treap};
use super::queues::{LEAST_COST, Moved, Pool};
use super::ring::Ring;
use super::spec::{self, Describe, FULL_FRAME};
use super::{Backlog, DropFrom, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet, UserId};
use crate::param::Visitor;
use crate::random::Rng;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HierParams {
    /// Bytes that a user of weight 1 may send in a round; 64 B to 1 MiB.
    pub quantum: Bytes,
    /// Where longest queue drop takes its packet.
    pub drop_from: DropFrom,
}

impl Default for HierParams {
    /// One full Ethernet frame on the wire, and from the head.
    fn default() -> Self {
        Self {
            quantum: FULL_FRAME,
            drop_from: DropFrom::default(),
        }
    }
}

impl Describe for HierParams {
    const NAME: &'static str = "hier";
    const ABOUT: &'static str = "users in turn, of each the flow with the shortest queue";
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
        spec::drop_from(&mut self.drop_from, visit);
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        let mut hier = Hier::new(
            env.limits,
            env.users,
            self.quantum,
            self.drop_from,
            env.seed,
        );
        for (user, weight) in &env.weights {
            hier.set_weight(*user, *weight);
        }
        Box::new(hier)
    }
}

/// Weighted fair queueing of users, shortest queue first of a user's flows.
#[derive(Clone, Debug)]
pub struct Hier {
    pool: Pool,
    flows: Forest,
    /// The user that each active flow belongs to.
    owner: Vec<u32>,
    users: Vec<User>,
    active: Ring,
    /// Active users by bytes for their weight.
    heaviest: Treap,
    priorities: Rng,
    changes: u64,
    granted: bool,
    quantum: u64,
    drop_from: DropFrom,
}

#[derive(Clone, Debug)]
struct User {
    flows: Treap,
    deficit: u64,
    load: Load,
    priority: u32,
    links: [u32; 2],
}

/// A user's backlog by its weight, and its age.
#[derive(Clone, Copy, Debug)]
struct Load {
    bytes: u32,
    weight: u32,
    since: u64,
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, theirs) = (
            u64::from(self.bytes) * u64::from(other.weight),
            u64::from(other.bytes) * u64::from(self.weight),
        );
        // The heaviest is the last; of equals, the oldest.
        mine.cmp(&theirs).then(other.since.cmp(&self.since))
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Load {}

impl Nodes for [User] {
    type Key = Load;
    fn key(&self, node: u32) -> Load {
        self[node as usize].load
    }
    fn priority(&self, node: u32) -> u32 {
        self[node as usize].priority
    }
    fn child(&self, node: u32, side: usize) -> u32 {
        self[node as usize].links[side]
    }
    fn set_child(&mut self, node: u32, side: usize, child: u32) {
        self[node as usize].links[side] = child;
    }
}

impl Hier {
    /// No packets; `users` users of weight 1, each of which may send `quantum` bytes in a round. The
    /// shapes of its trees, and no decision, follow `seed`.
    pub fn new(limits: Limits, users: u32, quantum: Bytes, drop_from: DropFrom, seed: u64) -> Self {
        let mut priorities = Rng::new(seed);
        let user = User {
            flows: Treap::EMPTY,
            deficit: 0,
            load: Load {
                bytes: 0,
                weight: 1,
                since: 0,
            },
            priority: 0,
            links: [NIL; 2],
        };
        Self {
            pool: Pool::new(limits, LEAST_COST),
            flows: Forest::new(limits.packets + 1, priorities.next_u64()),
            owner: vec![NIL; limits.flows as usize],
            users: vec![user; users as usize],
            active: Ring::new(users),
            heaviest: Treap::EMPTY,
            priorities,
            changes: 0,
            granted: false,
            quantum: quantum.get(),
            drop_from,
        }
    }

    /// Gives `user` another load, and its place among the users by it.
    fn reload(&mut self, user: u32, new: Load) {
        let old = self.users[user as usize].load;
        if old.bytes > 0 {
            self.heaviest.remove(&mut self.users[..], user, old);
        }
        self.changes += 1;
        let state = &mut self.users[user as usize];
        state.load = Load {
            since: self.changes,
            ..new
        };
        state.priority = self.priorities.next_u32();
        if new.bytes > 0 {
            self.heaviest.insert(&mut self.users[..], user);
        }
    }

    /// After a packet came or went: both trees, and whether the user is active.
    fn update(&mut self, moved: &Moved) {
        let flow = moved.packet.flow.0;
        let user = self.owner[flow as usize];
        let state = &mut self.users[user as usize];
        self.flows.update(&mut state.flows, moved.old, moved.new);
        let load = state.load;
        let bytes = load.bytes - moved.old.bytes + moved.new.bytes;
        self.reload(user, Load { bytes, ..load });
        match (self.active.contains(user), bytes) {
            (false, _) => self.active.push(user),
            (true, 0) => self.leave(user),
            _ => {}
        }
    }

    fn leave(&mut self, user: u32) {
        if self.active.head() == Some(user) {
            self.granted = false;
        }
        self.active.remove(user);
        self.users[user as usize].deficit = 0;
    }

    fn take(&mut self, position: Position, from: DropFrom) -> Packet {
        let moved = self.pool.pop(position, from);
        self.update(&moved);
        moved.packet
    }

    fn longest(&self) -> Option<Position> {
        let user = self.heaviest.last(&self.users[..])?;
        self.flows.longest(&self.users[user as usize].flows)
    }
}

impl Scheduler for Hier {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if !self.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let flow = pkt.flow.0;
        if self.pool.bytes(flow) == 0 {
            self.owner[flow as usize] = pkt.user().0;
        }
        let moved = self.pool.push(pkt);
        self.update(&moved);
        while self.pool.is_over() {
            let Some(longest) = self.longest() else {
                break;
            };
            let dropped = self.take(longest, self.drop_from);
            drops.push(dropped, DropReason::LongestQueue);
        }
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        loop {
            let user = self.active.head()?;
            let state = &mut self.users[user as usize];
            if !self.granted {
                state.deficit += self.quantum * u64::from(state.load.weight);
                self.granted = true;
            }
            let shortest = self.flows.position(state.flows.first(&self.flows)?);
            let len = u64::from(self.pool.head_len(shortest));
            if len <= state.deficit {
                state.deficit -= len;
                return Some(self.take(shortest, DropFrom::Head));
            }
            self.active.rotate();
            self.granted = false;
        }
    }

    fn next_departure(&self) -> Option<Instant> {
        self.pool.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.pool.backlog()
    }

    fn set_weight(&mut self, user: UserId, weight: u32) -> bool {
        assert!(
            (1..=65_536).contains(&weight),
            "weight {weight} is outside 1 to 65536"
        );
        let old = self.users[user.0 as usize].load;
        self.reload(user.0, Load { weight, ..old });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, of, packet};

    #[test]
    fn a_user_of_many_flows_gets_no_more_and_each_users_stream_is_first_inside_its_share() {
        let mut hier = Hier::new(limits(50, 75_000), 2, Bytes::new(1500), DropFrom::Head, 7);
        let mut drops = Drops::default();
        // User 0 has four bulk flows, user 1 has one; each has a stream as well.
        for n in 0..12 {
            hier.enqueue(Instant::ZERO, of(0, packet(n, n % 4, 1500)), &mut drops);
        }
        for n in 12..18 {
            hier.enqueue(Instant::ZERO, of(1, packet(n, 5, 1500)), &mut drops);
        }
        hier.enqueue(Instant::ZERO, of(0, packet(18, 6, 200)), &mut drops);
        hier.enqueue(Instant::ZERO, of(1, packet(19, 7, 200)), &mut drops);
        let mut sent = Vec::new();
        while let Some(pkt) = hier.dequeue(Instant::ZERO, &mut drops) {
            sent.push(pkt);
        }
        let first = |user| {
            sent.iter()
                .find(|p| p.user() == UserId(user))
                .unwrap()
                .handle
                .0
        };
        assert_eq!((first(0), first(1)), (18, 19));
        let bytes = |user| -> u64 {
            let of_user = sent[..10].iter().filter(|p| p.user() == UserId(user));
            of_user.map(|p| p.len().get()).sum()
        };
        assert!(bytes(0).abs_diff(bytes(1)) <= 1500);
    }

    #[test]
    fn a_user_of_weight_three_sends_three_times_as_much() {
        let mut hier = Hier::new(limits(64, 75_000), 2, Bytes::new(1000), DropFrom::Head, 7);
        hier.set_weight(UserId(1), 3);
        let mut drops = Drops::default();
        for n in 0..60 {
            hier.enqueue(Instant::ZERO, of(n % 2, packet(n, n % 2, 1000)), &mut drops);
        }
        let sent = (0..20).filter_map(|_| hier.dequeue(Instant::ZERO, &mut drops));
        assert_eq!(sent.filter(|p| p.user() == UserId(1)).count(), 15);
    }

    #[test]
    fn the_user_that_holds_most_for_its_weight_pays_for_a_full_buffer() {
        let mut hier = Hier::new(limits(5, 75_000), 2, Bytes::new(1500), DropFrom::Head, 7);
        hier.set_weight(UserId(1), 2);
        let mut drops = Drops::default();
        for (n, user) in [0, 0, 1, 1, 1, 1].into_iter().enumerate() {
            hier.enqueue(
                Instant::ZERO,
                of(user, packet(n as u32, user, 1000)),
                &mut drops,
            );
        }
        // 2000 B for weight 1 is as much as 4000 B for weight 2; user 0 has stood there for longer.
        let dropped: Vec<_> = drops.drain().map(|(p, _)| p.handle.0).collect();
        assert_eq!(dropped, [0]);
    }
}
