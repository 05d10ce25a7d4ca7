// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that come as a whole: admitted as a whole or not at all, and dropped with all that depends on them.

use super::super::dependencies::{Links, last};
use super::{
    Datagram, DatagramId, Duration, Event, Instant, Key, NIL, Open, Outcome, Policy,
    RateController, Sender, Slot, Waiting, WhenLate,
};
use crate::send::{Frame, FrameError, FrameId};

/// The parts of a frame before it is admitted.
struct Parts {
    packets: u32,
    bytes: u64,
    longest: u32,
    first: u32,
    /// The largest key.
    key: Key,
    /// No part leaves before this key: that of the frames that it depends on, or the last of its class.
    behind: Key,
    is_late: bool,
}

impl<R: RateController, P: Policy, T> Sender<R, P, T> {
    /// Takes a frame in its packets, each with the length of its payload in bytes. It is admitted as a whole: a frame that cannot *end* in
    /// time at the rate of now, behind the datagrams that leave before it, is refused with [`Outcome::Expired`]; one for which there is no room, with
    /// [`Outcome::Evicted`] and without a loss to others; one that depends on a frame that was dropped, with [`Outcome::Orphaned`]. A
    /// refused frame has its number as well, so that others may depend on it. Gives that number and the one of the first part.
    ///
    /// Its parts are datagrams, numbered in their order, and end as others do; after the last of them comes [`Event::Frame`]. When a part is
    /// dropped, the waiting parts go with it, and so do all frames that depend on it. It leaves behind the frames on which it depends (under
    /// [`late_last`](super::super::late_last), unless those are late and it is not).
    ///
    /// Policies that send late datagrams admit late frames, and [`WhenLate::DiscardUnlessAlone`] one that finds the queue empty: a part of
    /// it is sent, so that the rate does not fall for lack of data. Without a rate, no frame counts as late. [`Config::late_keyframes`](super::Config::late_keyframes)
    /// admits late keyframes, and late frames that depend on a late one, if their own bytes alone end within twice their time.
    ///
    /// The latest 1024 frames are known: older ones count as sent, and what still waits of them is dropped ([`Outcome::Evicted`]).
    ///
    /// `parts` is read twice.
    ///
    /// Cost: O(log n) for each part, and O(n) where the frame is in time only if it passes datagrams that wait, or finds no room.
    ///
    /// # Errors
    /// [`FrameError`]; nothing has changed.
    pub fn enqueue_frame<I>(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        parts: I,
    ) -> Result<(FrameId, DatagramId), FrameError>
    where
        I: IntoIterator<Item = (u32, T)>,
        I::IntoIter: Clone,
    {
        let parts = parts.into_iter();
        let links = self.dependencies.links(frame)?;
        let first = DatagramId(self.next_id);
        let behind = self.dependencies.behind(&links);
        let part = |n: u64, len| Waiting {
            id: DatagramId(first.0 + n),
            datagram: Datagram {
                class: frame.class,
                len,
                deadline: frame.deadline,
                frame: None,
            },
            since: now,
        };
        let mut all = Parts {
            packets: 0,
            bytes: 0,
            longest: 0,
            first: 0,
            key: behind,
            behind,
            is_late: false,
        };
        for (len, _) in parts.clone() {
            let key = self.policy.key(&part(all.packets.into(), len));
            all.first = if all.packets == 0 { len } else { all.first };
            all.packets = all.packets.saturating_add(1);
            all.bytes += u64::from(len);
            all.longest = all.longest.max(len);
            all.key = all.key.max(key);
        }
        if all.packets == 0 {
            return Err(FrameError::Empty);
        }
        self.forget_unread();
        self.note_idleness(now);
        while let Some(oldest) = self.dependencies.forget() {
            self.give_up(oldest, Outcome::Evicted);
        }
        let id = self.dependencies.next();
        let refused = self.admit_frame(now, &part(0, all.first), &mut all, &links);
        let mut latest = NIL;
        let mut waiting = 0;
        for (len, payload) in parts {
            let part = part(self.next_id - first.0, len);
            self.next_id += 1;
            if let Err(outcome) = refused {
                self.note(&part, outcome);
                continue;
            }
            let key = self.policy.key(&part).max(all.behind);
            latest = self.queue.push(part, key, payload, &Open::whole(latest));
            waiting += 1;
        }
        let lost = refused.err();
        self.dependencies
            .push(first, (waiting, latest), all.key, links, lost);
        match lost {
            Some(outcome) => self.tell(Event::Frame(id, outcome)),
            None if self.config.late_keyframes => self.note_admitted(now, all.is_late),
            None => {}
        }
        self.watch_level();
        Ok((id, first))
    }

    /// Makes room for a frame whose first part is `new`; or its fate.
    fn admit_frame(
        &mut self,
        now: Instant,
        new: &Waiting,
        all: &mut Parts,
        links: &Links,
    ) -> Result<(), Outcome> {
        let packets = self.config.packets.max(1);
        let bytes = self.config.bytes.get();
        if all.longest > self.config.largest || all.packets > packets || all.bytes > bytes {
            return Err(Outcome::TooLarge);
        }
        if self.dependencies.is_orphan(links) {
            return Err(Outcome::Orphaned);
        }
        let deadline = new.datagram.deadline;
        if !self.ends_in_time(now, deadline, all) {
            let rest = all.bytes - u64::from(all.first);
            if self.config.late_keyframes
                && self.dependencies.next_may_be_late(links)
                && self.may_end_late(now, deadline, rest)
            {
                all.is_late = true;
                all.key = last(all.key);
                all.behind = all.key;
            } else if self.policy.when_late() == WhenLate::Discard || !self.is_empty() {
                return Err(Outcome::Expired);
            }
        }
        // How much more waits than may, the frame included.
        let excess = |sender: &Self, all: &Parts| {
            let held = sender.queue.held();
            let over = held
                .packets
                .saturating_add(all.packets)
                .saturating_sub(packets);
            (over, (held.bytes.get() + all.bytes).saturating_sub(bytes))
        };
        let over = excess(self, all);
        if over == (0, 0) {
            return Ok(());
        }
        let arrives = now + self.one_way();
        let yields = self.queue.yields(arrives, new, all.key);
        if yields.packets < over.0 || yields.bytes.get() < over.1 {
            return Err(Outcome::Evicted);
        }
        while excess(self, all) != (0, 0) {
            let victim = self.queue.victim(arrives, new, all.key);
            self.give_up(victim.ok_or(Outcome::Evicted)?, Outcome::Evicted);
        }
        // The dropped ones may have been some that it depends on.
        match self.dependencies.is_orphan(links) {
            true => Err(Outcome::Orphaned),
            false => Ok(()),
        }
    }

    /// Whether the last part would arrive by the deadline at the rate of now, behind all that leaves before it.
    fn ends_in_time(&mut self, now: Instant, deadline: Instant, all: &Parts) -> bool {
        match self.policy.when_late() {
            WhenLate::Send | WhenLate::SendLast => return true,
            WhenLate::Discard | WhenLate::DiscardUnlessAlone => {}
        }
        let starts = self.rate.next_send().map_or(now, |at| at.max(now));
        let arrives = starts + self.one_way();
        if arrives > deadline {
            return false;
        }
        let left = deadline.saturating_since(arrives);
        // After the first part, as for a frame whose turn it is.
        let rest = all.bytes - u64::from(all.first);
        let held = self.queue.held().bytes.get();
        self.is_sent_within(rest, left)
            && (self.is_sent_within(rest + held, left)
                || self.is_sent_within(rest + self.queue.ahead(all.key).get(), left))
    }

    /// Whether these bytes take no longer at the rate of now.
    #[inline(always)]
    pub(super) fn is_sent_within(&self, bytes: u64, left: Duration) -> bool {
        // `bytes / rate <= left` without a division; 0 where the controller knows no rate.
        let rate = self.rate.rate().bps();
        let bits = u128::from(bytes) * 8_000_000_000;
        rate == 0 || bits <= u128::from(left.as_nanos()) * u128::from(rate)
    }

    /// A part has gone: what that says of its frame.
    #[cold]
    pub(super) fn end_part(&mut self, id: DatagramId, slot: Slot, before: Slot, outcome: Outcome) {
        let ended = self.dependencies.end(id, slot, before, outcome);
        if let Some((frame, outcome)) = ended {
            self.tell(Event::Frame(frame, outcome));
        }
    }

    /// Drops all frames that depend on a lost one.
    #[cold]
    pub(super) fn give_up_descendants(&mut self, lost: FrameId) {
        let mut after = lost;
        while let Some((orphan, part)) = self.dependencies.orphan_after(after) {
            if part != NIL {
                self.give_up_siblings(part, Outcome::Orphaned);
                self.end(part, Outcome::Orphaned);
            }
            after = orphan;
        }
    }
}
