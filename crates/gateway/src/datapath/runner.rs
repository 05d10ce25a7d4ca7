// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that moves packets: the only place of the datapath that knows clock and socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use makeway_core::sched::SpecError;
use makeway_core::units::{Duration, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};

use super::Change;
use super::message::Message;
use super::nfqueue::{BATCH, Batch, Queue, Verdicts};
use super::pipeline::Pipeline;
use super::stats::Stats;

/// Most departures between two looks at what arrives.
const ROUND: usize = 2 * BATCH;

/// The shortest sleep: 20 us, chosen by us. Above about 500 Mbit/s packets are due closer to each
/// other than a timer can tell; those due in one such time leave together, and the shaper keeps the
/// rate exact.
const GRAIN_NS: u64 = 20_000;

/// CLOCK_MONOTONIC as the datapath's time.
pub(super) fn now() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Processor time of the calling thread.
pub(super) fn thread_cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

enum Command {
    Snapshot(Sender<Stats>),
    Change(Change, Sender<Result<(), SpecError>>),
    Stop,
}

/// Why a running datapath did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// It ended by itself.
    #[error("the datapath has ended: {0}")]
    Ended(String),
    /// The change cannot be.
    #[error(transparent)]
    Config(#[from] SpecError),
    /// No link has a rate of zero.
    #[error("a rate of 0 would let nothing through: give a rate like 20mbit")]
    NoRate,
}

/// A running datapath; it stops when this is dropped.
#[derive(Debug)]
pub struct DatapathHandle {
    commands: Sender<Command>,
    wake: OwnedFd,
    thread: Option<JoinHandle<io::Result<Stats>>>,
    queue_num: u16,
}

impl DatapathHandle {
    pub(super) fn start(queue: Queue, pipeline: Pipeline) -> io::Result<Self> {
        let (commands, receiver) = mpsc::channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let woken = wake.try_clone()?;
        let queue_num = queue.number();
        let thread = thread::Builder::new()
            .name(format!("datapath-{queue_num}"))
            .spawn(move || {
                hurry();
                Runner::new(queue, pipeline, receiver, woken).run()
            })?;
        Ok(Self {
            commands,
            wake,
            thread: Some(thread),
            queue_num,
        })
    }

    /// The number of the packet queue, for the rules that send packets there.
    pub fn queue_num(&self) -> u16 {
        self.queue_num
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// If the datapath has ended by itself.
    pub fn snapshot(&self) -> Result<Stats, DatapathError> {
        let (answer, answers) = mpsc::channel();
        self.send(Command::Snapshot(answer));
        answers.recv().map_err(|_| ended())
    }

    /// Changes what runs. Packets that are held stay held.
    ///
    /// # Errors
    /// If the change cannot be; then nothing has changed.
    pub fn set(&self, change: Change) -> Result<(), DatapathError> {
        if matches!(change.rate, Some(Some(rate)) if rate.bps() == 0) {
            return Err(DatapathError::NoRate);
        }
        let (answer, answers) = mpsc::channel();
        self.send(Command::Change(change, answer));
        Ok(answers.recv().map_err(|_| ended())??)
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends it: whatever it holds goes on at once. Take the rules away first, so that nothing new
    /// comes.
    ///
    /// # Errors
    /// If the datapath had ended by itself.
    pub fn stop(mut self) -> Result<Stats, DatapathError> {
        self.send(Command::Stop);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(stats))) => Ok(stats),
            Some(Ok(Err(error))) => Err(DatapathError::Ended(error.to_string())),
            _ => Err(ended()),
        }
    }

    fn send(&self, command: Command) {
        // Where the thread has ended, the answer that never comes tells.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for DatapathHandle {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.send(Command::Stop);
            let _ = thread.join();
        }
    }
}

fn ended() -> DatapathError {
    DatapathError::Ended("its thread is gone".into())
}

/// Asks the kernel to wake this thread on time. Whatever it refuses is done without.
pub(super) fn hurry() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: scalars, and a pointer to a struct that lives through the call; all three apply to
    // the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) != 0 {
            let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
            libc::setpriority(libc::PRIO_PROCESS, thread, -10);
        }
    }
}

struct Runner {
    queue: Queue,
    pipeline: Pipeline,
    commands: Receiver<Command>,
    wake: OwnedFd,
    batch: Batch,
    verdicts: Verdicts,
    /// The identifier that the next packet has unless the kernel could not tell us of one.
    next_id: u32,
    missed: u64,
    /// When the next departure was due as the thread went to sleep.
    due: Option<Instant>,
    /// How late one was at worst.
    late: Duration,
}

impl Runner {
    fn new(queue: Queue, pipeline: Pipeline, commands: Receiver<Command>, wake: OwnedFd) -> Self {
        let verdicts = Verdicts::new(queue.number(), 2 * ROUND + 2 * BATCH);
        Self {
            batch: queue.batch(),
            queue,
            pipeline,
            commands,
            wake,
            verdicts,
            next_id: 1,
            missed: 0,
            due: None,
            late: Duration::ZERO,
        }
    }

    fn run(mut self) -> io::Result<Stats> {
        let mut readable = true;
        loop {
            self.pipeline.begin_round(&self.verdicts);
            let more = readable && self.receive()? == BATCH;
            let time = now();
            if let Some(due) = self.due.take() {
                self.late = self.late.max(time.saturating_since(due));
            }
            let departed = self.pipeline.depart(time, ROUND, &mut self.verdicts);
            self.pipeline.finish_round(&mut self.verdicts);
            self.flush()?;
            if more || departed >= ROUND {
                readable = true;
                continue;
            }
            let woken = self.wait()?;
            readable = woken.readable;
            if woken.commanded && self.obey()? {
                return self.stop();
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let n = self.queue.receive(&mut self.batch)?;
        for message in self.batch.messages() {
            match message {
                Message::Packet(queued) => {
                    self.missed += u64::from(queued.id.wrapping_sub(self.next_id));
                    self.next_id = queued.id.wrapping_add(1);
                    self.pipeline.arrive(now(), &queued, &mut self.verdicts);
                }
                Message::Answer { error, .. } if error != 0 => self.pipeline.verdict_refused(),
                _ => {}
            }
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.queue.send(&mut self.verdicts) {
            Err(error) if !short_of_memory(&error) => Err(error),
            // What is left is written in the next round.
            _ => Ok(()),
        }
    }

    fn wait(&mut self) -> io::Result<Woken> {
        // A queue that is short of memory tries again soon.
        const RETRY_NS: u64 = 1_000_000;
        self.due = self.pipeline.next_departure();
        let mut timeout = self.due.map(|due| {
            let left = due.saturating_since(now()).as_nanos();
            if left == 0 { 0 } else { left.max(GRAIN_NS) }
        });
        if !self.verdicts.is_empty() {
            timeout = Some(timeout.map_or(RETRY_NS, |ns| ns.min(RETRY_NS)));
        }
        let timeout = timeout.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut fds = [
            PollFd::from_borrowed_fd(self.queue.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Woken {
            // Errors of the socket are found, and cleared, by reading.
            readable: !fds[0].revents().is_empty(),
            commanded: !fds[1].revents().is_empty(),
        })
    }

    /// Does what was asked for; whether to stop.
    fn obey(&mut self) -> io::Result<bool> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.pipeline.begin_round(&self.verdicts);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Snapshot(answer) => {
                    let _ = answer.send(self.stats());
                }
                Command::Change(change, answer) => {
                    let result = self.pipeline.change(now(), &change, &mut self.verdicts);
                    let _ = answer.send(result);
                }
                Command::Stop => return Ok(true),
            }
        }
        self.flush()?;
        Ok(false)
    }

    fn stats(&self) -> Stats {
        let mut stats = self.pipeline.stats(now());
        stats.cpu_seconds = thread_cpu_seconds();
        stats.late_max_ms = self.late.as_millis_f64();
        // Where the kernel's own counters may not be read, the gaps between identifiers tell of the
        // packets that the socket had no room for. Its queue is longer than what we hold and the
        // socket together, so that one is not full before.
        let kernel = self.queue.kernel_counters();
        let lost = [
            ("kernel-queue", kernel.map_or(0, |k| k.queue_full)),
            (
                "kernel-socket",
                kernel.map_or(self.missed, |k| k.socket_full),
            ),
        ];
        for (name, n) in lost {
            if n > 0 {
                stats.packets_in += n;
                stats.drops.insert(name.into(), n);
            }
        }
        stats
    }

    fn stop(mut self) -> io::Result<Stats> {
        while self.receive()? > 0 {}
        self.pipeline.drain(now(), &mut self.verdicts);
        // Nothing is lost by trying for a moment, packets are by giving up.
        for _ in 0..100 {
            self.flush()?;
            if self.verdicts.is_empty() {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(self.stats())
    }
}

struct Woken {
    readable: bool,
    commanded: bool,
}

fn short_of_memory(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN)
    )
}
