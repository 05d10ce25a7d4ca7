// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the interfaces as the page shows it: two snapshots, and rates from their difference.

use std::collections::{BTreeMap, HashMap};

use makeway_gateway::autorate::status::Steered;
use makeway_gateway::control::protocol::{DirectionStatus, Status};
use makeway_gateway::datapath::{FlowStats, Stats};
use makeway_gateway::rules::Direction;
use serde::Serialize;
use utoipa::ToSchema;

use crate::sampler::Snapshot;
use crate::{Event, Interface};

/// Most flows of a direction: those that sent most since the snapshot before, then the largest backlogs.
const MOST_FLOWS: usize = 12;

/// All that the page shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Live {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    pub interfaces: Vec<LiveInterface>,
    /// Events, the newest last.
    pub events: Vec<Event>,
}

/// An interface of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct LiveInterface {
    #[serde(flatten)]
    pub asked: Interface,
    /// Whether makeway shapes it now.
    pub is_up: bool,
    /// `bpf` or `nfqueue`; empty where it is not shaped.
    pub backend: String,
    /// Reason for the backend, and other remarks.
    pub warnings: Vec<String>,
    pub directions: Vec<LiveDirection>,
}

/// A direction that is shaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct LiveDirection {
    pub direction: Direction,
    pub discipline: String,
    /// Current rate limit.
    pub rate_bps: Option<u64>,
    /// Rate of departures and arrivals since the snapshot before; `None` in the first.
    pub sent_bps: Option<f64>,
    pub arrived_bps: Option<f64>,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    /// Time in the queue of the packets that left in the last one to two seconds.
    pub sojourn_p50_ms: f64,
    pub sojourn_p99_ms: f64,
    /// Packets dropped since the start, and per second since the snapshot before, by reason.
    pub dropped: u64,
    pub drops_per_s: BTreeMap<String, f64>,
    pub flows: Vec<LiveFlow>,
    /// Number of the other flows.
    pub more_flows: usize,
    /// Controller of the rate, if there is one.
    pub autorate: Option<Steered>,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct LiveFlow {
    /// Flow key in words.
    pub flow: String,
    pub sent_bps: f64,
    pub backlog_bytes: u64,
    pub sojourn_p99_ms: f64,
    /// `standing`, `new`, `probation` or `bulk`; empty under a discipline that does not judge.
    pub standing: String,
    pub reason: String,
    pub since_s: f64,
    /// Share of the bytes that left since the snapshot before, 0 to 1.
    pub share: f64,
    pub dropped: u64,
}

/// The state now, with rates since `before`.
pub fn live(before: &Snapshot, now: &Snapshot, events: Vec<Event>) -> Live {
    let interfaces = now.interfaces.iter().map(|(asked, status)| {
        let old = before
            .interfaces
            .iter()
            .find(|(own, _)| own.name == asked.name);
        let old = old.and_then(|(_, status)| status.as_ref());
        let mut one = LiveInterface {
            asked: asked.clone(),
            ..LiveInterface::default()
        };
        if let Some(status) = status {
            one.is_up = true;
            one.backend = status.backend.to_string();
            one.warnings = status.warnings.clone();
            one.warnings
                .extend(Some(status.why.clone()).filter(|why| !why.is_empty()));
            one.directions = directions(old, status);
        }
        one
    });
    Live {
        at_ms: now.at_ms,
        interfaces: interfaces.collect(),
        events,
    }
}

fn directions(old: Option<&Status>, now: &Status) -> Vec<LiveDirection> {
    let each = now.directions.iter().map(|one| {
        let old = old.filter(|old| old.pid == now.pid);
        let old = old.and_then(|old| {
            let mut all = old.directions.iter();
            all.find(|other| other.direction == one.direction)
        });
        let mut steered = now.autorate.iter().flat_map(|one| &one.directions);
        LiveDirection {
            autorate: steered.find(|own| own.direction == one.direction).cloned(),
            ..direction(old.map(|old| &old.stats), one)
        }
    });
    each.collect()
}

fn direction(old: Option<&Stats>, one: &DirectionStatus) -> LiveDirection {
    let now = &one.stats;
    // Counters of another process, or of the same after it began anew, have no difference.
    let old = old.filter(|old| old.seconds < now.seconds && old.bytes_out <= now.bytes_out);
    let seconds = old.map_or(1.0, |old| now.seconds - old.seconds);
    let bits = |from: u64, to: u64| to.saturating_sub(from) as f64 * 8.0 / seconds;
    let sent: u64 = old.map_or(0, |old| now.bytes_out - old.bytes_out);
    let before: HashMap<&str, &FlowStats> = old
        .iter()
        .flat_map(|old| &old.flows)
        .map(|flow| (flow.flow.as_str(), flow))
        .collect();
    let sent_by = |flow: &FlowStats| {
        let was = before
            .get(flow.flow.as_str())
            .map_or(0, |was| was.bytes_out);
        // A flow that was not there before began since; without a snapshot before nothing is known.
        old.map_or(0, |_| flow.bytes_out.saturating_sub(was))
    };
    let mut flows: Vec<_> = now.flows.iter().map(|flow| (sent_by(flow), flow)).collect();
    flows.sort_by_key(|(sent, flow)| std::cmp::Reverse((*sent, flow.backlog_bytes)));
    let shown = flows.iter().take(MOST_FLOWS).map(|(bytes, flow)| LiveFlow {
        flow: flow.flow.clone(),
        sent_bps: *bytes as f64 * 8.0 / seconds,
        backlog_bytes: flow.backlog_bytes,
        sojourn_p99_ms: flow.sojourn_p99_ms,
        standing: flow
            .standing
            .map_or_else(String::new, |class| class.to_string()),
        reason: flow.reason.clone(),
        since_s: flow.since_s,
        share: *bytes as f64 / (sent.max(1)) as f64,
        dropped: flow.drops.values().sum(),
    });
    let drops = now.drops.iter().filter_map(|(reason, count)| {
        let was = old?.drops.get(reason).copied().unwrap_or_default();
        let rate = count.saturating_sub(was) as f64 / seconds;
        (rate > 0.0).then(|| (reason.clone(), rate))
    });
    LiveDirection {
        direction: one.direction,
        discipline: now.discipline.map_or("", |one| one.name()).into(),
        rate_bps: now.rate_bps,
        sent_bps: old.map(|old| bits(old.bytes_out, now.bytes_out)),
        arrived_bps: old.map(|old| bits(old.bytes_in, now.bytes_in)),
        backlog_packets: now.backlog_packets,
        backlog_bytes: now.backlog_bytes,
        sojourn_p50_ms: now.sojourn_recent.p50_ms,
        sojourn_p99_ms: now.sojourn_recent.p99_ms,
        dropped: now.dropped(),
        drops_per_s: drops.collect(),
        flows: shown.collect(),
        more_flows: flows.len().saturating_sub(MOST_FLOWS),
        autorate: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, bytes_out: u64) -> FlowStats {
        FlowStats {
            flow: name.into(),
            bytes_out,
            ..FlowStats::default()
        }
    }

    fn snapshot(
        pid: u32,
        seconds: f64,
        bytes_out: u64,
        drops: u64,
        flows: Vec<FlowStats>,
    ) -> Snapshot {
        let stats = Stats {
            seconds,
            bytes_out,
            drops: [("tail".to_owned(), drops)].into(),
            flows,
            ..Stats::default()
        };
        let directions = vec![DirectionStatus {
            stats,
            ..DirectionStatus::default()
        }];
        let status = Status {
            pid,
            directions,
            ..Status::default()
        };
        let asked = Interface {
            name: "wan0".into(),
            ..Interface::default()
        };
        Snapshot {
            at_ms: 0,
            interfaces: vec![(asked, Some(status))],
        }
    }

    fn shown(before: &Snapshot, now: &Snapshot) -> LiveDirection {
        live(before, now, Vec::new()).interfaces[0].directions[0].clone()
    }

    #[test]
    fn rates_are_those_since_the_snapshot_before() {
        let before = snapshot(1, 10.0, 5_000, 2, vec![flow("a", 5_000)]);
        let now = snapshot(1, 12.0, 9_000, 5, vec![flow("a", 6_000), flow("b", 3_000)]);
        let one = shown(&before, &now);
        assert_eq!(one.sent_bps, Some(16_000.0));
        assert_eq!(one.drops_per_s, [("tail".to_owned(), 1.5)].into());
        let flows: Vec<_> = one
            .flows
            .iter()
            .map(|one| (&*one.flow, one.sent_bps, one.share))
            .collect();
        assert_eq!(flows, [("b", 12_000.0, 0.75), ("a", 4_000.0, 0.25)]);
    }

    #[test]
    fn another_process_has_no_rate_until_its_second_snapshot() {
        let before = snapshot(1, 10.0, 5_000, 2, vec![flow("a", 5_000)]);
        for now in [
            snapshot(2, 12.0, 9_000, 5, vec![flow("a", 9_000)]),
            snapshot(1, 1.0, 9_000, 5, vec![flow("a", 9_000)]),
        ] {
            let one = shown(&before, &now);
            assert_eq!((one.sent_bps, one.flows[0].sent_bps), (None, 0.0));
            assert!(one.drops_per_s.is_empty());
        }
        let many = (0..20).map(|n| flow(&n.to_string(), n)).collect();
        let one = shown(&before, &snapshot(1, 11.0, 6_000, 2, many));
        assert_eq!((one.flows.len(), one.more_flows), (MOST_FLOWS, 8));
        assert_eq!(one.flows[0].flow, "19");
    }
}
