// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that moves packets: the only place of the datapath that knows clock and socket.

use std::cmp::Reverse;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use makeway_core::sched::SpecError;
use makeway_core::units::{Duration, Instant, Rate};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};

use super::Change;
use super::message::Message;
use super::nfqueue::{BATCH, Batch, Queue, Verdicts};
use super::pipeline::{Pipeline, SeenFlow};
use super::stats::{Stats, Traffic, reason};
use crate::rules::{Direction, Rules};

/// Most departures between two looks at what arrives.
const ROUND: usize = 2 * BATCH;

/// The shortest sleep: 20 us, chosen by us. Above about 500 Mbit/s packets are due closer to each
/// other than a timer can tell; those due in one such time leave together, and the shaper keeps the
/// rate exact.
const GRAIN_NS: u64 = 20_000;

/// The longest sleep: 250 ms, chosen by us. Each round is a sign of life.
const BEAT_NS: u64 = 250_000_000;

/// A thread that runs before ordinary work leaves it a fifth of a processor: after a time at work as long as `STINT` of which it slept
/// less, it sleeps for `PAUSE`. Chosen by us. Without it a flood would keep everything else of this processor waiting, `makeway down`
/// included: the kernel gives ordinary work 50 ms then, after 950 ms.
const STINT: StdDuration = StdDuration::from_millis(8);
const PAUSE: StdDuration = StdDuration::from_millis(2);

/// How long an answer may take. Nothing of the datapath's own takes so long.
const PATIENCE: StdDuration = StdDuration::from_secs(1);

/// Flows that are copied for somebody between two looks at what arrives.
const COPIED_FLOWS: usize = 128;

/// Batches that are received after the end was asked for, while rules still bring packets: more than the kernel's queue
/// holds by default, chosen by us.
const LAST_BATCHES: usize = 1024;

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
    Snapshot(Sender<Part>),
    Change(Change, Sender<Result<(), SpecError>>),
    Stop,
}

/// Part of an answer that would take too long at once.
enum Part {
    Flows(Vec<SeenFlow>),
    /// The last: everything but the flows.
    Rest(Instant, Box<Stats>),
}

/// Why a running datapath did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// It ended by itself.
    #[error("the datapath has ended: {0}")]
    Ended(String),
    /// It stands still.
    #[error("the datapath does not answer")]
    Silent,
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
    pulse: Arc<Pulse>,
    thread: Option<JoinHandle<io::Result<Stats>>>,
    queue_num: u16,
}

/// Signs of life of the thread, for others to read at any time.
#[derive(Debug, Default)]
struct Pulse {
    beat: AtomicU64,
    rate: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    backlog: AtomicU64,
}

impl Pulse {
    fn beat(&self) {
        self.beat.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self, pipeline: &Pipeline) {
        let traffic = pipeline.traffic();
        let pairs = [&self.rate, &self.bytes_in, &self.bytes_out, &self.backlog];
        for (place, value) in pairs.into_iter().zip(traffic) {
            place.store(value, Ordering::Relaxed);
        }
    }
}

impl DatapathHandle {
    pub(super) fn start(queue: Queue, pipeline: Pipeline) -> io::Result<Self> {
        let (commands, receiver) = mpsc::channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let woken = wake.try_clone()?;
        let pulse = Arc::new(Pulse::default());
        let shown = Arc::clone(&pulse);
        let queue_num = queue.number();
        pulse.tell(&pipeline);
        let thread = thread::Builder::new()
            .name(format!("datapath-{queue_num}"))
            .spawn(move || {
                let stint = hurry().then(Stint::begin);
                Runner::new(queue, pipeline, receiver, woken, shown).run(stint)
            })?;
        Ok(Self {
            commands,
            wake,
            pulse,
            thread: Some(thread),
            queue_num,
        })
    }

    /// The number of the packet queue, for the rules that send packets there.
    pub fn queue_num(&self) -> u16 {
        self.queue_num
    }

    /// Counters so far.
    ///
    /// # Errors
    /// If the datapath has ended by itself, or stands still.
    pub fn snapshot(&self) -> Result<Stats, DatapathError> {
        self.largest(usize::MAX)
    }

    /// Likewise, with at most this number of flows: those with the largest backlogs. Flows are as of a moment each.
    ///
    /// # Errors
    /// As [`Self::snapshot`].
    pub fn largest(&self, most: usize) -> Result<Stats, DatapathError> {
        let (to, parts) = mpsc::channel();
        self.send(Command::Snapshot(to));
        let mut flows = Vec::new();
        loop {
            match parts.recv_timeout(PATIENCE)? {
                Part::Flows(more) => flows.extend(more),
                Part::Rest(now, rest) => {
                    keep_largest(&mut flows, most);
                    flows.sort_unstable_by_key(|flow| Reverse(flow.size()));
                    let flows = flows.iter().map(|flow| flow.told(now)).collect();
                    return Ok(Stats { flows, ..*rest });
                }
            }
            if flows.len() >= most.saturating_mul(4) {
                keep_largest(&mut flows, most);
            }
        }
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
        Ok(answers.recv_timeout(PATIENCE)??)
    }

    /// Marks as the rules behind the queue can, instead of dropping, what understands marks (RFC 3168).
    ///
    /// # Errors
    /// If the datapath has ended.
    pub fn mark_by(&self, rules: &Rules) -> Result<(), DatapathError> {
        self.set(Change {
            marking: Some(rules.marking()),
            ..Change::default()
        })
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Counts up as long as it is at work, some times a second at least.
    pub fn beat(&self) -> u64 {
        self.pulse.beat.load(Ordering::Relaxed)
    }

    /// Traffic so far, as of the thread's last round; without asking it.
    pub fn traffic(&self, direction: Direction) -> Traffic {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Traffic {
            direction,
            rate: Rate::from_bps(read(&self.pulse.rate)),
            bytes_in: read(&self.pulse.bytes_in),
            bytes_out: read(&self.pulse.bytes_out),
            backlog: read(&self.pulse.backlog),
        }
    }

    /// Ends it: all packets that it holds depart at once. Take the rules away first, so that nothing new
    /// comes.
    ///
    /// # Errors
    /// If the datapath had ended by itself, or stands still: then its thread and its queue are left to the end of the process.
    pub fn stop(mut self) -> Result<Stats, DatapathError> {
        self.send(Command::Stop);
        let (mut beat, mut silent) = (self.beat(), StdDuration::ZERO);
        while self.is_running() {
            if silent >= PATIENCE {
                mem::forget(self.thread.take());
                return Err(DatapathError::Silent);
            }
            let wait = StdDuration::from_millis(1);
            thread::sleep(wait);
            silent = if beat == self.beat() {
                silent + wait
            } else {
                StdDuration::ZERO
            };
            beat = self.beat();
        }
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

impl From<mpsc::RecvTimeoutError> for DatapathError {
    fn from(error: mpsc::RecvTimeoutError) -> Self {
        match error {
            mpsc::RecvTimeoutError::Timeout => Self::Silent,
            mpsc::RecvTimeoutError::Disconnected => ended(),
        }
    }
}

/// Forgets all but the `most` largest.
fn keep_largest(flows: &mut Vec<SeenFlow>, most: usize) {
    if flows.len() > most && most > 0 {
        flows.select_nth_unstable_by_key(most - 1, |flow| Reverse(flow.size()));
    }
    flows.truncate(most);
}

fn ended() -> DatapathError {
    DatapathError::Ended("its thread is gone".into())
}

/// Asks the kernel to wake this thread on time; a refusal is no error. Whether it now runs before all ordinary work.
pub(super) fn hurry() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: scalars, and a pointer to a struct that lives through the call; all three apply to
    // the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        let is_first = libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) == 0;
        if !is_first {
            let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
            libc::setpriority(libc::PRIO_PROCESS, thread, -10);
        }
        is_first
    }
}

/// Time at work of a thread that runs before ordinary work.
struct Stint {
    since: Instant,
    cpu_seconds: f64,
}

impl Stint {
    fn begin() -> Self {
        Self {
            since: now(),
            cpu_seconds: thread_cpu_seconds(),
        }
    }

    /// Whether the thread rests now; `None` while the stint goes on.
    fn ends(&self, time: Instant, cpu_seconds: impl FnOnce() -> f64) -> Option<bool> {
        let passed = time.saturating_since(self.since).as_secs_f64();
        let slept = || passed - (cpu_seconds() - self.cpu_seconds);
        (passed >= STINT.as_secs_f64()).then(|| slept() < PAUSE.as_secs_f64())
    }

    fn rest_if_due(&mut self, time: Instant) {
        let Some(rests) = self.ends(time, thread_cpu_seconds) else {
            return;
        };
        if rests {
            thread::sleep(PAUSE);
        }
        *self = Self::begin();
    }
}

struct Runner {
    queue: Queue,
    pipeline: Pipeline,
    commands: Receiver<Command>,
    wake: OwnedFd,
    pulse: Arc<Pulse>,
    /// Clients that are told flows, and the next flow.
    asks: Vec<(Sender<Part>, u32)>,
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
    fn new(
        queue: Queue,
        pipeline: Pipeline,
        commands: Receiver<Command>,
        wake: OwnedFd,
        pulse: Arc<Pulse>,
    ) -> Self {
        let verdicts = Verdicts::new(queue.number(), 2 * ROUND + 2 * BATCH);
        Self {
            batch: queue.batch(),
            queue,
            pipeline,
            commands,
            wake,
            pulse,
            asks: Vec::new(),
            verdicts,
            next_id: 1,
            missed: 0,
            due: None,
            late: Duration::ZERO,
        }
    }

    fn run(mut self, mut stint: Option<Stint>) -> io::Result<Stats> {
        let mut readable = true;
        loop {
            self.pulse.beat();
            self.pipeline.begin_round(&self.verdicts);
            let more = readable && self.receive()? == BATCH;
            let time = now();
            if let Some(due) = self.due.take() {
                self.late = self.late.max(time.saturating_since(due));
            }
            let departed = self.pipeline.depart(time, ROUND, &mut self.verdicts);
            self.pipeline.finish_round(&mut self.verdicts);
            self.flush()?;
            self.pulse.tell(&self.pipeline);
            let is_busy = more || departed >= ROUND;
            readable = is_busy || self.wait()?;
            // In each round: a flood must not keep anybody from being heard.
            if self.obey()? {
                return self.stop();
            }
            self.tell();
            if let Some(stint) = &mut stint {
                stint.rest_if_due(time);
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
            // The rest is written in the next round.
            _ => Ok(()),
        }
    }

    /// Sleeps until there is something to do; whether it is to receive.
    fn wait(&mut self) -> io::Result<bool> {
        // A queue that is short of memory tries again soon.
        const RETRY_NS: u64 = 1_000_000;
        self.due = self.pipeline.next_departure();
        let mut timeout = BEAT_NS;
        if let Some(due) = self.due {
            let left = due.saturating_since(now()).as_nanos();
            timeout = timeout.min(if left == 0 { 0 } else { left.max(GRAIN_NS) });
        }
        if !self.verdicts.is_empty() {
            timeout = timeout.min(RETRY_NS);
        }
        if !self.asks.is_empty() {
            timeout = 0;
        }
        let timeout = Timespec {
            tv_sec: (timeout / 1_000_000_000) as i64,
            tv_nsec: (timeout % 1_000_000_000) as i64,
        };
        let mut fds = [
            PollFd::from_borrowed_fd(self.queue.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[1].revents().is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        // Errors of the socket are found, and cleared, by reading.
        Ok(!fds[0].revents().is_empty())
    }

    /// Does what was asked for; whether to stop.
    fn obey(&mut self) -> io::Result<bool> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Snapshot(to) => self.asks.push((to, 0)),
                Command::Change(change, answer) => {
                    self.pipeline.begin_round(&self.verdicts);
                    let result = self.pipeline.change(now(), &change, &mut self.verdicts);
                    let _ = answer.send(result);
                    self.flush()?;
                }
                Command::Stop => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Sends clients the next flows, and at last the rest. Formatting, which takes long, is theirs.
    fn tell(&mut self) {
        let Some((to, next)) = self.asks.first_mut() else {
            return;
        };
        let flows = self.pipeline.seen_flows(*next, COPIED_FLOWS);
        *next += flows.len() as u32;
        let is_last = flows.len() < COPIED_FLOWS;
        let is_heard = to.send(Part::Flows(flows)).is_ok();
        if is_last || !is_heard {
            let (to, _) = self.asks.remove(0);
            let _ = to.send(Part::Rest(now(), Box::new(self.totals())));
        }
    }

    /// Everything but the flows.
    fn totals(&self) -> Stats {
        self.with_kernel(self.pipeline.totals(now()))
    }

    fn with_kernel(&self, mut stats: Stats) -> Stats {
        stats.cpu_seconds = thread_cpu_seconds();
        stats.late_max_ms = self.late.as_millis_f64();
        // Where the kernel's own counters may not be read, the gaps between identifiers tell of the
        // packets that the socket had no room for. Its queue is longer than what we hold and the
        // socket together, so that one is not full before.
        let kernel = self.queue.kernel_counters();
        let lost = [
            (reason::KERNEL_QUEUE, kernel.map_or(0, |k| k.queue_full)),
            (
                reason::KERNEL_SOCKET,
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
        for _ in 0..LAST_BATCHES {
            if self.receive()? == 0 {
                break;
            }
            self.flush()?;
            self.pulse.beat();
        }
        self.pipeline.drain(now(), &mut self.verdicts);
        // Nothing is lost by trying for a moment, packets are by ending.
        for _ in 0..100 {
            self.flush()?;
            if self.verdicts.is_empty() {
                break;
            }
            thread::sleep(StdDuration::from_millis(1));
        }
        Ok(self.with_kernel(self.pipeline.stats(now())))
    }
}

fn short_of_memory(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN)
    )
}

#[cfg(test)]
mod tests;
