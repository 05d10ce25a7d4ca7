// SPDX-License-Identifier: MIT OR Apache-2.0
//! Autorate as `makeway status --json` tells it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::rules::Direction;

/// The controller of the rates, its sources, and its latest changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Autorated {
    /// Each direction whose rate it sets.
    pub directions: Vec<Steered>,
    /// Reflectors in the order of the file.
    pub reflectors: Vec<ReflectorStatus>,
    /// TCP connections whose timestamps are read now.
    pub connections: u64,
    /// Calls whose receivers' reports are read now: RTP with TWCC or RFC 8888.
    pub calls: u64,
    /// Samples of delay so far: of reflectors, of TCP, and of calls.
    pub samples: u64,
    /// Samples of TCP among them.
    pub tcp_samples: u64,
    /// Samples of calls among them.
    pub call_samples: u64,
    /// Time since the last sample; rates stay meanwhile. `None` before the first.
    pub last_sample_s: Option<f64>,
    /// Processor time of the controller and its sources.
    pub cpu_seconds: f64,
    /// Time since it started.
    pub seconds: f64,
    /// Latest changes, the newest last.
    pub events: Vec<RateEvent>,
}

/// A direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Steered {
    /// `egress` or `ingress`.
    pub direction: Direction,
    /// Rate that is set.
    pub rate_bps: u64,
    /// It never falls below this.
    pub least_bps: u64,
    /// It never rises above this.
    pub most_bps: u64,
    /// `hold`, `search` or `drain`.
    pub state: String,
    /// Delay that stands before the link; `None` without samples of late.
    pub standing_ms: Option<f64>,
    /// Falls of the rate so far, each for a queue before the link.
    pub cuts: u64,
}

/// A reflector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReflectorStatus {
    /// Its address.
    pub address: String,
    /// Probes that it answers: `timestamp` or `echo`.
    pub kind: String,
    /// Answers so far.
    pub answers: u64,
    /// Probes without an answer.
    pub lost: u64,
    /// Whether it is asked seldom, since it does not answer.
    pub is_silent: bool,
}

/// A change of a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateEvent {
    /// Counts up by one.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The direction; `None`: of the sources.
    pub direction: Option<Direction>,
    /// Rate before, in bit/s; 0 where none has changed.
    pub from_bps: u64,
    /// Rate from now on.
    pub to_bps: u64,
    /// The reason, in words.
    pub why: String,
}

/// `download 31.2 Mbit/s, was 45.0 Mbit/s: 38 ms of delay stand before the link`.
impl fmt::Display for RateEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.direction {
            None => return write!(f, "autorate: {}", self.why),
            Some(Direction::Egress) => "upload",
            Some(Direction::Ingress) => "download",
        };
        let [from, to] = [self.from_bps, self.to_bps].map(mbit);
        write!(f, "{name} {to}, was {from}: {}", self.why)
    }
}

fn mbit(bps: u64) -> String {
    match bps as f64 / 1e6 {
        mbit if mbit < 1.0 => format!("{:.0} kbit/s", mbit * 1e3),
        mbit if mbit < 100.0 => format!("{mbit:.1} Mbit/s"),
        mbit => format!("{mbit:.0} Mbit/s"),
    }
}
