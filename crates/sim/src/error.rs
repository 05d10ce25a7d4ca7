// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a scenario cannot be run.

use std::fmt;

/// Why a scenario cannot be run in this world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No path of links leads from a sender to its receiver.
    #[error("flow `{flow}`: no chain of links leads from `{from}` to `{to}`")]
    NoPath {
        /// Its name.
        flow: String,
        /// Its sender.
        from: String,
        /// Its receiver.
        to: String,
    },
    /// A download could send for ever at one moment.
    #[error(
        "{place}: flow `{flow}`: the RTT of its path is 0: give a link of the path a rate or a delay"
    )]
    NoTime {
        /// Where it was written.
        place: String,
        /// Its name.
        flow: String,
    },
    /// There is no model of a congestion control.
    #[error(
        "{place}: flow `{flow}`: the world sim has no congestion control `{name}`: choose cubic, reno, ledbat, newreno, sack or tahoe, or the world netns"
    )]
    CongestionControl {
        /// Where it was written.
        place: String,
        /// Its name.
        flow: String,
        /// The request.
        name: String,
    },
    /// A queue cannot be as it is asked for.
    #[error("{kind} `{name}`: {why}")]
    Queue {
        /// `link` or `wlan`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The fault.
        why: String,
    },
    /// A trace could not go on.
    #[error("the trace {name} cannot be written: {why}")]
    Trace {
        /// Its file.
        name: String,
        /// The system's error.
        why: String,
    },
}

impl RunError {
    pub(crate) fn queue(kind: &'static str, name: &str, why: impl fmt::Display) -> Self {
        Self::Queue {
            kind,
            name: name.into(),
            why: why.to_string(),
        }
    }
}
