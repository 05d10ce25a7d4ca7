// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces held by a file descriptor alone: when the process ends, however it ends,
//! the kernel takes them away with every interface, rule and socket in them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Why the process cannot have a user namespace of its own.
#[derive(Debug, thiserror::Error)]
pub enum UserNamespaceError {
    /// The kernel refuses; the text says which setting decides.
    #[error("user namespaces are not allowed here ({source}): {hint}, or run as root")]
    Forbidden {
        /// The kernel's error.
        source: io::Error,
        /// The setting that would allow it.
        hint: String,
    },
    /// It was made, but user and group could not be mapped to root in it.
    #[error("cannot map user and group into the user namespace ({source}): {hint}, or run as root")]
    Map {
        /// The kernel's error.
        source: io::Error,
        /// The setting that would allow it.
        hint: String,
    },
}

/// Makes the process root of a user namespace of its own, unless it may administer the network
/// already. To be called before any thread is started: the kernel moves only a lone thread.
///
/// # Errors
/// [`UserNamespaceError`] names the sysctl or the AppArmor rule that stands in the way.
pub fn enter_user_namespace() -> Result<(), UserNamespaceError> {
    if Namespace::create().is_ok() {
        return Ok(());
    }
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    // SAFETY: namespaces only; no file table or memory that Rust relies on is unshared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }
        .map_err(|source| UserNamespaceError::Forbidden {
            source: source.into(),
            hint: hint(),
        })?;
    // user_namespaces(7): a process without privilege must deny setgroups before gid_map.
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {uid} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {gid} 1")))
        .map_err(|source| UserNamespaceError::Map {
            source,
            hint: hint(),
        })
}

/// The setting that most likely forbids user namespaces on this machine.
fn hint() -> String {
    let sysctls = [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
        ("user.max_net_namespaces", "0", "10000"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    for (name, bad, good) in sysctls {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        if fs::read_to_string(path).is_ok_and(|value| value.trim() == bad) {
            return format!("`sysctl -w {name}={good}` would allow them");
        }
    }
    "the system's policy (seccomp, a container, a security module) would have to allow \
     unshare(CLONE_NEWUSER)"
        .into()
}

/// A network namespace.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// A new, empty one.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN in the current user namespace, or past a limit of the kernel.
    pub fn create() -> io::Result<Self> {
        let make = || {
            // SAFETY: only the network namespace of this short-lived thread changes.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net").map(|file| Self(file.into()))
        };
        thread::scope(|scope| joined(thread::Builder::new().spawn_scoped(scope, make)?.join()))
    }

    /// The same one, held once more.
    ///
    /// # Errors
    /// Past the limit of open files.
    pub fn another(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Runs `f` on a thread inside the namespace. Sockets opened there stay there.
    ///
    /// # Errors
    /// If the thread cannot be started or may not enter; otherwise the result of `f`.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let inside = || {
            rustix::thread::move_into_link_name_space(
                self.0.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?;
            f()
        };
        thread::scope(|scope| joined(thread::Builder::new().spawn_scoped(scope, inside)?.join()))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A panic of the thread goes on in the caller.
fn joined<T>(result: thread::Result<io::Result<T>>) -> io::Result<T> {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
