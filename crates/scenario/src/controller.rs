// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rate` of media: the rate controller of a sender.

use std::str::FromStr;

use makeway_core::param::Refusal;
use makeway_core::rate::Config;

use crate::document::Value;
use crate::error::{ScenarioError, did_you_mean, list};
use crate::queue::refused;
use crate::section::{Section, read as read_item, string, text};

/// A controller by its name, or a fixed rate. Only a scenario has the name `external`: a call of `makeway send` has nobody to set its rate.
struct Named(Config);

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == Config::EXTERNAL {
            return Ok(Self(Config::External(Config::FIRST)));
        }
        text.parse().map(Self).map_err(|_| {
            format!(
                "`{text}` is not a controller or a rate: write {}, {}, or a rate of {} or more, like 2mbit",
                Config::NAMES.join(", "),
                Config::EXTERNAL,
                Config::LEAST
            )
        })
    }
}

/// Value of `rate`: the name of a controller, a table with its parameters, or a constant rate.
pub(crate) fn read(s: &Section<'_>) -> Result<Config, ScenarioError> {
    let name = s.name("rate");
    let Some(item) = s.given("rate")? else {
        return Err(s.origin.error(format!("`{name}` is missing")));
    };
    let Value::Table(table) = &item.value else {
        return read_item::<Named>(item, &name).map(|named| named.0);
    };
    let Some(kind) = table.get("kind") else {
        return Err(item
            .origin
            .error(format!("`{name}.kind` is missing: write `kind = \"tfrc\"`")));
    };
    let word = string(&kind.item, &format!("{name}.kind"))?;
    let known = || Config::NAMES.into_iter().chain([Config::EXTERNAL]);
    if !known().any(|one| one == word) {
        return Err(kind.item.origin.error(format!(
            "`{name}.kind` is `{word}`: choose among {}{}",
            list(known()),
            did_you_mean(word, known())
        )));
    }
    let Named(mut config) = read_item(&kind.item, &name)?;
    let mut keys = vec!["kind".to_owned()];
    config.fields(&mut |key, _, _| keys.push(key.into()));
    let known: Vec<&str> = keys.iter().map(String::as_str).collect();
    let s = Section::with_others(name, item, &[], &known)?;
    // In the order of the fields: a preset comes first.
    for key in &keys[1..] {
        if let Some(entry) = s.get(key) {
            let text = text(&entry.item).unwrap_or_default();
            let set: Result<(), Refusal> = config.set(key, &text);
            set.map_err(|refusal| refused(&entry.item, &s.name(key), refusal))?;
        }
    }
    Ok(config)
}
