// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! [`load`] reads and checks a file; [`model`] is what it means, and a world runs nothing else;
//! [`explain`] puts it into words. [`service`] reads the file of `makeway service`, [`traces`] packet traces
//! of other programs. Parts for every world: [`routes`], [`departures`], [`wire`]. The format is described in `docs/scenario.md`.

mod changes;
mod context;
mod controller;
pub mod departures;
mod document;
mod error;
mod explain;
pub mod field;
#[doc(hidden)]
pub mod files;
mod flow;
mod link;
mod media;
pub mod model;
mod ns2;
mod opportunities;
mod pcap;
mod queue;
mod read;
pub mod routes;
mod section;
mod sensor;
pub mod service;
mod tcp;
mod ticket;
mod trace;
pub mod traces;
mod warnings;
pub mod wire;
mod wlan;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use makeway_core::units::Duration;

pub use error::ScenarioError;
pub use explain::explain;
pub use media::ekiga;
pub use model::Scenario;
pub use warnings::warnings;

/// The tables of the format by section, for its documentation.
pub const SECTIONS: &[(&str, &[field::Field])] = &[
    ("top", read::FIELDS),
    ("link", link::FIELDS),
    ("link.loss", link::LOSS),
    ("link.framing", link::FRAMING),
    ("wlan", wlan::FIELDS),
    ("flow", flow::COMMON),
    ("flow tickets", ticket::SHARE),
];
/// The keys of each kind of flow.
pub const KINDS: &[(&str, &[field::Field])] = &flow::KINDS;

/// The largest file that is read: 1 MB.
const LARGEST_FILE: u64 = 1_000_000;
/// The largest trace, 64 MB: those of a scenario are held in memory, hours of frames.
pub(crate) const LARGEST_TRACE: u64 = 64_000_000;

/// The bytes of the file at `path`, `most` at most; of a pipe or a device, which may have no end, no more is read either.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn bytes_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => {
            let why = format!("it is longer than {} MB", most / 1_000_000);
            Err(io::Error::new(ErrorKind::FileTooLarge, why))
        }
        false => Ok(bytes),
    }
}

/// The text of the file at `path`, as [`bytes_of`].
///
/// # Errors
/// It cannot be read, is longer, or is no UTF-8.
pub fn text_of(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes_of(path, most)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8"))
}

/// Reads the file at `path`, with the settings `set` (`key.with.dots=value`) put in.
///
/// # Errors
/// The first thing that is wrong, with its line or setting.
pub fn load(path: &Path, set: &[String]) -> Result<Scenario, ScenarioError> {
    let file = path.display().to_string();
    let refuse = |message: String| ScenarioError {
        place: file.clone(),
        message,
    };
    let text = text_of(path, LARGEST_FILE)
        .map_err(|e| refuse(format!("the scenario cannot be read: {e}")))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&text, &file, folder, set)
}

/// Reads a trace of coded frames: its frames, and the time after which they repeat.
///
/// # Errors
/// The file cannot be read, or the first line of it that is wrong.
pub fn frames(path: &Path) -> Result<(Vec<model::Frame>, Duration), ScenarioError> {
    let refuse = |place: String, message: String| ScenarioError { place, message };
    let file = path.display();
    let text = text_of(path, LARGEST_TRACE)
        .map_err(|e| refuse(file.to_string(), format!("the trace cannot be read: {e}")))?;
    trace::parse(&text).map_err(|(line, message)| refuse(format!("{file}:{line}"), message))
}

/// Reads a scenario from `text`. `file` is its name in errors; traces are named from `folder`.
///
/// # Errors
/// The first thing that is wrong, with its line or setting.
pub fn parse(
    text: &str,
    file: &str,
    folder: &Path,
    set: &[String],
) -> Result<Scenario, ScenarioError> {
    let mut root = document::parse(text, file)?;
    let mut settings = BTreeMap::new();
    for setting in set {
        document::set(&mut root, setting)?;
        if let Some((key, value)) = setting.split_once('=') {
            settings.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    read::scenario(&root, file, folder, settings)
}
