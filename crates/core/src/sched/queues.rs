//! A queue of packets for each flow, all in one pool, and the flows' order by backlog.

use super::order::{Key, NIL, Order, Queue};
use super::{Backlog, DropFrom, Limits};
use crate::packet::{FlowId, Handle, Packet, UserId};
use crate::units::{Bytes, Instant};

/// The packets of all flows: 32 bytes for each packet of the limit and for each flow, allocated here.
///
/// Free slots are a stack, so that the slot freed last, which the cache still has, is used first.
#[derive(Clone, Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    free: u32,
    pub queues: Vec<Queue>,
    changes: u64,
    backlog: Backlog,
    limits: Limits,
}

#[derive(Clone, Debug)]
#[repr(align(32))]
struct Slot {
    packet: Packet,
    /// Towards the head of the flow's queue.
    prev: u32,
    /// Towards its tail; of a free slot, the next free one.
    next: u32,
}

const _: () = assert!(size_of::<Slot>() == 32 && size_of::<Queue>() == 32);

/// A packet that went into a pool or came out, and the key that its flow had before.
pub struct Moved {
    pub slot: u32,
    pub packet: Packet,
    pub old: Key,
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
        let slot = |n| Slot {
            packet: nobody,
            prev: NIL,
            next: if n + 1 < slots { n + 1 } else { NIL },
        };
        Self {
            slots: (0..slots).map(slot).collect(),
            free: 0,
            queues: vec![Queue::EMPTY; limits.flows as usize],
            changes: 0,
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
        self.queues[flow as usize].key.bytes
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
        let slot = self.free;
        let entry = &mut self.slots[slot as usize];
        self.free = entry.next;
        let queue = &mut self.queues[packet.flow.0 as usize];
        let (old, last) = (queue.key, queue.tail);
        *entry = Slot {
            packet,
            prev: last,
            next: NIL,
        };
        queue.tail = slot;
        self.changes += 1;
        // At most the limit and one packet: `Order` is made for 32 bits.
        queue.key = Key {
            bytes: old.bytes.saturating_add(packet.len_u32()),
            since: self.changes,
        };
        if last == NIL {
            queue.head = slot;
        } else {
            self.slots[last as usize].next = slot;
        }
        self.backlog.packets += 1;
        self.backlog.bytes += packet.len();
        Moved { slot, packet, old }
    }

    /// Takes a packet from an end of the queue of `flow`, which is not empty.
    #[inline]
    pub fn pop(&mut self, flow: u32, from: DropFrom) -> Moved {
        let queue = &mut self.queues[flow as usize];
        let old = queue.key;
        let slot = match from {
            DropFrom::Head => queue.head,
            DropFrom::Tail => queue.tail,
        };
        let entry = &mut self.slots[slot as usize];
        let Slot { packet, prev, next } = *entry;
        entry.next = self.free;
        self.free = slot;
        self.changes += 1;
        queue.key = Key {
            bytes: old.bytes - packet.len_u32(),
            since: self.changes,
        };
        match from {
            DropFrom::Head => queue.head = next,
            DropFrom::Tail => queue.tail = prev,
        }
        if queue.key.bytes == 0 {
            (queue.head, queue.tail) = (NIL, NIL);
        } else {
            match from {
                DropFrom::Head => self.slots[next as usize].prev = NIL,
                DropFrom::Tail => self.slots[prev as usize].next = NIL,
            }
        }
        self.backlog.packets -= 1;
        self.backlog.bytes -= packet.len();
        Moved { slot, packet, old }
    }
}

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
        self.update(packet.flow.0, moved.old);
        moved
    }

    /// See [`Pool::pop`].
    #[inline]
    pub fn pop(&mut self, flow: u32, from: DropFrom) -> Moved {
        let moved = self.pool.pop(flow, from);
        self.update(flow, moved.old);
        moved
    }

    #[inline]
    fn update(&mut self, flow: u32, old: Key) {
        self.order.update(&mut self.pool.queues, flow, old);
    }

    /// The active flow with the least bytes.
    #[inline]
    pub fn shortest(&self) -> Option<u32> {
        self.order.shortest(&self.pool.queues)
    }

    /// The active flow with the most bytes.
    #[inline]
    pub fn longest(&self) -> Option<u32> {
        self.order.longest(&self.pool.queues)
    }
}
