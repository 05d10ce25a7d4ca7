// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interfaces of the calling thread's network namespace.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

/// linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number; another interface that takes the name later has another.
    pub index: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    kind: u16,
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// There is none of that name.
    #[error("there is no interface `{name}` here: choose {}", choices(.others))]
    Missing {
        /// The name.
        name: String,
        /// Interfaces that exist.
        others: Vec<String>,
    },
    /// The system did not tell.
    #[error("cannot ask for the interface `{name}`: {source}")]
    System {
        /// The name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Interface {
    /// Looks it up.
    ///
    /// # Errors
    /// If there is none of that name; the message lists those that exist.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let system = |source| InterfaceError::System {
            name: name.into(),
            source,
        };
        let socket = socket().map_err(system)?;
        let Ok(index) = netdevice::name_to_index(&socket, name) else {
            return Err(InterfaceError::Missing {
                name: name.into(),
                others: names(),
            });
        };
        let ask = |request| ask(&socket, name, request).map_err(system);
        // SAFETY: the kernel filled the member that belongs to the request.
        let kind = unsafe { ask(libc::SIOCGIFHWADDR)?.ifr_ifru.ifru_hwaddr.sa_family };
        // SAFETY: likewise.
        let mtu = unsafe { ask(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
        Ok(Self {
            name: name.into(),
            index,
            mtu: u32::try_from(mtu).unwrap_or(0),
            kind,
        })
    }

    /// Bytes that the device puts before the IP packet: 14 on Ethernet and Wi-Fi, 0 on links that
    /// carry bare IP (PPP, tun, WireGuard).
    pub fn link_header(&self) -> u32 {
        match self.kind {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => 14,
            _ => 0,
        }
    }
}

/// The number of an interface now; `None` if it is gone.
pub(super) fn index_now(socket: &OwnedFd, name: &str) -> Option<u32> {
    netdevice::name_to_index(socket, name).ok()
}

/// Whether the interface with this number is there and up. Names change hands, numbers do not.
pub(crate) fn is_up(index: u32) -> io::Result<bool> {
    let socket = socket()?;
    let name = match netdevice::index_to_name(&socket, index) {
        Err(rustix::io::Errno::NODEV | rustix::io::Errno::NXIO) => return Ok(false),
        name => name?,
    };
    let answer = ask(&socket, &name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the kernel filled the member that belongs to the request.
    let flags = unsafe { answer.ifr_ifru.ifru_flags };
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}

/// A socket to ask for interfaces with.
pub(super) fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// The names of all interfaces, in the kernel's order.
pub fn names() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let lines = table.lines().skip(2);
    // A name may hold a colon itself; the counters behind it do not.
    let name = |line: &str| Some(line.rsplit_once(':')?.0.trim().to_owned());
    lines.filter_map(name).collect()
}

/// The name as a key of the service's file, which is TOML: `wan0`, `"eth0.7"`.
pub fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match name.bytes().all(is_bare) {
        true => name.into(),
        // A string of JSON is one of TOML.
        false => serde_json::Value::from(name).to_string(),
    }
}

fn choices(names: &[String]) -> String {
    match names {
        [] => "none, this network namespace is empty".into(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

/// A setting of the driver: `command`, one of those of <linux/ethtool.h> that take and give one value.
///
/// # Errors
/// If the interface is not there or has no such setting.
pub(super) fn ethtool(socket: &OwnedFd, name: &str, command: u32) -> io::Result<u32> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data: 0 };
    let mut question = question(name);
    question.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the name is terminated, and `ifru_data` points to the live value that the command reads and writes.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut question) } {
        0 => Ok(value.data),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bits per second of the link, as the driver knows it; `None` if its driver names none.
pub(super) fn speed_bps(name: &str) -> Option<u64> {
    /// `ETHTOOL_GSET` of <linux/ethtool.h>: drivers of this day answer it too.
    const GET_SETTINGS: u32 = 1;
    /// `struct ethtool_cmd`.
    #[repr(C)]
    #[derive(Default)]
    struct Settings {
        command: u32,
        features: [u32; 2],
        speed: u16,
        port: [u8; 6],
        packets: [u32; 2],
        speed_high: u16,
        twisted_pair: [u8; 2],
        more: [u32; 3],
    }
    let socket = socket().ok()?;
    let mut settings = Settings {
        command: GET_SETTINGS,
        ..Settings::default()
    };
    let mut question = question(name);
    question.ifr_ifru.ifru_data = (&raw mut settings).cast();
    // SAFETY: the name is terminated, and `ifru_data` points to the live structure that the command reads and writes.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut question) };
    let mbit = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    (done == 0 && mbit != 0 && mbit != u32::MAX).then(|| u64::from(mbit) * 1_000_000)
}

fn ask(socket: &OwnedFd, name: &str, request: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut question = question(name);
    // SAFETY: both requests read a name from, and write one member to, this `ifreq`, which lives
    // through the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut question) } {
        0 => Ok(question),
        _ => Err(io::Error::last_os_error()),
    }
}

fn question(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero. The kernel took this name a moment ago, so it fits.
    let room = question.ifr_name.len() - 1;
    for (to, from) in question.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    question
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_and_listed() {
        let lo = Interface::find("lo").unwrap();
        assert_eq!(lo.name, "lo");
        assert!(lo.mtu > 1500, "{lo:?}");
        assert!(names().contains(&"lo".into()));
    }

    #[test]
    fn a_name_that_is_no_bare_key_is_quoted() {
        for (name, key) in [
            ("wan-0_a", "wan-0_a"),
            ("eth0.7", "\"eth0.7\""),
            ("a\"b\\", "\"a\\\"b\\\\\""),
        ] {
            assert_eq!(toml_key(name), key);
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused_with_those_that_are() {
        for name in ["wan7", "", "longer-than-fifteen", "nul\0"] {
            let error = Interface::find(name).unwrap_err().to_string();
            assert!(error.contains("choose"), "{error}");
            assert!(error.contains("lo"), "{error}");
        }
    }
}
