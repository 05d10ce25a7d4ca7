// SPDX-License-Identifier: MIT OR Apache-2.0
//! News of interfaces: a socket of rtnetlink that becomes readable when one comes, goes, or changes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// RTMGRP_LINK of linux/rtnetlink.h.
const LINKS: u32 = 1;

/// The socket.
#[derive(Debug)]
pub struct LinkEvents(OwnedFd);

impl LinkEvents {
    /// Hears of the interfaces of this network namespace from now on.
    ///
    /// # Errors
    /// If the system has no rtnetlink.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let route = None; // NETLINK_ROUTE is 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, route)?;
        bind(&socket, &SocketAddrNetlink::new(0, LINKS))?;
        Ok(Self(socket))
    }

    /// Takes all news; who was told looks at the interfaces, since news may be lost.
    pub fn drain(&self) {
        let mut message = [0u8; 8192];
        loop {
            match recv(&self.0, &mut message[..], RecvFlags::empty()) {
                Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::NOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The file descriptors of [`wait`] that are readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The first.
    pub first: bool,
    /// The second.
    pub second: bool,
}

/// Waits until one of two is readable, or for `time`.
///
/// # Errors
/// If the system cannot wait.
pub fn wait(first: BorrowedFd<'_>, second: BorrowedFd<'_>, time: Duration) -> io::Result<Ready> {
    let mut fds = [first, second].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let time = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [first, second] = fds.map(|fd| !fd.revents().is_empty());
    Ok(Ready { first, second })
}
