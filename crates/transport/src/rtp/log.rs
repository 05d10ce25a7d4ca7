// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a call: the path of each packet from its creation to the receiver's report, and the rate controller beside it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use makeway_core::sched::Backlog;
use makeway_core::send::{DatagramId, Event, Outcome};
use makeway_core::units::{Duration, Instant, Rate};

use super::feedback::Arrived;
use super::history::Sent;

/// Packets without a report that are remembered: as many as feedback can name by 16 bits.
const MOST_IN_FLIGHT: usize = 1 << 15;
/// Later packets that arrive before a packet counts as lost: NDUPACK of RFC 5348 §5.1.
const LATER: usize = 3;
/// Shortest time between two rows of the rate controller.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

/// An event of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record {
    /// An event of a packet, at this time.
    Packet(Instant, Packet, Fate),
    /// The rate controller and the queue, at this time.
    State(Instant, State),
}

/// A packet of a call. Times are those of [`Call::now`](super::Call::now).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet {
    /// The application's number of it.
    pub id: DatagramId,
    /// SSRC of its stream.
    pub ssrc: u32,
    /// Its class.
    pub class: u8,
    /// Payload in bytes.
    pub bytes: u32,
    /// Time at which it was handed over.
    pub created: Instant,
    /// Time by which it must have arrived.
    pub deadline: Instant,
    /// Once it was sent: its time, its number among all packets (TWCC has the last 16 bits of it), and its RTP sequence number.
    pub sent: Option<(Instant, u64, u16)>,
}

/// Event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was sent, or dropped before.
    Queue(Outcome),
    /// The receiver has reported it as arrived.
    Acknowledged {
        /// Its time on the path, less the shortest time on the path of an earlier one: clocks of both ends have different zeros.
        above_least: Duration,
        /// Whether it carried the mark CE of ECN: RFC 8888 tells it, TWCC does not.
        marked: bool,
    },
    /// Three later ones have arrived, and it has not. It may still arrive: `Acknowledged` follows then.
    Lost,
    /// A report was lost that spoke of it, or it was sent too long ago. `Acknowledged` may follow.
    Unreported,
    /// A copy of it was sent, by retransmission: SSRC, size, numbers and time are the copy's, the rest is the packet's. Nothing is
    /// recorded of the copy's arrival.
    Again,
    /// It was in the queue when the call ended.
    Waiting,
    /// It was sent, and without a report when the call ended.
    InFlight,
}

impl Fate {
    /// Its name in files; of [`Fate::Queue`] that of the outcome.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Queue(outcome) => outcome.name(),
            Self::Acknowledged { .. } => "acknowledged",
            Self::Lost => "lost",
            Self::Unreported => "unreported",
            Self::Again => "again",
            Self::Waiting => "waiting",
            Self::InFlight => "in-flight",
        }
    }
}

/// State of the rate controller and of the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct State {
    /// Allowed rate of payload.
    pub rate: Rate,
    /// Target rate of the encoder.
    pub target: Rate,
    /// Packets that wait, and their payload.
    pub backlog: Backlog,
    /// Round-trip time, once there is one.
    pub rtt: Option<Duration>,
}

/// Makes records of the events of a session. Its memory is bounded by the queue, and by 32768 packets in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    /// In the queue, by the application's number.
    waiting: HashMap<u64, Packet>,
    /// Sent, and not known to have arrived; whether it was recorded as lost or unreported.
    in_flight: BTreeMap<u64, (Packet, bool)>,
    /// The latest packets that have arrived, by number, the latest first.
    latest: [Option<u64>; LATER],
    /// Shortest time on the path until now, ns.
    least: Option<i64>,
    next_state: Instant,
    records: VecDeque<Record>,
}

impl Recorder {
    pub fn on_created(&mut self, packet: Packet) {
        self.waiting.insert(packet.id.0, packet);
    }

    /// [`Recorder::on_event`] with its outcome follows.
    pub fn on_sent(&mut self, sent: &Sent) {
        if let Some(packet) = self.waiting.get_mut(&sent.id) {
            packet.sent = Some((sent.at, sent.sequence, sent.rtp));
        }
    }

    /// A copy of the packet with the number `original` was sent, in the stream with this SSRC.
    pub fn on_again(&mut self, original: u64, ssrc: u32, sent: &Sent) {
        let Some((packet, _)) = self.in_flight.get(&original) else {
            return;
        };
        let copy = Packet {
            ssrc,
            bytes: sent.bytes,
            sent: Some((sent.at, sent.sequence, sent.rtp)),
            ..*packet
        };
        self.push(sent.at, copy, Fate::Again);
    }

    pub fn on_event(&mut self, now: Instant, event: &Event) {
        let Event::Outcome(DatagramId(id), _, outcome) = event else {
            return;
        };
        let Some(packet) = self.waiting.remove(id) else {
            return;
        };
        let at = packet.sent.map_or(now, |(at, ..)| at);
        self.push(at, packet, Fate::Queue(*outcome));
        if let Some((_, sequence, _)) = packet.sent {
            self.in_flight.insert(sequence, (packet, false));
        }
        if self.in_flight.len() > MOST_IN_FLIGHT
            && let Some((_, (packet, false))) = self.in_flight.pop_first()
        {
            self.push(now, packet, Fate::Unreported);
        }
    }

    pub fn on_report(&mut self, now: Instant, arrived: &[Arrived]) {
        for arrival in arrived {
            let sequence = arrival.sent.sequence;
            let Some((packet, is_told)) = self.in_flight.remove(&sequence) else {
                continue;
            };
            if arrival.assumed {
                self.in_flight.insert(sequence, (packet, true));
                if !is_told {
                    self.push(now, packet, Fate::Unreported);
                }
                continue;
            }
            let transit = arrival.at.as_nanos() as i64 - arrival.sent.at.as_nanos() as i64;
            let least = self.least.map_or(transit, |least| least.min(transit));
            self.least = Some(least);
            let fate = Fate::Acknowledged {
                above_least: Duration::from_nanos(transit.abs_diff(least)),
                marked: arrival.marked,
            };
            self.push(now, packet, fate);
            if let Some(place) = self.latest.iter().position(|at| *at < Some(sequence)) {
                self.latest[place..].rotate_right(1);
                self.latest[place] = Some(sequence);
            }
        }
        let Some(bound) = self.latest[LATER - 1] else {
            return;
        };
        for (packet, is_told) in self.in_flight.range_mut(..bound).map(|(_, entry)| entry) {
            if !std::mem::replace(is_told, true) {
                let record = Record::Packet(now, *packet, Fate::Lost);
                self.records.push_back(record);
            }
        }
    }

    /// Whether a row of the state is due.
    pub fn wants_state(&self, now: Instant) -> bool {
        now >= self.next_state
    }

    pub fn on_state(&mut self, now: Instant, state: State) {
        self.next_state = now + STATE_INTERVAL;
        self.records.push_back(Record::State(now, state));
    }

    /// The call has ended.
    pub fn end(&mut self, now: Instant) {
        let mut waiting: Vec<_> = self.waiting.drain().collect();
        waiting.sort_unstable_by_key(|(id, _)| *id);
        for (_, packet) in waiting {
            self.push(now, packet, Fate::Waiting);
        }
        while let Some((_, (packet, is_told))) = self.in_flight.pop_first() {
            if !is_told {
                self.push(now, packet, Fate::InFlight);
            }
        }
    }

    pub fn next(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    fn push(&mut self, now: Instant, packet: Packet, fate: Fate) {
        self.records.push_back(Record::Packet(now, packet, fate));
    }
}

#[cfg(test)]
mod tests {
    use makeway_core::send::Datagram;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn sent(n: u64) -> Sent {
        Sent {
            sequence: n,
            id: n,
            at: at(n),
            stream: 0,
            rtp: n as u16,
            bytes: 100,
            arrived: false,
            assumed: false,
        }
    }

    fn arrived(n: u64, ms: u64) -> Arrived {
        Arrived {
            at: at(ms),
            sent: sent(n),
            marked: n == 4,
            assumed: n == 6,
        }
    }

    /// Packets 0 to 7 are handed over, and 0 to 6 sent.
    fn recorder() -> Recorder {
        let mut recorder = Recorder::default();
        for n in 0..8 {
            let deadline = at(200);
            recorder.on_created(Packet {
                id: DatagramId(n),
                ssrc: 9,
                class: 0,
                bytes: 100,
                created: at(0),
                deadline,
                sent: None,
            });
            let datagram = Datagram {
                class: 0,
                len: 100,
                deadline,
                frame: None,
            };
            let waited = Duration::from_millis(n);
            let late = false;
            if n < 7 {
                recorder.on_sent(&sent(n));
                let outcome = Outcome::Sent { waited, late };
                recorder.on_event(at(50), &Event::Outcome(DatagramId(n), datagram, outcome));
            }
        }
        recorder
    }

    fn fates(recorder: &mut Recorder) -> Vec<(u64, &'static str)> {
        let mut found = Vec::new();
        while let Some(record) = recorder.next() {
            if let Record::Packet(_, packet, fate) = record {
                found.push((packet.id.0, fate.name()));
            }
        }
        found
    }

    #[test]
    fn a_packet_is_lost_once_three_later_ones_have_arrived_and_may_arrive_then() {
        let mut recorder = recorder();
        assert_eq!(
            fates(&mut recorder),
            (0..7).map(|n| (n, "sent")).collect::<Vec<_>>()
        );
        recorder.on_report(at(60), &[arrived(0, 30), arrived(2, 32), arrived(3, 33)]);
        let three = [0, 2, 3].map(|n| (n, "acknowledged"));
        assert_eq!(fates(&mut recorder), three);
        recorder.on_report(at(70), &[arrived(4, 40)]);
        assert_eq!(fates(&mut recorder), [(4, "acknowledged"), (1, "lost")]);
        recorder.on_report(at(80), &[arrived(1, 80), arrived(6, 80)]);
        assert_eq!(
            fates(&mut recorder),
            [(1, "acknowledged"), (6, "unreported")]
        );
        recorder.end(at(90));
        assert_eq!(fates(&mut recorder), [(7, "waiting"), (5, "in-flight")]);
    }

    #[test]
    fn the_time_on_the_path_is_above_the_shortest_and_marks_are_told() {
        let mut recorder = recorder();
        fates(&mut recorder);
        recorder.on_report(
            at(90),
            &[0, 2, 3, 4].map(|n| arrived(n, [1030, 0, 1037, 1039, 1034][n as usize])),
        );
        let mut found = Vec::new();
        while let Some(Record::Packet(_, _, fate)) = recorder.next() {
            if let Fate::Acknowledged {
                above_least,
                marked,
            } = fate
            {
                found.push((above_least.as_nanos() / 1_000_000, marked));
            }
        }
        assert_eq!(found, [(0, false), (5, false), (6, false), (0, true)]);
    }
}
