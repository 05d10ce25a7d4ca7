// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdict of a statement.

use serde::Serialize;

/// How a statement fared in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// All that its criterion asks holds.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It does not hold here.
    #[serde(rename = "differs")]
    Differs,
    /// There is nothing to measure it by.
    #[serde(rename = "not measurable")]
    NotMeasurable,
    /// A figure that it is judged by is missing: nothing is said of it.
    #[default]
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// All, in the order of the report.
    pub const ALL: [Self; 4] = [
        Self::Reproduced,
        Self::Differs,
        Self::NotMeasurable,
        Self::NotMeasured,
    ];

    /// As it is written in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Differs => "differs",
            Self::NotMeasurable => "not measurable",
            Self::NotMeasured => "not measured",
        }
    }
}
