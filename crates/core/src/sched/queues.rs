//! A queue of packets for each flow, all in one pool, and the flows' order by backlog.

use super::order::{NIL, Order, fetch};
use super::{Backlog, DropFrom, Limits};
use crate::packet::{FlowId, Handle, Packet, UserId};
use crate::units::{Bytes, Instant};

/// The packets of all flows: 36 bytes for each packet of the limit, 16 for each flow, allocated here.
///
/// Free slots are a stack, so that the slot freed last, which the cache still has, is used first; it is
/// an array of its own, so that taking a slot does not wait for the slot's memory.
#[derive(Clone, Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queues: Vec<Queue>,
    backlog: Backlog,
    limits: Limits,
}

#[derive(Clone, Debug)]
#[repr(align(32))]
struct Slot {
    packet: Packet,
    /// Towards the head of the flow's queue.
    prev: u32,
    /// Towards its tail.
    next: u32,
}

/// A flow's queue: its ends, as slots, and its bytes. Of an empty queue the ends mean nothing.
#[derive(Clone, Debug)]
#[repr(align(16))]
struct Queue {
    bytes: u32,
    head: u32,
    tail: u32,
}

const _: () = assert!(size_of::<Slot>() == 32 && size_of::<Queue>() == 16);

/// A packet that went into a pool or came out, and the bytes of its flow before and after.
pub struct Moved {
    pub slot: u32,
    pub packet: Packet,
    pub old: u32,
    pub new: u32,
}

impl Pool {
    /// Room for one packet more than the limit: a packet is taken before another is dropped for it.
    pub fn new(limits: Limits) -> Self {
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
            queues: vec![
                Queue {
                    bytes: 0,
                    head: NIL,
                    tail: NIL,
                };
                limits.flows as usize
            ],
            backlog: Backlog::default(),
            limits,
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

    /// Bytes that `flow` has here.
    pub fn bytes(&self, flow: u32) -> u32 {
        self.queues[flow as usize].bytes
    }

    /// The flow of the packet in `slot`.
    pub fn flow_at(&self, slot: u32) -> u32 {
        self.slots[slot as usize].packet.flow.0
    }

    /// Length of the packet at the head of `flow`, which is not empty.
    pub fn head_len(&self, flow: u32) -> u32 {
        self.slots[self.queues[flow as usize].head as usize]
            .packet
            .len_u32()
    }

    /// Adds `packet` to the tail of its flow's queue. There is room for one packet over the limit.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Moved {
        // One slot more than the limit, and the caller drops what is over it.
        let slot = self.free.pop().unwrap_or(NIL);
        self.fetch_free();
        let queue = &mut self.queues[packet.flow.0 as usize];
        let (old, last) = (queue.bytes, queue.tail);
        // At most the limit and one packet: no overflow, see `Config`.
        let new = old + packet.len_u32();
        queue.bytes = new;
        queue.tail = slot;
        self.slots[slot as usize] = Slot {
            packet,
            prev: last,
            next: NIL,
        };
        if old == 0 {
            queue.head = slot;
        } else {
            self.slots[last as usize].next = slot;
        }
        self.backlog.packets += 1;
        self.backlog.bytes += packet.len();
        Moved {
            slot,
            packet,
            old,
            new,
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

    /// Takes a packet from an end of the queue of `flow`, which is not empty.
    #[inline]
    pub fn pop(&mut self, flow: u32, from: DropFrom) -> Moved {
        let queue = &mut self.queues[flow as usize];
        let slot = match from {
            DropFrom::Head => queue.head,
            DropFrom::Tail => queue.tail,
        };
        let Slot { packet, prev, next } = self.slots[slot as usize];
        self.free.push(slot);
        match from {
            DropFrom::Head => queue.head = next,
            DropFrom::Tail => queue.tail = prev,
        }
        let old = queue.bytes;
        let new = old - packet.len_u32();
        queue.bytes = new;
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

/// Flows from which fetching ahead pays: 16 bytes each fill a first-level cache of 32 KiB.
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
    pub fn new(limits: Limits) -> Self {
        let bytes = u32::try_from(limits.bytes.get()).unwrap_or(u32::MAX);
        Self {
            pool: Pool::new(limits),
            order: O::new(limits.flows, bytes),
        }
    }

    /// See [`Pool::push`].
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Moved {
        let moved = self.pool.push(packet);
        self.order.update(packet.flow.0, moved.old, moved.new);
        moved
    }

    /// See [`Pool::pop`].
    #[inline]
    pub fn pop(&mut self, flow: u32, from: DropFrom) -> Moved {
        let moved = self.pool.pop(flow, from);
        self.order.update(flow, moved.old, moved.new);
        moved
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
        fetch(&self.pool.slots, self.pool.queues[shortest as usize].head);
        if let Some(second) = self.order.fetch_after(shortest) {
            fetch(&self.pool.queues, second);
        }
    }

    /// The active flow with the least bytes.
    #[inline]
    pub fn shortest(&self) -> Option<u32> {
        self.order.shortest()
    }

    /// The active flow with the most bytes.
    #[inline]
    pub fn longest(&self) -> Option<u32> {
        self.order.longest()
    }
}
