// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switches segmentation and receive offloads off, so that a veth carries packets of its MTU.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};

// linux/ethtool.h
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Offloads that merge packets, or send merged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation behind the queue.
    Gso,
    /// Packets that come are merged.
    Gro,
}

/// As `ethtool -K INTERFACE tso off gso off gro off`, in the calling thread's namespace.
///
/// # Errors
/// If the interface is not there or CAP_NET_ADMIN is missing.
pub fn off(interface: &str) -> io::Result<()> {
    use Offload::{Gro, Gso, Tso};
    set(interface, &[(Tso, false), (Gso, false), (Gro, false)])
}

/// As `ethtool -K INTERFACE`, in the calling thread's namespace.
///
/// # Errors
/// If the interface is not there or CAP_NET_ADMIN is missing; what stands before it is done.
pub fn set(interface: &str, offloads: &[(Offload, bool)]) -> io::Result<()> {
    let socket: OwnedFd = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    for (offload, on) in offloads {
        let cmd = match offload {
            Offload::Tso => ETHTOOL_STSO,
            Offload::Gso => ETHTOOL_SGSO,
            Offload::Gro => ETHTOOL_SGRO,
        };
        let data = u32::from(*on);
        let mut value = EthtoolValue { cmd, data };
        // SAFETY: `ifreq` is plain data, for which all zeroes is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1]
            .iter_mut()
            .zip(interface.bytes())
        {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the name is terminated, `ifru_data` points to the live value that the command
        // reads and writes.
        let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if rc < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
