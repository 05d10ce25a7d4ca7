// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

pub mod log;
mod rate;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time;

use bytes::Bytes;
use makeway_core::rate::RateController;
use makeway_core::send::{
    AnyPolicy, Config, Datagram, DatagramId, Event, Frame, FrameError, FrameId, Policy, Stats,
};
use makeway_core::units::{Duration, Instant};
use quinn::{Connection, ConnectionError, SendDatagramError};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use log::{Log, Logged, Record, Recorder, State};
pub use makeway_core::send;
pub use makeway_core::units;
use rate::PathRate;

/// For `TransportConfig::datagram_send_buffer_size`: one packet of Ethernet, and what quinn counts for each datagram.
pub const AHEAD: usize = 1500 + size_of::<Bytes>();

/// The most that quinn may hold: more would wait where no policy reaches it. Chosen by us: 43 packets.
const AHEAD_MOST: usize = 64 << 10;

/// A datagram of this length fits no packet, so that quinn refuses it.
const TOO_LONG: usize = 1 << 16;

/// Why datagrams cannot be sent over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The peer did not offer `max_datagram_frame_size`, or this end has switched datagrams off
    /// (`TransportConfig::datagram_receive_buffer_size`, also where it only sends).
    #[error("the connection carries no datagrams: both ends must enable them (RFC 9221)")]
    NoDatagrams,
    /// The transport configuration was left as it is.
    #[error(
        "quinn would queue up to {0} B of datagrams itself, first in, first out: set \
         TransportConfig::datagram_send_buffer_size to makeway_quinn::AHEAD, at most {AHEAD_MOST} B"
    )]
    Buffer(usize),
}

/// Why a frame was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendFrameError {
    /// The connection is closed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The sender does not take it.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Sends datagrams over a connection, the best next. Clones share one queue; when the last is dropped, its backlog is lost.
#[derive(Debug)]
pub struct Sender<P = AnyPolicy> {
    pump: Arc<Pump<P>>,
}

impl<P> Clone for Sender<P> {
    fn clone(&self) -> Self {
        Self {
            pump: self.pump.clone(),
        }
    }
}

/// The task that feeds quinn, and its queue.
#[derive(Debug)]
struct Pump<P> {
    task: AbortHandle,
    shared: Arc<Shared<P>>,
}

impl<P> Drop for Pump<P> {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.end_log();
    }
}

/// The queue, and its log.
#[derive(Debug)]
struct Queue<P> {
    sender: send::Sender<PathRate, P, Bytes>,
    recorder: Option<Recorder>,
}

#[derive(Debug)]
struct Shared<P> {
    connection: Connection,
    /// The longest datagram that quinn's queue holds, once it has refused a longer one. Its free room at first says nothing of
    /// that: the application may have sent datagrams before.
    room: AtomicU32,
    zero: time::Instant,
    queue: Mutex<Queue<P>>,
    /// Something was enqueued.
    came: Notify,
    /// There may be an event, or nothing waits any more.
    happened: Notify,
}

impl<P: Policy + Send + 'static> Sender<P> {
    /// Sends over `connection` until it is closed. `config.largest` follows the path's MTU.
    ///
    /// # Errors
    /// [`SetupError`] says what to change.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time.
    pub fn new(connection: Connection, config: Config, policy: P) -> Result<Self, SetupError> {
        let room = connection.datagram_send_buffer_space();
        if room > AHEAD_MOST {
            return Err(SetupError::Buffer(room));
        }
        let config = Config {
            largest: largest(&connection).ok_or(SetupError::NoDatagrams)?,
            ..config
        };
        // The longest datagram is by the peer's word alone; that this end has none, quinn says only of one to be sent.
        let unsent = connection.send_datagram(Bytes::from(vec![0; TOO_LONG]));
        if unsent == Err(SendDatagramError::Disabled) {
            return Err(SetupError::NoDatagrams);
        }
        let rate = PathRate::new(connection.clone());
        let shared = Arc::new(Shared {
            connection,
            room: AtomicU32::new(u32::MAX),
            zero: time::Instant::now(),
            queue: Mutex::new(Queue {
                sender: send::Sender::new(config, rate, policy),
                recorder: None,
            }),
            came: Notify::new(),
            happened: Notify::new(),
        });
        let task = tokio::spawn(shared.clone().pump()).abort_handle();
        Ok(Self {
            pump: Arc::new(Pump { task, shared }),
        })
    }

    fn shared(&self) -> &Shared<P> {
        &self.pump.shared
    }

    /// Logs events from now on: begin before the first datagram. A log that was there before ends. The log ends when the last clone of this is
    /// dropped, with the datagrams that wait then; those that came before it are not logged.
    ///
    /// ```no_run
    /// # async fn call(sender: makeway_quinn::Sender) -> std::io::Result<()> {
    /// let log = makeway_quinn::log::FileLog::create("call.sqlog", sender.qlog())?;
    /// sender.log_to(log.sink());
    /// // ... the call, then:
    /// drop(sender);
    /// let left_out = log.finish()?;
    /// # Ok(()) }
    /// ```
    pub fn log_to(&self, log: impl Log<Record> + 'static) {
        let shared = self.shared();
        shared.end_log();
        let mut queue = shared.queue();
        let made = queue.sender.outcomes_made();
        queue.recorder = Some(Recorder::new(Box::new(log), made));
    }

    /// The format of an event log in qlog, with the time of this sender.
    #[cfg(feature = "qlog")]
    pub fn qlog(&self) -> log::Qlog {
        let shared = self.shared();
        log::Qlog::new(shared.connection.side(), shared.zero)
    }

    /// The time that deadlines are told in: it counts from [`Sender::new`].
    pub fn now(&self) -> Instant {
        self.shared().now()
    }

    /// The deadline of what must arrive within `patience` from now.
    pub fn within(&self, patience: impl Into<Duration>) -> Instant {
        self.now() + patience.into()
    }

    /// Takes a datagram; see [`Datagram`] for the first three. Its outcome, or that of another dropped for it, is an event.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send(
        &self,
        class: u8,
        deadline: Instant,
        frame: Option<u32>,
        payload: Bytes,
    ) -> Result<DatagramId, ConnectionError> {
        let shared = self.shared();
        if let Some(reason) = shared.connection.close_reason() {
            return Err(reason);
        }
        let datagram = Datagram {
            class,
            len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            deadline,
            frame,
        };
        let mut queue = shared.queue();
        let now = shared.now();
        shared.follow_mtu(&mut queue);
        let id = queue.sender.enqueue(now, datagram, payload);
        queue.log_queued(Logged {
            id,
            datagram,
            frame: None,
            queued: now,
        });
        queue.log_events(now);
        shared.came.notify_one();
        shared.happened.notify_waiters();
        Ok(id)
    }

    /// Takes a frame in its datagrams, admitted as a whole ([`send::Sender::enqueue_frame`]): its number, and that of its first datagram. The
    /// outcome of the frame, and of each datagram, is an event.
    ///
    /// # Errors
    /// [`SendFrameError`]; nothing is taken.
    pub fn send_frame(
        &self,
        frame: &Frame<'_>,
        datagrams: &[Bytes],
    ) -> Result<(FrameId, DatagramId), SendFrameError> {
        let shared = self.shared();
        if let Some(reason) = shared.connection.close_reason() {
            return Err(reason.into());
        }
        let len = |payload: &Bytes| u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let parts = datagrams
            .iter()
            .map(|payload| (len(payload), payload.clone()));
        let mut queue = shared.queue();
        let now = shared.now();
        shared.follow_mtu(&mut queue);
        let ids = queue.sender.enqueue_frame(now, frame, parts)?;
        for (id, payload) in (ids.1.0..).zip(datagrams) {
            queue.log_queued(Logged {
                id: DatagramId(id),
                datagram: Datagram {
                    class: frame.class,
                    len: len(payload),
                    deadline: frame.deadline,
                    frame: None,
                },
                frame: Some(ids.0),
                queued: now,
            });
        }
        queue.log_events(now);
        shared.came.notify_one();
        shared.happened.notify_waiters();
        Ok(ids)
    }

    /// The next event; waits for one. `None`: the connection is closed and no event is left.
    pub async fn event(&self) -> Option<Event> {
        let mut event = None;
        self.shared()
            .wait(|queue| {
                event = queue.sender.poll_event();
                event.is_some()
            })
            .await;
        event
    }

    /// Outcomes of the datagrams so far.
    pub fn stats(&self) -> Stats {
        self.shared().queue().sender.stats().clone()
    }

    /// Waits until nothing waits here, or the connection is closed. Up to [`AHEAD`] bytes may still wait in quinn, and are lost
    /// if the connection is closed now.
    pub async fn drained(&self) {
        let empty = |queue: &mut Queue<P>| queue.sender.backlog().packets == 0;
        self.shared().wait(empty).await;
    }
}

impl<P> Queue<P> {
    fn log_queued(&mut self, logged: Logged) {
        if let Some(recorder) = &mut self.recorder {
            recorder.on_queued(logged);
        }
    }
}

impl<P: Policy> Queue<P> {
    /// Logs outcomes that are new, and the state where it is due.
    fn log_events(&mut self, now: Instant) {
        let Self { sender, recorder } = self;
        let Some(recorder) = recorder else { return };
        for event in sender.outcomes_since(recorder.made) {
            recorder.on_event(now, event);
        }
        recorder.made = sender.outcomes_made();
        if recorder.wants_state(now) {
            let (rtt, min_rtt, window) = sender.rate().metrics();
            let state = State {
                target: sender.rate().target_rate(),
                backlog: sender.backlog(),
                one_way: sender.one_way(),
                rtt,
                min_rtt,
                window,
            };
            recorder.on_state(now, state);
        }
    }
}

impl<P> Shared<P> {
    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from(self.zero.elapsed())
    }

    /// No code that holds the lock leaves a state that another may not see.
    fn queue(&self) -> MutexGuard<'_, Queue<P>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_log(&self) {
        let mut queue = self.queue();
        if let Some(recorder) = queue.recorder.take() {
            recorder.end(self.now());
        }
    }
}

impl<P: Policy> Shared<P> {
    /// Waits until it is as wanted, or the connection is closed.
    async fn wait(&self, mut is_so: impl FnMut(&mut Queue<P>) -> bool) {
        loop {
            let mut happened = pin!(self.happened.notified());
            happened.as_mut().enable();
            let closed = self.connection.close_reason().is_some();
            if is_so(&mut self.queue()) || closed {
                return;
            }
            tokio::select! {
                () = happened => {}
                _ = self.connection.closed() => {}
            }
        }
    }

    fn follow_mtu(&self, queue: &mut Queue<P>) {
        if let Some(largest) = largest(&self.connection) {
            let room = self.room.load(Ordering::Relaxed);
            queue.sender.set_largest(largest.min(room));
        }
    }

    /// A look at the path is due.
    fn look(&self) {
        let mut queue = self.queue();
        let now = self.now();
        queue.sender.handle_timeout(now);
        queue.log_events(now);
        self.happened.notify_waiters();
    }

    async fn pump(self: Arc<Self>) {
        loop {
            let look = self.queue().sender.rate().next_timeout();
            let look = look.unwrap_or(Instant::FAR_FUTURE).as_nanos();
            tokio::select! {
                _ = self.connection.closed() => return,
                () = self.feed() => return,
                () = sleep_until((self.zero + time::Duration::from_nanos(look)).into()) => {
                    self.look();
                }
            }
        }
    }

    /// Offers quinn the best datagram each time that one came or quinn has room, until the connection is closed.
    ///
    /// An offer that quinn cannot take stays, to be woken by it, and is never asked again: the next offer is of what is best then.
    async fn feed(&self) {
        let mut came = pin!(self.came.notified());
        let mut offer = pin!(None);
        poll_fn(|context| {
            while came.as_mut().poll(context).is_ready() {
                came.set(self.came.notified());
            }
            // One lock from the choice to the removal, so that it is the same datagram.
            let mut queue = self.queue();
            loop {
                let now = self.now();
                let best = queue.sender.peek(now);
                let best = best.map(|(_, payload)| payload.clone());
                queue.log_events(now);
                self.happened.notify_waiters();
                let Some(payload) = best else {
                    offer.set(None);
                    return Poll::Pending;
                };
                let len = payload.len() as u32;
                offer.set(Some(self.connection.send_datagram_wait(payload)));
                match offer.as_mut().as_pin_mut().map(|offer| offer.poll(context)) {
                    Some(Poll::Ready(Ok(()))) => {
                        queue.sender.poll_transmit(now);
                        queue.log_events(now);
                    }
                    // The path's MTU has shrunk, or quinn's queue is smaller than it.
                    Some(Poll::Ready(Err(SendDatagramError::TooLarge))) => {
                        if largest(&self.connection).is_some_and(|largest| len <= largest) {
                            self.room.store(len.saturating_sub(1), Ordering::Relaxed);
                        }
                        self.follow_mtu(&mut queue);
                    }
                    Some(Poll::Ready(Err(_))) => return Poll::Ready(()),
                    Some(Poll::Pending) | None => return Poll::Pending,
                }
            }
        })
        .await;
    }
}

/// The longest datagram that fits a packet; `None`: the connection carries none.
fn largest(connection: &Connection) -> Option<u32> {
    let packet = connection.max_datagram_size()?;
    Some(u32::try_from(packet).unwrap_or(u32::MAX))
}

// Some of them read qlog.
#[cfg(feature = "qlog")]
#[cfg(test)]
mod tests;
