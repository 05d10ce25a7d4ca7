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
    len: u32,
}

impl Packet {
    /// 16 MiB - 1 B: no link carries a larger packet.
    pub const MAX_LEN: Bytes = Bytes::new((1 << 24) - 1);

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
            len,
        }
    }

    pub(crate) fn len_u32(&self) -> u32 {
        self.len
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> Bytes {
        Bytes::new(u64::from(self.len))
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
