// SPDX-License-Identifier: MIT OR Apache-2.0
//! ns-3.37 and ns-3.48: twenty downloads through one queue. Ours is the mean of ten seeds, to lie in what
//! both give.

use makeway_core::measure::{Moments, jain};
use makeway_core::units::Duration;
use makeway_core::workload::Rng;
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::tcp::{Config, DelayedAck, Halved, Recovery, Variant};

use crate::validate::oracle::{Bench, Case, Known, Ours, Question};

const SCENARIO: &str = include_str!("../ns3.toml");
/// Seeds of each mean.
pub const SEEDS: u64 = 10;
/// Downloads start within this time.
const STARTS: Duration = Duration::from_millis(100);

/// FqCoDel of ns-3: its quantum is the MTU, and one packet behind another is a queue that stands.
pub const FQ_CODEL: [&str; 4] = [
    "link.line.queue.discipline=fq-codel",
    "link.line.queue.limit=10240 packets",
    "link.line.queue.quantum=1502B",
    "link.line.queue.codel.mtu=1501B",
];

/// Name and unit of each measured figure.
pub const FIGURES: [(&str, &str); 4] = [
    ("goodput", "Mbit/s"),
    ("sojourn", "ms"),
    ("drops", "packets"),
    ("Jain's index", ""),
];

/// TCP of ns-3: the window grows by a segment for each acknowledgement, of which delayed ones are half as
/// many, and for the one that ends a recovery; after a loss it goes down to half of what is thought to be
/// in the network, as fast as data arrives; a least timeout of 1 s.
pub fn ns3() -> Config {
    Config {
        growth_limit: 1,
        quick_acks: 0,
        whole_segments: false,
        recovery: Recovery::SackPrr,
        halved: Halved::Pipe,
        delayed_ack: DelayedAck::EverySecond(Duration::from_millis(200)),
        min_rto: Duration::from_secs(1),
        min_rto_margin: Duration::ZERO,
        ..Config::linux(Variant::Sack)
    }
}

/// Both queues.
pub fn cases() -> Vec<Case> {
    let known = |beyond| {
        Some(Known {
            section: "Twenty downloads in ns-3",
            beyond,
        })
    };
    vec![
        case(
            "pfifo",
            &[],
            vec![
                ([9.625, 9.645], None),
                ([103.0, 107.0], None),
                ([1040.0, 1140.0], known(19.0)),
            ],
        ),
        case(
            "FqCoDel",
            &FQ_CODEL,
            vec![
                ([9.56, 9.62], known(0.017)),
                ([25.0, 25.6], known(0.06)),
                ([4985.0, 5027.0], known(61.0)),
                ([0.999, 1.0], None),
            ],
        ),
    ]
}

fn case(
    name: &str,
    set: &'static [&'static str],
    expected: Vec<([f64; 2], Option<Known>)>,
) -> Case {
    let count = expected.len();
    let questions = expected.into_iter().zip(FIGURES);
    let questions = questions.map(|((expected, known), (what, unit))| Question {
        what: format!("20 downloads through {name}: {what}"),
        source: "ns-3.37 and ns-3.48",
        unit,
        expected: Some(expected),
        known,
    });
    Case::of(questions.collect(), move |bench| {
        let means = means(bench, set, &ns3())?;
        let values = means[..count].iter().map(|runs| Ours::Value(runs.mean()));
        Ok(values.collect())
    })
}

/// Each of [`FIGURES`], by [`SEEDS`] runs.
///
/// # Errors
/// A run was stopped.
pub fn means(bench: &Bench, set: &[&str], tcp: &Config) -> anyhow::Result<[Moments; 4]> {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = bench.scenario(SCENARIO, &set)?;
    let mut means = [Moments::new(); 4];
    for seed in 1..=SEEDS {
        let report = bench.run(&random_starts(&scenario, seed), Some(*tcp))?;
        let seen = figures(&report);
        means.iter_mut().zip(seen).for_each(|(m, x)| m.record(x));
    }
    Ok(means)
}

fn figures(report: &Report) -> [f64; 4] {
    let queue = &report.queues[0];
    let goodputs = report.flows.iter().map(|flow| flow.goodput_bps);
    [
        goodputs.clone().sum::<f64>() / 1e6,
        queue.mean_sojourn_ms(),
        queue.drops.values().sum::<u64>() as f64,
        jain(goodputs).unwrap_or(f64::NAN),
    ]
}

/// The same with another seed, and its flows begin at random within [`STARTS`].
pub fn random_starts(scenario: &Scenario, seed: u64) -> Scenario {
    let mut scenario = Scenario {
        seed,
        ..scenario.clone()
    };
    let mut rng = Rng::new(seed);
    for flow in &mut scenario.flows {
        flow.start = Duration::from_nanos(u64::from(rng.below(STARTS.as_nanos() as u32)));
    }
    scenario
}
