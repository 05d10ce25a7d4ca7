// SPDX-License-Identifier: MIT OR Apache-2.0
//! Non-congestive queuing: short packets leave first, as long as no more than a share of all packets does.
//!
//! Source: L. Mamatas, V. Tsaoussidis, "Differentiating Services with Non-Congestive Queuing (NCQ)", IEEE
//! Transactions on Computers 58(5), 2009, section 3; the variants are those that section 6 leaves open.
//!
//! | paper | here |
//! | --- | --- |
//! | `packetLength < 130` | [`NcqParams::length`], of the IP packet |
//! | `received_packets`, `favored_packets` | [`Share`] `received`, `favoured` |
//! | `ncqthresh` | [`NcqParams::threshold`] |
//! | high priority, normal priority | the queues `favoured`, `normal` |
//! | non-congestive packet | candidate |
//!
//! Cost per packet: O(1): a multiplication, and the counters of its flow, which may be far away. With a window one byte
//! of it is read and written; with low rates there is a division of 128 bits, with chances a random number.
//!
//! Departures from the paper: a packet that a full buffer refuses is neither received nor favoured, so that the
//! threshold is a share of served packets. The paper does not define the drop of a full buffer: it is the arriving packet,
//! as DropTail does, or by [`NcqParams::push_out`] the last unfavoured one. That packets of a flow may change
//! their order is counted, see [`Counts`], and may be forbidden.

mod outcome;
mod shares;
#[cfg(test)]
mod tests;

use super::fifo::Fifo;
use super::spec::Describe;
use super::{Backlog, Counts, Drops, Env, Limits, Needs, Scheduler};
use crate::framing::Framing;
use crate::packet::{DropReason, Packet};
use crate::param::{Optional, Ranged, Visitor, flag};
use crate::random::Rng;
use crate::units::{Bytes, Duration, Fraction, Instant, Rate};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use outcome::Outcome;
use shares::{Share, Shares};

/// Selection and share of favoured packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NcqParams {
    /// IP packets shorter than this may be favoured; 1 B to 16 MiB.
    pub length: Bytes,
    /// Packets are favoured while those that were are a smaller share of all than this; 0 to 1.
    pub threshold: Fraction,
    /// Number of last packets over which the share is taken, 1 to 2^20; `threshold * window`, rounded up, of them may be
    /// favoured. `None`: of all that ever came, as in the paper.
    pub window: Option<u32>,
    /// A candidate is favoured by chance, so that of more candidates than the threshold allows each has the same one.
    pub probabilistic: bool,
    /// The threshold follows what it does: unfavoured packets wait longer by this share than they would without
    /// priority; above 0, with a window only. `threshold` is where it begins. `None`: it stays, as in the paper.
    pub extra_wait: Option<Fraction>,
    /// Packets that carry no data of their own (acknowledgements) are candidates too. The paper's are not.
    pub control: bool,
    /// Flows whose packets are candidates at any length. `None`: length alone decides, as in the paper.
    pub low_rate: Option<LowRate>,
    /// No packet is favoured that would overtake one of its own flow.
    pub keep_order: bool,
    /// A favoured packet that finds the buffer full replaces the last unfavoured one, as ns-2's
    /// priority queue has it.
    pub push_out: bool,
}

/// Flows that send little: all their packets fit a bucket of `burst` that drains at `rate` (the generic cell rate
/// algorithm, ITU-T I.371). Twice as much is remembered at most, so that a flow that slows down is soon known for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowRate {
    /// On the wire; above 0.
    pub rate: Rate,
    /// On the wire, 1 B to 16 MiB; at least the flow's largest packet.
    pub burst: Bytes,
}

impl Default for NcqParams {
    /// 130 B and 5 %: the largest threshold of the paper's experiments, where the gain is the largest and the cost is
    /// still hard to see (Fig. 2, 8). No variant.
    fn default() -> Self {
        Self {
            length: Bytes::new(130),
            threshold: Fraction::ratio(5, 100),
            window: None,
            probabilistic: false,
            extra_wait: None,
            control: false,
            low_rate: None,
            keep_order: false,
            push_out: false,
        }
    }
}

impl NcqParams {
    /// Packets that cost less than this on the wire may be favoured. Cells and the smallest packet hide some bytes: a packet
    /// that costs no more than the longest short one is short.
    pub fn length_on_wire(&self, framing: Framing) -> Bytes {
        let longest_short = Bytes::new(self.length.get().saturating_sub(1));
        framing.wire(longest_short) + Bytes::new(1)
    }
}

impl Describe for NcqParams {
    const NAME: &'static str = "ncq";
    const ABOUT: &'static str = "short packets, up to a share of all";
    const IN_THE_KERNEL: bool = true;

    fn needs(&self) -> Needs {
        Needs {
            control: true,
            framing: true,
            reorders: !self.keep_order,
            ..Needs::default()
        }
    }

    fn on_a_link() -> Self {
        // Its gains rest on it (docs/disciplines/ncq.md).
        Self {
            push_out: true,
            ..Self::default()
        }
    }

    fn not_in_the_kernel(&self) -> Option<&'static str> {
        match (self.extra_wait, self.low_rate) {
            (Some(_), _) => Some("ncq.extra_wait"),
            (None, Some(_)) => Some("ncq.low_rate.rate"),
            (None, None) => None,
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        let lengths = Bytes::new(1)..=Packet::MAX_LEN;
        let shares = Fraction::default()..=Fraction::ONE;
        visit(
            "ncq.threshold",
            "share of all packets that may go first",
            &mut Ranged(&mut self.threshold, shares),
        );
        visit(
            "ncq.length",
            "IP packets shorter than this may go first",
            &mut Ranged(&mut self.length, lengths.clone()),
        );
        visit(
            "ncq.window",
            "packets among which the share is taken; none: all that ever came",
            &mut Optional(&mut self.window, 1..=1 << 20),
        );
        visit(
            "ncq.probabilistic",
            "candidates go first by chance, each with the same one",
            &mut flag(&mut self.probabilistic),
        );
        let shares = Fraction::ratio(1, 1_000_000_000_000)..=Fraction::ONE;
        visit(
            "ncq.extra_wait",
            "the threshold follows the share by which other packets wait longer; needs a window; none: it stays",
            &mut Optional(&mut self.extra_wait, shares),
        );
        visit(
            "ncq.control",
            "packets without data of their own (ACKs) may go first too",
            &mut flag(&mut self.control),
        );
        let low = self.low_rate;
        let mut rate = low.map(|low| low.rate).filter(|rate| rate.bps() > 0);
        let mut burst = low
            .map(|low| low.burst)
            .filter(|burst| *burst > Bytes::ZERO);
        visit(
            "ncq.low_rate.rate",
            "flows below this rate may go first with packets of any length; needs a burst; none: length alone decides",
            &mut Optional(
                &mut rate,
                Rate::from_bps(1)..=Rate::from_bps(1_000_000_000_000),
            ),
        );
        visit(
            "ncq.low_rate.burst",
            "bytes that such a flow may send at once; needs a rate",
            &mut Optional(&mut burst, lengths),
        );
        if rate.is_some() || burst.is_some() {
            self.low_rate = Some(LowRate {
                rate: rate.unwrap_or_default(),
                burst: burst.unwrap_or_default(),
            });
        }
        visit(
            "ncq.keep_order",
            "no packet overtakes one of its own flow",
            &mut flag(&mut self.keep_order),
        );
        visit(
            "ncq.push_out",
            "a full buffer drops the last packet that does not go first, instead of one that does",
            &mut flag(&mut self.push_out),
        );
    }

    fn check(&self) -> Result<(), String> {
        if self.extra_wait.is_some() && self.window.is_none() {
            return Err("`ncq.extra_wait` needs a window of packets to be measured in: add `ncq.window`, like 1000".into());
        }
        match self.low_rate {
            Some(LowRate { rate, .. }) if rate.bps() == 0 => {
                Err("`ncq.low_rate.rate` is missing: add it, like 64kbit".into())
            }
            Some(LowRate { burst, .. }) if burst == Bytes::ZERO => {
                Err("`ncq.low_rate.burst` is missing: add it, like 3kB".into())
            }
            _ => Ok(()),
        }
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Ncq::new(env, self.clone()))
    }
}

/// Two queues in one buffer, the first of which goes first.
#[derive(Clone, Debug)]
pub struct Ncq {
    favoured: Fifo,
    normal: Fifo,
    limits: Limits,
    params: NcqParams,
    /// On the wire: what is shorter is short.
    length: Bytes,
    threshold: Fraction,
    shares: Shares,
    outcome: Option<Outcome>,
    bucket: Option<Bucket>,
    flows: Vec<FlowState>,
    counts: Counts,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    /// Packets in the normal queue.
    waiting: u32,
    /// The first of them that were overtaken by a favoured packet.
    overtaken: u32,
    /// When its bucket is empty.
    drained: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: Rate,
    /// How long a full one drains.
    depth: Duration,
}

impl Ncq {
    /// Two empty queues, which share the limits.
    pub fn new(env: &Env, params: NcqParams) -> Self {
        let limits = env.limits;
        Self {
            favoured: Fifo::new(limits),
            normal: Fifo::new(limits),
            limits,
            length: params.length_on_wire(env.framing),
            threshold: params.threshold,
            shares: Shares::new(params.window),
            outcome: params
                .extra_wait
                .map(|target| Outcome::new(target, params.window.unwrap_or(1))),
            bucket: params.low_rate.map(|low| Bucket {
                rate: low.rate,
                depth: low.burst / low.rate,
            }),
            flows: vec![FlowState::default(); limits.flows as usize],
            counts: Counts::default(),
            rng: Rng::new(env.seed),
            params,
        }
    }

    /// `ncqthresh` now.
    pub fn threshold(&self) -> Fraction {
        self.threshold
    }

    /// Whether `pkt` is non-congestive.
    fn is_candidate(&mut self, now: Instant, pkt: &Packet) -> bool {
        let flow = &mut self.flows[pkt.flow.0 as usize];
        let is_slow = self
            .bucket
            .is_some_and(|bucket| flow.fill(now, pkt, bucket));
        if pkt.is_control() && !self.params.control {
            return false;
        }
        pkt.len() < self.length || is_slow
    }

    /// Whether the threshold lets a candidate go first.
    fn is_within_threshold(&mut self, seen: Share) -> bool {
        let allowed = u128::from(self.threshold.scaled()) * u128::from(seen.received);
        if self.params.probabilistic {
            // threshold / (candidates / received) is the chance.
            let random = self.rng.next_u64() >> (64 - Fraction::BITS);
            return u128::from(random) * u128::from(seen.candidates) < allowed;
        }
        // favoured / received < threshold, whose last step may be rounded up: 10 of 200 are no less than 0.05.
        let favoured = u128::from(seen.favoured) << Fraction::BITS;
        favoured + u128::from(seen.received / 2) < allowed
    }

    /// Section 3, the condition.
    fn is_favoured(&mut self, pkt: &Packet, is_candidate: bool) -> bool {
        let waiting = self.flows[pkt.flow.0 as usize].waiting;
        if !is_candidate || (self.params.keep_order && waiting > 0) {
            return false;
        }
        let within = self.is_within_threshold(self.shares.with_next(true));
        if let Some(outcome) = &mut self.outcome
            && !within
        {
            outcome.confine();
        }
        within
    }

    /// Drops the unfavoured packet that arrived last.
    fn push_out(&mut self, drops: &mut Drops) {
        let Some(last) = self.normal.pop_last() else {
            return;
        };
        let flow = &mut self.flows[last.flow.0 as usize];
        flow.waiting -= 1;
        flow.overtaken = flow.overtaken.min(flow.waiting);
        drops.push(last, DropReason::Tail);
    }
}

impl FlowState {
    /// Pours `pkt` in the flow's bucket; whether it fits.
    fn fill(&mut self, now: Instant, pkt: &Packet, bucket: Bucket) -> bool {
        let drained = self.drained.max(now) + pkt.len() / bucket.rate;
        self.drained = drained.min(now + bucket.depth * 2);
        drained.saturating_since(now) <= bucket.depth
    }
}

impl Scheduler for Ncq {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        if pkt.len() > self.limits.bytes {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let is_candidate = self.is_candidate(now, &pkt);
        let mut refusal = self.limits.refusal(self.backlog(), &pkt);
        if let Some(reason) = refusal
            && !self.params.push_out
        {
            return drops.push(pkt, reason);
        }
        let is_favoured = self.is_favoured(&pkt, is_candidate);
        if let Some(reason) = refusal {
            let has_place = self.limits.refusal(self.favoured.backlog(), &pkt).is_none();
            if !is_favoured || !has_place {
                return drops.push(pkt, reason);
            }
        }
        while refusal.is_some() {
            self.push_out(drops);
            refusal = self.limits.refusal(self.backlog(), &pkt);
        }
        // Section 3, what is counted and where the packet goes.
        self.shares.count(is_candidate, is_favoured);
        let flow = &mut self.flows[pkt.flow.0 as usize];
        if is_favoured {
            self.counts.favoured += 1;
            flow.overtaken = flow.waiting;
            self.favoured.push(pkt);
        } else {
            flow.waiting += 1;
            self.normal.push(pkt);
        }
        if let Some(outcome) = &mut self.outcome {
            if is_favoured {
                outcome.overtook(pkt.len(), self.normal.backlog().packets);
            }
            self.threshold = outcome.received(self.threshold);
        }
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let sent = match self.favoured.pop() {
            Some(pkt) => pkt,
            None => {
                let pkt = self.normal.pop()?;
                let flow = &mut self.flows[pkt.flow.0 as usize];
                flow.waiting -= 1;
                if flow.overtaken > 0 {
                    flow.overtaken -= 1;
                    self.counts.reordered += 1;
                }
                pkt
            }
        };
        if let Some(outcome) = &mut self.outcome {
            outcome.served(sent.len(), self.normal.backlog().packets);
        }
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        (self.backlog().packets > 0).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        let (favoured, normal) = (self.favoured.backlog(), self.normal.backlog());
        Backlog {
            packets: favoured.packets + normal.packets,
            bytes: favoured.bytes + normal.bytes,
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
