// SPDX-License-Identifier: MIT OR Apache-2.0
//! Downloads of the kernel's Reno beside the call. They are sent in a network namespace of their own; this process carries their packets
//! through the queue of the call's link, and their acknowledgements back.
//!
//! As the paper's iperf: packets of 519 B with their headers, and a window of 16 kB.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time;

use anyhow::{Context, ensure};
use makeway_core::units::{Duration, Instant};
use makeway_netns::namespace::Namespace;
use makeway_transport::dccp::driver::{Clock, wait};
use makeway_transport::dccp::link::{Queue, UnderWay};
use makeway_transport::dccp::tun::device;

use super::{DELAY, ip};

const PORT: u16 = 5001;
const MTU: u32 = 519;
/// Least, default and largest buffer of a receiver: the kernel offers half of it as window.
const BUFFER: &str = "4096 32768 32768";
/// Longest sleep, so that a stop is seen.
const LONGEST: Duration = Duration::from_millis(50);
const PATIENCE: time::Duration = time::Duration::from_millis(200);

/// Downloads that go on until they are ended.
pub struct Downloads {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Downloads {
    /// Begins `count` of them at a place, whose addresses are of its own.
    pub fn begin(place: u8, count: u32, clock: Clock, queue: Queue) -> anyhow::Result<Self> {
        let (sender, receiver) = (
            Ipv4Addr::new(10, 78, place, 1),
            Ipv4Addr::new(10, 79, place, 1),
        );
        let into = interface(&format!("to{place}"), receiver, sender)?;
        fs::write("/proc/sys/net/ipv4/tcp_rmem", BUFFER).context("cannot set TCP's window")?;
        let inside = Arc::new(Namespace::create().context("cannot make a network namespace")?);
        let out_of = inside.run(|| {
            let out_of = interface(&format!("from{place}"), sender, receiver);
            // `/proc/sys/net` is that of the thread's namespace.
            fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno")?;
            out_of.map_err(io::Error::other)
        })?;
        let (into, out_of) = (Arc::new(into), Arc::new(out_of));
        let listener = TcpListener::bind((receiver, PORT))?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        {
            let (from, to, stop) = (Arc::clone(&out_of), Arc::clone(&into), Arc::clone(&stop));
            let there = move |now: Instant, bytes: u64| Some(queue.departure(now, bytes)? + DELAY);
            threads.push(thread::spawn(move || {
                carry(&from, &to, clock, &stop, there)
            }));
        }
        {
            let (from, to, stop) = (into, out_of, Arc::clone(&stop));
            let back = |now: Instant, _: u64| Some(now + DELAY);
            threads.push(thread::spawn(move || carry(&from, &to, clock, &stop, back)));
        }
        for _ in 0..count {
            let (listener, stop) = (listener.try_clone()?, Arc::clone(&stop));
            let received = Arc::clone(&received);
            threads.push(thread::spawn(move || receive(&listener, &stop, &received)));
        }
        let to = SocketAddr::from((receiver, PORT));
        for _ in 0..count {
            let (inside, stop) = (Arc::clone(&inside), Arc::clone(&stop));
            threads.push(thread::spawn(move || inside.run(|| send(to, &stop))));
        }
        Ok(Self {
            stop,
            received,
            threads,
        })
    }

    /// Ends them.
    ///
    /// # Errors
    /// One failed, or none of their data arrived.
    pub fn end(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let ended = thread.join().ok().context("a download panicked")?;
            ended.context("a download beside the call")?;
        }
        let received = self.received.load(Ordering::Relaxed);
        ensure!(
            received > 0,
            "nothing of the downloads beside the call arrived"
        );
        Ok(())
    }
}

/// An interface with an address, and a route to the other end of the path.
fn interface(name: &str, own: Ipv4Addr, other: Ipv4Addr) -> anyhow::Result<File> {
    let device = device(name).context("cannot make a TUN interface")?;
    ip(&format!("addr add {own}/32 dev {name}"))?;
    ip(&format!("link set {name} mtu {MTU}"))?;
    ip(&format!("link set {name} up"))?;
    ip(&format!("route add {other}/32 dev {name}"))?;
    Ok(device)
}

/// Carries packets from an interface to another, each at the time that `arrives` gives it; `None`: it is lost.
fn carry(
    from: &File,
    mut to: &File,
    clock: Clock,
    stop: &AtomicBool,
    arrives: impl Fn(Instant, u64) -> Option<Instant>,
) -> io::Result<()> {
    let mut under_way = UnderWay::default();
    let mut packet = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        while let Some(length) = next(from, &mut packet)? {
            // The kernel also sends packets of IPv6, such as router solicitations.
            let is_ipv4 = packet[0] >> 4 == 4;
            if let Some(at) = is_ipv4.then(|| arrives(now, length as u64)).flatten() {
                under_way.push(at, &packet[..length]);
            }
        }
        while let Some(packet) = under_way.pop(now) {
            // One that finds no room is lost, as in a network.
            let _ = to.write(&packet);
        }
        let due = under_way.next_arrival().map(|at| at.saturating_since(now));
        wait(from.as_fd(), due.unwrap_or(LONGEST).min(LONGEST))?;
    }
    Ok(())
}

/// Length of the next packet of an interface; `None`: there is none yet.
fn next(mut from: &File, into: &mut [u8]) -> io::Result<Option<usize>> {
    match from.read(into) {
        Ok(length) => Ok((length > 0).then_some(length)),
        Err(error) if is_transient(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_transient(error: &io::Error) -> bool {
    let kinds = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ];
    kinds.contains(&error.kind())
}

/// Takes one connection, and what it brings.
fn receive(listener: &TcpListener, stop: &AtomicBool, received: &AtomicU64) -> io::Result<()> {
    let mut stream: Option<TcpStream> = None;
    let mut data = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let Some(stream) = &mut stream else {
            match listener.accept() {
                Ok((accepted, _)) => {
                    accepted.set_nonblocking(false)?;
                    accepted.set_read_timeout(Some(PATIENCE))?;
                    stream = Some(accepted);
                }
                Err(error) if is_transient(&error) => thread::sleep(PATIENCE / 20),
                Err(error) => return Err(error),
            }
            continue;
        };
        match stream.read(&mut data) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if is_transient(&error) => {}
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends without end, in the calling thread's namespace.
fn send(to: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, time::Duration::from_secs(10))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let data = [0; 1 << 14];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&data) {
            Ok(_) => {}
            Err(error) if is_transient(&error) => {}
            // The receiver ends too, by a reset.
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
