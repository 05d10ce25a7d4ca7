// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replications of a small lossy scenario.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const SCENARIO: &str = r#"
duration = "3s"
[node.a]
[node.b]
[link.line]
between = ["a", "b"]
rate = "2mbit"
delay = "10ms"
loss = 0.02
queue = { at = "a", discipline = "fifo", limit = "20 packets" }
[flow.download]
kind = "bulk"
from = "a"
to = "b"
count = 2
[flow.voice]
kind = "poisson"
from = "a"
to = "b"
rate = "100kbit"
"#;

fn scenario(set: &[&str]) -> Scenario {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    makeway_scenario::parse(SCENARIO, "test.toml", Path::new("."), &set).unwrap()
}

fn asked(runs: Option<u32>, precision: Option<f64>, jobs: u32) -> Replicate {
    Replicate {
        runs,
        precision,
        compare: None,
        jobs: Some(jobs),
    }
}

fn found(asked: &Replicate, scenarios: &[Scenario]) -> Vec<Replications> {
    let stop = Arc::new(AtomicBool::new(false));
    asked.replications(scenarios, &stop).unwrap()
}

#[test]
fn figures_do_not_depend_on_how_many_run_at_a_time() {
    let scenarios = [scenario(&[])];
    let one = found(&asked(Some(9), None, 1), &scenarios);
    for jobs in [2, 5] {
        assert_eq!(one, found(&asked(Some(9), None, jobs), &scenarios));
    }
    assert_eq!(one[0].runs.len(), 9);
    assert!(one[0].complete && one[0].precision.is_none());
}

#[test]
fn a_precision_ends_at_the_same_run_whatever_the_jobs() {
    let scenarios = [scenario(&[])];
    let one = found(&asked(None, Some(0.3), 1), &scenarios);
    assert_eq!(one, found(&asked(None, Some(0.3), 3), &scenarios));
    let runs = one[0].runs.len();
    assert!((5..MOST).contains(&runs), "{runs}");
    assert!(one[0].complete && one[0].settled(0.3));
    // One run fewer would not have done.
    if runs > 5 {
        let fewer = found(&asked(Some(runs as u32 - 1), None, 2), &scenarios);
        assert!(!fewer[0].settled(0.3));
    }
}

#[test]
fn a_precision_that_cannot_be_reached_ends_at_the_most_and_says_so() {
    let all = found(&asked(Some(6), Some(0.001), 2), &[scenario(&[])]);
    assert_eq!(all[0].runs.len(), 6);
    assert!(all[0].complete && !all[0].precision.as_ref().unwrap().reached);
    assert!(all[0].table().contains("After 6 runs these are not known"));
}

#[test]
fn runs_are_the_replications_from_one_on() {
    let all = found(&asked(Some(2), None, 2), &[scenario(&[])]);
    let first = Options {
        replication: 1,
        ..Options::default()
    };
    let single = makeway_sim::run(&scenario(&[]), &first, |_| {}).unwrap();
    assert_eq!(
        all[0].runs[0].fingerprint,
        single.environment["fingerprint"]
    );
    assert_ne!(
        all[0].runs[1].fingerprint,
        single.environment["fingerprint"]
    );
}

#[test]
fn variants_share_their_random_numbers() {
    let scenarios = ["fifo", "sqf", "fifo"]
        .map(|name| scenario(&[&format!("link.line.queue.discipline={name}")]));
    let all = found(&asked(Some(4), None, 2), &scenarios);
    assert_eq!(all[0].runs, all[2].runs);
    assert_eq!(all[0].figures, all[2].figures);
    assert_ne!(all[0].figures, all[1].figures);
}

#[test]
fn a_signal_leaves_what_is_finished() {
    let stop = Arc::new(AtomicBool::new(true));
    let scenarios = [scenario(&[])];
    let none = asked(Some(50), None, 2).replications(&scenarios, &stop);
    assert!(none.unwrap().is_empty());
    // It comes while they run: what is there is whole, and not all of it.
    let long = [scenario(&["duration=200s"])];
    let began = std::time::Instant::now();
    makeway_sim::run(&long[0], &Options::default(), |_| {}).unwrap();
    let mut some_runs = 5 * began.elapsed();
    // Where the machine stalls, no run may be whole by then.
    let some = loop {
        let stop = Arc::new(AtomicBool::new(false));
        let later = Arc::clone(&stop);
        let signal = std::thread::spawn(move || {
            std::thread::sleep(some_runs);
            later.store(true, Ordering::Relaxed);
        });
        let some = asked(Some(100_000), None, 2).replications(&long, &stop);
        signal.join().unwrap();
        match some.unwrap() {
            none if none.is_empty() => some_runs *= 2,
            some => break some,
        }
    };
    let runs = some[0].runs.len();
    assert!((1..100_000).contains(&runs));
    assert!(!some[0].complete && some[0].table().contains("cut short"));
    assert!(some[0].figures.iter().all(|f| f.values.len() == runs));
    // The last one is a whole run, not the one that was cut.
    let last = Options {
        replication: runs as u64,
        ..Options::default()
    };
    let whole = makeway_sim::run(&long[0], &last, |_| {}).unwrap();
    let print = &some[0].runs[runs - 1].fingerprint;
    assert_eq!(*print, whole.environment["fingerprint"]);
}

#[test]
fn what_this_world_cannot_run_is_an_error() {
    let scenarios = [scenario(&["flow.download.congestion_control=bbr"])];
    let stop = Arc::new(AtomicBool::new(false));
    let error = asked(Some(3), None, 2).replications(&scenarios, &stop);
    assert!(error.unwrap_err().to_string().contains("bbr"));
}

#[test]
fn values_are_cut_at_commas_outside_of_brackets() {
    let cut = |text| variants(text).map(|(_, values)| values).unwrap();
    assert_eq!(cut("a.b=fifo, sqf"), ["fifo", "sqf"]);
    assert_eq!(
        cut(r#"a=["1mbit", "2mbit"],{ at = "x", b = 1 },"c,d""#),
        [
            r#"["1mbit", "2mbit"]"#,
            r#"{ at = "x", b = 1 }"#,
            r#""c,d""#
        ]
    );
    for wrong in ["a", "a=b", "a=b,", "a="] {
        let error = variants(wrong).unwrap_err().to_string();
        assert!(error.contains("fifo,sqf"), "{error}");
    }
}
