// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text is a trace of ns-2, or a line of it is wrong.

use makeway_scenario::files;

pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let mut events = 0;
    let read = files::events(text, |event| {
        events += 1;
        assert!(event.time_s.is_finite() && event.time_s >= 0.0);
        assert_eq!(event.event.len(), 1);
        let words = [event.kind, event.flags, event.source, event.destination];
        assert!(words.iter().all(|word| !word.is_empty() && text.contains(word)));
        Ok(())
    });
    let lines = text.lines().count();
    assert!(events <= lines);
    if let Err((line, error)) = read {
        assert!((1..=lines).contains(&line) && events < line, "{line}: {error}");
        assert!(!error.contains('\n') && error.len() < 500, "{error}");
    }
}
