// SPDX-License-Identifier: MIT OR Apache-2.0
//! DCCP over IPv4 by a TUN interface: this process is a host beyond it with an address of its own, so the kernel's own
//! DCCP does not answer for it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use etherparse::{IpNumber, Ipv4Header, Ipv4HeaderSlice};

use super::driver::Wire;
use super::udp::lost;
use super::wire::{PROTOCOL, Pseudo};

/// Makes the interface `name` in the calling thread's network namespace, which goes away with the file: a packet is an IP packet, and reads
/// do not wait. It needs CAP_NET_ADMIN.
pub fn device(name: &str) -> io::Result<File> {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // SAFETY: all zeroes is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        let message = format!("`{name}` is longer than the name of an interface, 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes an `ifreq`.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = rustix::fs::fcntl_getfl(&device)?;
    rustix::fs::fcntl_setfl(&device, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(device)
}

/// An interface, and the two addresses that talk over it.
#[derive(Debug)]
pub struct Tun {
    device: File,
    local: Ipv4Addr,
    remote: Ipv4Addr,
    packet: Vec<u8>,
}

impl Tun {
    const HOPS: u8 = 64;

    /// Makes the interface `name`, which goes away with this value. It needs CAP_NET_ADMIN; `local` is this process's address,
    /// to which the kernel must have a route by the interface, `remote` the peer's.
    pub fn open(name: &str, local: Ipv4Addr, remote: Ipv4Addr) -> io::Result<Self> {
        Ok(Self {
            device: device(name)?,
            local,
            remote,
            packet: Vec::new(),
        })
    }

    /// Coverage of checksums of outgoing packets.
    pub fn outward(&self) -> Pseudo {
        Pseudo::V4(self.local, self.remote)
    }

    /// The payload's place in a packet that is from the peer to this process.
    fn payload(&self, bytes: &[u8]) -> Option<std::ops::Range<usize>> {
        let header = Ipv4HeaderSlice::from_slice(bytes).ok()?;
        let ours = header.protocol() == IpNumber(PROTOCOL)
            && header.source_addr() == self.remote
            && header.destination_addr() == self.local
            && !header.is_fragmenting_payload();
        let range = header.slice().len()..usize::from(header.total_len());
        (ours && range.start <= range.end && range.end <= bytes.len()).then_some(range)
    }
}

impl Wire for Tun {
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let length = u16::try_from(packet.len()).map_err(invalid)?;
        let addresses = (self.local.octets(), self.remote.octets());
        let header = Ipv4Header::new(
            length,
            Self::HOPS,
            IpNumber(PROTOCOL),
            addresses.0,
            addresses.1,
        );
        let mut header =
            header.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        header.header_checksum = header.calc_header_checksum();
        self.packet.clear();
        self.packet.extend(header.to_bytes());
        self.packet.extend(packet);
        lost(self.device.write_all(&self.packet))
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            into.resize(65536, 0);
            let length = match self.device.read(into) {
                Ok(length) => length,
                Err(error) => {
                    into.clear();
                    return lost(Err(error)).map(|()| false);
                }
            };
            into.truncate(length);
            // The kernel sends this and that, such as router solicitations.
            if let Some(payload) = self.payload(into) {
                into.truncate(payload.end);
                into.drain(..payload.start);
                return Ok(true);
            }
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
