// SPDX-License-Identifier: MIT OR Apache-2.0
//! One station: its transmissions, answers and retry limits (IEEE 802.11-2020 clause 10.3).
//!
//! | standard | here |
//! | --- | --- |
//! | backoff counter, CW (10.3.3) | [`Backoff::Slots`], `window` |
//! | SSRC, SLRC of a frame (10.3.4.4) | `Job::tries`: short, long |
//! | NAV (10.3.2.4) | `reserved` |
//! | DIFS or EIFS (10.3.2.3) | `space`, from `idle_since` on |

use makeway_core::packet::Handle;
use makeway_core::random::Rng;
use makeway_core::units::{Duration, Instant};

use super::config::Config;

/// The receiver of a frame that is for everybody who understands it. Nobody answers such a frame, so it is sent
/// once, at the basic rate (10.3.6, 10.6.5.3).
pub const BROADCAST: u16 = u16::MAX;

/// A frame for a station to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The station that it is for, or [`BROADCAST`].
    pub to: u16,
    /// The packet in it.
    pub handle: Handle,
    /// Its length with MAC header and check sequence.
    pub bytes: u32,
}

/// How long a radio was at what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Airtime {
    /// It sent.
    pub send: Duration,
    /// It did not, and heard something.
    pub receive: Duration,
    /// Neither, while it was on.
    pub idle: Duration,
}

/// Counters of a station, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken from the layer above: as many as acknowledged, dropped and broadcast, and the one in hand.
    pub taken: u64,
    /// Sent to everybody.
    pub broadcast: u64,
    /// Acknowledged by their receiver.
    pub acknowledged: u64,
    /// Dropped after the last try.
    pub given_up: u64,
    /// Dropped after the last try, though their receiver had them: its acknowledgements were lost.
    pub given_up_delivered: u64,
    /// Data sent, every try.
    pub data: u64,
    /// Data and RTS without an answer.
    pub failures: u64,
    /// RTS sent.
    pub rts: u64,
    /// Acknowledgements and CTS sent.
    pub answers: u64,
    /// Handed to the layer above.
    pub received: u64,
    /// Received again, since the acknowledgement was lost.
    pub duplicates: u64,
    /// Heard and not understood.
    pub garbled: u64,
}

/// Frames as they are on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rts,
    Cts,
    Data,
    Ack,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub kind: Kind,
    pub from: u16,
    pub to: u16,
    /// How long the exchange goes on behind it, in its duration field.
    pub duration: Duration,
    /// Count of the sender and frame that is sent; data only.
    pub sequence: u32,
    pub frame: Frame,
}

/// Reception of an ended signal at a listener.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard<'a> {
    /// It only had energy, or was missed while the listener sent.
    Energy,
    /// It could not be understood.
    Garbled,
    /// It was understood.
    Frame(&'a Signal),
}

/// Event for the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The frame in hand has been acknowledged.
    Acknowledged,
    /// It is dropped.
    GivenUp(Job),
    /// The frame in hand was for everybody, and has been sent.
    Broadcast,
    /// A frame has come.
    Received,
}

/// The frame in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub frame: Frame,
    /// Whether its receiver has handed it up.
    pub delivered: bool,
    /// Failures, short and long.
    tries: [u32; 2],
}

impl Job {
    /// Whether an RTS goes first.
    fn asks(&self, config: &Config) -> bool {
        self.frame.to != BROADCAST && u64::from(self.frame.bytes) > config.rts_threshold
    }
}

/// Progress to the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backoff {
    /// There is none.
    Done,
    /// The channel is idle: after the space, without a slot (10.3.4.2).
    Direct,
    /// This number of idle slots.
    Slots(u32),
}

/// Purpose of the timer.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Backoff; nothing where the channel is busy.
    Contend,
    /// An answer, a SIFS after the question.
    Answer(Signal),
    /// Data, a SIFS after the CTS.
    Data,
    /// No answer to an RTS or to data. Nothing while one may be coming in.
    Await(Kind),
}

/// A signal that a station tries to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub from: u16,
    pub since: Instant,
    pub ok: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Station {
    id: u16,
    rng: Rng,
    /// The station's transmission.
    pub sending: Option<Kind>,
    /// Whether it has been switched off, for good.
    pub off: bool,
    /// Signals heard.
    pub signals: u16,
    airtime: Airtime,
    /// Until when [`Airtime`] has been counted.
    counted: Instant,
    pub lock: Option<Lock>,
    idle_since: Instant,
    space: Duration,
    reserved: Instant,
    sent: Instant,
    backoff: Backoff,
    /// Since when slots are counted.
    counting: Option<Instant>,
    window: u32,
    pub job: Option<Job>,
    next: Next,
    /// When the timer runs out.
    pub due: Option<Instant>,
    sequence: u32,
    /// For each sender the sequence number of its latest data (10.3.2.14).
    latest: Vec<u32>,
    pub counts: Counts,
}

impl Station {
    pub fn new(id: u16, stations: usize, config: &Config, rng: Rng) -> Self {
        Self {
            id,
            rng,
            sending: None,
            off: false,
            signals: 0,
            airtime: Airtime::default(),
            counted: Instant::ZERO,
            lock: None,
            idle_since: Instant::ZERO,
            space: config.difs,
            reserved: Instant::ZERO,
            sent: Instant::ZERO,
            backoff: Backoff::Done,
            counting: None,
            window: config.cw[0],
            job: None,
            next: Next::Contend,
            due: None,
            sequence: 0,
            latest: vec![0; stations],
            counts: Counts::default(),
        }
    }

    /// Takes a frame in hand, where there is none.
    pub fn send(&mut self, now: Instant, config: &Config, frame: Frame) {
        self.counts.taken += 1;
        self.sequence = self.sequence.wrapping_add(1);
        self.job = Some(Job {
            frame,
            delivered: false,
            tries: [0; 2],
        });
        if self.backoff == Backoff::Done {
            self.backoff = match self.free() && self.reserved <= now {
                true => Backoff::Direct,
                false => self.draw(),
            };
            self.contend(now, config);
        }
    }

    /// Its times until `now`.
    pub fn airtime(&self, now: Instant) -> Airtime {
        let mut airtime = self.airtime;
        let spent = match (self.sending, self.signals) {
            _ if self.off => return airtime,
            (Some(_), _) => &mut airtime.send,
            (None, 1..) => &mut airtime.receive,
            (None, 0) => &mut airtime.idle,
        };
        *spent += now.saturating_since(self.counted);
        airtime
    }

    /// Counts its times, before it begins with something else.
    pub fn count_time(&mut self, now: Instant) {
        self.airtime = self.airtime(now);
        self.counted = now;
    }

    /// Has it neither hear nor say anything from now on; what it had in hand.
    pub fn switch_off(&mut self, now: Instant) -> Option<Job> {
        self.count_time(now);
        self.off = true;
        self.lock = None;
        (self.due, self.counting, self.backoff) = (None, None, Backoff::Done);
        self.job.take()
    }

    /// The channel becomes busy.
    pub fn busy(&mut self, now: Instant, config: &Config) {
        // A station that begins in this moment cannot know.
        let Some(start) = self.counting.filter(|_| self.due != Some(now)) else {
            return;
        };
        self.backoff = match self.backoff {
            Backoff::Slots(slots) => {
                let passed = now.saturating_since(start).as_nanos() / config.slot.as_nanos();
                Backoff::Slots(slots - passed as u32)
            }
            _ => self.draw(),
        };
        (self.counting, self.due) = (None, None);
    }

    /// A signal begins that it tries to read: it may be the answer, if one is due.
    pub fn begins(&mut self, now: Instant, config: &Config) {
        let awaits = matches!(self.next, Next::Await(_));
        if awaits && now <= self.sent + config.sifs + config.slot {
            self.due = None;
        }
    }

    /// A signal ends, which was `heard` here.
    pub fn ends(&mut self, now: Instant, config: &Config, heard: Heard<'_>) -> [Option<Told>; 2] {
        self.count_time(now);
        self.signals -= 1;
        if self.signals == 0 {
            self.idle_since = now;
        }
        let mut told = [None; 2];
        match heard {
            Heard::Energy => {}
            Heard::Garbled => {
                self.counts.garbled += 1;
                self.space = config.eifs;
                if matches!(self.next, Next::Await(_)) && self.due.is_none() {
                    told[0] = self.fails(config);
                }
            }
            Heard::Frame(signal) => {
                self.space = config.difs;
                told = self.reads(now, config, signal);
            }
        }
        self.contend(now, config);
        told
    }

    fn reads(&mut self, now: Instant, config: &Config, signal: &Signal) -> [Option<Told>; 2] {
        let mine = signal.to == self.id;
        let partner = self.job.is_some_and(|job| job.frame.to == signal.from);
        match (self.next, signal.kind) {
            (Next::Await(Kind::Rts), Kind::Cts) if mine && partner => {
                (self.next, self.due) = (Next::Data, Some(now + config.sifs));
                return [None; 2];
            }
            (Next::Await(Kind::Data), Kind::Ack) if mine && partner => {
                self.counts.acknowledged += 1;
                self.finish(config);
                return [Some(Told::Acknowledged), None];
            }
            _ => {}
        }
        // Any other frame means no answer (10.3.2.11).
        let failed = match self.next {
            Next::Await(_) => self.fails(config),
            _ => None,
        };
        let received = match signal.kind {
            Kind::Data if signal.to == BROADCAST => {
                self.counts.received += 1;
                Some(Told::Received)
            }
            _ if !mine => {
                self.reserved = self.reserved.max(now + signal.duration);
                None
            }
            Kind::Rts if self.reserved <= now => {
                let rest = config.sifs + config.answer_time();
                let duration = signal.duration.as_nanos().saturating_sub(rest.as_nanos());
                let duration = Duration::from_nanos(duration);
                self.answer(now, config, Kind::Cts, signal, duration);
                None
            }
            Kind::Data => {
                self.answer(now, config, Kind::Ack, signal, Duration::ZERO);
                let latest = &mut self.latest[signal.from as usize];
                let new = std::mem::replace(latest, signal.sequence) != signal.sequence;
                self.counts.received += u64::from(new);
                self.counts.duplicates += u64::from(!new);
                new.then_some(Told::Received)
            }
            _ => None,
        };
        [failed, received]
    }

    fn answer(
        &mut self,
        now: Instant,
        config: &Config,
        kind: Kind,
        question: &Signal,
        duration: Duration,
    ) {
        self.next = Next::Answer(Signal {
            kind,
            from: self.id,
            to: question.from,
            duration,
            ..*question
        });
        (self.counting, self.due) = (None, Some(now + config.sifs));
    }

    /// The timer has expired: the next transmission and its duration; or the dropped frame.
    pub fn timer(
        &mut self,
        now: Instant,
        config: &Config,
    ) -> (Option<(Signal, Duration)>, Option<Told>) {
        self.due = None;
        let signal = match self.next {
            Next::Contend => {
                (self.counting, self.backoff) = (None, Backoff::Done);
                match self.job {
                    // The backoff behind a frame, with nothing to send.
                    None => return (None, None),
                    Some(job) if job.asks(config) => self.rts(config, job.frame),
                    Some(job) => self.data(config, job.frame),
                }
            }
            Next::Answer(signal) => {
                self.counts.answers += 1;
                (signal, config.answer_time())
            }
            Next::Data => match self.job {
                Some(job) => self.data(config, job.frame),
                None => return (None, None),
            },
            Next::Await(_) => {
                let told = self.fails(config);
                self.contend(now, config);
                return (None, told);
            }
        };
        self.count_time(now);
        self.sending = Some(signal.0.kind);
        self.lock = None;
        self.space = config.difs;
        self.next = Next::Contend;
        (Some(signal), None)
    }

    fn data(&mut self, config: &Config, frame: Frame) -> (Signal, Duration) {
        self.counts.data += 1;
        if frame.to == BROADCAST {
            let time = config.phy.time(u64::from(frame.bytes), config.basic_rate);
            return (self.signal(Kind::Data, frame, Duration::ZERO), time);
        }
        let duration = config.sifs + config.answer_time();
        let time = config.data_time(u64::from(frame.bytes));
        (self.signal(Kind::Data, frame, duration), time)
    }

    fn rts(&mut self, config: &Config, frame: Frame) -> (Signal, Duration) {
        self.counts.rts += 1;
        let data = config.data_time(u64::from(frame.bytes));
        let duration = config.sifs * 3 + config.answer_time() * 2 + data;
        (self.signal(Kind::Rts, frame, duration), config.rts_time())
    }

    fn signal(&self, kind: Kind, frame: Frame, duration: Duration) -> Signal {
        Signal {
            kind,
            from: self.id,
            to: frame.to,
            duration,
            sequence: self.sequence,
            frame,
        }
    }

    /// The station's transmission has ended.
    pub fn sent(&mut self, now: Instant, config: &Config) -> Option<Told> {
        self.count_time(now);
        self.sent = now;
        if self.signals == 0 {
            self.idle_since = now;
        }
        let mut told = None;
        let everybody = self.job.is_some_and(|job| job.frame.to == BROADCAST);
        match self.sending.take() {
            Some(Kind::Data) if everybody => {
                self.counts.broadcast += 1;
                self.finish(config);
                told = Some(Told::Broadcast);
            }
            Some(kind @ (Kind::Rts | Kind::Data)) => {
                (self.next, self.due) = (Next::Await(kind), Some(now + config.timeout));
            }
            _ => {}
        }
        self.contend(now, config);
        told
    }

    /// There was no answer.
    fn fails(&mut self, config: &Config) -> Option<Told> {
        self.counts.failures += 1;
        let asked = matches!(self.next, Next::Await(Kind::Rts));
        let Some(job) = &mut self.job else {
            return None;
        };
        let long = !asked && u64::from(job.frame.bytes) > config.rts_threshold;
        let limit = match long {
            true => config.long_retries,
            false => config.short_retries,
        };
        let tries = &mut job.tries[usize::from(long)];
        *tries += 1;
        if *tries >= limit {
            let job = *job;
            self.counts.given_up += 1;
            self.counts.given_up_delivered += u64::from(job.delivered);
            self.finish(config);
            return Some(Told::GivenUp(job));
        }
        self.window = (2 * self.window + 1).min(config.cw[1]);
        self.retreat();
        None
    }

    /// The frame in hand is done with; a backoff follows any outcome.
    fn finish(&mut self, config: &Config) {
        self.job = None;
        self.window = config.cw[0];
        self.retreat();
    }

    fn retreat(&mut self) {
        (self.next, self.due, self.counting) = (Next::Contend, None, None);
        self.backoff = self.draw();
    }

    fn draw(&mut self) -> Backoff {
        Backoff::Slots(self.rng.below(self.window + 1))
    }

    /// Whether the channel is idle and nothing else is to be done first.
    fn free(&self) -> bool {
        self.signals == 0 && self.sending.is_none() && matches!(self.next, Next::Contend)
    }

    /// Counts slots from when it may, unless it does.
    fn contend(&mut self, now: Instant, config: &Config) {
        let slots = match self.backoff {
            Backoff::Slots(slots) => slots,
            Backoff::Direct => 0,
            Backoff::Done => return,
        };
        if self.free() && self.counting.is_none() {
            let idle = self.idle_since + self.space;
            let start = now.max(idle).max(self.reserved + config.difs);
            self.counting = Some(start);
            self.due = Some(start + config.slot * u64::from(slots));
        }
    }
}
