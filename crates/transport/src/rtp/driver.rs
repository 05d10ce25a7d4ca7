// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session on a UDP socket: one thread that sleeps to the nanosecond, not to tokio's millisecond.
//!
//! It sleeps in ppoll(2) with a timer slack of 1 ns until the session's next moment, a datagram, or a call from outside. All
//! that is due then leaves by one sendmmsg(2). (GSO would send a batch as one, which is what pacing is there to avoid.)

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use makeway_core::measure::Histogram;
use makeway_core::units::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny};

use super::rtcp::NtpEpoch;
use crate::network;

/// Datagrams of one call.
const BATCH: usize = 64;
/// The longest datagram.
const LONGEST: usize = 65_536;

/// This process's monotonic clock, and what NTP time its zero was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    zero: std::time::Instant,
    pub ntp: NtpEpoch,
}

impl Clock {
    /// It is zero now.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            zero: std::time::Instant::now(),
            ntp: NtpEpoch::since_unix(unix.unwrap_or_default()),
        }
    }

    pub fn now(&self) -> Instant {
        let elapsed = self.zero.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }
}

/// The session of a driver.
pub(super) trait Session: Send + 'static {
    /// A datagram came with these ECN bits, from the IP address of the peer or from another. Whether its source is the peer now.
    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: u8, is_peers: bool) -> bool;
    /// The next datagram into `out`, and the time since which it could leave.
    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant>;
    /// When to look again.
    fn timeout(&self) -> Option<Instant>;
    /// Timers may have run out, events may have come.
    fn turn(&mut self, now: Instant);
    /// The MTU of the path to the peer, without the headers of IP and UDP, is this now.
    fn follow_mtu(&mut self, payload: u32) {
        let _ = payload;
    }
    /// The system did not send a datagram.
    fn on_refused(&mut self) {}
    /// How late datagrams left.
    fn pacing(&mut self) -> &mut Histogram;
}

/// A session, its socket and its thread.
#[derive(Debug)]
pub(super) struct Driver<S> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug)]
struct Shared<S> {
    state: Mutex<State<S>>,
    wake: OwnedFd,
    clock: Clock,
}

#[derive(Debug)]
struct State<S> {
    session: S,
    ends: bool,
}

impl<S> Shared<S> {
    /// A thread that panicked left a session whose figures can still be read.
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Session> Driver<S> {
    /// Drives `session` on `socket` from now on. It answers whom `peer` says, or the last that it heard of.
    pub fn start(
        socket: UdpSocket,
        peer: Option<SocketAddr>,
        clock: Clock,
        session: S,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Without it no mark is seen. Best effort: a socket of a family without ECN still receives.
        let _ = network::receive_ecn(&socket);
        let state = State {
            session,
            ends: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            clock,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("makeway-rtp".into())
            .spawn(move || drive(&socket, peer, &theirs))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Does something with the session, after which the thread looks what is due.
    pub fn with<T>(&self, what: impl FnOnce(&mut S, Instant) -> T) -> T {
        let done = what(&mut self.shared.lock().session, self.shared.clock.now());
        self.wake();
        done
    }

    /// Looks at the session.
    pub fn look<T>(&self, what: impl FnOnce(&mut S) -> T) -> T {
        what(&mut self.shared.lock().session)
    }

    /// The time of the session.
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// Whether the thread has ended, by an error.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Sends what is left to be sent at once and ends the thread.
    ///
    /// # Errors
    /// The socket's error, then or before.
    pub fn end(&mut self, last: impl FnOnce(&mut S)) -> io::Result<()> {
        {
            let mut state = self.shared.lock();
            last(&mut state.session);
            state.ends = true;
        }
        self.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread of the socket panicked")),
            None => Ok(()),
        }
    }

    fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl<S> Drop for Driver<S> {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

fn drive<S: Session>(
    socket: &UdpSocket,
    mut peer: Option<SocketAddr>,
    shared: &Shared<S>,
) -> io::Result<()> {
    // Without it sleeps may be 50 us longer. Best effort: the histogram of pacing tells.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut input = vec![0; LONGEST];
    let mut batch = Batch::new();
    loop {
        let (next, ends) = {
            let mut state = shared.lock();
            let ends = state.ends;
            let session = &mut state.session;
            receive(socket, &mut peer, &shared.clock, session, &mut input)?;
            session.turn(shared.clock.now());
            batch.fill(&shared.clock, session);
            (session.timeout(), ends)
        };
        let was_full = batch.len == BATCH;
        if batch.len > 0 {
            let sent = match peer {
                Some(peer) => batch.send(socket, peer)?,
                None => Batched::default(),
            };
            let now = shared.clock.now();
            let mut state = shared.lock();
            (0..sent.refused).for_each(|_| state.session.on_refused());
            if sent.is_too_long {
                follow_mtu(socket, &mut state.session);
            }
            for due in &batch.due[..batch.len] {
                state.session.pacing().record(now.saturating_since(*due));
            }
        }
        if ends {
            return Ok(());
        }
        if !was_full {
            sleep(socket, &shared.wake, &shared.clock, next)?;
        }
    }
}

/// Takes at most a batch of what has come, so that sending has its turn.
fn receive(
    socket: &UdpSocket,
    peer: &mut Option<SocketAddr>,
    clock: &Clock,
    session: &mut impl Session,
    input: &mut [u8],
) -> io::Result<()> {
    for _ in 0..BATCH {
        match network::receive(socket, input) {
            Ok((len, from, ecn)) => {
                // RTCP may leave from another port.
                let is_peers = peer.is_none_or(|peer| peer.ip() == from.ip());
                if session.handle(clock.now(), &input[..len], ecn, is_peers) {
                    *peer = Some(from);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An ICMP message about a datagram that left before.
            Err(error) if network::is_loss(&error) => {
                if error.raw_os_error() == Some(libc::EMSGSIZE) {
                    follow_mtu(socket, session);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A hop has said that it carries less.
fn follow_mtu(socket: &UdpSocket, session: &mut impl Session) {
    let headers = match socket.peer_addr() {
        Ok(SocketAddr::V4(_)) => 20 + 8,
        Ok(SocketAddr::V6(_)) => 40 + 8,
        Err(_) => return,
    };
    if let Ok(mtu) = network::path_mtu(socket) {
        session.follow_mtu(mtu.saturating_sub(headers));
    }
}

/// Until `next`, a datagram or a call.
fn sleep(
    socket: &UdpSocket,
    wake: &OwnedFd,
    clock: &Clock,
    next: Option<Instant>,
) -> io::Result<()> {
    let timeout = next.map(|at| {
        let left = at.saturating_since(clock.now()).as_nanos();
        Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        }
    });
    let mut polled = [
        PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN),
    ];
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Err(rustix::io::Errno::INTR) | Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    if !polled[1].revents().is_empty() {
        let mut count = [0; 8];
        let _ = rustix::io::read(wake, &mut count);
    }
    Ok(())
}

/// Datagrams that leave together; their memory is kept.
struct Batch {
    datagrams: Vec<Vec<u8>>,
    due: [Instant; BATCH],
    len: usize,
}

impl Batch {
    fn new() -> Self {
        Self {
            datagrams: vec![Vec::new(); BATCH],
            due: [Instant::ZERO; BATCH],
            len: 0,
        }
    }

    fn fill(&mut self, clock: &Clock, session: &mut impl Session) {
        self.len = 0;
        while self.len < BATCH
            && let Some(due) = session.transmit(clock.now(), &mut self.datagrams[self.len])
        {
            self.due[self.len] = due;
            self.len += 1;
        }
    }

    fn send(&self, socket: &UdpSocket, peer: SocketAddr) -> io::Result<Batched> {
        let peer = SocketAddrAny::from(peer);
        let slices: Vec<_> = self.datagrams[..self.len]
            .iter()
            .map(|datagram| [IoSlice::new(datagram)])
            .collect();
        let mut control: Vec<_> = slices
            .iter()
            .map(|_| SendAncillaryBuffer::default())
            .collect();
        let mut messages: Vec<_> = slices
            .iter()
            .zip(&mut control)
            .map(|(slice, control)| MMsgHdr::new_with_addr(&peer, slice, control))
            .collect();
        let mut rest = &mut messages[..];
        let mut batched = Batched::default();
        let mut is_second_try = false;
        while !rest.is_empty() {
            let sent = match rustix::net::sendmmsg(socket, rest, SendFlags::empty()) {
                Ok(sent) => {
                    // The error that ended a batch is not told, and gone: it may be ICMP's about a datagram of this batch.
                    batched.is_too_long |= sent < rest.len();
                    sent
                }
                Err(rustix::io::Errno::INTR) => 0,
                Err(error) => {
                    let error = io::Error::from(error);
                    if !network::is_loss(&error) {
                        return Err(error);
                    }
                    batched.is_too_long |= error.raw_os_error() == Some(libc::EMSGSIZE);
                    // The error may be of a datagram that left before, and have taken the place of this one's.
                    is_second_try = !is_second_try;
                    batched.refused += u32::from(!is_second_try);
                    usize::from(!is_second_try)
                }
            };
            if sent > 0 {
                is_second_try = false;
            }
            rest = &mut rest[sent..];
        }
        Ok(batched)
    }
}

/// A batch that left, but for datagrams that the system did not take: a buffer that is full on the way is loss on the way.
#[derive(Default)]
struct Batched {
    refused: u32,
    /// Whether a hop may have said that it carries less.
    is_too_long: bool,
}
