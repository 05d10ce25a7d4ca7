// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets of a call: ECN bits, the path's MTU, and errors that come from the network.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

/// Whether an error is loss on the path, after which a call goes on. A connected socket reports an ICMP message as the error of
/// the call after it.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            // No room.
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM
            // A packet filter of this machine, or a route or an interface that is gone for a while.
            | libc::EPERM | libc::EACCES | libc::ENETDOWN | libc::EADDRNOTAVAIL
            // ICMP: unreachable, prohibited, isolated, time exceeded, a parameter problem.
            | libc::ECONNREFUSED | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EHOSTDOWN
            | libc::ENONET | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EPROTO
            // ICMP: a hop has a smaller MTU.
            | libc::EMSGSIZE
        )
    )
}

/// ECN field of the packets that an application sends (RFC 3168, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ecn {
    /// Not-ECT: queues drop instead of marking.
    #[default]
    NotEct,
    /// ECT(0): the classic response to a mark, that to a loss.
    Ect0,
    /// ECT(1): a scalable response (L4S).
    Ect1,
}

/// Lets `socket` tell the ECN bits of its datagrams.
pub(crate) fn receive_ecn(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    if socket.local_addr()?.is_ipv6() {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    }
    Ok(())
}

/// Lets `socket` send packets with these ECN bits.
pub(crate) fn send_ecn(socket: &UdpSocket, ecn: Ecn) -> io::Result<()> {
    let bits = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
    };
    send_bits(socket, bits)
}

/// The same for any bits.
pub(crate) fn send_bits(socket: &UdpSocket, bits: i32) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_TOS, bits),
        SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, bits),
    }
}

/// The MTU of the path of a connected socket, as far as the kernel knows it.
pub(crate) fn path_mtu(socket: &UdpSocket) -> io::Result<u32> {
    let (level, name) = match socket.local_addr()? {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes, those of `mtu`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut mtu).cast(),
            &mut len,
        )
    };
    check(result)?;
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The next datagram into `input`: its length, its source, and its ECN bits.
pub(crate) fn receive(socket: &UdpSocket, input: &mut [u8]) -> io::Result<(usize, SocketAddr, u8)> {
    let mut control = Control([0; 128]);
    // SAFETY: all zeroes is a valid value of both.
    let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (zeroed(), zeroed()) };
    let mut part = libc::iovec {
        iov_base: input.as_mut_ptr().cast(),
        iov_len: input.len(),
    };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let fd: RawFd = socket.as_raw_fd();
    // SAFETY: `message` points to live memory of the lengths that it says.
    let len = check(unsafe { libc::recvmsg(fd, &raw mut message, 0) } as libc::c_int)?;
    let from = address(&from).ok_or(io::ErrorKind::InvalidData)?;
    Ok((len as usize, from, ecn(&message)))
}

/// Aligned as its headers are.
#[repr(align(8))]
struct Control([u8; 128]);

/// ECN bits of the control messages; 0 where none says them.
fn ecn(message: &libc::msghdr) -> u8 {
    // SAFETY: the kernel has written whole control messages, and their length to `msg_controllen`.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(one) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            match (one.cmsg_level, one.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => return data.read() & 3,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    return data.cast::<libc::c_int>().read_unaligned() as u8 & 3;
                }
                _ => header = libc::CMSG_NXTHDR(message, header),
            }
        }
    }
    0
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel says that it is of this type, and the storage is as large and as aligned as any.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            let v6 = std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
            Some(v6.into())
        }
        _ => None,
    }
}

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads the bytes of `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
