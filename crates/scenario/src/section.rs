// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of the file beside the fields that it may have: its values with their types and defaults.

use std::str::FromStr;

use crate::document::{Entry, Item, Table, Value};
use crate::error::{Origin, ScenarioError, did_you_mean, list};
use crate::field::{Default, Field, Values};

pub(crate) struct Section<'a> {
    /// `link.line`; empty for the file itself.
    pub path: String,
    pub origin: &'a Origin,
    pub table: &'a Table,
    fields: Vec<&'static Field>,
}

impl<'a> Section<'a> {
    /// The table `item`, whose keys are all among `fields`.
    pub fn new(
        path: impl Into<String>,
        item: &'a Item,
        fields: &[&'static [Field]],
    ) -> Result<Self, ScenarioError> {
        Self::with_others(path, item, fields, &[])
    }

    /// As [`Section::new`], for the entry `[kind.NAME]`.
    pub fn named(
        kind: &str,
        entry: &'a Entry,
        fields: &[&'static [Field]],
    ) -> Result<Self, ScenarioError> {
        let mut section = Self::new(format!("{kind}.{}", entry.key), &entry.item, fields)?;
        section.origin = &entry.origin;
        Ok(section)
    }

    /// As [`Section::new`], with keys that the caller reads by itself.
    pub fn with_others(
        path: impl Into<String>,
        item: &'a Item,
        fields: &[&'static [Field]],
        others: &[&str],
    ) -> Result<Self, ScenarioError> {
        let path = path.into();
        let fields: Vec<&Field> = fields.iter().copied().flatten().collect();
        let Value::Table(table) = &item.value else {
            return Err(item.origin.error(format!(
                "`{path}` is {}, not a table: write {}",
                shown(&item.value),
                example(&fields, others)
            )));
        };
        let section = Self {
            path,
            origin: &item.origin,
            table,
            fields,
        };
        section.refuse_unknown(others)?;
        Ok(section)
    }

    /// The file itself.
    pub fn top(
        origin: &'a Origin,
        table: &'a Table,
        fields: &'static [Field],
    ) -> Result<Self, ScenarioError> {
        let section = Self {
            path: String::new(),
            origin,
            table,
            fields: fields.iter().collect(),
        };
        section.refuse_unknown(&[])?;
        Ok(section)
    }

    fn refuse_unknown(&self, others: &[&str]) -> Result<(), ScenarioError> {
        let own = self.fields.iter().map(|field| field.key);
        let known: Vec<&str> = own.chain(others.iter().copied()).collect();
        let mut entries = self.table.entries.iter();
        let Some(entry) = entries.find(|entry| !known.contains(&entry.key.as_str())) else {
            return Ok(());
        };
        let place = match self.path.as_str() {
            "" => "at the top of the file".into(),
            path => format!("in [{path}]"),
        };
        Err(entry.origin.error(format!(
            "there is no key `{}` {place} (keys: {}){}",
            entry.key,
            list(known.iter().copied()),
            did_you_mean(&entry.key, known.iter().copied()),
        )))
    }

    pub fn get(&self, key: &str) -> Option<&'a Entry> {
        self.table.get(key)
    }

    pub fn name(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.into(),
            path => format!("{path}.{key}"),
        }
    }

    /// Where the value of `key` was written, or the table where it was not.
    pub fn at(&self, key: &str) -> &'a Origin {
        self.get(key).map_or(self.origin, |e| &e.item.origin)
    }

    fn field(&self, key: &str) -> Option<&'static Field> {
        let field = self.fields.iter().find(|field| field.key == key).copied();
        debug_assert!(field.is_some(), "`{key}` is not a field of `{}`", self.path);
        field
    }

    /// The value of `key` as it was written, if it was; an error if it must be.
    pub fn given(&self, key: &str) -> Result<Option<&'a Item>, ScenarioError> {
        match (self.get(key), self.field(key).map(|field| field.default)) {
            (Some(entry), _) => Ok(Some(&entry.item)),
            (None, Some(Default::Needed(example))) => Err(self.origin.error(format!(
                "`{}` is missing: write `{key} = {example}`",
                self.name(key)
            ))),
            (None, _) => Ok(None),
        }
    }

    /// A value within the range of its field, or the field's default; `None` where that is in words.
    pub fn read<T>(&self, key: &str) -> Result<Option<T>, ScenarioError>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        match self.given(key)? {
            Some(item) => self.one(key, item).map(Some),
            None => Ok(self.default(key)),
        }
    }

    /// As [`Section::read`], of a field whose default is a value, or that must be given.
    pub fn value<T>(&self, key: &str) -> Result<T, ScenarioError>
    where
        T: FromStr + std::default::Default,
        T::Err: std::fmt::Display,
    {
        Ok(self.read(key)?.unwrap_or_default())
    }

    fn default<T: FromStr>(&self, key: &str) -> Option<T> {
        match self.field(key)?.default {
            Default::Value(text) => text.parse().ok(),
            Default::Needed(_) | Default::Words(_) => None,
        }
    }

    /// The value `item` of `key`.
    fn one<T>(&self, key: &str, item: &Item) -> Result<T, ScenarioError>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        let field = self.field(key);
        match field.filter(|field| !field.values.allows(&item.value)) {
            Some(field) => Err(self.refusal(field, item)),
            None => read(item, &self.name(key)),
        }
    }

    fn refusal(&self, field: &Field, item: &Item) -> ScenarioError {
        let (name, given) = (self.name(field.key), shown(&item.value));
        item.origin.error(match (field.values, &item.value) {
            (Values::OneOf(names), Value::String(text)) => format!(
                "`{name}` is `{text}`: choose among {}{}",
                list(names.iter().copied()),
                did_you_mean(text, names.iter().copied())
            ),
            (values, _) => {
                let like = match field.default {
                    Default::Needed(example) => format!(", like {example}"),
                    Default::Value(value) if !value.starts_with('0') => {
                        format!(", like {}", values.written(value))
                    }
                    _ => String::new(),
                };
                format!("`{name}` is {given}: write {}{like}", values.allowed())
            }
        })
    }

    /// As [`Section::read`], for one value or an array of two: the same in both directions, or the first node's, then the
    /// second's.
    pub fn pair<T>(&self, key: &str) -> Result<Option<[T; 2]>, ScenarioError>
    where
        T: FromStr + Clone,
        T::Err: std::fmt::Display,
    {
        let both = |value: T| [value.clone(), value];
        let Some(item) = self.given(key)? else {
            return Ok(self.default(key).map(both));
        };
        match item.one_or_more() {
            [one] => self.one(key, one).map(|value| Some(both(value))),
            [a, b] => Ok(Some([self.one(key, a)?, self.one(key, b)?])),
            more => Err(item.origin.error(format!(
                "`{}` has {} values: write one for both directions, or two, the first for what the first node of `between` sends",
                self.name(key),
                more.len()
            ))),
        }
    }

    /// A word of a [`Values::OneOf`]; empty where none is given and the default is in words.
    pub fn choice(&self, key: &str) -> Result<&'a str, ScenarioError> {
        match (self.given(key)?, self.field(key)) {
            (Some(item), Some(field)) => match &item.value {
                Value::String(text) if field.values.allows(&item.value) => Ok(text),
                _ => Err(self.refusal(field, item)),
            },
            (
                None,
                Some(Field {
                    default: Default::Value(word),
                    ..
                }),
            ) => Ok(word),
            _ => Ok(""),
        }
    }

    /// A text, and where it was written.
    pub fn string(&self, key: &str) -> Result<Option<(&'a str, &'a Origin)>, ScenarioError> {
        let Some(item) = self.given(key)? else {
            return Ok(None);
        };
        Ok(Some((string(item, &self.name(key))?, &item.origin)))
    }

    /// The table that is the value of `key`.
    pub fn inner(&self, key: &str) -> Result<Option<Section<'a>>, ScenarioError> {
        let item = self.given(key)?;
        item.map(|item| self.section(key, item)).transpose()
    }

    /// The table `item` among the values of `key`.
    pub fn section(&self, key: &str, item: &'a Item) -> Result<Section<'a>, ScenarioError> {
        let fields = match self.field(key).map(|field| field.values) {
            Some(Values::Table(fields)) => fields,
            _ => &[],
        };
        Section::new(self.name(key), item, &[fields])
    }

    /// Which of the two nodes of a link the key `at` names: 0 or 1.
    pub fn end(&self, nodes: [&str; 2]) -> Result<usize, ScenarioError> {
        let text = self.string("at")?.map_or("", |(text, _)| text);
        let end = nodes.iter().position(|node| *node == text);
        end.ok_or_else(|| {
            self.at("at").error(format!(
                "`{}` is `{text}`: choose among {}",
                self.name("at"),
                list(nodes)
            ))
        })
    }
}

/// A table as one may write it: what must be given, or the first key.
fn example(fields: &[&Field], others: &[&str]) -> String {
    let needed = fields.iter().filter_map(|field| match field.default {
        Default::Needed(example) => Some(format!("{} = {example}", field.key)),
        _ => None,
    });
    let mut parts: Vec<String> = needed.collect();
    if let (true, Some(first)) = (parts.is_empty(), fields.first()) {
        parts.push(match first.default {
            Default::Value(value) => format!("{} = {}", first.key, first.values.written(value)),
            _ => format!("{} = ...", first.key),
        });
    }
    if let (true, Some(first)) = (parts.is_empty(), others.first()) {
        parts.push(format!("{first} = ..."));
    }
    format!("{{ {} }}", parts.join(", "))
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

/// A value as text: what one would write behind `--set`.
pub(crate) fn text(item: &Item) -> Option<String> {
    match &item.value {
        Value::String(text) => Some(text.clone()),
        Value::Scalar(text) => Some(text.replace('_', "")),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}

/// A bare number is given to the unit's own reader too, so that its message tells how to write it.
pub(crate) fn read<T>(item: &Item, name: &str) -> Result<T, ScenarioError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let Some(text) = text(item) else {
        let given = shown(&item.value);
        return Err(item
            .origin
            .error(format!("`{name}` is {given}: write one value")));
    };
    text.parse()
        .map_err(|e| item.origin.error(format!("`{name}`: {e}")))
}

pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => format!("\"{s}\""),
        Value::Scalar(s) => s.clone(),
        Value::Boolean(b) => b.to_string(),
        Value::Array(_) => "an array".into(),
        Value::Table(_) => "a table".into(),
    }
}
