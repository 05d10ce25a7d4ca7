// SPDX-License-Identifier: MIT OR Apache-2.0
//! The backlog of a [`Sender`](super::Sender): by order of service, by order of drops, by frame.
//!
//! Everything is known by its slot. A slot is used again when its datagram has gone, so memory grows to the most that ever waited at
//! once, and the limits bound that. The last datagram to leave is at the other end of the one order; another order of drops is kept only
//! while it is asked for, so that a queue that does not fill pays nothing for it.
//!
//! Cost: as that of an [`Order`], amortized: one datagram of many pays for all. Making the order of drops is O(n log n).

use super::frames::{Open, WHOLE};
use super::order::{Order, Position};
use super::{Datagram, Key, Waiting, WhenFull};
use crate::fetch::{fetch, fetch_both_ends};
use crate::sched::Backlog;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// A datagram's slot.
pub(super) type Slot = u32;

/// No slot.
pub(super) const NIL: Slot = u32::MAX;

/// The order of leaving, before that of coming: what was set aside last, then by key.
type Rank = u128;

/// Datagrams of which the memory is not asked for ahead of time: some 100 KB, which stay in the cache.
const IN_CACHE: usize = 1024;

/// Departures in which memory comes that was asked for: some 100 ns each.
const AHEAD: usize = 4;

/// Set aside: above every class.
const ASIDE: Rank = 1 << 96;

#[derive(Clone, Debug)]
pub(super) struct Queue<T> {
    slots: Vec<Entry<T>>,
    /// The first of the free slots; the others follow by `Entry::next`.
    free: Slot,
    rings: Rings,
    leaving: Order,
    giving_up: GivingUp,
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
    /// The ring's number; [`NIL`] of a datagram without a frame.
    ring: u32,
    /// Place of its frame among the known ones.
    known: u8,
}

/// Waiting parts of each frame, and their payload.
#[derive(Clone, Debug, Default)]
struct Rings {
    held: Vec<Backlog>,
    /// Rings of no parts.
    free: Vec<u32>,
}

/// Order of drops of a full queue, where it is not the reverse order of service: a second order.
#[derive(Clone, Debug)]
struct GivingUp {
    when_full: WhenFull,
    /// Whether the order holds the backlog.
    is_kept: bool,
    /// Number of arrivals since the last drop.
    unasked: u32,
    order: Order,
}

impl<T> Queue<T> {
    /// With room for this number; more allocate.
    pub fn new(when_full: WhenFull, slots: usize) -> Self {
        let mut queue = Self {
            slots: Vec::with_capacity(slots),
            free: NIL,
            rings: Rings::default(),
            leaving: Order::default(),
            giving_up: GivingUp {
                when_full,
                is_kept: false,
                unasked: 0,
                order: Order::default(),
            },
            held: Backlog::default(),
        };
        queue.leaving.reserve(slots);
        queue.giving_up.reserve(slots);
        queue.rings.reserve(slots);
        queue
    }

    pub fn held(&self) -> Backlog {
        self.held
    }

    pub fn waiting(&self, slot: Slot) -> &Waiting {
        &self.slots[slot as usize].waiting
    }

    /// Its attributes and payload from the application.
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

    /// Adds a datagram behind the last waiting part of its frame.
    #[inline(always)]
    pub fn push(&mut self, waiting: Waiting, key: Key, payload: T, frame: &Open) -> Slot {
        let sibling = frame.part;
        let slot = match self.free {
            NIL => self.slots.len() as Slot,
            free => free,
        };
        let entry = Entry {
            waiting,
            rank: rank(key),
            payload: Some(payload),
            next: slot,
            prev: slot,
            ring: match sibling {
                NIL if waiting.datagram.frame.is_none() && frame.at != WHOLE => NIL,
                NIL => self.rings.begin(),
                sibling => self.slots[sibling as usize].ring,
            },
            known: frame.at,
        };
        let len = Bytes::new(waiting.datagram.len.into());
        if entry.ring != NIL {
            self.rings.join(entry.ring, len);
        }
        if slot == self.free {
            self.free = self.slots[slot as usize].next;
            self.slots[slot as usize] = entry;
        } else {
            self.grow(entry);
        }
        if sibling != NIL {
            self.join(slot, sibling);
        }
        let entry = &self.slots[slot as usize];
        self.leaving.push(entry.leaving(slot));
        self.giving_up.push(entry, slot, self.held.packets);
        self.held.packets += 1;
        self.held.bytes += len;
        slot
    }

    /// The next datagram to leave.
    pub fn first(&mut self) -> Option<Slot> {
        let slots = &self.slots;
        let first = self.leaving.first(is_there(slots, Entry::leaving));
        self.fetch_soon();
        first
    }

    /// Asks for the memory of datagrams that leave soon: each may be anywhere in many megabytes.
    fn fetch_soon(&self) {
        if self.slots.len() <= IN_CACHE {
            return;
        }
        if let Some(slot) = self.leaving.soon(2 * AHEAD) {
            fetch_both_ends(&self.slots, slot);
        }
        // When it is there: its ring.
        if let Some(slot) = self.leaving.soon(AHEAD) {
            let entry = &self.slots[slot as usize];
            fetch_both_ends(&self.slots, entry.next);
            fetch_both_ends(&self.slots, entry.prev);
            fetch(&self.rings.held, entry.ring);
        }
    }

    /// The datagram to drop for `new`, which would have `key`; `None`: `new` itself. A datagram is late if `deadline < arrives`.
    pub fn victim(&mut self, arrives: Instant, new: &Waiting, key: Key) -> Option<Slot> {
        let deadline = new.datagram.deadline;
        match self.giving_up.when_full {
            WhenFull::Refuse => return None,
            WhenFull::EvictOldest => return self.giving_up.first(&self.slots),
            WhenFull::EvictWorst => {}
            WhenFull::EvictLate => {
                let late = self.giving_up.first(&self.slots);
                let late = late.filter(|slot| self.deadline(*slot) < arrives);
                match late {
                    // Of two with the same deadline the one that waits came before.
                    Some(slot) => return (self.deadline(slot) <= deadline).then_some(slot),
                    None if deadline < arrives => return None,
                    None => {}
                }
            }
        }
        let slots = &self.slots;
        let worst = self.leaving.last(is_there(slots, Entry::leaving))?;
        (slots[worst as usize].rank > rank(key)).then_some(worst)
    }

    fn deadline(&self, slot: Slot) -> Instant {
        self.waiting(slot).datagram.deadline
    }

    /// Payload that leaves before a new datagram of `key`.
    pub fn ahead(&self, key: Key) -> Bytes {
        let rank = rank(key);
        let ahead = |entry: &&Entry<T>| entry.waits() && entry.rank <= rank;
        let lens = self.slots.iter().filter(ahead);
        Bytes::new(lens.map(Entry::len).sum())
    }

    /// All that [`Queue::victim`] would give, one after the other.
    pub fn yields(&self, arrives: Instant, new: &Waiting, key: Key) -> Backlog {
        let rank = rank(key);
        let deadline = new.datagram.deadline;
        let mut all = Backlog::default();
        for entry in self.slots.iter().filter(|entry| entry.waits()) {
            let is_late = entry.waiting.datagram.deadline < arrives;
            let yields = match self.giving_up.when_full {
                WhenFull::Refuse => false,
                WhenFull::EvictOldest => true,
                WhenFull::EvictWorst => entry.rank > rank,
                WhenFull::EvictLate if is_late => entry.waiting.datagram.deadline <= deadline,
                WhenFull::EvictLate => deadline >= arrives && entry.rank > rank,
            };
            if yields {
                all.packets += 1;
                all.bytes += Bytes::new(entry.len());
            }
        }
        all
    }

    /// Lets `slot` leave after everything that is not set aside. Whether it was not yet.
    pub fn set_aside(&mut self, slot: Slot) -> bool {
        let entry = &self.slots[slot as usize];
        if entry.rank >= ASIDE {
            return false;
        }
        self.put_off(slot, entry.rank + ASIDE);
        true
    }

    /// Lets `slot` leave behind all datagrams with a smaller key than `key`, and behind those with that key that came before it.
    pub fn leave_behind(&mut self, slot: Slot, key: Key) {
        let rank = rank(key);
        if self.slots[slot as usize].rank < rank {
            self.put_off(slot, rank);
        }
    }

    fn put_off(&mut self, slot: Slot, rank: Rank) {
        let entry = &mut self.slots[slot as usize];
        entry.rank = rank;
        self.leaving.push(entry.leaving(slot));
        self.leaving.leave(is_there(&self.slots, Entry::leaving));
        self.giving_up.put_off(&self.slots, slot);
    }

    /// The next part of its frame that waits, in a ring: itself where it is alone.
    pub fn sibling(&self, slot: Slot) -> Slot {
        self.slots[slot as usize].next
    }

    /// The waiting parts of its frame, itself included.
    pub fn frame(&self, slot: Slot) -> Backlog {
        let entry = &self.slots[slot as usize];
        match entry.ring {
            NIL => Backlog {
                packets: 1,
                bytes: Bytes::new(entry.waiting.datagram.len.into()),
            },
            ring => self.rings.held[ring as usize],
        }
    }

    /// Place of its frame among the known ones, when it came.
    pub fn known(&self, slot: Slot) -> u8 {
        self.slots[slot as usize].known
    }

    /// The part of its frame that came before it, of those that wait; [`NIL`] where it is alone.
    pub fn before(&self, slot: Slot) -> Slot {
        match self.slots[slot as usize].prev {
            prev if prev == slot => NIL,
            prev => prev,
        }
    }

    /// Takes a datagram out.
    #[inline(always)]
    pub fn remove(&mut self, slot: Slot) -> (Waiting, T) {
        let free = core::mem::replace(&mut self.free, slot);
        let entry = &mut self.slots[slot as usize];
        let (next, prev, ring) = (entry.next, entry.prev, entry.ring);
        entry.next = free;
        let payload = entry.payload.take();
        let payload = payload.expect("a datagram that waits has a payload");
        let waiting = entry.waiting;
        if next != slot {
            self.slots[next as usize].prev = prev;
            self.slots[prev as usize].next = next;
        }
        let len = Bytes::new(waiting.datagram.len.into());
        if ring != NIL {
            self.rings.leave(ring, len);
        }
        self.held.packets -= 1;
        self.held.bytes -= len;
        self.leaving.leave(is_there(&self.slots, Entry::leaving));
        self.giving_up.leave(&self.slots);
        (waiting, payload)
    }

    /// Puts `slot` into the ring of `sibling`, behind it.
    fn join(&mut self, slot: Slot, sibling: Slot) {
        let next = core::mem::replace(&mut self.slots[sibling as usize].next, slot);
        self.slots[next as usize].prev = slot;
        let entry = &mut self.slots[slot as usize];
        (entry.prev, entry.next) = (sibling, next);
    }

    /// Adds a slot, and to the orders room for it.
    fn grow(&mut self, entry: Entry<T>) {
        let room = self.slots.capacity();
        self.slots.push(entry);
        let slots = self.slots.capacity();
        if slots > room {
            self.leaving.reserve(slots);
            self.giving_up.reserve(slots);
            self.rings.reserve(slots);
        }
    }
}

impl Rings {
    /// Makes room for this number of frames.
    fn reserve(&mut self, slots: usize) {
        self.held.reserve(slots - self.held.len());
        self.free.reserve(slots - self.free.len());
    }

    fn begin(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.held.push(Backlog::default());
            self.held.len() as u32 - 1
        })
    }

    fn join(&mut self, ring: u32, len: Bytes) {
        self.change(ring, 1, len.get());
    }

    fn leave(&mut self, ring: u32, len: Bytes) {
        if self.change(ring, u32::MAX, len.get().wrapping_neg()) == 0 {
            self.free.push(ring);
        }
    }

    /// Adds, modulo the size of the counts: the sums are of parts that wait. The packets.
    fn change(&mut self, ring: u32, packets: u32, bytes: u64) -> u32 {
        let held = &mut self.held[ring as usize];
        held.packets = held.packets.wrapping_add(packets);
        held.bytes = Bytes::new(held.bytes.get().wrapping_add(bytes));
        held.packets
    }
}

impl GivingUp {
    fn is_order(&self) -> bool {
        matches!(self.when_full, WhenFull::EvictOldest | WhenFull::EvictLate)
    }

    fn reserve(&mut self, slots: usize) {
        if self.is_order() {
            self.order.reserve(slots);
        }
    }

    /// The first datagram to drop.
    fn first<T>(&mut self, slots: &[Entry<T>]) -> Option<Slot> {
        self.unasked = 0;
        let when_full = self.when_full;
        if !self.is_kept {
            self.is_kept = true;
            for (slot, entry) in (0..).zip(slots).filter(|(_, entry)| entry.waits()) {
                self.order.push(entry.giving_up(when_full, slot));
            }
        }
        let position = |entry: &Entry<T>, slot| entry.giving_up(when_full, slot);
        self.order.first(is_there(slots, position))
    }

    /// A datagram came to `others`. As many that came unasked pay for the next time that the order is made.
    fn push<T>(&mut self, entry: &Entry<T>, slot: Slot, others: u32) {
        if !self.is_kept {
            return;
        }
        self.unasked += 1;
        if self.unasked > others {
            self.is_kept = false;
            self.order.clear();
        } else {
            self.order.push(entry.giving_up(self.when_full, slot));
        }
    }

    fn leave<T>(&mut self, slots: &[Entry<T>]) {
        if self.is_kept {
            let when_full = self.when_full;
            let position = |entry: &Entry<T>, slot| entry.giving_up(when_full, slot);
            self.order.leave(is_there(slots, position));
        }
    }

    fn put_off<T>(&mut self, slots: &[Entry<T>], slot: Slot) {
        // Lateness does not change with the rank.
        if self.is_kept && self.when_full == WhenFull::EvictOldest {
            let position = slots[slot as usize].giving_up(self.when_full, slot);
            self.order.push(position);
            self.leave(slots);
        }
    }
}

impl<T> Entry<T> {
    fn waits(&self) -> bool {
        self.payload.is_some()
    }

    fn len(&self) -> u64 {
        self.waiting.datagram.len.into()
    }

    /// By rank, then as they came.
    fn leaving(&self, slot: Slot) -> Position {
        Position::new(self.rank, self.waiting.id.0, slot)
    }

    /// The largest rank first or the earliest deadline, then as they came.
    fn giving_up(&self, when_full: WhenFull, slot: Slot) -> Position {
        let major = match when_full {
            WhenFull::EvictLate => self.waiting.datagram.deadline.as_nanos().into(),
            _ => !self.rank,
        };
        Position::new(major, self.waiting.id.0, slot)
    }
}

/// Whether the datagram that had a position in an order has it still.
fn is_there<T>(
    slots: &[Entry<T>],
    of: impl Fn(&Entry<T>, Slot) -> Position,
) -> impl Fn(&Position) -> bool {
    move |position| {
        let entry = &slots[position.slot as usize];
        entry.waits() && of(entry, position.slot) == *position
    }
}

fn rank(key: Key) -> Rank {
    Rank::from(key.0) << 64 | Rank::from(key.1)
}
