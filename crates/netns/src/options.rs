// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of sockets that no library has.

use std::io;
use std::os::fd::AsRawFd;

/// Sets an option that takes an int.
pub(crate) fn set_int(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option takes an int, whose address and size are given.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
