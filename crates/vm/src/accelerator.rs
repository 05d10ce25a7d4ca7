// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accelerator: the executor of the guest's instructions.

use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs};

use super::{Kernel, Vm, VmError};

/// Executor of the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor itself.
    Kvm,
    /// QEMU, which translates them: some ten times slower.
    Tcg,
}

impl Accelerator {
    /// A guest boots in a few seconds, or not at all.
    const PROBE: Duration = Duration::from_secs(20);

    /// The value of `MAKEWAY_VM_ACCEL` (`kvm` or `tcg`), or else KVM where a guest was seen to boot with it: on a machine that is a guest
    /// itself `/dev/kvm` may be there and no kernel comes up.
    ///
    /// The guest is tried once for each boot of the machine, with `kernel`; the answer lies beside the kernels.
    pub fn best(kernel: &Kernel) -> Result<Self, VmError> {
        static BEST: OnceLock<Accelerator> = OnceLock::new();
        match env::var("MAKEWAY_VM_ACCEL").as_deref() {
            Ok("kvm") => return Ok(Self::Kvm),
            Ok("tcg") => return Ok(Self::Tcg),
            Ok(other) => {
                return Err(VmError::Accelerator {
                    given: other.into(),
                });
            }
            Err(_) => {}
        }
        Ok(*BEST.get_or_init(|| match works(kernel) {
            true => Self::Kvm,
            false => Self::Tcg,
        }))
    }

    /// As QEMU has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

fn works(kernel: &Kernel) -> bool {
    if fs::File::open("/dev/kvm").is_err() {
        return false;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let kept = kernel.cache().join("kvm");
    match fs::read_to_string(&kept)
        .unwrap_or_default()
        .split_once('\n')
    {
        Some((of, answer)) if of == boot.trim() => return answer == "works",
        _ => {}
    }
    let works = boots(kernel);
    let answer = if works { "works" } else { "fails" };
    // Where it cannot be kept, it is tried again.
    let _ = fs::write(&kept, format!("{}\n{answer}", boot.trim()));
    works
}

fn boots(kernel: &Kernel) -> bool {
    let guest = Vm::new(kernel).accelerator(Accelerator::Kvm);
    let guest = guest.boots_once(Accelerator::PROBE);
    let output = guest.run("true", Accelerator::PROBE);
    output.is_ok_and(|output| output.status == 0)
}
