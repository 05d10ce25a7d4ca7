// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of sockets that rustix does not have.

use std::io;
use std::os::fd::AsRawFd;

/// Sends and receives by this interface alone, regardless of the routes.
///
/// # Errors
/// No such interface, or a missing privilege.
pub fn bind_to_interface(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        name.as_bytes(),
    )
}

/// Sets an option; `value` is laid out as the kernel has it.
pub(crate) fn set<T: ?Sized>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: pointer and length are those of `value`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
