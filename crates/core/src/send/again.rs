// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission with a deadline check: packets that were sent are kept, and one that the receiver misses is sent again only if it
//! would still be in time, after originals.
//!
//! A transport calls [`Again::keep`] for each packet that it sends, [`Again::ask`] for each request of the receiver, and
//! [`Again::take`] when the controller lets a packet leave and no original waits
//! ([`Sender::poll_transmit_extra`](super::Sender::poll_transmit_extra)).
//!
//! ```text
//! late if start + one_way + (ahead + before) / rate > deadline
//! ```
//!
//! `ahead` are the originals that wait, `before` the retransmissions that leave earlier: in the order of class, deadline and number. The
//! deadline of a part is that of its frame. The check is made when the request comes, and again at its turn.
//!
//! Bounds, against a receiver that asks for everything: a packet is sent again once per round trip, and [`COPIES`] times at most; at most
//! [`WAITING`] retransmissions wait; packets are kept in a number of bytes, each counted as its payload and [`OVERHEAD`]. A request costs O(log n) for n kept packets, and
//! O([`WAITING`]) where it depends on the order whether the packet is in time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Datagram;
use crate::units::{Bytes, Duration, Instant, Rate};

/// Retransmissions that wait at once; chosen by us: 256 of 1400 B are 2.9 s at 1 Mbit/s, longer than the deadlines of calls.
pub const WAITING: usize = 256;

/// Bytes that a kept packet counts beside its payload: its record, 144 B for RTP, in a queue whose room doubles.
pub const OVERHEAD: u64 = 256;

/// Times that one packet is sent again at most; chosen by us: under 30 % loss one of 1400 packets is then lost for good, and a receiver
/// that asks for everything gets six times the originals at most.
pub const COPIES: u8 = 5;

/// State of the sender when a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// When the controller lets the next packet leave.
    pub start: Instant,
    /// To the receiver.
    pub one_way: Duration,
    /// Rate of now; zero: no rate is known, and the queue counts as taking no time.
    pub rate: Rate,
    /// Originals that wait, payload.
    pub ahead: Bytes,
    /// Time before which a packet is not sent again.
    pub round_trip: Duration,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The packet waits to be sent again.
    Waits,
    /// It would be late.
    Late,
    /// It waits already, was sent again less than a round trip ago, or [`COPIES`] times.
    Repeated,
    /// It is not kept: it was not sent, has arrived, or was kept until its deadline or for as long as there was room.
    Unknown,
    /// [`WAITING`] others wait.
    Full,
}

/// Requests by what became of them: `asked` is the sum of the others and of those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests for a packet.
    pub asked: u64,
    /// Packets sent again.
    pub sent: u64,
    /// Requests for packets that would have been late, at the request or at their turn.
    pub late: u64,
    /// [`Answer::Repeated`].
    pub repeated: u64,
    /// [`Answer::Unknown`], and packets that arrived while they waited.
    pub unknown: u64,
    /// [`Answer::Full`], and packets that were dropped for others while they waited.
    pub evicted: u64,
}

/// A packet to send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission<T> {
    /// Its number when it was sent first.
    pub number: u64,
    /// Its attributes.
    pub datagram: Datagram,
    /// When it was asked for.
    pub since: Instant,
    /// The transport's payload.
    pub payload: T,
}

#[derive(Clone, Debug)]
struct Kept<T> {
    number: u64,
    datagram: Datagram,
    /// `None`: it has arrived.
    payload: Option<T>,
    /// When it was last sent again, and how often.
    again: Option<Instant>,
    copies: u8,
    waits: bool,
}

/// A retransmission that waits: the least leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    class: u8,
    deadline: Instant,
    number: u64,
    len: u32,
    since: Instant,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Again<T> {
    most: Bytes,
    held: u64,
    /// By number, which is the order of departure.
    kept: VecDeque<Kept<T>>,
    /// In the order of departure.
    waiting: Vec<Due>,
    waiting_bytes: u64,
    stats: Stats,
}

impl<T: Clone> Again<T> {
    /// Keeps packets in `most` bytes.
    pub fn new(most: Bytes) -> Self {
        Self {
            most,
            held: 0,
            kept: VecDeque::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            stats: Stats::default(),
        }
    }

    /// A packet leaves for the first time, with a number larger than those before.
    pub fn keep(&mut self, now: Instant, number: u64, datagram: Datagram, payload: T) {
        debug_assert!(self.kept.back().is_none_or(|last| last.number < number));
        self.forget(now);
        let bytes = cost(&datagram);
        if bytes > self.most.get() {
            return;
        }
        while self.held + bytes > self.most.get() {
            self.drop_first(now);
        }
        self.held += bytes;
        self.kept.push_back(Kept {
            number,
            datagram,
            payload: Some(payload),
            again: None,
            copies: 0,
            waits: false,
        });
    }

    /// The receiver misses a packet; `None`: one that the transport does not know either.
    pub fn ask(&mut self, now: Instant, number: Option<u64>, pace: &Pace) -> Answer {
        let answer = self.answer(now, number, pace);
        self.stats.asked += 1;
        match answer {
            Answer::Waits => {}
            Answer::Late => self.stats.late += 1,
            Answer::Repeated => self.stats.repeated += 1,
            Answer::Unknown => self.stats.unknown += 1,
            Answer::Full => self.stats.evicted += 1,
        }
        answer
    }

    fn answer(&mut self, now: Instant, number: Option<u64>, pace: &Pace) -> Answer {
        let Some(at) = number.and_then(|number| self.find(number)) else {
            return Answer::Unknown;
        };
        let Kept {
            number,
            datagram,
            ref payload,
            again,
            copies,
            waits,
        } = self.kept[at];
        if payload.is_none() {
            return Answer::Unknown;
        }
        let is_recent = again.is_some_and(|again| now < again + pace.round_trip);
        if waits || is_recent || copies >= COPIES {
            return Answer::Repeated;
        }
        let due = Due {
            class: datagram.class,
            deadline: datagram.deadline,
            number,
            len: datagram.len,
            since: now,
        };
        if !self.is_in_time(now, &due, pace) {
            return Answer::Late;
        }
        if self.waiting.len() >= WAITING {
            return Answer::Full;
        }
        let before = self.waiting.partition_point(|other| *other < due);
        self.waiting.insert(before, due);
        self.waiting_bytes += u64::from(due.len);
        self.kept[at].waits = true;
        Answer::Waits
    }

    /// Whether a packet that is asked for now arrives by its deadline.
    fn is_in_time(&self, now: Instant, due: &Due, pace: &Pace) -> bool {
        let arrives = pace.start.max(now) + pace.one_way;
        if arrives > due.deadline {
            return false;
        }
        let left = due.deadline.saturating_since(arrives).as_nanos();
        // `bytes / rate <= left` without a division.
        let is_sent = |before: u64| {
            let bytes = u128::from(pace.ahead.get()) + u128::from(before);
            let rate = pace.rate.bps();
            rate == 0 || bytes * 8_000_000_000 <= u128::from(left) * u128::from(rate)
        };
        if !is_sent(0) || is_sent(self.waiting_bytes) {
            return is_sent(0); // In any order.
        }
        let before = self.waiting.partition_point(|other| other < due);
        let before = self.waiting[..before].iter();
        is_sent(before.map(|other| u64::from(other.len)).sum())
    }

    /// A packet has arrived, at first or again: it is kept no longer.
    pub fn settle(&mut self, number: u64) {
        let Some(at) = self.find(number) else {
            return;
        };
        self.kept[at].payload = None;
        if self.leave(at) {
            self.stats.unknown += 1;
        }
    }

    /// Length of the packet that [`Again::take`] gives; those that would be late are dropped.
    pub fn peek(&mut self, now: Instant, one_way: Duration) -> Option<u32> {
        self.forget(now);
        loop {
            let due = *self.waiting.first()?;
            if now + one_way <= due.deadline {
                return Some(due.len);
            }
            self.stats.late += 1;
            match self.find(due.number) {
                Some(at) => {
                    self.leave(at);
                }
                None => self.remove(0), // Its packet is always kept; an endless loop would be worse than a wrong count.
            }
        }
    }

    /// The next packet to send again, which leaves now: after [`Again::peek`] gave its length.
    pub fn take(&mut self, now: Instant) -> Option<Retransmission<T>> {
        let due = *self.waiting.first()?;
        let at = self.find(due.number)?;
        let payload = self.kept[at].payload.clone()?;
        self.leave(at);
        let kept = &mut self.kept[at];
        kept.again = Some(now);
        kept.copies += 1;
        self.stats.sent += 1;
        Some(Retransmission {
            number: due.number,
            datagram: kept.datagram,
            since: due.since,
            payload,
        })
    }

    /// Whether a packet waits to be sent again.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes of the kept packets, each counted with [`OVERHEAD`].
    pub fn held(&self) -> Bytes {
        Bytes::new(self.held)
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Drops the oldest packets while their deadlines have passed or they have arrived.
    fn forget(&mut self, now: Instant) {
        let is_over = |kept: &Kept<T>| kept.payload.is_none() || kept.datagram.deadline < now;
        while self.kept.front().is_some_and(is_over) {
            self.drop_first(now);
        }
    }

    fn drop_first(&mut self, now: Instant) {
        if self.kept.is_empty() {
            return;
        }
        if self.leave(0) {
            let is_late = self.kept[0].datagram.deadline < now;
            let counter = match is_late {
                true => &mut self.stats.late,
                false => &mut self.stats.evicted,
            };
            *counter += 1;
        }
        if let Some(kept) = self.kept.pop_front() {
            self.held -= cost(&kept.datagram);
        }
    }

    /// A kept packet waits no longer; whether it did.
    fn leave(&mut self, at: usize) -> bool {
        let kept = &mut self.kept[at];
        let number = kept.number;
        if !core::mem::take(&mut kept.waits) {
            return false;
        }
        if let Some(at) = self.waiting.iter().position(|due| due.number == number) {
            self.remove(at);
        }
        true
    }

    fn remove(&mut self, at: usize) {
        self.waiting_bytes -= u64::from(self.waiting.remove(at).len);
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&number, |k| k.number).ok()
    }
}

fn cost(datagram: &Datagram) -> u64 {
    u64::from(datagram.len) + OVERHEAD
}

#[cfg(test)]
mod tests;
