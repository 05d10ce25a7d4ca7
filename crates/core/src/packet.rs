// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet as a scheduler sees it: 24 bytes, no payload.

use crate::units::{Bytes, Instant};

/// A flow, as a dense index below the capacity that the scheduler was made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A user (subscriber, host) of the hierarchical disciplines: a dense index like [`FlowId`], below
/// [`UserId::MOST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u32);

/// A world's name of its packet: an index in its arena, the identifier of the kernel's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl UserId {
    /// 2^21: largest number of users.
    pub const MOST: u32 = 1 << Self::BITS;
    /// Bits that a packet has for its user.
    pub(crate) const BITS: u32 = 21;
}

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

/// ECN field of a packet (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ecn {
    /// Its transport would not understand a mark.
    #[default]
    NotCapable,
    /// ECT(0): it may be marked instead of dropped.
    Capable,
    /// ECT(1): it may be marked, and its sender expects many marks (RFC 9331).
    Scalable,
    /// Congestion experienced: it is marked.
    Marked,
}

/// Tag of a packet, for tickets ([`crate::ticket`]) or a service profile: a code whose meaning
/// is known to those who share it. 0: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

/// [`Packet`] keeps five things in 64 bits: from the lowest on length, [`Ecn`], control, user and tag.
const LEN_BITS: u32 = 24;
const ECN_BITS: u32 = 2;
const CONTROL_AT: u32 = LEN_BITS + ECN_BITS;
const USER_AT: u32 = CONTROL_AT + 1;
const TAG_AT: u32 = USER_AT + UserId::BITS;

/// A packet held or moved by a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it came to the scheduler; sojourn time counts from here.
    pub arrived: Instant,
    /// The owner's name for it.
    pub handle: Handle,
    /// Its flow.
    pub flow: FlowId,
    /// Length, [`Ecn`], control, user, tag.
    bits: u64,
}

const _: () = assert!(size_of::<Packet>() == 24 && TAG_AT + u16::BITS == u64::BITS);

impl Packet {
    /// 16 MiB - 1 B: no link carries a larger packet.
    pub const MAX_LEN: Bytes = Bytes::new((1 << LEN_BITS) - 1);

    /// A packet of `len` bytes as the discipline counts them; `user` is zero where there is no hierarchy.
    ///
    /// # Panics
    /// If `len` is zero or above [`Packet::MAX_LEN`], or `user` not below [`UserId::MOST`].
    #[inline]
    pub fn new(arrived: Instant, handle: Handle, flow: FlowId, user: UserId, len: Bytes) -> Self {
        assert!(
            (Bytes::new(1)..=Self::MAX_LEN).contains(&len),
            "a packet of {len} is outside 1 B to 16 MiB"
        );
        assert!(
            user.0 < UserId::MOST,
            "user {} is not below 2^{}",
            user.0,
            UserId::BITS
        );
        Self {
            arrived,
            handle,
            flow,
            bits: len.get() | u64::from(user.0) << USER_AT,
        }
    }

    /// The same packet of a transport that says `ecn`.
    #[must_use]
    #[inline]
    pub fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.set(LEN_BITS, ECN_BITS, ecn as u64);
        self
    }

    /// The same packet, said to carry no data of its own: a TCP segment without payload.
    #[must_use]
    #[inline]
    pub fn with_control(mut self) -> Self {
        self.set(CONTROL_AT, 1, 1);
        self
    }

    /// Whether it carries no data of its own.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.bits & 1 << CONTROL_AT != 0
    }

    /// The same packet with `tag`.
    #[must_use]
    #[inline]
    pub fn with_tag(mut self, tag: Tag) -> Self {
        self.set(TAG_AT, u16::BITS, tag.0.into());
        self
    }

    /// Its tag.
    #[inline]
    pub fn tag(&self) -> Tag {
        // The uppermost 16 bits.
        Tag((self.bits >> TAG_AT) as u16)
    }

    /// Its user.
    #[inline]
    pub fn user(&self) -> UserId {
        // 21 bits.
        UserId((self.bits >> USER_AT) as u32 & (UserId::MOST - 1))
    }

    #[inline]
    fn set(&mut self, at: u32, bits: u32, value: u64) {
        let mask = ((1 << bits) - 1) << at;
        self.bits = self.bits & !mask | value << at;
    }

    /// Its ECN field.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match self.bits >> LEN_BITS & ((1 << ECN_BITS) - 1) {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable,
            2 => Ecn::Scalable,
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
        self.bits as u32 & ((1 << LEN_BITS) - 1)
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> Bytes {
        Bytes::new(u64::from(self.len_u32()))
    }
}

/// Reason of a drop by a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// The buffer was full and the arriving packet was refused (drop-tail).
    Tail,
    /// The buffer was full and the longest queue dropped a packet (longest queue drop).
    LongestQueue,
    /// The packet alone is larger than the whole buffer.
    TooLarge,
    /// The average queue is between its thresholds, and chance chose the arriving packet (RED); after the buffer was
    /// full, it chose one that would have left (BLUE in CAKE).
    Early,
    /// The average queue is above its upper threshold (RED).
    Forced,
    /// It met a packet of its own flow, arriving or drawn by chance (CHOKe).
    Match,
    /// Packets have stayed longer than the target for an interval (CoDel).
    Sojourn,
}

impl DropReason {
    /// Every reason, in the order of `enum reason` in `bpf/qdisc.h`.
    pub const ALL: [Self; 7] = [
        Self::Tail,
        Self::LongestQueue,
        Self::TooLarge,
        Self::Early,
        Self::Forced,
        Self::Match,
        Self::Sojourn,
    ];

    /// The name in reports and in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::LongestQueue => "longest-queue",
            Self::TooLarge => "too-large",
            Self::Early => "early",
            Self::Forced => "forced",
            Self::Match => "match",
            Self::Sojourn => "sojourn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_made_only_where_it_is_understood() {
        for (ecn, after) in [
            (Ecn::NotCapable, Ecn::NotCapable),
            (Ecn::Capable, Ecn::Marked),
            (Ecn::Scalable, Ecn::Marked),
            (Ecn::Marked, Ecn::Marked),
        ] {
            let (handle, len) = (Handle(0), Packet::MAX_LEN);
            let mut packet =
                Packet::new(Instant::ZERO, handle, FlowId(0), UserId(0), len).with_ecn(ecn);
            assert_eq!(packet.mark(), after == Ecn::Marked);
            assert_eq!(packet.ecn(), after);
        }
    }

    #[test]
    fn what_a_packet_holds_is_held_apart() {
        let most = UserId(UserId::MOST - 1);
        for (len, user, tag) in [
            (Bytes::new(1), most, Tag(u16::MAX)),
            (Packet::MAX_LEN, UserId(0), Tag(u16::MAX)),
            (Packet::MAX_LEN, most, Tag(0)),
        ] {
            for ecn in [Ecn::NotCapable, Ecn::Capable, Ecn::Scalable, Ecn::Marked] {
                let packet = Packet::new(Instant::ZERO, Handle(0), FlowId(0), user, len)
                    .with_tag(Tag(1))
                    .with_ecn(Ecn::Marked)
                    .with_tag(tag)
                    .with_ecn(ecn);
                assert_eq!(
                    (packet.len(), packet.ecn(), packet.user(), packet.tag()),
                    (len, ecn, user, tag)
                );
            }
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
