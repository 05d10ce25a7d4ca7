// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway send` and `makeway recv`, as a person runs them.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use makeway_testing::in_real_time_or;
use makeway_vm::again;
use serde_json::Value;

fn makeway(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_makeway"));
    command.args(arguments.split(' '));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// `makeway recv`, which listens when this returns.
fn recv(arguments: &str) -> (Child, u16) {
    for _ in 0..10 {
        let port = free_port();
        let mut child = makeway(&format!("recv 127.0.0.1:{port} {arguments}"))
            .spawn()
            .unwrap();
        // It ends if another has taken the port meanwhile.
        while child.try_wait().unwrap().is_none() {
            if listens(&child, port) {
                return (child, port);
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    panic!("`makeway recv {arguments}` does not listen");
}

/// Whether `child` has a UDP socket at `port`. The kernel tells; a socket of ours there, for however short a time, would keep the child
/// from it.
fn listens(child: &Child, port: u16) -> bool {
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id()));
    let files = files.into_iter().flatten().flatten();
    let open: Vec<_> = files
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .collect();
    let table = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    // The second field is its own address, the tenth the number of the socket.
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        fields.len() > 9
            && fields[1].ends_with(&format!(":{port:04X}"))
            && open.contains(&format!("socket:[{}]", fields[9]).into())
    })
}

/// The last line, as JSON.
fn last(ended: &Output) -> Value {
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8(ended.stdout.clone()).unwrap();
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

#[test]
fn a_call_of_ekigas_arrives_and_both_sides_say_the_same() {
    for feedback in ["twcc", "rfc8888"] {
        let test = "--exact a_call_of_ekigas_arrives_and_both_sides_say_the_same";
        let program = Path::new(env!("CARGO_BIN_EXE_makeway"));
        in_real_time_or(|| a_call_arrives(feedback), || again(test, &[program]));
    }
}

fn a_call_arrives(feedback: &str) {
    let (receiver, port) = recv(&format!("--feedback {feedback} --once --json"));
    let sender = makeway(&format!(
        "send 127.0.0.1:{port} --rate 2mbit --for 3s --json"
    ));
    let sent = last(&{ sender }.output().unwrap());
    let received = last(&receiver.wait_with_output().unwrap());
    assert_eq!(
        (&sent["last"], &sent["rejected"]),
        (&true.into(), &0.into())
    );
    assert!(sent["feedback"].as_u64().unwrap() > 20, "{sent}");
    for (stream, name) in ["audio", "video"].iter().enumerate() {
        let (s, r) = (&sent["streams"][stream], &received["streams"][stream]);
        assert_eq!(s["name"], *name);
        assert_eq!((&s["sent"], &s["bytes"]), (&r["packets"], &r["bytes"]));
        assert_eq!(r["on_time"], 1.0);
        // Sizes of frames are random: the video of 3 s has from 99 packets on.
        assert!(s["sent"].as_u64().unwrap() >= 60, "{s}");
    }
}

/// Forwards datagrams to `port` and back, but for each tenth packet of audio and video: its own port, and the number that it has lost.
fn losing(port: u16) -> (u16, Arc<AtomicU64>) {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    back.connect(("127.0.0.1", port)).unwrap();
    let own = front.local_addr().unwrap().port();
    let lost = Arc::new(AtomicU64::new(0));
    let sender = Arc::new(Mutex::new(None));
    let forth = (front.clone(), back.clone(), sender.clone(), lost.clone());
    thread::spawn(move || {
        let (front, back, sender, lost) = forth;
        let mut buffer = [0; 2048];
        let mut media = 0;
        loop {
            let Ok((len, from)) = front.recv_from(&mut buffer) else {
                continue;
            };
            *sender.lock().unwrap() = Some(from);
            // Neither RTX nor RTCP.
            let is_media = [96, 111].contains(&(buffer[1] & 0x7f));
            media += u64::from(is_media);
            if is_media && media % 10 == 5 {
                lost.fetch_add(1, Ordering::Relaxed);
            } else {
                let _ = back.send(&buffer[..len]);
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            let read = back.recv(&mut buffer);
            let to = *sender.lock().unwrap();
            if let (Ok(len), Some(to)) = (read, to) {
                let _ = front.send_to(&buffer[..len], to);
            }
        }
    });
    (own, lost)
}

#[test]
fn lost_packets_come_again_where_both_ends_have_rtx() {
    let test = "--exact lost_packets_come_again_where_both_ends_have_rtx";
    let program = Path::new(env!("CARGO_BIN_EXE_makeway"));
    in_real_time_or(lost_packets_come_again, || again(test, &[program]));
}

fn lost_packets_come_again() {
    let (receiver, port) = recv("--rtx --once --json");
    let (relay, lost) = losing(port);
    let sender = makeway(&format!(
        "send 127.0.0.1:{relay} --rtx --rate 2mbit --deadline 1s --for 3s --json"
    ));
    let sent = last(&{ sender }.output().unwrap());
    let received = last(&receiver.wait_with_output().unwrap());
    let streams = received["streams"].as_array().unwrap();
    let repaired: u64 = streams.iter().filter_map(|s| s["repaired"].as_u64()).sum();
    let again = sent["rtx"]["sent"].as_u64().unwrap();
    let lost = lost.load(Ordering::Relaxed);
    eprintln!("{lost} lost, {again} sent again, {repaired} repaired");
    // The last ones may be on their way when the call ends.
    assert!(lost >= 10 && 2 * repaired >= lost, "{sent} {received}");
    assert!(again >= repaired, "{sent} {received}");
    let arrived = sent["rtx"]["arrived"].as_u64().unwrap();
    assert!((1..=again).contains(&arrived), "{sent}");
}

/// The SSRCs of `--rtx` are always the same, so that the counters of the receiver begin anew with the second call.
#[test]
fn a_receiver_takes_one_call_after_the_other_with_the_same_ssrcs() {
    let (receiver, port) = recv("--rtx --json");
    for seconds in [2, 1] {
        let sender = makeway(&format!(
            "send 127.0.0.1:{port} --rtx --rate 1mbit --for {seconds}s --json"
        ));
        let sent = last(&{ sender }.output().unwrap());
        assert!(sent["streams"][1]["arrived"].as_u64() > Some(0), "{sent}");
    }
    // A report each second, with both calls among them.
    thread::sleep(std::time::Duration::from_millis(1200));
    let pid = rustix::process::Pid::from_child(&receiver);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = receiver.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8(ended.stdout).unwrap();
    for line in said.lines() {
        let report: Value = serde_json::from_str(line).unwrap();
        for stream in report["streams"].as_array().unwrap() {
            assert!(stream["received_bps"].as_f64() < Some(1e8), "{line}");
        }
    }
}

/// Packets of a first frame, and those of them that come to a receiver which never reports: the rate stays as the call begins.
fn first_frame(options: &str) -> (u64, u64) {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap();
    let mut sender = makeway(&format!("send {to} --stdin --rate tfrc --json {options}"));
    let mut sender = sender.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = sender.stdin.take().unwrap();
    // Of video, with the deadline of the options.
    let frame = [&[1_u8, 0, 0][..], &24_000_u32.to_be_bytes(), &[0; 24_000]].concat();
    input.write_all(&frame).unwrap();
    drop(input);
    let sent = last(&sender.wait_with_output().unwrap());
    // The sender has ended, so all that has left is here.
    silent.set_nonblocking(true).unwrap();
    let (mut left, mut buffer) = (0, [0; 2048]);
    while silent.recv(&mut buffer).is_ok() {
        // No RTCP.
        left += u64::from(buffer[1] & 0x7f == 96);
    }
    (sent["streams"][1]["packets"].as_u64().unwrap(), left)
}

#[test]
fn the_first_frame_of_a_call_leaves_in_time_where_the_path_is_told() {
    // 0.1 s at this rate.
    let (packets, left) = first_frame("--deadline 20s --start 2mbit,20ms");
    assert!(packets >= 15, "{packets}");
    assert_eq!(left, packets);
    // RFC 5348, section 4.2: a packet a second until the first report; a late one gives the next no earlier time.
    let (packets, left) = first_frame("--deadline 2s");
    assert!(packets >= 15 && left <= 3, "{left} of {packets}");
}

#[test]
fn the_event_log_has_every_packet_that_the_figures_count() {
    let test = "--exact the_event_log_has_every_packet_that_the_figures_count";
    let program = Path::new(env!("CARGO_BIN_EXE_makeway"));
    in_real_time_or(the_event_log_is_whole, || again(test, &[program]));
}

fn the_event_log_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("call.csv");
    let page = folder.path().join("call.html");
    let (receiver, port) = recv("--once --json");
    // Less than the call makes, so that packets expire.
    let sender = makeway(&format!(
        "send 127.0.0.1:{port} --rate 150kbit --for 2s --json --log {} --plot {}",
        file.display(),
        page.display()
    ));
    let sent = last(&{ sender }.output().unwrap());
    last(&receiver.wait_with_output().unwrap());
    let log = std::fs::read_to_string(&file).unwrap();
    let mut lines = log.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name| header.iter().position(|column| *column == name).unwrap();
    let (event, class) = (column("event"), column("class"));
    let rows: Vec<_> = lines.collect();
    assert!(rows.iter().all(|row| row.len() == header.len()));
    let mut dropped = 0;
    for (stream, class_of) in ["0", "1"].into_iter().enumerate() {
        let count = |names: &[&str]| {
            let of = rows.iter().filter(|row| row[class] == class_of);
            of.filter(|row| names.contains(&row[event])).count() as u64
        };
        let told = |name: &str| sent["streams"][stream][name].as_u64().unwrap();
        let refused = ["evicted", "too-large", "orphaned"];
        assert_eq!(count(&["sent", "late"]), told("sent"), "{sent}");
        assert_eq!(count(&["late"]), told("late"), "{sent}");
        assert_eq!(count(&["expired"]), told("expired"), "{sent}");
        assert_eq!(count(&refused), told("evicted"), "{sent}");
        assert_eq!(count(&["acknowledged"]), told("arrived"), "{sent}");
        let ends = count(&["sent", "late", "expired", "waiting"]) + count(&refused);
        assert_eq!(ends, told("packets"), "{sent}");
        assert!(told("arrived") > 10, "{sent}");
        dropped += told("expired") + told("evicted");
    }
    assert!(dropped > 0, "{sent}");
    let page = std::fs::read_to_string(page).unwrap();
    let expired = rows.iter().filter(|row| row[event] == "expired").count();
    assert!(page.contains(&format!("; {expired} expired, ")), "{page}");
    let states = rows.iter().filter(|row| row[event] == "rate");
    assert!(states.clone().count() >= 10, "{log}");
    for row in states {
        assert_eq!(row[column("rate_bps")], "150000");
    }
    let number = |row: &[&str], name| row[column(name)].parse::<f64>().unwrap();
    for row in rows.iter().filter(|row| row[event] == "acknowledged") {
        assert!(number(row, "created_s") <= number(row, "sent_s"), "{row:?}");
        assert!(number(row, "sent_s") <= number(row, "time_s"), "{row:?}");
    }
}

#[test]
fn frames_of_standard_input_are_sent() {
    let (receiver, port) = recv("--once --json");
    let mut sender = makeway(&format!(
        "send 127.0.0.1:{port} --stdin --rate 2mbit --json"
    ));
    let mut sender = sender.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = sender.stdin.take().unwrap();
    for n in 0..20_u8 {
        // Its deadline is 40 s away: on no machine is it late.
        let [high, low] = 40_000_u16.to_be_bytes();
        let frame = [&[n % 2, high, low, 0, 0, 0, 100][..], &[n; 100]].concat();
        input.write_all(&frame).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(input);
    let sent = last(&sender.wait_with_output().unwrap());
    let received = last(&receiver.wait_with_output().unwrap());
    for stream in 0..2 {
        assert_eq!(sent["streams"][stream]["sent"], 10);
        assert_eq!(received["streams"][stream]["packets"], 10);
    }
}

#[test]
fn ctrl_c_ends_a_call_with_its_figures_and_its_whole_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("call.csv");
    let mut sender = makeway(&format!(
        "send 127.0.0.1:{} --rate 1mbit --log {}",
        free_port(),
        file.display()
    ))
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(sender.stdout.take().unwrap()).lines();
    // One a second; while the machine stalls nothing is sent.
    for _ in 0..3 {
        assert!(lines.next().unwrap().unwrap().contains("audio "));
    }
    let pid = rustix::process::Pid::from_child(&sender);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(sender.wait().unwrap().success());
    let audio = rest
        .iter()
        .any(|line| line.starts_with("audio: ") && line.contains("reported as arrived"));
    assert!(audio, "{rest:?}");
    // Nobody reports: each packet that was sent is in flight at the end.
    let log = std::fs::read_to_string(file).unwrap();
    let rows: Vec<Vec<_>> = log.lines().map(|line| line.split(',').collect()).collect();
    assert!(log.ends_with('\n') && rows.iter().all(|row| row.len() == rows[0].len()));
    let count = |names: &[&str]| rows.iter().filter(|row| names.contains(&row[1])).count();
    assert!(count(&["sent"]) > 10, "{rest:?}");
    assert_eq!(count(&["sent", "late"]), count(&["in-flight"]));
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let trace = " --trace ../../scenarios/traces/audio-64k.csv";
    let nine_streams = format!("send 127.0.0.1:9 --rtx{}", trace.repeat(9));
    for (arguments, said) in [
        ("send nowhere", "is not HOST:PORT: write 192.168.1.7:5004"),
        ("send 127.0.0.1:9 --policy sbpn", "sbpn1"),
        (
            "send 127.0.0.1:9 --rate fast",
            "write tfrc, ccid2, abrc, scream, gcc, or a rate",
        ),
        ("send 127.0.0.1:9 --deadline 0ms", "1ms to 40s"),
        (
            "send 127.0.0.1:9 --trace /nonexistent.csv",
            "/nonexistent.csv: the trace cannot be read",
        ),
        (
            "send 127.0.0.1:9 --for 1s --start 2mbit",
            "is not RATE,RTT of 1kbit to 1000gbit and 100us to 10s: write 2mbit,50ms",
        ),
        (
            "send 127.0.0.1:9 --for 1s --start 2mbit,11s",
            "write 2mbit,50ms",
        ),
        (
            "send 127.0.0.1:9 --for 1s --rate 2mbit --start 2mbit,50ms",
            "`--start` is of a rate that changes",
        ),
        (
            "send 127.0.0.1:9 --for 1s --log /nonexistent/call.csv",
            "/nonexistent/call.csv: the event log cannot be written; `--log` takes a file",
        ),
        (
            "send 127.0.0.1:9 --for 1s --log /dev/full",
            "/dev/full: the event log cannot be written",
        ),
        ("send 127.0.0.1:9 --for 1s --plot call.html", "--log <FILE>"),
        (
            "send 127.0.0.1:9 --for 1s --log /dev/null --plot /nonexistent/call.html",
            "/nonexistent/call.html: the page cannot be written; `--plot` takes a file",
        ),
        (
            "send 127.0.0.1:9 --for 1s --log call.csv --plot call.csv",
            "are the same file: give two",
        ),
        (
            nine_streams.as_str(),
            "`--rtx` with 9 traces: give `--trace` at most 8 times",
        ),
        ("recv 127.0.0.1:9 --interval 1h", "1ms to 10s"),
        ("recv 192.0.2.1:5004", "cannot listen at 192.0.2.1:5004"),
    ] {
        let ended = makeway(arguments).output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert!(
            !ended.status.success() && error.contains(said),
            "{arguments}: {error}"
        );
    }
}
