// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bar: the figures that it admits, and whether an estimate is among them.

use makeway_report::estimate::Estimate;
use serde::Deserialize;

/// Part of an estimate that must be within the bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interval {
    /// The mean.
    Mean,
    /// The 95 % interval over the replications as a whole.
    Whole,
}

/// Bounds: `at_least`, `at_most` or both; or a `value`, `within` a part of it, or more or less `by`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    at_least: Option<f64>,
    at_most: Option<f64>,
    value: Option<f64>,
    within: Option<f64>,
    by: Option<f64>,
}

/// How one check fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Holds,
    Fails,
    Missing,
}

impl Bar {
    /// Whether it says one thing.
    pub fn checked(&self) -> bool {
        let some = [
            self.at_least,
            self.at_most,
            self.value,
            self.within,
            self.by,
        ];
        let is = some.map(|x| x.is_some());
        matches!(
            is,
            [true, _, false, false, false]
                | [_, true, false, false, false]
                | [false, false, true, true, false]
                | [false, false, true, false, true]
        )
    }

    /// The least and the largest that it admits.
    pub fn bounds(&self) -> [f64; 2] {
        let Some(value) = self.value else {
            return [
                self.at_least.unwrap_or(f64::NEG_INFINITY),
                self.at_most.unwrap_or(f64::INFINITY),
            ];
        };
        let slack = match self.within {
            Some(part) => part * value.abs(),
            None => self.by.unwrap_or(0.0),
        };
        // 0.9 of 1 and the like are not refused for their last bit.
        let slack = slack + value.abs() * 1e-9;
        [value - slack, value + slack]
    }

    /// In words.
    pub fn says(&self) -> String {
        match *self {
            Self {
                value: Some(value),
                within: Some(part),
                ..
            } => format!("{value} within {} %", round(part * 100.0)),
            Self {
                value: Some(value),
                by: Some(by),
                ..
            } => format!("{value} ± {by}"),
            Self {
                at_least: Some(low),
                at_most: Some(high),
                ..
            } => format!("{low} to {high}"),
            Self {
                at_least: Some(low),
                ..
            } => format!("at least {low}"),
            Self {
                at_most: Some(high),
                ..
            } => format!("at most {high}"),
            _ => String::new(),
        }
    }

    /// Whether an estimate is within it.
    pub fn holds(&self, interval: Interval, x: &Estimate) -> Found {
        let [low, high] = self.bounds();
        let half = match (interval, x.half_width) {
            (Interval::Mean, _) => 0.0,
            (Interval::Whole, Some(half)) => half,
            (Interval::Whole, None) => return Found::Missing,
        };
        if x.mean.is_nan() || half.is_nan() {
            return Found::Missing;
        }
        match x.mean - half >= low && x.mean + half <= high {
            true => Found::Holds,
            false => Found::Fails,
        }
    }
}

fn round(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}
