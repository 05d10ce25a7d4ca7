// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway pin-nat`: programs that know hosts behind address translation, for a makeway that may not load them.

use std::process::ExitCode;

use clap::Args;
use makeway_gateway::bpf;

use crate::text;

/// Loads the programs that know hosts behind address translation, for a makeway without CAP_SYS_ADMIN.
///
/// With BPF qdiscs makeway looks up the host of each packet in the kernel's connections, by programs that only a process with CAP_SYS_ADMIN may
/// load. The units of the package start makeway without it, and run this before. The programs are pinned in /sys/fs/bpf/makeway/nat,
/// for root alone, until this is called with --remove or the machine restarts. Nothing happens where the kernel tracks no connections or
/// has no BPF qdiscs.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo makeway pin-nat
  sudo makeway pin-nat --remove")]
pub struct PinNat {
    /// Removes them, unless the kernel shapes an interface still.
    #[arg(long)]
    remove: bool,
}

/// Runs it.
pub fn run(args: &PinNat) -> anyhow::Result<ExitCode> {
    let said = match args.remove {
        true => bpf::unpin_nat()?,
        false => bpf::pin_nat()?,
    };
    text::say!("{said}");
    Ok(ExitCode::SUCCESS)
}
