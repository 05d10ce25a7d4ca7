// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test that keeps real time, once more where the clock is not this machine's.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Kernel, Vm, VmError, cache, file, find};

/// The longest time without a line: on a machine with ten other programs, a guest takes ten times as long as on a quiet one.
const LIMIT: Duration = Duration::from_secs(900);
/// For packet queues and the connections of their packets, for links and for the qdiscs of scenarios.
const MODULES: [&str; 16] = [
    "veth",
    "tun",
    "nf_tables",
    "nft_queue",
    "nft_reject_ipv4",
    "nfnetlink_queue",
    "nf_conntrack_netlink",
    "nft_chain_nat",
    "nft_masq",
    "ifb",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
    "sch_netem",
    "sch_tbf",
    "sch_htb",
];
const TOOLS: [(&str, &str); 3] = [("nft", "nftables"), ("ip", "iproute2"), ("tc", "iproute2")];

/// Runs the calling program, a test, with `arguments` as root of a guest whose clock counts instructions, and says so to it
/// (`MAKEWAY_CLOCK=counted`). `programs` are there where they are here.
///
/// # Errors
/// Errors of the host and of the boot.
///
/// # Panics
/// If the test fails there.
pub fn again(arguments: &str, programs: &[&Path]) -> Result<(), VmError> {
    again_with(arguments, programs, &BTreeSet::new())
}

/// As [`again`], with `files` that are there where they are here, and of libraries those that they are linked to.
///
/// # Errors
/// Errors of the host and of the boot.
///
/// # Panics
/// If the test fails there.
pub fn again_with(
    arguments: &str,
    programs: &[&Path],
    files: &BTreeSet<PathBuf>,
) -> Result<(), VmError> {
    let [_, kernel] = Kernel::with_bpf_qdiscs(&cache())?;
    let program = env::current_exe().map_err(|error| file(Path::new("/proc/self/exe"), error))?;
    let mut guest = Vm::new(&kernel).counting().memory(2048).program(&program);
    for (name, package) in TOOLS {
        guest = guest.program(&find(name, package)?);
    }
    guest = MODULES.into_iter().fold(guest, Vm::module);
    guest = files.iter().fold(guest, |guest, file| guest.in_place(file));
    // The module makes two devices that are in no list of a test's.
    let mut command = String::from("for n in 0 1; do /bin/ip link del ifb$n; done\n");
    for path in programs {
        guest = guest.program(path);
        let parts = [path.parent().map(Path::as_os_str), path.file_name()];
        let [folder, name] = parts.map(|part| part.unwrap_or_default().to_string_lossy());
        command += &format!("mkdir -p '{folder}'; ln -s '/bin/{name}' '{folder}'\n");
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    // A test that is skipped there is not made.
    command += &format!("MAKEWAY_STRICT=1 MAKEWAY_CLOCK=counted exec '/bin/{name}' {arguments}\n");
    let output = guest.run(&command, LIMIT)?;
    // For the figures that a test prints.
    print!("{}", output.text);
    assert_eq!(output.status, 0, "{}\n{}", output.text, output.console);
    assert!(output.text.contains(" passed"), "none ran: {}", output.text);
    Ok(())
}
