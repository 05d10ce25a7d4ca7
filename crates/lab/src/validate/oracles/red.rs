// SPDX-License-Identifier: MIT OR Apache-2.0
//! RED of ns-2.35: downloads through a link of short delay. The 95 % interval of the mean of ten seeds has to
//! reach what ns-2 gives with twenty.

use makeway_core::measure::{Moments, jain};
use makeway_core::units::{Bytes, Duration};
use makeway_report::model::Report;
use makeway_sim::tcp::{Config, DelayedAck, LimitedTransmit, Variant};

use super::ns3::random_starts;
use crate::validate::oracle::{Bench, Case, Known, Ours, Question};

const SCENARIO: &str = include_str!("../red.toml");
const SEEDS: u64 = 10;

/// One of ns-2's runs: what is changed here, and the least and the largest of seeds 1 to 20 there of the
/// payload in Mbit/s, the share dropped in %, the mean queue in packets, Jain's index. By
/// `ns ns2/red.tcl seed=N` and what is named.
struct Setup {
    name: &'static str,
    tcp: fn() -> Config,
    set: &'static [&'static str],
    theirs: [[f64; 2]; 4],
    /// How far the payload was beyond that when it was accepted, see [`SECTION`].
    beyond: Option<f64>,
}

const SECTION: &str = "RED and limited transmit";

/// Measured value, and its unit.
pub const FIGURES: [(&str, &str); 4] = [
    ("payload", "Mbit/s"),
    ("dropped", "%"),
    ("mean queue", "packets"),
    ("Jain's index", ""),
];

/// ns-2.35's own defaults, with a window of 100.
fn ns2(variant: Variant) -> Config {
    Config {
        window: Bytes::new(100_000),
        initial_ssthresh: Bytes::new(100_000),
        initial_window: 2,
        initial_rto: Duration::from_secs(3),
        min_rto: Duration::from_millis(200),
        tick: Duration::from_millis(10),
        limited_transmit: LimitedTransmit::Any,
        ..Config::ns2(variant)
    }
}

fn newreno() -> Config {
    ns2(Variant::NewReno)
}

fn sized(mss: u32, window: u64) -> Config {
    Config {
        mss,
        window: Bytes::new(u64::from(mss) * window),
        initial_ssthresh: Bytes::new(u64::from(mss) * window),
        ..newreno()
    }
}

/// All of them.
pub fn cases() -> Vec<Case> {
    SETUPS.iter().map(case).collect()
}

fn case(setup: &'static Setup) -> Case {
    let known = setup.beyond.map(|beyond| Known {
        section: SECTION,
        beyond,
    });
    let figures = FIGURES.iter().zip(setup.theirs);
    let questions = figures.map(|((what, unit), expected)| Question {
        what: format!("9 downloads through RED, {}: {what}", setup.name),
        source: "ns-2.35, 20 seeds",
        unit,
        expected: Some(expected),
        known: known.filter(|_| *what == FIGURES[0].0),
    });
    Case::of(questions.collect(), |bench| {
        let means = means(bench, setup, (setup.tcp)())?;
        Ok(means.map(Ours::Runs).into())
    })
}

/// The figures of each setup with another limited transmit, by name.
///
/// # Errors
/// A run was stopped.
pub fn experiment(
    bench: &Bench,
    limited_transmit: LimitedTransmit,
) -> anyhow::Result<Vec<(&'static str, [Moments; 4])>> {
    let setups = SETUPS.iter();
    let each = setups.map(|setup| {
        let tcp = Config {
            limited_transmit,
            ..(setup.tcp)()
        };
        Ok((setup.name, means(bench, setup, tcp)?))
    });
    each.collect()
}

fn means(bench: &Bench, setup: &Setup, tcp: Config) -> anyhow::Result<[Moments; 4]> {
    let set: Vec<String> = setup.set.iter().map(|s| (*s).into()).collect();
    let scenario = bench.scenario(SCENARIO, &set)?;
    let mut means = [Moments::new(); 4];
    for seed in 1..=SEEDS {
        let scenario = random_starts(&scenario, seed);
        let report = bench.run(&scenario, Some(tcp))?;
        let seen = figures(&report);
        means.iter_mut().zip(seen).for_each(|(m, x)| m.record(x));
    }
    Ok(means)
}

fn figures(report: &Report) -> [f64; 4] {
    let queue = &report.queues[0];
    let dropped: u64 = queue.drops.values().sum();
    let goodputs = report.flows.iter().map(|flow| flow.goodput_bps);
    [
        goodputs.clone().sum::<f64>() / 1e6,
        dropped as f64 / queue.packets_in as f64 * 100.0,
        // Little: those that wait are as many as come in the time that they wait.
        queue.packets_out as f64 * queue.mean_sojourn_ms() / 1e3 / report.seconds,
        jain(goodputs).unwrap_or(f64::NAN),
    ]
}

const SETUPS: [Setup; 6] = [
    Setup {
        name: "NewReno",
        tcp: newreno,
        set: &[],
        theirs: [
            [1.3815, 1.3864],
            [10.62, 10.94],
            [16.13, 16.21],
            [0.996, 1.0],
        ],
        beyond: None,
    },
    // gentle=false
    Setup {
        name: "not gentle",
        tcp: newreno,
        set: &["link.line.queue.red.gentle=false"],
        theirs: [
            [1.4090, 1.4114],
            [12.60, 13.42],
            [14.79, 14.83],
            [0.989, 1.0],
        ],
        beyond: Some(0.0013),
    },
    // sink=TCPSink/DelAck
    Setup {
        name: "delayed ACKs",
        tcp: || Config {
            delayed_ack: DelayedAck::EverySecond(Duration::from_millis(100)),
            ..newreno()
        },
        set: &[],
        theirs: [[1.4058, 1.4085], [7.26, 7.38], [15.16, 15.25], [0.999, 1.0]],
        beyond: Some(0.0006),
    },
    // size=512
    Setup {
        name: "512 B",
        tcp: || sized(512, 100),
        set: &[],
        theirs: [[1.3747, 1.3760], [8.37, 8.45], [15.36, 15.39], [0.999, 1.0]],
        beyond: Some(0.0003),
    },
    // agent=TCP/Sack1 sink=TCPSink/Sack1
    Setup {
        name: "SACK",
        tcp: || ns2(Variant::Sack),
        set: &[],
        theirs: [[1.4274, 1.4286], [9.76, 9.96], [15.93, 15.97], [0.997, 1.0]],
        beyond: Some(0.0053),
    },
    // window=8
    Setup {
        name: "a window of 8",
        tcp: || sized(1000, 8),
        set: &[],
        theirs: [
            [1.3853, 1.3905],
            [10.62, 10.84],
            [16.14, 16.20],
            [0.998, 1.0],
        ],
        beyond: None,
    },
];
