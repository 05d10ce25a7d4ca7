// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots a guest of each kernel that has BPF qdiscs, and runs the ignored tests there.

use makeway_testing::{note, skip};
use makeway_vm::{Kernel, Vm, VmError, cache, find};

use super::*;

/// Tests of kernel functions, which differ between kernels; the others are of the program's own work, and of systemd's, and run on the
/// oldest alone.
const OF_EACH_KERNEL: &str = "guest::changes::another_discipline guest::the_qdiscs_of_the_kernel guest::the_kernel_shapes \
     guest::what_comes_is_shaped";
/// The same of those of hosts behind address translation, in a guest of their own.
const BEHIND_ON_EACH_KERNEL: &str = "behind::each_host";
const QDISCS: [&str; 11] = [
    "veth",
    "ifb",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
    "sch_fq_codel",
    "sch_cake",
    "sch_htb",
    "nf_tables",
    "nft_queue",
    "nfnetlink_queue",
];
/// Modules of qdiscs, and of a router that masquerades.
const MASQUERADES: [&str; 9] = [
    "veth",
    "ifb",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
    "nf_conntrack",
    "nf_tables",
    "nft_chain_nat",
    "nft_masq",
];

/// Kernels that have BPF qdiscs.
#[derive(Clone, Copy, Debug)]
enum Which {
    Oldest,
    Newest,
}

// A guest has one processor, and boots in a few seconds of it: several beside each other have all of the machine's.

#[test]
fn changes_of_qdiscs_in_the_oldest_kernel() {
    with_qdiscs(Which::Oldest, "guest::changes::");
}

#[test]
fn qdiscs_in_the_newest_kernel() {
    with_qdiscs(Which::Newest, OF_EACH_KERNEL);
}

#[test]
fn qdiscs_in_the_oldest_kernel() {
    with_qdiscs(Which::Oldest, "guest:: unit:: --skip guest::changes::");
}

#[test]
fn hosts_behind_a_router_and_qdiscs_in_the_newest_kernel() {
    behind(Which::Newest, BEHIND_ON_EACH_KERNEL);
}

#[test]
fn hosts_behind_a_router_and_qdiscs_in_the_oldest_kernel() {
    behind(Which::Oldest, "behind::");
}

/// Runs tests of qdiscs; those of `MAKEWAY_GUEST` instead, where it is set.
fn with_qdiscs(which: Which, filter: &str) {
    let filter = std::env::var("MAKEWAY_GUEST").unwrap_or_else(|_| filter.into());
    let mut before = format!("mv {} {}\n", NFT[0], NFT[1]);
    let mut limit = LIMIT;
    if let Ok(points) = std::env::var("MAKEWAY_POINTS") {
        before += &format!("MAKEWAY_POINTS={points} ");
        // All crash points take far longer.
        limit *= 8;
    }
    runs(which, &QDISCS, &before, &filter, limit);
}

/// Runs tests of hosts behind a router.
fn behind(which: Which, filter: &str) {
    runs(which, &MASQUERADES, "", filter, LIMIT);
}

/// The longest time without a line: on a busy machine a test takes ten times as long as on a quiet one.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs this program's ignored tests of `filter` in a guest with `modules`, and looks at what they and the kernel said. Where there is
/// no guest it says so.
fn runs(which: Which, modules: &[&str], before: &str, filter: &str, limit: Duration) {
    let [oldest, newest] = match Kernel::with_bpf_qdiscs(&cache()) {
        Ok(kernels) => kernels,
        Err(why) => return skip(why),
    };
    let kernel = match which {
        Which::Oldest => oldest,
        Which::Newest => newest,
    };
    let test = std::env::current_exe().unwrap();
    let mut guest = Vm::new(&kernel).counting().memory(2048);
    guest = guest.program(&test).program(Path::new(MAKEWAY));
    for (name, package) in [("nft", "nftables"), ("ip", "iproute2"), ("tc", "iproute2")] {
        match find(name, package) {
            Ok(tool) => guest = guest.program(&tool),
            Err(why) => return skip(why),
        }
    }
    guest = modules.iter().fold(guest, |guest, name| guest.module(name));
    let (guest, has_systemd) = unit::with_unit(guest);
    if !has_systemd && filter.contains("unit::") {
        skip("no systemd to start the unit with: install the package systemd");
    }
    let name = test.file_name().unwrap().to_str().unwrap();
    let command = format!("{before}/bin/{name} {filter} --ignored --nocapture --test-threads=1");
    let began = Instant::now();
    // The seconds tell which tests take long.
    let said = |line: &str| println!("{:6.1} s: {line}", began.elapsed().as_secs_f64());
    let output = match guest.follow(&command, limit, said) {
        Err(why @ VmError::Missing { .. }) => return skip(why),
        output => output.unwrap(),
    };
    for console in &output.failed_boots {
        note(format_args!("a boot failed and was tried again: {console}"));
    }
    assert_eq!(output.status, 0, "{}\n{}", output.text, output.console);
    assert!(!output.text.contains("running 0 tests"), "none ran");
    for bad in ["WARNING:", "BUG:", "refcount"] {
        assert!(!output.console.contains(bad), "{}", output.console);
    }
}
