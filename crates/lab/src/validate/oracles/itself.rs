// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator against itself: relations that hold for all values.

use makeway_core::sched::Discipline;
use makeway_core::units::Duration;
use makeway_report::model::Report;
use makeway_sim::tcp::{Config, DelayedAck, Variant};

use crate::validate::oracle::{Bench, Case, Ours, Question};

const SCENARIO: &str = include_str!("../mix.toml");

/// Scaling, conservation.
pub fn cases() -> Vec<Case> {
    let question = |what: &str| Question {
        what: what.into(),
        source: "of itself",
        unit: "",
        expected: Some([0.0; 2]),
        known: None,
    };
    vec![
        Case::one(
            question("rates doubled, times halved: counts that differ"),
            |bench| Ok(Ours::Value(twice_as_fast(bench)? as f64)),
        ),
        Case::one(
            question("packets that no queue accounts for, every discipline"),
            |bench| Ok(Ours::Value(unaccounted(bench)? as f64)),
        ),
    ]
}

/// TCP with all its times halved `by` so often.
fn tcp(by: u32) -> Config {
    let half = |time: Duration| Duration::from_nanos(time.as_nanos() >> by);
    let linux = Config::linux(Variant::Sack);
    Config {
        delayed_ack: DelayedAck::EverySecond(half(Duration::from_millis(40))),
        initial_rto: half(linux.initial_rto),
        min_rto: half(linux.min_rto),
        max_rto: half(linux.max_rto),
        min_rto_margin: half(linux.min_rto_margin),
        ..linux
    }
}

/// The same run played twice as fast has the same packets; how many counts are not the same.
fn twice_as_fast(bench: &Bench) -> anyhow::Result<usize> {
    let fast = [
        "duration=60s",
        "link.access.rate=200mbit",
        "link.line.rate=20mbit",
        "link.access.delay=2ms",
        "link.line.delay=3ms",
        "flow.download.stagger=5ms",
        "flow.call.rate=2mbit",
    ];
    let mut differ = 0;
    for discipline in ["fifo", "fq", "pfq", "sqf", "hier", "prio"] {
        let queue = format!("link.line.queue.discipline={discipline}");
        let mut fast: Vec<String> = fast.iter().map(|s| (*s).into()).collect();
        fast.push(queue.clone());
        let slow = bench.run(&bench.scenario(SCENARIO, &[queue])?, Some(tcp(0)))?;
        let fast = bench.run(&bench.scenario(SCENARIO, &fast)?, Some(tcp(1)))?;
        let pairs = counts(&slow).into_iter().zip(counts(&fast));
        differ += pairs.filter(|(slow, fast)| slow != fast).count();
    }
    Ok(differ)
}

/// Packets of the queue, bytes of each download, packets of the stream.
fn counts(report: &Report) -> Vec<u64> {
    let mut counts = Vec::new();
    for queue in &report.queues {
        counts.extend([queue.packets_in, queue.packets_out]);
        counts.extend(queue.drops.values());
    }
    for flow in &report.flows {
        counts.push((flow.goodput_bps * report.seconds / 8.0).round() as u64);
        let stream = flow.datagrams.iter();
        counts.extend(stream.flat_map(|stream| [stream.sent, stream.received]));
    }
    counts
}

fn unaccounted(bench: &Bench) -> anyhow::Result<u64> {
    let mut lost = 0;
    for discipline in Discipline::ALL {
        let queue = format!("link.line.queue.discipline={discipline}");
        let report = bench.run(&bench.scenario(SCENARIO, &[queue])?, None)?;
        // At its end a run waits until everything has arrived.
        for queue in &report.queues {
            let dropped: u64 = queue.drops.values().sum();
            lost += queue.packets_in.abs_diff(queue.packets_out + dropped);
        }
    }
    Ok(lost)
}
