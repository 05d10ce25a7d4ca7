// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP sockets of one interface.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use makeway_gateway::socket::bind_to_interface;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_congestion, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// Connects through `interface`, regardless of the routes, if there is one.
///
/// # Errors
/// The system refuses; or there is no answer within `patience`.
pub fn connected(
    to: SocketAddr,
    interface: Option<&str>,
    patience: Duration,
) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(name) = interface {
        bind_to_interface(&socket, name)?;
    }
    // The timeout of connect(2) as well (socket(7)).
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
    connect(&socket, &to)?;
    Ok(prepared(socket.into()))
}

/// Reads of a stream until a time, however many they are: the timeout of a socket alone is that of each read.
pub struct Until<'s> {
    /// The stream; its own read timeout is another afterwards.
    pub stream: &'s TcpStream,
    /// End of the time: reads fail from then on.
    pub end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(bytes)
    }
}

/// Sends small messages at once, and fills a buffer as most hosts do: BBR would leave most of it empty.
pub fn prepared(stream: TcpStream) -> TcpStream {
    // Both are refinements: a kernel without CUBIC still measures the link.
    let _ = set_tcp_nodelay(&stream, true);
    let _ = set_tcp_congestion(&stream, "cubic");
    stream
}
