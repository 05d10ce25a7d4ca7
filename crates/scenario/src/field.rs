// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of a section, one line each: what the reader accepts, and the tables of docs/scenario.md.

use makeway_core::param::{Ranged, Slot, flag, one_of};
use makeway_core::units::{Bytes, Duration, Rate};

use crate::document::Value;

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// As it is written.
    pub key: &'static str,
    /// Allowed values.
    pub values: Values,
    /// Value of a missing key.
    pub default: Default,
    /// One line of documentation.
    pub about: &'static str,
}

/// Allowed values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// A size from the first to the second, in bytes.
    Size(u64, u64),
    /// A time from the first to the second.
    Time(Duration, Duration),
    /// A rate from the first to the second, in bit/s.
    Rate(u64, u64),
    /// True or false.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A table, or an array of tables, with these keys.
    Table(&'static [Field]),
    /// Values that their own reader checks, in words.
    Other(&'static str),
}

/// Value of a missing key.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// The key must be given, for example so.
    Needed(&'static str),
    /// As a file would have it, without quotes.
    Value(&'static str),
    /// In words.
    Words(&'static str),
}

impl Field {
    /// A key that must be given, for example as `example`.
    pub const fn needed(
        key: &'static str,
        values: Values,
        example: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            key,
            values,
            default: Default::Needed(example),
            about,
        }
    }

    /// A key with a default value.
    pub const fn new(
        key: &'static str,
        values: Values,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            key,
            values,
            default: Default::Value(default),
            about,
        }
    }

    /// A key that may be missing; `words` describe its absence.
    pub const fn optional(
        key: &'static str,
        values: Values,
        words: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            key,
            values,
            default: Default::Words(words),
            about,
        }
    }
}

impl Field {
    /// Whether a file may give the key the value `text`, a number or word without quotes.
    pub fn allows_text(&self, text: &str) -> bool {
        let is_text = matches!(self.values, Values::OneOf(_));
        self.values.allows(&match (is_text, text.parse()) {
            (true, _) => Value::String(text.into()),
            (false, Ok(flag)) => Value::Boolean(flag),
            (false, Err(_)) => Value::Scalar(text.into()),
        })
    }
}

/// A number from 0 to 1.
pub(crate) const PROBABILITY: Values = Values::Number(0.0, 1.0);
/// A time with no other bound than the scenario's duration.
pub(crate) const TIME: Values = Values::Time(Duration::ZERO, ANY_TIME);
const ANY_TIME: Duration = Duration::from_secs(366 * 86_400);
/// A file that a scenario names.
pub(crate) const FILE: Values = Values::Other(
    "a file relative to the scenario's folder (of a text: to the working directory), or an absolute path",
);
/// Name of a node.
pub(crate) const NODE: Values = Values::Other("a node");
/// Largest payload of an RTP packet that fits an MTU of 1500 B with IP, UDP and RTP headers.
pub(crate) const LARGEST_PAYLOAD: u64 = 1460;
/// Room for our own header behind RTP's: a smaller payload carries no time stamp.
pub(crate) const SMALLEST_PAYLOAD: u64 = 24;
pub(crate) const PAYLOAD: Values = Values::Size(SMALLEST_PAYLOAD, LARGEST_PAYLOAD);
/// HZ 100: a link catches up on no more.
pub(crate) const TICK: Values = Values::Time(Duration::from_nanos(1), Duration::from_millis(10));
/// A rate that carries something.
pub(crate) const RATE: Values = Values::Rate(1000, 1_000_000_000_000);
/// The key `at` of tables at an end of a link.
#[rustfmt::skip]
pub(crate) const AT: Field = Field::needed("at", NODE, "\"router\"", "node whose egress it is");

impl Values {
    /// The slot that reads a value and shows its range, where there is one.
    fn slot<R>(self, ask: impl FnOnce(&mut dyn Slot) -> R) -> Option<R> {
        Some(match self {
            Self::Whole(least, most) => ask(&mut Ranged(&mut 0, least..=most)),
            Self::Number(least, most) => ask(&mut Ranged(&mut 0.0, least..=most)),
            Self::Size(least, most) => {
                let [least, most] = [least, most].map(Bytes::new);
                ask(&mut Ranged(&mut Bytes::default(), least..=most))
            }
            Self::Time(least, most) => ask(&mut Ranged(&mut Duration::default(), least..=most)),
            Self::Rate(least, most) => {
                let [least, most] = [least, most].map(Rate::from_bps);
                ask(&mut Ranged(&mut Rate::default(), least..=most))
            }
            Self::Flag => ask(&mut flag(&mut false)),
            Self::OneOf(_) | Self::Table(_) | Self::Other(_) => return None,
        })
    }

    /// In words: `a time from 1ms to 10ms`.
    pub fn allowed(self) -> String {
        match self {
            Self::OneOf(names) => one_of(names),
            Self::Table(_) => "a table".into(),
            Self::Other(words) => words.into(),
            Self::Time(_, ANY_TIME) => "a time like 40ms or 10s".into(),
            ranged => ranged.slot(|slot| slot.allowed()).unwrap_or_default(),
        }
    }

    /// `value` as a file has it.
    pub(crate) fn written(self, value: &str) -> String {
        match self {
            Self::Whole(..) | Self::Number(..) | Self::Flag => value.into(),
            _ => format!("\"{value}\""),
        }
    }

    /// Whether `value` is one of them; [`Values::Table`] and [`Values::Other`] have readers of their own.
    pub(crate) fn allows(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Flag, value) => matches!(value, Value::Boolean(_)),
            (Self::Whole(..) | Self::Number(..), Value::String(_)) => false,
            (Self::OneOf(names), Value::String(text)) => names.contains(&text.as_str()),
            (Self::OneOf(_), _) => false,
            (_, Value::String(text) | Value::Scalar(text)) => {
                self.slot(|slot| slot.set(text)).unwrap_or(true)
            }
            _ => matches!(self, Self::Table(_) | Self::Other(_)),
        }
    }
}
