// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single queues whose waits and losses have a closed form.
//!
//! Each has twenty replications, and the 95 % interval of their mean has to reach the value, or half a
//! percent around it: of that many intervals one in twenty would miss by chance.

use makeway_core::measure::Moments;
use makeway_report::model::Report;

use crate::validate::oracle::{Bench, Case, Ours, Question, around};

const QUEUE: &str = include_str!("../queue.toml");
const PRIORITY: &str = include_str!("../priority.toml");
const RUNS: u64 = 20;
const TOLERANCE: f64 = 0.005;

/// M/D/1, M/M/1, M/M/1/10, priorities.
pub fn cases() -> Vec<Case> {
    let loads = [0.5, 0.8, 0.9, 0.95];
    let mut cases: Vec<Case> = loads.into_iter().map(m_d_1).collect();
    cases.extend(loads.into_iter().map(m_m_1));
    cases.push(m_m_1_10());
    cases.push(priority(
        "prio",
        ["of 100 B, first", "of 1500 B"],
        [0.4711, 2.3556],
    ));
    cases.push(priority("fifo", ["of 100 B", "of 1500 B"], [2.12, 2.12]));
    cases
}

fn m_d_1(load: f64) -> Case {
    single(
        format!("M/D/1 at {load} load: mean wait"),
        "A. Khinchine, F. Pollaczek: load / (2 (1 - load)) services of 1.2 ms",
        1.2 * load / (2.0 * (1.0 - load)),
        vec![format!("flow.poisson.rate={}mbit", load * 10.0)],
    )
}

fn m_m_1(load: f64) -> Case {
    // 6000 B of mean at 40 Mbit/s are 1.2 ms. Sizes end at 64 and 65 535 B, which changes the mean by
    // 0.005 % and the wait at 0.95 load by 0.11 %.
    single(
        format!("M/M/1 at {load} load: mean wait"),
        "A. K. Erlang: load / (1 - load) services of 1.2 ms",
        1.2 * load / (1.0 - load),
        exponential(load),
    )
}

fn exponential(load: f64) -> Vec<String> {
    vec![
        "link.line.rate=40mbit".into(),
        "flow.poisson.sizes=exponential".into(),
        "flow.poisson.payload=5960B".into(),
        format!("flow.poisson.rate={}mbit", load * 40.0),
    ]
}

fn single(what: String, source: &'static str, wait: f64, set: Vec<String>) -> Case {
    let question = Question {
        what,
        source,
        unit: "ms",
        expected: around(wait, TOLERANCE),
        known: None,
    };
    Case::one(question, move |bench| {
        let wait = |report: &Report| report.queues[0].mean_sojourn_ms();
        let runs = bench.replicate(&bench.scenario(QUEUE, &set)?, RUNS, wait)?;
        Ok(Ours::Runs(runs))
    })
}

fn m_m_1_10() -> Case {
    let question = Question {
        what: "M/M/1/10 at 0.9 load: loss".into(),
        source: "(1 - a) a^10 / (1 - a^11), a = 0.9; ten with the one in service, which our limit leaves out",
        unit: "",
        expected: around(0.050_814, TOLERANCE),
        known: None,
    };
    Case::one(question, |bench| {
        let mut set = exponential(0.9);
        set.push("link.line.queue.limit=9 packets".into());
        let loss = |report: &Report| {
            let queue = &report.queues[0];
            queue.drops.values().sum::<u64>() as f64 / queue.packets_in as f64
        };
        let runs = bench.replicate(&bench.scenario(QUEUE, &set)?, RUNS, loss)?;
        Ok(Ours::Runs(runs))
    })
}

/// The waits of both classes under one discipline.
fn priority(discipline: &'static str, whose: [&str; 2], waits: [f64; 2]) -> Case {
    let question = |n: usize| Question {
        what: format!(
            "0.1 load of 100 B, 0.7 of 1500 B, {discipline}: wait {}",
            whose[n]
        ),
        source: match discipline {
            "fifo" => "A. Khinchine, F. Pollaczek: M/G/1",
            _ => "A. Cobham 1954: W0 / (1 - load of what is before), non-preemptive",
        },
        unit: "ms",
        expected: around(waits[n], TOLERANCE),
        known: None,
    };
    Case::of(vec![question(0), question(1)], move |bench| {
        let set = [format!("link.line.queue.discipline={discipline}")];
        let scenario = bench.scenario(PRIORITY, &set)?;
        // Delay less transmission, at 10 Mbit/s.
        Ok(vec![
            wait(bench, &scenario, "small", 0.08)?,
            wait(bench, &scenario, "large", 1.2)?,
        ])
    })
}

fn wait(
    bench: &Bench,
    scenario: &makeway_scenario::Scenario,
    flow: &str,
    transmission: f64,
) -> anyhow::Result<Ours> {
    let runs: Moments = bench.replicate(scenario, RUNS, |report| {
        let stream = report.flows.iter().find(|f| f.name == flow);
        let stream = stream.and_then(|f| f.datagrams.as_ref());
        stream.map_or(f64::NAN, |s| s.delay_ms.mean - transmission)
    })?;
    Ok(Ours::Runs(runs))
}
