// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's DCCP sockets: Linux has them up to 6.15.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SOCK_DCCP: i32 = 6;
const IPPROTO_DCCP: i32 = 33;
const SOL_DCCP: i32 = 269;
const SERVICE: i32 = 2;
const CCID: i32 = 13;
const TX_INFO: i32 = 192;

/// A socket.
#[derive(Debug)]
pub struct Dccp(OwnedFd);

/// State of the kernel's CCID 3 sender: `struct tfrc_tx_info`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TfrcInfo {
    /// X in byte/s, times 64.
    pub x: u64,
    /// X_recv in byte/s, times 64.
    pub x_recv: u64,
    /// X of the equation in byte/s.
    pub x_calc: u32,
    /// R in us.
    pub rtt: u32,
    /// p in millionths.
    pub p: u32,
    /// t_RTO in us.
    pub rto: u32,
    /// t_ipi in us.
    pub ipi: u32,
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn address(ip: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(ip).to_be(),
        },
        sin_zero: [0; 8],
    }
}

impl Dccp {
    /// With a Service Code, and one CCID for both halves.
    pub fn new(service: u32, ccid: u8) -> io::Result<Self> {
        // SAFETY: a system call on numbers; the descriptor is owned by nobody else.
        let socket = unsafe {
            Self(OwnedFd::from_raw_fd(check(libc::socket(
                libc::AF_INET,
                SOCK_DCCP,
                IPPROTO_DCCP,
            ))?))
        };
        socket.set(SOL_DCCP, SERVICE, &service.to_be())?;
        socket.set(SOL_DCCP, CCID, &ccid)?;
        Ok(socket)
    }

    fn set<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as u32;
        // SAFETY: the kernel reads `length` bytes of `value`.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                level,
                name,
                (&raw const *value).cast(),
                length,
            )
        })
        .map(drop)
    }

    /// Waits for clients at an address of this machine.
    pub fn listen(&self, ip: Ipv4Addr, port: u16) -> io::Result<()> {
        let at = address(ip, port);
        // SAFETY: the address is as long as is said.
        unsafe {
            check(libc::bind(
                self.0.as_raw_fd(),
                (&raw const at).cast(),
                size_of_val(&at) as u32,
            ))?;
            check(libc::listen(self.0.as_raw_fd(), 1)).map(drop)
        }
    }

    /// The next client; it waits for one.
    pub fn accept(&self) -> io::Result<Self> {
        // SAFETY: null says that no address is wanted; the descriptor is owned by nobody else.
        unsafe {
            let socket = check(libc::accept(
                self.0.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            ))?;
            Ok(Self(OwnedFd::from_raw_fd(socket)))
        }
    }

    /// Connects to a server.
    pub fn connect(&self, ip: Ipv4Addr, port: u16) -> io::Result<()> {
        let at = address(ip, port);
        // SAFETY: the address is as long as is said.
        check(unsafe {
            libc::connect(
                self.0.as_raw_fd(),
                (&raw const at).cast(),
                size_of_val(&at) as u32,
            )
        })
        .map(drop)
    }

    /// A datagram; 0 bytes at the end of the connection.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes into the slice only.
        let length =
            unsafe { libc::recv(self.0.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    }

    /// Queues a datagram; `WouldBlock` where there is no room.
    pub fn send(&self, data: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the slice only.
        let sent = unsafe {
            libc::send(
                self.0.as_raw_fd(),
                data.as_ptr().cast(),
                data.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent)
            .map(drop)
            .map_err(|_| io::Error::last_os_error())
    }

    /// How it sends, with CCID 3.
    pub fn tfrc(&self) -> io::Result<TfrcInfo> {
        let mut info = TfrcInfo::default();
        let mut length = size_of::<TfrcInfo>() as u32;
        // SAFETY: the kernel writes at most `length` bytes.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                SOL_DCCP,
                TX_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        })?;
        Ok(info)
    }
}
