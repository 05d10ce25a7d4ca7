// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue, its policy and a rate controller: see [`Sender`].

mod late_keyframes;
mod whole;

use alloc::collections::VecDeque;

use super::dependencies::Dependencies;
use super::frames::{Frames, Open, WHOLE};
use super::queue::{NIL, Queue, Slot};
use super::{
    Datagram, DatagramId, Event, FrameId, Key, Outcome, Policy, Stats, Transmit, Waiting, WhenLate,
};
use crate::rate::{Feedback, FeedbackError, RateController};
use crate::sched::Backlog;
use crate::units::{Bytes, Duration, Fraction, Instant, Rate};

/// Bounds and thresholds of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Queue limit in datagrams, at least 1.
    pub packets: u32,
    /// Queue limit in payload.
    pub bytes: Bytes,
    /// The longest payload that a packet carries; what is longer than `bytes` is too large as well.
    pub largest: u32,
    /// One-way delay to the receiver, where it is known; otherwise [`Sender::set_one_way`], or [`RateController::one_way`].
    pub one_way: Option<Duration>,
    /// [`Event::Low`] is raised when the backlog falls below it; 0 B: never.
    pub low: Bytes,
    /// [`Event::Target`] comes when the rate has moved by this part.
    pub hysteresis: Fraction,
    /// A datagram that expired at its turn uses its send time, as in Linux's DCCP of 2007, which took it from the queue when
    /// the controller had let it go; otherwise the next one leaves in its stead.
    pub expired_use_slots: bool,
    /// Under a policy that drops late datagrams, a late keyframe leaves, and so do late frames that are decoded from it: within twice their
    /// time, unless a newer keyframe of the class waits or has left, and behind all datagrams in time of their class and of better ones. A
    /// keyframe is a [`Frame`](super::Frame) that depends on none; one that is no picture, of audio for example, counts too.
    pub late_keyframes: bool,
}

impl Default for Config {
    /// 1 MiB, with room for a keyframe of any call; deadlines keep the backlog short. Chosen by us.
    fn default() -> Self {
        Self {
            packets: 1024,
            bytes: Bytes::new(1 << 20),
            largest: 1400,
            one_way: None,
            low: Bytes::new(0),
            hysteresis: Fraction::ratio(1, 10),
            expired_use_slots: false,
            late_keyframes: true,
        }
    }
}

/// Sends the best datagram next, at the rate of its controller.
///
/// Its methods are of four kinds: commands ([`Sender::enqueue`]), input (`handle_*`), output (`poll_*`, to be called until they
/// have nothing more), and looks at what there is. A loop sends what [`Sender::poll_transmit`] gives, reads
/// [`Sender::poll_event`], sleeps until [`Sender::poll_timeout`], a datagram or feedback, and begins again. Time never runs backwards from
/// one call to the next.
///
/// Memory grows to the most that waited at once, to [`UNREAD`] events more and to those of one call, and stays.
#[derive(Clone, Debug)]
pub struct Sender<R, P, T> {
    config: Config,
    rate: R,
    one_way: Option<Duration>,
    policy: P,
    queue: Queue<T>,
    frames: Frames,
    dependencies: Dependencies,
    outcomes: VecDeque<Event>,
    /// How many there were, those that are read or dropped included.
    outcomes_made: u64,
    /// The target that the application knows or will read next.
    target: Rate,
    has_new_target: bool,
    is_low: bool,
    has_become_low: bool,
    stats: Stats,
    next_id: u64,
    next_sequence: u64,
}

/// Datagrams for which there is memory from the beginning.
const ROOM: usize = 64;

/// Events of earlier calls that are kept for an application, beyond one for each datagram that may wait.
pub const UNREAD: usize = 1024;

impl<R: RateController, P: Policy, T> Sender<R, P, T> {
    /// An empty queue.
    pub fn new(config: Config, rate: R, policy: P) -> Self {
        let when_full = policy.when_full();
        let target = rate.target_rate();
        // As many as may wait, where that is not a lot.
        let room = ROOM.min(config.packets as usize);
        Self {
            config,
            rate,
            one_way: None,
            policy,
            queue: Queue::new(when_full, room),
            frames: Frames::default(),
            dependencies: Dependencies::default(),
            outcomes: VecDeque::with_capacity(1 + room),
            outcomes_made: 0,
            target,
            has_new_target: true,
            is_low: true,
            has_become_low: false,
            stats: Stats::default(),
            next_id: 0,
            next_sequence: 0,
        }
    }

    /// Takes a datagram. Its outcome, or that of another dropped for it, is an event.
    pub fn enqueue(&mut self, now: Instant, datagram: Datagram, payload: T) -> DatagramId {
        self.forget_unread();
        self.note_idleness(now);
        let id = DatagramId(self.next_id);
        self.next_id += 1;
        let waiting = Waiting {
            id,
            datagram,
            since: now,
        };
        let key = self.policy.key(&waiting);
        match self.admit(now, &waiting, key) {
            Ok(frame) => {
                let slot = self.queue.push(waiting, key, payload, &frame);
                self.frames.add(&datagram, frame.at, slot);
            }
            Err(outcome) => {
                let part = self.frames.open(&datagram).part;
                self.note(&waiting, outcome);
                if part != NIL {
                    self.give_up(part, outcome);
                }
                self.frames.lose(&datagram, outcome);
            }
        }
        self.watch_level();
        id
    }

    /// Makes room for a datagram, and gives its frame; or what becomes of it at once.
    // Inlined, as what else runs for each datagram: what is passed stays in registers. A struct that is written field by field and copied at
    // once stalls, since the wide loads of the copy wait for the narrow stores.
    #[inline(always)]
    fn admit(&mut self, now: Instant, new: &Waiting, key: Key) -> Result<Open, Outcome> {
        let len = new.datagram.len;
        if len > self.config.largest || Bytes::new(len.into()) > self.config.bytes {
            return Err(Outcome::TooLarge);
        }
        loop {
            // The dropped datagram may have been a part of the same frame.
            let frame = self.frames.open(&new.datagram);
            if let Some(outcome) = frame.lost {
                return Err(outcome);
            }
            let Backlog { packets, bytes } = self.queue.held();
            let room = self.config.bytes.get().saturating_sub(bytes.get());
            if packets < self.config.packets.max(1) && u64::from(len) <= room {
                return Ok(frame);
            }
            let arrives = now + self.one_way();
            let victim = self.queue.victim(arrives, new, key);
            self.give_up(victim.ok_or(Outcome::Evicted)?, Outcome::Evicted);
        }
    }

    /// The datagram to send now, if its controller allows one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<T>> {
        self.rate.next_send().filter(|at| *at <= now)?;
        self.forget_unread();
        let transmit = self.send_best(now);
        self.watch_level();
        transmit
    }

    /// Lets a packet of the transport's own leave, with `len` bytes of payload, where the controller allows one and no datagram waits: its
    /// number on the wire, one of those of [`Transmit`]. For retransmissions: see [`again`](super::again).
    pub fn poll_transmit_extra(&mut self, now: Instant, len: u32) -> Option<u64> {
        self.rate.next_send().filter(|at| *at <= now)?;
        self.is_empty().then(|| {
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            self.rate.on_sent(now, sequence, len);
            sequence
        })
    }

    /// The datagram that [`Sender::poll_transmit`] gives at this time: for a transport that is asked first whether it takes it.
    pub fn peek(&mut self, now: Instant) -> Option<(&Datagram, &T)> {
        self.rate.next_send().filter(|at| *at <= now)?;
        self.forget_unread();
        let chosen = self.choose(now);
        self.watch_level();
        Some(self.queue.look(chosen?.0))
    }

    /// The next datagram, and whether it is late; datagrams dropped for it are gone.
    fn choose(&mut self, now: Instant) -> Option<(Slot, bool)> {
        let arrives = now + self.one_way();
        loop {
            let slot = self.queue.first()?;
            // SBPN paper, section 3.2, for all waiting parts of a frame: of one without its end, nothing is of use.
            if self.is_in_time(slot, arrives) {
                return Some((slot, false));
            }
            match self.policy.when_late() {
                WhenLate::Send => return Some((slot, true)),
                WhenLate::SendLast if !self.queue.set_aside(slot) => return Some((slot, true)),
                WhenLate::SendLast => {}
                WhenLate::Discard | WhenLate::DiscardUnlessAlone if self.mends(slot, arrives) => {
                    if !self.put_last(slot) {
                        return Some((slot, true));
                    }
                }
                WhenLate::DiscardUnlessAlone if self.is_alone(slot) => return Some((slot, true)),
                WhenLate::Discard | WhenLate::DiscardUnlessAlone => {
                    self.give_up(slot, Outcome::Expired);
                    if self.config.expired_use_slots {
                        self.rate.on_skipped(now);
                        self.rate.next_send().filter(|at| *at <= now)?;
                    }
                }
            }
        }
    }

    fn send_best(&mut self, now: Instant) -> Option<Transmit<T>> {
        let Some((slot, late)) = self.choose(now) else {
            // Not where expired datagrams used all send times until now.
            if self.rate.next_send().is_some_and(|at| at <= now) {
                self.rate.on_nothing_to_send(now);
            }
            return None;
        };
        if late && self.leaves_alone(slot, now) {
            self.give_up_rest(slot);
        }
        let waited = now.saturating_since(self.queue.waiting(slot).since);
        let (waiting, payload) = self.end(slot, Outcome::Sent { waited, late });
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.rate.on_sent(now, sequence, waiting.datagram.len);
        Some(Transmit {
            id: waiting.id,
            sequence,
            datagram: waiting.datagram,
            payload,
        })
    }

    /// The longest payload of a packet from now on, as the path's MTU changes. Longer waiting datagrams are dropped.
    pub fn set_largest(&mut self, largest: u32) {
        if largest < self.config.largest {
            self.forget_unread();
            let too_large = |sender: &Self, slot| sender.queue.is_longer(slot, largest);
            // All of them before what depends on them.
            for slot in 0..self.queue.slots() {
                if too_large(self, slot) {
                    self.lose(slot, Outcome::TooLarge);
                }
            }
            for slot in 0..self.queue.slots() {
                if too_large(self, slot) {
                    self.give_up(slot, Outcome::TooLarge);
                }
            }
            self.watch_level();
        }
        self.config.largest = largest;
    }

    /// Feedback of the receiver. Impossible feedback changes nothing and is counted.
    pub fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback,
    ) -> Result<(), FeedbackError> {
        self.note_idleness(now);
        let result = self.rate.on_feedback(now, feedback);
        self.stats.count_feedback(result);
        self.watch_target();
        result
    }

    /// One-way delay by measurement of the transport, which stands for the controller's estimate. [`Config::one_way`] stands for both.
    pub fn set_one_way(&mut self, one_way: Option<Duration>) {
        self.one_way = one_way;
    }

    /// When to call [`Sender::poll_transmit`] or [`Sender::handle_timeout`] again, unless something comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let send = self.rate.next_send().filter(|_| !self.is_empty());
        match (send, self.rate.next_timeout()) {
            (Some(send), Some(timeout)) => Some(send.min(timeout)),
            (send, timeout) => send.or(timeout),
        }
    }

    /// A timer of the controller may have run out.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.rate.next_timeout().is_some_and(|at| at <= now) {
            self.note_idleness(now);
            self.rate.on_timeout(now);
            self.watch_target();
        }
    }

    /// Events for the application: outcomes of datagrams and frames, in order, then the state of queue and rate.
    ///
    /// An application that does not ask loses the oldest outcomes, which [`Stats`] counts, beyond one for each datagram that may wait and
    /// [`UNREAD`] more. It loses none if it asks after each call, however many outcomes that call has.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(outcome) = self.outcomes.pop_front() {
            return Some(outcome);
        }
        if core::mem::take(&mut self.has_new_target) {
            return Some(Event::Target(self.target));
        }
        core::mem::take(&mut self.has_become_low).then_some(Event::Low)
    }

    /// Outcomes of datagrams and frames so far, read or not.
    pub fn outcomes_made(&self) -> u64 {
        self.outcomes_made
    }

    /// Outcomes that [`Sender::poll_event`] has still to give, but for the first `made` of all: for a log beside the application, which
    /// misses none if it looks after each call, from [`Sender::outcomes_made`] of its last look on.
    pub fn outcomes_since(&self, made: u64) -> impl Iterator<Item = &Event> {
        let gone = self.outcomes_made - self.outcomes.len() as u64;
        let known = usize::try_from(made.saturating_sub(gone)).unwrap_or(usize::MAX);
        self.outcomes.range(known.min(self.outcomes.len())..)
    }

    /// The controller.
    pub fn rate(&self) -> &R {
        &self.rate
    }

    /// The backlog, payload.
    pub fn backlog(&self) -> Backlog {
        self.queue.held()
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Changes the controller, where it takes more than feedback, and gives what `change` does: an estimate for
    /// [`External`](crate::rate::external::External).
    pub fn change_rate<U>(&mut self, now: Instant, change: impl FnOnce(&mut R) -> U) -> U {
        self.note_idleness(now);
        let changed = change(&mut self.rate);
        self.watch_target();
        changed
    }

    fn is_empty(&self) -> bool {
        self.queue.held().packets == 0
    }

    /// One-way delay by which datagrams are judged; 0 without an estimate.
    pub fn one_way(&self) -> Duration {
        let known = self.config.one_way.or(self.one_way);
        let known = known.or_else(|| self.rate.one_way());
        known.unwrap_or(Duration::ZERO)
    }

    /// Before anything else happens the controller learns that it could have sent and had nothing, whenever it was called.
    fn note_idleness(&mut self, now: Instant) {
        if self.is_empty() && self.rate.next_send().is_some_and(|at| at <= now) {
            self.rate.on_nothing_to_send(now);
        }
    }

    /// Whether `slot`, which would arrive at `arrives`, and all waiting parts of its frame behind it are in time at the rate of now.
    fn is_in_time(&self, slot: Slot, arrives: Instant) -> bool {
        let datagram = &self.queue.waiting(slot).datagram;
        self.ends_by(slot, arrives, datagram.deadline)
    }

    /// As [`Sender::is_in_time`], with another deadline.
    fn ends_by(&self, slot: Slot, arrives: Instant, by: Instant) -> bool {
        if arrives > by {
            return false;
        }
        let frame = self.queue.frame(slot);
        if frame.packets == 1 || self.policy.when_late() == WhenLate::Send {
            return true;
        }
        let behind = frame.bytes.get() - u64::from(self.queue.waiting(slot).datagram.len);
        self.is_sent_within(behind, by.saturating_since(arrives))
    }

    /// Whether a late datagram leaves because no other frame waits, and the rest of its frame is dropped.
    fn leaves_alone(&self, slot: Slot, now: Instant) -> bool {
        self.policy.when_late() == WhenLate::DiscardUnlessAlone
            && !self.mends(slot, now + self.one_way())
    }

    /// Whether nothing waits but the frame of `slot`.
    fn is_alone(&self, slot: Slot) -> bool {
        self.queue.frame(slot).packets == self.queue.held().packets
    }

    /// Drops a datagram, all parts of its frame that wait or will arrive, and what depends on it.
    fn give_up(&mut self, slot: Slot, outcome: Outcome) {
        let lost = self.lose(slot, outcome);
        self.give_up_siblings(slot, outcome);
        self.end(slot, outcome);
        if let Some(lost) = lost {
            self.give_up_descendants(lost);
        }
    }

    /// Drops the waiting parts of a frame but `slot`, which leaves late, and all frames that depend on it.
    fn give_up_rest(&mut self, slot: Slot) {
        // The last part of a whole frame ends it: late, but of use to others.
        if self.queue.known(slot) == WHOLE && self.queue.sibling(slot) == slot {
            return;
        }
        let lost = self.lose(slot, Outcome::Expired);
        self.give_up_siblings(slot, Outcome::Expired);
        if let Some(lost) = lost {
            self.give_up_descendants(lost);
        }
    }

    /// The frame of a datagram is lost: its number, if it came as a whole.
    #[inline(always)]
    fn lose(&mut self, slot: Slot, outcome: Outcome) -> Option<FrameId> {
        let waiting = self.queue.waiting(slot);
        if self.queue.known(slot) == WHOLE {
            return self.dependencies.lose(waiting.id, outcome);
        }
        self.frames.lose(&waiting.datagram, outcome);
        None
    }

    fn give_up_siblings(&mut self, slot: Slot, outcome: Outcome) {
        loop {
            let sibling = self.queue.sibling(slot);
            if sibling == slot {
                return;
            }
            self.end(sibling, outcome);
        }
    }

    /// Takes out a datagram that waits: this is what became of it.
    #[inline(always)]
    fn end(&mut self, slot: Slot, outcome: Outcome) -> (Waiting, T) {
        let (before, known) = (self.queue.before(slot), self.queue.known(slot));
        let (waiting, payload) = self.queue.remove(slot);
        self.note(&waiting, outcome);
        if known == WHOLE {
            self.end_part(waiting.id, slot, before, outcome);
        } else {
            self.frames.remove(&waiting.datagram, known, slot, before);
        }
        (waiting, payload)
    }

    /// Counts a datagram and tells what became of it.
    #[inline(always)]
    fn note(&mut self, waiting: &Waiting, outcome: Outcome) {
        self.stats.count(&waiting.datagram, outcome);
        self.tell(Event::Outcome(waiting.id, waiting.datagram, outcome));
    }

    #[inline(always)]
    fn tell(&mut self, event: Event) {
        self.outcomes_made += 1;
        self.outcomes.push_back(event);
    }

    /// Drops the oldest outcomes of earlier calls that nobody has read. Those of the call that begins are bounded by the queue and by the frame
    /// that it takes.
    #[inline]
    fn forget_unread(&mut self) {
        while self.outcomes.len() >= self.config.packets as usize + UNREAD {
            self.outcomes.pop_front();
            self.stats.unread += 1;
        }
    }

    fn watch_target(&mut self) {
        let (new, old) = (self.rate.target_rate(), self.target);
        let moved = u128::from(new.bps().abs_diff(old.bps())) << Fraction::BITS;
        if moved > u128::from(old.bps()) * u128::from(self.config.hysteresis.scaled()) {
            self.target = new;
            self.has_new_target = true;
        }
    }

    fn watch_level(&mut self) {
        let is_low = self.queue.held().bytes < self.config.low;
        if is_low != self.is_low {
            self.is_low = is_low;
            self.has_become_low = is_low;
        }
    }
}
