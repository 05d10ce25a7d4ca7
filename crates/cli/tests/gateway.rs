// SPDX-License-Identifier: MIT OR Apache-2.0
//! `up`, `down`, `status` on a real link: each test in namespaces of its own.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

#[path = "../../gateway/tests/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Far, inside_in_order, inside_in_real_time, ip};
use makeway_core::workload::Workload;
use makeway_gateway::rules::{self, Direction};
use serde_json::Value;

const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");

fn makeway(arguments: &[&str]) -> Command {
    let mut command = Command::new(MAKEWAY);
    command.args(arguments);
    command
}

/// `makeway down near`, which succeeds.
fn down() {
    let output = ask("down near");
    assert!(output.status.success(), "{}", words(&output));
}

fn ask(line: &str) -> Output {
    let arguments: Vec<&str> = line.split(' ').collect();
    makeway(&arguments).output().unwrap()
}

fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A makeway that has said that it runs.
fn up(line: &str) -> Child {
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut child = makeway(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut first).unwrap();
    assert!(first.contains("upload"), "`{line}` said `{first}`");
    child
}

fn rules_left() -> bool {
    let left = |direction| rules::installed("near", direction).unwrap();
    Direction::BOTH.into_iter().any(left)
}

/// The statistics of the egress of `near`.
fn egress() -> Value {
    let output = ask("status near --json");
    assert!(output.status.success(), "{}", words(&output));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["instances"][0]["directions"][0].clone()
}

#[test]
fn a_transfer_goes_on_after_kill_9_and_down_cleans_up() {
    if !inside_in_order(
        "a_transfer_goes_on_after_kill_9_and_down_cleans_up",
        &[Path::new(MAKEWAY)],
    ) {
        return;
    }
    const BYTES: usize = 6_000_000;
    let far = Far::new();
    let mut instance = up("up near --rate 20mbit --down 20mbit --backend nfqueue");
    assert!(rules_left());
    let listener = far.run(|| TcpListener::bind("10.9.0.2:6000").unwrap());
    let (half, halves) = mpsc::channel();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; BYTES / 2];
        stream.read_exact(&mut buffer).unwrap();
        half.send(()).unwrap();
        stream.read_exact(&mut buffer).unwrap();
    });
    let start = Instant::now();
    let mut stream = TcpStream::connect("10.9.0.2:6000").unwrap();
    let sender = thread::spawn(move || stream.write_all(&vec![7; BYTES]).unwrap());
    halves.recv().unwrap();
    // 3 MB at 20 Mbit/s take 1.2 s: until here the shaper was at work.
    assert!(start.elapsed() > Duration::from_secs(1));
    instance.kill().unwrap();
    instance.wait().unwrap();
    receiver.join().unwrap();
    sender.join().unwrap();

    assert!(rules_left(), "a killed process cannot take its rules away");
    let down = ask("down near");
    assert!(down.status.success(), "{}", words(&down));
    assert!(words(&down).contains("removed"), "{}", words(&down));
    assert!(!rules_left());
    assert!(words(&ask("down near")).contains("nothing to do"));
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence_and_changes_nothing() {
    if !inside_in_order(
        "what_cannot_be_is_refused_with_a_sentence_and_changes_nothing",
        &[Path::new(MAKEWAY)],
    ) {
        return;
    }
    let _far = Far::new();
    for (line, sentence) in [
        ("up nowhere --rate 20mbit", "near"),
        ("up near --rate 0", "20mbit"),
        ("up near --rate 0mbit", "rate"),
        ("up near --rate 20", "20mbit"),
        ("up near --rate fast", "20mbit"),
        ("up near --rate 20mbit --discipline bfifo", "sqf"),
        ("up near --rate 20mbit --flows everybody", "5-tuple"),
        (
            "up near --rate 20mbit --discipline sqf --weight 10.9.0.2=2",
            "hier",
        ),
        ("up near --rate 20mbit --limit lots", "packets"),
        ("up near --rate 20mbit --overhead 1000", "256"),
        ("up near", "--rate"),
        ("up near --set rate=20mbit", "near"),
        ("up near --set colour=blue", "rate"),
        ("down nowhere", "near"),
        ("status nowhere", "nowhere"),
    ] {
        let output = ask(line);
        let said = words(&output);
        assert!(!output.status.success(), "`{line}` said `{said}`");
        assert!(said.contains(sentence), "`{line}` said `{said}`");
        assert!(!rules_left(), "{line}");
    }
}

#[test]
fn a_second_instance_is_refused_and_the_first_goes_on() {
    if !inside_in_order(
        "a_second_instance_is_refused_and_the_first_goes_on",
        &[Path::new(MAKEWAY)],
    ) {
        return;
    }
    let _far = Far::new();
    let mut first = up("up near --rate 20mbit --backend nfqueue");
    let second = ask("up near --rate 10mbit");
    assert!(!second.status.success());
    assert!(words(&second).contains("already"), "{}", words(&second));
    assert_eq!(egress()["rate_bps"], 20_000_000);
    down();
    assert!(first.wait().unwrap().success());
    assert!(!rules_left());
}

#[test]
fn set_under_traffic_loses_nothing() {
    if !inside_in_real_time("set_under_traffic_loses_nothing", &[Path::new(MAKEWAY)]) {
        return;
    }
    let far = Far::new();
    let sink = far.udp(5000);
    sink.set_nonblocking(true).unwrap();
    let mut instance = up("up near --rate 10mbit --backend nfqueue");
    // 4 Mbit/s, and a packet of each of 5 flows at a time.
    let sender = thread::spawn(|| {
        let sockets = [(); 5].map(|()| {
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            socket.connect("10.9.0.2:5000").unwrap();
            socket
        });
        for _ in 0..200 {
            for socket in &sockets {
                socket.send(&[0; 1000]).unwrap();
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    let disciplines = ["fq", "pfq", "hier", "fifo", "sqf"];
    let (mut received, mut buffer) = (0, [0; 2000]);
    let mut drain = || {
        while sink.recv(&mut buffer).is_ok() {
            received += 1;
        }
        received
    };
    for round in 0.. {
        if sender.is_finished() {
            break;
        }
        let discipline = disciplines[round % disciplines.len()];
        let rate = 5 + round % 20;
        let set = format!("up near --set rate={rate}mbit --set discipline={discipline}");
        let output = ask(&set);
        assert!(output.status.success(), "{}", words(&output));
        drain();
    }
    sender.join().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while drain() < 1000 && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    let stats = egress();
    assert_eq!(drain(), 1000, "{stats}");
    assert_eq!(stats["drops"], serde_json::json!({}), "{stats}");
    assert_eq!(stats["packets_in"], stats["packets_out"], "{stats}");
    down();
    instance.wait().unwrap();
}

/// Operations of a round at least.
const LEAST: u32 = 40;
/// Rounds at most, and the growth in KiB below which none follows.
const ROUNDS: usize = 9;
const GROWTH: i64 = 1024;

/// Seconds of random operations: 15, or what MAKEWAY_SOAK_SECONDS says.
fn soak() -> Duration {
    let asked = std::env::var("MAKEWAY_SOAK_SECONDS").ok();
    Duration::from_secs(asked.map_or(15, |s| s.parse().expect("MAKEWAY_SOAK_SECONDS")))
}

#[test]
fn random_operations_leave_no_rule_no_process_and_no_growth() {
    if !inside_in_order(
        "random_operations_leave_no_rule_no_process_and_no_growth",
        &[Path::new(MAKEWAY)],
    ) {
        return;
    }
    let far = Far::new();
    let _sink = far.udp(5000);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut flood = Workload::new(seed, 1 << 18, 1);

    // First half: instances come and go.
    let end = Instant::now() + soak() / 2;
    let mut instance: Option<Child> = None;
    let mut operations = 0;
    while Instant::now() < end {
        operations += 1;
        match (rng.u8(..10), &mut instance) {
            (0..3, None) => {
                let rate = rng.u32(1..200);
                let discipline = ["sqf", "fq", "pfq", "fifo", "hier"][rng.usize(..5)];
                let down = if rng.bool() { " --down 30mbit" } else { "" };
                let line = format!(
                    "up near --rate {rate}mbit --backend nfqueue --discipline {discipline}{down}"
                );
                instance = Some(up(&line));
            }
            (0, Some(child)) => {
                down();
                assert!(child.wait().unwrap().success());
                assert!(!rules_left());
                instance = None;
            }
            (1, Some(child)) => {
                child.kill().unwrap();
                child.wait().unwrap();
                instance = None;
                if rng.bool() {
                    down();
                    assert!(!rules_left());
                }
            }
            (2, Some(child)) => {
                interrupt(child);
                child.wait().unwrap();
                assert!(!rules_left());
                instance = None;
            }
            (_, running) => disturb(&mut rng, &mut flood, running.is_some()),
        }
    }
    if let Some(mut child) = instance {
        down();
        child.wait().unwrap();
    }

    // Second half: one instance lives through all of it.
    let mut child = up("up near --rate 50mbit --down 50mbit --backend nfqueue");
    // Each discipline once, with a full queue: memory that only one needs is taken when it comes first, and counted when it is used first.
    for discipline in ["fq", "pfq", "fifo", "hier", "sqf"] {
        let set = format!("up near --set discipline={discipline}");
        assert!(ask(&set).status.success());
        send(&mut flood);
        send(&mut flood);
    }
    // Pages allocated at the start count when they are first used, which ends; a leak does not.
    let mut grown: Vec<i64> = Vec::new();
    while grown.len() < 3 || (grown.len() < ROUNDS && grown.last() >= Some(&GROWTH)) {
        let (start, before) = (Instant::now(), resident_kib(&child));
        // A busy machine does little in that time: what counts is what was done.
        let mut done = 0;
        while done < LEAST || start.elapsed() < soak() / 6 {
            disturb(&mut rng, &mut flood, true);
            done += 1;
        }
        operations += done;
        grown.push(resident_kib(&child) as i64 - before as i64);
    }
    println!("{operations} operations; KiB more in each round: {grown:?}");
    assert!(
        grown.last() < Some(&GROWTH),
        "KiB more in each round: {grown:?}"
    );
    down();
    assert!(child.wait().unwrap().success());
    assert!(!rules_left());
    assert_eq!(processes(), 0);
}

/// A change, a look, a flood of new flows, or the link going down and up.
fn disturb(rng: &mut fastrand::Rng, flood: &mut Workload, running: bool) {
    match rng.u8(..8) {
        0 | 1 if running => {
            let rate = rng.u32(1..300);
            let output = ask(&format!("up near --set rate={rate}mbit"));
            assert!(output.status.success(), "{}", words(&output));
        }
        2 if running => {
            let discipline = ["sqf", "fq", "pfq", "fifo", "hier"][rng.usize(..5)];
            let output = ask(&format!("up near --set discipline={discipline}"));
            assert!(output.status.success(), "{}", words(&output));
        }
        3 if running => assert!(ask("status near --json").status.success()),
        4 => {
            ip("link set near down");
            thread::sleep(Duration::from_millis(rng.u64(..50)));
            ip("link set near up");
        }
        _ => send(flood),
    }
}

/// A burst of 3000 packets, which fills any queue.
fn send(flood: &mut Workload) {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    for _ in 0..3000 {
        let packet = flood.packet(makeway_core::units::Instant::ZERO);
        // Each flow has a port; one host of four is there. A full buffer is no error here.
        let [_, host, port @ ..] = packet.flow.0.to_be_bytes();
        let host = Ipv4Addr::new(10, 9, 0, 2 + host);
        let to = (host, u16::from_be_bytes(port).max(1));
        let payload = packet.len().get().saturating_sub(64).min(1400);
        let _ = socket.send_to(&[0; 1400][..payload as usize], to);
    }
}

fn interrupt(child: &Child) {
    // SAFETY: no pointers; the child was not waited for, so its number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
}

fn resident_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

/// Processes of makeway in this network namespace.
fn processes() -> usize {
    let here = std::fs::read_link("/proc/self/ns/net").unwrap();
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let ours = folders.filter(|folder| {
        let path = folder.path();
        let program = std::fs::read_link(path.join("exe"));
        let namespace = std::fs::read_link(path.join("ns/net"));
        program.is_ok_and(|p| p.ends_with("makeway")) && namespace.is_ok_and(|ns| ns == here)
    });
    ours.count()
}
