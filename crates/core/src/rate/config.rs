// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which controller, and the making of its two halves.

use super::abrc::{Abrc, AbrcParams, AbrcReceiver};
use super::ccid2::{Ccid2, Ccid2Params, Ccid2Receiver};
use super::fixed::Fixed;
use super::tfrc::{Tfrc, TfrcParams, TfrcReceiver};
use super::{Arrival, Feedback, FeedbackError, RateController, Reporter};
use crate::units::{Duration, Instant, Rate};

/// Configuration of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Config {
    /// A rate that stays, in payload; of zero nothing is sent.
    Fixed(Rate),
    /// TCP-friendly rate control.
    Tfrc(TfrcParams),
    /// TCP-like: a window.
    Ccid2(Ccid2Params),
    /// A share of an access point's queue.
    Abrc(AbrcParams),
}

impl Config {
    /// The sender's half, from `now` on.
    pub fn controller(&self, now: Instant) -> AnyController {
        let _ = now;
        match *self {
            Self::Fixed(rate) => AnyController::Fixed(Fixed::new(rate)),
            Self::Tfrc(params) => AnyController::Tfrc(Tfrc::new(params)),
            Self::Ccid2(params) => AnyController::Ccid2(Ccid2::new(params)),
            Self::Abrc(params) => AnyController::Abrc(Abrc::new(params)),
        }
    }

    /// The receiver's half, from `now` on.
    pub fn reporter(&self, now: Instant) -> AnyReporter {
        let _ = now;
        match *self {
            Self::Fixed(_) => AnyReporter::Silent,
            Self::Tfrc(params) => AnyReporter::Tfrc(TfrcReceiver::new(params.discounting)),
            Self::Ccid2(_) => AnyReporter::Ccid2(Ccid2Receiver::default()),
            Self::Abrc(params) => AnyReporter::Abrc(AbrcReceiver::new(params)),
        }
    }
}

/// Any of the controllers.
#[derive(Clone, Debug)]
pub enum AnyController {
    /// A rate that stays.
    Fixed(Fixed),
    /// TCP-friendly rate control.
    Tfrc(Tfrc),
    /// TCP-like: a window.
    Ccid2(Ccid2),
    /// A share of an access point's queue.
    Abrc(Abrc),
}

/// Any of the reporters.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per receiver")]
pub enum AnyReporter {
    /// Reports nothing: the rate is fixed.
    Silent,
    /// TFRC's receiver.
    Tfrc(TfrcReceiver),
    /// CCID 2's receiver.
    Ccid2(Ccid2Receiver),
    /// ABRC's receiver.
    Abrc(AbrcReceiver),
}

/// The same call on any of them.
macro_rules! each {
    ($any:expr, $it:ident => $call:expr) => {
        match $any {
            Self::Fixed($it) => $call,
            Self::Tfrc($it) => $call,
            Self::Ccid2($it) => $call,
            Self::Abrc($it) => $call,
        }
    };
}

impl RateController for AnyController {
    fn next_send(&self) -> Option<Instant> {
        each!(self, it => it.next_send())
    }

    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        each!(self, it => it.on_sent(now, sequence, bytes));
    }

    fn on_nothing_to_send(&mut self, now: Instant) {
        each!(self, it => it.on_nothing_to_send(now));
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError> {
        each!(self, it => it.on_feedback(now, feedback))
    }

    fn next_timeout(&self) -> Option<Instant> {
        each!(self, it => it.next_timeout())
    }

    fn on_timeout(&mut self, now: Instant) {
        each!(self, it => it.on_timeout(now));
    }

    fn rate(&self) -> Rate {
        each!(self, it => it.rate())
    }

    fn rtt(&self) -> Option<Duration> {
        each!(self, it => it.rtt())
    }
}

impl Reporter for AnyReporter {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        match self {
            Self::Silent => {}
            Self::Tfrc(it) => it.on_arrival(now, arrival),
            Self::Ccid2(it) => it.on_arrival(now, arrival),
            Self::Abrc(it) => it.on_arrival(now, arrival),
        }
    }

    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback> {
        match self {
            Self::Silent => None,
            Self::Tfrc(it) => it.poll_feedback(now),
            Self::Ccid2(it) => it.poll_feedback(now),
            Self::Abrc(it) => it.poll_feedback(now),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Silent => None,
            Self::Tfrc(it) => it.next_timeout(),
            Self::Ccid2(it) => it.next_timeout(),
            Self::Abrc(it) => it.next_timeout(),
        }
    }
}
