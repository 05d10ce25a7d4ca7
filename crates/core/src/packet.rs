//! A packet as a scheduler sees it: 32 bytes, no payload.

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
    /// A packet of `len` bytes as the discipline counts them.
    ///
    /// # Panics
    /// If `len` is zero or above `u32::MAX`: no link carries such a packet.
    pub fn new(arrived: Instant, handle: Handle, flow: FlowId, user: UserId, len: Bytes) -> Self {
        let len = u32::try_from(len.get()).expect("packet length fits 32 bits");
        assert!(len > 0, "packet length is not zero");
        Self {
            arrived,
            handle,
            flow,
            user,
            len,
        }
    }

    /// Length in bytes.
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
}
