// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mean over replications with its interval, and how it is written.

use makeway_core::measure::Moments;
use serde::Serialize;

/// Digits behind the point: figures that are known better are not of interest.
const MOST_DIGITS: f64 = 3.0;

/// A mean over independent runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % interval by Student's t; none with fewer than two runs.
    pub half_width: Option<f64>,
    /// Runs that have the figure.
    pub runs: u64,
}

impl Estimate {
    /// Estimate from independent `values`; the mean of none is not a number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut moments = Moments::new();
        values.into_iter().for_each(|value| moments.record(value));
        Self {
            mean: match moments.count() {
                0 => f64::NAN,
                _ => moments.mean(),
            },
            half_width: moments.interval95(),
            runs: moments.count(),
        }
    }

    /// Whether zero is outside the interval: for differences.
    pub fn certain(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// bit/s.
    Rate,
    /// 0 to 1, written as a percentage.
    Share,
    /// ms.
    Millis,
    /// Without a unit.
    Index,
    /// Packets.
    Packets,
}

impl Unit {
    /// `4.120 ± 0.031 Mbit/s`: the half-width has two digits, the mean as many behind the point; three
    /// there at most, and no half-width is shortened to zero.
    pub fn show(self, estimate: &Estimate) -> String {
        self.write(estimate, "", self.per_cent())
    }

    /// `+1.20 ± 0.31 Mbit/s`, `-21.0 ± 1.2 points`: the difference of two figures.
    pub fn show_difference(self, estimate: &Estimate) -> String {
        let sign = if estimate.mean > 0.0 { "+" } else { "" };
        self.write(estimate, sign, " points")
    }

    /// A single value: `4.12 Mbit/s`.
    pub fn show_value(self, value: f64) -> String {
        let (scale, unit) = self.scale(value, self.per_cent());
        format!("{}{unit}", number(value / scale, 2))
    }

    fn per_cent(self) -> &'static str {
        " %"
    }

    fn write(self, estimate: &Estimate, sign: &'static str, share: &'static str) -> String {
        let (mean, half) = (estimate.mean, estimate.half_width);
        let largest = mean.abs().max(half.unwrap_or(0.0));
        let (scale, unit) = self.scale(largest, share);
        let (mean, half) = (mean / scale, half.map(|half| half / scale));
        match half {
            None => format!("{sign}{}{unit}", number(mean, 2)),
            Some(half) if half > 0.0 => {
                let digits = (1.0 - half.log10().floor()).clamp(0.0, MOST_DIGITS) as usize;
                let last = 0.1_f64.powi(digits as i32);
                let half = half.max(last);
                // No "-0.00".
                let (sign, mean) = match mean.abs() < last / 2.0 {
                    true => ("", 0.0),
                    false => (sign, mean),
                };
                format!("{sign}{mean:.digits$} ± {half:.digits$}{unit}")
            }
            Some(_) => format!("{sign}{} ± 0{unit}", number(mean, 3)),
        }
    }

    fn scale(self, value: f64, share: &'static str) -> (f64, &'static str) {
        match (self, value.abs()) {
            (Self::Rate, v) if v >= 1e9 => (1e9, " Gbit/s"),
            (Self::Rate, v) if v >= 1e6 => (1e6, " Mbit/s"),
            (Self::Rate, v) if v >= 1e3 => (1e3, " kbit/s"),
            (Self::Rate, _) => (1.0, " bit/s"),
            (Self::Share, _) => (0.01, share),
            (Self::Millis, _) => (1.0, " ms"),
            (Self::Index | Self::Packets, _) => (1.0, ""),
        }
    }
}

/// No more digits than it needs, `digits` behind the point at most.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half: f64) -> Estimate {
        Estimate {
            mean,
            half_width: Some(half),
            runs: 10,
        }
    }

    #[test]
    fn the_interval_of_known_samples_is_the_textbooks() {
        // Mean 2, deviation 1, t = 4.302653 with two degrees of freedom.
        let e = Estimate::of([1.0, 2.0, 3.0]);
        assert_eq!((e.mean, e.runs), (2.0, 3));
        assert!((e.half_width.unwrap() - 4.302_653 / 3_f64.sqrt()).abs() < 1e-5);
        assert!(!e.certain());
    }

    #[test]
    fn a_single_run_has_no_interval_and_none_has_no_mean() {
        assert_eq!(Estimate::of([5.0]).half_width, None);
        assert!(!Estimate::of([5.0]).certain());
        assert!(Estimate::of([]).mean.is_nan());
    }

    #[test]
    fn a_figure_without_spread_is_certain_and_a_zero_is_settled() {
        assert!(Estimate::of([5.0, 5.0]).certain());
        let zero = Estimate::of([0.0, 0.0]);
        assert!(!zero.certain());
        assert_eq!(zero.half_width, Some(0.0));
    }

    #[test]
    fn digits_follow_the_interval() {
        for (unit, mean, half, text) in [
            (Unit::Rate, 4.12e6, 31_234.0, "4.120 ± 0.031 Mbit/s"),
            (Unit::Rate, 63_990.0, 120.0, "63.99 ± 0.12 kbit/s"),
            (Unit::Share, 0.2134, 0.0123, "21.3 ± 1.2 %"),
            (Unit::Share, 0.0, 0.0, "0 ± 0 %"),
            (Unit::Millis, 61.4, 12.3, "61 ± 12 ms"),
            (Unit::Index, 0.98765, 0.012_3, "0.988 ± 0.012"),
            (Unit::Share, 1.0, 2e-5, "100.000 ± 0.002 %"),
            (Unit::Millis, 8.552, 1e-5, "8.552 ± 0.001 ms"),
            (Unit::Packets, 4800.0, 120.0, "4800 ± 120"),
        ] {
            assert_eq!(unit.show(&estimate(mean, half)), text);
        }
        assert_eq!(
            Unit::Share.show_difference(&estimate(-0.21, 0.012)),
            "-21.0 ± 1.2 points"
        );
        assert_eq!(
            Unit::Millis.show_difference(&estimate(-0.000_1, 0.012)),
            "0.000 ± 0.012 ms"
        );
        assert_eq!(Unit::Rate.show(&Estimate::of([4.0e6])), "4 Mbit/s");
        assert_eq!(Unit::Packets.show_value(100.0), "100");
    }
}
