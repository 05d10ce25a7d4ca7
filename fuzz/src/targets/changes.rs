// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text is a file of a link's rates, CSV or Mahimahi's, or a line of it is wrong; the times of Mahimahi's may be kept.

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
    match files::opportunities(text) {
        Ok(trace) => {
            assert!((1..=text.lines().count() as u64).contains(&trace.count()));
            let times: Vec<_> = (0..20).map(|n| trace.nth(n).0).collect();
            assert!(times.is_sorted() && times[19] > times[0]);
            // Both read the same lines.
            let rates = files::changes(text).map(|changes| changes.steps);
            assert!(rates.is_err() || rates == Ok(trace.rates().steps));
        }
        Err((line, error)) => assert!(line > 0 && !error.contains('\n'), "{line}: {error}"),
    }
}
