// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of ABRC.

use crate::param::{Choice, Hundredths, Ranged, Visitor, flag};
use crate::rate::Start;
use crate::units::{Duration, Fraction, Rate};

/// Unit of occupancies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Packets, as if all were of one length.
    Packets,
    /// Bytes of payload (footnote 1 of the paper).
    #[default]
    Bytes,
}

/// How the throughput of the next interval, BW*, is foretold (section 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Alone {
    /// The shortest time between two packets so far, as the paper has it. Where stations draw a backoff it is that of the luckiest.
    Shortest,
    /// The mean of the times of two packets in succession ([`Gaps`](crate::rate::gaps::Gaps)): the recent ones, and not those that only
    /// few are as short as.
    #[default]
    Pairs,
}

/// Packets on the path besides those in the queue, in the least B_T.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// None, as in the paper, whose path is a local network.
    None,
    /// As many as leave in the least RTT.
    #[default]
    Least,
}

/// Packets that count as having left the access point, for BW and T_mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Number of packets of which the first two leave at once, likewise; 0: none do. More than 50 are too many for [`Alone::Pairs`],
    /// which leaves out times that less than 2 % of the packets have.
    pub pair_each: u32,
    /// Packets on the path in the least B_T.
    pub path: Path,
    /// The rate at first, in payload.
    pub first: Rate,
    /// The longest payload of a packet, in bytes, at least 1.
    pub largest: u32,
    /// Packets whose departures the sender remembers at first, at least 1: more at high rates ([`SentLog`](crate::rate::sent::SentLog)).
    pub remembered: u32,
    /// Knowledge of the path; its rate stands for `first`.
    pub start: Option<Start>,
}

impl Default for AbrcParams {
    /// As much as all others; the paper's 1 s, 3 reports, 5 packets and BW* = BW (section 3). Chosen by us: 1000 packets at most,
    /// 1 Mbit/s at first, packets of 1400 bytes at most, 4096 of them; and choices that are nearer to k_T than the paper's own
    /// ([`AbrcParams::printed`]), with an acknowledgement for two packets which takes 0.3 of their time at 802.11b's 11 Mbit/s, a pair in ten
    /// packets, and occupancies in bytes: in packets the time of a call's short ones would stand for all.
    fn default() -> Self {
        Self {
            alone: Alone::Pairs,
            acks: Fraction::ratio(15, 100),
            leaving: Leaving::Numbered,
            unit: Unit::Bytes,
            pair_each: 10,
            path: Path::Least,
            ..Self::printed()
        }
    }
}

impl AbrcParams {
    /// Shows the parameters to `visit`.
    #[rustfmt::skip]
    pub(in crate::rate) fn fields(&mut self, visit: &mut Visitor<'_>) {
        let intervals = Duration::from_millis(10)..=Duration::from_secs(60);
        let rates = Rate::from_bps(1000)..=Rate::from_bps(1_000_000_000_000);
        let alone = &[("pairs", Alone::Pairs), ("shortest", Alone::Shortest)];
        let leaving = &[("numbered", Leaving::Numbered), ("received", Leaving::Received)];
        let units = &[("packets", Unit::Packets), ("bytes", Unit::Bytes)];
        let paths = &[("least", Path::Least), ("none", Path::None)];
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
        visit("pair_each", "number of packets of which the first two leave at once, for T_UDP; 0: none do", &mut Ranged(&mut self.pair_each, 0..=1000));
        visit("path", "packets on the path that the least target has beside `floor`: those of the least RTT, or none", &mut Choice(&mut self.path, paths));
        visit("granularity", "resolution of the sender's timer: packets of that time are made up for", &mut Ranged(&mut self.granularity, granularity));
    }

    /// T_UDP, BW, (7), the least B_T and occupancies as the paper prints them; the rest as by default.
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
            pair_each: 0,
            path: Path::None,
            first: Rate::from_bps(1_000_000),
            largest: 1400,
            remembered: 4096,
            start: None,
        }
    }
}
