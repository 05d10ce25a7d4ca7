// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loop that accepts every packet: cost of the packet queue without scheduling.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::message::Message;
use super::nfqueue::{Asked, BATCH, BindError, Queue, Verdicts};
use super::runner::{hurry, thread_cpu_seconds};

/// The measure for [`super::Datapath`]: the same socket, thread priority and batches, one verdict for
/// each batch.
#[derive(Debug)]
pub struct AcceptAll {
    wake: OwnedFd,
    thread: JoinHandle<io::Result<Accepted>>,
}

/// Its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accepted {
    /// Packets that it let go.
    pub packets: u64,
    /// Processor time of its thread, the kernel's work for its packets included.
    pub cpu_seconds: f64,
}

impl AcceptAll {
    /// Takes queue `queue_num` of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`Queue::bind`].
    pub fn spawn(queue_num: u16) -> Result<Self, BindError> {
        let system = |source| BindError::System {
            queue: queue_num,
            source,
        };
        let queue = Queue::bind(queue_num, 8192, Asked::default())?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(|error| system(error.into()))?;
        let woken = wake.try_clone().map_err(system)?;
        let thread = thread::Builder::new()
            .name("accept-all".into())
            .spawn(move || {
                hurry();
                run(&queue, &woken)
            })
            .map_err(system)?;
        Ok(Self { wake, thread })
    }

    /// Ends it.
    ///
    /// # Errors
    /// If the queue failed meanwhile.
    pub fn stop(self) -> io::Result<Accepted> {
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        let result = self.thread.join();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn run(queue: &Queue, wake: &OwnedFd) -> io::Result<Accepted> {
    let mut batch = queue.batch();
    let mut verdicts = Verdicts::new(queue.number(), 1);
    let mut packets = 0;
    loop {
        let n = queue.receive(&mut batch)?;
        let mut last = None;
        for message in batch.messages() {
            if let Message::Packet(queued) = message {
                last = Some(queued.id);
                packets += 1;
            }
        }
        if let Some(id) = last {
            verdicts.accept_up_to(id);
            queue.send(&mut verdicts)?;
        }
        if n == BATCH {
            continue;
        }
        let mut fds = [
            PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN),
        ];
        poll(&mut fds, None)?;
        if !fds[1].revents().is_empty() {
            let cpu_seconds = thread_cpu_seconds();
            return Ok(Accepted {
                packets,
                cpu_seconds,
            });
        }
    }
}
