// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store in the hands of crashes and bad disks.

use makeway_sim::Options;

use super::*;
use crate::CODE;
use crate::part::{Finished, Reader, Status};
use crate::query::Found;
use crate::sample::source;
use crate::sweep::{How, run};

fn plan() -> Plan {
    Plan::new(source(), Vec::new(), 4).unwrap()
}

fn finished(plan: &Plan, replication: u64) -> Finished {
    let job = Job {
        point: 0,
        replication,
    };
    Reader::new(plan)
        .run(job, &Options::default())
        .unwrap()
        .unwrap()
}

fn part(plan: &Plan, replication: u64) -> Part {
    Part::new(&[finished(plan, replication)], CODE).unwrap()
}

/// A store of four parts.
fn filled(folder: &Path) -> Plan {
    let plan = plan();
    let mut store = Store::open(folder).unwrap();
    store.begin(&[&plan]).unwrap();
    (1..=4).for_each(|n| store.commit(&part(&plan, n)).unwrap());
    plan
}

#[test]
fn damage_of_any_kind_costs_one_part_and_its_runs_are_made_again() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("truncated", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("empty", |path| fs::write(path, "").unwrap()),
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("a bit", |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 3;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("longer", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes.push(0);
            fs::write(path, bytes).unwrap();
        }),
    ];
    let whole = tempfile::tempdir().unwrap();
    let plan = filled(whole.path());
    let figures = |store: &Store| Found::new(store, &plan).unwrap().figures();
    let expected = figures(&Store::open(whole.path()).unwrap());
    for (name, damage) in damages {
        for kind in ["runs", "figures"] {
            if (name, kind) == ("gone", "runs") {
                continue; // A crash between the two files: no run, and no damage.
            }
            let folder = tempfile::tempdir().unwrap();
            filled(folder.path());
            let victim = Store::open(folder.path()).unwrap().parts[1].clone();
            damage(&folder.path().join(kind).join(format!("{victim}.parquet")));
            let mut store = Store::open(folder.path()).unwrap();
            assert_eq!(store.damaged(), [victim], "{kind} {name}");
            assert_eq!(store.len(), 3, "{kind} {name}");
            let summary = run(&mut store, &plan, &How::default(), |_| true).unwrap();
            assert_eq!(summary.made, 1, "{kind} {name}");
            let store = Store::open(folder.path()).unwrap();
            assert!(store.damaged().is_empty());
            assert_eq!(figures(&store), expected, "{kind} {name}");
        }
    }
}

#[test]
fn a_crash_between_the_two_files_of_a_part_loses_that_part_only() {
    let folder = tempfile::tempdir().unwrap();
    let plan = filled(folder.path());
    let name = Store::open(folder.path()).unwrap().parts[0].clone();
    fs::remove_file(folder.path().join(format!("runs/{name}.parquet"))).unwrap();
    fs::write(folder.path().join("runs/.new-half"), "PAR1").unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!((store.len(), store.damaged().len()), (3, 0));
    assert_eq!(
        run(&mut store, &plan, &How::default(), |_| true)
            .unwrap()
            .made,
        1
    );
}

#[test]
fn another_result_of_the_same_run_stops_loudly() {
    let folder = tempfile::tempdir().unwrap();
    let plan = filled(folder.path());
    let mut other = finished(&plan, 3);
    other.fingerprint = Some(1);
    let other = Part::new(&[other], CODE).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let files = || fs::read_dir(folder.path().join("runs")).unwrap().count();
    let before = files();
    let error = store.commit(&other).unwrap_err();
    assert!(
        matches!(&error, StoreError::TwoResults { other, .. } if other == "0000000000000001"),
        "{error}"
    );
    assert_eq!(files(), before);
    // Written by another process at the same time: noticed when the store is opened.
    for (kind, bytes) in [("runs", &other.runs), ("figures", &other.figures)] {
        fs::write(
            folder
                .path()
                .join(format!("{kind}/{}.parquet", other.name())),
            bytes,
        )
        .unwrap();
    }
    let error = Store::open(folder.path()).unwrap_err();
    assert!(
        error.to_string().contains("Report this as a bug"),
        "{error}"
    );
}

#[test]
fn the_same_run_twice_is_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = filled(folder.path());
    let mut store = Store::open(folder.path()).unwrap();
    let again = part(&plan, 1);
    store.commit(&again).unwrap();
    store.commit(&again).unwrap();
    assert_eq!(store.len(), 4);
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.len(), 4);
    assert_eq!(Found::new(&store, &plan).unwrap().figures().len() % 4, 0);
}

#[test]
fn a_result_stays_when_the_run_fails_later() {
    let folder = tempfile::tempdir().unwrap();
    let plan = filled(folder.path());
    let mut store = Store::open(folder.path()).unwrap();
    let mut failed = finished(&plan, 1);
    failed.fingerprint = None;
    failed.status = Status::Panic;
    failed.figures.clear();
    store.commit(&Part::new(&[failed], CODE).unwrap()).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert!(store.missing(&plan, Shard::ALL, true).is_empty());
}

#[test]
fn a_store_without_a_sweep_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let error = store.last().unwrap_err().to_string();
    assert!(error.contains("run one first"), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(Store::open(&file).unwrap_err().to_string().contains("file"));
}

#[test]
fn a_part_that_another_has_replaced_since_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let plan = filled(folder.path());
    let store = Store::open(folder.path()).unwrap();
    let [victim, other] = [&store.parts[1], &store.parts[2]];
    // Whole, and one belongs to the other.
    for kind in ["runs", "figures"] {
        fs::copy(store.path(kind, other), store.path(kind, victim)).unwrap();
    }
    let error = Found::new(&store, &plan).err().unwrap().to_string();
    assert!(error.contains("open the store again"), "{error}");
    assert!(error.contains(victim.as_str()), "{error}");
    let error = crate::query::runs(&store, &plan).unwrap_err().to_string();
    assert!(error.contains(victim.as_str()), "{error}");
    assert_eq!(
        Store::open(folder.path()).unwrap().damaged(),
        [victim.as_str()]
    );
}

#[test]
fn a_part_that_is_no_file_is_moved_aside() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    // A pipe that nobody writes to.
    let path = folder.path().join("runs/pipe.parquet");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let (tell, told) = std::sync::mpsc::channel();
    let place = folder.path().to_owned();
    std::thread::spawn(move || {
        let store = Store::open(&place).unwrap();
        tell.send((store.len(), store.damaged().to_vec()))
    });
    let told = told.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!(told.expect("it is read"), (4, vec!["pipe".to_owned()]));
}

#[test]
fn a_plan_that_is_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let file = File::create(folder.path().join("plan.json")).unwrap();
    file.set_len(1 << 40).unwrap();
    let refused = Store::open(folder.path()).unwrap().last().unwrap_err();
    assert!(refused.to_string().contains("1073 MB at most"), "{refused}");
}

#[test]
fn a_part_that_is_too_long_is_moved_aside() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    // Without a block on the disk.
    let file = File::create(folder.path().join("runs/long.parquet")).unwrap();
    file.set_len(1 << 40).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(
        (store.len(), store.damaged()),
        (4, &["long".to_owned()][..])
    );
}

/// Keys of the plan's runs.
fn keys(plan: &Plan) -> Vec<String> {
    plan.jobs(Shard::ALL).map(|job| plan.key(job)).collect()
}

#[test]
fn a_run_of_which_too_little_is_kept_is_made_again_and_more_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let plan = filled(folder.path());
    let mut store = Store::open(folder.path()).unwrap();
    let found = |store: &mut Store, detail| store.reports(&keys(&plan), detail).unwrap().len();
    assert_eq!(found(&mut store, Detail::Report), 0);
    let made = |store: &mut Store, detail| {
        let plan = plan.clone().keeping(detail);
        run(store, &plan, &How::default(), |_| true).unwrap().made
    };
    assert_eq!(made(&mut store, Detail::Report), 4);
    assert_eq!(found(&mut store, Detail::Report), 4);
    assert_eq!(found(&mut store, Detail::Series), 0);
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(made(&mut store, Detail::Report), 0);
    assert_eq!(made(&mut store, Detail::Series), 4);
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(made(&mut store, Detail::Figures), 0);
    assert_eq!(made(&mut store, Detail::Report), 0);
    assert_eq!(found(&mut store, Detail::Series), 4);
    assert_eq!(store.len(), 4);
    // A failed run has no report, and is not made again for that.
    let mut failed = finished(&plan.clone().with_first(9).unwrap(), 9);
    failed.fingerprint = None;
    failed.status = Status::Error;
    store.commit(&Part::new(&[failed], CODE).unwrap()).unwrap();
    let plan = plan.with_first(9).unwrap().keeping(Detail::Report);
    assert_eq!(store.missing(&plan, Shard::ALL, false).len(), 3);
}

#[test]
fn a_run_of_several_plans_is_missing_once_unless_a_later_one_keeps_more_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let [less, more] = [Detail::Figures, Detail::Report].map(|detail| plan().keeping(detail));
    let missing = |plans: &[&Plan]| {
        let of_each = store.missing_of_each(plans, Shard::ALL, false);
        of_each.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(missing(&[&less]), [4]);
    assert_eq!(missing(&[&less, &less, &more, &less]), [4, 0, 4, 0]);
    assert_eq!(missing(&[&more, &less]), [4, 0]);
}

#[test]
fn reports_that_are_damaged_or_gone_are_made_again_and_figures_stay() {
    let damages: [fn(&Path); 2] = [
        |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan().keeping(Detail::Report);
        let mut store = Store::open(folder.path()).unwrap();
        (1..=4).for_each(|n| store.commit(&part(&plan, n)).unwrap());
        let expected = store.reports(&keys(&plan), Detail::Report).unwrap();
        assert_eq!(expected.len(), 4);
        let victim = store.parts[2].clone();
        damage(&store.path("reports", &victim));
        // By the one that has it open, and by the next.
        let found = store.reports(&keys(&plan), Detail::Report).unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(store.missing(&plan, Shard::ALL, false).len(), 1);
        let mut store = Store::open(folder.path()).unwrap();
        assert_eq!((store.len(), store.damaged().len()), (4, 0));
        let summary = run(&mut store, &plan, &How::default(), |_| true).unwrap();
        assert_eq!((summary.made, summary.kept), (1, 3));
        let found = store.reports(&keys(&plan), Detail::Report).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_part_whose_files_do_not_fit_each_other_is_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan().keeping(Detail::Report);
    let [one, two] = [1, 2].map(|n| part(&plan, n));
    let mut store = Store::open(folder.path()).unwrap();
    for mixed in [
        Part {
            reports: two.reports.clone(),
            ..one.clone()
        },
        Part {
            figures: two.figures.clone(),
            ..one.clone()
        },
    ] {
        let error = store.commit(&mixed).unwrap_err().to_string();
        assert!(error.contains("not those of the runs"), "{error}");
    }
    for kind in ["runs", "figures", "reports"] {
        let files = fs::read_dir(folder.path().join(kind)).unwrap().count();
        assert_eq!(files, 0, "{kind}");
    }
}

#[test]
fn a_run_that_a_part_has_twice_is_read_with_the_most_that_is_kept_of_it() {
    let plan = plan();
    let with = |detail| {
        let plan = plan.clone().keeping(detail);
        finished(&plan, 1)
    };
    let [report, series] = [Detail::Report, Detail::Series].map(with);
    let keys = [plan.key(Job {
        point: 0,
        replication: 1,
    })];
    let orders = [
        [report.clone(), series.clone()],
        [series.clone(), report.clone()],
    ];
    let figures = |store: &Store| Found::new(store, &plan).unwrap().figures();
    let alone = tempfile::tempdir().unwrap();
    let mut once = Store::open(alone.path()).unwrap();
    let part = Part::new(std::slice::from_ref(&series), CODE).unwrap();
    once.commit(&part).unwrap();
    let once = figures(&once);
    assert!(!once.is_empty());
    // With nothing before it, and behind a part that has less.
    for (twice, less) in orders
        .iter()
        .flat_map(|twice| [(twice, false), (twice, true)])
    {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        if less {
            let one = Part::new(std::slice::from_ref(&report), CODE).unwrap();
            store.commit(&one).unwrap();
        }
        store.commit(&Part::new(twice, CODE).unwrap()).unwrap();
        for mut store in [store, Store::open(folder.path()).unwrap()] {
            let found = store.reports(&keys, Detail::Series).unwrap();
            let text = series.report.as_ref().unwrap().1.as_str();
            assert_eq!(found.get(&keys[0]).map(String::as_str), Some(text));
            assert_eq!(figures(&store), once);
        }
    }
}
