// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of Ethernet sent and heard on an interface, by packet sockets.

#![allow(dead_code)] // Not every test that has it uses all of it.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Header before an unsegmented frame: `struct virtio_net_hdr`.
pub const GSO_HEADER: usize = 10;

/// Before the header of IP.
pub const LINK: usize = 14;

/// A packet socket of one interface.
pub struct Frames(OwnedFd);

impl Frames {
    /// One that hears all that leaves, behind the qdisc.
    pub fn heard(interface: &str) -> Self {
        let socket = Self::of(interface, libc::ETH_P_ALL);
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 256 << 20);
        socket
    }

    /// One that sends only.
    pub fn sent(interface: &str) -> Self {
        let socket = Self::of(interface, 0);
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 256 << 20);
        socket
    }

    /// Each frame to send begins with [`GSO_HEADER`] bytes.
    pub fn with_gso(self) -> Self {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1);
        self
    }

    fn of(interface: &str, protocol: i32) -> Self {
        Self::try_of(interface, protocol).unwrap()
    }

    /// As [`Self::sent`], without room for more than usual; an error if there is no such interface now.
    pub fn try_sent(interface: &str) -> io::Result<Self> {
        Self::try_of(interface, 0)
    }

    fn try_of(interface: &str, protocol: i32) -> io::Result<Self> {
        let index = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))?;
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let protocol = (protocol as u16).to_be();
        // SAFETY: the descriptor is nobody else's; the address lives until bind returns.
        let (socket, bound) = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, protocol.into());
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = index.trim().parse().unwrap();
            let len = size_of_val(&address) as u32;
            let address = (&raw const address).cast();
            (socket, libc::bind(fd, address, len))
        };
        match bound {
            0 => Ok(Self(socket)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set(&self, level: i32, option: i32, value: i32) {
        let len = size_of_val(&value) as u32;
        // SAFETY: the value lives until the call returns.
        let set = unsafe {
            let value = (&raw const value).cast();
            libc::setsockopt(self.0.as_raw_fd(), level, option, value, len)
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }

    /// Gives a frame to the qdisc, which may drop it.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the frame lives until the call returns.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        let error = io::Error::last_os_error();
        // A refusal of the qdisc is an error here.
        let refused = error.raw_os_error() == Some(libc::ENOBUFS);
        assert!(sent == frame.len() as isize || refused, "{error}");
    }

    /// Gives a frame to the interface if that takes it now; false if there is no such interface any more.
    pub fn try_send(&self, frame: &[u8]) -> bool {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the frame lives until the call returns.
        let sent = unsafe {
            libc::send(
                self.0.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                flags,
            )
        };
        let gone = [libc::ENXIO, libc::ENODEV].map(Some);
        sent >= 0 || !gone.contains(&io::Error::last_os_error().raw_os_error())
    }

    /// The next frame that left; `None` if there is none for so long.
    pub fn next(&self, within: Duration) -> Option<Vec<u8>> {
        let mut ready = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Not zeroed: a translated processor takes longer for 64 KiB than for the rest of a frame.
        let mut frame = Vec::with_capacity(1 << 16);
        // SAFETY: both live until the calls return, and the kernel has written as many bytes as it says.
        unsafe {
            if libc::poll(&raw mut ready, 1, within.as_millis() as i32) < 1 {
                return None;
            }
            let room = frame.spare_capacity_mut();
            let (start, most) = (room.as_mut_ptr().cast(), room.len());
            let len = libc::recv(self.0.as_raw_fd(), start, most, 0);
            frame.set_len(usize::try_from(len).ok()?);
        }
        frame.shrink_to_fit();
        Some(frame)
    }
}

/// A frame of `len` bytes with UDP on IPv4 and its number; flows differ in address and port. Two of them share a hash of
/// 32 bits, and the kernel takes them for one, with a chance of 1 in 2000.
pub fn frame(number: u32, flow: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    headers(&mut frame, 17, flow);
    frame[LINK + 28..LINK + 32].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Ethernet, IPv4 and ports of a frame; what is behind them stays.
pub fn headers(frame: &mut [u8], protocol: u8, flow: u32) {
    let [total_high, total_low] = ((frame.len() - LINK) as u16).to_be_bytes();
    let [.., high, low] = flow.to_be_bytes();
    let [port_high, port_low] = (1024 + flow as u16).to_be_bytes();
    frame[..LINK].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let ip = [
        0x45, 0, total_high, total_low, 0, 0, 0, 0, 64, protocol, 0, 0,
    ];
    frame[LINK..LINK + 12].copy_from_slice(&ip);
    let ends = [10, 1, high, low, 10, 2, 0, 1, port_high, port_low, 19, 136];
    frame[LINK + 12..LINK + 24].copy_from_slice(&ends);
}

/// Runs a program of the guest's `/bin`.
pub fn run(line: &str) {
    assert!(try_run(line), "{line}");
}

/// Whether it succeeded.
pub fn try_run(line: &str) -> bool {
    let (program, arguments) = line.split_once(' ').unwrap();
    let mut command = std::process::Command::new(format!("/bin/{program}"));
    command.args(arguments.split(' '));
    command.status().is_ok_and(|status| status.success())
}
