// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ticket-based RED: RED whose chances depend on the tickets of the packet, so that flows which carry few for the data
//! that they send are dropped first, and shares of the link come out as tickets were issued.
//!
//! Source: M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, "Probabilistic Packet Scheduling: Achieving
//! Proportional Share Bandwidth Allocation", Princeton TR-632-01, 2001, section 2.4.2. Tickets are
//! written on packets by [`crate::ticket`].
//!
//! | paper | here |
//! | --- | --- |
//! | `AvgQLen`, `p`, the thresholds | those of [`Red`] |
//! | `InTkt` | [`Packet::tag`] by `codec` |
//! | `MinTkt` over some interval | [`Least`], over one to two times `interval` |
//! | `ExpectTktRate`, `ExpectPktRate` by TSW | `expect_tickets`, `expect_bytes`, over `window` |
//! | `K` | `k`, in hundredths |
//! | `p × (ExpectTkt / InTkt)^3` | [`Expected::weigh`], to the power of `exponent` |
//!
//! Cost per packet: RED's, and the tag's: four divisions of 128 bits, three of them for a packet that counts for
//! `ExpectTkt`, one where RED has a probability.
//!
//! `p` is RED's `p_b`, weighed before RED spaces its drops; with `spaced` it is `p_a`, as "calculate probability p as in RED" can
//! be read too. Weighed before, a packet becomes one to drop `1 / p` packets after the last
//! drop, by its own `p`: who has the fewest tickets comes first, and begins the count anew for all. That differs
//! more between flows than their probabilities do (docs/disciplines/tred.md has figures).
//!
//! Departures from the paper: tickets are for each 1000 bytes and `ExpectPktRate` counts bytes, see
//! [`crate::ticket`]. A packet without tickets does not count for `MinTkt`, and goes as soon as RED has any
//! probability, if others have tickets; where nobody has had any for an interval or two this is RED. Exponent and `window` are other
//! than the paper's 3 and 60 s by default.

use super::red::{ONE, Red, RedParams};
use super::spec::Describe;
use super::{Backlog, Counts, Drops, Env, Needs, Scheduler};
use crate::packet::Packet;
use crate::param::{Hundredths, Ranged, Visitor, flag};
use crate::ticket::{Codec, Tickets, Tsw};
use crate::units::{Bytes, Duration, Instant};
use alloc::boxed::Box;
use alloc::string::String;
use core::ops::RangeInclusive;

/// Parameters of TRED beside [`RedParams`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TredParams {
    /// Parameters of RED.
    pub red: RedParams,
    /// K in hundredths: packets that carry up to K times the least tickets count for what is expected; above 100,
    /// up to 10 000.
    pub k: u32,
    /// Power of `ExpectTkt / InTkt`; 1 to 64.
    pub exponent: u32,
    /// The least tickets are those of this time and up to as much before it; 1 ms to an hour.
    pub interval: Duration,
    /// TSW's window for what is expected; 1 ms to an hour.
    pub window: Duration,
    /// Tickets weigh RED's probability after it has spaced its drops, instead of before.
    pub spaced: bool,
}

impl Default for TredParams {
    /// K = 1.4 as in the paper, where the power is 3, the window 60 s, and nothing is said of the interval
    /// (docs/disciplines/tred.md has the figures that chose these).
    fn default() -> Self {
        Self {
            red: RedParams::default(),
            k: 140,
            exponent: 6,
            interval: Duration::from_secs(1),
            window: Duration::from_secs(1),
            spaced: false,
        }
    }
}

/// The parameter `tred.window`.
pub(super) fn window(window: &mut Duration, visit: &mut Visitor<'_>) {
    visit(
        "tred.window",
        "window over which tickets are averaged",
        &mut Ranged(window, TIMES),
    );
}

/// Range of intervals and windows.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Tsw::MOST_WINDOW;

impl Describe for TredParams {
    const NAME: &'static str = "tred";
    const ABOUT: &'static str = "as red, but packets with fewer tickets are dropped more often";
    const IN_THE_KERNEL: bool = true;

    fn needs(&self) -> Needs {
        Needs {
            reads_tags: true,
            ..Needs::default()
        }
    }

    fn not_in_the_kernel(&self) -> Option<&'static str> {
        match (self.red.ecn, self.spaced) {
            (true, _) => Some("ecn"),
            (false, true) => Some("tred.spaced"),
            (false, false) => None,
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        self.red.all_fields(visit);
        visit(
            "tred.k",
            "packets with up to `k` times the least tickets count for the expected tickets",
            &mut Hundredths(&mut self.k, 101..=10_000),
        );
        visit(
            "tred.exponent",
            "power of expected tickets over tickets in the drop probability",
            &mut Ranged(&mut self.exponent, 1..=64),
        );
        visit(
            "tred.interval",
            "time over which the least tickets are taken",
            &mut Ranged(&mut self.interval, TIMES),
        );
        window(&mut self.window, visit);
        visit(
            "tred.spaced",
            "tickets weigh the drop probability after RED has spaced its drops, instead of before",
            &mut flag(&mut self.spaced),
        );
    }

    fn check(&self) -> Result<(), String> {
        self.red.check("red")
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Tred::new(env, self.clone()))
    }
}

/// Ticket-based random early detection.
#[derive(Clone, Debug)]
pub struct Tred {
    red: Red,
    tickets: Expected,
}

impl Tred {
    /// An empty queue.
    pub fn new(env: &Env, params: TredParams) -> Self {
        Self {
            red: Red::new(env, params.red.clone()),
            tickets: Expected::new(env.codec, params),
        }
    }
}

impl Scheduler for Tred {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        let tickets = &mut self.tickets;
        let came = tickets.codec.decode(pkt.tag());
        tickets.count(now, came, pkt.len());
        let weigh = |p| tickets.weigh(p, came);
        match tickets.params.spaced {
            true => self.red.offer(now, pkt, drops, |p_b| p_b, weigh),
            false => self.red.offer(now, pkt, drops, weigh, |p_a| p_a),
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        self.red.dequeue(now, drops)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.red.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.red.backlog()
    }

    fn counts(&self) -> Counts {
        Counts {
            expected: self.tickets.packets,
            ..Counts::default()
        }
    }
}

/// Tickets expected on a packet of a flow that this link holds back.
#[derive(Clone, Debug)]
struct Expected {
    codec: Codec,
    params: TredParams,
    min: Least,
    expect_tickets: Tsw,
    expect_bytes: Tsw,
    /// Packets that have counted for the expected tickets.
    packets: u64,
}

impl Expected {
    fn new(codec: Codec, params: TredParams) -> Self {
        Self {
            min: Least::new(params.interval),
            expect_tickets: Tsw::new(params.window),
            expect_bytes: Tsw::new(params.window),
            packets: 0,
            codec,
            params,
        }
    }

    /// "if InTkt < K × MinTkt, compute ExpectTktRate and ExpectPktRate".
    fn count(&mut self, now: Instant, came: Tickets, len: Bytes) {
        self.min.roll(now);
        if came == Tickets::default() {
            return;
        }
        self.min.see(came);
        let min = self.min.tickets();
        if u64::from(came.scaled()) * 100 < u64::from(min.scaled()) * u64::from(self.params.k) {
            self.expect_tickets.count(now, came.of(len));
            self.expect_bytes.count(now, len.get());
            self.packets += 1;
        }
    }

    /// `p × (ExpectTkt / InTkt)^3`, one at most; probabilities from 0 to 2^64.
    fn weigh(&self, p: u128, came: Tickets) -> u128 {
        /// Bits behind the point of the ratio.
        const BITS: u32 = 48;
        if self.min.tickets() == Tickets::MAX {
            return p;
        }
        let Some(ratio) = self.ratio(came, BITS) else {
            return if p > 0 { ONE } else { 0 };
        };
        let mut weighed = p;
        for _ in 0..self.params.exponent {
            weighed = (weighed * ratio) >> BITS;
            if weighed >= ONE {
                return ONE;
            }
        }
        weighed
    }

    /// `ExpectTkt / InTkt` in `2^-bits`, below 2^63; none without tickets.
    fn ratio(&self, came: Tickets, bits: u32) -> Option<u128> {
        // Tickets of the window are below 2^84: 24 bits behind the point fit above that.
        let expected = (self.expect_tickets.in_window() << 24)
            .checked_div(self.expect_bytes.in_window())
            .unwrap_or(0);
        let ratio = (expected << (bits - 24)).checked_div(came.scaled().into())?;
        Some(ratio.min(1 << 63))
    }
}

/// The least of what came in the running interval and the one before.
#[derive(Clone, Debug)]
struct Least {
    interval: Duration,
    since: Instant,
    running: Tickets,
    before: Tickets,
}

impl Least {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            since: Instant::ZERO,
            running: Tickets::MAX,
            before: Tickets::MAX,
        }
    }

    /// It is `now`.
    fn roll(&mut self, now: Instant) {
        let over = now.saturating_since(self.since).as_nanos() / self.interval.as_nanos();
        if over > 0 {
            self.before = match over {
                1 => self.running,
                _ => Tickets::MAX,
            };
            self.running = Tickets::MAX;
            self.since += self.interval * over;
        }
    }

    fn see(&mut self, came: Tickets) {
        self.running = self.running.min(came);
    }

    /// [`Tickets::MAX`], which no tag says, if there were none.
    fn tickets(&self) -> Tickets {
        self.running.min(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use crate::sched::testing::{limits, packet};
    use crate::ticket::Scale;
    use crate::units::Fraction;

    /// The paper's parameters.
    fn papers() -> TredParams {
        TredParams {
            exponent: 3,
            window: Tsw::WINDOW,
            ..TredParams::default()
        }
    }

    fn expected(of: &[u16]) -> Expected {
        let mut expected = Expected::new(Codec::default(), papers());
        for tickets in of {
            let len = Bytes::new(1000);
            expected.count(Instant::ZERO, Tickets::new(*tickets), len);
        }
        expected
    }

    #[test]
    fn what_is_expected_is_the_mean_of_those_within_k_of_the_least() {
        // 10, 12, 13 are below 14; rich flows' 14 and 100 do not count.
        let mean = expected(&[10, 12, 13, 14, 100]);
        assert_eq!(mean.packets, 3);
        let ratio = mean.ratio(Tickets::new(10), 48).unwrap();
        // 35 / 30; `ExpectTkt` has 24 bits behind the point.
        assert!(ratio.abs_diff((35 << 48) / 30) < 1 << 26, "{ratio}");
    }

    #[test]
    fn the_probability_goes_with_the_third_power_of_what_is_expected_over_what_is_there() {
        let expected = expected(&[20]);
        let quarter = ONE / 4;
        let weigh = |tickets| expected.weigh(quarter, Tickets::new(tickets));
        // Within 10^-7: `ExpectTkt` has 24 bits behind the point.
        let close = |a: u128, b: u128| a.abs_diff(b) < ONE / 10_000_000;
        assert!(close(weigh(20), quarter));
        assert!(close(weigh(40), quarter / 8));
        assert!(close(weigh(30), quarter * 8 / 27));
        assert!(close(weigh(16), quarter * 125 / 64));
        assert_eq!(weigh(10), ONE);
    }

    #[test]
    fn without_tickets_there_is_no_mercy_and_no_influence() {
        let mut expected = expected(&[20, 20]);
        expected.count(Instant::ZERO, Tickets::default(), Bytes::new(1000));
        assert_eq!(expected.weigh(1, Tickets::default()), ONE);
        assert_eq!(expected.weigh(0, Tickets::default()), 0);
        assert!(expected.weigh(ONE / 4, Tickets::new(20)) > ONE / 5);
        // Two intervals later nobody has any, and this is RED.
        let later = Instant::ZERO + Duration::from_secs(2);
        expected.count(later, Tickets::default(), Bytes::new(1000));
        assert_eq!(expected.weigh(ONE / 4, Tickets::default()), ONE / 4);
    }

    #[test]
    fn the_least_is_forgotten_after_one_to_two_intervals() {
        let mut least = Least::new(Duration::from_secs(1));
        let mut of = |ms, n| {
            least.roll(Instant::ZERO + Duration::from_millis(ms));
            least.see(Tickets::new(n));
            least.tickets() == Tickets::new(n)
        };
        assert!(of(900, 10));
        assert!(!of(1100, 20) && !of(1999, 20));
        assert!(of(2000, 20));
        assert!(of(9000, 30));
    }

    /// Drops of a flow and of one with twice its tickets, which come by chance.
    fn lost_of_two_flows(params: TredParams) -> [usize; 2] {
        let red = RedParams {
            weight: Fraction::ONE,
            wait: false,
            ..RedParams::default()
        };
        let codec = Codec::new(8, Scale::Linear).unwrap();
        let params = TredParams { red, ..params };
        let mut env = Env::new(limits(50, 100_000));
        env.codec = codec;
        let mut tred = Tred::new(&env, params);
        let mut drops = Drops::default();
        let mut lost = [0; 2];
        let mut rng = Rng::new(1);
        for n in 0..200_000 {
            while tred.backlog().packets > 10 {
                tred.dequeue(Instant::ZERO, &mut drops);
            }
            // In turn they would meet RED's spacing of drops each in its own way.
            let rich = rng.below(2);
            let tag = codec.encode(Tickets::new(20 << rich));
            tred.enqueue(
                Instant::ZERO,
                packet(n, rich, 1000).with_tag(tag),
                &mut drops,
            );
            for (pkt, _) in drops.drain() {
                lost[pkt.flow.0 as usize] += 1;
            }
        }
        lost
    }

    /// RED's `p_a` is the same for both flows, and the rich flow's an eighth of it; a drop of either begins the count anew.
    #[test]
    fn weighed_after_spacing_an_eighth_of_the_probability_is_an_eighth_of_the_drops() {
        let [poor, rich] = lost_of_two_flows(TredParams {
            spaced: true,
            ..papers()
        });
        let all = poor + rich;
        let deviation = (all * 8).isqrt() / 9;
        assert!(rich.abs_diff(all / 9) < 5 * deviation, "{poor} {rich}");
    }

    #[test]
    fn of_twice_the_tickets_and_an_eighth_of_the_probability_a_flow_is_dropped_more_rarely_still() {
        let [poor, rich] = lost_of_two_flows(papers());
        assert!(poor > 5000, "{poor}");
        // The count since the last drop is one for both. `c` packets after it, where half of them are rich, none was dropped
        // with probability sqrt((1 - c p) (1 - c p / 8)); so of all drops the rich have
        // 1/16 ∫ sqrt((1 - x) / (1 - x / 8)) dx from 0 to 1, 0.0428; each for itself it would be 1/9.
        let all = poor + rich;
        let deviation = (all * 428 * 9572).isqrt();
        let distance = (rich * 10_000).abs_diff(all * 428);
        assert!(distance < 5 * deviation, "{poor} {rich}");
    }
}
