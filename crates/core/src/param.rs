// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters as a person writes them: read, shown and kept within their ranges by one description.

use crate::units::{Bytes, Duration, Fraction, Rate};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::RangeInclusive;

/// Function that sees parameters one after the other: the key as in a scenario (`red.min`), one line about it, and its value.
pub type Visitor<'v> = dyn FnMut(&str, &'static str, &mut dyn Slot) + 'v;

/// A parameter's value.
pub trait Slot {
    /// Reads `text`; a value outside the range changes nothing.
    fn set(&mut self, text: &str) -> bool;
    /// Its value as a file would have it; empty where none is given.
    fn shown(&self) -> String;
    /// Allowed values: `a time from 1ms to 3600s`.
    fn allowed(&self) -> String;
    /// Whether its value is in its range.
    fn is_allowed(&self) -> bool;
}

/// Changes the parameter `key` of those that `fields` shows.
///
/// # Errors
/// No such parameter, or a value outside its range; nothing changes then.
pub fn set(fields: impl FnOnce(&mut Visitor<'_>), key: &str, text: &str) -> Result<(), Refusal> {
    let mut set = None;
    let mut keys = Vec::new();
    fields(&mut |name, _, slot| {
        keys.push(name.to_owned());
        if name == key {
            let now = slot.shown();
            set = Some(match (slot.set(text), slot.allowed()) {
                (true, _) => Ok(()),
                (false, allowed) if allowed.starts_with("a ") && !now.is_empty() => {
                    Err(format!("{allowed}, like {now}"))
                }
                (false, allowed) => Err(allowed),
            });
        }
    });
    match set {
        Some(set) => set.map_err(|allowed| Refusal::Value {
            key: key.into(),
            given: text.into(),
            allowed,
        }),
        None => Err(Refusal::Unknown {
            key: key.into(),
            keys,
        }),
    }
}

/// Checks the values that `fields` shows.
///
/// # Errors
/// The first value outside its range.
pub fn check(fields: impl FnOnce(&mut Visitor<'_>)) -> Result<(), Refusal> {
    let mut wrong = None;
    fields(&mut |key, _, slot| {
        if !slot.is_allowed() && wrong.is_none() {
            wrong = Some(Refusal::Value {
                key: key.into(),
                given: slot.shown(),
                allowed: slot.allowed(),
            });
        }
    });
    wrong.map_or(Ok(()), Err)
}

/// Why a parameter was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No such parameter.
    #[error("no parameter `{key}`{}", choices(keys))]
    Unknown {
        /// The key that was given.
        key: String,
        /// The keys that there are.
        keys: Vec<String>,
    },
    /// The value is outside its range.
    #[error("`{key}` is {given}: write {allowed}")]
    Value {
        /// Key of the parameter.
        key: String,
        /// The value that was given.
        given: String,
        /// The allowed values.
        allowed: String,
    },
}

fn choices(keys: &[String]) -> String {
    match keys {
        [] => ": it has none".into(),
        keys => format!(": choose {}", one_of(keys)),
    }
}

/// `a, b or c`.
pub fn one_of(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// A quantity with a range.
pub trait Quantity: Copy + PartialOrd + Display {
    /// `a time`.
    const WHAT: &'static str;
    /// Reads it.
    fn read(text: &str) -> Option<Self>;
    /// Without a space, so that it reads back from a command line.
    fn written(self) -> String {
        self.to_string().replace(' ', "")
    }
}

macro_rules! quantities {
    ($($quantity:ty: $what:literal),*) => {$(
        impl Quantity for $quantity {
            const WHAT: &'static str = $what;
            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}
quantities! { Bytes: "a size", Duration: "a time", Rate: "a rate", Fraction: "a number", f64: "a number" }

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Quantity for $integer {
            const WHAT: &'static str = "a whole number";
            fn read(text: &str) -> Option<Self> {
                text.replace('_', "").parse().ok()
            }
        }
    )*};
}
integers! { u32, u64 }

/// A quantity within a range.
pub struct Ranged<'a, T>(pub &'a mut T, pub RangeInclusive<T>);

impl<T: Quantity> Slot for Ranged<'_, T> {
    fn set(&mut self, text: &str) -> bool {
        let read = T::read(text).filter(|value| self.1.contains(value));
        read.map(|value| *self.0 = value).is_some()
    }

    fn shown(&self) -> String {
        self.0.written()
    }

    fn allowed(&self) -> String {
        let [least, most] = [self.1.start(), self.1.end()].map(|end| end.written());
        format!("{} from {least} to {most}", T::WHAT)
    }

    fn is_allowed(&self) -> bool {
        self.1.contains(self.0)
    }
}

/// A quantity within a range, or none.
pub struct Optional<'a, T>(pub &'a mut Option<T>, pub RangeInclusive<T>);

impl<T: Quantity> Optional<'_, T> {
    /// The slot of a value that is there.
    fn with<R>(&self, value: &mut T, ask: impl FnOnce(&mut Ranged<'_, T>) -> R) -> R {
        ask(&mut Ranged(value, self.1.clone()))
    }
}

impl<T: Quantity> Slot for Optional<'_, T> {
    fn set(&mut self, text: &str) -> bool {
        let mut value = *self.1.start();
        let is_set = self.with(&mut value, |slot| slot.set(text));
        if is_set {
            *self.0 = Some(value);
        }
        is_set
    }

    fn shown(&self) -> String {
        self.0.map_or_else(String::new, Quantity::written)
    }

    fn allowed(&self) -> String {
        let mut value = *self.1.start();
        self.with(&mut value, |slot| slot.allowed())
    }

    fn is_allowed(&self) -> bool {
        self.0.is_none_or(|value| self.1.contains(&value))
    }
}

/// One of a few values that have names.
pub struct Choice<'a, T: 'static>(pub &'a mut T, pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Slot for Choice<'_, T> {
    fn set(&mut self, text: &str) -> bool {
        let named = self.1.iter().find(|(name, _)| *name == text);
        named.map(|(_, value)| *self.0 = *value).is_some()
    }

    fn shown(&self) -> String {
        let own = self.1.iter().find(|(_, value)| value == self.0);
        own.map_or("", |(name, _)| name).into()
    }

    fn allowed(&self) -> String {
        let names: Vec<_> = self.1.iter().map(|(name, _)| *name).collect();
        one_of(&names)
    }

    fn is_allowed(&self) -> bool {
        true
    }
}

/// Yes or no.
pub fn flag(value: &mut bool) -> Choice<'_, bool> {
    Choice(value, &[("true", true), ("false", false)])
}

/// A number with two digits behind its point, kept in hundredths.
pub struct Hundredths<'a>(pub &'a mut u32, pub RangeInclusive<u32>);

impl Hundredths<'_> {
    fn number(hundredths: u32) -> String {
        let digits = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        digits.trim_end_matches('0').trim_end_matches('.').into()
    }
}

impl Slot for Hundredths<'_> {
    fn set(&mut self, text: &str) -> bool {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = part.trim_end_matches('0');
        let value = (digits.len() <= 2)
            .then(|| format!("{whole}{digits:0<2}").parse().ok())
            .flatten()
            .filter(|value| self.1.contains(value));
        value.map(|value| *self.0 = value).is_some()
    }

    fn shown(&self) -> String {
        Self::number(*self.0)
    }

    fn allowed(&self) -> String {
        let [least, most] = [self.1.start(), self.1.end()].map(|end| Self::number(*end));
        format!("a number from {least} to {most}")
    }

    fn is_allowed(&self) -> bool {
        self.1.contains(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_what_is_in_its_range_and_keeps_its_value_else() {
        let mut time = Duration::from_millis(5);
        let range = Duration::from_millis(1)..=Duration::from_secs(1);
        let mut slot = Ranged(&mut time, range);
        assert!(slot.set("20ms") && !slot.set("2s") && !slot.set("20") && !slot.set("0ms"));
        assert_eq!(slot.shown(), "20ms");
        assert_eq!(slot.allowed(), "a time from 1ms to 1s");

        let mut none = None;
        let mut slot = Optional(&mut none, Bytes::new(1)..=Bytes::new(10));
        assert_eq!(slot.shown(), "");
        assert!(!slot.set("11B") && slot.shown().is_empty() && slot.is_allowed());
        assert!(slot.set("9B"));
        assert_eq!(slot.shown(), "9B");

        let mut yes = true;
        assert!(flag(&mut yes).set("false") && !flag(&mut yes).set("no"));
        assert_eq!(flag(&mut yes).shown(), "false");
        assert_eq!(flag(&mut yes).allowed(), "true or false");

        let mut k = 140;
        let mut slot = Hundredths(&mut k, 101..=10_000);
        assert_eq!(slot.shown(), "1.4");
        assert!(slot.set("2") && slot.shown() == "2");
        assert!(slot.set("1.05") && slot.shown() == "1.05");
        for wrong in ["1", "1.051", "-3", "100.5", "", "1.x"] {
            assert!(!slot.set(wrong), "{wrong}");
        }
        assert_eq!(slot.allowed(), "a number from 1.01 to 100");
        let mut range = 500u32;
        assert!(!Ranged(&mut range, 1..=100).is_allowed());
    }

    #[test]
    fn a_quantity_reads_back_as_it_is_written() {
        let size = Bytes::new(1538);
        assert_eq!(Bytes::read(&size.written()), Some(size));
        let share = Fraction::ratio(2, 1000);
        assert_eq!(Fraction::read(&share.written()), Some(share));
        assert_eq!(u32::read("1_000"), Some(1000));
    }
}
