// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue of the kernel's packet filter (`nfnetlink_queue`), read and answered in batches.
//!
//! One `recvmmsg` brings up to [`BATCH`] packets and one `sendmsg` takes as many verdicts, since a
//! system call for each packet and each verdict would cost more than the scheduling between them.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::message::{self, MOST_PAYLOAD, Message, VERDICT_BYTES, Verdict};
use crate::socket;

/// Most packets that one call brings.
pub const BATCH: usize = 128;
/// Room for the attributes of a message before the copy; they are about 130 bytes.
const ATTRIBUTES: usize = 384;
/// Room for the connection of a packet: two tuples of IPv6, the state of TCP, marks, labels, a helper and a security context of
/// some 400 bytes.
const CONNECTION: usize = 1024;
/// Bytes of verdicts in one message: up to here the kernel takes one small buffer (below a page) for it.
const MESSAGE: usize = 112 * VERDICT_BYTES;

const NFQA_CFG_CMD: u16 = 1;
const NFQA_CFG_PARAMS: u16 = 2;
const NFQA_CFG_QUEUE_MAXLEN: u16 = 3;
const NFQA_CFG_MASK: u16 = 4;
const NFQA_CFG_FLAGS: u16 = 5;
const NFQA_CFG_F_CONNTRACK: u32 = 1 << 1;
const NFQNL_CFG_CMD_BIND: u8 = 1;
const NFQNL_CFG_CMD_PF_BIND: u8 = 3;
const NFQNL_COPY_PACKET: u8 = 2;

/// How much of each packet is copied from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copied {
    /// 128 bytes: IPv6 with extension headers, and the ports.
    #[default]
    Headers,
    /// All of it, for verdicts that change it.
    Whole,
}

impl Copied {
    fn bytes(self) -> usize {
        match self {
            Self::Headers => 128,
            Self::Whole => MOST_PAYLOAD,
        }
    }
}

/// Content of the messages of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Bytes of the packet.
    pub copied: Copied,
    /// The packet's connection too, where the kernel tells of it.
    pub connections: bool,
}

impl Asked {
    /// Bytes of one message.
    fn bytes(self) -> usize {
        let connection = if self.connections { CONNECTION } else { 0 };
        (ATTRIBUTES + connection + self.copied.bytes()).next_multiple_of(64)
    }
}

/// Why a queue could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The process may not.
    #[error("the packet queue needs CAP_NET_ADMIN in this network namespace: run with sudo")]
    NotPermitted,
    /// Another process has this queue.
    #[error("packet queue {0} is taken by another process: choose another number")]
    Taken(u16),
    /// The kernel knows no such queues.
    #[error(
        "this kernel has no packet queue: it needs CONFIG_NETFILTER_NETLINK_QUEUE (`modprobe nfnetlink_queue`)"
    )]
    Missing,
    /// Anything else that the system said.
    #[error("packet queue {queue}: {source}")]
    System {
        /// The queue.
        queue: u16,
        /// The system's error.
        source: io::Error,
    },
}

/// A queue that this process owns. When it is closed the kernel drops what it still holds.
#[derive(Debug)]
pub struct Queue {
    socket: OwnedFd,
    number: u16,
    asked: Asked,
    counters: Option<File>,
}

/// Packets that the kernel dropped before we read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Packets that wait for a verdict now.
    pub held: u64,
    /// Dropped since the backlog exceeded the queue's limit.
    pub queue_full: u64,
    /// Dropped since the socket's buffer was full.
    pub socket_full: u64,
}

impl Queue {
    /// Takes queue `number` of the calling thread's network namespace; it holds at most `limit`
    /// packets that wait for a verdict.
    pub fn bind(number: u16, limit: u32, asked: Asked) -> Result<Self, BindError> {
        let system = |source| BindError::System {
            queue: number,
            source,
        };
        let socket = open().map_err(|error| match error.raw_os_error() {
            Some(libc::EPROTONOSUPPORT) => BindError::Missing,
            _ => system(error),
        })?;
        // The file stays with the namespace of the thread that opened it.
        let counters = File::open("/proc/thread-self/net/netfilter/nfnetlink_queue").ok();
        let queue = Self {
            socket,
            number,
            asked,
            counters,
        };
        let mut params = (asked.copied.bytes() as u32).to_be_bytes().to_vec();
        params.push(NFQNL_COPY_PACKET);
        // Without NFQA_CFG_F_GSO the kernel segments what is larger than the MTU before it queues it.
        queue
            .request(&[(NFQA_CFG_CMD, &[NFQNL_CFG_CMD_BIND, 0, 0, 0])])
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM) if queue.taken() => BindError::Taken(number),
                Some(libc::EBUSY) => BindError::Taken(number),
                Some(libc::EPERM) => BindError::NotPermitted,
                // No subsystem registered for this type of message.
                Some(libc::EINVAL | libc::EOPNOTSUPP) => BindError::Missing,
                _ => system(error),
            })?;
        queue
            .request(&[
                (NFQA_CFG_PARAMS, &params),
                (NFQA_CFG_QUEUE_MAXLEN, &limit.to_be_bytes()),
            ])
            .map_err(system)?;
        if asked.connections {
            let flag = NFQA_CFG_F_CONNTRACK.to_be_bytes();
            // A kernel without CONFIG_NETFILTER_NETLINK_GLUE_CT refuses: then destinations are those of the packets.
            let _ = queue.request(&[(NFQA_CFG_FLAGS, &flag), (NFQA_CFG_MASK, &flag)]);
        }
        queue.tune();
        Ok(queue)
    }

    /// Takes the first free queue at or after `first`.
    pub fn bind_free(first: u16, limit: u32, asked: Asked) -> Result<Self, BindError> {
        let mut number = first;
        loop {
            match Self::bind(number, limit, asked) {
                Err(BindError::Taken(_)) if number < first.saturating_add(1024) => number += 1,
                other => return other,
            }
        }
    }

    /// One whose messages come by another socket.
    #[cfg(test)]
    pub(super) fn over(socket: OwnedFd) -> Self {
        Self {
            socket,
            number: 1,
            asked: Asked::default(),
            counters: None,
        }
    }

    /// The queue's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Buffers for what it brings.
    pub fn batch(&self) -> Batch {
        Batch::new(self.asked)
    }

    /// Receives the waiting messages without blocking; returns their number.
    pub fn receive(&self, batch: &mut Batch) -> io::Result<usize> {
        batch.filled = 0;
        // SAFETY: `headers` are BATCH valid message headers whose iovecs point into `slots`;
        // both are heap memory owned by `batch`, which is borrowed exclusively here.
        let n = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                batch.headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                // ENOBUFS is off, but a kernel may still say so: the loss is in its counters.
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => Ok(0),
                _ => Err(error),
            };
        }
        batch.filled = n as usize;
        Ok(batch.filled)
    }

    /// Writes the verdicts; those that could not be written stay in `verdicts` for the next call.
    pub fn send(&self, verdicts: &mut Verdicts) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            let (n, chunk) = verdicts.chunk(sent);
            if n == 0 {
                break Ok(());
            }
            // SAFETY: the pointer and the length are those of `chunk`, which outlives the call.
            let written = unsafe {
                libc::send(
                    self.socket.as_raw_fd(),
                    chunk.as_ptr().cast(),
                    chunk.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            if written >= 0 {
                sent += n;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                break Err(error);
            }
        };
        verdicts.forget(sent);
        result
    }

    /// The kernel's counters of this queue; `None` where `/proc` lacks them, as in a user
    /// namespace of somebody who is not root.
    pub fn kernel_counters(&self) -> Option<KernelCounters> {
        let mut text = [0; 8192];
        let n = self.counters.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..n]).ok()?;
        parse_counters(text, self.number)
    }

    /// Whether it was the queue's owner that the kernel refused, not the privilege: this command does
    /// nothing since Linux 3.8, but asks for the same privilege.
    fn taken(&self) -> bool {
        self.request(&[(NFQA_CFG_CMD, &[NFQNL_CFG_CMD_PF_BIND, 0, 0, 0])])
            .is_ok()
    }

    /// Sends a request and waits for its answer.
    fn request(&self, attributes: &[(u16, &[u8])]) -> io::Result<()> {
        const SEQUENCE: u32 = 1;
        let request = message::config(SEQUENCE, self.number, attributes);
        // SAFETY: pointer and length are those of `request`, which outlives the call.
        let n = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut buffer = [0; 4096];
        loop {
            // SAFETY: pointer and length are those of `buffer`.
            let n = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            let Ok(n) = usize::try_from(n) else {
                return Err(io::Error::last_os_error());
            };
            match message::parse(&buffer[..n]) {
                Message::Answer { error: 0, .. } => return Ok(()),
                Message::Answer { error, .. } => {
                    return Err(io::Error::from_raw_os_error(error.saturating_neg()));
                }
                // No rule sends packets here yet, so nothing is lost.
                _ => continue,
            }
        }
    }

    /// A large buffer, and no error for a loss that the kernel counts anyway. Both may be refused:
    /// the queue works without them.
    fn tune(&self) {
        const BUFFER: libc::c_int = 8 << 20;
        let set = |level, name, value: libc::c_int| socket::set(&self.socket, level, name, &value);
        if set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER).is_err() {
            let _ = set(libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER);
        }
        let _ = set(libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1);
        // Answers to refused verdicts need not repeat the verdict.
        let _ = set(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1);
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_NETFILTER,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is fresh and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn parse_counters(text: &str, number: u16) -> Option<KernelCounters> {
    // queue_number peer_portid queue_total copy_mode copy_range queue_dropped user_dropped ...
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        if fields.next()?.parse::<u16>().ok()? != number {
            return None;
        }
        let held = fields.nth(1)?.parse().ok()?;
        let queue_full = fields.nth(2)?.parse().ok()?;
        let socket_full = fields.next()?.parse().ok()?;
        Some(KernelCounters {
            held,
            queue_full,
            socket_full,
        })
    })
}

/// Buffers for one batch of messages, made once.
pub struct Batch {
    slots: Box<[u8]>,
    /// Bytes of one slot.
    slot: usize,
    headers: Box<[libc::mmsghdr]>,
    // Pointed to by `headers`.
    _iovecs: Box<[libc::iovec]>,
    filled: usize,
}

// SAFETY: the raw pointers inside point into heap memory that the same value owns.
unsafe impl Send for Batch {}

impl Batch {
    /// Buffers for [`BATCH`] messages. Pages that no packet reaches stay untouched.
    fn new(asked: Asked) -> Self {
        let slot = asked.bytes();
        let mut slots = vec![0; slot * BATCH].into_boxed_slice();
        let mut iovecs: Box<[libc::iovec]> = slots
            .chunks_exact_mut(slot)
            .map(|slot| libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: slot.len(),
            })
            .collect();
        let headers = iovecs
            .iter_mut()
            .map(|iovec| {
                // SAFETY: all-zero is a valid `mmsghdr`: null pointers and lengths of zero.
                let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
                header.msg_hdr.msg_iov = iovec;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self {
            slots,
            slot,
            headers,
            _iovecs: iovecs,
            filled: 0,
        }
    }

    /// The messages that came with the last call.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let slots = self.slots.chunks_exact(self.slot);
        let filled = slots.zip(&self.headers[..self.filled]);
        filled
            .map(|(slot, header)| message::parse(&slot[..slot.len().min(header.msg_len as usize)]))
    }
}

/// Verdicts that wait to be written.
#[derive(Debug)]
pub struct Verdicts {
    queue: u16,
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
}

impl Verdicts {
    /// None yet, for queue `queue`, with room for `capacity` that change nothing.
    pub fn new(queue: u16, capacity: usize) -> Self {
        Self {
            queue,
            bytes: Vec::with_capacity(capacity * VERDICT_BYTES),
            ends: Vec::with_capacity(capacity),
        }
    }

    /// Lets the packet go on.
    pub fn accept(&mut self, id: u32) {
        self.push(id, Verdict::Accept);
    }

    /// Drops the packet.
    pub fn drop(&mut self, id: u32) {
        self.push(id, Verdict::Drop);
    }

    /// Lets every packet go on that waits and came no later than `id`.
    pub fn accept_up_to(&mut self, id: u32) {
        self.push(id, Verdict::AcceptUpTo);
    }

    /// Accepts the packet with `payload` as its content.
    pub fn rewrite(&mut self, id: u32, payload: &[u8]) {
        message::rewrite(self.queue, id, payload, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Lets the packet go on with the fwmark `mark`.
    pub fn accept_marked(&mut self, id: u32, mark: u32) {
        message::marked(self.queue, id, mark, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Forgets those that wait.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many wait to be written.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Verdicts that wait.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Verdict, Option<&[u8]>)> + '_ {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = begins.zip(&self.ends);
        ranges.map(|(begin, end)| message::parse_verdict(&self.bytes[begin..*end]))
    }

    fn push(&mut self, id: u32, verdict: Verdict) {
        self.bytes.extend(message::verdict(self.queue, id, verdict));
        self.ends.push(self.bytes.len());
    }

    /// As many from `first` on as go into one message, one at least where there is one; and their bytes.
    fn chunk(&self, first: usize) -> (usize, &[u8]) {
        let begin = self.end_of(first);
        let rest = &self.ends[first..];
        let fit = rest.iter().take_while(|end| **end - begin <= MESSAGE);
        let n = fit.count().max(usize::from(!rest.is_empty()));
        (n, &self.bytes[begin..self.end_of(first + n)])
    }

    /// Forgets the first `n`.
    fn forget(&mut self, n: usize) {
        let end = self.end_of(n);
        self.bytes.drain(..end);
        self.ends.drain(..n);
        self.ends.iter_mut().for_each(|later| *later -= end);
    }

    /// Bytes of the first `n`.
    fn end_of(&self, n: usize) -> usize {
        n.checked_sub(1).map_or(0, |last| self.ends[last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read_by_queue() {
        let text = "    0   3129     0 2 65531     0     0        0  1\n\
                    \x20   7  -4295    12 2   128     5     6      231  1\n";
        let counters = parse_counters(text, 7);
        let expected = KernelCounters {
            held: 12,
            queue_full: 5,
            socket_full: 6,
        };
        assert_eq!(counters, Some(expected));
        assert_eq!(parse_counters(text, 8), None);
    }
}
