// SPDX-License-Identifier: MIT OR Apache-2.0
//! Downloads without end over the kernel's TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use makeway_netns::topology::node_address;
use rustix::net::sockopt;

use super::bottleneck::{Bottleneck, CLIENT};

/// The client listens; the server connects and sends.
pub struct Flows {
    listener: TcpListener,
    servers: Vec<OwnedFd>,
}

/// One download.
pub struct Received {
    pub bytes: u64,
    /// The longest time without data.
    pub silent: Duration,
}

impl Flows {
    /// # Errors
    /// The kernel does not have the congestion control, and which it has.
    pub fn open(bottleneck: &Bottleneck, count: u32, control: &str) -> io::Result<Self> {
        let listen = || TcpListener::bind((node_address(CLIENT), 0));
        let listener = bottleneck.client().run(listen)?;
        listener.set_nonblocking(true)?;
        let open = || {
            use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
            sockopt::set_tcp_congestion(&socket, control).map_err(|errno| {
                let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
                let known = std::fs::read_to_string(file).unwrap_or_default();
                io::Error::other(format!(
                    "this kernel has no congestion control {control} ({errno}), but {}",
                    known.trim().replace(' ', ", ")
                ))
            })?;
            Ok(socket)
        };
        let servers = bottleneck
            .server()
            .run(|| (0..count).map(|_| open()).collect::<io::Result<Vec<_>>>())?;
        Ok(Self { listener, servers })
    }

    /// All begin at once and go on for `time`.
    ///
    /// # Errors
    /// One that cannot connect in this time.
    pub fn run(self, time: Duration) -> io::Result<Vec<Received>> {
        let to = self.listener.local_addr()?;
        let count = self.servers.len();
        let begin = Instant::now();
        let end = begin + time;
        thread::scope(|scope| {
            let senders = self.servers.iter().map(|socket| {
                let socket = socket.try_clone()?;
                Ok(scope.spawn(move || send(socket, to)))
            });
            senders.collect::<io::Result<Vec<_>>>()?;
            let mut receivers = Vec::new();
            let accepted = (0..count).try_for_each(|_| {
                let stream = accept(&self.listener, end)?;
                receivers.push(scope.spawn(move || receive(stream, begin, end)));
                Ok(())
            });
            let received = receivers.into_iter().map(|one| match one.join() {
                Ok(received) => received,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let received = received.collect();
            // Wakes senders that wait for room or for a connection.
            for socket in &self.servers {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            accepted.map(|()| received)
        })
    }
}

/// `socket` stays in the namespace where it was made.
fn send(socket: OwnedFd, to: SocketAddr) {
    if rustix::net::connect(&socket, &to).is_err() {
        return;
    }
    let mut stream = TcpStream::from(socket);
    let chunk = vec![0; 1 << 16];
    while stream.write_all(&chunk).is_ok() {}
}

fn accept(listener: &TcpListener, end: Instant) -> io::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                thread::sleep(Duration::from_micros(200));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads until `end`. Data that was not read resets the connection.
fn receive(mut stream: TcpStream, begin: Instant, end: Instant) -> Received {
    let mut buffer = vec![0; 1 << 16];
    let mut received = Received {
        bytes: 0,
        silent: Duration::ZERO,
    };
    let mut last = begin;
    loop {
        let now = Instant::now();
        let left = end.saturating_duration_since(now);
        if left.is_zero() {
            break;
        }
        let read = match stream.set_read_timeout(Some(left)) {
            Ok(()) => stream.read(&mut buffer),
            Err(error) => Err(error),
        };
        match read {
            Ok(n @ 1..) => {
                let now = Instant::now();
                received.bytes += n as u64;
                received.silent = received.silent.max(now - last);
                last = now;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            // It has ended before its time, and is silent from here on.
            Ok(_) | Err(_) => break,
        }
    }
    received.silent = received.silent.max(end.saturating_duration_since(last));
    received
}
