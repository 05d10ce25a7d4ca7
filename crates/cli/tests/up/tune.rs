// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway tune` before a modem with a deep buffer, against its own server behind it, with the kernel's TCP.

use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use super::autorate::Line;
use super::common::inside_in_real_time;
use super::service::signal;
use super::*;

/// A link of 8 Mbit/s up and 24 down, with 300 ms of buffer, and a server behind it.
pub struct Measured {
    pub line: Line,
    pub token: PathBuf,
    _server: Up,
    _folder: tempfile::TempDir,
}

impl Measured {
    pub fn new() -> Self {
        let line = Line::new(8, 24);
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        let mut serve = makeway("tune --serve 10.9.1.2:8482 --token-file");
        serve.arg(&token).stdout(Stdio::piped());
        let mut server = line.at_server(move || Up(serve.spawn().unwrap()));
        // It says so when it listens; its token is whole by then.
        let mut said = String::new();
        let out = server.0.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut said).unwrap();
        assert!(said.starts_with("ready on "), "{said}");
        Self {
            line,
            token,
            _server: server,
            _folder: folder,
        }
    }

    fn tune(&self, more: &str) -> Command {
        let mut command = makeway("tune near --server 10.9.1.2 --seconds 4 --json --token-file");
        command.arg(&self.token);
        command.args(more.split_whitespace());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The one JSON object of an output.
fn figures(said: &str) -> Value {
    let json = &said[said.find('{').expect(said)..=said.rfind('}').expect(said)];
    serde_json::from_str(json).unwrap()
}

fn is_within(told: &Value, link_bps: f64, shares: RangeInclusive<f64>) {
    let share = told.as_f64().unwrap() / link_bps;
    assert!(shares.contains(&share), "{share:.3} of {link_bps}");
}

/// Each probe is a flow: the answer is longer than a pipe holds, so it is read as it comes.
pub fn rates() -> [u64; 2] {
    let output = makeway("status near --json").output().unwrap();
    let all = figures(&String::from_utf8_lossy(&output.stdout))["instances"][0].clone();
    [0, 1].map(|n| all["directions"][n]["rate_bps"].as_u64().unwrap())
}

/// Shares of the link's rate that a measurement may tell.
const TRUE_RATE: RangeInclusive<f64> = 0.95..=1.02;

fn letters(measured: &Value) -> [&str; 2] {
    ["download", "upload"].map(|name| measured[name]["letter"].as_str().unwrap())
}

#[test]
fn tune_proposes_by_the_rate_that_arrives_and_keeps_what_is_better_alone() {
    const NAME: &str =
        "tune::tune_proposes_by_the_rate_that_arrives_and_keeps_what_is_better_alone";
    if !inside_in_real_time(NAME, &[Path::new(MAKEWAY)]) {
        return;
    }
    let rig = Measured::new();
    let _up = Up::start("up near --rate 5mbit --down 6mbit --backend nfqueue");

    // Nobody to ask: it proposes, and the rates are as before.
    let output = rig.tune("").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let told = figures(&said);
    println!("line: {} proposed: {}", told["line"], told["proposed"]);
    is_within(&told["line"]["upload_bps"], 8e6, TRUE_RATE);
    is_within(&told["line"]["download_bps"], 24e6, TRUE_RATE);
    assert_eq!(told["outcome"], "proposed");
    for letter in letters(&told["unshaped"]) {
        assert!(["C", "D", "F"].contains(&letter), "{told:#}");
    }
    assert_eq!(rates(), [5_000_000, 6_000_000]);

    // With a yes to both questions: latency is low, nearly all of the rate is there, and the rates stay.
    let output = rig.tune("--yes").output().unwrap();
    let told = figures(&String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{told:#}");
    assert_eq!(told["outcome"], "kept");
    for letter in letters(&told["shaped"]) {
        assert!(["A+", "A"].contains(&letter), "{told:#}");
    }
    let kept = rates();
    let proposed =
        ["upload_bps", "download_bps"].map(|key| told["proposed"][key].as_u64().unwrap());
    assert_eq!(kept, proposed);
    for name in ["download", "upload"] {
        let rpm = |when: &str| told[when][name]["latency"]["rpm"].as_f64().unwrap();
        println!(
            "{name}: RPM {:.0}, then {:.0}",
            rpm("unshaped"),
            rpm("shaped")
        );
        assert!(rpm("shaped") > 2.0 * rpm("unshaped"), "{told:#}");
    }

    // A line that carries less by then: the rates of before come back, but for one that was set meanwhile.
    let mut child = rig.tune("--yes").spawn().unwrap();
    let mut errors = child.stderr.take().unwrap();
    reads_to("near with makeway", &mut errors);
    rig.line.set(3, 8);
    sets("down=7mbit");
    let rest = thread::spawn(move || errors.read_to_end(&mut Vec::new()));
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap().unwrap();
    let told = figures(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{told:#}");
    assert_eq!(told["outcome"], "rolled-back");
    assert!(
        told["why"].as_str().unwrap().contains("carries"),
        "{told:#}"
    );
    assert_eq!(rates(), [kept[0], 7_000_000]);
}

/// Reads up to these words.
fn reads_to(words: &str, from: &mut impl Read) {
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains(words) {
        let mut byte = [0];
        let read = from.read(&mut byte).unwrap();
        assert_eq!(read, 1, "{}", String::from_utf8_lossy(&said));
        said.extend(byte);
    }
}

/// As the service does after a change of its file.
fn sets(change: &str) {
    let (ok, said) = say(&format!("up near --set {change}"));
    assert!(ok, "{said}");
}

/// Answers each question at a terminal; rates at the last of them, exit status, and figures.
fn answered(rig: &Measured, answers: &[&str]) -> ([u64; 2], Option<i32>, Value) {
    let [mut keys, stdin] = terminal();
    let mut tune = Up(rig.tune("").stdin(stdin).spawn().unwrap());
    let mut asked_at = [0; 2];
    for answer in answers {
        reads_to("? [y/N] ", tune.0.stderr.as_mut().unwrap());
        asked_at = rates();
        keys.write_all(answer.as_bytes()).unwrap();
        keys.write_all(b"\n").unwrap();
    }
    let (status, said) = tune.end();
    assert!(!said.contains("[y/N]"), "one question more: {said}");
    (asked_at, status.code(), figures(&said))
}

#[test]
fn at_a_terminal_both_questions_take_a_yes_and_anything_else_is_no() {
    const NAME: &str = "tune::at_a_terminal_both_questions_take_a_yes_and_anything_else_is_no";
    const BEFORE: [u64; 2] = [5_000_000, 6_000_000];
    if !inside_in_real_time(NAME, &[Path::new(MAKEWAY)]) {
        return;
    }
    let rig = Measured::new();
    let _up = Up::start("up near --rate 5mbit --down 6mbit --backend nfqueue");

    let (asked_at, code, told) = answered(&rig, &["n"]);
    assert_eq!((asked_at, code), (BEFORE, Some(0)), "{told:#}");
    assert_eq!(told["outcome"], "proposed");
    assert_eq!(rates(), BEFORE);

    // The second question is asked with the rates on trial; an empty line takes them back.
    let (on_trial, code, told) = answered(&rig, &["y", ""]);
    let proposed = ["upload_bps", "download_bps"].map(|key| told["proposed"][key].as_u64());
    assert_eq!(on_trial.map(Some), proposed, "{told:#}");
    assert_eq!(code, Some(1), "{told:#}");
    assert_eq!(told["outcome"], "rolled-back");
    let why = told["why"].as_str().unwrap();
    assert!(why.contains("not confirmed"), "{why}");
    assert_eq!(rates(), BEFORE);

    let (on_trial, code, told) = answered(&rig, &["yes", "Y"]);
    assert_eq!(code, Some(0), "{told:#}");
    assert_eq!(told["outcome"], "kept");
    assert_eq!(rates(), on_trial);
    assert_ne!(on_trial, BEFORE);
}

#[test]
fn a_rate_that_is_set_while_the_rates_are_off_stays() {
    if !inside_in_order("tune::a_rate_that_is_set_while_the_rates_are_off_stays") {
        return;
    }
    let rig = Measured::new();
    let _up = Up::start("up near --rate 5mbit --down 6mbit --backend nfqueue");
    let tune = rig.tune("").spawn().unwrap();
    until("rates that are off", || {
        (rates() == [10_000_000_000; 2]).then_some(())
    });
    sets("rate=4mbit");
    let output = tune.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(rates(), [4_000_000, 6_000_000]);
}

#[test]
fn without_a_makeway_tune_starts_one_until_ctrl_c() {
    const NAME: &str = "tune::without_a_makeway_tune_starts_one_until_ctrl_c";
    if !inside_in_real_time(NAME, &[Path::new(MAKEWAY)]) {
        return;
    }
    let rig = Measured::new();
    let (ok, said) = ended({
        let mut command = makeway("tune near --server 10.9.1.9 --token-file");
        command.arg(&rig.token);
        command
    });
    assert!(!ok && said.contains("cannot be reached"), "{said}");
    assert!(!rules());
    let mut tune = Up(rig.tune("--yes").spawn().unwrap());
    until("a makeway with the proposed rates", || {
        tune.0
            .try_wait()
            .unwrap()
            .is_some()
            .then_some(())
            .or_else(|| rules().then_some(()))
    });
    let out = tune.0.stdout.as_mut().unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\n}\n") {
        let mut byte = [0];
        assert_eq!(
            out.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&said)
        );
        said.extend(byte);
    }
    let told = figures(&String::from_utf8_lossy(&said));
    assert_eq!(told["outcome"], "kept", "{told:#}");
    assert_eq!(rates()[0], told["proposed"]["upload_bps"]);
    signal(tune.0.id() as i32, libc::SIGINT);
    let (status, said) = tune.end();
    assert!(status.success(), "{said}");
    assert!(!rules());
}

#[test]
fn ctrl_c_at_a_question_is_no_and_the_makeway_on_trial_does_not_hear_it() {
    const NAME: &str = "tune::ctrl_c_at_a_question_is_no_and_the_makeway_on_trial_does_not_hear_it";
    if !inside_in_real_time(NAME, &[Path::new(MAKEWAY)]) {
        return;
    }
    let rig = Measured::new();
    let [mut keys, stdin] = terminal();
    let tune = rig.tune("").stdin(stdin).process_group(0).spawn();
    let mut tune = Up(tune.unwrap());
    let id = tune.0.id() as i32;
    // More than a pipe holds.
    let mut out = tune.0.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut said = String::new();
        out.read_to_string(&mut said).map(|_| said)
    });
    let errors = tune.0.stderr.as_mut().unwrap();
    reads_to("measure again? [y/N]", errors);
    keys.write_all(b"y\n").unwrap();
    reads_to("Keep these rates? [y/N]", errors);
    let trial = status()["pid"].as_i64().unwrap() as i32;
    // SAFETY: no pointers.
    assert_ne!(unsafe { libc::getpgid(trial) }, id);

    // As a terminal does, to the whole process group.
    signal(-id, libc::SIGINT);
    let ended = until("the end of tune", || tune.0.try_wait().unwrap());
    let told = figures(&reader.join().unwrap().unwrap());
    assert_eq!(ended.code(), Some(1), "{told:#}");
    assert_eq!(told["outcome"], "rolled-back", "{told:#}");
    assert!(!rules());
}
