// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our DCCP against the kernel's, which has it up to Linux 6.15: both in a guest with Debian 12's kernel, joined by a TUN
//! interface. Without QEMU, or where apt has no such kernel, it says so and is skipped.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

#[path = "kernel_dccp/guest.rs"]
mod guest;

use std::time::Duration;

use makeway_testing::{in_real_time_or, note, skip};
use makeway_vm::{Kernel, Vm, VmError, cache};

/// The longest time without a line, on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn with_the_kernels_dccp_in_a_guest() {
    let kernel = match Kernel::newest("6.1.", "-cloud-amd64", &cache()) {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    let guest = Vm::new(&kernel)
        .module("dccp_ipv4")
        .module("tun")
        .program(&program);
    let filter = std::env::var("MAKEWAY_GUEST").unwrap_or_else(|_| "guest::".into());
    let command = format!("/bin/{name} {filter} --ignored --nocapture --test-threads=1");
    let run = |guest: &Vm<'_>| {
        let output = match guest.run(&command, LIMIT) {
            Err(why @ VmError::Missing { .. }) => return skip(why),
            output => output.unwrap(),
        };
        for console in &output.failed_boots {
            note(format_args!("a boot failed and was tried again: {console}"));
        }
        println!("{}", output.text);
        assert_eq!(output.status, 0);
        assert!(!output.text.contains("running 0 tests"), "none ran");
    };
    // With this machine's clock at first: the one that counts instructions takes several times as long.
    let counting = || {
        run(&guest.clone().counting());
        Ok::<_, VmError>(())
    };
    in_real_time_or(|| run(&guest), counting);
}
