//! What waits in a [`Sender`](super::Sender): by who leaves next, by who is given up first, by frame.
//!
//! Everything is known by its slot. A slot is used again when its datagram has gone, so memory grows to the most that ever waited at
//! once, and the limits bound that. Only the orders that a policy asks for are kept.
//!
//! Cost: O(log n) for a datagram that comes or goes.

use std::cmp::Reverse;

use super::{Datagram, Key, Waiting, WhenFull};
use crate::heap::Heap;
use crate::sched::Backlog;
use crate::units::{Bytes, Instant};

/// A datagram's slot.
pub(super) type Slot = u32;

/// No slot.
pub(super) const NIL: Slot = u32::MAX;

/// The order of leaving: what was set aside last, then by key, then as they came.
type Rank = (u64, u64, u64);

#[derive(Clone, Debug)]
pub(super) struct Queue<T> {
    slots: Vec<Entry<T>>,
    /// The first of the free slots; the others follow by `Entry::next`.
    free: Slot,
    order: Heap<Rank>,
    evict: Evict,
    held: Backlog,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    waiting: Waiting,
    rank: Rank,
    /// `None` where the slot is free.
    payload: Option<T>,
    /// The ring of the parts of its frame, in the order of coming.
    next: Slot,
    prev: Slot,
}

/// Who is given up when the queue is full: see [`WhenFull`].
#[derive(Clone, Debug)]
enum Evict {
    Nobody,
    Worst(Heap<Reverse<Rank>>),
    Oldest(Heap<(Reverse<(u64, u64)>, u64)>),
    Late(Heap<(Instant, u64)>, Heap<Reverse<Rank>>),
}

/// Set aside: above every class.
const ASIDE: u64 = 1 << 32;

impl<T> Queue<T> {
    pub fn new(when_full: WhenFull) -> Self {
        Self {
            slots: Vec::new(),
            free: NIL,
            order: Heap::with_capacity(0),
            evict: match when_full {
                WhenFull::Refuse => Evict::Nobody,
                WhenFull::EvictWorst => Evict::Worst(Heap::with_capacity(0)),
                WhenFull::EvictOldest => Evict::Oldest(Heap::with_capacity(0)),
                WhenFull::EvictLate => Evict::Late(Heap::with_capacity(0), Heap::with_capacity(0)),
            },
            held: Backlog::default(),
        }
    }

    pub fn held(&self) -> Backlog {
        self.held
    }

    pub fn waiting(&self, slot: Slot) -> &Waiting {
        &self.slots[slot as usize].waiting
    }

    /// What the application said of it, and handed over.
    pub fn look(&self, slot: Slot) -> (&Datagram, &T) {
        let Entry {
            waiting, payload, ..
        } = &self.slots[slot as usize];
        let payload = payload.as_ref();
        (
            &waiting.datagram,
            payload.expect("a datagram that waits has a payload"),
        )
    }

    /// Every slot is below it.
    pub fn slots(&self) -> Slot {
        self.slots.len() as Slot
    }

    /// Whether a datagram waits there that is longer than `largest`.
    pub fn is_longer(&self, slot: Slot, largest: u32) -> bool {
        let entry = &self.slots[slot as usize];
        entry.payload.is_some() && entry.waiting.datagram.len > largest
    }

    /// Adds a datagram behind `sibling`, a part of the same frame, unless that is [`NIL`].
    pub fn push(&mut self, waiting: Waiting, key: Key, payload: T, sibling: Slot) -> Slot {
        let slot = match self.free {
            NIL => self.slots.len() as Slot,
            free => free,
        };
        let rank = rank(key, &waiting);
        let entry = Entry {
            waiting,
            rank,
            payload: Some(payload),
            next: slot,
            prev: slot,
        };
        if slot == self.free {
            self.free = self.slots[slot as usize].next;
            self.slots[slot as usize] = entry;
        } else {
            self.slots.push(entry);
        }
        if sibling != NIL {
            self.join(slot, sibling);
        }
        let id = waiting.id.0;
        self.order.insert(slot, rank);
        match &mut self.evict {
            Evict::Nobody => {}
            Evict::Worst(worst) => worst.insert(slot, Reverse(rank)),
            Evict::Oldest(oldest) => oldest.insert(slot, (Reverse((rank.0, rank.1)), id)),
            Evict::Late(late, worst) => {
                late.insert(slot, (waiting.datagram.deadline, id));
                worst.insert(slot, Reverse(rank));
            }
        }
        self.held.packets += 1;
        self.held.bytes += Bytes::new(waiting.datagram.len.into());
        slot
    }

    /// Who leaves next.
    pub fn first(&self) -> Option<Slot> {
        self.order.first().map(|(_, slot)| slot)
    }

    /// Who makes room for `new`, which would have `key`; `None`: `new` itself. Late is what has a deadline before `arrives`.
    pub fn victim(&self, arrives: Instant, new: &Waiting, key: Key) -> Option<Slot> {
        let worst = |worst: &Heap<Reverse<Rank>>| {
            let (Reverse(last), slot) = worst.first()?;
            (last > rank(key, new)).then_some(slot)
        };
        match &self.evict {
            Evict::Nobody => None,
            Evict::Worst(heap) => worst(heap),
            Evict::Oldest(heap) => heap.first().map(|(_, slot)| slot),
            Evict::Late(late, heap) => {
                let new = (new.datagram.deadline, new.id.0);
                let late = late.first().filter(|(first, _)| first.0 < arrives);
                match late {
                    Some((first, slot)) => (first < new).then_some(slot),
                    None if new.0 < arrives => None,
                    None => worst(heap),
                }
            }
        }
    }

    /// Lets `slot` leave after everything that is not set aside. Whether it was not yet.
    pub fn set_aside(&mut self, slot: Slot) -> bool {
        let rank = &mut self.slots[slot as usize].rank;
        if rank.0 >= ASIDE {
            return false;
        }
        rank.0 += ASIDE;
        let rank = *rank;
        let waiting = &self.slots[slot as usize].waiting;
        self.order.replace(slot, slot, rank);
        match &mut self.evict {
            Evict::Nobody => {}
            Evict::Worst(worst) | Evict::Late(_, worst) => {
                worst.replace(slot, slot, Reverse(rank));
            }
            Evict::Oldest(oldest) => {
                let key = (Reverse((rank.0, rank.1)), waiting.id.0);
                oldest.replace(slot, slot, key);
            }
        }
        true
    }

    /// The next part of its frame that waits, in a ring: itself where it is alone.
    pub fn sibling(&self, slot: Slot) -> Slot {
        self.slots[slot as usize].next
    }

    /// The part of its frame that came before it, of those that wait; [`NIL`] where it is alone.
    pub fn before(&self, slot: Slot) -> Slot {
        match self.slots[slot as usize].prev {
            prev if prev == slot => NIL,
            prev => prev,
        }
    }

    /// Takes a datagram out.
    pub fn remove(&mut self, slot: Slot) -> (Waiting, T) {
        self.order.remove(slot);
        match &mut self.evict {
            Evict::Nobody => {}
            Evict::Worst(worst) => worst.remove(slot),
            Evict::Oldest(oldest) => oldest.remove(slot),
            Evict::Late(late, worst) => {
                late.remove(slot);
                worst.remove(slot);
            }
        }
        let free = std::mem::replace(&mut self.free, slot);
        let entry = &mut self.slots[slot as usize];
        let (next, prev) = (entry.next, entry.prev);
        entry.next = free;
        let payload = entry.payload.take();
        let payload = payload.expect("a datagram that waits has a payload");
        let waiting = entry.waiting;
        if next != slot {
            self.slots[next as usize].prev = prev;
            self.slots[prev as usize].next = next;
        }
        self.held.packets -= 1;
        self.held.bytes -= Bytes::new(waiting.datagram.len.into());
        (waiting, payload)
    }

    /// Puts `slot` into the ring of `sibling`, behind it.
    fn join(&mut self, slot: Slot, sibling: Slot) {
        let next = std::mem::replace(&mut self.slots[sibling as usize].next, slot);
        self.slots[next as usize].prev = slot;
        let entry = &mut self.slots[slot as usize];
        (entry.prev, entry.next) = (sibling, next);
    }
}

fn rank(key: Key, waiting: &Waiting) -> Rank {
    (key.0.into(), key.1, waiting.id.0)
}
