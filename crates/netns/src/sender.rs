// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows with a sender of their own, over real UDP: both ends in one thread, each by its socket.
//!
//! The ends are those of the world `sim`. A packet has the length it has there and carries its number, feedback likewise;
//! what they say beyond that is kept in this process.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use makeway_core::measure::Histogram;
use makeway_core::units::Instant;
use makeway_endpoints::MediaFlow;
use makeway_report::interval::Interval;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::clock::{Epoch, be_punctual};
use crate::datagram::{Batch, dropped, lost_on_the_way};
use crate::run::Latest;

/// IPv4 and UDP.
const HEADERS: u32 = 28;
/// Payload of a packet: its number.
const NUMBER: usize = size_of::<u64>();
/// Sleep until a timer is looked at again that has run out, in ns.
const SHORTEST: u64 = 1_000_000;
/// Longest sleep, so that a stop is seen, in ns.
const LONGEST: u64 = 20_000_000;

/// A flow before it starts.
pub(crate) struct Plan {
    pub(crate) media: MediaFlow,
    /// The sender's, then the receiver's; each is connected to the other.
    pub(crate) sockets: [UdpSocket; 2],
    /// From when to when it sends, in ns after the epoch.
    pub(crate) times: [u64; 2],
}

/// A flow after its end.
pub(crate) struct Carried {
    pub(crate) media: MediaFlow,
    /// How long after its time the sender woke.
    pub(crate) lateness: Histogram,
    /// Packets that this machine's own sockets threw away: an error of the measurement.
    pub(crate) local_loss: u64,
}

/// Sends until its time is over or `stop` is set, and receives until `until` (in ns after the epoch) has been set and is over.
pub(crate) fn carry(
    plan: Plan,
    epoch: Epoch,
    interval: Interval,
    stop: &AtomicBool,
    until: &AtomicU64,
    latest: &Latest,
) -> io::Result<Carried> {
    be_punctual();
    // Before the epoch the clock stands: what took a way would have taken no time.
    epoch.sleep_until(0, stop);
    let Plan {
        mut media,
        sockets: [near, far],
        times: [start, end],
    } = plan;
    let mut lateness = Histogram::new();
    let (mut packets, mut reports) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 65_536];
    let mut batch = Batch::new();
    let mut sample = 0;
    let mut due = start;
    let mut now = Instant::ZERO;
    while epoch.elapsed() < until.load(Ordering::Relaxed) {
        // Arrival times are the kernel's, but time never runs backwards.
        batch.receive(&far, |packet, length, real| {
            now = now.max(Instant::from_nanos(epoch.elapsed_at(real)));
            if let Some(packet) = numbered(packet, &packets) {
                media.arrive(now, length as u32 + HEADERS, false, *packet, interval);
            }
        })?;
        let mut heard = now;
        batch.receive(&near, |packet, _, real| {
            heard = heard.max(Instant::from_nanos(epoch.elapsed_at(real)));
            if let Some(feedback) = numbered(packet, &reports) {
                media.heed(heard, feedback, interval);
            }
        })?;
        now = heard.max(Instant::from_nanos(epoch.elapsed()));
        let is_on = (start..end).contains(&now.as_nanos()) && !stop.load(Ordering::Relaxed);
        let mut next = if now.as_nanos() < start {
            start
        } else {
            u64::MAX
        };
        if is_on {
            if now.as_nanos() >= due {
                let late = now.saturating_since(Instant::from_nanos(due));
                lateness.record(late);
                latest.record(late);
            }
            media.wake(now, interval);
            while let Some((length, packet)) = media.transmit(now, interval) {
                send(&near, packets.len(), length, &mut buffer)?;
                packets.push(packet);
            }
            while let Some((length, feedback)) = media.report(now) {
                send(&far, reports.len(), length, &mut buffer)?;
                reports.push(feedback);
            }
            due = media.next().map_or(u64::MAX, Instant::as_nanos);
            let report = media.report_at().map_or(u64::MAX, Instant::as_nanos);
            next = due.min(report).min(end);
        }
        while sample <= now.as_nanos() && sample < interval.to() {
            media.sample();
            sample += interval.step().as_nanos();
        }
        if sample < interval.to() {
            next = next.min(sample);
        }
        // A timer that has run out and changed nothing may not hold the processor.
        if next <= now.as_nanos() {
            next = now.as_nanos() + SHORTEST;
        }
        wait([&near, &far], next, epoch)?;
    }
    Ok(Carried {
        media,
        lateness,
        local_loss: dropped(&near)? + dropped(&far)?,
    })
}

/// Sends what has `number`, as an IP packet of `length`.
fn send(socket: &UdpSocket, number: usize, length: u32, buffer: &mut [u8]) -> io::Result<()> {
    buffer[..NUMBER].copy_from_slice(&(number as u64).to_be_bytes());
    let length = length.saturating_sub(HEADERS) as usize;
    match socket.send(&buffer[..length.clamp(NUMBER, buffer.len())]) {
        Err(error) if !lost_on_the_way(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Meaning of an arriving packet; foreign packets have none.
fn numbered<'a, T>(packet: &[u8], all: &'a [T]) -> Option<&'a T> {
    let number = u64::from_be_bytes(*packet.first_chunk()?);
    all.get(usize::try_from(number).ok()?)
}

/// Waits until `next` (in ns after the epoch), or a packet.
fn wait(sockets: [&UdpSocket; 2], next: u64, epoch: Epoch) -> io::Result<()> {
    let mut polled = sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: next.saturating_sub(epoch.elapsed()).min(LONGEST) as i64,
    };
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
