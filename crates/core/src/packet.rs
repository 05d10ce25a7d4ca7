//! A packet as a scheduler sees it: 24 bytes, no payload.

use crate::units::{Bytes, Instant};

/// A flow, as a dense index below the capacity that the scheduler was made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A user (subscriber, host) of the hierarchical disciplines: a dense index like [`FlowId`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u32);

/// What a world calls its packet: an index in its arena, the identifier of the kernel's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

macro_rules! index {
    ($id:ident) => {
        impl From<u32> for $id {
            fn from(index: u32) -> Self {
                Self(index)
            }
        }

        impl From<$id> for u32 {
            fn from(id: $id) -> u32 {
                id.0
            }
        }
    };
}

index!(FlowId);
index!(UserId);

/// What a packet says of congestion (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ecn {
    /// Its transport would not understand a mark.
    #[default]
    NotCapable,
    /// It may be marked in the place of being dropped.
    Capable,
    /// Congestion experienced: it is marked.
    Marked,
}

/// A packet's length is below 2^24; [`Ecn`] has two bits above it, then comes one for control.
const LEN_BITS: u32 = 24;
const LEN: u32 = (1 << LEN_BITS) - 1;
const ECN: u32 = 0b11 << LEN_BITS;
const CONTROL: u32 = 1 << (LEN_BITS + 2);

/// A packet held or moved by a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it came to the scheduler; sojourn time counts from here.
    pub arrived: Instant,
    /// The owner's name for it.
    pub handle: Handle,
    /// Its flow.
    pub flow: FlowId,
    /// Its user; zero where there is no hierarchy.
    pub user: UserId,
    /// Length in the lower 24 bits, [`Ecn`] above, then whether it is control.
    bits: u32,
}

impl Packet {
    /// 16 MiB - 1 B: no link carries a larger packet.
    pub const MAX_LEN: Bytes = Bytes::new(LEN as u64);

    /// A packet of `len` bytes as the discipline counts them.
    ///
    /// # Panics
    /// If `len` is zero or above [`Packet::MAX_LEN`].
    #[inline]
    pub fn new(arrived: Instant, handle: Handle, flow: FlowId, user: UserId, len: Bytes) -> Self {
        assert!(
            (Bytes::new(1)..=Self::MAX_LEN).contains(&len),
            "a packet of {len} is outside 1 B to 16 MiB"
        );
        // Below 2^24.
        let len = len.get() as u32;
        Self {
            arrived,
            handle,
            flow,
            user,
            bits: len,
        }
    }

    /// The same packet of a transport that says `ecn`.
    #[must_use]
    #[inline]
    pub fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.bits = self.bits & !ECN | (ecn as u32) << LEN_BITS;
        self
    }

    /// The same packet, said to carry no data of its own: a TCP segment without payload.
    #[must_use]
    #[inline]
    pub fn with_control(mut self) -> Self {
        self.bits |= CONTROL;
        self
    }

    /// Whether it carries no data of its own.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.bits & CONTROL != 0
    }

    /// What it says of congestion.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match (self.bits & ECN) >> LEN_BITS {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable,
            _ => Ecn::Marked,
        }
    }

    /// Marks it, if that is understood; whether it is marked now.
    pub fn mark(&mut self) -> bool {
        let understood = self.ecn() != Ecn::NotCapable;
        if understood {
            *self = self.with_ecn(Ecn::Marked);
        }
        understood
    }

    #[inline]
    pub(crate) fn len_u32(&self) -> u32 {
        self.bits & LEN
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> Bytes {
        Bytes::new(u64::from(self.len_u32()))
    }
}

/// Why a scheduler gave a packet up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The buffer was full and the arriving packet was refused (drop-tail).
    Tail,
    /// The buffer was full and the longest queue gave up a packet (longest queue drop).
    LongestQueue,
    /// The packet alone is larger than the whole buffer.
    TooLarge,
    /// The average queue is between its thresholds, and chance chose the arriving packet (RED).
    Early,
    /// The average queue is above its upper threshold (RED).
    Forced,
    /// Packets have stayed longer than the target for an interval (CoDel).
    Sojourn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leaves_the_length_as_it_is_and_only_where_it_is_understood() {
        let packet = |ecn| {
            let (arrived, len) = (Instant::ZERO, Packet::MAX_LEN);
            Packet::new(arrived, Handle(0), FlowId(0), UserId(0), len).with_ecn(ecn)
        };
        for (ecn, after) in [
            (Ecn::NotCapable, Ecn::NotCapable),
            (Ecn::Capable, Ecn::Marked),
            (Ecn::Marked, Ecn::Marked),
        ] {
            let mut packet = packet(ecn);
            assert_eq!(packet.ecn(), ecn);
            assert_eq!(packet.mark(), after == Ecn::Marked);
            assert_eq!((packet.ecn(), packet.len()), (after, Packet::MAX_LEN));
            assert!(!packet.is_control());
        }
    }

    #[test]
    fn control_is_said_beside_length_and_mark() {
        let len = Bytes::new(40);
        let packet = Packet::new(Instant::ZERO, Handle(0), FlowId(0), UserId(0), len);
        let ack = packet.with_control().with_ecn(Ecn::Marked);
        assert!(ack.is_control());
        assert_eq!((ack.ecn(), ack.len()), (Ecn::Marked, len));
    }
}
