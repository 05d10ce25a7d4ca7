// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces page and metrics where makeway was built without them.

use std::os::unix::net::UnixStream;

use makeway_scenario::service::Web as Asked;

use super::Kept;

/// Has nothing to show.
pub struct Page {
    told: bool,
}

impl Page {
    pub fn new(_: UnixStream) -> Self {
        Self { told: false }
    }

    /// Says so, once.
    pub fn ask(&mut self, asked: Option<Asked>) {
        if asked.is_some() && !std::mem::replace(&mut self.told, true) {
            eprintln!(
                "makeway: [web]: this makeway was built without a page (--no-default-features)"
            );
        }
    }

    pub fn show<'k>(&mut self, _: impl Iterator<Item = &'k Kept>) {}

    pub fn tell(&mut self, _: &str, _: &str) {}

    pub fn look(&mut self) {}
}
