// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table being read: which keys it may have, and its values with their types.

use std::str::FromStr;

use crate::document::{Entry, Item, Table, Value};
use crate::error::{Origin, ScenarioError, did_you_mean, list};

pub(crate) struct Section<'a> {
    /// `link.line`; empty for the file itself.
    pub path: String,
    pub origin: &'a Origin,
    pub table: &'a Table,
}

impl<'a> Section<'a> {
    /// Refuses keys that are not in `known`.
    pub fn new(
        path: impl Into<String>,
        origin: &'a Origin,
        table: &'a Table,
        known: &[&str],
    ) -> Result<Self, ScenarioError> {
        let path = path.into();
        for entry in &table.entries {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let place = if path.is_empty() {
                "at the top of a scenario".into()
            } else {
                format!("in [{path}]")
            };
            let hint = did_you_mean(&entry.key, known.iter().copied());
            return Err(entry.origin.error(format!(
                "there is no key `{}` {place} (keys: {}){hint}",
                entry.key,
                list(known.iter().copied()),
            )));
        }
        Ok(Self {
            path,
            origin,
            table,
        })
    }

    pub fn get(&self, key: &str) -> Option<&'a Entry> {
        self.table.get(key)
    }

    pub fn name(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.into()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Where the value of `key` was written, or the table where it was not.
    pub fn at(&self, key: &str) -> &'a Origin {
        self.get(key).map_or(self.origin, |e| &e.item.origin)
    }

    /// The entry, or an error that says what to write.
    pub fn need(&self, key: &str, example: &str) -> Result<&'a Entry, ScenarioError> {
        self.get(key).ok_or_else(|| {
            self.origin.error(format!(
                "`{}` is missing: write `{key} = {example}`",
                self.name(key)
            ))
        })
    }

    /// A value with a unit or a name, by its `FromStr`.
    pub fn read<T>(&self, key: &str) -> Result<Option<T>, ScenarioError>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        self.get(key)
            .map(|e| read(&e.item, &self.name(key)))
            .transpose()
    }

    /// As [`Section::read`], for one value or an array of two: the same in both directions, or the
    /// first node's, then the second's.
    pub fn pair<T>(&self, key: &str) -> Result<Option<[T; 2]>, ScenarioError>
    where
        T: FromStr + Clone,
        T::Err: std::fmt::Display,
    {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        let name = self.name(key);
        match &entry.item.value {
            Value::Array(items) => match &items[..] {
                [a, b] => Ok(Some([read(a, &name)?, read(b, &name)?])),
                _ => Err(entry.item.origin.error(format!(
                    "`{name}` has {} values: write one for both directions, or two, the first for \
                     what the first node of `between` sends",
                    items.len()
                ))),
            },
            _ => {
                let value: T = read(&entry.item, &name)?;
                Ok(Some([value.clone(), value]))
            }
        }
    }

    /// A whole number within `range`.
    pub fn integer(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, ScenarioError> {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        let number = match &entry.item.value {
            Value::Scalar(s) => s.replace('_', "").parse().ok(),
            _ => None,
        };
        match number.filter(|n| range.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => Err(entry.item.origin.error(format!(
                "`{}` is {}: write a whole number from {} to {}",
                self.name(key),
                shown(&entry.item.value),
                range.start(),
                range.end()
            ))),
        }
    }

    /// A text.
    pub fn string(&self, key: &str) -> Result<Option<(&'a str, &'a Origin)>, ScenarioError> {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        let s = string(&entry.item, &self.name(key))?;
        Ok(Some((s, &entry.item.origin)))
    }

    /// A number from 0 to 1.
    pub fn probability(&self, key: &str) -> Result<Option<f64>, ScenarioError> {
        let probability: Option<f64> = self.read(key)?;
        match probability {
            Some(p) if !(0.0..=1.0).contains(&p) => Err(self.at(key).error(format!(
                "`{}` is a probability: write a number from 0 to 1, like 0.01 for 1 %",
                self.name(key)
            ))),
            p => Ok(p),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, ScenarioError> {
        match self.get(key).map(|entry| &entry.item) {
            None => Ok(None),
            Some(Item {
                value: Value::Boolean(b),
                ..
            }) => Ok(Some(*b)),
            Some(item) => Err(item.origin.error(format!(
                "`{}` is {}: write true or false",
                self.name(key),
                shown(&item.value)
            ))),
        }
    }

    /// Which of the two nodes of a link `key` names: 0 or 1.
    pub fn end(&self, key: &str, nodes: [&str; 2]) -> Result<usize, ScenarioError> {
        self.need(key, &format!("\"{}\"", nodes[0]))?;
        let named = self.choice(key, &nodes)?;
        Ok(usize::from(named.as_deref() == Some(nodes[1])))
    }

    /// A text among `choices`.
    pub fn choice(&self, key: &str, choices: &[&str]) -> Result<Option<String>, ScenarioError> {
        let Some((text, origin)) = self.string(key)? else {
            return Ok(None);
        };
        if choices.contains(&text) {
            return Ok(Some(text.into()));
        }
        Err(origin.error(format!(
            "`{}` is `{text}`: choose among {}{}",
            self.name(key),
            list(choices.iter().copied()),
            did_you_mean(text, choices.iter().copied())
        )))
    }
}

/// The table that `item` is.
pub(crate) fn table<'a>(
    item: &'a Item,
    name: &str,
    example: &str,
) -> Result<&'a Table, ScenarioError> {
    match &item.value {
        Value::Table(t) => Ok(t),
        other => Err(item.origin.error(format!(
            "`{name}` is {}, not a table: write {example}",
            shown(other)
        ))),
    }
}

/// The text that `item` is.
pub(crate) fn string<'a>(item: &'a Item, name: &str) -> Result<&'a str, ScenarioError> {
    match &item.value {
        Value::String(s) => Ok(s),
        other => Err(item.origin.error(format!(
            "`{name}` is {}: write a text in quotes",
            shown(other)
        ))),
    }
}

/// A bare number is given to the unit's own reader too, so that its message tells how to write it.
pub(crate) fn read<T>(item: &Item, name: &str) -> Result<T, ScenarioError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text = match &item.value {
        Value::String(s) | Value::Scalar(s) => s,
        other => {
            return Err(item
                .origin
                .error(format!("`{name}` is {}: write one value", shown(other))));
        }
    };
    text.parse()
        .map_err(|e| item.origin.error(format!("`{name}`: {e}")))
}

pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => format!("the text \"{s}\""),
        Value::Scalar(s) => s.clone(),
        Value::Boolean(b) => b.to_string(),
        Value::Array(_) => "an array".into(),
        Value::Table(_) => "a table".into(),
    }
}
