// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as versioned JSON.

use crate::model::{FORMAT, Report};

/// Why a report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or not a report.
    #[error("this is not a report of makeway: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the form.
    #[error(
        "the report has format {found}, this program reads format {FORMAT}: run the scenario again"
    )]
    Format {
        /// The version in the text.
        found: u64,
    },
}

/// The report as JSON, ending in a newline.
pub fn to_json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("a report holds only plain values");
    text.push('\n');
    text
}

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// The text is no report, or one of another format.
pub fn from_json(text: &str) -> Result<Report, ReadError> {
    let value: serde_json::Value = serde_json::from_str(text)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found != u64::from(FORMAT) => Err(ReadError::Format { found }),
        _ => Ok(serde_json::from_value(value)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_is_written_is_read_back() {
        let report = sample::report("sqf", 0.0);
        assert_eq!(from_json(&to_json(&report)).unwrap(), report);
    }

    #[test]
    fn numbers_are_read_back_to_the_bit() {
        let mut report = sample::report("sqf", 0.0);
        for n in 1..2000 {
            report.seconds = f64::from(n) / 7e5 + 1.0 / f64::from(n);
            let read = from_json(&to_json(&report)).unwrap();
            assert_eq!(read.seconds.to_bits(), report.seconds.to_bits(), "{n}");
        }
    }

    #[test]
    fn another_format_is_refused_with_both_numbers() {
        let text =
            to_json(&sample::report("sqf", 0.0)).replacen("\"format\": 1", "\"format\": 7", 1);
        let error = from_json(&text).unwrap_err().to_string();
        assert!(
            error.contains("format 7") && error.contains("format 1"),
            "{error}"
        );
    }
}
