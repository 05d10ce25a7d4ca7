// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every qdisc loads under the oldest and the newest kernel, and what the verifier has to look at stays far below its
//! limit: `cargo test -p makeway-gateway --test bpf_verifier -- --nocapture` prints the table of docs/kernel-verifier.md.

#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

#[path = "common/guest.rs"]
mod guest;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::Bytes;
use makeway_gateway::bpf::{BpfError, Config, Qdisc};

/// Instructions that the verifier may look at in a program: a quarter of what the kernel allows.
const MOST: u32 = 250_000;

#[test]
fn every_qdisc_loads_on_the_oldest_and_the_newest_kernel() {
    for (release, text) in guest::run("guest_", &[], |guest| guest.cpus(1)) {
        let programs = text.lines().filter(|line| line.starts_with("| "));
        // Heading, and five for each of two disciplines at least.
        assert!(programs.count() >= 11, "Linux {release}: {text}");
    }
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_loads_and_counts() {
    println!("\n| program | verified | xlated B | jited B |\n| --- | --: | --: | --: |");
    for discipline in Discipline::ALL {
        let limits = Limits {
            packets: 1000,
            bytes: Bytes::new(16 << 20),
            flows: 1000,
        };
        let config = Config::new(discipline.spec(), limits);
        let _loaded = match Qdisc::load("makeway0", &config) {
            Err(BpfError::NoProgram(_)) => continue,
            loaded => loaded.unwrap(),
        };
        let options = ProgInfoQueryOptions::default()
            .include_xlated_prog_insns(true)
            .include_jited_prog_insns(true);
        let prefix = format!("{discipline}_qdisc_");
        for program in ProgInfoIter::with_query_opts(options) {
            // The kernel keeps 15 letters.
            let name = program.name.to_string_lossy().into_owned();
            if !name.starts_with(&prefix) {
                continue;
            }
            let (verified, xlated, jited) = (
                program.verified_insns,
                program.xlated_prog_insns.len(),
                program.jited_prog_insns.len(),
            );
            println!("| {name} | {verified} | {xlated} | {jited} |");
            assert!(verified < MOST, "{name}: {verified} instructions");
        }
    }
}
