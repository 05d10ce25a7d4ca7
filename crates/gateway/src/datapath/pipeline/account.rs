// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a direction and of each of its flows.

use std::collections::BTreeMap;

use makeway_core::flow::FlowKey;
use makeway_core::packet::DropReason;
use makeway_core::sched::Standing;
use makeway_core::units::Instant;

use super::super::sojourn::Sojourns;
use super::super::stats::{FlowStats, reason};

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Scheduler(DropReason),
    Loss,
    DelayLine,
    Flows,
}

impl Cause {
    const OTHERS: [&str; 3] = [reason::LOSS, reason::DELAY_LINE, reason::FLOWS];
    pub const COUNT: usize = DropReason::ALL.len() + Self::OTHERS.len();

    /// Its place among the counters.
    pub const fn index(self) -> usize {
        match self {
            Self::Scheduler(reason) => reason as usize,
            Self::Loss => DropReason::ALL.len(),
            Self::DelayLine => DropReason::ALL.len() + 1,
            Self::Flows => DropReason::ALL.len() + 2,
        }
    }

    /// In the order of the counters.
    fn names() -> impl Iterator<Item = &'static str> {
        let reasons = DropReason::ALL.into_iter().map(DropReason::name);
        reasons.chain(Self::OTHERS)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub packets_in: u64,
    pub bytes_in: u64,
    pub packets_out: u64,
    pub bytes_out: u64,
    pub marked_in: u64,
    pub marked_out: u64,
    pub drops: [u64; Cause::COUNT],
}

impl Counters {
    pub fn drop_names(&self) -> BTreeMap<String, u64> {
        let named = Cause::names().zip(self.drops);
        named
            .filter(|&(_, n)| n > 0)
            .map(|(name, n)| (name.into(), n))
            .collect()
    }
}

#[derive(Clone, Debug)]
pub struct FlowAccount {
    pub counters: Counters,
    pub backlog_packets: u32,
    pub backlog_bytes: u64,
    pub last_seen: Instant,
    pub sojourns: Sojourns,
}

impl FlowAccount {
    pub const fn new() -> Self {
        Self {
            counters: Counters {
                packets_in: 0,
                bytes_in: 0,
                packets_out: 0,
                bytes_out: 0,
                marked_in: 0,
                marked_out: 0,
                drops: [0; Cause::COUNT],
            },
            backlog_packets: 0,
            backlog_bytes: 0,
            last_seen: Instant::ZERO,
            sojourns: Sojourns::new(),
        }
    }
}

/// A flow as it was at a moment, for somebody else to tell of.
#[derive(Clone, Debug)]
pub struct SeenFlow {
    pub key: FlowKey,
    pub flow: FlowAccount,
    pub standing: Option<Standing>,
}

impl SeenFlow {
    /// Order of flows.
    pub fn size(&self) -> (u64, u64) {
        (self.flow.backlog_bytes, self.flow.counters.bytes_in)
    }

    pub fn told(&self, now: Instant) -> FlowStats {
        let Self {
            key,
            flow,
            standing,
        } = self;
        let counters = &flow.counters;
        FlowStats {
            flow: key.to_string(),
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            backlog_packets: u64::from(flow.backlog_packets),
            backlog_bytes: flow.backlog_bytes,
            drops: counters.drop_names(),
            sojourn_p50_ms: flow.sojourns.quantile(0.5).as_millis_f64(),
            sojourn_p99_ms: flow.sojourns.quantile(0.99).as_millis_f64(),
            idle_s: now.saturating_since(flow.last_seen).as_secs_f64(),
            standing: standing.map(|is| is.class),
            reason: standing.map_or_else(String::new, |is| is.reason.to_string()),
            since_s: standing.map_or(0.0, |is| now.saturating_since(is.since).as_secs_f64()),
        }
    }
}
