// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a connection: data in one direction, acknowledgements in the other. Sequence numbers are offsets in the byte
//! stream, from 0, and do not wrap.

use makeway_core::units::Instant;

/// Data on its way to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte.
    pub seq: u64,
    /// Bytes of payload, at least 1.
    pub len: u32,
    /// Whether any of it was sent before.
    pub retransmitted: bool,
    /// Congestion window reduced: the sender has reacted to a mark (RFC 3168 §6.1.2).
    pub cwr: bool,
    /// When it was sent: the timestamp option (RFC 7323 §3).
    pub sent_at: Instant,
}

impl Segment {
    /// Offset after the last byte.
    pub const fn end(&self) -> u64 {
        self.seq + self.len as u64
    }
}

/// An acknowledgement on its path back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Everything before this offset has arrived.
    pub ack: u64,
    /// The segment whose timestamp comes back, or [`Instant::FAR_FUTURE`] without timestamps.
    pub(super) echo: Instant,
    /// Ranges beyond `ack`, latest first.
    pub sack: SackBlocks,
    /// Bytes that the receiver has room for, from `ack` on.
    pub window: u32,
    /// ECN echo: a mark has arrived and is not yet answered (RFC 3168 §6.1.3).
    pub ece: bool,
}

const _: () = assert!(size_of::<Segment>() == 24 && size_of::<Ack>() == 48);

impl Ack {
    /// When the segment was sent that this acknowledgement answers, if there are timestamps.
    pub fn echo(&self) -> Option<Instant> {
        (self.echo != Instant::FAR_FUTURE).then_some(self.echo)
    }

    /// The ranges that have arrived beyond `ack`, as offsets `start..end`, latest first.
    pub fn sacked(&self) -> impl Iterator<Item = (u64, u64)> {
        let at = self.ack;
        let blocks = self
            .sack
            .0
            .into_iter()
            .take_while(|block| *block != NOTHING);
        blocks.map(move |(start, end)| (at + u64::from(start), at + u64::from(end)))
    }
}

/// Up to three ranges (RFC 2018 §3, beside timestamps), relative to the acknowledged offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks([(u32, u32); 3]);

/// End mark after the last block: no range begins at the acknowledged offset.
const NOTHING: (u32, u32) = (0, 0);

impl SackBlocks {
    /// Adds the range `start..end` beyond `ack`; a fourth is left out.
    pub(super) fn push(&mut self, ack: u64, (start, end): (u64, u64)) {
        if let Some(block) = self.0.iter_mut().find(|block| **block == NOTHING) {
            // Within the window, which is below 2^32 bytes.
            *block = ((start - ack) as u32, (end - ack) as u32);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0[0] == NOTHING
    }
}
