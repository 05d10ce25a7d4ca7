// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of a store are those of the replications that `makeway run --runs` and `--compare` make.

use makeway_report::replications::{Comparison, Figure, Replications};
use makeway_sim::Options;

use super::*;
use crate::sample::{axis, source};
use crate::sweep::{How, run};

const DISCIPLINE: &str = "link.line.queue.discipline";
const RUNS: u64 = 4;

fn swept(axes: Vec<crate::plan::Axis>) -> (tempfile::TempDir, Store, Plan) {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::new(source(), axes, RUNS).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    run(&mut store, &plan, &How::default(), |_| true).unwrap();
    (folder, store, plan)
}

/// As the program makes them.
fn replications(set: &str) -> Replications {
    let scenario = source().read(&[set.to_owned()]).unwrap();
    let report = |replication| {
        let options = Options {
            replication,
            ..Options::default()
        };
        makeway_sim::run(&scenario, &options, |_| {}).unwrap()
    };
    let mut all = Replications::new(&report(1));
    (2..=RUNS).for_each(|replication| all.add(&report(replication)));
    all
}

fn real(table: &Table, name: &str, row: usize) -> Option<f64> {
    match table.column(name) {
        Some(Column::Real(values)) => values[row],
        other => panic!("{name}: {other:?}"),
    }
}

fn word<'t>(table: &'t Table, name: &str, row: usize) -> &'t str {
    text(table, name).unwrap().get(row).unwrap()
}

/// The rows of `table` where `key` has `value`, against figures of the program.
fn assert_same(table: &Table, value: &str, figures: &[Figure]) {
    let rows: Vec<usize> = (0..table.len())
        .filter(|row| word(table, DISCIPLINE, *row) == value)
        .collect();
    assert_eq!(rows.len(), figures.len());
    for (row, figure) in rows.into_iter().zip(figures) {
        let name = (word(table, "of", row), word(table, "figure", row));
        assert_eq!(name, (figure.of.as_str(), figure.figure.key()));
        let mean = (figure.estimate.runs > 0).then_some(figure.estimate.mean);
        assert_eq!(real(table, "mean", row), mean, "{name:?}");
        assert_eq!(
            real(table, "half_width", row),
            figure.estimate.half_width,
            "{name:?}"
        );
    }
}

#[test]
fn estimates_and_differences_are_those_of_the_program_to_the_bit() {
    let (_folder, store, plan) = swept(vec![axis(DISCIPLINE, &["fifo", "sqf"])]);
    let found = Found::new(&store, &plan).unwrap();
    let [fifo, sqf] = ["fifo", "sqf"].map(|value| replications(&format!("{DISCIPLINE}={value}")));
    let estimates = found.estimates(&[DISCIPLINE.into()]).unwrap();
    assert_same(&estimates, "fifo", &fifo.figures);
    assert_same(&estimates, "sqf", &sqf.figures);
    let compared = Comparison::new(
        DISCIPLINE.into(),
        vec!["fifo".into(), "sqf".into()],
        vec![fifo, sqf],
    );
    let differences = found.differences(DISCIPLINE, "fifo").unwrap();
    assert_same(&differences, "sqf", &compared.differences[0].figures);
    assert_eq!(word(&differences, "than", 0), "fifo");
    let certain = compared.differences[0].figures.iter();
    let certain = certain.map(|figure| Some(figure.estimate.certain()));
    let certain = Column::Flag(certain.collect());
    assert_eq!(differences.column("certain"), Some(&certain));
}

#[test]
fn an_axis_that_is_left_out_is_averaged_within_each_replication() {
    let rate = axis("link.line.rate", &["1mbit", "3mbit"]);
    let (_folder, store, plan) = swept(vec![axis(DISCIPLINE, &["fifo", "sqf"]), rate]);
    let found = Found::new(&store, &plan).unwrap();
    let estimates = found.estimates(&[DISCIPLINE.into()]).unwrap();
    let row = (0..estimates.len()).find(|row| {
        word(&estimates, "figure", *row) == "goodput_bps"
            && word(&estimates, "of", *row) == "download"
    });
    let figures = found.figures();
    let value = |rate: &str, replication: i64| {
        let Some(Column::Whole(replications)) = figures.column("replication") else {
            panic!()
        };
        let row = (0..figures.len()).find(|row| {
            word(&figures, DISCIPLINE, *row) == "fifo"
                && word(&figures, "link.line.rate", *row) == rate
                && replications[*row] == Some(replication)
                && word(&figures, "figure", *row) == "goodput_bps"
                && word(&figures, "of", *row) == "download"
        });
        real(&figures, "value", row.unwrap()).unwrap()
    };
    let means = (1..=RUNS as i64).map(|n| (value("1mbit", n) + value("3mbit", n)) / 2.0);
    let expected = Estimate::of(means);
    assert_eq!(real(&estimates, "mean", row.unwrap()), Some(expected.mean));
    assert_eq!(
        real(&estimates, "half_width", row.unwrap()),
        expected.half_width
    );
    assert!(
        expected.mean > 1e6 && expected.half_width.unwrap() < 1e5,
        "{expected:?}"
    );
}

#[test]
fn points_at_which_a_value_has_no_effect_share_their_runs_and_have_rows_each() {
    let key = "link.line.queue.confucius.doubling";
    let axes = vec![
        axis(DISCIPLINE, &["fifo", "confucius"]),
        axis(key, &["100ms", "400ms"]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::new(source(), axes, 2).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let summary = run(&mut store, &plan, &How::default(), |_| true).unwrap();
    assert_eq!((summary.runs, summary.made), (8, 6));
    assert!(summary.complete());
    let figures = Found::new(&store, &plan).unwrap().figures();
    let values = |discipline: &str, doubling: &str| -> Vec<Option<f64>> {
        let of = |row: &usize| [DISCIPLINE, key].map(|name| word(&figures, name, *row));
        let rows = (0..figures.len()).filter(|row| of(row) == [discipline, doubling]);
        rows.map(|row| real(&figures, "value", row)).collect()
    };
    let [short, long] = ["100ms", "400ms"].map(|doubling| values("fifo", doubling));
    assert!(short.len() > 20, "{}", short.len());
    assert_eq!(short, long);
    for doubling in ["100ms", "400ms"] {
        assert_eq!(values("confucius", doubling).len(), short.len());
    }
}

#[test]
fn a_query_of_some_values_reads_their_parts_only() {
    let rates = ["1mbit", "2mbit", "3mbit"];
    let plan = Plan::new(source(), vec![axis("link.line.rate", &rates)], 2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let mut names = Vec::new();
    let reader = &mut crate::part::Reader::new(&plan);
    for job in plan.jobs(Shard::ALL) {
        let run = reader.run(job, &Options::default()).unwrap().unwrap();
        let part = crate::part::Part::new(&[run], crate::CODE).unwrap();
        store.commit(&part).unwrap();
        names.push((job.point, part.name()));
    }
    let wanted = [(
        "link.line.rate".to_owned(),
        vec!["1mbit".to_owned(), "3mbit".to_owned()],
    )];
    let all = Found::new(&store, &plan).unwrap().figures();
    let rows: Vec<usize> = (0..all.len())
        .filter(|row| word(&all, "link.line.rate", *row) != "2mbit")
        .collect();
    assert!(rows.len() > 40 && rows.len() < all.len());
    // Without the parts of the others.
    for (_, name) in names.iter().filter(|(point, _)| *point == 1) {
        std::fs::remove_file(folder.path().join(format!("figures/{name}.parquet"))).unwrap();
    }
    assert!(Found::new(&store, &plan).is_err());
    let found = Found::of_values(&store, &plan, &wanted).unwrap();
    assert_eq!(found.figures(), all.rows(&rows));
    let keys = ["link.line.rate".to_owned()];
    let estimates = found.estimates(&keys).unwrap();
    assert_eq!(word(&estimates, "link.line.rate", 0), "1mbit");
    let refused = |key: &str, value: &str| {
        let values = [(key.to_owned(), vec![value.to_owned()])];
        let found = Found::of_values(&store, &plan, &values);
        found.err().unwrap().to_string()
    };
    assert!(refused("seed", "1").contains("its keys are link.line.rate"));
    assert!(refused("link.line.rate", "9mbit").contains("it takes 1mbit, 2mbit"));
}

#[test]
fn reports_are_a_row_for_each_run_that_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::new(source(), vec![axis(DISCIPLINE, &["fifo", "sqf"])], 2).unwrap();
    let plan = plan.keeping(crate::plan::Detail::Report);
    let mut store = Store::open(folder.path()).unwrap();
    run(&mut store, &plan, &How::default(), |_| true).unwrap();
    let table = super::reports(&mut store, &plan).unwrap();
    assert_eq!(table.len(), 4);
    assert_eq!(word(&table, DISCIPLINE, 2), "sqf");
    let scenario = source().read(&[format!("{DISCIPLINE}=sqf")]).unwrap();
    let options = Options {
        replication: 2,
        ..Options::default()
    };
    let report = makeway_sim::run(&scenario, &options, |_| {}).unwrap();
    let read = makeway_report::json::from_json(word(&table, "report", 3)).unwrap();
    assert_eq!(read, report.without_series());
}

#[test]
fn a_query_for_what_is_not_there_says_what_is() {
    let (_folder, store, plan) = swept(vec![axis(DISCIPLINE, &["fifo"])]);
    let found = Found::new(&store, &plan).unwrap();
    let error = found.estimates(&["seed".into()]).unwrap_err().to_string();
    assert!(
        error.contains("its keys are link.line.queue.discipline"),
        "{error}"
    );
    let error = found
        .differences(DISCIPLINE, "newest-first")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("does not take the value `newest-first`") && error.contains("it takes fifo"),
        "{error}"
    );
}

#[test]
fn figures_without_a_name_are_an_error() {
    for column in ["key", "of", "figure"] {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan::new(source(), Vec::new(), 1).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let job = plan.jobs(Shard::ALL).next().unwrap();
        let run = crate::part::Reader::new(&plan).run(job, &Options::default());
        let part = crate::part::Part::new(&[run.unwrap().unwrap()], crate::CODE).unwrap();
        let [runs, mut figures] = part.tables().unwrap();
        for (name, values) in &mut figures.columns {
            if name == column {
                let words = text(&Table::default().with("all", values.clone()), "all").cloned();
                let words = words.unwrap();
                // The second is absent.
                *values = words
                    .iter()
                    .enumerate()
                    .map(|(n, word)| word.filter(|_| n != 1))
                    .collect();
            }
        }
        let figures = crate::file::write(&figures, &[]).unwrap();
        let notes = [("makeway.figures", &*crate::part::hash(&figures))];
        let runs = crate::file::write(&runs, &notes).unwrap();
        let part = crate::part::Part {
            runs: runs.into(),
            figures: figures.into(),
            reports: None,
        };
        store.commit(&part).unwrap();
        let error = Found::new(&store, &plan).err().unwrap();
        assert!(matches!(error, StoreError::Table(_)), "{error}");
    }
}
