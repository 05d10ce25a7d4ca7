// SPDX-License-Identifier: MIT OR Apache-2.0
//! DCCP in UDP datagrams (RFC 6773), for networks that let nothing else pass.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use super::driver::Wire;
use crate::network::is_loss;

/// The port that RFC 6773 §3.8 has for servers.
pub const PORT: u16 = 6511;

/// A connected socket. Connections over it have [`Pseudo::Udp`](super::wire::Pseudo::Udp).
#[derive(Debug)]
pub struct Udp(UdpSocket);

impl Udp {
    /// From `local`, whose port may be 0, to `remote`.
    pub fn connect(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        Self::over(UdpSocket::bind(local)?, remote)
    }

    /// Over a socket that is bound.
    pub fn over(socket: UdpSocket, remote: SocketAddr) -> io::Result<Self> {
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// The address that it is bound to.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Wire for Udp {
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        lost(self.0.send(packet).map(drop))
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        into.resize(65536, 0);
        let result = self.0.recv(into);
        into.truncate(*result.as_ref().unwrap_or(&0));
        match result {
            Ok(_) => Ok(true),
            Err(error) => lost(Err(error)).map(|()| false),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Losses that a network may cause are no errors: no room, no listener yet, a hop with a smaller MTU.
pub(super) fn lost(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => Ok(()),
        result => result,
    }
}
