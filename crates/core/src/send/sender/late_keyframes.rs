// SPDX-License-Identifier: MIT OR Apache-2.0
//! A late keyframe leaves, since the frames after it are decoded from it: [`Config::late_keyframes`](super::Config).
//!
//! Without it nothing can be shown until the next keyframe, so its worth is that of the frames between. Those right behind a late keyframe are
//! late as well, by a little less each where the encoder makes less than the rate; and each is needed for the next one, until they are in
//! time again. So they may be late too. Bounds, chosen by us: a frame may take twice the time that its deadline gives it, since a chain that
//! lags by more does not catch up soon; and not if a newer keyframe of its class waits or has left, from which the next frames are decoded.
//!
//! A newer keyframe in time has the waiting late frames of the older ones dropped when it comes, since behind a steady stream of others they might
//! never have their turn. One that is late itself may still be lost, as the first to be dropped in a full queue: they wait for their turn then.
//!
//! Late frames leave behind all that is in time in their class and in better ones, and delay it by the one datagram that is leaving.
//!
//! Cost: O(log n) for a part, and O(1) for each later frame that is known when a frame is found late at its turn, which happens once,
//! or is dropped; for a keyframe, O(1) for each frame since the latest one before it in its class that was in time.

use super::{
    Datagram, FrameId, Instant, Key, Outcome, Policy, RateController, Sender, Slot, WHOLE, WhenLate,
};

/// The end of twice the time that a frame that came at `came` had.
fn twice(deadline: Instant, came: Instant) -> Instant {
    deadline + deadline.saturating_since(came)
}

impl<R: RateController, P: Policy, T> Sender<R, P, T> {
    /// Whether a late frame that comes now, with `rest` bytes behind its first part, would end within its bound if it left at once. One that
    /// would not is no reason to drop others.
    pub(super) fn may_end_late(&self, now: Instant, deadline: Instant, rest: u64) -> bool {
        let starts = self.rate.next_send().map_or(now, |at| at.max(now));
        let (arrives, twice) = (starts + self.one_way(), twice(deadline, now));
        arrives <= twice && self.is_sent_within(rest, twice.saturating_since(arrives))
    }

    /// Whether a late part, which would arrive at `arrives`, and the rest of its frame are of use to later frames.
    pub(super) fn mends(&self, slot: Slot, arrives: Instant) -> bool {
        if !self.config.late_keyframes || self.queue.known(slot) != WHOLE {
            return false;
        }
        let waiting = self.queue.waiting(slot);
        let Datagram { deadline, .. } = waiting.datagram;
        self.ends_by(slot, arrives, twice(deadline, waiting.since))
            && self.dependencies.part_may_be_late(waiting.id)
    }

    /// The latest frame was admitted: if it is a keyframe in time, the late frames that wait of the keyframes before it are of no use any more.
    #[cold]
    pub(super) fn note_admitted(&mut self, now: Instant, is_late: bool) {
        let from = self.dependencies.note_admitted(is_late);
        let (Some(mut from), WhenLate::Discard | WhenLate::DiscardUnlessAlone) =
            (from, self.policy.when_late())
        else {
            return;
        };
        let arrives = now + self.one_way();
        while let Some((frame, last)) = self.dependencies.older_from(from) {
            let first = self.queue.sibling(last);
            if !self.is_in_time(first, arrives) {
                self.give_up(first, Outcome::Expired);
            }
            from = FrameId(frame.0 + 1);
        }
    }

    /// Lets the frame of a late part leave last in its class, and those that depend on it behind it. Whether it had another place.
    #[cold]
    pub(super) fn put_last(&mut self, slot: Slot) -> bool {
        let id = self.queue.waiting(slot).id;
        let Some((mut frame, key)) = self.dependencies.put_last(id) else {
            return false;
        };
        self.leave_behind(slot, key);
        while let Some((next, part, key)) = self.dependencies.passes_after(frame) {
            self.leave_behind(part, key);
            frame = next;
        }
        true
    }

    /// Puts all waiting parts of the frame of `slot` behind `key`.
    fn leave_behind(&mut self, slot: Slot, key: Key) {
        let mut part = slot;
        loop {
            self.queue.leave_behind(part, key);
            part = self.queue.sibling(part);
            if part == slot {
                return;
            }
        }
    }
}
