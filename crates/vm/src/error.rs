// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of guests: what is missing on this machine, and how a guest ended.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why no command ran in a guest. A command that fails there is none of these: see [`Output::status`](super::Output::status).
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A program of the host is missing.
    #[error("{program} is not installed: install the package {package}")]
    Missing {
        /// The missing program.
        program: String,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// There is none to boot.
    #[error("no kernel {wanted}: none is cached in {}, and {why}", cache.display())]
    NoKernel {
        /// Which was wanted.
        wanted: String,
        /// Why apt brings none.
        why: Box<VmError>,
        /// Where kernels are kept.
        cache: PathBuf,
    },
    /// apt's lists have no such kernel.
    #[error("apt knows no such package: is it Debian, and was `apt-get update` run?")]
    NotListed,
    /// There is no mirror to ask for other suites.
    #[error("apt has no sources of Debian's: is it Debian, and was `apt-get update` run?")]
    NoMirror,
    /// The mirror does not answer.
    #[error("Debian's mirror is not reachable: {said}")]
    Unreachable {
        /// apt's message.
        said: String,
    },
    /// `MAKEWAY_VM_ACCEL` says something else.
    #[error("MAKEWAY_VM_ACCEL={given}: it is `kvm` or `tcg`, or not set")]
    Accelerator {
        /// Its message.
        given: String,
    },
    /// A program of the host failed.
    #[error("{command} failed: {said}")]
    Failed {
        /// The command.
        command: String,
        /// Its last output.
        said: String,
    },
    /// The kernel has no such module.
    #[error("Linux {release} has no module {module}")]
    NoModule {
        /// The kernel's.
        release: String,
        /// The module's name.
        module: String,
    },
    /// The guest was still at work, or hung.
    #[error("the guest wrote no line for {} s; it said:\n{said}", limit.as_secs())]
    TimedOut {
        /// The time it had for a line.
        limit: Duration,
        /// Its output so far.
        said: String,
    },
    /// It did not come up, however often it was tried.
    #[error("the guest's kernel did not come up, {} times in a row; its console's last lines:\n{}", consoles.len(), consoles.last().map_or("", String::as_str))]
    NoBoot {
        /// The end of the kernel's console of each boot.
        consoles: Vec<String>,
    },
    /// Somebody asked for the end.
    #[error("the guest was stopped before its command ended")]
    Cancelled,
    /// The guest ended before its command did.
    #[error("the guest stopped before its command ended; its console's last lines:\n{console}")]
    Stopped {
        /// The end of the kernel's console.
        console: String,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}
