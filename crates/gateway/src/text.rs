// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values in JSON as the text that people write, for `#[serde(with = "...")]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

/// `None` is the empty text.
pub(crate) mod or_empty {
    use super::*;

    pub(crate) fn serialize<T, S>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error>
    where
        T: Display,
        S: Serializer,
    {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_str(""),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        let value = (!text.is_empty()).then(|| text.parse());
        value.transpose().map_err(D::Error::custom)
    }
}
