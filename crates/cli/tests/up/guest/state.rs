// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of the guest: its qdiscs, remains of a makeway, and whether the counters of one add up.

use super::*;

pub fn tc(line: &str) -> String {
    let output = Command::new("/bin/tc")
        .args(line.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tc {line}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

/// Remains of a makeway anywhere.
pub fn remains() -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["/sys/fs/bpf/makeway", "/run/makeway", "/sys/class/net"] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path().display().to_string();
            if !folder.ends_with("net") || path.contains("mwifb") {
                found.push(path);
            }
        }
    }
    found
}

/// Waits until nothing of a makeway is there.
pub fn nothing_remains() {
    until("the end of all that is makeway's", || {
        remains().is_empty().then_some(())
    });
}

pub fn every_packet_is_accounted_for(status: &Value) {
    for one in status["directions"].as_array().unwrap() {
        let drops: u64 = one["drops"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_u64)
            .sum();
        let of = |key: &str| one[key].as_u64().unwrap();
        assert_eq!(
            of("packets_in"),
            of("packets_out") + drops + of("backlog_packets"),
            "{one}"
        );
    }
}
