// SPDX-License-Identifier: MIT OR Apache-2.0
//! RED that harvests: for senders that do not slow down. A packet goes with the probability that brings its flow down to
//! its share, and those that stay are given the tickets of those that went.
//!
//! Source: M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, "Probabilistic Packet Scheduling: Achieving
//! Proportional Share Bandwidth Allocation", Princeton TR-632-01, 2001, section 4. Tickets are
//! written on packets by [`crate::ticket`].
//!
//! | paper | here |
//! | --- | --- |
//! | `AvgQLen`, the thresholds | those of [`super::red`] |
//! | `InTkt` | [`Packet::tag`] by `codec` |
//! | `InTktRate` by TSW | `came` |
//! | `Capacity` | `capacity`, bytes in TSW's window |
//! | `AvgTkt` | [`Harvest::expected`] |
//! | `max(0, 1 - InTkt / AvgTkt)` | the drop in [`Harvest::enqueue`] |
//!
//! Cost per packet: RED's average, three divisions of 128 bits and a random number.
//!
//! Departures from the paper: tickets are for each 1000 bytes and `Capacity` in bytes, see [`crate::ticket`]. Without a
//! rate of the link nothing is dropped but above the upper threshold.

use super::fifo::Fifo;
use super::red::{Early, RedParams};
use super::spec::Describe;
use super::tred;
use super::{Backlog, Drops, Env, Needs, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::Visitor;
use crate::random::Rng;
use crate::ticket::{Codec, Tickets, Tsw};
use crate::units::{Duration, Instant};
use alloc::boxed::Box;
use alloc::string::String;

/// Its parameters: those of RED, and a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarvestParams {
    /// Parameters of RED.
    pub red: RedParams,
    /// TSW's window for the tickets that come; 1 ms to an hour.
    pub window: Duration,
}

impl Default for HarvestParams {
    /// RED's own, and 1 s.
    fn default() -> Self {
        Self {
            red: RedParams::default(),
            window: Duration::from_secs(1),
        }
    }
}

impl Describe for HarvestParams {
    const NAME: &'static str = "harvest";
    const ABOUT: &'static str = "as red, and takes tickets of the packets it drops for others";

    fn needs(&self) -> Needs {
        Needs {
            reads_tags: true,
            writes_tags: true,
            link_rate: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        self.red.all_fields(visit);
        tred::window(&mut self.window, visit);
    }

    fn check(&self) -> Result<(), String> {
        self.red.check("red")
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Harvest::new(env, self.clone()))
    }
}

/// RED that harvests tickets.
#[derive(Clone, Debug)]
pub struct Harvest {
    fifo: Fifo,
    early: Early,
    codec: Codec,
    came: Tsw,
    capacity: Option<u128>,
    rng: Rng,
}

impl Harvest {
    /// An empty queue.
    pub fn new(env: &Env, params: HarvestParams) -> Self {
        let HarvestParams { red, window } = params;
        let in_window = |bps: u64| u128::from(bps) * u128::from(window.as_nanos());
        Self {
            fifo: Fifo::new(env.limits),
            codec: env.codec,
            came: Tsw::new(window),
            capacity: env.rate.map(|rate| in_window(rate.bps()) / 8_000_000_000),
            rng: Rng::new(!env.seed),
            early: Early::new(env, red),
        }
    }

    /// `AvgTkt`: tickets of each packet if the arrival rate were the link rate.
    fn expected(&self) -> Tickets {
        let tickets = self.came.in_window() >> Tsw::BITS;
        let of_each = self.capacity.and_then(|bytes| tickets.checked_div(bytes));
        Tickets::from_scaled(of_each.unwrap_or(0))
    }
}

impl Scheduler for Harvest {
    fn enqueue(&mut self, now: Instant, mut pkt: Packet, drops: &mut Drops) {
        let came = self.codec.decode(pkt.tag());
        self.came.count(now, came.of(pkt.len()));
        let refusal = self.fifo.refusal(&pkt);
        if refusal == Some(DropReason::TooLarge) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        self.early.estimate(now, self.fifo.backlog());
        if self.early.is_over() {
            return drops.push(pkt, DropReason::Forced);
        }
        let expected = self.expected();
        if self.early.is_on() && came < expected {
            let [came, all] = [came, expected].map(|tickets| u128::from(tickets.scaled()));
            // p = 1 - InTkt / AvgTkt
            if u128::from(self.rng.next_u64()) * all < (all - came) << 64 {
                return drops.push(pkt, DropReason::Early);
            }
            pkt = pkt.with_tag(self.codec.encode(expected));
        }
        if let Some(reason) = refusal {
            return drops.push(pkt, reason);
        }
        self.fifo.push(pkt);
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let sent = self.fifo.pop()?;
        if self.fifo.backlog().packets == 0 {
            self.early.emptied(now);
        }
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.fifo.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}
