// SPDX-License-Identifier: MIT OR Apache-2.0
//! A way between two UDP sockets: a rate with a queue in front of it forth, delay in both directions.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use makeway_core::units::{Bytes, Rate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Impairments of one direction.
#[derive(Clone, Copy)]
pub struct Way {
    /// `None`: not limited.
    pub rate: Option<Rate>,
    /// Bytes that wait for the rate; what comes when they are there is lost.
    pub queue: u64,
    pub delay: Duration,
}

/// Starts a relay to `server`; gives its address. It lives as long as the process.
pub fn relay(server: SocketAddr, forth: Way, back: Way) -> io::Result<SocketAddr> {
    let near = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    let far = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    far.connect(server)?;
    let address = near.local_addr()?;
    let client = Arc::new(OnceLock::new());
    let (from, to, learn) = (near.clone(), far.clone(), client.clone());
    thread::spawn(move || {
        carry(&from, forth, |packet, from| {
            let _ = learn.set(from);
            let _ = to.send(packet);
        })
    });
    thread::spawn(move || {
        carry(&far, back, |packet, _| {
            if let Some(client) = client.get() {
                let _ = near.send_to(packet, client);
            }
        })
    });
    Ok(address)
}

fn carry(socket: &UdpSocket, way: Way, mut deliver: impl FnMut(&[u8], SocketAddr)) {
    let mut under_way: VecDeque<(Instant, Vec<u8>, SocketAddr)> = VecDeque::new();
    let mut free = Instant::now();
    let mut buffer = [0; 65_536];
    loop {
        let now = Instant::now();
        while let Some((due, packet, from)) = under_way.pop_front() {
            if due > now {
                under_way.push_front((due, packet, from));
                break;
            }
            deliver(&packet, from);
        }
        let wait = under_way.front().map(|(due, ..)| *due - now);
        let wait = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        });
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        if poll(&mut polled, wait.as_ref()).is_err() || polled[0].revents().is_empty() {
            continue;
        }
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let now = Instant::now();
        free = free.max(now);
        if let Some(rate) = way.rate {
            let cost = |bytes| Duration::from_nanos((Bytes::new(bytes) / rate).as_nanos());
            if free - now > cost(way.queue) {
                continue;
            }
            free += cost(length as u64);
        }
        under_way.push_back((free + way.delay, buffer[..length].to_vec(), from));
    }
}
