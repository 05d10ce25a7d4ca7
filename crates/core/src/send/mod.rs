//! The sender's half: which datagram leaves next, and which is no longer worth sending.
//!
//! An application hands a [`Sender`] datagrams with a class and a deadline. Its [`Policy`] decides their order, its
//! [`RateController`](crate::rate::RateController) when the next one may leave. Every datagram ends with an [`Outcome`]. No clock, no socket, no
//! thread inside: whoever owns a socket calls `poll_transmit`, `handle_feedback`, `handle_timeout` with the time.

pub mod fifo;
mod sender;

pub use sender::{Config, Sender};

use crate::units::{Duration, Instant, Rate};

/// What the application says of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// 0 is the most important.
    pub class: u8,
    /// Payload in bytes.
    pub len: u32,
    /// When it must have arrived; it is of no use to the receiver after that.
    pub deadline: Instant,
    /// Datagrams of one class with the same number are one frame: where one is given up, those that wait are too.
    pub frame: Option<u32>,
}

/// A datagram of one sender, counted from 0 in the order of [`Sender::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramId(pub u64);

/// A datagram that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which, and so the order of coming.
    pub id: DatagramId,
    /// What the application said of it.
    pub datagram: Datagram,
    /// When it came.
    pub since: Instant,
}

/// What waits, and what leaves next. One file per policy.
pub trait Policy {
    /// Its place among others: the least leaves first, the largest is the first to be given up. It stays while a datagram waits.
    fn key(&self, waiting: &Waiting) -> Key;

    /// What gives way when there is no room.
    fn when_full(&self) -> WhenFull;

    /// What happens to a datagram at the head that cannot arrive in time.
    fn when_late(&self) -> WhenLate;
}

/// Compared from left to right.
pub type Key = (u64, u64);

/// What gives way to a new datagram when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The new one.
    Refuse,
    /// The one with the largest key, the new one included.
    EvictWorst,
    /// One that cannot arrive in time, if there is one; else as [`WhenFull::EvictWorst`].
    EvictLate,
}

/// What happens to a datagram that is to leave and cannot arrive in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLate {
    /// It is sent.
    Send,
    /// It is given up.
    Discard,
    /// It is sent if nothing else waits at that moment, and given up otherwise.
    DiscardUnlessAlone,
    /// It waits until nothing that can arrive in time is left.
    SendLast,
}

/// A datagram to put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<T> {
    /// Which.
    pub id: DatagramId,
    /// Its number on the wire, from 0 without gaps: what feedback speaks of.
    pub sequence: u64,
    /// What the application said of it.
    pub datagram: Datagram,
    /// What the application handed over.
    pub payload: T,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was given to the wire.
    Sent {
        /// From enqueue to then.
        waited: Duration,
        /// Whether it could not be expected to arrive in time.
        late: bool,
    },
    /// It could not arrive in time, or a part of its frame could not.
    Expired,
    /// It gave way to another, or was refused, because the queue was full; or a part of its frame was.
    Evicted,
    /// It is longer than the largest that a packet carries.
    TooLarge,
}

/// What a sender tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The end of a datagram.
    Outcome(DatagramId, Datagram, Outcome),
    /// What an encoder may produce now; it has moved by more than [`Config::hysteresis`].
    Target(Rate),
    /// Less than [`Config::low`] waits.
    Low,
}
