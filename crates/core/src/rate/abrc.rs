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
//! | "two UDP packets will be transmitted in succession" | by chance, or [`AbrcParams::pair`] |
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
//! - **Bounds.** The rate of (8) is at least one packet in an interval, so that there is a packet to report on; B_T is at most
//!   [`AbrcParams::most`], so that an absurd T_UDP does no harm.

mod receiver;

use super::sent::SentLog;
use super::{Feedback, FeedbackError, RateController, Report, Start};
use crate::param::{Choice, Hundredths, Ranged, Visitor, flag};
use crate::units::{Duration, Fraction, Instant, Rate};
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

pub use receiver::AbrcReceiver;

/// Intervals without a report before the rate is halved, and without a packet before the receiver rests.
const SILENT: u64 = 3;

/// A sender that sends less of what it might is limited by its data.
const LIMITED: f64 = 0.9;

/// The longest time between packets, in seconds.
const SLOWEST: f64 = 64.0;

/// Unit of occupancies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Packets, as if all were of one length.
    #[default]
    Packets,
    /// Bytes of payload (footnote 1 of the paper).
    Bytes,
}

/// How the throughput of the next interval, BW*, is foretold (section 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Smoothing {
    /// Throughput of the last interval.
    #[default]
    Last,
    /// The mean of this number of last values, 1 to [`Smoothing::MOST`].
    Mean(u8),
    /// A moving average with this weight for the last.
    Exponential(Fraction),
}

impl Smoothing {
    /// Intervals that a mean is of, at most.
    pub const MOST: usize = 16;
    /// A moving average with a weight of a quarter for the last.
    pub const QUARTER: Self = Self::Exponential(Fraction::ratio(1, 4));
}

/// The receiver's estimate of T_UDP, the time of a packet that finds no other before it (section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alone {
    /// The shortest time between two packets so far, as the paper has it. Where stations draw a backoff it is that of the luckiest.
    Shortest,
    /// The mean of the times of two packets in succession ([`Gaps`](super::gaps::Gaps)): the recent ones, and not those that only
    /// few are as short as.
    #[default]
    Pairs,
}

/// Packets that count as having left the access point, for BW and T_mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaving {
    /// Received packets, as in the paper. Packets lost by the radio then seem to wait for ever.
    Received,
    /// Packets by sequence numbers, received or lost behind the queue.
    #[default]
    Numbered,
}

/// Parameters of ABRC's two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbrcParams {
    /// k_T in hundredths: this stream's rate by that of all others.
    pub share: u32,
    /// t, between reports; not zero.
    pub interval: Duration,
    /// Reports between updates of B_T, at least 1.
    pub retarget: u32,
    /// The least B_T, in packets.
    pub floor: u32,
    /// The largest B_T, in packets.
    pub most: u32,
    /// BW*.
    pub smoothing: Smoothing,
    /// T_UDP.
    pub alone: Alone,
    /// alpha T_ACK / T_TCP of (5): what acknowledgements on the same radio add to each packet of others. The paper leaves it out.
    pub acks: Fraction,
    /// BW and T_mix.
    pub leaving: Leaving,
    /// Unit of occupancies.
    pub unit: Unit,
    /// Resolution of the sender's timer, at most 1 s: a sender that is late by it makes up for the packets of that time.
    pub granularity: Duration,
    /// The first two packets after each report leave at once, so that T_UDP is seen where evenly spaced packets never follow one
    /// another in the queue.
    pub pair: bool,
    /// The rate at first, in payload.
    pub first: Rate,
    /// The longest payload of a packet, in bytes, at least 1.
    pub largest: u32,
    /// Packets whose departures the sender remembers at first, at least 1: more at high rates ([`SentLog`]).
    pub remembered: u32,
    /// Knowledge of the path; its rate stands for `first`.
    pub start: Option<Start>,
}

impl Default for AbrcParams {
    /// As much as all others; the paper's 1 s, 3 reports, 5 packets and BW* = BW (section 3). Chosen by us: 1000 packets at most,
    /// 1 Mbit/s at first, packets of 1400 bytes at most, 4096 of them; and choices that are nearer to k_T than the paper's own
    /// ([`AbrcParams::printed`]), with an acknowledgement for two packets which takes 0.3 of their time at 802.11b's 11 Mbit/s.
    fn default() -> Self {
        Self {
            alone: Alone::Pairs,
            acks: Fraction::ratio(15, 100),
            leaving: Leaving::Numbered,
            ..Self::printed()
        }
    }
}

impl AbrcParams {
    /// Shows the parameters to `visit`.
    #[rustfmt::skip]
    pub(super) fn fields(&mut self, visit: &mut Visitor<'_>) {
        let intervals = Duration::from_millis(10)..=Duration::from_secs(60);
        let rates = Rate::from_bps(1000)..=Rate::from_bps(1_000_000_000_000);
        let alone = &[("pairs", Alone::Pairs), ("shortest", Alone::Shortest)];
        let leaving = &[("numbered", Leaving::Numbered), ("received", Leaving::Received)];
        let units = &[("packets", Unit::Packets), ("bytes", Unit::Bytes)];
        let smoothings = &[("last", Smoothing::Last), ("mean", Smoothing::Mean(4)), ("exponential", Smoothing::QUARTER)];
        let granularity = Duration::ZERO..=Duration::from_secs(1);
        visit("k", "rate of this stream by that of all others in the same queue", &mut Hundredths(&mut self.share, 1..=10_000));
        visit("interval", "time between reports", &mut Ranged(&mut self.interval, intervals));
        visit("retarget", "reports between updates of the target", &mut Ranged(&mut self.retarget, 1..=1000));
        visit("floor", "packets in the queue at least", &mut Ranged(&mut self.floor, 1..=1000));
        visit("first", "rate at the start", &mut Ranged(&mut self.first, rates));
        visit("t_udp", "the receiver's estimate of the time of a packet alone: the mean of packets in succession, or the shortest", &mut Choice(&mut self.alone, alone));
        visit("acks", "time that acknowledgements on the same radio add to a packet of TCP; 0 where they take another path", &mut Ranged(&mut self.acks, Fraction::default()..=Fraction::ONE));
        visit("leaving", "whether packets lost behind the queue have left it (`numbered`) or wait there (`received`)", &mut Choice(&mut self.leaving, leaving));
        visit("unit", "unit of occupancies", &mut Choice(&mut self.unit, units));
        visit("smoothing", "the throughput expected of the next interval: that of the last one, the mean of the last four, or a moving average with a weight of a quarter", &mut Choice(&mut self.smoothing, smoothings));
        visit("pair", "the first two packets after each report leave at once, for T_UDP", &mut flag(&mut self.pair));
        visit("granularity", "resolution of the sender's timer: packets of that time are made up for", &mut Ranged(&mut self.granularity, granularity));
    }

    /// T_UDP, BW and (7) as the paper prints them; the rest as by default.
    pub fn printed() -> Self {
        Self {
            alone: Alone::Shortest,
            acks: Fraction::default(),
            leaving: Leaving::Received,
            share: 100,
            interval: Duration::from_secs(1),
            retarget: 3,
            floor: 5,
            most: 1000,
            smoothing: Smoothing::Last,
            unit: Unit::Packets,
            granularity: Duration::ZERO,
            pair: false,
            first: Rate::from_bps(1_000_000),
            largest: 1400,
            remembered: 4096,
            start: None,
        }
    }
}

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
        self.pair = match self.pair {
            (true, _) => {
                self.nominal = Some((nominal, 0.0));
                (false, units)
            }
            (false, owed) => {
                self.nominal = Some((nominal, units + owed));
                (false, 0.0)
            }
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
        // (7), where T_mix is the interval for each packet of it.
        self.others = match shortest {
            Some(shortest) if left.0 > 0.0 => {
                let mixed = length / left.0;
                let alone = shortest.as_secs_f64();
                let other = alone * (1.0 + self.params.acks.as_f64());
                ((mixed - alone) / other * self.occupancy).max(0.0)
            }
            _ => 0.0,
        };
        let unit = self.packet();
        let due = u64::from(self.params.retarget.max(1));
        // An interval in which nothing left says nothing of others.
        if left.0 > 0.0 && self.reports.is_multiple_of(due) {
            // (3), and step 3 of section 3.
            let target = f64::from(self.params.share) / 100.0 * self.others;
            let floor = f64::from(self.params.floor) * unit;
            self.target = target.min(f64::from(self.params.most) * unit).max(floor);
        }
        let standing = self.occupancy >= f64::from(self.params.floor) * unit;
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
