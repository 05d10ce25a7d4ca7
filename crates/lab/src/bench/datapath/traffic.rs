// SPDX-License-Identifier: MIT OR Apache-2.0
//! Senders that are faster than what is measured.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use makeway_netns::topology::node_address;

use super::link::Link;

/// Datagrams of one `sendmmsg`.
const BURST: usize = 32;
const PORT: u16 = 5000;

/// Datagrams as fast as they go, in flows of one socket each.
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    _sink: UdpSocket,
}

impl Flood {
    /// `payload` bytes in each datagram, `flows` source ports.
    pub fn start(link: &Link, payload: usize, flows: usize) -> io::Result<Self> {
        // A socket that nobody reads: the kernel drops what it cannot hold, and sends no errors back.
        let sink = link.far(|| UdpSocket::bind((node_address(1), PORT)))?;
        let sockets = link.near(|| {
            let open = |_| {
                let socket = UdpSocket::bind((node_address(0), 0))?;
                socket.connect((node_address(1), PORT))?;
                Ok(socket)
            };
            (0..flows).map(open).collect::<io::Result<Vec<_>>>()
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("flood".into())
            .spawn(move || flood(&sockets, payload, &stopped))?;
        Ok(Self {
            stop,
            thread,
            _sink: sink,
        })
    }

    /// Ends it.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn flood(sockets: &[UdpSocket], payload: usize, stop: &AtomicBool) {
    let mut payload = vec![0u8; payload];
    let mut part = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    let mut headers: Vec<libc::mmsghdr> = (0..BURST)
        .map(|_| {
            // SAFETY: all-zero is a valid `mmsghdr`: null pointers and lengths of zero.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_iov = &mut part;
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    while !stop.load(Ordering::Relaxed) {
        let mut sent = false;
        for socket in sockets {
            // SAFETY: BURST valid headers, whose one part points to `payload`; all of them live
            // through the call and are only read.
            let n = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    BURST as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            sent |= n > 0;
        }
        if !sent {
            // Every socket has its buffer full of packets that wait: nothing is gained by trying.
            thread::sleep(Duration::from_micros(20));
        }
    }
}

/// One connection that sends without end.
pub struct Tcp {
    stream: TcpStream,
    threads: [JoinHandle<()>; 2],
}

impl Tcp {
    pub fn start(link: &Link) -> io::Result<Self> {
        let listener = link.far(|| TcpListener::bind((node_address(1), 0)))?;
        let port = listener.local_addr()?.port();
        let stream = link.near(|| TcpStream::connect((node_address(1), port)))?;
        congestion_control(&stream, b"cubic");
        let (mut server, _) = listener.accept()?;
        let mut client = stream.try_clone()?;
        let reader = thread::Builder::new()
            .name("reader".into())
            .spawn(move || {
                let mut buffer = vec![0; 1 << 18];
                while server.read(&mut buffer).is_ok_and(|n| n > 0) {}
            })?;
        let writer = thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                let buffer = vec![0; 1 << 18];
                while client.write_all(&buffer).is_ok() {}
            })?;
        Ok(Self {
            stream,
            threads: [reader, writer],
        })
    }

    /// Ends it.
    pub fn stop(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Where the kernel does not have it, its own choice stays.
fn congestion_control(stream: &TcpStream, name: &[u8]) {
    // SAFETY: the pointer and the length are those of `name`.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        );
    }
}
