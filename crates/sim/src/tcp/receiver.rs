// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving end: arrivals, and times of acknowledgements.
//!
//! Sources: RFC 5681 §4.2 (when to acknowledge), RFC 2018 §4 (which ranges to name), RFC 7323 §4.3
//! (which timestamp to echo), RFC 3168 §6.1.3 (marks).
//!
//! Departures: a segment beyond a gap is forgotten if it would need a range more than there is room
//! for, or lies beyond the window. The window is always the same, since the application reads at once.

use super::ranges::Ranges;
use super::{Ack, Config, DelayedAck, SackBlocks, Segment};
use makeway_core::units::{Bytes, Duration, Instant};

/// Receives a stream of bytes.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// RCV.NXT: everything before has arrived.
    next: u64,
    /// Ranges that have arrived beyond.
    held: Ranges,
    /// The ranges of `held` that changed last, latest first.
    latest: [Option<(u64, u64)>; 3],
    window: u32,
    /// The longest wait of an acknowledgement; nothing where each segment has its own.
    delay: Option<Duration>,
    /// Acknowledgements that are still not to be delayed, and the most there are.
    quick: u32,
    quick_acks: u32,
    /// After so long without a segment there are that many again.
    silence: Duration,
    /// The last segment came then.
    last: Instant,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// A segment waits for its acknowledgement until then.
    expires: Instant,
    /// Last.ACK.sent and TS.Recent of RFC 7323.
    last_ack: u64,
    recent: Instant,
    /// A mark came and no answer since.
    ece: bool,
}

impl Receiver {
    /// A connection that stands open, with nothing received.
    pub fn new(config: &Config) -> Self {
        Self {
            next: 0,
            held: Ranges::new(config.most_ranges()),
            latest: [None; 3],
            window: config.window_bytes(),
            delay: match config.delayed_ack {
                DelayedAck::Off => None,
                DelayedAck::EverySecond(delay) => Some(delay),
            },
            quick: config.quick_acks,
            quick_acks: config.quick_acks,
            silence: config.min_rto,
            last: Instant::FAR_FUTURE,
            sack: config.variant.uses_sack(),
            timestamps: config.timestamps,
            ecn: config.ecn,
            expires: Instant::FAR_FUTURE,
            last_ack: 0,
            recent: Instant::ZERO,
            ece: false,
        }
    }

    /// A segment has arrived; `ce` if a router marked it. Nothing comes back while the
    /// acknowledgement waits for a second segment or for [`Receiver::next_timeout`].
    #[inline]
    pub fn on_segment(&mut self, now: Instant, segment: &Segment, ce: bool) -> Option<Ack> {
        if self.ecn {
            self.ece = (self.ece && !segment.cwr) || ce;
        }
        if segment.seq <= self.last_ack {
            self.recent = self.recent.max(segment.sent_at);
        }
        // Linux compares with the timeout of its own sender, no less than this.
        if now.saturating_since(self.last) > self.silence {
            self.quick = self.quick_acks;
        }
        self.last = now;
        let end = segment.end();
        if segment.seq > self.next {
            self.hold(segment.seq, end);
            return Some(self.acknowledge());
        }
        if end <= self.next {
            // It has arrived before; the acknowledgement may be what was lost.
            self.quick = self.quick_acks;
            return Some(self.acknowledge());
        }
        self.next = end;
        if !self.held.is_empty() {
            self.close_gap();
            return Some(self.acknowledge());
        }
        match self.delay {
            Some(delay) if self.expires == Instant::FAR_FUTURE && self.quick == 0 => {
                self.expires = now + delay;
                None
            }
            _ => Some(self.acknowledge()),
        }
    }

    /// When to call [`Receiver::on_timeout`], while an acknowledgement waits.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        (self.expires != Instant::FAR_FUTURE).then_some(self.expires)
    }

    /// The time that [`Receiver::next_timeout`] gave has come. An early call is harmless.
    pub fn on_timeout(&mut self, now: Instant) -> Option<Ack> {
        (now >= self.expires && self.expires != Instant::FAR_FUTURE).then(|| self.acknowledge())
    }

    /// Bytes that have arrived in order.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.next)
    }

    #[inline]
    fn acknowledge(&mut self) -> Ack {
        self.expires = Instant::FAR_FUTURE;
        self.last_ack = self.next;
        self.quick = self.quick.saturating_sub(1);
        let mut sack = SackBlocks::default();
        if self.sack && !self.held.is_empty() {
            for range in self.latest.into_iter().flatten() {
                sack.push(self.next, range);
            }
        }
        Ack {
            ack: self.next,
            echo: match self.timestamps {
                true => self.recent,
                false => Instant::FAR_FUTURE,
            },
            sack,
            window: self.window,
            ece: self.ece,
        }
    }

    fn hold(&mut self, start: u64, end: u64) {
        if end > self.next + u64::from(self.window) {
            return;
        }
        let Some((range, _)) = self.held.insert(start, end) else {
            return;
        };
        // RFC 2018 §4: first the range of this segment, then those named most recently, which are
        // other ranges still if they are not part of it.
        let apart = |r: &(u64, u64)| r.1 < range.0 || range.1 < r.0;
        let mut others = self.latest.into_iter().flatten().filter(apart);
        self.latest = [Some(range), others.next(), others.next()];
    }

    /// The segment that came reaches what is held beyond, or part of it.
    fn close_gap(&mut self) {
        while let Some((start, end)) = self.held.first()
            && start <= self.next
        {
            self.next = self.next.max(end);
            self.held.remove_below(self.next);
        }
        for range in &mut self.latest {
            *range = range.filter(|r| r.0 > self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Variant;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// The `n`th segment of 1448 bytes, sent at `n` ms.
    fn segment(n: u64) -> Segment {
        Segment {
            seq: n * 1448,
            len: 1448,
            retransmitted: false,
            cwr: false,
            sent_at: at_ms(n),
        }
    }

    fn in_segments(ack: &Ack) -> (u64, Vec<(u64, u64)>) {
        let blocks = ack.sacked().map(|(s, e)| (s / 1448, e / 1448));
        (ack.ack / 1448, blocks.collect())
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_a_single_one_after_the_delay() {
        let mut receiver = Receiver::new(&Config {
            quick_acks: 0,
            ..Config::linux(Variant::Reno)
        });
        assert_eq!(receiver.on_segment(at_ms(10), &segment(0), false), None);
        assert_eq!(receiver.next_timeout(), Some(at_ms(50)));
        let ack = receiver.on_segment(at_ms(11), &segment(1), false).unwrap();
        assert_eq!(in_segments(&ack).0, 2);
        // RFC 7323 §4.3: the earlier one's timestamp.
        assert_eq!(ack.echo(), Some(at_ms(0)));
        assert_eq!(receiver.next_timeout(), None);
        receiver.on_segment(at_ms(20), &segment(2), false);
        assert_eq!(receiver.on_timeout(at_ms(59)), None);
        // A copy that comes late does not turn the clock back.
        let mut copy = receiver.clone();
        let ack = copy.on_segment(at_ms(30), &segment(0), false).unwrap();
        assert_eq!(ack.echo(), Some(at_ms(2)));
        let ack = receiver.on_timeout(at_ms(60)).unwrap();
        assert_eq!((in_segments(&ack).0, ack.echo()), (3, Some(at_ms(2))));
        assert_eq!(receiver.on_timeout(at_ms(99)), None);
    }

    #[test]
    fn the_first_are_acknowledged_at_once_and_so_are_those_after_a_copy_or_a_silence() {
        let mut receiver = Receiver::new(&Config {
            quick_acks: 2,
            ..Config::linux(Variant::Reno)
        });
        let mut quick = |at, n| receiver.on_segment(at_ms(at), &segment(n), false).is_some();
        assert_eq!([quick(1, 0), quick(2, 1), quick(3, 2)], [true, true, false]);
        // Its own acknowledgement is one of the two.
        assert!(quick(4, 0));
        assert_eq!([quick(5, 3), quick(6, 4)], [true, false]);
        assert_eq!(
            [quick(206, 5), quick(407, 6), quick(408, 7), quick(409, 8)],
            [true, true, true, false]
        );
    }

    #[test]
    fn gaps_and_their_filling_are_acknowledged_at_once() {
        let mut receiver = Receiver::new(&Config::linux(Variant::Sack));
        receiver.on_segment(at_ms(1), &segment(0), false);
        for n in [2, 4, 6, 8] {
            let ack = receiver.on_segment(at_ms(n), &segment(n), false).unwrap();
            assert_eq!(in_segments(&ack).1[0], (n, n + 1));
        }
        // Latest first, three at most.
        let ack = receiver.on_segment(at_ms(9), &segment(3), false).unwrap();
        assert_eq!(in_segments(&ack), (1, vec![(2, 5), (8, 9), (6, 7)]));
        let ack = receiver.on_segment(at_ms(9), &segment(1), false).unwrap();
        assert_eq!(in_segments(&ack), (5, vec![(8, 9), (6, 7)]));
        let ack = receiver.on_segment(at_ms(9), &segment(3), false).unwrap();
        assert_eq!(in_segments(&ack).0, 5);
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_says_it_heard() {
        let config = Config {
            ecn: true,
            delayed_ack: DelayedAck::Off,
            ..Config::linux(Variant::Reno)
        };
        let mut receiver = Receiver::new(&config);
        let mut ece = |n, ce, cwr| {
            let segment = Segment { cwr, ..segment(n) };
            receiver.on_segment(at_ms(n), &segment, ce).unwrap().ece
        };
        assert!(!ece(0, false, false));
        assert!(ece(1, true, false));
        assert!(ece(2, false, false));
        assert!(!ece(3, false, true));
    }

    #[test]
    fn a_segment_beyond_the_window_is_not_kept() {
        let config = Config {
            window: Bytes::new(4 * 1448),
            ..Config::linux(Variant::Sack)
        };
        let mut receiver = Receiver::new(&config);
        let ack = receiver.on_segment(at_ms(1), &segment(4), false).unwrap();
        assert_eq!(in_segments(&ack), (0, vec![]));
        let ack = receiver.on_segment(at_ms(1), &segment(3), false).unwrap();
        assert_eq!(in_segments(&ack), (0, vec![(3, 4)]));
    }
}
