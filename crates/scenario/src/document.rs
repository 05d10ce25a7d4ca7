// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file as a tree that remembers where everything was written, with the settings of the
//! command line put in.

use toml::de::{DeTable, DeValue};

use crate::error::{Origin, ScenarioError, did_you_mean, list};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub origin: Origin,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    /// A number or a date, as it was written.
    Scalar(String),
    Boolean(bool),
    Array(Vec<Item>),
    Table(Table),
}

/// Entries in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub origin: Origin,
    pub item: Item,
}

impl Item {
    /// The items of an array, or the item alone.
    pub fn one_or_more(&self) -> &[Item] {
        match &self.value {
            Value::Array(items) => items,
            _ => std::slice::from_ref(self),
        }
    }
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }
}

/// Reads TOML.
pub(crate) fn parse(text: &str, file: &str) -> Result<Table, ScenarioError> {
    let lines = Lines { text, file };
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        let message = e.message().replace('\n', "; ");
        lines.at(at).error(format!("this is not TOML: {message}"))
    })?;
    Ok(lines.table(table.get_ref()))
}

struct Lines<'a> {
    text: &'a str,
    file: &'a str,
}

impl Lines<'_> {
    fn at(&self, byte: usize) -> Origin {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        Origin::Line {
            file: self.file.into(),
            line: 1 + before.iter().filter(|&&b| b == b'\n').count(),
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entries = entries
            .into_iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                origin: self.at(key.span().start),
                item: self.item(value.span().start, value.get_ref()),
            })
            .collect();
        Table { entries }
    }

    fn item(&self, at: usize, value: &DeValue<'_>) -> Item {
        let value = match value {
            DeValue::String(s) => Value::String(s.to_string()),
            DeValue::Integer(n) => Value::Scalar(n.to_string()),
            DeValue::Float(x) => Value::Scalar(x.to_string()),
            DeValue::Datetime(d) => Value::Scalar(d.to_string()),
            DeValue::Boolean(b) => Value::Boolean(*b),
            DeValue::Array(items) => {
                let items = items.iter().map(|v| self.item(v.span().start, v.get_ref()));
                Value::Array(items.collect())
            }
            DeValue::Table(t) => Value::Table(self.table(t)),
        };
        Item {
            origin: self.at(at),
            value,
        }
    }
}

/// Puts `key.with.dots=value` in; the value is TOML, or a bare word.
pub(crate) fn set(root: &mut Table, text: &str) -> Result<(), ScenarioError> {
    let origin = Origin::Set(text.into());
    let (path, value) = text
        .split_once('=')
        .map(|(path, value)| (path.trim(), value.trim()))
        .filter(|(path, _)| !path.is_empty())
        .ok_or_else(|| origin.error("write a key and a value, like `duration=20s`"))?;
    let keys: Vec<&str> = path.split('.').map(str::trim).collect();
    if let [kind @ ("node" | "link" | "flow"), name, ..] = keys[..] {
        named(root, kind, name, &origin)?;
    }
    let mut item = value_of(value, &origin);
    mark(&mut item, &origin);
    put(root, &keys, item, &origin, path)
}

/// A setting changes what the file has; it cannot name a new link or flow.
fn named(root: &Table, kind: &str, name: &str, origin: &Origin) -> Result<(), ScenarioError> {
    let names: Vec<&str> = match root.get(kind).map(|e| &e.item.value) {
        Some(Value::Table(t)) => t.entries.iter().map(|e| e.key.as_str()).collect(),
        _ => Vec::new(),
    };
    if names.contains(&name) {
        return Ok(());
    }
    let hint = did_you_mean(name, names.iter().copied());
    let names = list(names);
    Err(origin.error(format!(
        "there is no {kind} `{name}` in the file (it has {names}){hint}"
    )))
}

fn value_of(text: &str, origin: &Origin) -> Item {
    let parsed = parse(&format!("x = {text}"), "").ok();
    match parsed.and_then(|mut t| (t.entries.len() == 1).then(|| t.entries.remove(0))) {
        Some(entry) if entry.key == "x" => entry.item,
        _ => Item {
            origin: origin.clone(),
            value: Value::String(text.into()),
        },
    }
}

fn mark(item: &mut Item, origin: &Origin) {
    item.origin = origin.clone();
    match &mut item.value {
        Value::Array(items) => items.iter_mut().for_each(|i| mark(i, origin)),
        Value::Table(t) => t.entries.iter_mut().for_each(|e| {
            e.origin = origin.clone();
            mark(&mut e.item, origin);
        }),
        _ => {}
    }
}

fn put(
    table: &mut Table,
    keys: &[&str],
    item: Item,
    origin: &Origin,
    path: &str,
) -> Result<(), ScenarioError> {
    let Some((key, rest)) = keys.split_first() else {
        return Ok(());
    };
    if key.is_empty() {
        return Err(origin.error(format!("`{path}` has an empty part between its dots")));
    }
    let at = match table.entries.iter().position(|e| e.key == **key) {
        Some(at) => at,
        None => {
            table.entries.push(Entry {
                key: (*key).into(),
                origin: origin.clone(),
                item: Item {
                    origin: origin.clone(),
                    value: Value::Table(Table::default()),
                },
            });
            table.entries.len() - 1
        }
    };
    let entry = &mut table.entries[at];
    if rest.is_empty() {
        entry.origin = origin.clone();
        entry.item = item;
        return Ok(());
    }
    match &mut entry.item.value {
        Value::Table(inner) => put(inner, rest, item, origin, path),
        Value::Array(items) => put_in_each(items, rest, &item, origin, path),
        _ => Err(no_table(key, rest, origin)),
    }
}

/// In every table of an array, or in the one whose place a number gives, from 0.
fn put_in_each(
    items: &mut [Item],
    keys: &[&str],
    item: &Item,
    origin: &Origin,
    path: &str,
) -> Result<(), ScenarioError> {
    let (items, keys) = match keys.split_first() {
        Some((place, rest)) if place.bytes().all(|c| c.is_ascii_digit()) => {
            let count = items.len();
            let picked = place.parse().ok().and_then(|n: usize| items.get_mut(n));
            let picked = picked.ok_or_else(|| {
                origin.error(format!(
                    "`{path}`: there is no place {place} in an array of {count}, counted from 0"
                ))
            })?;
            (std::slice::from_mut(picked), rest)
        }
        _ => (items, keys),
    };
    for place in items {
        match &mut place.value {
            _ if keys.is_empty() => *place = item.clone(),
            Value::Table(inner) => put(inner, keys, item.clone(), origin, path)?,
            _ => return Err(no_table("an item of the array", keys, origin)),
        }
    }
    Ok(())
}

fn no_table(key: &str, rest: &[&str], origin: &Origin) -> ScenarioError {
    origin.error(format!(
        "`{key}` is a value in the file, not a table: it has no `{}`",
        rest.join(".")
    ))
}
