//! A queue, its policy and a rate controller: see [`Sender`].

use std::collections::VecDeque;

use super::{Datagram, DatagramId, Event, Outcome, Policy, Transmit, Waiting};
use crate::rate::{Feedback, FeedbackError, RateController};
use crate::units::{Bytes, Duration, Fraction, Instant};

/// Bounds and thresholds of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most that waits, at least 1.
    pub packets: u32,
    /// The most that waits, payload.
    pub bytes: Bytes,
    /// The longest payload that a packet carries.
    pub largest: u32,
    /// The way to the receiver, where it is known; otherwise half of the RTT is taken for it.
    pub one_way: Option<Duration>,
    /// [`Event::Low`] comes when less than so much waits.
    pub low: Bytes,
    /// [`Event::Target`] comes when the rate has moved by this part.
    pub hysteresis: Fraction,
}

impl Default for Config {
    /// 32 packets, as many as 16 KiB of TCP's buffer hold (SBPN paper, Fig. 5).
    fn default() -> Self {
        Self {
            packets: 32,
            bytes: Bytes::new(64 * 1024),
            largest: 1400,
            one_way: None,
            low: Bytes::new(0),
            hysteresis: Fraction::ratio(1, 10),
        }
    }
}

/// Sends the best datagram next, at the rate of its controller.
#[derive(Clone, Debug)]
pub struct Sender<R, P, T> {
    config: Config,
    rate: R,
    policy: P,
    queue: VecDeque<(Waiting, T)>,
    events: VecDeque<Event>,
    next_id: u64,
    next_sequence: u64,
}

impl<R: RateController, P: Policy, T> Sender<R, P, T> {
    /// An empty queue.
    pub fn new(config: Config, rate: R, policy: P) -> Self {
        Self {
            config,
            rate,
            policy,
            queue: VecDeque::new(),
            events: VecDeque::new(),
            next_id: 0,
            next_sequence: 0,
        }
    }

    /// Takes a datagram. What becomes of it, or of another for it, is an event.
    pub fn enqueue(&mut self, now: Instant, datagram: Datagram, payload: T) -> DatagramId {
        let id = DatagramId(self.next_id);
        self.next_id += 1;
        let outcome = if datagram.len > self.config.largest {
            Some(Outcome::TooLarge)
        } else if self.queue.len() >= self.config.packets as usize {
            Some(Outcome::Evicted)
        } else {
            None
        };
        match outcome {
            Some(outcome) => self.events.push_back(Event::Outcome(id, datagram, outcome)),
            None => {
                let waiting = Waiting {
                    id,
                    datagram,
                    since: now,
                };
                let key = self.policy.key(&waiting);
                let at = self
                    .queue
                    .partition_point(|(w, _)| self.policy.key(w) <= key);
                self.queue.insert(at, (waiting, payload));
            }
        }
        id
    }

    /// The datagram to send now, if its controller allows one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<T>> {
        if self.rate.next_send().is_none_or(|at| at > now) {
            return None;
        }
        let Some((waiting, payload)) = self.queue.pop_front() else {
            self.rate.on_nothing_to_send(now);
            return None;
        };
        let late = now + self.one_way() > waiting.datagram.deadline;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.rate.on_sent(now, sequence, waiting.datagram.len);
        let outcome = Outcome::Sent {
            waited: now.saturating_since(waiting.since),
            late,
        };
        self.events
            .push_back(Event::Outcome(waiting.id, waiting.datagram, outcome));
        Some(Transmit {
            id: waiting.id,
            sequence,
            datagram: waiting.datagram,
            payload,
        })
    }

    /// What the receiver reports. What cannot be true changes nothing.
    pub fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback,
    ) -> Result<(), FeedbackError> {
        self.rate.on_feedback(now, feedback)
    }

    /// When to call [`Sender::poll_transmit`] or [`Sender::handle_timeout`] again, unless something comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let send = self.rate.next_send().filter(|_| !self.queue.is_empty());
        match (send, self.rate.next_timeout()) {
            (Some(send), Some(timeout)) => Some(send.min(timeout)),
            (send, timeout) => send.or(timeout),
        }
    }

    /// A timer of the controller may have run out.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.rate.next_timeout().is_some_and(|at| at <= now) {
            self.rate.on_timeout(now);
        }
    }

    /// What the application should know, in order of happening.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The controller.
    pub fn rate(&self) -> &R {
        &self.rate
    }

    fn one_way(&self) -> Duration {
        let half = || self.rate.rtt().map_or(Duration::ZERO, |rtt| rtt / 2);
        self.config.one_way.unwrap_or_else(half)
    }
}
