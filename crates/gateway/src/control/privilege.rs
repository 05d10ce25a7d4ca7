// SPDX-License-Identifier: MIT OR Apache-2.0
//! CAP_NET_ADMIN: whether it is there, and from where.

use rustix::thread::{CapabilitySet, capabilities};

/// Why the process may not administer the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPermitted {
    /// It lacks the capability.
    #[error(
        "shaping {interface} needs CAP_NET_ADMIN: run with sudo, or as a service: `systemctl start makeway@{interface}`"
    )]
    Missing {
        /// The interface.
        interface: String,
    },
    /// It has it from its file, as everybody would.
    #[error(
        "{program} has capabilities of its own, with which every user of this machine may change its network: take them away by `sudo setcap -r {program}`, and run with sudo, or as a service: `systemctl start makeway@{interface}`"
    )]
    FromFile {
        /// The interface.
        interface: String,
        /// This program.
        program: String,
    },
}

/// Checks that the calling thread has CAP_NET_ADMIN, before anything is tried.
///
/// # Errors
/// If it has not, or has it only because the program's file has; the message says how to get it.
pub fn check(interface: &str) -> Result<(), NotPermitted> {
    let interface = interface.to_owned();
    let have = capabilities(None).map(|sets| sets.effective);
    if !have.is_ok_and(|sets| sets.contains(CapabilitySet::NET_ADMIN)) {
        return Err(NotPermitted::Missing { interface });
    }
    if !rustix::process::getuid().is_root() && has_file_capabilities() {
        let program = std::env::current_exe().unwrap_or_else(|_| "makeway".into());
        return Err(NotPermitted::FromFile {
            interface,
            program: program.display().to_string(),
        });
    }
    Ok(())
}

fn has_file_capabilities() -> bool {
    let mut value = [0u8; 64];
    rustix::fs::getxattr("/proc/self/exe", "security.capability", &mut value).is_ok_and(|n| n > 0)
}
