// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway demo`, as a person runs it, with a shorter call.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use makeway_testing::{PATIENT, in_real_time_within_or, skip};
use makeway_vm::again;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");
const DISCIPLINES: [&str; 4] = ["fifo", "fq-codel", "sqf", "makeway"];

/// One demo at a time: each needs a part of one processor.
static ALONE: Mutex<()> = Mutex::new(());

fn demo(seconds: [u32; 2], out: &TempDir) -> Command {
    let [duration, warmup] = seconds;
    let mut command = Command::new(MAKEWAY);
    command
        .arg("demo")
        .arg(format!("--set=duration={duration}s"))
        .arg(format!("--set=warmup={warmup}s"))
        .arg("--out")
        .arg(out.path());
    command
}

fn report(out: &TempDir, discipline: &str) -> Value {
    let report = std::fs::read(out.path().join(format!("{discipline}.json"))).unwrap();
    serde_json::from_slice(&report).unwrap()
}

#[test]
fn all_disciplines_run_at_the_same_time_and_each_has_its_report() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    in_real_time_within_or(PATIENT, all_have_their_reports_in_time, || {
        let test = "--exact all_disciplines_run_at_the_same_time_and_each_has_its_report";
        again(test, &[Path::new(MAKEWAY)])
    });
}

fn all_have_their_reports_in_time() {
    let out = TempDir::new().unwrap();
    let child = demo([5, 2], &out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let ended = thread::spawn(move || child.wait_with_output());
    let mut are_at_once = false;
    while !ended.is_finished() {
        are_at_once |= all_have_traffic(id);
        thread::sleep(Duration::from_millis(20));
    }
    let ended = ended.join().unwrap().unwrap();
    let [said, complaint] = [&ended.stdout, &ended.stderr].map(|b| String::from_utf8_lossy(b));
    if complaint.contains("user namespaces") {
        return skip(complaint);
    }
    assert!(ended.status.success(), "{said}{complaint}");

    let rows = DISCIPLINES.map(|name| said.find(&format!("\n {} ", name.to_uppercase())));
    assert!(
        rows.iter().all(Option::is_some) && rows.is_sorted(),
        "{said}"
    );
    for name in DISCIPLINES {
        let report = report(&out, name);
        assert_eq!(report["complete"], true, "{name}: {report:#}");
        assert_eq!(report["set"]["link.line.queue.discipline"], name);
    }
    let page = std::fs::read_to_string(out.path().join("demo.html")).unwrap();
    assert!(
        DISCIPLINES
            .iter()
            .all(|name| page.contains(&name.to_uppercase()))
    );
    assert!(are_at_once, "{said}");
}

/// Whether a run under each discipline has traffic now: each sender and receiver is a thread of its name. The thread that makes the run
/// has that name too, one that makes its links, and the program's first.
fn all_have_traffic(demo: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{demo}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let names: Vec<_> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
        .collect();
    let count = |name: &str| names.iter().filter(|one| one.trim_end() == name).count();
    DISCIPLINES.iter().all(|name| count(name) > 3)
}

/// Stopped for as long: a sender or a queue is late by most of it.
const STOPPED: Duration = Duration::from_millis(300);

fn stop_for_a_while(child: &Child) {
    let id = Pid::from_child(child);
    kill_process(id, Signal::STOP).unwrap();
    thread::sleep(STOPPED);
    kill_process(id, Signal::CONT).unwrap();
}

/// A line that tells that a run is made again.
fn is_made_again(line: &str) -> bool {
    line.contains(" was not measured: this machine stalled by ") && line.ends_with(": again")
}

#[test]
fn a_run_during_which_the_machine_stalls_is_made_again() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = TempDir::new().unwrap();
    let mut child = demo([4, 1], &out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        let mut lines = stdout.lines().map_while(Result::ok);
        lines.try_for_each(|line| tell.send(line))
    });

    // How long the namespaces take to make is the machine's; so it is stopped until it says that it is made again.
    let mut said: Vec<String> = told.recv().into_iter().collect();
    let mut stops = 0;
    loop {
        match told.recv_timeout(Duration::from_millis(1500)) {
            Ok(line) => said.push(line),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                stop_for_a_while(&child);
                stops += 1;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if said.last().is_some_and(|line| is_made_again(line)) {
            break;
        }
    }
    said.extend(told);
    let ended = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    if complaint.contains("user namespaces") {
        return skip(complaint);
    }
    assert!(
        said.iter().any(|line| is_made_again(line)),
        "{stops} stops: {said:#?}{complaint}"
    );
    assert!(ended.status.success(), "{said:#?}{complaint}");

    for name in DISCIPLINES {
        let report = report(&out, name);
        let lateness = &report["lateness"];
        assert_eq!(lateness["limit_ms"], 80.0, "{name}");
        // In the end each run was measured, or it is said of it that it was not.
        let begins = format!("{} was not measured: ", name.to_uppercase());
        let is_told = |line: &String| line.starts_with(&begins) && !is_made_again(line);
        assert_eq!(
            lateness["measured"] == false,
            said.iter().any(is_told),
            "{name}: {said:#?}"
        );
        assert_eq!(report["complete"], true, "{name}: {said:#?}");
    }
}
