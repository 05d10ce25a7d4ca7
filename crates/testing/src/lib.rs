// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared test support: a test that cannot run says so, is counted by `make test`, and fails in strict mode.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

pub mod camera;
pub mod page;
mod real_time;

pub use real_time::{
    CALM, CLOCK, LONGEST, TRIES, Watch, in_real_time, in_real_time_or, in_real_time_within_or,
};

/// Names the file that gets a line for each skipped test; `scripts/test` sets it and counts the lines.
pub const SKIPS: &str = "MAKEWAY_SKIPS";

/// The longest stall at which a failure counts in a test of order and counts, which has no bar in time: its programs and sockets
/// wait for half a second at least.
pub const PATIENT: Duration = Duration::from_millis(200);

/// Strict mode: with `1` a skipped test is a failed test. CI sets it.
pub const STRICT: &str = "MAKEWAY_STRICT";

/// Reports that the calling test, or a part of it, cannot run on this machine; the caller returns after it.
///
/// Standard error gets `SKIPPED: why` even where the test harness captures output.
///
/// # Panics
/// In strict mode (`MAKEWAY_STRICT=1`), and if the file named by `MAKEWAY_SKIPS` cannot be written.
pub fn skip(why: impl Display) {
    let line = say("SKIPPED", &why);
    if let Some(file) = std::env::var_os(SKIPS) {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let strict = std::env::var_os(STRICT).is_some_and(|value| value == "1");
    assert!(!strict, "strict mode ({STRICT}=1) skips nothing: {why}");
}

/// Tells what happened in the calling test, though it goes on: standard error gets `NOTE: what` even where the test harness
/// captures output.
pub fn note(what: impl Display) {
    say("NOTE", &what);
}

fn say(kind: &str, what: &dyn Display) -> String {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("{kind}: {what} ({test})\n");
    // Not `eprint!`, which the harness captures.
    let _ = std::io::stderr().write_all(line.as_bytes());
    line
}

#[cfg(test)]
mod tests {
    use super::{SKIPS, STRICT, skip};
    use std::process::{Command, Output};

    #[test]
    #[ignore = "run by the tests below, with their environment"]
    fn skips() {
        skip("no such program here");
    }

    fn skipping(variables: &[(&str, &str)]) -> Output {
        let this = std::env::current_exe().expect("a test knows its own file");
        Command::new(this)
            .args(["--exact", "tests::skips", "--ignored"])
            .env_remove(SKIPS)
            .env_remove(STRICT)
            .envs(variables.iter().copied())
            .output()
            .expect("this program starts again")
    }

    #[test]
    fn a_skipped_test_says_why_and_is_counted() {
        let file = std::env::temp_dir().join(format!("makeway-skips-{}", std::process::id()));
        let output = skipping(&[(SKIPS, file.to_str().expect("a name in UTF-8"))]);
        let counted = std::fs::read_to_string(&file).expect("the file of skipped tests");
        std::fs::remove_file(file).expect("the file is removed");
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        for text in [&counted, &*said] {
            assert_eq!(text, "SKIPPED: no such program here (tests::skips)\n");
        }
    }

    #[test]
    fn strict_mode_fails_a_skipped_test() {
        assert!(!skipping(&[(STRICT, "1")]).status.success());
        assert!(skipping(&[(STRICT, "0")]).status.success());
    }
}
