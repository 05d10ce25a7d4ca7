// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test that runs again inside a guest with BPF qdiscs: under the oldest kernel that Debian has, and under the newest, where it
//! may repeat less often ([`is_short`]). Without QEMU, or where apt has no such kernels, it says so and is skipped.

use std::time::Duration;

use makeway_testing::{note, skip};
use makeway_vm::{Kernel, Vm, VmError, cache, find};

const SHORT: &str = "MAKEWAY_SHORT";
/// The longest time without a line: on a machine with ten other programs, a guest takes ten times as long as on a quiet one.
const LIMIT: Duration = Duration::from_secs(900);

/// Whether this is the second of the kernels: the first has shown what many repetitions show.
#[allow(dead_code)] // Not every test that has it repeats anything.
pub fn is_short() -> bool {
    std::env::var_os(SHORT).is_some()
}

/// Runs this program's ignored tests whose names begin with `filter`, as root of a guest made by `like`; what each kernel
/// printed, by its release.
pub fn run(
    filter: &str,
    modules: &[&str],
    like: impl Fn(Vm<'_>) -> Vm<'_>,
) -> Vec<(String, String)> {
    let kernels = match Kernel::with_bpf_qdiscs(&cache()) {
        Ok(kernels) => kernels,
        Err(why) => {
            skip(why);
            return Vec::new();
        }
    };
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    let mut told = Vec::new();
    for kernel in &kernels {
        let mut guest = like(Vm::new(kernel)).program(&program);
        for tool in ["tc", "ip"] {
            match find(tool, "iproute2") {
                Ok(tool) => guest = guest.program(&tool),
                Err(why) => {
                    skip(why);
                    return told;
                }
            }
        }
        for module in modules {
            guest = guest.module(module);
        }
        let short = match told.is_empty() {
            true => String::new(),
            false => format!("{SHORT}=1"),
        };
        let command =
            format!("{short} /bin/{name} {filter} --ignored --nocapture --test-threads=1");
        let output = match guest.run(&command, LIMIT) {
            Err(why @ VmError::Missing { .. }) => {
                skip(why);
                return told;
            }
            output => output.unwrap(),
        };
        let release = kernel.release();
        for console in &output.failed_boots {
            note(format_args!(
                "a boot of Linux {release} failed and was tried again: {console}"
            ));
        }
        println!("Linux {release}:\n{}", output.text);
        assert_eq!(output.status, 0, "Linux {release}: {}", output.console);
        assert!(!output.text.contains("running 0 tests"), "none ran");
        for complaint in [
            "WARNING",
            "BUG",
            "refcount",
            "unregister_netdevice",
            "Call Trace",
        ] {
            let said = &output.console;
            assert!(!said.contains(complaint), "Linux {release}: {said}");
        }
        told.push((release.to_owned(), output.text));
    }
    told
}
