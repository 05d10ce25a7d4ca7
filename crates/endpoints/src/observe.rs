// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flow whose rate is set from outside, as its sender knows it: counts of its own, and the receiver's reports that have come back.
//!
//! Reports are those of SCReAM and GCC, packets on the network as all others, so an observation is as old as the path back is long.

use std::collections::VecDeque;

use makeway_core::rate::{Feedback, Report};
use makeway_core::sched::Backlog;
use makeway_core::units::{Bytes, Duration, Instant, Rate};

/// A packet counts as lost once one with a number higher by this has come (RFC 9002 §6.1.1, kPacketThreshold).
const REORDERED: u64 = 3;
/// Packets behind the highest that came whose fate is remembered: a report speaks of 64. Chosen by us.
const KEPT: u64 = 128;
/// Packets without any report that are remembered at most; chosen by us.
const MOST: usize = 1 << 16;

/// Packets and their payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Number of packets.
    pub packets: u64,
    /// Payload.
    pub bytes: Bytes,
}

impl Amount {
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += Bytes::new(bytes.into());
    }
}

/// Quantiles of the one-way delays of an interval, above the least delay of the flow so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Median.
    pub p50: Duration,
    /// 95 % quantile.
    pub p95: Duration,
    /// The largest.
    pub max: Duration,
}

/// An interval of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Its begin.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// Rate allowed at its end, in payload.
    pub rate: Rate,
    /// Packets sent in it.
    pub sent: Amount,
    /// Packets whose arrival a report of the interval told first.
    pub delivered: Amount,
    /// Rate of the payload that arrived, by the receiver's clock. Without a report in the interval: the packets of the last report over
    /// the time since the report before it, so that it falls while the path is silent.
    pub delivery: Rate,
    /// Packets that reports of the interval showed as lost.
    pub lost: u64,
    /// Delivered packets that carried a CE mark.
    pub marked: u64,
    /// Delays of the delivered packets; `None`: there were none.
    pub delay: Option<Delays>,
    /// The least one-way delay so far.
    pub base: Option<Duration>,
    /// Round-trip time, each report's with a weight of 1/8.
    pub rtt: Option<Duration>,
    /// Datagrams that wait at the sender.
    pub backlog: Backlog,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Came,
    Lost,
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u32,
    state: State,
}

/// Counts of an interval that has not ended.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: Amount,
    delivered: Amount,
    lost: u64,
    marked: u64,
    /// Time of arrivals that reports told, by the receiver's clock, in ns.
    span: u64,
}

/// Observes a flow; an interval goes from one observation to the next. Delays take 8 bytes a packet until then.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    from: Instant,
    counts: Counts,
    delays: Vec<i64>,
    /// Packets whose fate may change, and the number of the first.
    sent: VecDeque<Sent>,
    first: u64,
    /// Packets below this number have come or are lost.
    judged: u64,
    /// The latest arrival that was told, by the receiver's clock, in ns.
    latest: Option<i64>,
    base: Option<i64>,
    rtt: Option<Duration>,
    /// Payload of the last interval with a report, and the time that it stands for, in ns.
    recent: (Bytes, u64),
}

impl Observer {
    /// From now on.
    pub fn new(now: Instant) -> Self {
        Self {
            from: now,
            counts: Counts::default(),
            delays: Vec::new(),
            sent: VecDeque::new(),
            first: 0,
            judged: 0,
            latest: None,
            base: None,
            rtt: None,
            recent: (Bytes::ZERO, 0),
        }
    }

    /// The smoothed RTT.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// A packet leaves. Numbers come in order and without gaps.
    pub fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        if self.sent.is_empty() {
            self.first = sequence;
            self.judged = sequence;
        }
        self.counts.sent.add(bytes);
        self.sent.push_back(Sent {
            at: now,
            bytes,
            state: State::Away,
        });
        if self.sent.len() > MOST {
            self.judge(self.first + 1);
            self.forget(self.first + 1);
        }
    }

    /// A report comes to the sender.
    pub fn on_report(&mut self, now: Instant, feedback: &Feedback) {
        let Report::Packets(report) = &feedback.report else {
            return;
        };
        let Some(highest) = self.packet(feedback.highest).copied() else {
            return;
        };
        // First and last arrival that this report tells first.
        let mut span: Option<(i64, i64)> = None;
        for told in report.packets() {
            let Some(sequence) = feedback.highest.checked_sub(told.back.into()) else {
                continue;
            };
            let Some(packet) = self.packet(sequence) else {
                continue;
            };
            let before = std::mem::replace(&mut packet.state, State::Came);
            let (at, bytes) = (packet.at.as_nanos() as i64, packet.bytes);
            match before {
                State::Came => continue,
                // It was late.
                State::Lost => self.counts.lost = self.counts.lost.saturating_sub(1),
                State::Away => {}
            }
            self.counts.delivered.add(bytes);
            self.counts.marked += u64::from(told.marked);
            let came = report.arrival(told);
            let (first, last) = span.unwrap_or((came, came));
            span = Some((first.min(came), last.max(came)));
            let delay = came - at;
            self.base = Some(self.base.map_or(delay, |base| base.min(delay)));
            self.delays.push(delay);
        }
        if let Some((first, last)) = span {
            let since = self.latest.unwrap_or(first);
            self.counts.span += last.saturating_sub(since).max(0) as u64;
            self.latest = Some(last.max(since));
        }
        self.judge((feedback.highest + 1).saturating_sub(REORDERED));
        self.forget(feedback.highest.saturating_sub(KEPT));
        let sample = now.saturating_since(highest.at + feedback.held).as_nanos();
        let smoothed = self
            .rtt
            .map_or(sample, |rtt| (7 * rtt.as_nanos() + sample) / 8);
        self.rtt = Some(Duration::from_nanos(smoothed));
    }

    /// The interval until now; the next one begins.
    pub fn take(&mut self, now: Instant, rate: Rate, backlog: Backlog) -> Observation {
        let counts = std::mem::take(&mut self.counts);
        let from = std::mem::replace(&mut self.from, now);
        let length = now.saturating_since(from).as_nanos();
        self.recent = match (counts.delivered.packets, counts.span) {
            (0, _) => (self.recent.0, self.recent.1.saturating_add(length)),
            // All came at once.
            (_, 0) => (counts.delivered.bytes, length),
            (_, span) => (counts.delivered.bytes, span),
        };
        self.delays.sort_unstable();
        let base = self.base.unwrap_or(0);
        let above = |delay: i64| Duration::from_nanos(delay.saturating_sub(base).max(0) as u64);
        let quantile = |percent: usize| {
            let rank = (self.delays.len() * percent).div_ceil(100);
            self.delays.get(rank.checked_sub(1)?).copied().map(above)
        };
        let delay = match [50, 95, 100].map(quantile) {
            [Some(p50), Some(p95), Some(max)] => Some(Delays { p50, p95, max }),
            _ => None,
        };
        self.delays.clear();
        Observation {
            from,
            to: now,
            rate,
            sent: counts.sent,
            delivered: counts.delivered,
            delivery: mean(self.recent),
            lost: counts.lost,
            marked: counts.marked,
            delay,
            base: self
                .base
                .map(|base| Duration::from_nanos(base.max(0) as u64)),
            rtt: self.rtt,
            backlog,
        }
    }

    fn packet(&mut self, sequence: u64) -> Option<&mut Sent> {
        let place = sequence.checked_sub(self.first)?;
        self.sent.get_mut(usize::try_from(place).ok()?)
    }

    /// Packets below `until` that have not come are lost.
    fn judge(&mut self, until: u64) {
        while self.judged < until {
            if let Some(packet) = self.packet(self.judged)
                && packet.state == State::Away
            {
                packet.state = State::Lost;
                self.counts.lost += 1;
            }
            self.judged += 1;
        }
    }

    /// Forgets packets below `until`, which have been judged.
    fn forget(&mut self, until: u64) {
        while self.first < until.min(self.judged) && self.sent.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// Bytes in ns as a rate.
fn mean((bytes, ns): (Bytes, u64)) -> Rate {
    let bits = u128::from(bytes.get()) * 8_000_000_000;
    let bps = bits.checked_div(ns.into()).unwrap_or(0);
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::rate::packets::{PacketArrival, PacketReport};

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// A report that leaves as its highest packet comes, of packets with their arrivals in ms; the highest is the first.
    fn report(packets: &[(u64, u64)]) -> Feedback {
        let (highest, came) = packets[0];
        let mut report = PacketReport::new(at(came));
        for (sequence, ms) in packets {
            report.push(PacketArrival {
                back: (highest - sequence) as u16,
                before_us: (came as i32 - *ms as i32) * 1000,
                marked: false,
            });
        }
        Feedback {
            highest,
            held: Duration::ZERO,
            report: Report::Packets(report),
        }
    }

    fn take(observer: &mut Observer, ms: u64) -> Observation {
        observer.take(at(ms), Rate::default(), Backlog::default())
    }

    /// 1000 B each 10 ms over 20 ms; the path back takes 30 ms.
    fn running() -> Observer {
        let mut observer = Observer::new(at(0));
        for sequence in 0..10 {
            observer.on_sent(at(10 * sequence), sequence, 1000);
        }
        observer
    }

    #[test]
    fn an_interval_has_what_its_reports_told_first() {
        let mut observer = running();
        observer.on_report(at(70), &report(&[(2, 40), (1, 30), (0, 20)]));
        let first = take(&mut observer, 100);
        assert_eq!((first.from, first.to), (at(0), at(100)));
        assert_eq!(
            (first.sent.packets, first.sent.bytes),
            (10, Bytes::new(10_000))
        );
        assert_eq!(first.delivered.packets, 3);
        // Three packets in 20 ms.
        assert_eq!(first.delivery, Rate::from_bps(1_200_000));
        assert_eq!(first.base, Some(Duration::from_millis(20)));
        assert_eq!(first.rtt, Some(Duration::from_millis(50)));
        assert_eq!(first.delay.map(|delay| delay.max), Some(Duration::ZERO));
        // Repeated reports count once; delays are above the least of all.
        observer.on_report(at(120), &report(&[(4, 80), (3, 60), (2, 40)]));
        let second = take(&mut observer, 200);
        assert_eq!(
            (second.from, second.delivered.packets, second.lost),
            (at(100), 2, 0)
        );
        assert_eq!(second.delivery, Rate::from_bps(400_000));
        let ms = Duration::from_millis;
        let expected = Delays {
            p50: ms(10),
            p95: ms(20),
            max: ms(20),
        };
        assert_eq!(second.delay, Some(expected));
        assert_eq!(second.rtt, Some(Duration::from_micros((7 * 50 + 80) * 125)));
        // A silent path: the two packets stand for 40 ms and an interval of 160 ms.
        let third = take(&mut observer, 360);
        assert_eq!((third.delivered.packets, third.delay), (0, None));
        assert_eq!(third.delivery, Rate::from_bps(80_000));
        assert_eq!(third.rtt, second.rtt);
    }

    #[test]
    fn a_packet_is_lost_when_one_three_above_has_come() {
        let mut observer = running();
        observer.on_report(at(70), &report(&[(3, 50), (0, 20)]));
        assert_eq!(take(&mut observer, 80).lost, 0);
        observer.on_report(at(90), &report(&[(5, 70), (4, 60), (3, 50), (0, 20)]));
        let observed = take(&mut observer, 100);
        assert_eq!((observed.lost, observed.delivered.packets), (2, 2));
        // It was only late.
        observer.on_report(at(100), &report(&[(6, 80), (1, 79)]));
        observer.on_report(at(140), &report(&[(9, 110)]));
        let observed = take(&mut observer, 200);
        assert_eq!((observed.lost, observed.delivered.packets), (0, 3));
    }

    #[test]
    fn memory_is_bounded_where_no_report_comes() {
        let mut observer = Observer::new(at(0));
        for sequence in 0..MOST as u64 + 10 {
            observer.on_sent(at(sequence), sequence, 100);
        }
        assert_eq!((observer.sent.len(), observer.first), (MOST, 10));
        assert_eq!(take(&mut observer, 100_000).lost, 10);
        observer.on_report(at(200_000), &report(&[(1 << 40, 5)]));
        observer.on_report(at(200_000), &report(&[(3, 5)]));
        assert_eq!(take(&mut observer, 200_000).delivered.packets, 0);
    }
}
