// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a scenario is refused.

use std::fmt;

/// Why a scenario is refused: one sentence with the place, the key, what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ScenarioError {
    /// `FILE:LINE`, or the setting of the command line.
    pub place: String,
    /// The fault, the allowed values, and an example.
    pub message: String,
}

/// Where a key or a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A line of a file, counted from 1.
    Line { file: String, line: usize },
    /// `--set key=value`.
    Set(String),
    /// The file as a whole.
    File(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Set(text) => write!(f, "--set {text}"),
            Self::File(file) => f.write_str(file),
        }
    }
}

impl Origin {
    pub(crate) fn error(&self, message: impl Into<String>) -> ScenarioError {
        ScenarioError {
            place: self.to_string(),
            message: message.into(),
        }
    }
}

/// `; did you mean ...`, if one of `known` is near to `word`.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|&(distance, k)| distance <= 1 + k.len() / 4)
        .min()
        .map(|(_, k)| format!("; did you mean `{k}`?"))
        .unwrap_or_default()
}

/// `a, b and c`.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.split_last() {
        None => "none".into(),
        Some((last, [])) => (*last).into(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
