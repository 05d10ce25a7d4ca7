// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::plan::Axis;
use crate::query::Found;
use crate::sample::{PANICS, axis, source};
use crate::table::{Column, Table};

fn axes() -> Vec<Axis> {
    vec![
        axis("link.line.queue.discipline", &["fifo", "sqf"]),
        axis("link.line.rate", &["1mbit", "2mbit"]),
    ]
}

fn plan(replications: u64) -> Plan {
    Plan::new(source(), axes(), replications).unwrap()
}

fn figures(store: &Store, plan: &Plan) -> Table {
    Found::new(store, plan).unwrap().figures()
}

fn how(workers: usize) -> How {
    How {
        workers,
        ..How::default()
    }
}

#[test]
fn figures_do_not_depend_on_threads_shards_or_what_was_there() {
    let plan = plan(3);
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [mut one, mut four, mut parts] = folders
        .each_ref()
        .map(|folder| Store::open(folder.path()).unwrap());
    let summary = run(&mut one, &plan, &how(1), |_| true).unwrap();
    assert_eq!((summary.made, summary.kept, summary.failed), (12, 0, 0));
    assert!(summary.complete());
    assert!(summary.cpu > Duration::ZERO && summary.busy <= summary.elapsed);
    run(&mut four, &plan, &how(4), |_| true).unwrap();
    let shorter = Plan::new(source(), axes(), 1).unwrap();
    run(&mut parts, &shorter, &how(2), |_| true).unwrap();
    for shard in ["2/2", "1/2"] {
        let how = How {
            shard: shard.parse().unwrap(),
            ..how(2)
        };
        let summary = run(&mut parts, &plan, &how, |_| true).unwrap();
        assert_eq!(summary.runs, 6, "{shard}");
        assert_eq!(summary.kept, 2, "{shard}");
    }
    let serial = figures(&one, &plan);
    assert!(serial.len() > 100, "{}", serial.len());
    assert_eq!(serial, figures(&four, &plan));
    assert_eq!(serial, figures(&parts, &plan));
}

#[test]
fn several_sweeps_share_the_threads_and_have_the_runs_that_they_have_alone() {
    let plans = [("fifo", 3), ("sqf", 3), ("sqf", 4)].map(|(discipline, replications)| {
        let discipline = axis("link.line.queue.discipline", &[discipline]);
        let rate = axis("link.line.rate", &["1mbit", "2mbit"]);
        Plan::new(source(), vec![discipline, rate], replications).unwrap()
    });
    // The last has the runs of the second, and two more.
    let all = plans.each_ref();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [mut alone, mut together] = folders
        .each_ref()
        .map(|folder| Store::open(folder.path()).unwrap());
    for plan in all {
        run(&mut alone, plan, &how(1), |_| true).unwrap();
    }
    let first = Plan::new(source(), plans[0].axes.clone(), 1).unwrap();
    run(&mut together, &first, &how(1), |_| true).unwrap();
    let summary = run_all(&mut together, &all, &how(3), |_| true).unwrap();
    assert_eq!((summary.runs, summary.kept, summary.made), (20, 8, 12));
    assert_eq!(together.last().unwrap(), plans[2]);
    for plan in all {
        assert_eq!(figures(&together, plan), figures(&alone, plan));
    }
    let again = run_all(&mut together, &all, &how(3), |_| true).unwrap();
    assert_eq!((again.made, again.kept), (0, 20));
    let none = run_all(&mut together, &[], &how(3), |_| true).unwrap();
    assert!(none.complete() && none.runs == 0);
}

#[test]
fn a_sweep_that_is_there_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(1);
    run(
        &mut Store::open(folder.path()).unwrap(),
        &plan,
        &how(2),
        |_| true,
    )
    .unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(store.len(), 4);
    assert_eq!(store.last().unwrap(), plan);
    let summary = run(&mut store, &plan, &how(2), |_| true).unwrap();
    assert_eq!((summary.made, summary.kept), (0, 4));
}

#[test]
fn a_run_that_the_simulator_refuses_is_a_failed_row_and_is_made_again_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let axis = axis("flow.download.congestion_control", &["cubic", "bbr"]);
    let plan = Plan::new(source(), vec![axis], 2).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let summary = run(&mut store, &plan, &how(2), |_| true).unwrap();
    assert_eq!((summary.made, summary.failed), (4, 2));
    let runs = crate::query::runs(&store, &plan).unwrap();
    let Some(Column::Text(status)) = runs.column("status") else {
        panic!("{runs:?}")
    };
    assert_eq!(
        status.iter().flatten().collect::<Vec<_>>(),
        ["ok", "ok", "error", "error"]
    );
    let Some(Column::Text(error)) = runs.column("error") else {
        panic!("{runs:?}")
    };
    assert!(
        error
            .get(2)
            .unwrap()
            .contains("no congestion control `bbr`")
    );
    assert_eq!(run(&mut store, &plan, &how(2), |_| true).unwrap().made, 0);
    let again = How {
        again: true,
        ..how(2)
    };
    assert_eq!(run(&mut store, &plan, &again, |_| true).unwrap().made, 2);
}

#[test]
fn a_run_that_panics_is_a_failed_row_and_not_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let panics = PANICS.to_string();
    let plan = Plan::new(source(), vec![axis("seed", &[panics.as_str(), "1"])], 2).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let summary = run(&mut store, &plan, &how(2), |_| true).unwrap();
    assert_eq!((summary.made, summary.failed), (4, 2));
    assert!(summary.complete());
    let runs = crate::query::runs(&Store::open(folder.path()).unwrap(), &plan).unwrap();
    let words = |name: &str| -> Vec<Option<String>> {
        let Some(Column::Text(text)) = runs.column(name) else {
            panic!("{runs:?}")
        };
        text.iter().map(|word| word.map(str::to_owned)).collect()
    };
    let status: Vec<String> = words("status").into_iter().flatten().collect();
    assert_eq!(status, ["panic", "panic", "ok", "ok"]);
    assert_eq!(words("error")[1].as_deref(), Some("a bug"));
    assert_eq!(words("error")[2], None);
    // The others have their figures.
    let alone = Plan::new(source(), vec![axis("seed", &["1"])], 2).unwrap();
    assert_eq!(figures(&store, &plan).len(), figures(&store, &alone).len());
}

#[test]
fn a_sweep_that_is_stopped_keeps_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    // Some of these are left, however late this thread hears of the fifth.
    let plan = plan(5_000);
    let mut store = Store::open(folder.path()).unwrap();
    let summary = run(&mut store, &plan, &how(2), |summary| summary.made < 5).unwrap();
    assert!(!summary.complete());
    // A quarter of all.
    assert!((5..5_000).contains(&summary.made), "{summary:?}");
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.len() as u64, summary.made);
}
