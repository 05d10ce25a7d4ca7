// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core-stateless fair queueing: the edge writes each flow's rate on its packets, and links drop with the probability
//! that brings the flow down to the fair share, which they estimate without knowing any flow.
//!
//! Source: I. Stoica, S. Shenker, H. Zhang, "Core-Stateless Fair Queueing: A Scalable Architecture to Approximate Fair
//! Bandwidth Allocations in High-Speed Networks", SIGCOMM 1998, section II, Fig. 3; IEEE/ACM Transactions on
//! Networking 11(1), 2003.
//!
//! | paper | here |
//! | --- | --- |
//! | `r_i`, `K` | `flows`, [`Exponential`] over `flow_window` |
//! | `p.label`, `r_i / w_i` with weights | [`Packet::tag`] by [`label`] |
//! | `A`, `F`, `K_alpha` | `came`, `taken` of [`Fair`], over `window` |
//! | `alpha`, `tmp_alpha` | `share`, `largest` |
//! | `C`, `K_c` | `capacity`, `window` |
//! | buffer threshold | `threshold` |
//!
//! Cost per packet: O(1): three averages, each of two divisions of 128 bits and up to 18 multiplications; 16 bytes for
//! each flow at the edge, nothing elsewhere.
//!
//! Departures from the paper: packets that come at once are averaged one by one, each as the limit of eq. (3), and the
//! average of accepted packets also sees refusals. Where no edge labelled them, packets are taken for one flow together. Additions of the authors' ns-2 code to Fig. 3 are here as
//! section II-D has it in words: nothing is dropped by chance before the buffer holds `threshold`, the share is at
//! most the capacity, and each overflow takes a hundredth of it, 29 times (a quarter) at most between two estimates.

use super::fifo::Fifo;
use super::spec::Describe;
use super::{Backlog, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet, Tag};
use crate::param::{Ranged, Visitor, flag};
use crate::random::Rng;
use crate::ticket::{Codec, Exponential, Scale, label};
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// CSFQ at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsfqParams {
    /// This is the edge: it measures flows and writes labels. Elsewhere labels are believed.
    pub edge: bool,
    /// `K`, of flows; 1 ms to an hour.
    pub flow_window: Duration,
    /// `K_alpha` and `K_c`, of the link; 1 ms to an hour.
    pub window: Duration,
    /// Backlog below which nothing is dropped by chance.
    pub threshold: Bytes,
}

impl Default for CsfqParams {
    /// Parameters of the paper's simulations: 100 ms, 200 ms, 16 KB. An edge.
    fn default() -> Self {
        Self {
            edge: true,
            flow_window: Duration::from_millis(100),
            window: Duration::from_millis(200),
            threshold: Bytes::new(16_000),
        }
    }
}

impl Describe for CsfqParams {
    const NAME: &'static str = "csfq";
    const ABOUT: &'static str =
        "packets in order of arrival, dropped where their flow exceeds the fair rate in its label";

    fn needs(&self) -> Needs {
        Needs {
            users: self.edge,
            weights: self.edge,
            reads_tags: !self.edge,
            writes_tags: true,
            link_rate: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        visit(
            "csfq.edge",
            "the queue measures flows and writes labels, instead of reading them",
            &mut flag(&mut self.edge),
        );
        visit(
            "csfq.flow_window",
            "window of a flow's rate",
            &mut Ranged(&mut self.flow_window, WINDOWS),
        );
        visit(
            "csfq.window",
            "window of the link's rates",
            &mut Ranged(&mut self.window, WINDOWS),
        );
        visit(
            "csfq.threshold",
            "backlog below which nothing is dropped by chance",
            &mut Ranged(&mut self.threshold, Bytes::ZERO..=Limits::MOST_BYTES),
        );
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Csfq::new(env, self))
    }

    fn codec(&self, _domain: Codec) -> Codec {
        // A label takes all bits.
        Codec::new(16, Scale::Linear).expect("16 bits fit a tag")
    }
}

/// Range of windows.
const WINDOWS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Core-stateless fair queueing.
#[derive(Clone, Debug)]
pub struct Csfq {
    fifo: Fifo,
    flow_window: Duration,
    /// By flow, at the edge; elsewhere one for all that has no label.
    flows: Vec<Exponential>,
    /// By user, at the edge; 1 where there is none.
    weights: Vec<u32>,
    edge: bool,
    fair: Fair,
    rng: Rng,
}

impl Csfq {
    /// An empty queue. Without a link rate nothing is dropped by chance; of several weights of a user the last counts.
    pub fn new(env: &Env, params: &CsfqParams) -> Self {
        let (flows, users) = if params.edge {
            (env.limits.flows, env.users)
        } else {
            (1, 0)
        };
        let mut of_user = vec![1; users as usize];
        for (user, weight) in &env.weights {
            if let Some(own) = of_user.get_mut(user.0 as usize) {
                *own = *weight;
            }
        }
        Self {
            fifo: Fifo::new(env.limits),
            flow_window: params.flow_window,
            flows: vec![Exponential::default(); flows as usize],
            weights: of_user,
            edge: params.edge,
            fair: Fair::new(env.rate, params),
            rng: Rng::new(env.seed),
        }
    }

    /// The label that the packet has from here on.
    fn label(&mut self, now: Instant, pkt: &Packet) -> Tag {
        if !self.edge && pkt.tag() != Tag(0) {
            return pkt.tag();
        }
        let flow = if self.edge { pkt.flow.0 as usize } else { 0 };
        let rate = self.flows[flow].count(now, pkt.len(), self.flow_window);
        let weight = self.weights.get(pkt.user().0 as usize);
        label::encode(rate / u64::from(*weight.unwrap_or(&1)))
    }
}

impl Scheduler for Csfq {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        let refusal = self.fifo.refusal(&pkt);
        if refusal == Some(DropReason::TooLarge) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let mut pkt = pkt.with_tag(self.label(now, &pkt));
        let label = label::decode(pkt.tag());
        let mut drop = false;
        if let Some(share) = self.fair.share
            && share < label
        {
            // prob = 1 - alpha / label
            let random = u128::from(self.rng.next_u64());
            drop = random * u128::from(label) < u128::from(label - share) << 64;
            pkt = pkt.with_tag(label::encode(share));
        }
        let held = self.fifo.backlog().bytes;
        self.fair.estimate(now, pkt.len(), label, !drop, held);
        if drop {
            return drops.push(pkt, DropReason::Early);
        }
        if let Some(reason) = refusal {
            self.fair.overflow();
            return drops.push(pkt, reason);
        }
        self.fifo.push(pkt);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        self.fifo.pop()
    }

    fn next_departure(&self) -> Option<Instant> {
        self.fifo.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

/// The fair share of a link; rates in steps of 2^-16 bit/s.
#[derive(Clone, Debug)]
struct Fair {
    capacity: Option<u64>,
    window: Duration,
    threshold: Bytes,
    came: Exponential,
    taken: Exponential,
    /// Nobody has more; none while there is room for all.
    share: Option<u64>,
    /// The largest label since `since`.
    largest: u64,
    congested: bool,
    since: Instant,
    /// Overflows that may still lower the share.
    shrinks: u32,
}

/// 0.99^29 = 0.747: a quarter at most between two estimates.
const SHRINKS: u32 = 29;
/// A share below would never grow again: 1 bit/s.
const LEAST: u64 = 1 << Exponential::BITS;

impl Fair {
    fn new(rate: Option<Rate>, params: &CsfqParams) -> Self {
        let scaled = |rate: Rate| rate.bps().min(Exponential::MOST >> Exponential::BITS);
        Self {
            capacity: rate.map(|rate| scaled(rate) << Exponential::BITS),
            window: params.window,
            threshold: params.threshold,
            came: Exponential::default(),
            taken: Exponential::default(),
            share: None,
            largest: 0,
            congested: false,
            since: Instant::ZERO,
            shrinks: SHRINKS,
        }
    }

    /// `estimate_alpha` of Fig. 3, for a packet that finds `held`.
    fn estimate(&mut self, now: Instant, len: Bytes, label: u64, is_taken: bool, held: Bytes) {
        let Some(capacity) = self.capacity else {
            return;
        };
        let came = self.came.count(now, len, self.window);
        let len = if is_taken { len } else { Bytes::ZERO };
        let taken = self.taken.count(now, len, self.window);
        let Some(share) = self.share else {
            self.largest = self.largest.max(label);
            if held >= self.threshold {
                self.share = Some(self.largest.clamp(LEAST, capacity));
                self.begin(now, came >= capacity);
            }
            return;
        };
        let is_over = now >= self.since + self.window;
        if came >= capacity {
            if !self.congested {
                self.begin(now, true);
            } else if is_over {
                // alpha <- alpha C / F
                let share = (u128::from(share) * u128::from(capacity)).checked_div(taken.into());
                let share = share.map_or(capacity, |share| share.min(capacity.into()) as u64);
                self.share = Some(share.max(LEAST));
                self.begin(now, true);
            }
        } else if self.congested {
            self.begin(now, false);
        } else if !is_over {
            self.largest = self.largest.max(label);
        } else {
            let has_room = self.largest == 0 || held < self.threshold;
            self.share = (!has_room).then_some(self.largest.min(capacity));
            self.begin(now, false);
        }
    }

    /// The next estimate is due a window from now.
    fn begin(&mut self, now: Instant, congested: bool) {
        self.since = now;
        self.congested = congested;
        self.largest = 0;
        self.shrinks = SHRINKS;
    }

    /// A packet that chance let in found no room.
    fn overflow(&mut self) {
        if let Some(share) = &mut self.share
            && self.shrinks > 0
        {
            self.shrinks -= 1;
            *share = (*share - *share / 100).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::UserId;
    use crate::sched::testing::{limits, of, packet};

    const LINE: Rate = Rate::from_bps(8_000_000);

    fn csfq(edge: bool, weights: &[(UserId, u32)]) -> Csfq {
        let params = CsfqParams {
            edge,
            ..CsfqParams::default()
        };
        let env = Env {
            users: 64,
            weights: weights.to_vec(),
            rate: Some(LINE),
            ..Env::new(limits(64, 64_000))
        };
        Csfq::new(&env, &params)
    }

    /// Packets of 1000 B that are sent of each flow in a minute, after ten seconds, at a link of 1000 packets a
    /// second; flow `n` sends `rates[n]` packets a second with the tag that `tag` gives, and is of user `n`.
    fn sent(mut csfq: Csfq, rates: &[u64], tag: impl Fn(u32) -> Tag) -> Vec<i64> {
        let mut sent = vec![0; rates.len()];
        let mut drops = Drops::default();
        let mut rng = Rng::new(5);
        let mut next: Vec<u64> = rates.iter().map(|rate| 1_000_000 / rate).collect();
        for us in 0..70_000_000 {
            let now = Instant::from_nanos(us * 1000);
            for (flow, (next, rate)) in (0..).zip(next.iter_mut().zip(rates)) {
                if us == *next {
                    let pkt = of(flow, packet(0, flow, 1000)).with_tag(tag(flow));
                    csfq.enqueue(now, pkt, &mut drops);
                    drops.drain().for_each(drop);
                    // Between half and one and a half spacings.
                    let spacing = (1_000_000 / rate) as u32;
                    *next += u64::from(spacing / 2 + rng.below(spacing));
                }
            }
            if us % 1000 == 0
                && let Some(pkt) = csfq.dequeue(now, &mut drops)
                && us > 10_000_000
            {
                sent[pkt.flow.0 as usize] += 1;
            }
        }
        sent
    }

    /// Whether `n` is within this number of hundredths of `of`.
    fn near(n: i64, of: i64, hundredths: i64) -> bool {
        (n - of).abs() * 100 <= of * hundredths
    }

    #[test]
    fn shares_are_max_min_fair() {
        // 1000 a second between 50, 100, 300, 600 and 1200: what the first two leave is 283 for each of the others.
        let rates = [50, 100, 300, 600, 1200];
        let sent = sent(csfq(true, &[]), &rates, |_| Tag(0));
        for (sent, share) in sent.iter().zip([50, 100, 283, 283, 283]) {
            assert!(near(*sent, share * 60, 5), "{sent} for {}", share * 60);
        }
    }

    #[test]
    fn shares_go_with_weights() {
        let weights = [(UserId(1), 2), (UserId(2), 3)];
        let sent = sent(csfq(true, &weights), &[900; 3], |_| Tag(0));
        for (sent, share) in sent.iter().zip([167, 333, 500]) {
            assert!(near(*sent, share * 60, 5), "{sent} for {}", share * 60);
        }
    }

    #[test]
    fn the_core_knows_no_flow_and_shares_as_the_edge_does() {
        let rates = [100u64, 800, 1600];
        let of = |flow: u32| label::encode((rates[flow as usize] * 8000) << Exponential::BITS);
        let sent = sent(csfq(false, &[]), &rates, of);
        for (sent, share) in sent.iter().zip([100, 450, 450]) {
            assert!(near(*sent, share * 60, 5), "{sent} for {}", share * 60);
        }
    }

    #[test]
    fn what_has_no_label_is_one_flow_together() {
        // Two of 800 without labels beside two of 800 with: three shares.
        let rates = [800u64; 4];
        let of = |flow| match flow {
            0 | 1 => Tag(0),
            _ => label::encode((800 * 8000) << Exponential::BITS),
        };
        let sent = sent(csfq(false, &[]), &rates, of);
        assert!(near(sent[0] + sent[1], 20_000, 6), "{sent:?}");
        assert!(
            near(sent[2], 20_000, 6) && near(sent[3], 20_000, 6),
            "{sent:?}"
        );
    }

    #[test]
    fn a_label_that_lies_takes_what_it_sends_in_the_core_and_nothing_at_the_edge() {
        // Believed: 800 of 1000, and the honest one has the rest.
        let lie = |flow: u32| match flow {
            0 => Tag(1),
            _ => label::encode((800 * 8000) << Exponential::BITS),
        };
        let believed = sent(csfq(false, &[]), &[800, 800], lie);
        assert!(near(believed[0], 48_000, 4), "{believed:?}");
        let measured = sent(csfq(true, &[]), &[800, 800], lie);
        assert!(near(measured[0], 30_000, 5), "{measured:?}");
    }

    #[test]
    fn labels_are_brought_down_to_the_share() {
        let mut csfq = csfq(true, &[]);
        csfq.fair.share = Some(1_000_000 << Exponential::BITS);
        csfq.flows[0].count(Instant::ZERO, Bytes::new(100_000), csfq.flow_window);
        let mut drops = Drops::default();
        let mut sent = None;
        for n in 0..1000 {
            csfq.enqueue(Instant::ZERO, packet(n, 0, 1000), &mut drops);
            sent = sent.or(csfq.dequeue(Instant::ZERO, &mut drops));
        }
        let rate = label::decode(sent.map_or(Tag(0), |pkt| pkt.tag())) >> Exponential::BITS;
        assert!(rate.abs_diff(1_000_000) < 1_000_000 / 4096, "{rate}");
    }
}
