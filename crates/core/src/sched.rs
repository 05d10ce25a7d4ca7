// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disciplines, one file each, behind [`Scheduler`].

mod cobalt;
mod list;
pub mod order;
mod queues;
mod ring;
mod spec;
mod standing;
mod turns;

use alloc::vec::Vec;
pub use cake::Isolation;
pub use ncq::LowRate;
pub use spec::{DropFrom, Env, Needs, ParseDisciplineError, SpecError, build};
pub use standing::{Class, ParseClassError, Reason, Standing};

use crate::packet::{DropReason, FlowId, Packet, UserId};
use crate::units::{Bytes, Instant};
use core::ops::AddAssign;

// In the order in which they are listed to people; the line of one is also its `pub mod`.
list::disciplines! {
    Fifo(fifo::FifoParams),
    Fq(fq::FqParams),
    Pfq(pfq::PfqParams),
    Sqf(sqf::SqfParams),
    Hier(hier::HierParams),
    Red(red::RedParams),
    CoDel(codel::CoDelParams),
    FqCoDel(fq_codel::FqCoDelParams),
    Cake(cake::CakeParams),
    DualPi2(dualpi2::DualPi2Params),
    Prio(prio::PrioParams),
    Ncq(ncq::NcqParams),
    Tred(tred::TredParams),
    Rio(rio::RioParams),
    Choke(choke::ChokeParams),
    Csfq(csfq::CsfqParams),
    Harvest(harvest::HarvestParams),
    Confucius(confucius::ConfuciusParams),
    Makeway(makeway::MakewayParams),
    Lifo(lifo::LifoParams),
}

/// A queueing discipline. It holds packets, decides their order and which to drop.
///
/// Time is an argument; it never runs backwards from one call to the next. The packet path
/// cannot fail: a packet that is not held comes back through `drops`.
pub trait Scheduler {
    /// Takes `pkt`. Packets dropped for it, itself included, go to `drops`.
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops);

    /// The packet to send next, if one may leave at `now`.
    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet>;

    /// The earliest time at which [`Scheduler::dequeue`] may give a packet; `None` while empty.
    /// Early calls are harmless, late ones cost quality.
    fn next_departure(&self) -> Option<Instant>;

    /// The backlog now.
    fn backlog(&self) -> Backlog;

    /// Counters since it was made that departures do not show.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// `flow` has no packets, and is the number of another flow from now on, which inherits nothing.
    fn forget(&mut self, flow: FlowId) {
        let _ = flow;
    }

    /// Gives `user` a share of `weight`, 1 to 65 536, from its next turn on; false, and no change, if this discipline takes weights only when it
    /// is made.
    ///
    /// # Panics
    /// If it takes them, and the weight is out of range or there is no such user.
    fn set_weight(&mut self, user: UserId, weight: u32) -> bool {
        let _ = (user, weight);
        false
    }

    /// How it regards `flow` by its behaviour; `None` if it does not, or has not seen it.
    fn standing(&self, flow: FlowId) -> Option<Standing> {
        let _ = flow;
        None
    }
}

/// Counters of a discipline beside arrivals and departures; only `ncq` and `tred` have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were given priority.
    pub favoured: u64,
    /// Packets that left behind a later one of their flow (RFC 4737 §3.3).
    pub reordered: u64,
    /// Packets that carried less than K times the least tickets (PPS §2.4.2).
    pub expected: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.favoured += other.favoured;
        self.reordered += other.reordered;
        self.expected += other.expected;
    }
}

/// Packets and bytes held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets held.
    pub packets: u32,
    /// Bytes held.
    pub bytes: Bytes,
}

/// The most that a discipline may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets, at least 1.
    pub packets: u32,
    /// Bytes, at least one packet's.
    pub bytes: Bytes,
    /// Flows: every [`crate::packet::FlowId`] is below it.
    pub flows: u32,
}

impl Limits {
    /// 4080 MiB: with one packet more, backlogs are counted in 32 bits.
    pub const MOST_BYTES: Bytes = Bytes::new(u32::MAX as u64 - Packet::MAX_LEN.get());

    /// Why a full queue with backlog `held` rejects `pkt`, if it does.
    fn refusal(&self, held: Backlog, pkt: &Packet) -> Option<DropReason> {
        if pkt.len() > self.bytes {
            return Some(DropReason::TooLarge);
        }
        let full = held.packets >= self.packets || held.bytes + pkt.len() > self.bytes;
        full.then_some(DropReason::Tail)
    }
}

/// Dropped packets, with the reason. Kept and reused by the caller, so that it stops allocating.
#[derive(Clone, Debug, Default)]
pub struct Drops(Vec<(Packet, DropReason)>);

impl Drops {
    /// Room for `n` drops before the first allocation.
    pub fn with_capacity(n: usize) -> Self {
        Self(Vec::with_capacity(n))
    }

    /// Records one.
    pub fn push(&mut self, pkt: Packet, reason: DropReason) {
        self.0.push((pkt, reason));
    }

    /// Takes all of them out, in the order of their drops.
    pub fn drain(&mut self) -> impl Iterator<Item = (Packet, DropReason)> + '_ {
        self.0.drain(..)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Short names for the tests beside the disciplines.

    use super::{Drops, Limits, Scheduler};
    use crate::packet::{FlowId, Handle, Packet, UserId};
    use crate::units::{Bytes, Instant};

    pub fn limits(packets: u32, bytes: u64) -> Limits {
        Limits {
            packets,
            bytes: Bytes::new(bytes),
            flows: 64,
        }
    }

    pub fn packet(handle: u32, flow: u32, len: u64) -> Packet {
        let (handle, flow) = (Handle(handle), FlowId(flow));
        Packet::new(Instant::ZERO, handle, flow, UserId(0), Bytes::new(len))
    }

    /// The same packet, of `user`.
    pub fn of(user: u32, pkt: Packet) -> Packet {
        Packet::new(pkt.arrived, pkt.handle, pkt.flow, UserId(user), pkt.len())
    }

    /// Everything that `scheduler` sends after `packets` came at once.
    pub fn run(
        scheduler: &mut impl Scheduler,
        packets: impl Iterator<Item = Packet>,
    ) -> Vec<Packet> {
        let mut drops = Drops::default();
        for pkt in packets {
            scheduler.enqueue(Instant::ZERO, pkt, &mut drops);
        }
        std::iter::from_fn(|| scheduler.dequeue(Instant::ZERO, &mut drops)).collect()
    }
}
