// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that were handed over as a whole: on which frames each depends, and the fate of each.
//!
//! Frames are numbered in the order of coming and depend on earlier ones, so one pass over the later frames finds all descendants.
//!
//! Cost: O(log [`KNOWN`]) for a part that leaves or is dropped, O(frames that came since) for a dropped frame.

mod chains;

pub(super) use chains::last;

use alloc::collections::VecDeque;

use super::queue::{NIL, Slot};
use super::{DatagramId, Frame, FrameError, FrameId, Key, MOST_DEPENDENCIES, Outcome};

/// Frames that are known at once: the latest. 17 s at 60 frames/s; chosen by us.
pub(super) const KNOWN: usize = 1024;

/// The latest frames, at most [`KNOWN`].
#[derive(Clone, Debug, Default)]
pub(super) struct Dependencies {
    known: VecDeque<Known>,
    next: u64,
}

/// How far back the frames are that a frame depends on, those that are forgotten left out; 0: none.
type Parents = [u16; MOST_DEPENDENCIES];

/// Frames that a frame needs, and its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    parents: Parents,
    class: u8,
    /// The latest keyframe from which it is decoded, itself if it is one; `None` where it is forgotten.
    root: Option<FrameId>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Number of its first part; the others follow.
    first: u64,
    /// Parts that wait, and the last of them.
    waiting: u32,
    part: Slot,
    /// The largest key of its parts.
    key: Key,
    links: Links,
    /// Whether a part left too late.
    late: bool,
    /// A keyframe that leaves though it is late.
    mends: bool,
    /// Distance in frames from a keyframe to the next one that was admitted in its class; 0: none.
    newer: u16,
    /// Fate of the frame, or of one that it depends on.
    lost: Option<Outcome>,
}

impl Dependencies {
    /// The number of the next frame.
    pub fn next(&self) -> FrameId {
        FrameId(self.next)
    }

    /// Frames on which the next frame depends.
    pub fn links(&self, frame: &Frame<'_>) -> Result<Links, FrameError> {
        let mut parents = Parents::default();
        let depends_on = frame.depends_on;
        if depends_on.len() > parents.len() {
            return Err(FrameError::Dependencies(depends_on.len()));
        }
        for (parent, id) in parents.iter_mut().zip(depends_on) {
            let back = self.next.checked_sub(id.0).filter(|back| *back > 0);
            let back = back.ok_or(FrameError::Unknown(*id))?;
            *parent = if back <= KNOWN as u64 { back as u16 } else { 0 };
        }
        Ok(Links {
            parents,
            class: frame.class,
            root: match depends_on {
                [] => Some(self.next()),
                _ => self.root(&parents),
            },
        })
    }

    /// Makes room for the next frame. The last waiting part of the frame that is to be forgotten, which has to go first.
    pub fn forget(&mut self) -> Option<Slot> {
        let oldest = self.known.front().filter(|_| self.known.len() == KNOWN)?;
        if oldest.waiting > 0 {
            return Some(oldest.part);
        }
        self.known.pop_front();
        None
    }

    /// Whether the next frame depends on a lost one.
    pub fn is_orphan(&self, links: &Links) -> bool {
        self.has_lost(self.known.len(), &links.parents)
    }

    /// The largest key of the frames that wait of those that the next frame depends on.
    pub fn behind(&self, links: &Links) -> Key {
        self.behind_at(self.known.len(), &links.parents)
    }

    fn behind_at(&self, at: usize, parents: &Parents) -> Key {
        let waiting = parents_of(&self.known, at, parents);
        let keys = waiting.filter(|known| known.waiting > 0);
        keys.map(|known| known.key).max().unwrap_or_default()
    }

    /// The next frame: from its part `first` on, of which `waiting` wait, the last in `part`.
    pub fn push(
        &mut self,
        first: DatagramId,
        (waiting, part): (u32, Slot),
        key: Key,
        links: Links,
        lost: Option<Outcome>,
    ) {
        self.known.push_back(Known {
            first: first.0,
            waiting,
            part,
            key,
            links,
            late: false,
            mends: false,
            newer: 0,
            lost,
        });
        self.next += 1;
    }

    /// A part has gone from `slot`; `before` is the one that came before it of those that wait. The fate of a frame that has ended so.
    pub fn end(
        &mut self,
        part: DatagramId,
        slot: Slot,
        before: Slot,
        outcome: Outcome,
    ) -> Option<(FrameId, Outcome)> {
        let at = self.find(part)?;
        let id = self.id(at);
        let known = &mut self.known[at];
        known.waiting -= 1;
        if known.part == slot {
            known.part = before;
        }
        let Outcome::Sent { waited, late } = outcome else {
            let lost = *known.lost.get_or_insert(outcome);
            return (known.waiting == 0).then_some((id, lost));
        };
        known.late |= late;
        let late = known.late;
        let sent = Outcome::Sent { waited, late };
        (known.waiting == 0).then_some((id, known.lost.unwrap_or(sent)))
    }

    /// The frame of this part is lost.
    pub fn lose(&mut self, part: DatagramId, outcome: Outcome) -> Option<FrameId> {
        let at = self.find(part)?;
        self.known[at].lost.get_or_insert(outcome);
        Some(self.id(at))
    }

    /// The first frame after `id` that is newly lost since it depends on a lost one, and its last part that waits, or [`NIL`].
    pub fn orphan_after(&mut self, id: FrameId) -> Option<(FrameId, Slot)> {
        let oldest = self.next - self.known.len() as u64;
        let from = (id.0 + 1).saturating_sub(oldest) as usize;
        let at = (from..self.known.len()).find(|at| {
            let known = &self.known[*at];
            known.lost.is_none() && self.has_lost(*at, &known.links.parents)
        })?;
        let known = &mut self.known[at];
        known.lost = Some(Outcome::Orphaned);
        let part = if known.waiting > 0 { known.part } else { NIL };
        Some((self.id(at), part))
    }

    fn has_lost(&self, at: usize, parents: &Parents) -> bool {
        parents_of(&self.known, at, parents).any(|parent| parent.lost.is_some())
    }

    fn find(&self, part: DatagramId) -> Option<usize> {
        let after = self.known.partition_point(|known| known.first <= part.0);
        after.checked_sub(1)
    }

    fn id(&self, at: usize) -> FrameId {
        FrameId(self.next - self.known.len() as u64 + at as u64)
    }
}

/// Known frames of `parents`, which are those of the frame at `at`.
fn parents_of<'a>(
    known: &'a VecDeque<Known>,
    at: usize,
    parents: &'a Parents,
) -> impl Iterator<Item = &'a Known> {
    let back = parents.iter().filter(|back| **back > 0);
    back.filter_map(move |back| known.get(at.checked_sub(usize::from(*back))?))
}
