// SPDX-License-Identifier: MIT OR Apache-2.0
//! CAP_NET_ADMIN: whether it is there, and how the rules' tools get it too.

use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

/// The process may not administer the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "shaping {interface} needs CAP_NET_ADMIN: run with sudo, or once `sudo setcap cap_net_admin,cap_net_raw,cap_sys_nice+ep {program}`, or as a service `systemctl start makeway@{interface}`"
)]
pub struct NotPermitted {
    interface: String,
    program: String,
}

/// Checks that the calling thread has CAP_NET_ADMIN, before anything is tried.
///
/// # Errors
/// If it has not; the message says how to get it.
pub fn check(interface: &str) -> Result<(), NotPermitted> {
    let have = capabilities(None).map(|sets| sets.effective);
    if have.is_ok_and(|sets| sets.contains(CapabilitySet::NET_ADMIN)) {
        return Ok(());
    }
    let program = std::env::current_exe().unwrap_or_else(|_| "makeway".into());
    Err(NotPermitted {
        interface: interface.into(),
        program: program.display().to_string(),
    })
}

/// Lets programs that the calling thread starts from now on have CAP_NET_ADMIN and CAP_NET_RAW if it has
/// them: a program with file capabilities does not pass them on by itself, and the rules are made
/// by `nft` or `iptables`. Does nothing where it is not allowed.
pub fn pass_on() {
    let Ok(mut sets) = capabilities(None) else {
        return;
    };
    let ours = sets.permitted & (CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
    sets.inheritable |= ours;
    if set_capabilities(None, sets).is_err() {
        return;
    }
    for one in ours.iter() {
        // Refused under some security settings; then the tool says what it lacks.
        let _ = configure_capability_in_ambient_set(one, true);
    }
}
