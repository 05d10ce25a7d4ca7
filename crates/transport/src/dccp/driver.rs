// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loop that drives one connection over a [`Wire`].

use std::io;
use std::os::fd::BorrowedFd;
use std::time;

use makeway_core::send::Policy;
use makeway_core::units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::Connection;

/// Carrier of DCCP's packets, from their headers on, to one peer.
pub trait Wire {
    /// Sends a packet. One that finds no room is lost, as in a network.
    fn send(&mut self, packet: &[u8]) -> io::Result<()>;

    /// The next packet that has come into `into`; whether there is one. It does not wait.
    fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<bool>;

    /// Readable when a packet has come.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// When to ask [`Wire::receive`] again, even if the descriptor is not ready.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

/// The time since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(time::Instant);

impl Clock {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "each call makes another clock")]
    pub fn new() -> Self {
        Self(time::Instant::now())
    }

    /// The time.
    pub fn now(&self) -> Instant {
        // 584 years.
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Sends and receives until `until`, or until the connection has something to tell.
pub fn drive<P: Policy>(
    connection: &mut Connection<P>,
    wire: &mut impl Wire,
    clock: &Clock,
    until: Instant,
) -> io::Result<()> {
    let mut packet = Vec::with_capacity(2048);
    loop {
        let now = clock.now();
        while wire.receive(&mut packet)? {
            connection.handle_packet(now, &packet);
        }
        connection.handle_timeout(now);
        while connection.poll_transmit(now, &mut packet) {
            wire.send(&packet)?;
        }
        if now >= until || connection.has_events() {
            return Ok(());
        }
        let timeouts = [connection.poll_timeout(), wire.next_timeout()];
        let next = timeouts.into_iter().flatten().fold(until, Instant::min);
        wait(wire.descriptor(), next.saturating_since(now))?;
    }
}

/// Waits for a packet, so long at most.
pub fn wait(descriptor: BorrowedFd<'_>, most: Duration) -> io::Result<()> {
    let nanos = most.as_nanos();
    let most = Timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as i64,
    };
    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    match poll(&mut fds, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
