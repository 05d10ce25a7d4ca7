// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context of the reader: nodes, duration, folder.

use std::path::{Path, PathBuf};

use makeway_core::units::Duration;

use crate::error::{Origin, ScenarioError, did_you_mean, list};
use crate::model::Node;
use crate::section::Section;
use crate::{LARGEST_TRACE, text_of};

/// Context in which flows and links are read.
pub(crate) struct Context<'a> {
    pub nodes: Vec<Node>,
    pub duration: Duration,
    /// Where the scenario's file is: traces are named from here.
    pub folder: &'a Path,
}

impl Context<'_> {
    /// The index of the node that `text` names.
    pub fn node(&self, text: &str, name: &str, origin: &Origin) -> Result<usize, ScenarioError> {
        let names = self.nodes.iter().map(|n| n.name.as_str());
        self.nodes
            .iter()
            .position(|n| n.name == text)
            .ok_or_else(|| {
                origin.error(format!(
                    "`{name}`: there is no node `{text}` (nodes: {}){}",
                    list(names.clone()),
                    match did_you_mean(text, names) {
                        hint if hint.is_empty() => format!("; write [node.{text}] to have one"),
                        hint => hint,
                    }
                ))
            })
    }

    /// The text of the file that `key` names, its path, and where it is named.
    pub fn file<'a>(
        &self,
        s: &Section<'a>,
        key: &str,
    ) -> Result<(String, PathBuf, &'a Origin), ScenarioError> {
        let (name, origin) = s.string(key)?.unwrap_or(("", s.origin));
        let path = self.folder.join(name);
        let size = std::fs::metadata(&path).map(|m| if m.is_file() { m.len() } else { u64::MAX });
        if size.is_ok_and(|n| n > LARGEST_TRACE) {
            return Err(origin.error(format!(
                "`{}`: {} is no trace: name a file of 64 MB at most",
                s.name(key),
                path.display()
            )));
        }
        let text = text_of(&path, LARGEST_TRACE).map_err(|e| {
            origin.error(format!(
                "`{}`: {} cannot be read ({e}): name it from the scenario's own folder",
                s.name(key),
                path.display()
            ))
        })?;
        Ok((text, path, origin))
    }
}
