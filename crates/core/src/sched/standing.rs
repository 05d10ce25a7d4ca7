// SPDX-License-Identifier: MIT OR Apache-2.0
//! Class of a flow under a discipline that judges flows by their behaviour, for its owner to read.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::param::one_of;
use crate::units::{Duration, Instant};

/// How a flow is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// Not known yet.
    #[default]
    New,
    /// In good standing.
    Standing,
    /// Builds queues.
    Bulk,
    /// It starved as bulk, and is served as those in standing until it has shown that it does not grow.
    Probation,
}

/// Why a flow is in its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has just begun.
    #[default]
    Begins,
    /// It was bulk, and has shown no standing queue for long enough.
    Released,
    /// It built no standing queue and lost nothing.
    NoQueue,
    /// It starves, is no TCP, and fits.
    Starved,
    /// Its queue was not empty for so long, in ms.
    StandingQueue(u32),
    /// Asked by a loss, it slowed down.
    RespondsToLoss,
    /// It brought more as soon as it was served, or although it was asked: its rate is not its own.
    Grew,
    /// It did not prove itself in its time as a new flow.
    Unproven,
}

/// A flow's class, why, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its class.
    pub class: Class,
    /// Why.
    pub reason: Reason,
    /// Since when.
    pub since: Instant,
}

impl Class {
    /// Whether its flows go before new and bulk ones.
    pub const fn goes_first(self) -> bool {
        matches!(self, Self::Standing | Self::Probation)
    }

    /// Time without packets after which a flow of this class is unknown: 3 s, or 30 s for one that goes first.
    pub const fn remembered(self) -> Duration {
        match self.goes_first() {
            true => Duration::from_secs(30),
            false => Duration::from_secs(3),
        }
    }

    /// Every class.
    pub const ALL: [Self; 4] = [Self::New, Self::Standing, Self::Bulk, Self::Probation];

    /// `new`, `standing`, `bulk`, `probation`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Standing => "standing",
            Self::Bulk => "bulk",
            Self::Probation => "probation",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a class is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the class of a flow: choose {list}", list = one_of(&Class::ALL.map(Class::name)))]
pub struct ParseClassError(String);

impl FromStr for Class {
    type Err = ParseClassError;
    fn from_str(s: &str) -> Result<Self, ParseClassError> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == s)
            .ok_or_else(|| ParseClassError(s.into()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begins => "has just begun",
            Self::Released => "no standing queue any more",
            Self::NoQueue => "no standing queue",
            Self::Starved => "starved, and fits",
            Self::StandingQueue(ms) => {
                let tenths = ms / 100;
                return write!(f, "standing queue for {}.{} s", tenths / 10, tenths % 10);
            }
            Self::RespondsToLoss => "responds to loss",
            Self::Grew => "grew once it was served",
            Self::Unproven => "queue, losses or no room for it while it was new",
        })
    }
}
