// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay from the feedback of calls that pass: media over RTP, and the receiver's reports on each packet, by TWCC or RFC 8888.
//!
//! A packet has left our queue at a time that the kernel stamped, and has arrived at a time of the receiver's clock, which a report
//! tells. The difference is the delay of the way up, up to a constant of the call. A report that is encrypted (SRTCP) tells nothing.

use std::collections::VecDeque;

use makeway_core::units::{Duration, Instant};

use super::packet::Connection;
use super::rtp::{self, Arrivals, ELEMENTS, Packet, Report};
use super::sources::Sample;
use super::tcp::network;

/// Calls that are followed at a time, and those of one network among them.
pub const MOST_CALLS: usize = 4;
const MOST_OF_NETWORK: usize = 2;
/// Connections that may be calls, with a place or without: one in four requests of DNS looks like a packet of media, too.
const MOST_SEEN: usize = 64;
/// Departures of a connection that are remembered, for how long, and how far apart.
const MOST_SENT: usize = 512;
const REMEMBERED: Duration = Duration::from_secs(5);
const APART: Duration = Duration::from_millis(10);
/// Streams of a call that are known.
const MOST_STREAMS: usize = 32;
/// One sample of a call in this time: the least.
const WINDOW: Duration = Duration::from_millis(100);
/// Reports of a call, or their parts on a stream, that are read in that time.
const MOST_REPORTS: u32 = 64;
/// A call without a report for so long leaves its place.
const SILENT: Duration = Duration::from_secs(5);
/// A delay that differs from the first by more is none, in ns; nor do clocks drift by more than one part in this.
const MOST_OFF: i64 = 10_000_000_000;
const DRIFT: i64 = 1000;
/// Delays begin here, since clocks differ by any constant.
const BASE: i64 = 3_600_000_000_000;
/// A transport-wide number rises by 1 to this from one packet that is seen to the next; one that has done so this often is known.
const MOST_STEP: u16 = 255;
const SURE: u8 = 8;

/// Numbers by which reports name packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// One sequence for all streams: TWCC.
    Transport,
    /// Each stream's own: RFC 8888.
    Stream,
}

/// A connection that may be a call.
#[derive(Clone, Debug)]
struct Call {
    connection: Connection,
    /// Departures, the oldest first.
    sent: VecDeque<Departure>,
    /// SSRCs of the latest streams: a report names one of them, which no stranger knows.
    streams: VecDeque<u32>,
    counter: Counter,
    /// Begin of the window, and the reports that were read in it.
    since: Instant,
    reports: u32,
    told: Option<Told>,
}

/// A packet that has left our queue.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    ssrc: u32,
    number: u16,
    /// Once it is known which header extension has it.
    transport: Option<u16>,
    is_told: bool,
}

/// State of a call whose receiver reports.
#[derive(Clone, Debug)]
struct Told {
    place: u16,
    numbers: Numbers,
    /// Departure and arrival of the first packet.
    first: (Instant, i64),
    /// When a report on a packet came.
    answered: Instant,
    /// Least delay of the window above that of the first packet, in ns.
    least: Option<i64>,
}

/// Finds the header extension with the transport-wide number, on which both ends have agreed elsewhere: the one that counts up.
#[derive(Clone, Debug, Default)]
struct Counter {
    last: [Option<u16>; ELEMENTS],
    rises: [u8; ELEMENTS],
}

/// All calls.
#[derive(Debug)]
pub struct Calls {
    places: usize,
    all: Vec<Call>,
    samples: u64,
}

impl Calls {
    /// Follows at most `places` calls at a time.
    pub fn new(places: usize) -> Self {
        Self {
            places,
            all: Vec::new(),
            samples: 0,
        }
    }

    /// Calls that can be followed at a time.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Samples so far.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Calls that are followed now.
    pub fn count(&self) -> usize {
        self.all.iter().filter(|call| call.told.is_some()).count()
    }

    /// Forgets all, as after a step of the clock.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// A datagram has left our queue.
    pub fn departed(&mut self, at: Instant, connection: Connection, datagram: &[u8]) {
        let Some(packet) = rtp::packet(datagram) else {
            return;
        };
        let n = match self.index_of(&connection) {
            Some(n) => n,
            None => self.add(at, connection),
        };
        self.all[n].departed(at, &packet);
    }

    /// A datagram has come, before our queue. A report counts only on packets that have left, of a stream that it names.
    pub fn arrived(&mut self, at: Instant, connection: Connection, datagram: &[u8]) {
        let Some(n) = self.index_of(&connection) else {
            return;
        };
        for report in rtp::reports(datagram) {
            match report {
                Report::Twcc { ssrc, body } => {
                    if self.all[n].may_read(ssrc)
                        && let Some(arrivals) = rtp::twcc(body)
                    {
                        self.take(at, n, (Numbers::Transport, ssrc), &arrivals);
                    }
                }
                Report::Ccfb { blocks, stamp } => {
                    for (ssrc, arrivals) in rtp::blocks(blocks, stamp) {
                        if self.all[n].may_read(ssrc) {
                            self.take(at, n, (Numbers::Stream, ssrc), &arrivals);
                        }
                    }
                }
            }
        }
    }

    /// Moves on to `now`: samples of windows that have ended, and places that calls have left.
    pub fn tick(&mut self, now: Instant, mut each: impl FnMut(Sample), mut gone: impl FnMut(u16)) {
        for call in &mut self.all {
            call.forget(now);
            let is_silent = |told: &mut Told| now.saturating_since(told.answered) > SILENT;
            if let Some(told) = call.told.take_if(is_silent) {
                gone(told.place);
            }
            if now.saturating_since(call.since) < WINDOW {
                continue;
            }
            (call.since, call.reports) = (now, 0);
            let Some(told) = &mut call.told else { continue };
            let Some(least) = told.least.take() else {
                continue;
            };
            self.samples += 1;
            let up = Duration::from_nanos(u64::try_from(BASE + least).unwrap_or(0));
            each(Sample {
                path: told.place,
                voice: Some(network(call.connection.remote.0)),
                one_way: [Some(up), None],
                both: None,
            });
        }
        self.all
            .retain(|call| call.told.is_some() || !call.sent.is_empty());
    }

    fn take(&mut self, at: Instant, n: usize, names: (Numbers, u32), arrivals: &Arrivals) {
        let free = match self.all[n].told {
            Some(_) => None,
            None => self.free_place(&self.all[n].connection),
        };
        self.all[n].take(at, names, arrivals, free);
    }

    fn index_of(&self, connection: &Connection) -> Option<usize> {
        let mut all = self.all.iter();
        all.position(|call| call.connection == *connection)
    }

    /// A new connection; where there are too many, instead of the one without a place that has sent least.
    fn add(&mut self, at: Instant, connection: Connection) -> usize {
        if self.all.len() >= MOST_SEEN {
            let all = self.all.iter().enumerate();
            let idle = all.filter(|(_, call)| call.told.is_none());
            if let Some((n, _)) = idle.min_by_key(|(_, call)| call.sent.len()) {
                self.all.remove(n);
            }
        }
        self.all.push(Call::new(at, connection));
        self.all.len() - 1
    }

    /// The first free place, unless the network has its share.
    fn free_place(&self, connection: &Connection) -> Option<u16> {
        let own = network(connection.remote.0);
        let all = self.all.iter();
        let taken =
            all.filter_map(|call| Some((call.told.as_ref()?.place, call.connection.remote.0)));
        let neighbours = taken.clone().filter(|(_, remote)| network(*remote) == own);
        if neighbours.count() >= MOST_OF_NETWORK {
            return None;
        }
        let mut places = 0..self.places as u16;
        places.find(|place| taken.clone().all(|(other, _)| other != *place))
    }
}

impl Call {
    fn new(at: Instant, connection: Connection) -> Self {
        Self {
            connection,
            sent: VecDeque::new(),
            streams: VecDeque::new(),
            counter: Counter::default(),
            since: at,
            reports: 0,
            told: None,
        }
    }

    fn departed(&mut self, at: Instant, packet: &Packet) {
        let transport = self.counter.find(&packet.elements);
        if !self.streams.contains(&packet.ssrc) {
            if self.streams.len() == MOST_STREAMS {
                self.streams.pop_front();
            }
            self.streams.push_back(packet.ssrc);
        }
        let last = self.sent.back();
        if last.is_some_and(|last| at.saturating_since(last.at) < APART) {
            return;
        }
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(Departure {
            at,
            ssrc: packet.ssrc,
            number: packet.number,
            transport,
            is_told: false,
        });
    }

    /// Whether a report that names this stream is to be read.
    fn may_read(&mut self, ssrc: u32) -> bool {
        let is_one = self.reports < MOST_REPORTS && self.streams.contains(&ssrc);
        self.reports += u32::from(is_one);
        is_one
    }

    /// Takes a report that came at `at`. The first on a packet of the call takes the place that is free.
    fn take(
        &mut self,
        at: Instant,
        (numbers, ssrc): (Numbers, u32),
        arrivals: &Arrivals,
        free: Option<u16>,
    ) {
        for departure in &mut self.sent {
            let number = match numbers {
                Numbers::Transport => departure.transport,
                Numbers::Stream => (departure.ssrc == ssrc).then_some(departure.number),
            };
            let is_old = at.saturating_since(departure.at) > REMEMBERED;
            let Some(number) = number.filter(|_| !departure.is_told && !is_old) else {
                continue;
            };
            let nth = usize::from(number.wrapping_sub(arrivals.first));
            let Some(arrival) = arrivals.at.get(nth).copied().flatten() else {
                continue;
            };
            if self.told.is_none() {
                self.told = free.map(|place| Told {
                    place,
                    numbers,
                    first: (departure.at, arrival),
                    answered: at,
                    least: None,
                });
            }
            // The two kinds have different clocks.
            let told = self.told.as_mut().filter(|told| told.numbers == numbers);
            let Some(told) = told else { return };
            let Some(delay) = told.above_first(departure.at, arrival) else {
                continue;
            };
            departure.is_told = true;
            told.answered = told.answered.max(at);
            told.least = Some(told.least.map_or(delay, |least| least.min(delay)));
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.sent.front()
            && now.saturating_since(oldest.at) > REMEMBERED
        {
            self.sent.pop_front();
        }
    }
}

impl Told {
    /// Delay of a packet above that of the first, in ns; `None`: no clock can show it.
    fn above_first(&self, left: Instant, arrival: i64) -> Option<i64> {
        let wraps = match self.numbers {
            Numbers::Transport => rtp::TWCC_WRAPS,
            Numbers::Stream => rtp::CCFB_WRAPS,
        };
        let since = left.as_nanos() as i64 - self.first.0.as_nanos() as i64;
        let above = arrival - self.first.1 - since;
        let nearest = (above + wraps / 2).rem_euclid(wraps) - wraps / 2;
        (nearest.abs() <= MOST_OFF + since.abs() / DRIFT).then_some(nearest)
    }
}

impl Counter {
    /// The transport-wide number of the next packet that is seen, once it is known where that is.
    fn find(&mut self, elements: &[Option<u16>; ELEMENTS]) -> Option<u16> {
        let mut found = None;
        for (n, value) in elements.iter().enumerate() {
            // Some streams of a call may be without it.
            let Some(value) = *value else { continue };
            let last = self.last[n].replace(value);
            let step = last.map_or(0, |last| value.wrapping_sub(last));
            let rises = &mut self.rises[n];
            *rises = match (1..=MOST_STEP).contains(&step) {
                true => (*rises + 1).min(2 * SURE),
                // One packet out of order is no reason against it.
                false => *rises / 2,
            };
            if *rises >= SURE {
                found = found.or(Some(value));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
