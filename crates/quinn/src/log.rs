// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a sender: the path of each datagram through the queue, and the target rate and the network beside it.
//!
//! [`Sender::log_to`](super::Sender::log_to) takes a [`Log`]; a [`FileLog`] in the format [`Qlog`], or in a
//! [`Format`] of the application's, is one.

#[cfg(feature = "qlog")]
mod qlog;

use std::collections::BTreeMap;

use makeway_core::sched::Backlog;
use makeway_core::send::{Datagram, DatagramId, Event, FrameId, Outcome};
use makeway_core::units::{Duration, Instant, Rate};

pub use makeway_log::{FileLog, Format, Log, Sink};
#[cfg(feature = "qlog")]
pub use qlog::Qlog;

/// Shortest time between two states.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

/// An event of a sender. Times are those of [`Sender::now`](super::Sender::now).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// A datagram was handed over.
    Queued(Logged),
    /// At this time a datagram was sent or dropped. `None`: it waited when the last handle of the sender was dropped.
    Ended(Instant, Logged, Option<Outcome>),
    /// Target rate, queue and network, at this time.
    State(Instant, State),
}

/// A datagram of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// Its number.
    pub id: DatagramId,
    /// Its attributes.
    pub datagram: Datagram,
    /// The frame of [`Sender::send_frame`](super::Sender::send_frame) that it is a part of.
    pub frame: Option<FrameId>,
    /// Time at which it was handed over.
    pub queued: Instant,
}

/// State of the target rate, of the queue and of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// Target rate of the encoder.
    pub target: Rate,
    /// Datagrams that wait, and their payload.
    pub backlog: Backlog,
    /// One-way delay by which datagrams are judged.
    pub one_way: Duration,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Shortest round-trip time.
    pub min_rtt: Duration,
    /// Congestion window in bytes.
    pub window: u64,
}

/// Makes records of the events of a sender. Its memory is bounded by the queue.
pub(crate) struct Recorder {
    log: Box<dyn Log<Record>>,
    /// In the queue.
    waiting: BTreeMap<DatagramId, Logged>,
    /// Outcomes of the sender that are recorded, those before the log included.
    pub made: u64,
    next_state: Instant,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder for a sender that has made this number of outcomes.
    pub fn new(log: Box<dyn Log<Record>>, made: u64) -> Self {
        Self {
            log,
            waiting: BTreeMap::new(),
            made,
            next_state: Instant::ZERO,
        }
    }

    pub fn on_queued(&mut self, logged: Logged) {
        self.waiting.insert(logged.id, logged);
        self.log.record(&Record::Queued(logged));
    }

    /// Outcomes of datagrams that came before the log are left out.
    pub fn on_event(&mut self, now: Instant, event: &Event) {
        if let Event::Outcome(id, _, outcome) = event
            && let Some(logged) = self.waiting.remove(id)
        {
            self.log.record(&Record::Ended(now, logged, Some(*outcome)));
        }
    }

    /// Whether a state is due.
    pub fn wants_state(&self, now: Instant) -> bool {
        now >= self.next_state
    }

    pub fn on_state(&mut self, now: Instant, state: State) {
        self.next_state = now + STATE_INTERVAL;
        self.log.record(&Record::State(now, state));
    }

    /// The log has ended.
    pub fn end(mut self, now: Instant) {
        for logged in std::mem::take(&mut self.waiting).into_values() {
            self.log.record(&Record::Ended(now, logged, None));
        }
    }
}
