// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest boots, and what it says comes back. Without QEMU, or without apt, it says so and is skipped.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use makeway_testing::{note, skip};
use makeway_vm::{Accelerator, Kernel, Output, Vm, VmError, cache, find};

/// For a guest that hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Result of a guest whose boot may have failed at first.
fn told(output: Result<Output, VmError>) -> Result<Output, VmError> {
    for console in output.iter().flat_map(|output| &output.failed_boots) {
        note(format_args!("a boot failed and was tried again: {console}"));
    }
    output
}

#[test]
fn a_command_runs_under_another_kernel() {
    let kernel = match Kernel::newest("6.1.", "-cloud-amd64", &cache()) {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let guest = Vm::new(&kernel)
        .module("dccp_ipv4")
        .program(&find("tc", "iproute2").unwrap());
    let command = "uname -r; grep -c ^dccp_ipv4 /proc/modules; /bin/tc qdisc show dev lo; exit 7";
    let output = match told(guest.run(command, LIMIT)) {
        Err(why @ VmError::Missing { .. }) => return skip(why),
        output => output.unwrap(),
    };
    let lines: Vec<&str> = output.text.lines().collect();
    assert_eq!(lines[..2], [kernel.release(), "1"], "{output:?}");
    assert!(lines[2].starts_with("qdisc noqueue"), "{output:?}");
    assert_eq!(output.status, 7);

    // With instructions for a clock, one CPU and no more than half the memory.
    let mut heard = Vec::new();
    let guest = Vm::new(&kernel)
        .cpus(1)
        .memory(512)
        .accelerator(Accelerator::Tcg)
        .qemu(["-icount", "shift=0"])
        .file("/etc/told", "in a file\n");
    let command = "cat /etc/told; nproc; cat /proc/meminfo | head -1
        echo '<3>a complaint' > /dev/kmsg; sleep 1";
    let output = guest.follow(command, LIMIT, |line| {
        heard.push(line.to_owned());
    });
    let output = output.unwrap();
    assert_eq!(output.text.lines().collect::<Vec<_>>(), heard);
    assert_eq!(heard[..2], ["in a file", "1"], "{output:?}");
    let memory = heard[2].split_whitespace().nth(1).unwrap();
    assert!(memory.parse::<u32>().unwrap() < 512 << 10, "{memory} kB");
    assert!(output.console.contains("a complaint"), "{output:?}");

    // While lines go on it is not ended, and then it is.
    let stuck = "for n in 1 2 3 4 5 6; do sleep 2; echo $n; done; sleep 1000";
    let stuck = Vm::new(&kernel).run(stuck, Duration::from_secs(8));
    assert!(
        matches!(&stuck, Err(VmError::TimedOut { said, .. }) if said == "1\n2\n3\n4\n5\n6\n"),
        "{stuck:?}"
    );
    let stop = AtomicBool::new(true);
    let cancelled = Vm::new(&kernel).stop_on(&stop);
    let cancelled = cancelled.run("sleep 1000", Duration::from_secs(30));
    assert!(matches!(cancelled, Err(VmError::Cancelled)));
    // A machine without firmware boots nothing. (With too little memory for its kernel it hangs.)
    let no_boot = Vm::new(&kernel)
        .qemu(["-bios", "/nowhere"])
        .run("true", Duration::from_secs(3));
    assert!(
        matches!(&no_boot, Err(VmError::NoBoot { consoles }) if consoles.len() == 3),
        "{no_boot:?}"
    );
    let missing = Vm::new(&kernel)
        .module("no_such_module")
        .run("true", Duration::from_secs(1));
    assert!(matches!(missing, Err(VmError::NoModule { .. })));
    let has = ["dccp_ipv4", "no_such_module"].map(|module| kernel.has(module).unwrap());
    assert_eq!(has, [true, false]);
}

#[test]
fn both_ends_of_debians_kernels_with_bpf_qdiscs_boot() {
    let kernels = match Kernel::with_bpf_qdiscs(&cache()) {
        Ok(kernels) => kernels,
        Err(why) => return skip(why),
    };
    for kernel in kernels {
        let guest = Vm::new(&kernel)
            .module("sch_cake")
            .program(&find("tc", "iproute2").unwrap());
        let command = "uname -r
            grep -c ' bpf_qdisc_skb_drop$' /proc/kallsyms
            test -d /sys/fs/bpf && grep -c '^bpf ' /proc/mounts
            ls -d /sys/kernel/debug/tracing
            /bin/tc qdisc add dev lo root cake && /bin/tc qdisc show dev lo";
        let output = match told(guest.run(command, LIMIT)) {
            Err(why @ VmError::Missing { .. }) => return skip(why),
            output => output.unwrap(),
        };
        let lines: Vec<&str> = output.text.lines().collect();
        assert_eq!(
            lines[..4],
            [kernel.release(), "1", "1", "/sys/kernel/debug/tracing"],
            "{output:?}"
        );
        assert!(lines[4].starts_with("qdisc cake"), "{output:?}");
    }
}

/// A boot while the host stalls, made by hand: its kernel takes the counter of cycles for one of 60 MHz.
#[test]
fn a_boot_with_a_clock_that_is_too_fast_is_tried_again() {
    let kernel = match Kernel::newest("6.1.", "-cloud-amd64", &cache()) {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let guest = Vm::new(&kernel).parameter("tsc_early_khz=60000");
    match guest.run("sleep 60", LIMIT) {
        Err(why @ VmError::Missing { .. }) => skip(why),
        Err(VmError::NoBoot { consoles }) => {
            assert!(consoles[2].contains("too fast"), "{consoles:?}");
        }
        other => panic!("it came up: {other:?}"),
    }
}
