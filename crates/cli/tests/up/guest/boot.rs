// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots a guest of each kernel that has BPF qdiscs, and runs the ignored tests there.

use makeway_testing::{note, skip};
use makeway_vm::{Kernel, Vm, VmError, cache, find};

use super::*;

/// Tests of kernel functions, which differ between kernels; the others are of the program's own work, and of systemd's, and run on the
/// first alone.
const OF_EACH_KERNEL: [&str; 4] = [
    "guest::changes::another_discipline",
    "guest::the_qdiscs_of_the_kernel",
    "guest::the_kernel_shapes",
    "guest::what_comes_is_shaped",
];
/// The same of those of hosts behind address translation, in a guest of their own.
const BEHIND_ON_EACH_KERNEL: &str = "behind::each_host";
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

#[test]
fn with_qdiscs_in_the_kernel_of_a_guest() {
    let kernels = match Kernel::with_bpf_qdiscs(&cache()) {
        Ok(kernels) => kernels,
        Err(why) => return skip(why),
    };
    let tools = ["tc", "ip"].map(|name| {
        let places =
            ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
        places.into_iter().find(|path| path.exists())
    });
    let [Some(tc), Some(ip)] = tools else {
        return skip("tc and ip are not installed: install the package iproute2");
    };
    let nft = match find("nft", "nftables") {
        Ok(nft) => nft,
        Err(why) => return skip(why),
    };
    let test = std::env::current_exe().unwrap();
    let name = test.file_name().unwrap().to_str().unwrap();
    for (kernel, is_first) in kernels.into_iter().zip([true, false]) {
        let modules = [
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
        let guest = modules
            .into_iter()
            .fold(Vm::new(&kernel).counting(), Vm::module);
        let guest = guest
            .memory(2048)
            .program(&test)
            .program(Path::new(MAKEWAY));
        let guest = guest.program(&tc).program(&ip).program(&nft);
        let (guest, has_systemd) = unit::with_unit(guest);
        let filter = std::env::var("MAKEWAY_GUEST").unwrap_or_else(|_| {
            if !has_systemd {
                skip("no systemd to start the unit with: install the package systemd");
            }
            let unit = if has_systemd { "unit::" } else { "" };
            match is_first {
                true => format!("guest:: {unit}"),
                false => OF_EACH_KERNEL.join(" "),
            }
        });
        // Without a line: on a busy machine a test takes ten times as long as on a quiet one. All crash points take far longer.
        let (points, limit) = match std::env::var("MAKEWAY_POINTS") {
            Ok(points) => (format!("MAKEWAY_POINTS={points} "), 7200),
            Err(_) => (String::new(), 900),
        };
        let limit = Duration::from_secs(limit);
        let command = format!(
            "mv {} {}\n{points}/bin/{name} {filter} --ignored --nocapture --test-threads=1",
            NFT[0], NFT[1]
        );
        if !runs(&guest, &command, limit) {
            return;
        }
    }
}

#[test]
fn qdiscs_of_the_kernel_know_the_hosts_behind_a_router() {
    let kernels = match Kernel::with_bpf_qdiscs(&cache()) {
        Ok(kernels) => kernels,
        Err(why) => return skip(why),
    };
    let mut tools = Vec::new();
    for (name, package) in [("nft", "nftables"), ("ip", "iproute2"), ("tc", "iproute2")] {
        match find(name, package) {
            Ok(tool) => tools.push(tool),
            Err(why) => return skip(why),
        }
    }
    let test = std::env::current_exe().unwrap();
    let name = test.file_name().unwrap().to_str().unwrap();
    for (kernel, filter) in kernels.iter().zip(["behind::", BEHIND_ON_EACH_KERNEL]) {
        let guest = Vm::new(kernel).counting().memory(2048);
        let guest = guest.program(&test).program(Path::new(MAKEWAY));
        let guest = tools.iter().fold(guest, |guest, tool| guest.program(tool));
        let guest = MASQUERADES.into_iter().fold(guest, Vm::module);
        let (guest, _) = unit::with_unit(guest);
        let command = format!("/bin/{name} {filter} --ignored --nocapture --test-threads=1");
        if !runs(&guest, &command, Duration::from_secs(900)) {
            return;
        }
    }
}

/// Runs tests in a guest, and looks at what they and the kernel said; false, and it has said why, where there is no guest.
fn runs(guest: &Vm<'_>, command: &str, limit: Duration) -> bool {
    let output = match guest.run(command, limit) {
        Err(why @ VmError::Missing { .. }) => {
            skip(why);
            return false;
        }
        output => output.unwrap(),
    };
    for console in &output.failed_boots {
        note(format_args!("a boot failed and was tried again: {console}"));
    }
    println!("{}", output.text);
    assert_eq!(output.status, 0, "{}", output.console);
    assert!(!output.text.contains("running 0 tests"), "none ran");
    for bad in ["WARNING:", "BUG:", "refcount"] {
        assert!(!output.console.contains(bad), "{}", output.console);
    }
    true
}
