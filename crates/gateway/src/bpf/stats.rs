// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Stats`] of what a qdisc counted.

use std::cmp::Reverse;
use std::net::IpAddr;

use makeway_core::flow::{FlowKey, Identity};
use makeway_core::sched::{Class, Reason};
use makeway_core::units::Duration;

use super::layout::{FlowEntry, JudgedFlow, Key, Record, Sojourns, WHY};
use super::qdisc::Snapshot;
use super::{BpfError, Qdisc};
use crate::datapath::sojourn::{BUCKETS, counts_below, quantile};
use crate::datapath::{FlowStats, Sojourn, SojournCounts, Stats};

/// Most flows that are told, the largest backlogs.
const MOST_FLOWS: usize = 1024;
/// How long a flow without packets is told, in ns: as long as it keeps its standing.
const REMEMBERED: u64 = 30_000_000_000;

/// Counters of a qdisc at `now`, in ns of CLOCK_MONOTONIC. The packet that the kernel handles at this moment counts as held.
pub(super) fn stats(qdisc: &Qdisc, now: u64) -> Result<Stats, BpfError> {
    let snapshot = qdisc.snapshot()?;
    let Snapshot {
        config, counters, ..
    } = snapshot;
    let drops: std::collections::BTreeMap<_, _> = counters
        .drops()
        .map(|(why, n)| (String::from(why), n))
        .collect();
    let gone = counters.packets_out + drops.values().sum::<u64>();
    let [all, one_second, two_seconds] = snapshot.sojourns;
    // The older copy is of the second before, unless nothing left for longer.
    let since = [two_seconds, one_second]
        .into_iter()
        .find(|copy| now.saturating_sub(copy.at) < 3_000_000_000);
    let flows = match qdisc.judged()? {
        Some(all) => judged(qdisc, all, now)?,
        None => {
            let mut flows = qdisc.flows()?;
            flows.sort_by_key(|flow| (Reverse(flow.bytes), flow.entry_hash));
            flows.truncate(MOST_FLOWS);
            flows.into_iter().map(flow).collect()
        }
    };
    Ok(Stats {
        rate_bps: Some(config.rate).filter(|rate| *rate > 0),
        packets_in: counters.packets_in,
        bytes_in: counters.bytes_in,
        largest_bytes: counters.largest,
        packets_out: counters.packets_out,
        bytes_out: counters.bytes_out,
        drops,
        backlog_packets: counters.packets_in.saturating_sub(gone),
        backlog_bytes: snapshot.backlog.bytes.into(),
        favoured: counters.favoured,
        reordered: counters.reordered,
        expected: counters.expected,
        sojourn: Sojourn {
            max_ms: millis(all.max),
            ..sojourn(&all, None)
        },
        sojourn_counts: counts(&all),
        sojourn_recent: since.map_or_else(Sojourn::default, |since| sojourn(&all, Some(&since))),
        flows_seen: flows.len() as u64,
        flows,
        ..Stats::default()
    })
}

/// Counters of a qdisc, for the one that replaces it to go on from.
pub(super) fn counters(stats: Stats) -> Stats {
    Stats {
        discipline: None,
        rate_bps: None,
        backlog_packets: 0,
        backlog_bytes: 0,
        sojourn_recent: Sojourn::default(),
        flows_seen: 0,
        flows: Vec::new(),
        ..stats
    }
}

/// Figures of a qdisc that goes on from the counters `before` of others. Quantiles are its own.
pub(super) fn after(mut stats: Stats, before: &Stats) -> Stats {
    // They come from a file.
    let add = |n: &mut u64, more: u64| *n = n.saturating_add(more);
    add(&mut stats.packets_in, before.packets_in);
    add(&mut stats.bytes_in, before.bytes_in);
    add(&mut stats.packets_out, before.packets_out);
    add(&mut stats.bytes_out, before.bytes_out);
    for (why, n) in &before.drops {
        add(stats.drops.entry(why.clone()).or_default(), *n);
    }
    add(&mut stats.favoured, before.favoured);
    add(&mut stats.reordered, before.reordered);
    add(&mut stats.expected, before.expected);
    let (counts, old) = (&mut stats.sojourn_counts, &before.sojourn_counts);
    for (n, old) in counts.below.iter_mut().zip(old.below) {
        add(n, old);
    }
    add(&mut counts.packets, old.packets);
    counts.sum_s += old.sum_s;
    stats.largest_bytes = stats.largest_bytes.max(before.largest_bytes);
    stats.sojourn.max_ms = stats.sojourn.max_ms.max(before.sojourn.max_ms);
    stats
}

/// Flows under `makeway`: those with packets, and those of the last while, by their names.
fn judged(
    qdisc: &Qdisc,
    mut all: Vec<(u32, JudgedFlow)>,
    now: u64,
) -> Result<Vec<FlowStats>, BpfError> {
    let idle = |flow: &JudgedFlow| now.saturating_sub(flow.record.seen);
    all.retain(|(_, flow)| flow.entry.packets > 0 || idle(flow) < REMEMBERED);
    all.sort_by_key(|(place, flow)| (Reverse((flow.entry.bytes, flow.bytes_out)), *place));
    all.truncate(MOST_FLOWS);
    let told = |(place, flow): (u32, JudgedFlow)| {
        let record = flow.record;
        let key = qdisc.key(place)?;
        Ok(FlowStats {
            flow: name(&key).to_string(),
            packets_out: flow.packets_out,
            bytes_out: flow.bytes_out,
            backlog_packets: flow.entry.packets.into(),
            backlog_bytes: flow.entry.bytes.into(),
            idle_s: idle(&flow) as f64 / 1e9,
            standing: Class::ALL.get(usize::from(record.class)).copied(),
            reason: reason(&record).to_string(),
            since_s: now.saturating_sub(record.entered) as f64 / 1e9,
            ..FlowStats::default()
        })
    };
    all.into_iter().map(told).collect()
}

/// A number that has none is of a program of another version.
fn reason(record: &Record) -> Reason {
    match WHY.get(usize::from(record.why)) {
        Some(Reason::StandingQueue(_)) => Reason::StandingQueue(record.stood),
        Some(reason) => *reason,
        None => Reason::Begins,
    }
}

fn name(key: &Key) -> FlowKey {
    let address = |bytes: [u8; 16]| match key.family {
        4 => IpAddr::from(*bytes.first_chunk::<4>().unwrap_or(&[0; 4])),
        _ => IpAddr::from(bytes),
    };
    match key.family {
        0 => FlowKey::OTHER,
        // Fields outside the identity are zero already.
        _ => FlowKey::new(
            Identity::FiveTuple,
            address(key.src),
            address(key.dst),
            key.protocol as u8,
            key.sport as u16,
            key.dport as u16,
        ),
    }
}

fn flow(flow: FlowEntry) -> FlowStats {
    FlowStats {
        flow: format!("hash {:08x}", flow.entry_hash),
        backlog_packets: flow.packets.into(),
        backlog_bytes: flow.bytes.into(),
        ..FlowStats::default()
    }
}

/// Time in the queue of the packets that left since the copy `since` was made.
fn sojourn(all: &Sojourns, since: Option<&Sojourns>) -> Sojourn {
    let mut buckets = [0; BUCKETS];
    for (i, n) in buckets.iter_mut().enumerate() {
        *n = all.buckets[i].saturating_sub(since.map_or(0, |since| since.buckets[i]));
    }
    let sum = all.sum.saturating_sub(since.map_or(0, |since| since.sum));
    let count = buckets.iter().sum::<u64>().max(1);
    let at = |q| Duration::as_secs_f64(quantile(buckets, q)) * 1e3;
    Sojourn {
        mean_ms: millis(sum) / count as f64,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        max_ms: at(1.0),
    }
}

fn counts(all: &Sojourns) -> SojournCounts {
    let buckets = std::array::from_fn(|i| all.buckets[i]);
    SojournCounts {
        below: counts_below(&buckets, SojournCounts::bounds_ns()),
        packets: buckets.iter().sum(),
        sum_s: all.sum as f64 / 1e9,
    }
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qdisc_goes_on_from_the_counters_of_the_one_that_it_replaces() {
        let stats = |n: u64| Stats {
            packets_in: 10 * n,
            bytes_in: 1000 * n,
            largest_bytes: 100 * n,
            packets_out: 7 * n,
            bytes_out: 700 * n,
            drops: [("tail".to_owned(), n), (format!("of {n}"), 1)].into(),
            backlog_packets: n,
            sojourn: Sojourn {
                max_ms: n as f64,
                p99_ms: n as f64,
                ..Sojourn::default()
            },
            sojourn_counts: SojournCounts {
                below: [n; SojournCounts::BOUNDS],
                packets: n,
                sum_s: n as f64,
            },
            flows: vec![FlowStats::default()],
            ..Stats::default()
        };
        let before = counters(stats(5));
        assert!(before.flows.is_empty() && before.backlog_packets == 0);
        let both = after(stats(2), &before);
        assert_eq!((both.packets_in, both.packets_out), (70, 49));
        assert_eq!((both.bytes_in, both.bytes_out), (7000, 4900));
        assert_eq!((both.largest_bytes, both.backlog_packets), (500, 2));
        assert_eq!((both.drops["tail"], both.drops.len()), (7, 3));
        assert_eq!((both.sojourn.max_ms, both.sojourn.p99_ms), (5.0, 2.0));
        let counts = both.sojourn_counts;
        assert_eq!((counts.below[3], counts.packets, counts.sum_s), (7, 7, 7.0));
    }

    #[test]
    fn what_is_recent_is_what_was_added() {
        let mut then: Sojourns = bytemuck::Zeroable::zeroed();
        // 100 packets of about 200 ms, then 100 of 1 ms to 1.25 ms.
        then.buckets[1 + (17 << 2) + 2] = 100;
        then.sum = 100 * 200_000_000;
        let mut now = then;
        now.buckets[1 + (9 << 2) + 3] = 100;
        now.sum += 100 * 1_000_000;
        let recent = sojourn(&now, Some(&then));
        assert!((recent.mean_ms - 1.0).abs() < 1e-9, "{recent:?}");
        assert!((0.9..1.1).contains(&recent.p99_ms), "{recent:?}");
        let all = sojourn(&now, None);
        assert!((180.0..220.0).contains(&all.p99_ms), "{all:?}");
        let told = counts(&now);
        // Below 2^20 ns (1.05 ms): those of the bucket from 0.92 ms on.
        assert_eq!((told.below[3], told.below[4], told.packets), (0, 100, 200));
        assert_eq!(told.below[11..13], [100, 200], "{told:?}");
        assert!((told.sum_s - 20.1).abs() < 1e-9);
    }
}
