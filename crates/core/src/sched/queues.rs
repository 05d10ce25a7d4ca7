// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue of packets for each flow, all in one pool, and the flows' order by backlog.

use super::order::{NIL, Order, Position};
use super::{Backlog, DropFrom, Limits};
use crate::fetch::fetch;
use crate::packet::{FlowId, Handle, Packet, UserId};
use crate::units::{Bytes, Instant};
use alloc::vec;
use alloc::vec::Vec;

/// The packets of all flows: 36 bytes for each packet of the limit, 8 for each flow, allocated here.
///
/// A flow's queue is a ring that is held by its tail, so that a flow costs no more than those 8 bytes:
/// where there are more flows than the cache holds, an arrival pays for one miss. Free slots are a stack, so that the slot freed last, which the cache still has, is used first; it is
/// an array of its own, so that taking a slot does not wait for the slot's memory.
#[derive(Clone, Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The position of each flow: the slot of its last packet, and its bytes.
    queues: Vec<Position>,
    backlog: Backlog,
    limits: Limits,
    /// Bytes that a packet counts at least in its flow's position.
    least_cost: u32,
}

/// Bytes that a packet counts at least where `sqf`, `hier`, `fq` and `pfq` ask which flow has the least and
/// which the most. The buffer is limited in packets too, and a flow that holds many small ones is no
/// shorter for it. Chosen by us: above the audio packet of a call (20 ms of G.711 are 238 B on Ethernet, all
/// headers included), and no more than the memory that a kernel needs for an empty packet.
pub const LEAST_COST: u32 = 256;

#[derive(Clone, Debug)]
#[repr(align(32))]
struct Slot {
    packet: Packet,
    /// Towards the head of the flow's queue; at the head it means nothing.
    prev: u32,
    /// Towards its tail; at the tail, the head.
    next: u32,
}

const _: () = assert!(size_of::<Slot>() == 32 && size_of::<Position>() == 8);

/// A packet that went into a pool or came out, and the position of its flow before and after; there its
/// node is the slot of its last packet.
pub struct Moved {
    pub slot: u32,
    pub packet: Packet,
    pub old: Position,
    pub new: Position,
}

impl Pool {
    /// Room for one packet more than the limit: a packet is taken before another is dropped for it. In the
    /// order of flows a packet counts `least_cost` bytes at least, or less where 32 bits would not hold
    /// the sum of all.
    pub fn new(limits: Limits, least_cost: u32) -> Self {
        let nobody = Packet::new(
            Instant::ZERO,
            Handle(0),
            FlowId(0),
            UserId(0),
            Bytes::new(1),
        );
        let slots = limits.packets + 1;
        let slot = Slot {
            packet: nobody,
            prev: NIL,
            next: NIL,
        };
        Self {
            slots: vec![slot; slots as usize],
            free: (0..slots).rev().collect(),
            queues: vec![Position::NONE; limits.flows as usize],
            backlog: Backlog::default(),
            limits,
            least_cost: least_cost.min(most_cost(limits)),
        }
    }

    /// Whether the buffer can take the packet at all, were it empty.
    pub fn admits(&self, pkt: &Packet) -> bool {
        pkt.len() <= self.limits.bytes
    }

    /// Whether more is held than the limits allow.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.backlog.packets > self.limits.packets || self.backlog.bytes > self.limits.bytes
    }

    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// As [`super::Scheduler::next_departure`] of a discipline that never waits.
    pub fn next_departure(&self) -> Option<Instant> {
        (self.backlog.packets > 0).then_some(Instant::ZERO)
    }

    /// Bytes that `packet` counts in the backlog by which flows are compared.
    #[inline(always)]
    fn cost(&self, packet: &Packet) -> u32 {
        packet.len_u32().max(self.least_cost)
    }

    /// Backlog of `flow` in the order's measure; 0 if it has no packets.
    pub fn bytes(&self, flow: u32) -> u32 {
        self.queues[flow as usize].bytes
    }

    /// The flow of the packet in `slot`.
    pub fn flow_at(&self, slot: u32) -> u32 {
        self.slots[slot as usize].packet.flow.0
    }

    /// When the packet in `slot` came.
    pub fn arrived_at(&self, slot: u32) -> Instant {
        self.slots[slot as usize].packet.arrived
    }

    /// The position of `flow`.
    pub fn position(&self, flow: u32) -> Position {
        self.queues[flow as usize]
    }

    /// The packet at the head of the flow at `position`.
    pub fn head(&self, position: Position) -> &Packet {
        let head = self.slots[position.node as usize].next;
        &self.slots[head as usize].packet
    }

    /// Its length.
    pub fn head_len(&self, position: Position) -> u32 {
        self.head(position).len_u32()
    }

    /// Adds `packet` to the tail of its flow's queue. There is room for one packet over the limit.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Moved {
        // One slot more than the limit, and the caller drops what is over it.
        let slot = self.free.pop().unwrap_or(NIL);
        self.fetch_free();
        let cost = self.cost(&packet);
        let queue = &mut self.queues[packet.flow.0 as usize];
        // A branch and no sum with zero, for the processor's sake: it goes on with a flow that it
        // takes for empty while the queue's cache miss is under way.
        let (old, bytes, head) = if queue.node == NIL {
            (Position::NONE, cost, slot)
        } else {
            // At most the limit and one packet: no overflow, see `Env`.
            let old = *queue;
            let head = core::mem::replace(&mut self.slots[old.node as usize].next, slot);
            (old, old.bytes + cost, head)
        };
        let new = Position { node: slot, bytes };
        *queue = new;
        self.slots[slot as usize] = Slot {
            packet,
            prev: old.node,
            next: head,
        };
        self.backlog.packets += 1;
        self.backlog.bytes += packet.len();
        Moved {
            slot,
            packet,
            old,
            new,
        }
    }

    /// Asks the processor for the queue of `flow`, which a packet is to join soon.
    #[inline]
    pub fn fetch_queue(&self, flow: u32) {
        if self.queues.len() >= FETCH_FROM {
            fetch(&self.queues, flow);
        }
    }

    /// Asks the processor for a slot that a later arrival will take.
    #[inline]
    fn fetch_free(&self) {
        if self.queues.len() >= FETCH_FROM
            && let Some(at) = self.free.len().checked_sub(FETCH_AHEAD)
        {
            fetch(&self.slots, self.free[at]);
        }
    }

    /// Takes a packet from an end of the queue of the flow at `old`.
    #[inline(always)]
    pub fn pop(&mut self, old: Position, from: DropFrom) -> Moved {
        let tail = old.node;
        let head = self.slots[tail as usize].next;
        let slot = match from {
            DropFrom::Head => head,
            DropFrom::Tail => tail,
        };
        let Slot { packet, prev, next } = self.slots[slot as usize];
        self.free.push(slot);
        let mut new = Position {
            bytes: old.bytes - self.cost(&packet),
            ..old
        };
        // The ring closes round the gap; if it was the last packet, nobody reads what is written.
        match from {
            DropFrom::Head => self.slots[tail as usize].next = next,
            DropFrom::Tail if new.bytes > 0 => {
                new.node = prev;
                self.slots[prev as usize].next = head;
            }
            DropFrom::Tail => {}
        }
        if new.bytes == 0 {
            new = Position::NONE;
        }
        // Written and not read: the queue may be far away.
        self.queues[packet.flow.0 as usize] = new;
        self.backlog.packets -= 1;
        self.backlog.bytes -= packet.len();
        Moved {
            slot,
            packet,
            old,
            new,
        }
    }
}

/// The least cost whose sum over as many packets as `limits` allows, and one more, fits beside their bytes.
fn most_cost(limits: Limits) -> u32 {
    let bytes = limits.bytes.get() + Packet::MAX_LEN.get();
    let rest = u64::from(u32::MAX).saturating_sub(bytes);
    // At most 2^32 - 1.
    (rest / (u64::from(limits.packets) + 1)) as u32
}

/// Flows from which fetching ahead pays: 8 bytes each fill a first-level cache of 32 KiB.
/// Chosen by us.
const FETCH_FROM: usize = 4096;

/// Arrivals between asking for a slot and taking it. Chosen by us.
const FETCH_AHEAD: usize = 8;

/// A pool whose flows are kept in order of backlog.
#[derive(Clone, Debug)]
pub struct Queues<O> {
    pub pool: Pool,
    order: O,
}

impl<O: Order> Queues<O> {
    /// `least_cost` as of [`Pool::new`], `seed` as of [`Order::new`].
    pub fn new(limits: Limits, least_cost: u32, seed: u64) -> Self {
        let bytes = u32::try_from(limits.bytes.get()).unwrap_or(u32::MAX);
        Self {
            pool: Pool::new(limits, least_cost),
            order: O::new(limits.packets + 1, bytes, seed),
        }
    }

    /// See [`Pool::push`].
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Moved {
        let moved = self.pool.push(packet);
        self.order.update(moved.old, moved.new);
        moved
    }

    /// See [`Pool::pop`].
    #[inline]
    pub fn pop(&mut self, position: Position, from: DropFrom) -> Moved {
        let moved = self.pool.pop(position, from);
        self.order.update(moved.old, moved.new);
        moved
    }

    /// Longest queue drop: takes a packet from the longest queue if more is held than the limits allow.
    #[inline]
    pub fn drop_longest(&mut self, from: DropFrom) -> Option<Moved> {
        if !self.pool.is_over() {
            return None;
        }
        let longest = self.order.longest()?;
        Some(self.pop(longest, from))
    }

    /// Asks the processor for what the next departures under SQF will touch. It hides a cache miss or
    /// two where there are more flows than the cache holds, and is not worth its time below.
    #[inline]
    pub fn fetch_ahead(&self) {
        if self.pool.queues.len() < FETCH_FROM {
            return;
        }
        let Some(shortest) = self.order.shortest() else {
            return;
        };
        fetch(&self.pool.queues, self.pool.flow_at(shortest.node));
        fetch(
            &self.pool.slots,
            self.pool.slots[shortest.node as usize].next,
        );
        if let Some(second) = self.order.fetch_after(shortest.node) {
            fetch(&self.pool.slots, second);
        }
    }

    /// The active flow with the most bytes.
    pub fn longest(&self) -> Option<Position> {
        self.order.longest()
    }

    /// The active flow with the least bytes.
    #[inline]
    pub fn shortest(&self) -> Option<Position> {
        self.order.shortest()
    }
}
