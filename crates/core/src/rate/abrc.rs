// SPDX-License-Identifier: MIT OR Apache-2.0
//! ABRC: keeps a backlog in an access point's queue with which the stream gets `k_T` times the rate of all others.
//!
//! Source: W. Wang, S. C. Liew, J. Y. B. Lee, "ABRC: An End-to-End Rate Adaptation Scheme for Multimedia Streaming over Wireless
//! LAN", sections 2 and 3.
//!
//! | paper | here |
//! | --- | --- |
//! | k_T | [`AbrcParams::share`] |
//! | t, the interval of B_T | [`AbrcParams::interval`], [`AbrcParams::retarget`] |
//! | Seq_send, Seq_recv | the last packet sent, [`Feedback::highest`] |
//! | T_UDP, T_mix | `shortest` of [`Report::Arrivals`], which [`Alone`] and [`Gaps`](super::gaps::Gaps) say; its `interval` for each packet |
//! | B_UDP, B_TCP, B_T | [`Abrc::occupancy`], [`Abrc::others`], [`Abrc::target`], in [`Unit`]s |
//! | BW_i, BW*_(i+1), S_(i+1) | `throughput`, [`Smoothing`], `rate`, in units per second |
//! | "two UDP packets will be transmitted in succession" | by chance, or [`AbrcParams::pair`], [`AbrcParams::pair_each`] |
//!
//! Not defined by the paper, and chosen here:
//! - **Start.** Equation (8) adds B_T / t an interval to a stream that has an empty queue before it, which takes minutes to fill a
//!   WLAN. So the stream begins at [`AbrcParams::first`] and doubles with each report until a queue stands (B_UDP of at least
//!   [`AbrcParams::floor`]) or less comes out than goes in.
//! - **Silence.** Where no report comes for three intervals after a packet the rate is halved, and again after each further one,
//!   down to a packet in 64 s, as with TFRC.
//! - **Too little data.** A sender that sent less than nine tenths of what it might does not lower its rate for that, as long as it
//!   holds no more than B_T: (8) would take what it did not send for what the link does not carry. Nor does one that has sent
//!   nothing since the last report when no other comes. RFC 5348 §4.4 and RFC 7661 are the pattern.
//! - **Pairs.** Evenly paced packets of a small stream never follow one another in the queue, so T_UDP seems to be the time of two packets
//!   or more, and the stream gets less than k_T. So of each [`AbrcParams::pair_each`] packets two leave at once.
//! - **Path.** (4) counts the packets on the path beside those in the queue, and step 3 of section 3 then holds five packets in an RTT. So the
//!   least B_T is five packets and a part of those that leave in the least RTT of the last one or two [`SPAN`]s of reports
//!   ([`Path::Least`]): all of them where RTTs stay near the least, so that nothing waits, else our share of the packets that leave the
//!   queue, T_UDP / T_mix. A queue that others fill makes the least RTT too long; the share keeps this error small. None of them where an
//!   interval's losses say that a buffer is full. (4), (7) and (8)
//!   stay as they are: both sides of (7) grow by the path, and k_T is met.
//! - **Bounds.** The rate of (8) is at least one packet in an interval, so that there is a packet to report on; (3) is at most
//!   [`AbrcParams::most`], so that an absurd T_UDP does no harm.

mod params;
mod receiver;

use super::sent::SentLog;
use super::{Feedback, FeedbackError, RateController, Report};
use crate::units::{Duration, Instant, Rate};
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

pub use params::{AbrcParams, Alone, Leaving, Path, Smoothing, Unit};
pub use receiver::AbrcReceiver;

/// Intervals without a report before the rate is halved, and without a packet before the receiver rests.
const SILENT: u64 = 3;

/// A sender that sends less of what it might is limited by its data.
const LIMITED: f64 = 0.9;

/// Reports after which the least RTT is sought anew, so that a path that becomes longer is followed. Chosen by us.
const SPAN: u64 = 60;

/// An RTT is near the least if it is longer by no more than this number of T_UDP: the two packets of a pair, and some jitter. Nothing
/// waits after this number of such reports in a row. Both chosen by us.
const NEAR: f64 = 1.5;
const IDLE: u32 = 3;

/// A share of lost packets from which on a buffer is taken to be full. Chosen by us.
const OVERFLOW: f64 = 0.06;

/// The longest time between packets, in seconds.
const SLOWEST: f64 = 64.0;

/// Streams that together ask for all of a link or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{streams} ABRC streams ask for {thousandths} thousandths of the link and more than it has: lower their shares until the sum of k / (k + 1) is below 1"
)]
pub struct Unstable {
    /// How many.
    pub streams: usize,
    /// The sum of beta, in thousandths.
    pub thousandths: u64,
}

/// Whether streams with these k_T, in hundredths, are stable together: the sum of beta_i = k_i / (k_i + 1) is below 1 (section 4).
///
/// # Errors
/// It is not.
pub fn stable(shares: &[u32]) -> Result<(), Unstable> {
    let beta = |k: &u32| f64::from(*k) / (f64::from(*k) + 100.0);
    let sum: f64 = shares.iter().map(beta).sum();
    // A sum that is one but for rounding is one.
    if sum < 1.0 - 1e-9 {
        return Ok(());
    }
    Err(Unstable {
        streams: shares.len(),
        thousandths: (sum * 1000.0).round() as u64,
    })
}

/// The sender's half.
#[derive(Clone, Debug)]
pub struct Abrc {
    params: AbrcParams,
    sent: SentLog,
    /// Mean payload of a packet.
    mean: f64,
    rate: f64,
    starting: bool,
    /// B_T of (3), without its least.
    share: f64,
    target: f64,
    others: f64,
    occupancy: f64,
    waiting: u64,
    /// BW_i, the latest first.
    throughput: [f64; Smoothing::MOST],
    average: f64,
    reports: u64,
    /// Packets and bytes in all reports.
    reported: (u64, u64),
    last: Option<(u64, Duration)>,
    /// When the last report came, or the first packet left, and units sent until then.
    since: Option<(Instant, f64)>,
    /// Packets up to the highest that was received, and their bytes.
    passed: (u64, u64),
    rtt: Option<Duration>,
    /// The least RTT of this span of reports, and of the last one.
    least: [Option<Duration>; 2],
    /// Reports in a row whose RTT was near the least.
    near: u32,
    /// When the last packet should have left, and its units.
    nominal: Option<(Instant, f64)>,
    /// Whether the next packet is the first of a pair, and the units of one that was.
    pair: (bool, f64),
    timer: Option<Instant>,
}

impl Abrc {
    /// Nothing sent yet.
    pub fn new(params: AbrcParams) -> Self {
        let mut abrc = Self {
            params,
            sent: SentLog::new(params.remembered),
            mean: f64::from(params.largest.max(1)),
            rate: 0.0,
            starting: true,
            share: 0.0,
            target: 0.0,
            others: 0.0,
            occupancy: 0.0,
            waiting: 0,
            throughput: [0.0; Smoothing::MOST],
            average: 0.0,
            reports: 0,
            reported: (0, 0),
            last: None,
            since: None,
            passed: (0, 0),
            rtt: None,
            least: [None; 2],
            near: 0,
            nominal: None,
            pair: (params.pair, 0.0),
            timer: None,
        };
        let first = params.start.map_or(params.first, |start| start.rate);
        abrc.rate = first.bps() as f64 / 8.0 / abrc.mean * abrc.packet();
        abrc.target = f64::from(params.floor) * abrc.packet();
        abrc
    }

    /// B_UDP at the last report (4).
    pub fn occupancy(&self) -> f64 {
        self.occupancy
    }

    /// The same in packets, for either unit of occupancies.
    pub fn packets_waiting(&self) -> u64 {
        self.waiting
    }

    /// B_TCP at the last report (7).
    pub fn others(&self) -> f64 {
        self.others
    }

    /// B_T (3).
    pub fn target(&self) -> f64 {
        self.target
    }

    /// Units in a packet: 1, or its bytes.
    fn packet(&self) -> f64 {
        match self.params.unit {
            Unit::Packets => 1.0,
            Unit::Bytes => self.mean,
        }
    }

    /// BW*_(i+1) (section 2.3).
    fn expected(&self) -> f64 {
        match self.params.smoothing {
            Smoothing::Last => self.throughput[0],
            Smoothing::Mean(n) => {
                let n = u64::from(n)
                    .clamp(1, Smoothing::MOST as u64)
                    .min(self.reports);
                let last = &self.throughput[..n as usize];
                last.iter().sum::<f64>() / n as f64
            }
            Smoothing::Exponential(_) => self.average,
        }
    }

    fn note_throughput(&mut self, throughput: f64) {
        self.throughput.rotate_right(1);
        self.throughput[0] = throughput;
        let weight = match (self.params.smoothing, self.reports) {
            (Smoothing::Exponential(weight), 1..) => weight.as_f64(),
            _ => 1.0,
        };
        self.average += (throughput - self.average) * weight;
        self.reports += 1;
    }

    /// All that was sent.
    fn sent(&self) -> f64 {
        match self.params.unit {
            Unit::Packets => self.sent.next() as f64,
            Unit::Bytes => self.sent.total() as f64,
        }
    }

    /// Whether since the last report less was sent than the rate allowed.
    fn limited_by_data(&self, now: Instant) -> bool {
        self.since.is_some_and(|(since, sent)| {
            let allowed = self.rate * now.saturating_since(since).as_secs_f64();
            self.sent() - sent < LIMITED * allowed - self.packet()
        })
    }

    /// Notes an RTT; the least of the last one or two spans.
    fn least_rtt(&mut self, sample: Duration) -> Duration {
        if self.reports.is_multiple_of(SPAN) {
            self.least = [None, self.least[0]];
        }
        let [this, last] = self.least;
        let this = this.map_or(sample, |least| least.min(sample));
        self.least[0] = Some(this);
        last.map_or(this, |last| last.min(this))
    }

    /// Units that would be on the path without any queue, of those sent after the last packet reported: they left within the least RTT
    /// before the report, of which the receiver held the packet for `held`.
    fn on_path(&self, now: Instant, held: Duration, least: Duration) -> f64 {
        if self.params.path == Path::None {
            return 0.0;
        }
        let last = self.sent.last_by(now - held - least);
        let left = last.map_or((0, 0), |(sequence, packet)| (sequence + 1, packet.total));
        let queued = match self.params.unit {
            Unit::Packets => left.0.saturating_sub(self.passed.0),
            Unit::Bytes => left.1.saturating_sub(self.passed.1),
        };
        (self.occupancy - queued as f64).max(0.0)
    }

    fn restart_timer(&mut self, now: Instant, intervals: u64) {
        self.timer = Some(now + self.params.interval * intervals);
    }
}

impl RateController for Abrc {
    fn next_send(&self) -> Option<Instant> {
        let Some((nominal, units)) = self.nominal else {
            return Some(Instant::ZERO);
        };
        Some(nominal + Duration::from_nanos((units / self.rate * 1e9) as u64))
    }

    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        debug_assert_eq!(sequence, self.sent.next());
        self.since.get_or_insert((now, 0.0));
        self.mean += (f64::from(bytes.max(1)) - self.mean) / 64.0;
        self.sent.push(now, bytes);
        let units = match self.params.unit {
            Unit::Packets => 1.0,
            Unit::Bytes => f64::from(bytes.max(1)),
        };
        // A sender that is late by less than a packet, and its timer's resolution, makes up for it.
        let packet = Duration::from_nanos((units / self.rate * 1e9) as u64);
        let least = now - packet - self.params.granularity;
        let nominal = self
            .next_send()
            .map_or(now, |next| next.max(least).min(now));
        // The second packet of a pair waits for nothing, the one after it for both.
        let (after_report, owed) = self.pair;
        let each = u64::from(self.params.pair_each);
        let is_due = owed == 0.0 && each > 0 && sequence.is_multiple_of(each);
        let all = units + owed;
        (self.nominal, self.pair) = match after_report || is_due {
            true => (Some((nominal, 0.0)), (false, all)),
            false => (Some((nominal, all)), (false, 0.0)),
        };
        if self.timer.is_none() {
            self.restart_timer(now, SILENT);
        }
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError> {
        let Report::Arrivals {
            interval,
            packets,
            bytes,
            shortest,
        } = feedback.report
        else {
            return Err(FeedbackError::WrongKind);
        };
        let packet = self.sent.packet(feedback.highest)?;
        let this = (feedback.highest, feedback.held);
        if self.last.is_some_and(|last| this <= last) {
            return Err(FeedbackError::Stale);
        }
        let sample = self.sent.rtt(now, packet, feedback.held)?;
        if interval < self.params.interval / 2 {
            return Err(FeedbackError::OutOfRange("length of its interval"));
        }
        let reported = (
            self.reported.0 + u64::from(packets),
            self.reported.1.saturating_add(bytes),
        );
        if reported.0 > feedback.highest + 1 || reported.1 > packet.total {
            return Err(FeedbackError::OutOfRange("count of received packets"));
        }
        if shortest.is_some_and(|shortest| shortest == Duration::ZERO || shortest > interval) {
            return Err(FeedbackError::OutOfRange("shortest time between packets"));
        }
        self.sent.note_report(now, packet);
        self.last = Some(this);
        self.reported = reported;
        self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
        let least = self.least_rtt(sample);

        let limited = self.limited_by_data(now);
        self.since = Some((now, self.sent()));
        let length = interval.as_secs_f64();
        let passed = (feedback.highest + 1, packet.total);
        let left = match self.params.leaving {
            Leaving::Received => (f64::from(packets), bytes as f64),
            Leaving::Numbered => (
                (passed.0 - self.passed.0) as f64,
                (passed.1 - self.passed.1) as f64,
            ),
        };
        self.passed = passed;
        let (throughput, sent_since) = match self.params.unit {
            Unit::Packets => (left.0, self.sent.next() - passed.0),
            Unit::Bytes => (left.1, self.sent.total() - passed.1),
        };
        self.waiting = self.sent.next() - passed.0;
        // (4)
        self.occupancy = sent_since as f64;
        self.note_throughput(throughput / length);
        let path = self.on_path(now, feedback.held, least);
        // (7), where T_mix is the interval for each packet of it; and our part of the packets that leave.
        let (others, part) = match shortest {
            Some(shortest) if left.0 > 0.0 => {
                let mixed = length / left.0;
                let alone = shortest.as_secs_f64();
                let other = alone * (1.0 + self.params.acks.as_f64());
                let others = (mixed - alone) / other * self.occupancy;
                (others.max(0.0), (alone / mixed).min(1.0))
            }
            _ => (0.0, 1.0),
        };
        self.others = others;
        let is_near = shortest.is_some_and(|alone| {
            let longer = sample.as_secs_f64() - least.as_secs_f64();
            longer <= NEAR * alone.as_secs_f64()
        });
        self.near = if is_near {
            self.near.saturating_add(1)
        } else {
            0
        };
        let unit = self.packet();
        let due = u64::from(self.params.retarget.max(1));
        // An interval in which nothing left says nothing of others.
        if left.0 > 0.0 && self.reports.is_multiple_of(due) {
            // (3)
            let share = f64::from(self.params.share) / 100.0 * self.others;
            self.share = share.min(f64::from(self.params.most) * unit);
        }
        // Step 3 of section 3.
        let queue = f64::from(self.params.floor) * unit;
        // Packets that a full buffer drops have left by their numbers, and the least RTT may be that of a full buffer.
        let overflows = f64::from(packets) < (1.0 - OVERFLOW) * left.0;
        let credit = match (overflows, self.near >= IDLE) {
            (true, _) => 0.0,
            (false, true) => 1.0,
            (false, false) => part,
        };
        self.target = self.share.max(queue + path * credit);
        let standing = self.occupancy - path >= queue;
        self.starting &= !standing && (limited || self.throughput[0] >= 0.9 * self.rate);
        let t = self.params.interval.as_secs_f64();
        // (8)
        let asked = (self.target + self.expected() * t - self.occupancy) / t;
        self.rate = match (self.starting, limited) {
            (true, true) => self.rate,
            (true, false) => 2.0 * self.rate,
            (false, true) if self.occupancy <= self.target => asked.max(self.rate),
            (false, _) => asked,
        };
        self.rate = self.rate.max(unit / t);
        self.pair.0 = self.params.pair;
        // The next packet starts it: without one nothing is owed.
        self.timer = None;
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timer
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.rate = (self.rate / 2.0).max(self.packet() / SLOWEST);
        self.restart_timer(now, 1);
    }

    fn rate(&self) -> Rate {
        Rate::from_bps((self.rate / self.packet() * self.mean * 8.0) as u64)
    }

    fn rtt(&self) -> Option<Duration> {
        self.rtt.or(self.params.start.map(|start| start.rtt))
    }
}
