// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text is a trace of frames, or a line of it is wrong.

use makeway_scenario::files;

pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    match files::frames(text) {
        Ok((frames, period)) => {
            assert!(frames.len() > 1 && frames.is_sorted_by(|a, b| a.at < b.at));
            assert!(frames.last().is_some_and(|last| last.at < period));
        }
        Err((line, error)) => assert!(line > 0 && !error.contains('\n'), "{line}: {error}"),
    }
}
