// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ideal that a case is held against: `prio` with the call's hosts first. A discipline has no marks to know them by; what the
//! call misses even so, the link does not allow.

use std::collections::{BTreeMap, BTreeSet};

use makeway_core::flow::Identity;
use makeway_core::sched::Discipline;
use makeway_report::estimate::Unit;
use makeway_scenario::Scenario;
use makeway_scenario::model::Flow;

use super::cell::Figure;
use super::sample::{Get, Sample, is_call};

/// Weight of the call's hosts; all others have 1.
const FIRST: u32 = 2;

/// Gives the call's hosts the first place at each measured queue of a link with a rate.
///
/// # Errors
/// Each host of the call has other traffic too.
pub fn put_first(scenario: &mut Scenario) -> Result<(), String> {
    let hosts = hosts(scenario);
    if hosts.is_empty() {
        return Err("the call shares each of its hosts with other traffic, so that `prio` cannot tell it apart: give it a node of its own".into());
    }
    let weights = hosts
        .iter()
        .map(|&host| (scenario.nodes[host].name.clone(), FIRST));
    let weights: BTreeMap<_, _> = weights.collect();
    for link in 0..scenario.links.len() {
        for end in 0..2 {
            let side = side(scenario, link, end);
            let egress = &mut scenario.links[link].egress[end];
            if egress.measure && egress.rate.is_some() {
                let from_host = hosts.iter().any(|host| side.contains(host));
                egress.queue.users = if from_host {
                    Identity::SrcHost
                } else {
                    Identity::DstHost
                };
                egress.queue.weights.clone_from(&weights);
            }
        }
    }
    Ok(())
}

/// Nodes that only the call and its voice begin or end at.
fn hosts(scenario: &Scenario) -> BTreeSet<usize> {
    let (call, others): (Vec<_>, Vec<_>) =
        (scenario.flows.iter()).partition(|flow| is_call(&flow.group) || flow.voice.is_some());
    let ends = |flows: Vec<&Flow>| -> BTreeSet<usize> {
        flows.iter().flat_map(|flow| [flow.from, flow.to]).collect()
    };
    &ends(call) - &ends(others)
}

/// The nodes on the side of `end` when `link` is cut.
fn side(scenario: &Scenario, link: usize, end: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([scenario.links[link].ends[end]]);
    loop {
        let others = (scenario.links.iter().enumerate()).filter(|&(n, _)| n != link);
        let next: Vec<usize> = others
            .filter(|(_, other)| other.ends.iter().any(|node| reached.contains(node)))
            .flat_map(|(_, other)| other.ends)
            .filter(|node| !reached.contains(node))
            .collect();
        if next.is_empty() {
            return reached;
        }
        reached.extend(next);
    }
}

/// A bar for `makeway`, where the call does not adapt.
struct Bar {
    name: &'static str,
    get: Get,
    unit: Unit,
    /// Whether a mean, and the ideal's, keep it.
    keeps: fn(f64, f64) -> bool,
}

const BARS: [Bar; 4] = [
    Bar {
        name: "on time",
        get: |s| s.on_time,
        unit: Unit::Share,
        keeps: |own, _| own >= 0.99,
    },
    Bar {
        name: "p99",
        get: |s| s.delay_p99_ms,
        unit: Unit::Millis,
        keeps: |own, _| own <= 60.0,
    },
    Bar {
        name: "rest",
        get: |s| s.goodput_mbps,
        unit: Unit::Index,
        keeps: |own, ideal| own >= 0.95 * ideal,
    },
    Bar {
        name: "Jain's index",
        get: |s| s.jain,
        unit: Unit::Index,
        keeps: |own, _| own >= 0.95,
    },
];

/// The bars, in words.
pub const SAID: &str = "on time 99 %, p99 60 ms, rest 95 % of prio's, Jain's index 0.95";

/// The bars that `own` does not keep, with its figure and the ideal's. `None` where the call adapts, or a run is missing.
pub fn missed(of_each: &[(Discipline, &Vec<Sample>)]) -> Option<Vec<String>> {
    let of = |wanted| of_each.iter().find(|(discipline, _)| *discipline == wanted);
    let ((_, own), (_, ideal)) = (of(Discipline::Makeway)?, of(Discipline::Prio)?);
    if own.iter().any(|sample| sample.frozen_s.is_some()) {
        return None;
    }
    let missed = |bar: &Bar| {
        let (own, ideal) = (Figure::of(own, bar.get), Figure::of(ideal, bar.get));
        let has = own.0.runs > 0 && ideal.0.runs > 0;
        (has && !(bar.keeps)(own.0.mean, ideal.0.mean)).then(|| {
            format!(
                "{} {} (prio {})",
                bar.name,
                own.show(bar.unit),
                ideal.show(bar.unit)
            )
        })
    };
    Some(BARS.iter().filter_map(missed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauntlet::cases::CASES;
    use makeway::builtin;

    #[test]
    fn the_calls_host_goes_first_in_both_directions_of_every_case() {
        let folder = tempfile::tempdir().unwrap();
        builtin::unpack(folder.path()).unwrap();
        for case in CASES {
            let mut scenario =
                makeway_scenario::parse(&case.scenario(), case.name, folder.path(), &[]).unwrap();
            put_first(&mut scenario).unwrap();
            for link in scenario
                .links
                .iter()
                .filter(|link| link.name == "bottleneck")
            {
                for (end, egress) in link
                    .egress
                    .iter()
                    .enumerate()
                    .filter(|(_, egress)| egress.measure)
                {
                    let is_down = scenario.nodes[link.ends[end]].name == "router";
                    let expected = if is_down {
                        Identity::SrcHost
                    } else {
                        Identity::DstHost
                    };
                    assert_eq!(egress.queue.users, expected, "{}", case.name);
                    let weights = &egress.queue.weights;
                    assert_eq!(weights.get("media"), Some(&FIRST), "{}", case.name);
                    assert!(!weights.contains_key("web"), "{}", case.name);
                }
            }
        }
    }

    #[test]
    fn a_call_beside_other_traffic_of_its_hosts_has_no_ideal() {
        let folder = tempfile::tempdir().unwrap();
        builtin::unpack(folder.path()).unwrap();
        let text = CASES[0]
            .scenario()
            .replace("from = \"media\"", "from = \"web\"");
        let mut scenario = makeway_scenario::parse(&text, "shared", folder.path(), &[]).unwrap();
        let why = put_first(&mut scenario).unwrap_err();
        assert!(why.contains("give it a node of its own"), "{why}");
    }

    #[test]
    fn a_bar_that_is_not_kept_is_said_with_the_ideal() {
        let sample = |on_time, p99, rest, jain| {
            vec![Sample {
                on_time: Some(on_time),
                delay_p99_ms: Some(p99),
                goodput_mbps: Some(rest),
                jain: Some(jain),
                ..Sample::default()
            }]
        };
        let ideal = sample(0.97, 80.0, 4.0, 1.0);
        let said = |own: &Vec<Sample>| {
            missed(&[(Discipline::Makeway, own), (Discipline::Prio, &ideal)]).unwrap()
        };
        assert_eq!(said(&sample(0.99, 60.0, 3.8, 0.95)), Vec::<String>::new());
        let all = said(&sample(0.989, 61.0, 3.79, 0.949));
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(
            all[0].starts_with("on time 98.9") && all[0].contains("(prio 97"),
            "{all:?}"
        );
        // Without the ideal, and for a call that adapts, there are no bars.
        assert_eq!(missed(&[(Discipline::Makeway, &ideal)]), None);
        let adapts: Vec<Sample> = ideal
            .iter()
            .map(|s| Sample {
                frozen_s: Some(0.0),
                ..s.clone()
            })
            .collect();
        assert_eq!(
            missed(&[(Discipline::Makeway, &adapts), (Discipline::Prio, &ideal)]),
            None
        );
    }
}
