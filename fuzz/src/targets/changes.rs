// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text is a file of a link's rates, CSV or Mahimahi's, or a line of it is wrong.

use makeway_scenario::files;

pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    match files::changes(text) {
        Ok(changes) => {
            // Two at most for each line.
            assert!((1..=2 * text.lines().count()).contains(&changes.steps.len()));
            assert!(changes.steps.is_sorted_by(|a, b| a.0 < b.0));
            assert!(changes.steps.iter().all(|(_, rate)| rate.bps() > 0));
            assert!(changes.every.is_none_or(|every| every > changes.steps[changes.steps.len() - 1].0));
        }
        Err((line, error)) => assert!(line > 0 && !error.contains('\n'), "{line}: {error}"),
    }
}
