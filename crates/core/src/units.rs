// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer units: time in nanoseconds, sizes in bytes, rates in bit/s.
//!
//! No float and no clock. A world (simulator, gateway) decides what `Instant::ZERO` is.
//!
//! ```
//! use makeway_core::units::{Bytes, Duration, Rate};
//!
//! let rate = Rate::from_bps(20_000_000);
//! assert_eq!("20mbit".parse().ok(), Some(rate));
//! // Time that a packet takes, and bytes that leave in a time.
//! assert_eq!(Bytes::new(1500) / rate, Duration::from_micros(600));
//! assert_eq!(rate * Duration::from_millis(2), Bytes::new(5000));
//! ```

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::str::FromStr;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// A point in time: nanoseconds since the world's own zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A span of time in nanoseconds; at most about 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// A size in bytes. Sums stop at 2^64 - 1, differences at zero, as those of time do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// A rate in bit/s. Zero is allowed here and refused where a link is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A number from 0 to 1 in steps of 2^-48: a probability, the weight of an average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u64);

impl Instant {
    /// The world's zero.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `ns` nanoseconds after [`Instant::ZERO`].
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since [`Instant::ZERO`].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The first multiple of `tick` since the clock's zero that is not before it.
    ///
    /// # Panics
    /// If `tick` is zero.
    pub const fn next_multiple_of(self, tick: Duration) -> Self {
        Self(self.0.div_ceil(tick.0).saturating_mul(tick.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for reports.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds, for reports.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// `bps` bit/s.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// The rate in bit/s.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// The rate in Mbit/s, for reports.
    pub fn as_mbit_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Fraction {
    /// Bits behind the binary point.
    pub const BITS: u32 = 48;
    /// One.
    pub const ONE: Self = Self(1 << Self::BITS);

    /// `n / d`, to the nearest step.
    ///
    /// # Panics
    /// If that is above 1, or `d` is zero.
    pub const fn ratio(n: u64, d: u64) -> Self {
        assert!(n <= d && d > 0, "a fraction is from 0 to 1");
        let d = d as u128;
        // At most 2^48.
        Self(((((n as u128) << Self::BITS) + d / 2) / d) as u64)
    }

    /// In steps of 2^-48: at most 2^48.
    pub const fn scaled(self) -> u64 {
        self.0
    }

    /// The fraction as a float, for reports.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }
}

/// The longest of ours, 584 years, of a longer one.
impl From<core::time::Duration> for Duration {
    fn from(time: core::time::Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for core::time::Duration {
    fn from(time: Duration) -> Self {
        Self::from_nanos(time.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, d: Self) {
        *self = *self + d;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, b: Self) -> Self {
        Self(self.0.saturating_add(b.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, b: Self) {
        *self = *self + b;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, b: Self) -> Self {
        Self(self.0.saturating_sub(b.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, b: Self) {
        *self = *self - b;
    }
}

/// Time to send `self` at `rate`, rounded up to the next nanosecond.
///
/// # Panics
/// If `rate` is zero: a link of no rate is refused where it is configured.
#[allow(clippy::suspicious_arithmetic_impl)] // 8 * 10^9 bit-nanoseconds in a byte-second
impl Div<Rate> for Bytes {
    type Output = Duration;
    fn div(self, rate: Rate) -> Duration {
        let ns = (u128::from(self.0) * 8_000_000_000).div_ceil(u128::from(rate.0));
        Duration(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Bytes sent in `d`, rounded down.
#[allow(clippy::suspicious_arithmetic_impl)] // as above
impl Mul<Duration> for Rate {
    type Output = Bytes;
    fn mul(self, d: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(d.0) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{}s", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{}ms", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{}us", n as f64 / 1e3),
            n => write!(f, "{n}ns"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{}gbit", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{}mbit", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{}kbit", n as f64 / 1e3),
            n => write!(f, "{n}bit"),
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Twelve digits tell every step that a person would write.
        let digits = format!("{:.12}", self.as_f64());
        f.write_str(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Why a quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseUnitError {
    /// The number is missing, negative or not a number.
    #[error("`{0}` does not start with a number: write {1}")]
    NotANumber(String, &'static str),
    /// The unit is missing or not one of ours.
    #[error("`{0}` has no unit that is known here: write {1}")]
    Unit(String, &'static str),
    /// The value does not fit 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// Splits `s` in a number and a unit, and scales by the unit's factor.
fn parse(s: &str, units: &[(&str, f64)], hint: &'static str) -> Result<u64, ParseUnitError> {
    let text = s.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number
        .parse()
        .map_err(|_| ParseUnitError::NotANumber(s.into(), hint))?;
    let unit = unit.trim().to_ascii_lowercase();
    let (_, factor) = units
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| ParseUnitError::Unit(s.into(), hint))?;
    let value = (number * factor).round();
    // 2^53: beyond it a float no longer counts by ones.
    if value > 9_007_199_254_740_992.0 {
        return Err(ParseUnitError::TooLarge(s.into()));
    }
    Ok(value as u64)
}

impl FromStr for Rate {
    type Err = ParseUnitError;
    /// Reads `20mbit`, `1.5gbit`, `640kbit`, `9600bit`, as `tc` does, and `20 Mbit/s`.
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        let units = [
            ("bit", 1.0),
            ("kbit", 1e3),
            ("mbit", 1e6),
            ("gbit", 1e9),
            ("bit/s", 1.0),
            ("kbit/s", 1e3),
            ("mbit/s", 1e6),
            ("gbit/s", 1e9),
        ];
        parse(s, &units, "a rate like 20mbit, 640kbit or 1gbit").map(Self)
    }
}

impl FromStr for Duration {
    type Err = ParseUnitError;
    /// Reads `40ms`, `1.5s`, `250us`, `100ns`, `10min`.
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        let units = [
            ("ns", 1.0),
            ("us", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
            ("min", 60e9),
            ("h", 3600e9),
        ];
        parse(s, &units, "a time like 40ms, 1.5s or 10min").map(Self)
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    /// Reads `1500B`, `64kB` (1000), `64KiB` (1024), `10MB`, `1MiB`.
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        let units = [
            ("b", 1.0),
            ("kb", 1e3),
            ("mb", 1e6),
            ("gb", 1e9),
            ("kib", 1024.0),
            ("mib", 1_048_576.0),
            ("gib", 1_073_741_824.0),
        ];
        parse(s, &units, "a size like 1500B, 64kB or 1MiB").map(Self)
    }
}

/// Not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share: write a number from 0 to 1, like 0.05")]
pub struct ParseFractionError(String);

impl FromStr for Fraction {
    type Err = ParseFractionError;
    /// Reads `0.05`, `1`; of digits behind the point twelve count.
    fn from_str(s: &str) -> Result<Self, ParseFractionError> {
        const STEPS: u64 = 1_000_000_000_000;
        let share = s.trim().parse().ok().filter(|p| (0.0..=1.0).contains(p));
        let share: f64 = share.ok_or_else(|| ParseFractionError(s.into()))?;
        Ok(Self::ratio((share * STEPS as f64).round() as u64, STEPS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_time_rounds_up() {
        assert_eq!(
            Bytes::new(1500) / Rate::from_bps(10_000_000),
            Duration::from_micros(1200)
        );
        assert_eq!(
            Bytes::new(1) / Rate::from_bps(3_000_000_000),
            Duration::from_nanos(3)
        );
    }

    #[test]
    fn rate_times_duration_gives_bytes() {
        assert_eq!(
            Rate::from_bps(10_000_000) * Duration::from_millis(1),
            Bytes::new(1250)
        );
    }

    #[test]
    fn the_standard_librarys_durations_are_ours_up_to_the_longest() {
        use core::time::Duration as Std;
        let ours = Duration::from_nanos(1_500_000_001);
        assert_eq!(Duration::from(Std::new(1, 500_000_001)), ours);
        assert_eq!(Std::from(ours), Std::new(1, 500_000_001));
        let longest = Duration::from_nanos(u64::MAX);
        assert_eq!(Duration::from(Std::from(longest)), longest);
        assert_eq!(Duration::from(Std::from(longest) + Std::new(0, 1)), longest);
        assert_eq!(Duration::from(Std::MAX), longest);
    }

    #[test]
    fn sizes_stop_at_their_ends_and_do_not_wrap() {
        let (one, most) = (Bytes::new(1), Bytes::new(u64::MAX));
        assert_eq!((most + one, Bytes::ZERO - one), (most, Bytes::ZERO));
        let mut size = most;
        size += one;
        assert_eq!(size, most);
        size = Bytes::ZERO;
        size -= one;
        assert_eq!(size, Bytes::ZERO);
    }

    #[test]
    fn a_fraction_is_the_nearest_step_and_prints_as_it_was_meant() {
        assert_eq!(Fraction::ratio(1, 4).scaled(), 1 << 46);
        // 2^48 / 500 = 562949953421.312, 2^48 / 10 = 28147497671065.6
        assert_eq!(Fraction::ratio(1, 500).scaled(), 562_949_953_421);
        assert_eq!(Fraction::ratio(1, 10).scaled(), 28_147_497_671_066);
        assert_eq!(Fraction::ratio(1, 500).to_string(), "0.002");
        assert_eq!(Fraction::ONE.to_string(), "1");
        assert_eq!(Fraction::default().to_string(), "0");
    }

    #[test]
    fn quantities_read_with_their_units() {
        assert_eq!("20mbit".parse(), Ok(Rate::from_bps(20_000_000)));
        assert_eq!("1.5 Gbit/s".parse(), Ok(Rate::from_bps(1_500_000_000)));
        assert_eq!("40ms".parse(), Ok(Duration::from_millis(40)));
        assert_eq!("64KiB".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("0.002".parse(), Ok(Fraction::ratio(1, 500)));
        assert!("1.1".parse::<Fraction>().is_err() && "NaN".parse::<Fraction>().is_err());
    }

    #[test]
    fn a_quantity_without_unit_is_refused_with_an_example() {
        let error = "20".parse::<Rate>().unwrap_err().to_string();
        assert!(error.contains("20mbit"), "{error}");
        assert!("-5mbit".parse::<Rate>().is_err());
        assert!("99999999999gbit".parse::<Rate>().is_err());
    }
}
