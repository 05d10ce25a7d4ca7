// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

pub mod observe;

use std::collections::VecDeque;
use std::sync::Arc;

use makeway_core::packet::Ecn;
use makeway_core::rate::packets::PacketsReceiver;
use makeway_core::rate::{
    AnyController, AnyReporter, Arrival, Config, Feedback, RateController, Report, Reporter,
};
use makeway_core::send::{self, AnyPolicy, Event, FrameId, Outcome, Sender};
use makeway_core::units::{Duration, Instant, Rate};
use makeway_report::delivery::{Came, Class, Errors};
use makeway_report::flow::{Received, Sent};
use makeway_report::interval::Interval;
use makeway_scenario::departures::{Unit, Units};
use makeway_scenario::model::{self, Traffic};
use observe::{Observation, Observer};

/// A stream that always has more keeps this number of datagrams waiting; chosen by us, so that they are fresh.
const AHEAD: u32 = 2;
/// IPv4, DCCP-Ack with long sequence numbers (RFC 4340 §5.1), and the options Elapsed Time, Loss Event Rate and Receive
/// Rate (RFC 4342 §8), padded.
const FEEDBACK: u32 = 64;
/// IPv4, UDP, and a report of RFC 8888 on one stream without its packets (§3.1).
const RFC8888: u32 = 28 + 20;

/// Frames that the sender took as a whole and later ones may depend on: the latest. Chosen by us.
const KNOWN: usize = 64;

/// A flow with a sender of its own.
pub struct MediaFlow {
    media: Arc<model::Media>,
    start: Instant,
    sender: Sender<AnyController, AnyPolicy, Unit>,
    reporter: AnyReporter,
    units: Units,
    /// Datagrams of a frame that is handed over as a whole; empty between two.
    parts: Vec<(u32, Unit)>,
    /// Class and number of each such frame, and the sender's number of it.
    taken: VecDeque<(u8, u32, FrameId)>,
    /// For each class that always has more, its datagrams that wait and their size.
    streams: Vec<Stream>,
    /// Outcomes of datagrams, by class.
    pub classes: Vec<Class>,
    /// Packets that the sender sent.
    pub sent: Sent,
    /// Packets that came.
    pub received: Received,
    /// Its packets at radios when the receiver last reported.
    waiting: u64,
    /// How wrong ABRC's estimates of those were.
    pub errors: Errors,
    /// Rate allowed at the beginning of each step, bit/s.
    pub rates: Vec<f64>,
    /// Observer, where a program sets the rate.
    observer: Option<Box<Observer>>,
}

/// A class that always has more.
struct Stream {
    class: u8,
    bytes: u32,
    waiting: u32,
    made: u32,
}

/// A packet of such a flow.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its place on the wire.
    pub sequence: u64,
    /// When the application made what it carries.
    pub created: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// The number of its frame, and how many packets that has.
    pub frame: u32,
    /// As [`Packet::frame`].
    pub parts: u16,
    /// Its class.
    pub class: u8,
    /// How many numbers back the frames are that its own depends on; 0: none.
    pub refers: [u8; 2],
    /// The sender's estimate of the RTT in us; zero where it has none.
    pub rtt: u32,
}

impl MediaFlow {
    /// At its start. `units` are what its application makes.
    pub fn new(
        media: &Arc<model::Media>,
        units: Units,
        start: Instant,
        interval: Interval,
    ) -> Self {
        let classes = media.classes.iter();
        let streams = (0..)
            .zip(&media.classes)
            .filter_map(|(class, of)| match of.traffic {
                Traffic::Always { payload } => Some(Stream {
                    class,
                    bytes: payload.get() as u32,
                    waiting: 0,
                    made: 0,
                }),
                _ => None,
            });
        Self {
            sender: Sender::new(media.queue, media.rate.controller(), media.policy),
            reporter: match media.rate {
                // A program that sets the rate knows no more than SCReAM and GCC do.
                Config::External(_) => AnyReporter::Packets(PacketsReceiver::default()),
                _ => media.rate.reporter(),
            },
            start,
            units,
            parts: Vec::new(),
            taken: VecDeque::with_capacity(KNOWN),
            streams: streams.collect(),
            classes: classes
                .map(|class| Class::new(class.name, class.traffic.period(), interval))
                .collect(),
            sent: Sent::new(interval),
            received: Received::new(interval),
            waiting: 0,
            errors: Errors::default(),
            rates: Vec::with_capacity(interval.steps().len()),
            observer: None,
            media: Arc::clone(media),
        }
    }

    /// ECN field of its packets.
    pub fn ecn(&self) -> Ecn {
        self.media.ecn
    }

    /// Runs the sender's timers.
    pub fn wake(&mut self, now: Instant, interval: Interval) {
        self.sender.handle_timeout(now);
        self.hear(interval);
    }

    /// Hands the sender the next datagram, or frame of a trace, that the application has made by `now`, if there is one; whether there
    /// was. `more` is how many those may be that are made as they are sent.
    fn make(&mut self, now: Instant, interval: Interval, more: &mut u32) -> bool {
        let due = self.units.next_at().map(|at| self.after_start(at));
        let unit = match due {
            Some(at) if at <= now => self.units.next(),
            _ if *more > 0 => {
                *more -= 1;
                self.more(now)
            }
            _ => None,
        };
        if let Some(unit) = unit {
            match self.media.whole_frames && self.is_of_trace(unit.class) {
                true => self.hand_over_frame(now, unit, interval),
                false => self.hand_over(now, unit, interval),
            }
            self.hear(interval);
        }
        unit.is_some()
    }

    /// Data that the sender has room for, of a class that always has more.
    fn more(&mut self, now: Instant) -> Option<Unit> {
        let at = now.saturating_since(self.start).as_nanos();
        let stream = self
            .streams
            .iter_mut()
            .find(|stream| stream.waiting < AHEAD)?;
        stream.waiting += 1;
        stream.made = stream.made.wrapping_add(1);
        Some(Unit {
            at,
            class: stream.class,
            bytes: stream.bytes,
            frame: stream.made,
            parts: 1,
            refers: [0; 2],
        })
    }

    fn after_start(&self, ns: u64) -> Instant {
        self.start + Duration::from_nanos(ns)
    }

    fn hand_over(&mut self, now: Instant, unit: Unit, interval: Interval) {
        let created = self.after_start(unit.at);
        let class = &mut self.classes[usize::from(unit.class)];
        class.offer(interval, created.as_nanos(), unit.frame);
        let datagram = send::Datagram {
            class: unit.class,
            len: unit.bytes,
            deadline: created + self.media.deadline,
            frame: (self.media.whole_frames && unit.parts > 1).then_some(unit.frame),
        };
        self.sender.enqueue(now, datagram, unit);
    }

    /// Whether the frames of a class are those of an encoder, which depend on each other.
    fn is_of_trace(&self, class: u8) -> bool {
        let of = self.media.classes.get(usize::from(class));
        of.is_some_and(|of| matches!(of.traffic, Traffic::Coded { .. }))
    }

    /// Hands over all datagrams of a frame, of which `first` is one, with the frames that it depends on.
    fn hand_over_frame(&mut self, now: Instant, first: Unit, interval: Interval) {
        let created = self.after_start(first.at);
        self.parts.push((first.bytes, first));
        // They are made at once, and next.
        let rest = usize::from(first.parts).saturating_sub(1);
        let rest = self.units.by_ref().take(rest);
        self.parts.extend(rest.map(|unit| (unit.bytes, unit)));
        let class = &mut self.classes[usize::from(first.class)];
        for _ in &self.parts {
            class.offer(interval, created.as_nanos(), first.frame);
        }
        let mut depends_on = [FrameId(0); 2];
        let mut depends = 0;
        for back in first.refers.into_iter().filter(|back| *back > 0) {
            let number = first.frame.wrapping_sub(u32::from(back));
            let mut taken = self.taken.iter().rev();
            let found = taken.find(|(class, of, _)| (*class, *of) == (first.class, number));
            if let Some((.., id)) = found {
                depends_on[depends] = *id;
                depends += 1;
            }
        }
        let frame = send::Frame {
            class: first.class,
            deadline: created + self.media.deadline,
            depends_on: &depends_on[..depends],
        };
        let parts = self.parts.iter().copied();
        if let Ok((id, _)) = self.sender.enqueue_frame(now, &frame, parts) {
            if self.taken.len() == KNOWN {
                self.taken.pop_front();
            }
            self.taken.push_back((first.class, first.frame, id));
        }
        self.parts.clear();
    }

    /// Takes the events of the sender: outcomes and target rates.
    fn hear(&mut self, interval: Interval) {
        while let Some(event) = self.sender.poll_event() {
            match event {
                Event::Outcome(_, datagram, outcome) => {
                    let created = datagram.deadline - self.media.deadline;
                    self.classes[usize::from(datagram.class)].end(
                        interval,
                        created.as_nanos(),
                        outcome,
                    );
                    // One that is too large would be so again.
                    let is_lost = !matches!(outcome, Outcome::Sent { .. } | Outcome::TooLarge);
                    if is_lost {
                        let at = created.saturating_since(self.start).as_nanos();
                        self.units.refuse(datagram.class, at);
                    }
                    if let Some(stream) = self
                        .streams
                        .iter_mut()
                        .find(|stream| stream.class == datagram.class)
                    {
                        stream.waiting = stream.waiting.saturating_sub(1);
                    }
                }
                Event::Target(rate) => self.units.follow(rate),
                _ => {}
            }
        }
    }

    /// A packet to send at `now`, and its length from the IP header on. Datagrams handed over at once leave one by one
    /// as far as it may, so that a frame does not fill the queue of a sender that could send it.
    pub fn transmit(&mut self, now: Instant, interval: Interval) -> Option<(u32, Packet)> {
        // Where all of it is dropped at once there would be more for ever.
        let mut more = AHEAD * self.streams.len() as u32;
        let transmit = loop {
            let waits = self.sender.backlog().packets > 0;
            if !waits && self.make(now, interval, &mut more) {
                continue;
            }
            let transmit = self.sender.poll_transmit(now);
            self.hear(interval);
            if transmit.is_some() || !self.make(now, interval, &mut more) {
                break transmit?;
            }
        };
        let unit = transmit.payload;
        self.sent.count(interval, now.as_nanos());
        if let Some(observer) = &mut self.observer {
            observer.on_sent(now, transmit.sequence, unit.bytes);
        }
        let rtt = self
            .sender
            .rate()
            .rtt()
            .map_or(0, |rtt| rtt.as_nanos() / 1000);
        let packet = Packet {
            sequence: transmit.sequence,
            created: self.after_start(unit.at),
            sent: now,
            frame: unit.frame,
            parts: unit.parts,
            class: unit.class,
            refers: unit.refers,
            rtt: rtt.min(u64::from(u32::MAX)) as u32,
        };
        Some((unit.bytes + self.media.headers.get() as u32, packet))
    }

    /// When the application makes something, or the sender may send or has a timer that runs out, after `now`.
    pub fn next(&self) -> Option<Instant> {
        self.next_from(Instant::ZERO)
    }

    /// As [`MediaFlow::next`], and not before `now`: a new rate may make packets due that left later by the old one.
    pub fn next_from(&self, now: Instant) -> Option<Instant> {
        let made = self.units.next_at().map(|at| self.after_start(at).max(now));
        let timer = self.sender.poll_timeout();
        let timer = timer.map(|at| self.on_tick(at.max(now)));
        match (made, timer) {
            (Some(made), Some(timer)) => Some(made.min(timer)),
            (made, timer) => made.or(timer),
        }
    }

    /// The first tick of the sender's clock from `at` on.
    fn on_tick(&self, at: Instant) -> Instant {
        self.media.tick.map_or(at, |tick| at.next_multiple_of(tick))
    }

    /// A packet of `len` comes to the receiver.
    pub fn arrive(
        &mut self,
        now: Instant,
        len: u32,
        marked: bool,
        packet: Packet,
        interval: Interval,
    ) {
        let bytes = len - self.media.headers.get() as u32;
        let [sent, at] = [packet.sent, now].map(Instant::as_nanos);
        self.received
            .count(interval, packet.sequence, bytes.into(), sent, at);
        let created = packet.created.as_nanos();
        self.classes[usize::from(packet.class)].receive(
            interval,
            Came {
                created,
                at,
                due: (packet.created + self.media.deadline).as_nanos(),
                frame: packet.frame,
                parts: packet.parts,
                refers: packet.refers,
            },
        );
        let rtt = Duration::from_micros(packet.rtt.into());
        self.reporter.on_arrival(
            now,
            Arrival {
                sequence: packet.sequence,
                bytes,
                rtt: (packet.rtt > 0).then_some(rtt),
                window: None,
                marked,
            },
        );
    }

    /// Feedback that the receiver sends at `now`, if any is due, and its length from the IP header on.
    pub fn report(&mut self, now: Instant) -> Option<(u32, Feedback)> {
        let feedback = self.reporter.poll_feedback(now)?;
        let len = match &feedback.report {
            // An Ack Vector in words (RFC 4340 §11.4), of a byte or two a range.
            Report::Acks(ranges) => {
                FEEDBACK + (2 * ranges.iter().count() as u32).next_multiple_of(4)
            }
            // RFC 8888 §3.1 over UDP: headers, and two bytes for each packet from the first to the last.
            Report::Packets(report) => {
                let packets = report.packets().iter().map(|packet| packet.back);
                let span = 1 + u32::from(packets.max().unwrap_or(0));
                RFC8888 + (2 * span).next_multiple_of(4)
            }
            _ => FEEDBACK,
        };
        Some((len, feedback))
    }

    /// Whether reports need the backlog at radios.
    pub fn estimates(&self) -> bool {
        matches!(self.sender.rate(), AnyController::Abrc(_))
    }

    /// Number of its packets at radios as it reports.
    pub fn note_waiting(&mut self, packets: u64) {
        self.waiting = packets;
    }

    /// When the receiver has feedback to send, unless a packet comes.
    pub fn report_at(&self) -> Option<Instant> {
        self.reporter.next_timeout()
    }

    /// Feedback arrives at the sender; refused feedback is counted.
    pub fn heed(&mut self, now: Instant, feedback: &Feedback, interval: Interval) {
        if let Some(observer) = &mut self.observer {
            observer.on_report(now, feedback);
        }
        let heeded = self.sender.handle_feedback(now, feedback).is_ok();
        if let AnyController::Abrc(abrc) = self.sender.rate()
            && heeded
            && self.waiting > 0
            && interval.measures(now.as_nanos())
        {
            self.errors.count(abrc.packets_waiting(), self.waiting);
        }
        self.hear(interval);
    }

    /// Begins to observe a flow whose rate is set from outside; whether it is one. Observations are then to be read, since each delay of
    /// an interval is kept.
    pub fn observe(&mut self, now: Instant) -> bool {
        let is_external = matches!(self.sender.rate(), AnyController::External(_));
        if is_external {
            self.observer
                .get_or_insert_with(|| Box::new(Observer::new(now)));
        }
        is_external
    }

    /// The interval from the last observation to `now`; `None`: it is not observed.
    pub fn observation(&mut self, now: Instant) -> Option<Observation> {
        let (rate, backlog) = (self.sender.rate().rate(), self.sender.backlog());
        let observer = self.observer.as_mut()?;
        Some(observer.take(now, rate, backlog))
    }

    /// Sets the rate from outside, in payload, and the RTT by the reports so far, by which a sender knows the late datagrams. Whether the
    /// rate changes: not if it is the same, or that of a controller.
    pub fn set_rate(&mut self, now: Instant, rate: Rate, interval: Interval) -> bool {
        let rtt = self.observer.as_ref().and_then(|observer| observer.rtt());
        let before = self.sender.rate().rate();
        let is_set = self
            .sender
            .change_rate(now, |controller| controller.set_estimate(rate, rtt));
        self.hear(interval);
        is_set && before != rate
    }

    /// Notes what the controller allows.
    pub fn sample(&mut self) {
        self.rates.push(self.sender.rate().rate().bps() as f64);
    }
}
