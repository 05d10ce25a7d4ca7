// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::sample::{axis, source};

fn plan(axes: Vec<Axis>) -> Result<Plan, StoreError> {
    Plan::new(source(), axes, 3)
}

fn disciplines() -> Axis {
    axis("link.line.queue.discipline", &["fifo", "sqf", "makeway"])
}

#[test]
fn points_are_all_combinations_and_the_first_key_changes_slowest() {
    let plan = plan(vec![
        disciplines(),
        axis("link.line.rate", &["1mbit", "2mbit"]),
    ])
    .unwrap();
    assert_eq!((plan.points(), plan.runs()), (6, 18));
    assert_eq!(
        plan.settings(0),
        ["link.line.queue.discipline=fifo", "link.line.rate=1mbit"]
    );
    assert_eq!(
        plan.settings(1),
        ["link.line.queue.discipline=fifo", "link.line.rate=2mbit"]
    );
    assert_eq!(
        plan.settings(5),
        ["link.line.queue.discipline=makeway", "link.line.rate=2mbit"]
    );
    for point in 0..6 {
        assert_eq!(plan.point(&plan.places(point)), point);
    }
    let jobs: Vec<Job> = plan.jobs(Shard::ALL).collect();
    assert_eq!(jobs.len(), 18);
    assert_eq!(
        jobs[4],
        Job {
            point: 1,
            replication: 2
        }
    );
}

#[test]
fn shards_together_are_every_run_once() {
    let plan = plan(vec![disciplines()]).unwrap();
    let mut all: Vec<Job> = Vec::new();
    for shard in ["1/4", "2/4", "3/4", "4/4"] {
        all.extend(plan.jobs(shard.parse().unwrap()));
    }
    all.sort();
    assert_eq!(all, plan.jobs(Shard::ALL).collect::<Vec<_>>());
    for text in ["0/4", "5/4", "1", "a/b", "1/0"] {
        assert!(
            text.parse::<Shard>().unwrap_err().contains("like 1/4"),
            "{text}"
        );
    }
}

#[test]
fn the_key_is_of_what_the_scenario_means_and_not_of_its_words() {
    let key = |set: &[&str], change: fn(&str) -> String, replication| {
        let mut source = source();
        source.text = change(&source.text);
        source.set = set.iter().map(|&set| set.to_owned()).collect();
        Plan::new(source, Vec::new(), 5).unwrap().key(Job {
            point: 0,
            replication,
        })
    };
    let same = |text: &str| text.to_owned();
    let first = key(&[], same, 1);
    assert_eq!(first, key(&["title=another"], same, 1));
    assert_eq!(first, key(&["link.line.rate=2000kbit"], same, 1));
    assert_eq!(first, key(&[], |text| format!("# a comment\n\n{text}"), 1));
    let others = [
        key(&[], same, 2),
        key(&["seed=2"], same, 1),
        key(&["link.line.rate=2001kbit"], same, 1),
        key(&["link.line.queue.discipline=sqf"], same, 1),
        key(&["duration=3s"], same, 1),
    ];
    for other in &others {
        assert_ne!(first, *other);
    }
}

#[test]
fn the_key_is_of_the_content_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = source();
    source.folder = folder.path().into();
    source.set = vec![r#"link.line.changes={ at = "server", file = "rates.csv" }"#.into()];
    let key = |rates: &str| {
        std::fs::write(folder.path().join("rates.csv"), rates).unwrap();
        Plan::new(source.clone(), Vec::new(), 1).map(|plan| {
            plan.key(Job {
                point: 0,
                replication: 1,
            })
        })
    };
    let one = key("time_s,mbit\n0,5\n1,2\n").unwrap();
    assert_eq!(one, key("time_s,mbit\n0,5\n1,2\n").unwrap());
    assert_ne!(one, key("time_s,mbit\n0,5\n1,3\n").unwrap());
}

#[test]
fn the_key_does_not_depend_on_the_folder_of_a_trace() {
    let keys = [(); 2].map(|()| {
        let folder = tempfile::tempdir().unwrap();
        let frames = "time_ms,kind,bytes\n0,A,210\n24,A,174\n";
        std::fs::write(folder.path().join("audio.csv"), frames).unwrap();
        let mut source = source();
        source.folder = folder.path().into();
        let flow = "[flow.audio]\nkind = \"rtp\"\nfrom = \"server\"\nto = \"client\"\n";
        source.text += &format!("\n{flow}trace = \"audio.csv\"\n");
        let plan = Plan::new(source, Vec::new(), 1).unwrap();
        plan.key(Job {
            point: 0,
            replication: 1,
        })
    });
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn a_worker_refuses_another_simulator_and_another_trace() {
    let plan = plan(vec![disciplines()]).unwrap();
    assert!(plan.scenario(2).is_ok());
    let other = Plan {
        code: "other".into(),
        ..plan.clone()
    };
    let error = other.scenario(0).unwrap_err().to_string();
    assert!(error.contains("install the same build"), "{error}");
    let mut moved = plan;
    moved.source.set.push("seed=9".into());
    let error = moved.scenario(1).unwrap_err().to_string();
    assert!(error.contains("point 1 reads otherwise"), "{error}");
}

#[test]
fn a_plan_is_its_json() {
    let plan = plan(vec![disciplines()]).unwrap();
    assert_eq!(Plan::from_json(&plan.json()).unwrap(), plan);
    let newer = plan.json().replacen("\"format\":1", "\"format\":99", 1);
    assert!(
        Plan::from_json(&newer)
            .unwrap_err()
            .to_string()
            .contains("format 99")
    );
}

#[test]
fn replications_are_numbered_from_any_and_the_key_does_not_depend_on_what_is_kept() {
    let first = plan(Vec::new()).unwrap();
    let later = first.clone().with_first(3).unwrap();
    let numbers = |plan: &Plan| -> Vec<u64> {
        let jobs = plan.jobs(Shard::ALL);
        jobs.map(|job| job.replication).collect()
    };
    assert_eq!(numbers(&first), [1, 2, 3]);
    assert_eq!(numbers(&later), [3, 4, 5]);
    let both = Job {
        point: 0,
        replication: 3,
    };
    assert_eq!(first.key(both), later.key(both));
    let whole = later.clone().keeping(Detail::Series);
    assert_eq!(whole.key(both), later.key(both));
    assert_eq!(Plan::from_json(&whole.json()).unwrap(), whole);
    assert_eq!(
        first.key(both),
        run_key(&digest(&first.scenario(0).unwrap()), 3)
    );
    // A plan of before these numbers.
    let mut old: serde_json::Value = serde_json::from_str(&first.json()).unwrap();
    for name in ["first", "detail"] {
        old.as_object_mut().unwrap().remove(name).unwrap();
    }
    assert_eq!(Plan::from_json(&old.to_string()).unwrap(), first);
    for number in [i64::MAX as u64, u64::MAX] {
        let error = first.clone().with_first(number).unwrap_err().to_string();
        assert!(error.contains("begin at a smaller number"), "{error}");
    }
    let error = "all".parse::<Detail>().unwrap_err();
    assert!(
        error.contains("choose figures, report or series"),
        "{error}"
    );
    assert_eq!("series".parse::<Detail>(), Ok(Detail::Series));
}

#[test]
fn a_mistake_in_a_sweep_is_named() {
    for (axes, words) in [
        (
            vec![disciplines(), disciplines()],
            "twice: give its values in one list",
        ),
        (vec![axis("seed", &[])], "`seed` has no value"),
        (
            vec![axis("seed", &["1", "1"])],
            "`seed` has the value `1` twice",
        ),
        (
            vec![axis("link.lin.rate", &["1mbit"])],
            "did you mean `line`?",
        ),
        (
            vec![axis("link.line.rate", &["1mbit", "fast"])],
            "--set link.line.rate=fast",
        ),
    ] {
        let error = plan(axes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn values_that_mean_the_same_are_refused() {
    let refused = |plan: Result<Plan, StoreError>, words: &str| {
        let error = plan.unwrap_err().to_string();
        let words = format!("{words}: keep one of them");
        assert!(error.contains(&words), "{error}");
    };
    let rates = |values: &[&str]| axis("link.line.rate", values);
    let same =
        "`link.line.rate` has values that mean the same in this scenario, `10mbit` and `10000kbit`";
    let three = rates(&["10mbit", "1mbit", "10000kbit"]);
    refused(plan(vec![three.clone(), disciplines()]), same);
    refused(plan(vec![disciplines(), three]), same);
    // No discipline of the sweep has this parameter.
    let doubling = axis("link.line.queue.confucius.doubling", &["100ms", "400ms"]);
    refused(
        plan(vec![disciplines(), doubling.clone()]),
        "`100ms` and `400ms`",
    );
    // One has.
    let both = axis("link.line.queue.discipline", &["fifo", "confucius"]);
    assert_eq!(plan(vec![both, doubling]).unwrap().points(), 4);
    let two = plan(vec![rates(&["10mbit", "1mbit"])]).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&two.json()).unwrap();
    let digest = json["digests"][0].clone();
    json["digests"][1] = digest;
    refused(Plan::from_json(&json.to_string()), "`10mbit` and `1mbit`");
}

#[test]
fn a_plan_from_json_is_checked_as_a_new_one() {
    let plan = plan(vec![disciplines()]).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&plan.json()).unwrap();
    assert_eq!(Plan::from_json(&plan.json()).unwrap(), plan);
    let refused = |place: &str, value: serde_json::Value, words: &str| {
        let mut other = whole.clone();
        *other.pointer_mut(place).unwrap() = value;
        let error = Plan::from_json(&other.to_string()).unwrap_err().to_string();
        assert!(error.contains(words), "{place}: {error}");
    };
    let again = whole["axes"][0].clone();
    let other = serde_json::json!({"key": "seed", "values": ["1", "2"]});
    refused("/replications", 0.into(), "0 replications");
    refused("/replications", u64::MAX.into(), "more than");
    refused("/replications", (MOST_RUNS / 2).into(), "more than");
    refused("/first", u64::MAX.into(), "begin at a smaller number");
    refused("/axes/0/values", serde_json::json!([]), "has no value");
    refused("/axes/0/values/1", "fifo".into(), "twice");
    refused(
        "/axes",
        serde_json::json!([again.clone(), again]),
        "there twice",
    );
    refused(
        "/axes",
        serde_json::json!([whole["axes"][0], other]),
        "3 of 6 points",
    );
    refused("/digests", serde_json::json!([]), "0 of 3 points");
}
