// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTP over UDP: punctual senders, and one receiver for all of a run's streams.

use std::io;
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use makeway_core::measure::Histogram;
use makeway_core::units::Duration;
use makeway_report::flow;
use makeway_report::interval::Interval;
use makeway_scenario::departures::{Departure, EXTENSION};
use makeway_scenario::wire::{MARKER, PREFIX, RTP_HEADER, Rtp, SEQUENCE, STAMP};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::clock::{Epoch, be_punctual, be_quick};
use crate::options::set_int;
use crate::run::Latest;

/// Socket buffers asked for, so that no packet is lost in this machine.
const BUFFER: libc::c_int = 8 << 20;
/// Packets taken in one call.
const BATCH: usize = 32;
/// Payload of a stream instead of zeros.
#[derive(Clone, Debug)]
pub struct Content {
    /// Name of its flow.
    pub flow: String,
    /// RTP payload type (RFC 3551).
    pub payload_type: u8,
    /// RTP payloads by sequence number; what comes after the last is zeros.
    pub payloads: Arc<Vec<Vec<u8>>>,
}

impl Content {
    /// Bytes that a trace must count for a packet with this payload.
    pub fn size(payload: &[u8]) -> usize {
        EXTENSION + payload.len()
    }

    fn payload(&self, seq: u64) -> Option<&[u8]> {
        self.payloads
            .get(usize::try_from(seq).ok()?)
            .map(Vec::as_slice)
    }
}

/// Content of a sender's packets, and its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) ssrc: u32,
    pub(crate) content: Option<&'a Content>,
    /// Where the sender tells how late it is.
    pub(crate) latest: &'a Latest,
}

/// Counters of a sender.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Packets by their stamp.
    pub(crate) counts: flow::Sent,
    /// How long after its time a packet left.
    pub(crate) lateness: Histogram,
    /// Why it ended before its time.
    pub(crate) error: Option<io::Error>,
}

/// Sends `departures`, counted from `start`, until `stop_at` or until `stop` is set.
pub(crate) fn send(
    socket: &UdpSocket,
    departures: impl Iterator<Item = Departure>,
    stream: Stream,
    [start, stop_at]: [u64; 2],
    epoch: Epoch,
    interval: Interval,
    stop: &AtomicBool,
) -> Sent {
    be_punctual();
    let mut sent = Sent {
        counts: flow::Sent::new(interval),
        lateness: Histogram::new(),
        error: None,
    };
    let mut packet = vec![0u8; 65_536];
    let mut pace = Pace::default();
    for departure in departures {
        let due = start + departure.at;
        let at = pace.next(due, departure.gap);
        if at >= stop_at || !epoch.sleep_until(at, stop) {
            break;
        }
        pace.left(epoch.elapsed());
        let size = RTP_HEADER + departure.payload as usize;
        let stamp = epoch.stamp();
        let header = Rtp {
            seq: departure.seq,
            timestamp: departure.timestamp,
            marker: departure.marker,
            ssrc: stream.ssrc,
            stamp,
        };
        packet[..PREFIX].copy_from_slice(&header.to_bytes());
        if let Some((content, payload)) = stream
            .content
            .and_then(|c| Some((c, c.payload(departure.seq)?)))
        {
            packet[1] = packet[1] & MARKER | content.payload_type;
            packet[PREFIX..][..payload.len()].copy_from_slice(payload);
        }
        match socket.send(&packet[..size.min(65_507)]) {
            // A buffer that is full on the way is loss on the way; so is a port that has gone.
            Err(error) if !lost_on_the_way(&error) => {
                sent.error = Some(error);
                break;
            }
            _ => {}
        }
        sent.counts.count(interval, stamp);
        let late = Duration::from_nanos(stamp.saturating_sub(due));
        sent.lateness.record(late);
        stream.latest.record(late);
    }
    sent
}

/// Departure times of a sender that is late now and then, ns of the run.
///
/// A gap begins at the planned time of the packet before. If it began when that packet really left, each late wake-up
/// would lengthen the gap, and on a machine whose timers are always late by a tenth of it the sender would fall behind
/// without end. After a stall it begins half a gap ago at the earliest, so that overdue packets do not leave at once.
#[derive(Default)]
struct Pace {
    planned: u64,
    left: u64,
}

impl Pace {
    /// When the packet leaves that is `due` and keeps `gap` to the one before.
    fn next(&mut self, due: u64, gap: u64) -> u64 {
        let begin = self.planned.max(self.left.saturating_sub(gap / 2));
        self.planned = due.max(begin + gap);
        self.planned
    }

    /// The packet left at `now`.
    fn left(&mut self, now: u64) {
        self.left = now;
    }
}

/// Whether an error of a socket is loss by another name.
pub(crate) fn lost_on_the_way(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EPERM | libc::ECONNREFUSED | libc::EAGAIN)
    )
}

/// Receive counters of one stream.
#[derive(Debug)]
pub(crate) struct Received {
    /// Counters common to all worlds.
    pub(crate) counts: flow::Received,
    /// One bit for each packet of the stream that arrived, warm-up included.
    pub(crate) arrived: Vec<u64>,
    /// Packets that this machine's own socket threw away: an error of the measurement.
    pub(crate) local_loss: u64,
}

impl Received {
    fn new(interval: Interval) -> Self {
        Self {
            counts: flow::Received::new(interval),
            arrived: Vec::new(),
            local_loss: 0,
        }
    }

    fn take(&mut self, interval: Interval, packet: &[u8], length: usize, arrival: u64) {
        let (Some(stamp), Some(seq)) = (number(packet, STAMP), number(packet, SEQUENCE)) else {
            return;
        };
        let payload = (length - RTP_HEADER) as u64;
        let counts = &mut self.counts;
        if !counts.count(interval, seq, payload, stamp, arrival) {
            return;
        }
        let word = (seq / 64) as usize;
        if word >= self.arrived.len() {
            self.arrived.resize(word + 1, 0);
        }
        self.arrived[word] |= 1 << (seq % 64);
    }
}

fn number(packet: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(packet.get(at..at + 8)?.try_into().ok()?))
}

/// Receives on all sockets until `until` (in ns after the epoch) has been set and is over.
pub(crate) fn receive(
    sockets: &[UdpSocket],
    epoch: Epoch,
    interval: Interval,
    until: &AtomicU64,
) -> io::Result<Vec<Received>> {
    be_quick();
    let mut received: Vec<_> = sockets.iter().map(|_| Received::new(interval)).collect();
    let mut batch = Batch::new();
    while epoch.elapsed() < until.load(Ordering::Relaxed) {
        let mut polled: Vec<_> = sockets
            .iter()
            .map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN))
            .collect();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        match rustix::event::poll(&mut polled, Some(&wait)) {
            Err(rustix::io::Errno::INTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<_> = polled.iter().map(|p| !p.revents().is_empty()).collect();
        for (index, socket) in sockets.iter().enumerate().filter(|&(i, _)| ready[i]) {
            batch.receive(socket, |packet, length, real| {
                received[index].take(interval, packet, length, epoch.stamp_of(real));
            })?;
        }
    }
    for (socket, received) in sockets.iter().zip(&mut received) {
        received.local_loss = dropped(socket)?;
    }
    Ok(received)
}

/// Sets a socket up: large buffers, and arrival times by the kernel.
pub(crate) fn prepare(socket: &UdpSocket) -> io::Result<()> {
    // The FORCE options pass the system's limit where the process may; the others stop there.
    for (forced, plain) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        set_int(socket, libc::SOL_SOCKET, forced, BUFFER)
            .or_else(|_| set_int(socket, libc::SOL_SOCKET, plain, BUFFER))?;
    }
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Packets that the socket had no room for, by SO_MEMINFO (linux/sock_diag.h).
pub(crate) fn dropped(socket: &UdpSocket) -> io::Result<u64> {
    const SO_MEMINFO: libc::c_int = 55;
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0u32; SK_MEMINFO_DROPS + 1];
    let mut size = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to `info`.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(info[SK_MEMINFO_DROPS]))
}

/// Memory of `recvmmsg`, kept from call to call.
pub(crate) struct Batch {
    packets: Box<[[u8; PREFIX]; BATCH]>,
    control: Box<[[u64; 8]; BATCH]>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            packets: Box::new([[0; PREFIX]; BATCH]),
            control: Box::new([[0; 8]; BATCH]),
        }
    }

    /// Hands over the first bytes, the length and the arrival time (ns since 1970) of each packet
    /// that waits.
    pub(crate) fn receive(
        &mut self,
        socket: &UdpSocket,
        mut take: impl FnMut(&[u8], usize, u64),
    ) -> io::Result<()> {
        loop {
            let mut parts = [MaybeUninit::<libc::iovec>::uninit(); BATCH];
            // SAFETY: `mmsghdr` is plain data, for which all zeroes is a value.
            let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
            for (n, message) in messages.iter_mut().enumerate() {
                let part = parts[n].write(libc::iovec {
                    iov_base: self.packets[n].as_mut_ptr().cast(),
                    iov_len: PREFIX,
                });
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_control = self.control[n].as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = size_of::<[u64; 8]>() as _;
            }
            // SAFETY: each message points to buffers of `self` and `parts`, which outlive the call.
            let n = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    BATCH as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                    ptr::null_mut(),
                )
            };
            if n < 0 {
                let error = io::Error::last_os_error();
                return match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => Ok(()),
                    _ => Err(error),
                };
            }
            for (message, packet) in messages[..n as usize].iter().zip(&self.packets[..]) {
                let length = message.msg_len as usize;
                if let Some(arrival) = arrival(&message.msg_hdr) {
                    take(&packet[..length.min(PREFIX)], length, arrival);
                }
            }
            if (n as usize) < BATCH {
                return Ok(());
            }
        }
    }
}

/// The time in SCM_TIMESTAMPNS, in ns.
fn arrival(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled the control buffer of this message, and the macros stay in it.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_SOCKET
                && (*control).cmsg_type == libc::SCM_TIMESTAMPNS
            {
                let time = ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::timespec>());
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 10_000;

    /// Times at which 2000 packets left, due each 1000 ns, if each wakes `late(seq)` ns late.
    fn departures(late: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut pace = Pace::default();
        (0..2000)
            .map(|seq| {
                let now = pace.next(START + seq * 1000, 900) + late(seq);
                pace.left(now);
                now
            })
            .collect()
    }

    #[test]
    fn late_timers_do_not_add_up() {
        let left = departures(|_| 300);
        for (seq, left) in left.iter().enumerate() {
            assert!(
                left - START - seq as u64 * 1000 <= 300,
                "packet {seq} left at {left}"
            );
        }
    }

    #[test]
    fn packets_overdue_after_a_stall_keep_their_distance() {
        let left = departures(|seq| if seq == 100 { 20_000 } else { 0 });
        for pair in left[101..].windows(2) {
            assert!(pair[1] - pair[0] >= 450, "{pair:?}");
        }
        assert_eq!(left[400], START + 400_000, "the sender has caught up");
    }
}
