// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's half: order of datagrams, and drops of those that cannot arrive in time.
//!
//! An application hands a [`Sender`] datagrams with a class and a deadline. Its [`Policy`] decides their order, its
//! [`RateController`](crate::rate::RateController) when the next one may leave. Every datagram ends with an [`Outcome`]. No clock, no socket, no
//! thread inside: the owner of a socket calls `poll_transmit`, `handle_feedback`, `handle_timeout` with the time.
//!
//! ```
//! use makeway_core::rate::fixed::Fixed;
//! use makeway_core::send::sbpn2::Sbpn2;
//! use makeway_core::send::{Config, Datagram, Event, Outcome, Sender};
//! use makeway_core::units::{Duration, Instant, Rate};
//!
//! // 1 Mbit/s: a video datagram of 1000 B takes 8 ms, and the path to the receiver 20 ms.
//! let rate = Fixed::new(Rate::from_bps(1_000_000));
//! let config = Config { one_way: Some(Duration::from_millis(20)), ..Config::default() };
//! let mut sender = Sender::new(config, rate, Sbpn2::default());
//!
//! let mut now = Instant::ZERO;
//! let datagram = |class, len, ms| Datagram {
//!     class,
//!     len,
//!     deadline: Instant::ZERO + Duration::from_millis(ms),
//!     frame: None,
//! };
//! sender.enqueue(now, datagram(1, 1000, 200), "video");
//! sender.enqueue(now, datagram(1, 1000, 21), "old video");
//! sender.enqueue(now, datagram(0, 160, 150), "audio");
//!
//! let mut wire = Vec::new();
//! while let Some(due) = sender.poll_timeout() {
//!     now = now.max(due);
//!     wire.extend(sender.poll_transmit(now).map(|transmit| transmit.payload));
//! }
//! // At 1.28 ms the audio has left, and the next datagram would arrive at 21.28 ms.
//! assert_eq!(wire, ["audio", "video"]);
//! assert_eq!(sender.stats().class(1).expired, 1);
//!
//! let expired = |event: &Event| matches!(event, Event::Outcome(_, _, Outcome::Expired));
//! assert_eq!(std::iter::from_fn(|| sender.poll_event()).filter(expired).count(), 1);
//! ```

pub mod again;
mod any;
mod dependencies;
pub mod fifo;
mod frames;
pub mod late_last;
mod order;
pub mod prio;
mod queue;
pub mod sbpn1;
pub mod sbpn2;
mod sender;
mod stats;
pub mod weighted;
pub mod when_full;

pub use any::{AnyPolicy, ParsePolicyError};
pub use sender::{Config, Sender, UNREAD};
pub use stats::{ClassStats, Rejected, Stats};

use crate::units::{Duration, Instant, Rate};

/// Attributes of a datagram, set by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// 0 is the most important.
    pub class: u8,
    /// Payload in bytes.
    pub len: u32,
    /// When it must have arrived; it is of no use to the receiver after that.
    pub deadline: Instant,
    /// Datagrams of one class with the same number are one frame: where one is dropped, the waiting ones are too, and later ones are
    /// refused. The latest 16 frames of each class are known; a part that comes after them begins a frame of its own. `None` of the parts
    /// of a [`Frame`].
    pub frame: Option<u32>,
}

/// A frame that the application hands over as a whole: see [`Sender::enqueue_frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Class of its datagrams; 0 is the most important.
    pub class: u8,
    /// When all of it must have arrived; it is of no use to the receiver after that.
    pub deadline: Instant,
    /// Frames without which it cannot be decoded, directly; at most [`MOST_DEPENDENCIES`]. None: a keyframe.
    pub depends_on: &'a [FrameId],
}

/// Frames that a frame may depend on: H.264 and H.265 have at most 16 reference pictures (ITU-T H.264 §A.3.1, H.265 §A.4.2), AV1 has 7.
pub const MOST_DEPENDENCIES: usize = 16;

/// A frame of one sender, counted from 0 in the order of [`Sender::enqueue_frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u64);

/// Reason why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It has no packets.
    #[error("a frame of 0 packets: hand over 1 at least, of 0 bytes or more")]
    Empty,
    /// It depends on too many frames.
    #[error(
        "a frame that depends on {0} frames: name {MOST_DEPENDENCIES} at most, those that it refers to directly"
    )]
    Dependencies(usize),
    /// It depends on a frame that was not handed over yet.
    #[error("a frame that depends on frame {}, which was not handed over: name earlier frames of this sender", .0.0)]
    Unknown(FrameId),
}

/// A datagram of one sender, counted from 0 in the order of [`Sender::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramId(pub u64);

/// A datagram that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which, and so the order of coming.
    pub id: DatagramId,
    /// The application's name of it.
    pub datagram: Datagram,
    /// When it came.
    pub since: Instant,
}

/// Order of service, and the datagrams no longer worth sending. One file per policy.
pub trait Policy {
    /// Its place among others: the least leaves first, and of equal ones the first to come. It stays while a datagram waits.
    fn key(&self, waiting: &Waiting) -> Key;

    /// The datagram to drop when there is no room.
    fn when_full(&self) -> WhenFull;

    /// Treatment of a datagram that is to leave and cannot arrive in time.
    fn when_late(&self) -> WhenLate;
}

/// Compared from left to right.
pub type Key = (u32, u64);

/// Order by class, then by deadline: what SBPN does to the transmit queue (SBPN paper, sections 3.2 and 4.3).
pub fn by_class_and_deadline(datagram: &Datagram) -> Key {
    (datagram.class.into(), datagram.deadline.as_nanos())
}

/// The datagram to drop when a new one finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The new one.
    Refuse,
    /// The one that would leave last, which may be the new one.
    EvictWorst,
    /// The waiting datagram with the largest key; among equals the oldest. The new one always stays.
    EvictOldest,
    /// The datagram with the earliest deadline among those that cannot arrive in time, the new one included; where all can, as
    /// [`WhenFull::EvictWorst`].
    EvictLate,
}

/// Treatment of a datagram that is to leave and cannot arrive in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenLate {
    /// It is sent.
    Send,
    /// It is dropped, unless [`Config::late_keyframes`] lets it leave.
    Discard,
    /// It is sent if no other datagram waits at that moment, and dropped otherwise. Parts of its own frame do not count: they are dropped
    /// and it is sent. [`Config::late_keyframes`] lets more leave.
    DiscardUnlessAlone,
    /// It goes behind everything that waits and comes, and is sent when only such ones are left.
    SendLast,
}

/// A datagram to put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<T> {
    /// Which.
    pub id: DatagramId,
    /// Its number on the wire, from 0 without gaps: what feedback speaks of.
    pub sequence: u64,
    /// The application's name of it.
    pub datagram: Datagram,
    /// The application's payload.
    pub payload: T,
}

/// Outcome of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// It was dropped for another, or refused, because the queue was full; or a part of its frame was.
    Evicted,
    /// It is longer than the largest that a packet carries; or a part of its frame is; or its frame is larger than the queue.
    TooLarge,
    /// A frame was dropped on which its frame depends.
    Orphaned,
}

impl Outcome {
    /// Its name in logs and files: `sent`, `late` (sent too late), `expired`, `evicted`, `too-large`, `orphaned`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sent { late: false, .. } => "sent",
            Self::Sent { late: true, .. } => "late",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
            Self::TooLarge => "too-large",
            Self::Orphaned => "orphaned",
        }
    }
}

/// A sender's message to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The end of a datagram.
    Outcome(DatagramId, Datagram, Outcome),
    /// The end of a frame that came as a whole, after the ends of its parts. [`Outcome::Sent`]: all of it, `late` if any part was.
    Frame(FrameId, Outcome),
    /// Target rate of an encoder: once in the beginning, and then when it has moved by more than [`Config::hysteresis`].
    Target(Rate),
    /// Less than [`Config::low`] waits, and before it was not less. Once for each such fall; not if it rose again unread.
    Low,
}
