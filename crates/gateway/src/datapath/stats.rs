// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a datapath. Units are in the names of the fields.

use std::collections::BTreeMap;

use makeway_core::sched::{Class, Discipline};
use makeway_core::units::Rate;
use serde::{Deserialize, Serialize};

use crate::rules::Direction;
use crate::text;

/// One queue. `packets_in = packets_out + drops + backlog_packets + delayed_packets`, always.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The discipline; `None` for a qdisc of Linux's own.
    #[serde(with = "text::or_empty")]
    pub discipline: Option<Discipline>,
    /// Rate on the wire; `None`: not limited.
    pub rate_bps: Option<u64>,
    /// Time since the datapath started.
    pub seconds: f64,
    /// Processor time of the datapath's thread, the kernel's work for its packets included.
    pub cpu_seconds: f64,
    /// The longest that a departure was late because the thread was: it was not woken in time, or had too much to do.
    pub late_max_ms: f64,
    /// Packets that arrived, including those that the kernel dropped before the queue.
    pub packets_in: u64,
    /// Bytes on the wire of the packets that we saw.
    pub bytes_in: u64,
    /// Bytes on the wire of the largest packet that came.
    pub largest_bytes: u64,
    /// Packets sent on.
    pub packets_out: u64,
    /// Bytes on the wire of the packets sent on.
    pub bytes_out: u64,
    /// Packets dropped, by reason: that of the discipline (`tail`, `longest-queue`, `too-large`, `early` and `forced` of RED, `match` of
    /// CHOKe, `sojourn` of CoDel), or one of [`reason`].
    pub drops: BTreeMap<String, u64>,
    /// Packets that the discipline holds.
    pub backlog_packets: u64,
    /// Bytes on the wire that the discipline holds.
    pub backlog_bytes: u64,
    /// Packets on the delay line.
    pub delayed_packets: u64,
    /// Verdicts that the kernel refused: packets that it had dropped already, as it does when the
    /// interface goes away.
    pub verdicts_refused: u64,
    /// Packets that came with a mark of congestion (RFC 3168).
    pub marked_in: u64,
    /// Packets that left with one: those beyond `marked_in` were marked here, instead of dropped.
    pub marked_out: u64,
    /// Packets that were given priority (NCQ).
    pub favoured: u64,
    /// Packets that left behind a later one of their flow (NCQ).
    pub reordered: u64,
    /// Packets that came with less than K times the least tickets (TRED).
    pub expected: u64,
    /// Counters of tags.
    pub tags: TagStats,
    /// Time in the discipline of the packets that left it.
    pub sojourn: Sojourn,
    /// The same, counted.
    pub sojourn_counts: SojournCounts,
    /// `sojourn` over the last one to two seconds.
    pub sojourn_recent: Sojourn,
    /// Flows ever seen; `flows` has those that are still remembered.
    pub flows_seen: u64,
    /// Flows, the largest backlog first.
    pub flows: Vec<FlowStats>,
}

/// Reasons of drops that no discipline made.
pub mod reason {
    /// Asked for, by an impairment.
    pub const LOSS: &str = "loss";
    /// The delay line was full.
    pub const DELAY_LINE: &str = "delay-line";
    /// More flows than configured.
    pub const FLOWS: &str = "flows";
    /// The kernel reset the qdisc.
    pub const RESET: &str = "reset";
    /// The kernel's packet queue was full.
    pub const KERNEL_QUEUE: &str = "kernel-queue";
    /// The socket of the packet queue was full.
    pub const KERNEL_SOCKET: &str = "kernel-socket";
}

/// Traffic of a direction so far, as its queue counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The direction.
    pub direction: Direction,
    /// Rate that is set.
    pub rate: Rate,
    /// Bytes that arrived.
    pub bytes_in: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    /// Bytes that wait.
    pub backlog: u64,
}

/// Packets by their tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TagStats {
    /// Packets that had tickets when they came, or were given some.
    pub with_tickets: u64,
    /// Packets whose tag nobody of this domain wrote: it is above the largest code, and counts as none.
    pub foreign: u64,
    /// Packets that cannot carry a tag: fragments, IPv4 that may be fragmented, what is not IP.
    pub unable: u64,
    /// Packets that left with another tag than they came with.
    pub written: u64,
}

/// A distribution of sojourn times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sojourn {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

/// A histogram of sojourn times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SojournCounts {
    /// Packets with a sojourn time below each of [`SojournCounts::bounds_ns`].
    pub below: [u64; Self::BOUNDS],
    /// All packets that left, or those of them that are samples.
    pub packets: u64,
    /// Their sojourn times together.
    pub sum_s: f64,
}

impl SojournCounts {
    /// Number of bounds.
    pub const BOUNDS: usize = 18;
    /// The least bound is `2^LEAST` ns, each other one is twice the one before: 66 us to 8.6 s.
    const LEAST: u32 = 16;

    /// The bounds in nanoseconds. Powers of two are edges of the buckets of both backends.
    pub fn bounds_ns() -> [u64; Self::BOUNDS] {
        std::array::from_fn(|n| 1 << (Self::LEAST + n as u32))
    }
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowStats {
    /// Its key in words: `udp 10.0.0.1:4000 > 10.0.0.2:5004`.
    pub flow: String,
    /// Packets that came.
    pub packets_in: u64,
    /// Bytes on the wire that came.
    pub bytes_in: u64,
    /// Packets sent on.
    pub packets_out: u64,
    /// Bytes on the wire sent on.
    pub bytes_out: u64,
    /// Packets held.
    pub backlog_packets: u64,
    /// Bytes held.
    pub backlog_bytes: u64,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Median of the time in the discipline, to within 12.5 %.
    pub sojourn_p50_ms: f64,
    /// 99th percentile, likewise.
    pub sojourn_p99_ms: f64,
    /// Time since its last packet came.
    pub idle_s: f64,
    /// `new`, `standing` or `bulk`, under a discipline that judges flows by their behaviour (`makeway`); else empty.
    #[serde(with = "text::or_empty")]
    pub standing: Option<Class>,
    /// Why, in words: `standing queue for 1.2 s`.
    pub reason: String,
    /// For how long.
    pub since_s: f64,
}

impl Stats {
    /// All dropped packets.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}
