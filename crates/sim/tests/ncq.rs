// SPDX-License-Identifier: MIT OR Apache-2.0
//! NCQ's closed forms (section 4.1 of the paper) against the simulator, and against NCQ in forty lines.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::collections::VecDeque;
use std::path::Path;

use makeway_core::theory::ncq::{Classes, Delays};
use makeway_sim::{Options, run};
use rand_distr::{Bernoulli, Distribution, Exp1, StandardUniform};
use rand_pcg::Pcg64Mcg;

/// The paper's 0.5 and 5 ms: 125 and 1250 B at 2 Mbit/s.
const SERVICES: [f64; 2] = [0.5e-3, 5e-3];

const TWO_CLASSES: &str = r#"
title = "the paper's two classes"
duration = "20000s"
warmup = "0s"
[node.first]
[node.second]
[node.router]
[node.client]
[link.first]
between = ["first", "router"]
framing = "ip"
[link.second]
between = ["second", "router"]
framing = "ip"
[link.line]
between = ["router", "client"]
rate = "2mbit"
framing = "ip"
queue = { at = "router", discipline = "fifo", limit = "100000 packets", users = "src-host", weights = { first = 2 } }
[flow.small]
kind = "poisson"
from = "first"
to = "client"
rate = "1mbit"
payload = "85B"
[flow.large]
kind = "poisson"
from = "second"
to = "client"
rate = "1mbit"
payload = "1210B"
"#;

/// Mean delays of both classes in the simulator, s.
fn simulated(classes: &Classes, discipline: &str) -> [f64; 2] {
    let rate = |n: usize, bytes: f64| (classes.rates[n] * bytes * 8.0).round();
    let set = [
        format!("link.line.queue.discipline={discipline}"),
        format!("flow.small.rate={}bit", rate(0, 125.0)),
        format!("flow.large.rate={}bit", rate(1, 1250.0)),
    ];
    let scenario = makeway_scenario::parse(TWO_CLASSES, "test.toml", Path::new("."), &set).unwrap();
    let report = run(&scenario, &Options::default(), |_| {}).unwrap();
    [0, 1].map(|n| report.flows[n].datagrams.as_ref().unwrap().delay_ms.mean / 1e3)
}

#[test]
fn priority_and_fifo_are_those_of_the_equations() {
    for (share, load) in [(0.1, 0.3), (0.1, 0.6), (0.2, 0.8)] {
        let classes = Classes::of_load(load, share, SERVICES);
        for (discipline, expected) in [("prio", classes.priority()), ("fifo", classes.fifo())] {
            let seen = simulated(&classes, discipline);
            for (seen, expected) in seen.into_iter().zip(expected.delays) {
                let apart = seen / expected - 1.0;
                assert!(
                    apart.abs() < 0.015,
                    "{discipline} at {load}: {seen} s, {expected} s"
                );
            }
        }
    }
}

#[test]
fn eq_9_as_printed_is_not_what_a_queue_does() {
    let classes = Classes::of_load(0.6, 0.2, SERVICES);
    let [_, large] = simulated(&classes, "fifo");
    // Its wait is too short by a sixth: 8.1 ms for 8.7.
    assert!(classes.fifo_as_printed().delays[1] < 0.95 * large);
}

/// How NCQ decides about a small packet.
#[derive(Clone, Copy)]
enum Favour {
    /// The paper's counters: while the favoured are less than this share of the received.
    Counters(f64),
    /// With this probability.
    Coin(f64),
}

/// Mean waits of both classes under NCQ, s: a list for each priority, one server, no limit.
fn modelled(classes: &Classes, favour: Favour) -> [f64; 2] {
    const PACKETS: u32 = 1_500_000;
    let mut rng = Pcg64Mcg::new(7);
    let small = Bernoulli::new(classes.share()).unwrap();
    let rate: f64 = classes.rates.iter().sum();
    // The queue: arrival time and class of each packet.
    let mut waiting: [VecDeque<(f64, usize)>; 2] = Default::default();
    let (mut now, mut free) = (0.0f64, 0.0f64);
    let (mut received, mut favoured) = (0.0, 0.0);
    let (mut waits, mut served) = ([0.0f64; 2], [0.0f64; 2]);
    for _ in 0..PACKETS {
        let gap: f64 = Exp1.sample(&mut rng);
        now += gap / rate;
        while free < now {
            let [first, second] = &mut waiting;
            let Some((came, class)) = first.pop_front().or_else(|| second.pop_front()) else {
                break;
            };
            free = free.max(came);
            waits[class] += free - came;
            served[class] += 1.0;
            free += classes.services[class];
        }
        received += 1.0;
        let class = usize::from(!small.sample(&mut rng));
        let coin: f64 = StandardUniform.sample(&mut rng);
        let first = class == 0
            && match favour {
                Favour::Counters(threshold) => favoured / received < threshold,
                Favour::Coin(probability) => coin < probability,
            };
        favoured += f64::from(u8::from(first));
        waiting[usize::from(!first)].push_back((now, class));
    }
    [0, 1].map(|class| waits[class] / served[class])
}

fn near(waits: [f64; 2], expected: Delays, tolerance: f64) {
    for (wait, expected) in waits.into_iter().zip(expected.waits) {
        let apart = wait / expected - 1.0;
        assert!(apart.abs() < tolerance, "{wait} s for {expected} s");
    }
}

#[test]
fn a_threshold_of_nothing_is_fifo_and_of_all_is_priority() {
    let classes = Classes::of_load(0.6, 0.1, SERVICES);
    near(
        modelled(&classes, Favour::Counters(0.0)),
        classes.fifo(),
        0.02,
    );
    near(
        modelled(&classes, Favour::Counters(1.0)),
        classes.priority(),
        0.02,
    );
}

#[test]
fn where_a_coin_favours_the_threshold_forms_are_exact() {
    for (share, load) in [(0.1, 0.3), (0.1, 0.6), (0.2, 0.8)] {
        let classes = Classes::of_load(load, share, SERVICES);
        for favoured in [0.05 / share, 0.5] {
            near(
                modelled(&classes, Favour::Coin(favoured)),
                classes.threshold(favoured),
                0.03,
            );
        }
    }
}

#[test]
fn the_papers_counters_do_a_little_better_than_the_threshold_forms() {
    for (share, load, threshold) in [
        (0.1, 0.3, 0.05),
        (0.1, 0.6, 0.05),
        (0.1, 0.6, 0.01),
        (0.2, 0.6, 0.05),
        (0.1, 0.8, 0.05),
    ] {
        let classes = Classes::of_load(load, share, SERVICES);
        let [small, large] = modelled(&classes, Favour::Counters(threshold));
        let right = classes.threshold(classes.favoured(threshold));
        let apart = small / right.waits[0] - 1.0;
        assert!(
            (-0.14..0.005).contains(&apart),
            "{share} {load} {threshold}: {apart}"
        );
        assert!((large / right.waits[1] - 1.0).abs() < 0.03);
    }
}

#[test]
fn kthresh_as_printed_is_not_what_the_counters_favour() {
    let classes = Classes::of_load(0.6, 0.1, SERVICES);
    let [small, _] = modelled(&classes, Favour::Counters(0.05));
    let printed = classes.threshold_as_printed(classes.favoured_as_printed(0.05));
    // 3.4 ms for 2.4.
    assert!(printed.waits[0] > 1.35 * small);
}
