// SPDX-License-Identifier: MIT OR Apache-2.0
//! Continuous downloads over the kernel's TCP: one poll loop sends for all flows, one receives.
//!
//! As in a download, the receiver connects; the listener accepts and sends.

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use makeway_core::units::Bytes;
use makeway_report::flow;
use makeway_report::interval::Interval;
use makeway_scenario::model::Tcp;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};

use crate::clock::{Epoch, be_quick};
use crate::options::set_int;

/// Bytes offered in one call.
const CHUNK: usize = 1 << 17;
/// Data that the kernel may hold and not have sent: enough to keep it busy, and few wake-ups.
const NOT_SENT: libc::c_int = 1 << 17;
/// The option that each segment carries, which TCP_MAXSEG counts as payload.
const TIMESTAMPS: libc::c_int = 12;
/// Longest sleep, so that a stop is seen.
const LONGEST: u64 = 50_000_000;

/// A flow's listener with its plan, in ns after the epoch.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Where the receiver connects.
    pub(crate) listener: TcpListener,
    /// When the flow ends.
    pub(crate) stop: u64,
    /// Bytes to send; endless if `None`.
    pub(crate) bytes: Option<u64>,
}

/// A flow's unconnected socket with its plan.
#[derive(Debug)]
pub(crate) struct Demand {
    /// A socket in the receiver's namespace.
    pub(crate) socket: OwnedFd,
    /// The sender's address.
    pub(crate) to: SocketAddrV4,
    /// When it connects, in ns after the epoch.
    pub(crate) start: u64,
}

/// Receive counters of one download.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Bytes read.
    pub(crate) bytes: flow::Bytes,
    /// Why it ended, if an error did it.
    pub(crate) error: Option<io::Error>,
}

/// Opens the sending side, in the calling thread's namespace.
///
/// # Errors
/// An unknown congestion control gives an error that lists those there are.
pub(crate) fn listen(
    address: SocketAddrV4,
    congestion_control: &str,
    tcp: &Tcp,
) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    limit(&listener, tcp)?;
    sockopt::set_tcp_congestion(&listener, congestion_control).map_err(|errno| {
        let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        io::Error::other(format!(
            "congestion control `{congestion_control}` is not to be had ({errno}); this kernel \
             has: {}",
            known.unwrap_or_default().trim().replace(' ', ", ")
        ))
    })?;
    Ok(listener)
}

/// Opens the receiving side, in the calling thread's namespace.
pub(crate) fn dial(from: Ipv4Addr, tcp: &Tcp) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    limit(&socket, tcp)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    Ok(socket)
}

/// Holds a connection that is not yet to a segment size and a window.
fn limit(socket: &impl AsRawFd, tcp: &Tcp) -> io::Result<()> {
    let int = |bytes: Bytes| libc::c_int::try_from(bytes.get()).unwrap_or(libc::c_int::MAX);
    if let Some(mss) = tcp.mss {
        set_int(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            int(mss).saturating_add(TIMESTAMPS),
        )?;
    }
    if let Some(window) = tcp.window {
        // A buffer of a size that was asked for is not tuned, and the clamp stays; packets take more of it than they carry.
        let buffer = int(window).saturating_mul(4);
        set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer)
            .or_else(|_| set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer))?;
        set_int(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            int(window),
        )?;
    }
    Ok(())
}

/// Sends for all flows until each has ended, or `stop` is set. Connections end by reset, so that
/// nothing goes on after the run.
pub(crate) fn serve(offers: Vec<Offer>, epoch: Epoch, stop: &AtomicBool) -> io::Result<()> {
    struct Serving {
        offer: Offer,
        stream: Option<TcpStream>,
        done: bool,
    }
    be_quick();
    let data = vec![0u8; CHUNK];
    let mut flows: Vec<_> = offers
        .into_iter()
        .map(|offer| Serving {
            offer,
            stream: None,
            done: false,
        })
        .collect();
    while !stop.load(Ordering::Relaxed) {
        let now = epoch.elapsed();
        for flow in &mut flows {
            if !flow.done && now >= flow.offer.stop {
                flow.done = true;
                flow.stream = None;
            }
        }
        let Some(next) = flows.iter().filter(|f| !f.done).map(|f| f.offer.stop).min() else {
            return Ok(());
        };
        let ready = {
            let live = flows.iter().enumerate().filter(|(_, flow)| !flow.done);
            let wanted = live.map(|(n, flow)| match &flow.stream {
                Some(stream) => (n, stream.as_fd(), PollFlags::OUT),
                None => (n, flow.offer.listener.as_fd(), PollFlags::IN),
            });
            wait(wanted.collect(), next - now)?
        };
        for n in ready {
            let flow = &mut flows[n];
            let Some(stream) = &mut flow.stream else {
                if let Ok((stream, _)) = flow.offer.listener.accept() {
                    stream.set_nonblocking(true)?;
                    prepare(&stream)?;
                    flow.stream = Some(stream);
                }
                continue;
            };
            let left = flow.offer.bytes.unwrap_or(u64::MAX);
            let most = (CHUNK as u64).min(left) as usize;
            match stream.write(&data[..most]) {
                Ok(sent) => {
                    flow.offer.bytes = flow.offer.bytes.map(|left| left - sent as u64);
                    if flow.offer.bytes == Some(0) {
                        // Sent data may arrive: an orderly end.
                        sockopt::set_socket_linger(&*stream, None)?;
                        flow.done = true;
                        flow.stream = None;
                    }
                }
                Err(error) if transient(&error) => {}
                // The receiver has gone; it says why.
                Err(_) => flow.done = true,
            }
        }
    }
    Ok(())
}

/// Connects each flow at its time and reads until the end of the interval, or `stop`.
pub(crate) fn fetch(
    demands: Vec<Demand>,
    epoch: Epoch,
    interval: Interval,
    stop: &AtomicBool,
) -> io::Result<Vec<Fetched>> {
    #[derive(PartialEq)]
    enum State {
        Waiting,
        Open,
        Done,
    }
    be_quick();
    let mut states: Vec<_> = demands.iter().map(|_| State::Waiting).collect();
    let mut fetched: Vec<_> = demands
        .iter()
        .map(|_| Fetched {
            bytes: flow::Bytes::new(interval),
            error: None,
        })
        .collect();
    let mut buffer = vec![0u8; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        let now = epoch.elapsed();
        if now >= interval.to() {
            break;
        }
        let mut next = interval.to();
        for (n, demand) in demands.iter().enumerate() {
            if states[n] != State::Waiting {
                continue;
            }
            if now < demand.start {
                next = next.min(demand.start);
                continue;
            }
            states[n] = State::Open;
            match rustix::net::connect(&demand.socket, &demand.to) {
                Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
                Err(error) => {
                    fetched[n].error = Some(error.into());
                    states[n] = State::Done;
                }
            }
        }
        let ready = {
            let open = demands
                .iter()
                .enumerate()
                .filter(|&(n, _)| states[n] == State::Open);
            wait(
                open.map(|(n, demand)| (n, demand.socket.as_fd(), PollFlags::IN))
                    .collect(),
                next - now,
            )?
        };
        let now = epoch.elapsed();
        for n in ready {
            // Data are counted and thrown away in the kernel.
            match rustix::net::recv(&demands[n].socket, &mut *buffer, RecvFlags::TRUNC) {
                Ok((_, 0)) => states[n] = State::Done,
                Ok((_, length)) => {
                    fetched[n].bytes.count(interval, length as u64, now);
                }
                Err(errno) if transient(&errno.into()) => {}
                Err(errno) => {
                    states[n] = State::Done;
                    // A reset is how a sender ends a flow that is stopped.
                    if errno != rustix::io::Errno::CONNRESET {
                        fetched[n].error = Some(errno.into());
                    }
                }
            }
        }
    }
    for demand in &demands {
        let _ = sockopt::set_socket_linger(&demand.socket, Some(StdDuration::ZERO));
    }
    Ok(fetched)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_linger(stream, Some(StdDuration::ZERO))?;
    set_int(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOT_SENT)
}

fn transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Waits until one is ready, at most `ns`; gives the numbers of those that are.
fn wait(wanted: Vec<(usize, BorrowedFd<'_>, PollFlags)>, ns: u64) -> io::Result<Vec<usize>> {
    let mut polled: Vec<_> = wanted
        .iter()
        .map(|&(_, fd, flags)| PollFd::from_borrowed_fd(fd, flags))
        .collect();
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: ns.min(LONGEST) as i64,
    };
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let ready = wanted
        .iter()
        .zip(&polled)
        .filter(|(_, p)| !p.revents().is_empty());
    Ok(ready.map(|(&(n, ..), _)| n).collect())
}
