// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet socket on the interface: sees packets as they leave our queue towards the link, and as they arrive before it, with
//! every backend. The kernel stamps them, and passes on those alone that tell of delay.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::packet::OPTIONS;

/// One clock in this and one of a sender is looked at: each 16 ms where it counts milliseconds.
pub const SAMPLED: u32 = 16;
/// Bytes of a packet that are read: IPv4 with options, and TCP.
const SNAP: usize = 128;
/// Most packets that are read at a time; the socket's buffer bounds those that wait.
const MOST: usize = 512;
const BUFFER: libc::c_int = 256 << 10;

// linux/filter.h
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const BEHIND_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
const BEHIND_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const HEADER: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const HAS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const PROTOCOL: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;
const WAY: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
/// Numbers of the last two instructions.
const DROP: u8 = 32;
const TAKE: u8 = 33;

/// A packet that was seen.
#[derive(Clone, Copy, Debug)]
pub struct Tapped<'a> {
    /// Time of the kernel's stamp, ns of CLOCK_REALTIME.
    pub at: i64,
    pub is_outgoing: bool,
    /// From the network header on, cut.
    pub bytes: &'a [u8],
}

/// The socket.
#[derive(Debug)]
pub struct Tap(OwnedFd);

impl Tap {
    /// Sees packets of the interface `index` from now on: timestamps of TCP, and ICMP with this `identifier`.
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn new(index: u32, identifier: u16) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol yet: nothing comes before the filter is there.
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        let filter = filter(identifier);
        let program = libc::sock_fprog {
            len: filter.len() as libc::c_ushort,
            filter: filter.as_ptr().cast_mut(),
        };
        set(&socket, libc::SO_ATTACH_FILTER, &program)?;
        set(&socket, libc::SO_TIMESTAMPNS, &1i32)?;
        set(&socket, libc::SO_RCVBUF, &BUFFER)?;
        // SAFETY: a struct of plain numbers, for which zeros are values.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        // SAFETY: pointer and length are those of `address`, which outlives the call.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        match bound {
            0 => Ok(Self(socket)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Passes on those that have come.
    pub fn read(&self, mut each: impl FnMut(Tapped<'_>)) {
        for _ in 0..MOST {
            let mut bytes = [0u8; SNAP];
            // Room for one timestamp, aligned as the kernel's header of it.
            let mut control = [0u64; 8];
            // SAFETY: a struct of plain numbers, for which zeros are values.
            let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
            let mut part = libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            };
            // SAFETY: a struct of numbers and pointers, for which zeros are values.
            let mut message: libc::msghdr = unsafe { mem::zeroed() };
            message.msg_name = (&raw mut from).cast();
            message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            // SAFETY: every pointer of `message` is to a local that outlives the call, with its length.
            let n = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
            let Ok(n) = usize::try_from(n) else {
                // None is left, or the interface is down: there may be others later.
                return;
            };
            let Some(at) = stamp(&message) else { continue };
            each(Tapped {
                at,
                is_outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
                bytes: &bytes[..n.min(SNAP)],
            });
        }
    }
}

/// The kernel's time of a message.
fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled the control buffer of `message` up to its length, and these macros stay inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if ((*header).cmsg_level, (*header).cmsg_type)
                == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
            {
                let time: libc::timespec = libc::CMSG_DATA(header)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return Some(time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// Sets an option of SOL_SOCKET.
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    crate::socket::set(socket, libc::SOL_SOCKET, option, value)
}

/// Of each packet that the kernel shows us, is it one that tells of delay? Outgoing segments by their own clock, incoming ones by the one
/// that they echo: the second answers the first.
fn filter(identifier: u16) -> Vec<libc::sock_filter> {
    let identifier = u32::from(identifier);
    let out = libc::PACKET_OUTGOING.into();
    let (v4, v6) = (libc::ETH_P_IP as u32, libc::ETH_P_IPV6 as u32);
    let mask = SAMPLED - 1;
    // Code, operand, and where to go if so, and if not.
    let rules: [(u32, u32, u8, u8); 34] = [
        (LOAD_HALF, PROTOCOL, 1, 1),
        (IS, v4, 2, 18),
        // A later fragment has no header.
        (LOAD_HALF, 6, 3, 3),
        (HAS, 0x1fff, DROP, 4),
        (HEADER, 0, 5, 5),
        (LOAD_BYTE, 9, 6, 6),
        (IS, libc::IPPROTO_TCP as u32, 10, 7),
        (IS, libc::IPPROTO_ICMP as u32, 8, DROP),
        (BEHIND_HALF, 4, 9, 9),
        (IS, identifier, TAKE, DROP),
        // 10: TCP over IPv4.
        (BEHIND_WORD, 20, 11, 11),
        (IS, OPTIONS, 12, DROP),
        (LOAD_BYTE, WAY, 13, 13),
        (IS, out, 14, 16),
        (BEHIND_WORD, 24, 15, 15),
        (HAS, mask, DROP, TAKE),
        (BEHIND_WORD, 28, 17, 17),
        (HAS, mask, DROP, TAKE),
        // 18: IPv6 without headers between.
        (IS, v6, 19, DROP),
        (LOAD_BYTE, 6, 20, 20),
        (IS, libc::IPPROTO_TCP as u32, 24, 21),
        (IS, libc::IPPROTO_ICMPV6 as u32, 22, DROP),
        (LOAD_HALF, 44, 23, 23),
        (IS, identifier, TAKE, DROP),
        // 24: TCP over IPv6.
        (LOAD_WORD, 60, 25, 25),
        (IS, OPTIONS, 26, DROP),
        (LOAD_BYTE, WAY, 27, 27),
        (IS, out, 28, 30),
        (LOAD_WORD, 64, 29, 29),
        (HAS, mask, DROP, TAKE),
        (LOAD_WORD, 68, 31, 31),
        (HAS, mask, DROP, TAKE),
        (RETURN, 0, 0, 0),
        (RETURN, SNAP as u32, 0, 0),
    ];
    let numbered = rules.into_iter().enumerate();
    let jump = |n: usize, to: u8| (usize::from(to) - n - 1) as u8;
    numbered
        .map(|(n, (code, k, yes, no))| {
            let (jt, jf) = match code {
                IS | HAS => (jump(n, yes), jump(n, no)),
                _ => (0, 0),
            };
            libc::sock_filter {
                code: code as u16,
                jt,
                jf,
                k,
            }
        })
        .collect()
}
