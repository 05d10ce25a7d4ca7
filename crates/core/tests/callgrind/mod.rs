// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions of a test with callgrind.

use std::process::Command;

/// Instructions inside the functions that `collect` names, while this program runs its ignored test
/// `counted`; `None` where there is no valgrind.
pub fn instructions(collect: &str) -> Option<u64> {
    let out = std::env::temp_dir().join(format!("makeway-callgrind-{}", std::process::id()));
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={collect}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().expect("a test knows its own file"))
        .args(["--exact", "counted", "--ignored", "--test-threads=1"])
        .output();
    let Ok(counted) = counted else {
        makeway_testing::skip("valgrind, which counts instructions, is not installed");
        return None;
    };
    let _ = std::fs::remove_file(out);
    let log = String::from_utf8_lossy(&counted.stderr);
    assert!(counted.status.success(), "{log}");
    let count = |line: &str| line.split_once("Collected : ")?.1.trim().parse().ok();
    let total = log.lines().find_map(count);
    Some(total.unwrap_or_else(|| panic!("callgrind says no count: {log}")))
}
