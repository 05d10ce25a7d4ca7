// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two ends of a flow.

use std::collections::VecDeque;

use makeway_core::measure::Histogram;
use makeway_core::packet::Tag;
use makeway_core::ticket::{ACK, Meter, Tagger};
use makeway_core::units::{self, Duration, Instant};
use makeway_endpoints::MediaFlow;
use makeway_report::flow::{Bytes, Delays, Received, Sent};
use makeway_report::interval::Interval;
use makeway_scenario::departures::Departure;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::tcp::{Receiver, Sender};

/// A flow of the scenario.
pub struct Ends {
    /// Start of its packets' path in the list of all paths: forth, and back.
    pub ways: [u32; 2],
    /// When it begins.
    pub start: Instant,
    /// When its sender falls silent.
    pub stop: Instant,
    /// Bytes of its packets that came to the receiver inside the measured interval, headers included.
    pub ip_bytes: u64,
    /// Tagger of its packets; none, where it is issued nothing.
    pub tags: Option<Box<Tags>>,
    /// Its kind.
    pub kind: Kind,
}

/// Tagger of the packets of a flow.
pub enum Tags {
    /// With tickets.
    Tickets(Tagger),
    /// With in or out of a profile.
    Profile(Meter),
    /// With the tickets of its receiver, which the other tagger puts on acknowledgements.
    Receiver { source: Tagger, sink: Tagger },
}

impl Tags {
    /// The tag of a packet of `len`; where its source hears nothing of it, to be sent is to get through.
    pub fn tag(&mut self, now: Instant, len: units::Bytes, is_heard_of: bool) -> Tag {
        match self {
            Self::Profile(meter) => meter.tag(now, len),
            Self::Tickets(tagger) => {
                if !is_heard_of {
                    tagger.on_through(now, len);
                }
                tagger.tag(now, len)
            }
            Self::Receiver { source, .. } => source.tag(now, len),
        }
    }

    /// This number of bytes on the wire were acknowledged.
    pub fn on_acked(&mut self, now: Instant, bytes: units::Bytes) {
        if let Self::Tickets(tagger) | Self::Receiver { source: tagger, .. } = self {
            tagger.on_through(now, bytes);
        }
    }

    /// The tag of an acknowledgement; none but where tickets are the receiver's.
    pub fn tag_ack(&mut self, now: Instant) -> Tag {
        let Self::Receiver { sink, .. } = self else {
            return Tag(0);
        };
        sink.on_through(now, ACK);
        sink.tag(now, ACK)
    }

    /// An acknowledgement with `tag` came back.
    pub fn hear(&mut self, now: Instant, tag: Tag) {
        if let Self::Receiver { source, .. } = self {
            source.hear(now, tag);
        }
    }
}

/// Kind of a flow.
pub enum Kind {
    /// A TCP connection.
    Tcp(Box<Tcp>),
    /// A stream of datagrams.
    Stream(Box<Stream>),
    /// Datagrams through a sender of their own.
    Media(Box<MediaFlow>),
}

/// A TCP connection, established when it begins.
pub struct Tcp {
    /// The end that sends.
    pub sender: Sender,
    /// The end that receives.
    pub receiver: Receiver,
    /// Bytes that were delivered in order when we last looked.
    pub delivered: u64,
    /// Delivered bytes in the measured interval and by step.
    pub bytes: Bytes,
    /// One-way delays of the segments that were sent in the measured interval.
    pub delays: Delays,
    /// IP and TCP headers of each packet.
    pub headers: u32,
    /// Whether data says that it understands marks.
    pub ecn: bool,
    /// A download with an end.
    pub tasks: Option<Box<Tasks>>,
}

impl Tcp {
    /// `payload` as packets, their headers included.
    pub fn in_packets(&self, payload: u64) -> units::Bytes {
        let packets = payload.div_ceil(u64::from(self.sender.mss()));
        units::Bytes::new(payload + packets * u64::from(self.headers))
    }

    /// When the sender has something to do, unless an acknowledgement comes.
    pub fn next(&self) -> Option<Instant> {
        let task = self.tasks.as_ref().and_then(|tasks| tasks.next);
        let task = task.filter(|at| *at != Instant::FAR_FUTURE);
        match (self.sender.next_timeout(), task) {
            (Some(timer), Some(task)) => Some(timer.min(task)),
            (timer, task) => timer.or(task),
        }
    }

    /// The next task begins, if it is time.
    pub fn begin_task(&mut self, now: Instant) {
        if let Some(tasks) = &mut self.tasks
            && tasks.next.is_some_and(|at| at <= now)
        {
            tasks.begin(now);
            self.sender.send(units::Bytes::new(tasks.bytes));
        }
    }
}

/// Downloads of this size one after the other, over one connection.
pub struct Tasks {
    /// Bytes of each download.
    pub bytes: u64,
    /// Mean time from the end of one to the beginning of the next, in ns; nothing where there is one.
    pub think: Option<f64>,
    /// From the beginning of one to that of the next, whether it is done or not.
    pub every: Option<Duration>,
    /// Offset behind the last byte of the latest.
    pub end: u64,
    /// For each that began and is not done, the offset behind its last byte, and when it began.
    pub open: VecDeque<(u64, Instant)>,
    /// When the next begins.
    pub next: Option<Instant>,
    /// How long they took.
    pub times: Histogram,
    /// Downloads done, by step.
    pub steps: Vec<u64>,
    /// The random stream of the times between.
    pub rng: Pcg64Mcg,
}

impl Tasks {
    /// The next one begins.
    fn begin(&mut self, now: Instant) {
        self.end += self.bytes;
        self.open.push_back((self.end, now));
        self.next = self.every.map(|every| now + every);
    }

    /// Ends the downloads that have been `delivered`.
    pub fn deliver(&mut self, now: Instant, delivered: u64, interval: Interval) {
        let before = self.open.len();
        while let Some((end, began)) = self.open.front().copied()
            && end <= delivered
        {
            self.open.pop_front();
            if interval.measures(began.as_nanos()) && interval.measures(now.as_nanos()) {
                self.times.record(now.saturating_since(began));
            }
            if let Some(step) = self.steps.get_mut(interval.step_of(now.as_nanos())) {
                *step += 1;
            }
        }
        if self.open.len() == before || self.every.is_some() {
            return;
        }
        self.next = Some(match self.think {
            None => Instant::FAR_FUTURE,
            Some(mean) => {
                let unit: f64 = Exp1.sample(&mut self.rng);
                now + Duration::from_nanos((unit * mean) as u64)
            }
        });
    }
}

/// A stream of datagrams, and what its ends count.
pub struct Stream {
    /// The next packet.
    pub next: Option<Departure>,
    /// The packet after that.
    pub departures: Box<dyn Iterator<Item = Departure> + Send>,
    /// Counted by the sender.
    pub sent: Sent,
    /// Counted by the receiver.
    pub received: Received,
}
