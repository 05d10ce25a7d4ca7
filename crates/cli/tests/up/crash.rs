// SPDX-License-Identifier: MIT OR Apache-2.0
//! `up`, `--set` and `down` killed before a system call, then `down`: nothing is left, and packets pass all the while.
//!
//! By default a sample of the calls that change something outside of the process; all of them with MAKEWAY_POINTS=all.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::traced::{self, Act, Call, changes};
use super::*;

/// Points to try out of `count`: all, or at most `most` spread over them, the first and the last among them.
pub fn points(count: usize, most: usize) -> Vec<usize> {
    match std::env::var("MAKEWAY_POINTS").is_ok_and(|all| all == "all") || count <= most {
        true => (0..count).collect(),
        false => (0..most).map(|n| n * (count - 1) / (most - 1)).collect(),
    }
}

/// Runs `line`, and kills it before the call number `point` of those that change something; `None` to count them until it
/// ends, or says that it runs. How many there were before.
pub fn killed_at(line: &str, point: Option<usize>) -> (usize, Vec<i64>) {
    let mut calls = Vec::new();
    let mut command = makeway(line);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    traced::run(&mut command, false, |call: Call| {
        let says = call.number == libc::SYS_write && call.arguments[0] == 1;
        if says && line.starts_with("up") && point.is_none() {
            return Act::Kill;
        }
        if !changes(call) {
            return Act::Go;
        }
        if point == Some(calls.len()) {
            return Act::Kill;
        }
        calls.push(call.number);
        Act::Go
    });
    (calls.len(), calls)
}

/// Rules, files, processes and ifb devices of a makeway left in this network namespace.
pub fn left() -> Vec<String> {
    let mut left = Vec::new();
    if rules() {
        left.push("rules".into());
    }
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").unwrap();
    let of = format!("@{}", namespace.ino());
    let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
    for folder in [
        "/run/makeway".into(),
        format!("{runtime}/makeway"),
        "/sys/fs/bpf/makeway".into(),
    ] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.path().display().to_string());
        left.extend(names.filter(|name| name.contains(&of)));
    }
    // One that was told to end may take a moment.
    let end = Instant::now() + PATIENCE;
    while let Some(process) = running(&namespace) {
        if Instant::now() > end {
            left.push(process);
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let interfaces = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    if interfaces.contains("mwifb") {
        left.push("an ifb device".into());
    }
    left
}

/// `makeway down` succeeds, and leaves nothing.
#[track_caller]
pub fn cleaned(what: &str) {
    let (ok, said) = say("down near");
    assert!(ok, "{what}: {said}");
    assert_eq!(left(), [""; 0], "{what}");
}

/// A makeway in this network namespace.
fn running(namespace: &Metadata) -> Option<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut ours = processes.filter_map(|process| {
        let path = process.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        // One that has ended has no namespace.
        let of = std::fs::metadata(path.join("ns/net")).ok()?;
        let is_ours = name.trim() == "makeway" && of.ino() == namespace.ino();
        is_ours.then(|| format!("process {}", process.file_name().to_string_lossy()))
    });
    ours.next()
}

/// Whether a packet comes through from `near` to the far end.
pub fn passes(receiver: &UdpSocket) -> bool {
    let sender = UdpSocket::bind("10.9.0.1:0").unwrap();
    let mark = fastrand::u64(..).to_be_bytes();
    receiver
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // A machine that stalls may take its time; a queue that nobody serves takes for ever.
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let _ = sender.send_to(&mark, "10.9.0.2:4000");
        let mut packet = [0; 8];
        while receiver.recv(&mut packet).is_ok() {
            if packet == mark {
                return true;
            }
        }
    }
    false
}

#[test]
fn nothing_is_left_of_one_that_is_killed_anywhere() {
    if !inside_in_order("crash::nothing_is_left_of_one_that_is_killed_anywhere") {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    let up = "up near --rate 20mbit --down 20mbit --backend nfqueue";
    let (count, calls) = killed_at(up, None);
    cleaned("up that runs");
    let tried = points(count, 16);
    for &point in &tried {
        killed_at(up, Some(point));
        let what = format!("up, killed before {} (call {})", point, calls[point]);
        assert!(passes(&receiver), "{what}: nothing comes through");
        cleaned(&what);
    }
    println!(
        "up: killed at {} of {count} calls, leftovers 0",
        tried.len()
    );

    // A killed `up` has left its rules for `down` to remove.
    let (mut count, mut point, mut tried) = (0, Some(usize::MAX), 0);
    while let Some(at) = point {
        killed_at(up, None);
        assert!(rules());
        let (calls, _) = killed_at("down near", (at != usize::MAX).then_some(at));
        let what = format!("down, killed before call {at}");
        assert!(passes(&receiver), "{what}: nothing comes through");
        cleaned(&what);
        if at == usize::MAX {
            count = calls;
        } else {
            tried += 1;
        }
        point = points(count, 8).get(tried).copied();
    }
    println!("down: killed at {tried} of {count} calls, leftovers 0");

    let mut running = Up::start(up);
    let set = "up near --set rate=30mbit --set down=30mbit";
    let (count, _) = killed_at(set, None);
    let tried = points(count, 6);
    for &point in &tried {
        killed_at(set, Some(point));
        assert!(passes(&receiver), "--set, killed before call {point}");
        let rate = egress("rate_bps");
        assert!([20_000_000, 30_000_000].contains(&rate), "{rate}");
    }
    // A makeway that is told to stop ends even if `down` is killed.
    let stop = "down near";
    for point in [0, 3, 6, 9] {
        killed_at(stop, Some(point));
        assert!(
            passes(&receiver),
            "down of one that runs, killed before call {point}"
        );
        if running.0.try_wait().unwrap().is_some() {
            running = Up::start(up);
        }
    }
    cleaned("down of one that runs");
    running.end();
    assert_eq!(left(), [""; 0]);
    println!(
        "--set: killed at {} of {count} calls, leftovers 0",
        tried.len()
    );
}
