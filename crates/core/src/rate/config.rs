// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controllers by name, their parameters, and the making of the two halves.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use super::abrc::{Abrc, AbrcParams, AbrcReceiver};
use super::ccid2::{Ccid2, Ccid2Params, Ccid2Receiver};
use super::external::External;
use super::fixed::Fixed;
use super::gcc::{Gcc, GccParams};
use super::packets::PacketsReceiver;
use super::scream::{Scream, ScreamParams};
use super::tfrc::{Tfrc, TfrcParams, TfrcReceiver};
use super::{Arrival, Feedback, FeedbackError, RateController, Reporter, Start};
use crate::param::{self, Refusal, Visitor};
use crate::units::{Duration, Instant, Rate};

/// Configuration of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Config {
    /// A rate that stays, in payload; of zero nothing is sent.
    Fixed(Rate),
    /// Estimates of the application's, by [`AnyController::set_estimate`]; first this rate, in payload.
    External(Rate),
    /// TCP-friendly rate control.
    Tfrc(TfrcParams),
    /// TCP-like: a window.
    Ccid2(Ccid2Params),
    /// A share of an access point's queue.
    Abrc(AbrcParams),
    /// SCReAMv2: a window from losses, marks and delay.
    Scream(ScreamParams),
    /// Google congestion control: delay gradient and losses.
    Gcc(GccParams),
}

impl Config {
    /// Names of the controllers that have parameters.
    pub const NAMES: [&str; 5] = ["tfrc", "ccid2", "abrc", "scream", "gcc"];
    /// The least rate that stays: one packet in some seconds.
    pub const LEAST: Rate = Rate::from_bps(1000);

    /// Shows the parameters to `visit`, by the keys of a scenario's `rate`.
    pub fn fields(&mut self, visit: &mut Visitor<'_>) {
        match self {
            Self::Fixed(_) | Self::External(_) | Self::Ccid2(_) => {}
            Self::Tfrc(params) => params.fields(visit),
            Self::Abrc(params) => params.fields(visit),
            Self::Scream(params) => params.fields(visit),
            Self::Gcc(params) => params.fields(visit),
        }
    }

    /// Changes the parameter `key` to `text`.
    ///
    /// # Errors
    /// The controller has no such parameter, or the value is outside its range.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), Refusal> {
        param::set(|visit| self.fields(visit), key, text)
    }

    /// Checks all parameters; [`Config::controller`] and [`Config::reporter`] do not, and take a value outside its range as it is.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn check(&self) -> Result<(), Refusal> {
        let mut own = *self;
        param::check(|visit| own.fields(visit))
    }

    /// The longest payload of a packet, where the controller has to know it.
    #[must_use]
    pub fn with_largest(mut self, bytes: u32) -> Self {
        match &mut self {
            Self::Fixed(_) | Self::External(_) => {}
            Self::Tfrc(params) => params.largest = bytes,
            Self::Ccid2(params) => params.largest = bytes,
            Self::Abrc(params) => params.largest = bytes,
            Self::Scream(params) => params.largest = bytes,
            Self::Gcc(params) => params.largest = bytes,
        }
        self
    }

    /// The same with what is known of the path. A rate that stays stays.
    #[must_use]
    pub fn with_start(mut self, start: Start) -> Self {
        match &mut self {
            Self::Fixed(_) | Self::External(_) => {}
            Self::Tfrc(params) => params.start = Some(start),
            Self::Ccid2(params) => params.start = Some(start),
            Self::Abrc(params) => params.start = Some(start),
            Self::Scream(params) => params.start = Some(start),
            Self::Gcc(params) => params.start = Some(start),
        }
        self
    }

    /// The sender's half.
    pub fn controller(&self) -> AnyController {
        match *self {
            Self::Fixed(rate) => AnyController::Fixed(Fixed::new(rate)),
            Self::External(rate) => AnyController::External(External::new(rate)),
            Self::Tfrc(params) => AnyController::Tfrc(Tfrc::new(params)),
            Self::Ccid2(params) => AnyController::Ccid2(Ccid2::new(params)),
            Self::Abrc(params) => AnyController::Abrc(Abrc::new(params)),
            Self::Scream(params) => AnyController::Scream(Scream::new(params)),
            Self::Gcc(params) => AnyController::Gcc(Gcc::new(params)),
        }
    }

    /// The receiver's half.
    pub fn reporter(&self) -> AnyReporter {
        match *self {
            Self::Fixed(_) | Self::External(_) => AnyReporter::Silent,
            Self::Tfrc(params) => AnyReporter::Tfrc(TfrcReceiver::new(params.discounting)),
            Self::Ccid2(_) => AnyReporter::Ccid2(Ccid2Receiver::default()),
            Self::Abrc(params) => AnyReporter::Abrc(AbrcReceiver::new(params)),
            Self::Scream(_) | Self::Gcc(_) => AnyReporter::Packets(PacketsReceiver::default()),
        }
    }
}

/// Neither a controller nor a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a controller or a rate: write tfrc, ccid2, abrc, scream, gcc, or a rate of 1kbit or more, like 2mbit"
)]
pub struct ParseConfigError(String);

impl FromStr for Config {
    type Err = ParseConfigError;
    /// Reads a controller's name, with its default parameters, or a rate that stays.
    fn from_str(text: &str) -> Result<Self, ParseConfigError> {
        Ok(match text {
            "tfrc" => Self::Tfrc(TfrcParams::default()),
            "ccid2" => Self::Ccid2(Ccid2Params::default()),
            "abrc" => Self::Abrc(AbrcParams::default()),
            "scream" => Self::Scream(ScreamParams::default()),
            "gcc" => Self::Gcc(GccParams::default()),
            other => match other.parse() {
                Ok(rate) if rate >= Self::LEAST => Self::Fixed(rate),
                _ => return Err(ParseConfigError(other.into())),
            },
        })
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(rate) => rate.fmt(f),
            Self::External(_) => f.write_str("external"),
            Self::Tfrc(_) => f.write_str("tfrc"),
            Self::Ccid2(_) => f.write_str("ccid2"),
            Self::Abrc(_) => f.write_str("abrc"),
            Self::Scream(_) => f.write_str("scream"),
            Self::Gcc(_) => f.write_str("gcc"),
        }
    }
}

/// Any of the controllers.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per sender")]
pub enum AnyController {
    /// A rate that stays.
    Fixed(Fixed),
    /// Estimates of the application's.
    External(External),
    /// TCP-friendly rate control.
    Tfrc(Tfrc),
    /// TCP-like: a window.
    Ccid2(Ccid2),
    /// A share of an access point's queue.
    Abrc(Abrc),
    /// SCReAMv2: a window from losses, marks and delay.
    Scream(Scream),
    /// Google congestion control: delay gradient and losses.
    Gcc(Gcc),
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
    /// The receiver of controllers that hear of single packets.
    Packets(PacketsReceiver),
}

/// The same call on any of them.
macro_rules! each {
    ($any:expr, $it:ident => $call:expr) => {
        match $any {
            Self::Fixed($it) => $call,
            Self::External($it) => $call,
            Self::Tfrc($it) => $call,
            Self::Ccid2($it) => $call,
            Self::Abrc($it) => $call,
            Self::Scream($it) => $call,
            Self::Gcc($it) => $call,
        }
    };
}

impl AnyController {
    /// The application's estimate from now on, in payload; whether the controller is [`External`], which alone takes one.
    pub fn set_estimate(&mut self, rate: Rate, rtt: Option<Duration>) -> bool {
        match self {
            Self::External(external) => {
                external.set(rate, rtt);
                true
            }
            _ => false,
        }
    }
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

    fn on_skipped(&mut self, now: Instant) {
        each!(self, it => it.on_skipped(now));
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

    fn target_rate(&self) -> Rate {
        each!(self, it => it.target_rate())
    }

    fn rtt(&self) -> Option<Duration> {
        each!(self, it => it.rtt())
    }

    fn one_way(&self) -> Option<Duration> {
        each!(self, it => it.one_way())
    }
}

impl Reporter for AnyReporter {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        match self {
            Self::Silent => {}
            Self::Tfrc(it) => it.on_arrival(now, arrival),
            Self::Ccid2(it) => it.on_arrival(now, arrival),
            Self::Abrc(it) => it.on_arrival(now, arrival),
            Self::Packets(it) => it.on_arrival(now, arrival),
        }
    }

    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback> {
        match self {
            Self::Silent => None,
            Self::Tfrc(it) => it.poll_feedback(now),
            Self::Ccid2(it) => it.poll_feedback(now),
            Self::Abrc(it) => it.poll_feedback(now),
            Self::Packets(it) => it.poll_feedback(now),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Silent => None,
            Self::Tfrc(it) => it.next_timeout(),
            Self::Ccid2(it) => it.next_timeout(),
            Self::Abrc(it) => it.next_timeout(),
            Self::Packets(it) => it.next_timeout(),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Packets(it) => it.is_full(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_reads_back_and_refuses_a_value_outside_its_range() {
        for name in Config::NAMES {
            let config: Config = name.parse().unwrap();
            assert_eq!((config.to_string(), config.check()), (name.into(), Ok(())));
            let mut fields = Vec::new();
            config.clone().fields(&mut |key, about, slot| {
                assert!(!about.is_empty() && !slot.allowed().is_empty(), "{key}");
                fields.push((key.to_owned(), slot.shown()));
            });
            for (key, shown) in fields {
                let mut again = config;
                if !shown.is_empty() {
                    assert_eq!(again.set(&key, &shown), Ok(()), "{name} {key}");
                }
                assert!(again.set(&key, "-1x").is_err(), "{name} {key}");
                assert_eq!(again, config, "{name} {key}");
            }
            assert!(config.clone().set("rtt", "1ms").is_err());
        }
        assert_eq!(
            "2mbit".parse(),
            Ok(Config::Fixed(Rate::from_bps(2_000_000)))
        );
        for wrong in ["999bit", "0bit", "bbr", ""] {
            assert!(wrong.parse::<Config>().is_err(), "{wrong}");
        }
        let mut external = Config::External(Rate::from_bps(1000)).controller();
        assert!(external.set_estimate(Rate::from_bps(2000), None));
        assert_eq!(external.rate(), Rate::from_bps(2000));
        let mut fixed = Config::Fixed(Rate::from_bps(1000)).controller();
        assert!(!fixed.set_estimate(Rate::from_bps(2000), None));
        assert_eq!(fixed.rate(), Rate::from_bps(1000));
        let zero = AbrcParams {
            interval: Duration::ZERO,
            ..AbrcParams::default()
        };
        let error = Config::Abrc(zero).check().unwrap_err().to_string();
        assert!(
            error.contains("`interval` is 0ns: write a time from 10ms to 60s"),
            "{error}"
        );
    }
}
