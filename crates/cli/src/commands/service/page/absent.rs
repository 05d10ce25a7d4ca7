// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces page and metrics where makeway was built without them.

use makeway_scenario::service::Web as Asked;

/// Has nothing to show.
#[derive(Default)]
pub struct Page(bool);

impl Page {
    /// Says so, once.
    pub fn ask(&mut self, asked: Option<Asked>, _: Vec<String>) {
        if asked.is_some() && !std::mem::replace(&mut self.0, true) {
            eprintln!(
                "makeway: [web]: this makeway was built without a page (--no-default-features)"
            );
        }
    }

    pub fn look(&mut self) {}
}
