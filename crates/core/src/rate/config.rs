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
use crate::param::{self, Ranged, Refusal, Visitor};
use crate::units::{Duration, Instant, Rate};

/// Gives each controller its place in [`Config`], [`AnyController`] and the names: its line here, its half of [`Config::reporter`] and its own
/// file are all that it takes. `$d` is a `$` for the macro inside.
macro_rules! controllers {
    (($d:tt) $($(#[$about:meta])* $name:literal => $variant:ident($params:ident),)*) => {
        /// Configuration of a controller.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Config {
            /// A fixed rate of payload; at 0 nothing is sent.
            Fixed(Rate),
            /// Estimates of the application, by [`AnyController::set_estimate`]; first this rate of payload.
            External(Rate),
            $($(#[$about])* $variant($params),)*
        }

        impl Config {
            /// Names of the controllers that have parameters.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            /// The controller of this name, with its default parameters.
            fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant($params::default())),)*
                    _ => None,
                }
            }

            /// Its name, if it is one of [`Config::NAMES`].
            fn name(&self) -> Option<&'static str> {
                match self {
                    Self::Fixed(_) | Self::External(_) => None,
                    $(Self::$variant(_) => Some($name),)*
                }
            }

            /// Shows the parameters to `visit`, by the keys of a scenario's `rate`.
            pub fn fields(&mut self, visit: &mut Visitor<'_>) {
                match self {
                    Self::Fixed(_) => {}
                    Self::External(first) => {
                        let about = "rate until the first estimate; at 0bit nothing is sent";
                        let rates = Rate::default()..=Rate::from_bps(1_000_000_000_000);
                        visit("first", about, &mut Ranged(first, rates));
                    }
                    $(Self::$variant(params) => params.fields(visit),)*
                }
            }

            /// The longest payload of a packet, where the controller has to know it.
            #[must_use]
            pub fn with_largest(mut self, bytes: u32) -> Self {
                match &mut self {
                    Self::Fixed(_) | Self::External(_) => {}
                    $(Self::$variant(params) => params.largest = bytes,)*
                }
                self
            }

            /// The same with what is known of the path; a fixed rate is unchanged.
            #[must_use]
            pub fn with_start(mut self, start: Start) -> Self {
                match &mut self {
                    Self::Fixed(_) | Self::External(_) => {}
                    $(Self::$variant(params) => params.start = Some(start),)*
                }
                self
            }

            /// The sender's half.
            pub fn controller(&self) -> AnyController {
                match *self {
                    Self::Fixed(rate) => AnyController::Fixed(Fixed::new(rate)),
                    Self::External(rate) => AnyController::External(External::new(rate)),
                    $(Self::$variant(params) => AnyController::$variant($variant::new(params)),)*
                }
            }
        }

        /// Any of the controllers.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "one per sender")]
        #[non_exhaustive]
        pub enum AnyController {
            /// A fixed rate.
            Fixed(Fixed),
            /// Estimates of the application.
            External(External),
            $($(#[$about])* $variant($variant),)*
        }

        /// The same call on any of them.
        macro_rules! each {
            ($d any:expr, $d it:ident => $d call:expr) => {
                match $d any {
                    Self::Fixed($d it) => $d call,
                    Self::External($d it) => $d call,
                    $(Self::$variant($d it) => $d call,)*
                }
            };
        }
    };
}

controllers! {
    ($)
    /// TCP-friendly rate control.
    "tfrc" => Tfrc(TfrcParams),
    /// TCP-like: a window.
    "ccid2" => Ccid2(Ccid2Params),
    /// A share of an access point's queue.
    "abrc" => Abrc(AbrcParams),
    /// SCReAMv2: a window from losses, marks and delay.
    "scream" => Scream(ScreamParams),
    /// Google congestion control: delay gradient and losses.
    "gcc" => Gcc(GccParams),
}

impl Config {
    /// Name of [`Config::External`], which only a program that sets the rate can use: it is not among [`Config::NAMES`].
    pub const EXTERNAL: &'static str = "external";
    /// Rate of [`Config::External`] until the first estimate, where none is given; that of GCC.
    pub const FIRST: Rate = Rate::from_bps(300_000);
    /// The least fixed rate: one packet in some seconds.
    pub const LEAST: Rate = Rate::from_bps(1000);

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
    "`{0}` is not a controller or a rate: write {names}, or a rate of 1kbit or more, like 2mbit",
    names = Config::NAMES.join(", ")
)]
pub struct ParseConfigError(String);

impl FromStr for Config {
    type Err = ParseConfigError;
    /// Reads a controller's name, with its default parameters, or a fixed rate.
    fn from_str(text: &str) -> Result<Self, ParseConfigError> {
        if let Some(named) = Self::named(text) {
            return Ok(named);
        }
        match text.parse() {
            Ok(rate) if rate >= Self::LEAST => Ok(Self::Fixed(rate)),
            _ => Err(ParseConfigError(text.into())),
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(rate) => rate.fmt(f),
            other => f.write_str(other.name().unwrap_or(Self::EXTERNAL)),
        }
    }
}

/// Any of the reporters.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per receiver")]
#[non_exhaustive]
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
    fn the_choice_in_an_error_and_the_two_halves_are_those_of_every_name() {
        let error = "bbr".parse::<Config>().unwrap_err().to_string();
        for name in Config::NAMES {
            assert!(error.contains(&format!("{name}, ")), "{error}");
            let config: Config = name.parse().unwrap();
            let start = Start {
                rate: Rate::from_bps(2_000_000),
                rtt: Duration::from_millis(30),
            };
            assert_ne!(config.with_largest(700), config, "{name}");
            assert_ne!(config.with_start(start), config, "{name}");
            assert!(!matches!(config.reporter(), AnyReporter::Silent), "{name}");
        }
        let external = Config::External(Rate::from_bps(1000));
        assert_eq!(external.to_string(), "external");
    }

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
        let mut external = Config::External(Config::FIRST);
        assert_eq!(external.set("first", "0bit"), Ok(()));
        assert_eq!(external, Config::External(Rate::default()));
        assert!(external.set("first", "2000gbit").is_err() && external.check().is_ok());
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
