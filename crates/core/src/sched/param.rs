// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of disciplines, as a person writes them: read, shown and kept within their ranges by one description.

use crate::units::{Bytes, Duration, Fraction, Rate};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// What looks at the parameters of a discipline, one after the other: the key as in a scenario's `queue` (`red.min`), one line about
/// it, and its value.
pub type Visitor<'v> = dyn FnMut(&str, &'static str, &mut dyn Slot) + 'v;

/// A parameter's value.
pub trait Slot {
    /// Takes what `text` says, if that is in its range; else nothing changes.
    fn set(&mut self, text: &str) -> bool;
    /// Its value as a file would have it; empty where none is given.
    fn shown(&self) -> String;
    /// What it may be: `a time from 1ms to 3600s`.
    fn allowed(&self) -> String;
    /// Whether its value is in its range.
    fn is_allowed(&self) -> bool;
}

/// A quantity that a parameter can be.
pub(crate) trait Quantity: Copy + PartialOrd + Display {
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
quantities! { Bytes: "a size", Duration: "a time", Rate: "a rate", Fraction: "a number" }

impl Quantity for u32 {
    const WHAT: &'static str = "a whole number";
    fn read(text: &str) -> Option<Self> {
        text.replace('_', "").parse().ok()
    }
}

/// A quantity within a range.
pub(crate) struct Ranged<'a, T>(pub &'a mut T, pub RangeInclusive<T>);

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
pub(crate) struct Optional<'a, T>(pub &'a mut Option<T>, pub RangeInclusive<T>);

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
pub(crate) struct Choice<'a, T: 'static>(pub &'a mut T, pub &'static [(&'static str, T)]);

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
        names.join(" or ")
    }

    fn is_allowed(&self) -> bool {
        true
    }
}

/// Yes or no.
pub(crate) fn flag(value: &mut bool) -> Choice<'_, bool> {
    Choice(value, &[("true", true), ("false", false)])
}

/// A number with two digits behind its point, kept in hundredths.
pub(crate) struct Hundredths<'a>(pub &'a mut u32, pub RangeInclusive<u32>);

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
        let mut range = 500;
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
