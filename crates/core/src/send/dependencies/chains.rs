// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains of frames, each from a keyframe on: a late keyframe is of use to the frames after it, until there is a newer one.
//!
//! Each keyframe knows the next one that was admitted in its class while it was not lost itself, so that these are a list that passes all later ones
//! that are not lost.
//!
//! Whether a frame may be late depends on its keyframe and on those after it in that list up to the first that is not lost, so that it costs
//! O(log [`KNOWN`](super::KNOWN)) for a part, and O(1) for each lost one. An admitted keyframe costs O(frames since the latest one before it in
//! its class that is not lost and was in time), a frame that moves to the end O(frames after it).

use super::{Dependencies, Known, Links, Parents, parents_of};
use crate::send::queue::Slot;
use crate::send::{DatagramId, FrameId, Key};

/// End of the order within a class: behind every deadline.
const LAST: u64 = u64::MAX;

/// Key behind all datagrams in time of the class of `key`.
pub(in crate::send) fn last(key: Key) -> Key {
    (key.0, LAST)
}

impl Dependencies {
    /// The latest keyframe of those that the next frame needs.
    pub(super) fn root(&self, parents: &Parents) -> Option<FrameId> {
        let parents = parents_of(&self.known, self.known.len(), parents);
        parents.filter_map(|parent| parent.links.root).max()
    }

    /// Whether the next frame would be of use though it is late.
    pub fn next_may_be_late(&self, links: &Links) -> bool {
        self.may_be_late(self.next(), links.root)
    }

    /// Whether the frame of this part is of use though it is late: a keyframe, or one that is decoded from a late one, unless a newer
    /// keyframe of the class was admitted and is not lost.
    pub fn part_may_be_late(&self, part: DatagramId) -> bool {
        self.find(part)
            .is_some_and(|at| self.may_be_late(self.id(at), self.known[at].links.root))
    }

    fn may_be_late(&self, frame: FrameId, root: Option<FrameId>) -> bool {
        let is_keyframe = root == Some(frame);
        match root.and_then(|root| self.at(root)) {
            Some(root) => (self.known[root].mends || is_keyframe) && !self.is_superseded(root),
            None => is_keyframe,
        }
    }

    /// Whether a newer keyframe of its class was admitted and is not lost.
    fn is_superseded(&self, keyframe: usize) -> bool {
        let newer = |at: &usize| match self.known[*at].newer {
            0 => None,
            by => Some(*at + usize::from(by)),
        };
        core::iter::successors(newer(&keyframe), newer).any(|at| self.known[at].lost.is_none())
    }

    /// The latest frame was admitted: it is in time, or `is_late`. A keyframe supersedes the keyframe before it in its class, until it is lost.
    /// The first frame to ask [`Dependencies::older_from`] for, if it is one in time that supersedes another.
    pub fn note_admitted(&mut self, is_late: bool) -> Option<FrameId> {
        let latest = self.known.len().checked_sub(1)?;
        if !self.is_keyframe(latest) {
            return None;
        }
        self.known[latest].mends = is_late;
        let class = self.known[latest].links.class;
        let before = (0..latest)
            .rev()
            .find(|at| self.is_kept_keyframe(*at, class))?;
        self.known[before].newer = (latest - before) as u16;
        if is_late {
            return None;
        }
        // One in time had the late ones before it dropped when it came.
        let in_time = |at: &usize| self.is_kept_keyframe(*at, class) && !self.known[*at].mends;
        let from = (0..=before).rev().find(in_time).unwrap_or_default();
        Some(self.id(from))
    }

    /// The first frame from `id` on that waits and is decoded from a keyframe before the latest frame, in the class of that: its number, and
    /// its last part that waits.
    pub fn older_from(&self, id: FrameId) -> Option<(FrameId, Slot)> {
        let latest = self.known.len().checked_sub(1)?;
        let class = self.known[latest].links.class;
        let at = (self.at(id)?..latest).find(|at| {
            let Known { waiting, links, .. } = &self.known[*at];
            let root = links.root.and_then(|root| self.at(root));
            *waiting > 0 && root.is_some_and(|root| self.known[root].links.class == class)
        })?;
        Some((self.id(at), self.known[at].part))
    }

    /// The frame of a late part leaves late, the last of its class: its number and its key from now on. `None` if that is its place.
    pub fn put_last(&mut self, part: DatagramId) -> Option<(FrameId, Key)> {
        let at = self.find(part)?;
        if let Some(root) = self.known[at].links.root.and_then(|root| self.at(root)) {
            self.known[root].mends = true;
        }
        let id = self.id(at);
        let key = &mut self.known[at].key;
        (*key != last(*key)).then(|| {
            *key = last(*key);
            (id, *key)
        })
    }

    /// The first frame after `id` that would leave before one that it depends on: its number, its last part that waits, and the key that
    /// it has from now on.
    pub fn passes_after(&mut self, id: FrameId) -> Option<(FrameId, Slot, Key)> {
        let from = self.at(id)? + 1;
        let (at, behind) = (from..self.known.len()).find_map(|at| {
            let known = &self.known[at];
            let behind = self.behind_at(at, &known.links.parents);
            (known.waiting > 0 && known.key < behind).then_some((at, behind))
        })?;
        self.known[at].key = behind;
        Some((self.id(at), self.known[at].part, behind))
    }

    /// Whether it is a keyframe of `class` that was admitted and is not lost.
    fn is_kept_keyframe(&self, at: usize, class: u8) -> bool {
        let Known { links, lost, .. } = &self.known[at];
        links.class == class && lost.is_none() && self.is_keyframe(at)
    }

    fn is_keyframe(&self, at: usize) -> bool {
        self.known[at].links.root == Some(self.id(at))
    }

    /// Its place among the known frames.
    fn at(&self, id: FrameId) -> Option<usize> {
        let oldest = self.next - self.known.len() as u64;
        let at = usize::try_from(id.0.checked_sub(oldest)?).ok()?;
        (at < self.known.len()).then_some(at)
    }
}
