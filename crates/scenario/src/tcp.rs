// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp` of a download: what TCP is like where it is a model.

use makeway_core::units::Bytes;

use crate::error::ScenarioError;
use crate::model::{Preset, Tcp};
use crate::section::{Section, table};

const KEYS: [&str; 7] = [
    "preset",
    "mss",
    "window",
    "initial_window",
    "delayed_ack",
    "min_rto",
    "ecn",
];

/// Limits of [`Tcp::window`] and the others, so that derived sizes fit their types.
const MOST_WINDOW: Bytes = Bytes::new(1 << 30);
const MOST_SEGMENT: Bytes = Bytes::new(65_000);

pub(crate) fn read(s: &Section<'_>) -> Result<Tcp, ScenarioError> {
    let Some(entry) = s.get("tcp") else {
        return Ok(Tcp::default());
    };
    let name = s.name("tcp");
    let t = table(
        &entry.item,
        &name,
        "{ preset = \"ns2\", window = \"100kB\" }",
    )?;
    let s = Section::new(name, &entry.item.origin, t, &KEYS)?;
    let preset = match s.choice("preset", &["linux", "ns2"])?.as_deref() {
        Some("ns2") => Preset::Ns2,
        _ => Preset::Linux,
    };
    let initial_window = s.integer("initial_window", 1..=10_000)?;
    Ok(Tcp {
        preset,
        mss: size(&s, "mss", Bytes::new(1), MOST_SEGMENT)?,
        window: size(&s, "window", Bytes::new(1), MOST_WINDOW)?,
        initial_window: initial_window.map(|n| n as u32),
        delayed_ack: s.read("delayed_ack")?,
        min_rto: s.read("min_rto")?,
        ecn: s.boolean("ecn")?.unwrap_or(false),
    })
}

fn size(
    s: &Section<'_>,
    key: &str,
    least: Bytes,
    most: Bytes,
) -> Result<Option<Bytes>, ScenarioError> {
    let size: Option<Bytes> = s.read(key)?;
    match size {
        Some(bytes) if !(least..=most).contains(&bytes) => Err(s.at(key).error(format!(
            "`{}` is {bytes}: write a size from {least} to {most}",
            s.name(key)
        ))),
        size => Ok(size),
    }
}
