// SPDX-License-Identifier: MIT OR Apache-2.0
//! A short scenario for tests, which those in Python read too.

use crate::plan::{Axis, Source};

const TEXT: &str = include_str!("sample.toml");

/// Seed of a scenario whose runs panic, in tests of this crate.
pub(crate) const PANICS: u64 = 13_131;

pub(crate) fn source() -> Source {
    Source {
        file: "sample.toml".into(),
        folder: ".".into(),
        text: TEXT.into(),
        set: Vec::new(),
    }
}

pub(crate) fn axis(key: &str, values: &[&str]) -> Axis {
    Axis {
        key: key.into(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    }
}
