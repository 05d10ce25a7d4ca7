// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of packets that arrived and that were favoured: of all, or of the last ones.

use alloc::vec;
use alloc::vec::Vec;

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All that were taken into the buffer.
    pub received: u64,
    /// Packets that could have been favoured.
    pub candidates: u64,
    /// Packets that were favoured.
    pub favoured: u64,
}

/// The counters, and what each packet of the window was.
#[derive(Clone, Debug)]
pub struct Shares {
    counted: Share,
    /// A ring of as many as the window has; none where every packet counts.
    window: Vec<Kind>,
    /// Where the next packet goes, and the oldest is once the ring is full.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Other,
    Candidate,
    Favoured,
}

impl Shares {
    /// Nothing yet; a byte for each packet of the window.
    pub fn new(window: Option<u32>) -> Self {
        Self {
            counted: Share::default(),
            window: vec![Kind::Other; window.unwrap_or(0) as usize],
            next: 0,
        }
    }

    /// The counters with the packet that comes, before it is decided whether it is favoured.
    pub fn with_next(&self, is_candidate: bool) -> Share {
        let mut share = self.counted;
        let is_full = share.received == self.window.len() as u64;
        if let Some(oldest) = self.window.get(self.next)
            && is_full
        {
            let (candidate, favoured) = match oldest {
                Kind::Other => (0, 0),
                Kind::Candidate => (1, 0),
                Kind::Favoured => (1, 1),
            };
            share.received -= 1;
            share.candidates -= candidate;
            share.favoured -= favoured;
        }
        share.received += 1;
        share.candidates += u64::from(is_candidate);
        share
    }

    /// Counts the packet that comes.
    pub fn count(&mut self, is_candidate: bool, is_favoured: bool) {
        self.counted = self.with_next(is_candidate);
        self.counted.favoured += u64::from(is_favoured);
        if let Some(slot) = self.window.get_mut(self.next) {
            *slot = match (is_candidate, is_favoured) {
                (_, true) => Kind::Favoured,
                (true, false) => Kind::Candidate,
                (false, false) => Kind::Other,
            };
            self.next = (self.next + 1) % self.window.len();
        }
    }
}
