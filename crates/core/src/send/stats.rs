// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a [`Sender`](super::Sender).

use super::{Datagram, Outcome};
use crate::rate::FeedbackError;
use alloc::vec::Vec;
use core::ops::AddAssign;

/// Counters of a sender since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Grows to the largest class that was used, 256 at most.
    classes: Vec<ClassStats>,
    /// Feedback that was believed.
    pub feedback: u64,
    /// Feedback that was not.
    pub rejected: Rejected,
    /// Outcomes that nobody polled in time: see [`Sender::poll_event`](super::Sender::poll_event).
    pub unread: u64,
}

/// Datagrams of a class, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Given to the wire.
    pub sent: u64,
    /// Sent datagrams that could not be expected to arrive in time.
    pub late: u64,
    /// [`Outcome::Expired`].
    pub expired: u64,
    /// [`Outcome::Evicted`].
    pub evicted: u64,
    /// [`Outcome::TooLarge`].
    pub too_large: u64,
    /// [`Outcome::Orphaned`].
    pub orphaned: u64,
}

impl AddAssign for ClassStats {
    fn add_assign(&mut self, other: Self) {
        let Self {
            sent,
            late,
            expired,
            evicted,
            too_large,
            orphaned,
        } = other;
        self.sent += sent;
        self.late += late;
        self.expired += expired;
        self.evicted += evicted;
        self.too_large += too_large;
        self.orphaned += orphaned;
    }
}

/// Feedback that was not believed, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// [`FeedbackError::NotSent`].
    pub not_sent: u64,
    /// [`FeedbackError::Forgotten`].
    pub forgotten: u64,
    /// [`FeedbackError::Stale`].
    pub stale: u64,
    /// [`FeedbackError::HeldTooLong`].
    pub held_too_long: u64,
    /// [`FeedbackError::OutOfRange`].
    pub out_of_range: u64,
    /// [`FeedbackError::WrongKind`].
    pub wrong_kind: u64,
}

impl Stats {
    /// Counters of one class.
    pub fn class(&self, class: u8) -> ClassStats {
        self.classes
            .get(usize::from(class))
            .copied()
            .unwrap_or_default()
    }

    /// From class 0 to the largest that was used.
    pub fn classes(&self) -> &[ClassStats] {
        &self.classes
    }

    #[inline(always)]
    pub(super) fn count(&mut self, datagram: &Datagram, outcome: Outcome) {
        let class = usize::from(datagram.class);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, ClassStats::default());
        }
        let class = &mut self.classes[class];
        match outcome {
            Outcome::Sent { late, .. } => {
                class.sent += 1;
                class.late += u64::from(late);
            }
            Outcome::Expired => class.expired += 1,
            Outcome::Evicted => class.evicted += 1,
            Outcome::TooLarge => class.too_large += 1,
            Outcome::Orphaned => class.orphaned += 1,
        }
    }

    pub(super) fn count_feedback(&mut self, result: Result<(), FeedbackError>) {
        let rejected = &mut self.rejected;
        let counter = match result {
            Ok(()) => &mut self.feedback,
            Err(FeedbackError::NotSent(_)) => &mut rejected.not_sent,
            Err(FeedbackError::Forgotten(_)) => &mut rejected.forgotten,
            Err(FeedbackError::Stale) => &mut rejected.stale,
            Err(FeedbackError::HeldTooLong) => &mut rejected.held_too_long,
            Err(FeedbackError::OutOfRange(_)) => &mut rejected.out_of_range,
            Err(FeedbackError::WrongKind) => &mut rejected.wrong_kind,
        };
        *counter += 1;
    }
}

impl Rejected {
    /// All of it.
    pub fn total(&self) -> u64 {
        let Self {
            not_sent,
            forgotten,
            stale,
            held_too_long,
            out_of_range,
            wrong_kind,
        } = *self;
        not_sent + forgotten + stale + held_too_long + out_of_range + wrong_kind
    }
}
