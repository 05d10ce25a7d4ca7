// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of late keyframes, from `docs/send.md`, on the reference's list.

use makeway_core::send::{AnyPolicy, Datagram, Outcome};
use makeway_core::units::Instant;

use super::{Held, LAST, Model, Whole};

impl Model {
    /// Whether the new frame `whole`, of the keyframe `root`, may be late: it is of use then, and its own bytes end within its bound.
    pub(super) fn may_be_late(
        &self,
        now: Instant,
        whole: usize,
        root: usize,
        parts: &[Held],
    ) -> bool {
        let lens = parts[1..].iter().map(|h| u64::from(h.datagram.len));
        let rest = self.takes(lens.sum());
        self.config.late_keyframes
            && (root == whole || self.wholes[root].mends && !self.is_superseded(root))
            && !self.late(now + rest, &twice(&parts[0]))
    }

    /// Whether a newer keyframe of its class was admitted, and is not lost.
    fn is_superseded(&self, root: usize) -> bool {
        let class = self.wholes[root].class;
        let later = self.wholes.iter().enumerate().skip(root + 1);
        later
            .filter(|(at, whole)| whole.root == *at)
            .any(|(_, whole)| whole.class == class && whole.lost.is_none())
    }

    /// Drops the late frames that wait of the keyframes before `newer`, if that is an admitted one in time, in its class: from the latest one
    /// of them on that is not late.
    pub(super) fn give_up_older(&mut self, now: Instant, newer: usize) {
        let Whole {
            class,
            root,
            mends,
            lost,
            ..
        } = self.wholes[newer];
        let drops = matches!(
            self.policy,
            AnyPolicy::Sbpn1(_) | AnyPolicy::Sbpn2(_) | AnyPolicy::Weighted(_)
        );
        if !self.config.late_keyframes || !drops || root != newer || mends || lost.is_some() {
            return;
        }
        let in_time = |at: &usize| {
            let whole = &self.wholes[*at];
            whole.root == *at && whole.class == class && whole.lost.is_none() && !whole.mends
        };
        let from = (0..newer).rev().find(in_time).unwrap_or_default();
        for at in from..newer {
            let first = self.waiting.iter().find(|h| h.whole == Some(at)).copied();
            let Some(first) = first.filter(|_| self.wholes[self.wholes[at].root].class == class)
            else {
                continue;
            };
            if self.late(now + self.rest(&first), &first.datagram) {
                self.give_up_group(&first, Outcome::Expired);
            }
        }
    }

    /// Whether a late datagram is a part of a frame that leaves late for the frames after it.
    pub(super) fn mends(&self, now: Instant, held: &Held) -> bool {
        let Some(whole) = held.whole.filter(|_| self.config.late_keyframes) else {
            return false;
        };
        let root = self.wholes[whole].root;
        !self.late(now + self.rest(held), &twice(held))
            && (root == whole || self.wholes[root].mends)
            && !self.is_superseded(root)
    }

    /// Puts the frame of a late datagram last in its class, and the frames that need it behind it. Whether it was not there.
    pub(super) fn put_last(&mut self, held: &Held) -> bool {
        let whole = held.whole.expect("a part of a whole frame");
        let root = self.wholes[whole].root;
        self.wholes[root].mends = true;
        if self.wholes[whole].key.1 == LAST {
            return false;
        }
        self.wholes[whole].key.1 = LAST;
        for at in whole..self.wholes.len() {
            let least = match at == whole {
                true => self.wholes[at].key,
                false => self.behind(&self.wholes[at].parents),
            };
            self.wholes[at].key = self.wholes[at].key.max(least);
            for part in self.waiting.iter_mut().filter(|h| h.whole == Some(at)) {
                part.behind = part.behind.max(least);
            }
        }
        true
    }
}

/// The datagram with a deadline at twice its time.
fn twice(held: &Held) -> Datagram {
    let deadline = held.datagram.deadline;
    Datagram {
        deadline: deadline + deadline.saturating_since(held.since),
        ..held.datagram
    }
}
