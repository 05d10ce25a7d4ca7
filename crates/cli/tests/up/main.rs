// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway up`, `down`, `status`, `--set` on a real interface, in namespaces of the test's own.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod autorate;
mod backends;
mod behind;
#[path = "../../../gateway/tests/common/mod.rs"]
mod common;
mod crash;
mod dashboard;
mod doctor;
mod faults;
mod guest;
mod hostile;
mod idle;
#[path = "../../../gateway/tests/common/masqueraded.rs"]
mod masqueraded;
mod metrics;
mod overload;
mod service;
mod silent;
mod tags;
mod traced;
mod tune;
mod unit;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Far, inside, ip};
use serde_json::Value;

const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");
const PATIENCE: Duration = Duration::from_secs(60);

/// As [`common::inside_in_order`], with this makeway.
fn inside_in_order(test: &str) -> bool {
    common::inside_in_order(test, &[Path::new(MAKEWAY)])
}

fn makeway(line: &str) -> Command {
    // In a guest it is in the path.
    let here = Path::new(MAKEWAY).exists();
    let mut command = Command::new(if here { MAKEWAY } else { "makeway" });
    command.args(line.split(' '));
    command
}

/// Runs it to its end: whether it went well, and everything that it said.
fn say(line: &str) -> (bool, String) {
    ended(makeway(line))
}

/// Likewise; one that stays in the foreground is killed and fails the test.
fn ended(mut command: Command) -> (bool, String) {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut up = Up(child.expect("makeway starts"));
    let (status, said) = up.end();
    (status.success(), said)
}

/// A `makeway up` in the foreground; killed if the test fails.
struct Up(Child);

impl Up {
    fn start(line: &str) -> Self {
        Self::started(makeway(line))
    }

    fn started(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("makeway starts");
        // It says its two lines when it is ready.
        let mut said = Vec::new();
        let out = child.stdout.as_mut().expect("piped");
        while said.iter().filter(|byte| **byte == b'\n').count() < 2 {
            let mut byte = [0];
            if out.read(&mut byte).expect("readable") == 0 {
                let mut why = String::new();
                child
                    .stderr
                    .take()
                    .expect("piped")
                    .read_to_string(&mut why)
                    .ok();
                panic!("{command:?}: {why}");
            }
            said.extend(byte);
        }
        Self(child)
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the process is our child and was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }

    /// Waits for its end; what it said since it started. That is read as it comes: a program that says more than a pipe holds waits for a
    /// reader, and `status --json` tells of each flow.
    fn end(&mut self) -> (ExitStatus, String) {
        let out = reading(self.0.stdout.take().expect("piped"));
        let errors = reading(self.0.stderr.take().expect("piped"));
        let status = until("makeway ends", || self.0.try_wait().expect("child"));
        let said = [out, errors].map(|reader| reader.join().expect("text"));
        (status, said.concat())
    }
}

/// Reads up to the end, while others wait.
fn reading(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut said = String::new();
        from.read_to_string(&mut said).expect("text");
        said
    })
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A terminal: our end, and that of a program.
fn terminal() -> [File; 2] {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize {
        ws_row: 40,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let none = std::ptr::null_mut();
    // SAFETY: the descriptors and the size live until the call returns; then they are nobody else's.
    unsafe {
        let size = (&raw const size).cast_mut();
        assert_eq!(
            libc::openpty(&mut ours, &mut theirs, none, none.cast(), size),
            0
        );
        [File::from_raw_fd(ours), File::from_raw_fd(theirs)]
    }
}

/// Looks again and again, an eighth of the time since it began apart: a look often starts a program, which takes a translated
/// processor longer than the wait.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = begin.elapsed();
        assert!(waited < PATIENCE, "{what} took too long");
        let pause = waited / 8;
        thread::sleep(pause.clamp(Duration::from_millis(10), Duration::from_millis(300)));
    }
}

/// TCP to the far end that does not stop; what came.
fn download(far: &Far, port: u16) -> Arc<AtomicU64> {
    let listener = far.run(move || TcpListener::bind(("10.9.0.2", port)).unwrap());
    let got = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&got);
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 65_536];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    thread::spawn(move || {
        let mut stream = TcpStream::connect(("10.9.0.2", port)).unwrap();
        let chunk = vec![7; 65_536];
        while stream.write_all(&chunk).is_ok() {}
    });
    got
}

/// Whether any of the rules' tools has something of ours in this namespace.
fn rules() -> bool {
    let asks: [&[&str]; 5] = [
        &["nft", "list", "ruleset"],
        &["iptables-nft-save", "-t", "mangle"],
        &["iptables-legacy-save", "-t", "mangle"],
        &["ip6tables-nft-save", "-t", "mangle"],
        &["ip6tables-legacy-save", "-t", "mangle"],
    ];
    asks.iter().any(|ask| {
        let mut command = Command::new(ask[0]);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(&ask[1..])
            .env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let output = command.env("XTABLES_LOCKFILE", "/dev/null").output();
        output.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("makeway"))
    })
}

/// Gives an interface another name, for which it must be down.
fn renamed(from: &str, to: &str) {
    ip(&format!("link set {from} down"));
    ip(&format!("link set {from} name {to}"));
    ip(&format!("link set {to} up"));
}

fn status() -> Value {
    let (ok, text) = say("status near --json");
    assert!(ok, "{text}");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["instances"][0].clone()
}

fn egress(key: &str) -> u64 {
    status()["directions"][0][key].as_u64().expect(key)
}

#[test]
fn up_makes_rules_that_down_takes_away() {
    if !inside_in_order("up_makes_rules_that_down_takes_away") {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    let mut up =
        Up::start("up near --rate 20mbit --down 50mbit --flows src-port --backend nfqueue");
    assert!(rules());
    let sender = UdpSocket::bind("10.9.0.1:4001").unwrap();
    sender.send_to(b"one", "10.9.0.2:4000").unwrap();
    receiver.recv(&mut [0; 8]).unwrap();
    let status = status();
    assert_eq!(status["interface"], "near");
    assert_eq!(status["pid"], up.0.id());
    let directions = status["directions"].as_array().unwrap();
    assert_eq!(directions.len(), 2);
    assert_eq!(directions[0]["discipline"], "makeway");
    assert_eq!(directions[0]["rate_bps"], 20_000_000);
    assert_eq!(directions[1]["rate_bps"], 50_000_000);
    let flows = directions[0]["flows"].as_array().unwrap();
    let flow = flows
        .iter()
        .find(|flow| flow["flow"].to_string().contains("4001"))
        .unwrap();
    // 3 bytes with UDP, IP and Ethernet headers.
    assert_eq!(
        (&flow["packets_out"], &flow["bytes_out"]),
        (&1.into(), &45.into())
    );
    let (ok, table) = say("status near");
    assert!(
        ok && table.contains("makeway at 20mbit, flows by src-port"),
        "{table}"
    );

    let (ok, said) = say("down near");
    assert!(
        ok && said.contains("has ended and its rules are removed"),
        "{said}"
    );
    let (status, said) = up.end();
    assert!(
        status.success() && said.contains("ended by `makeway down`"),
        "{said}"
    );
    assert!(!rules());
    let (ok, said) = say("down near");
    assert!(ok && said.contains("nothing to do"), "{said}");
}

#[test]
fn a_second_one_on_the_interface_is_refused() {
    if !inside_in_order("a_second_one_on_the_interface_is_refused") {
        return;
    }
    let _far = Far::new();
    let up = Up::start("up near --rate 20mbit --backend nfqueue");
    let (ok, said) = say("up near --rate 30mbit --discipline fq");
    assert!(!ok && said.contains("already"), "{said}");
    assert!(said.contains(&up.0.id().to_string()), "{said}");
    assert_eq!(egress("rate_bps"), 20_000_000);
    // The same from where the files of the first are not seen.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut hidden = makeway("up near --rate 30mbit");
    hidden.env("XDG_RUNTIME_DIR", elsewhere.path());
    hidden.env("TMPDIR", elsewhere.path());
    let (ok, said) = ended(hidden);
    assert!(!ok && said.contains("already"), "{said}");
    assert!(rules());
}

#[test]
fn ctrl_c_a_kill_and_a_hangup_clean_up() {
    if !inside_in_order("ctrl_c_a_kill_and_a_hangup_clean_up") {
        return;
    }
    // Under nohup the test would hand down that it is ignored.
    // SAFETY: no handler of this process is replaced.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let _far = Far::new();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut up = Up::start("up near --rate 20mbit --down 20mbit --backend nfqueue");
        assert!(rules());
        up.signal(signal);
        let (status, said) = up.end();
        assert!(status.success(), "{signal}: {said}");
        assert!(said.contains("rules are removed"), "{signal}: {said}");
        assert!(!rules(), "{signal}");
    }
}

#[test]
fn a_change_under_traffic_loses_nothing() {
    if !inside_in_order("a_change_under_traffic_loses_nothing") {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    // More room than there are packets, so that a machine that stalls drops none either.
    let _up =
        Up::start("up near --rate 2mbit --limit 1000packets --discipline sqf --backend nfqueue");
    const PACKETS: u64 = 600;
    let received = thread::spawn(move || {
        let mut numbers = Vec::new();
        let mut packet = [0; 600];
        while (numbers.len() as u64) < PACKETS && receiver.recv(&mut packet).is_ok() {
            numbers.push(u64::from_be_bytes(packet[..8].try_into().unwrap()));
        }
        numbers
    });
    let sender = thread::spawn(|| {
        let socket = UdpSocket::bind("10.9.0.1:4001").unwrap();
        let mut packet = [0; 458];
        for n in 0..PACKETS {
            packet[..8].copy_from_slice(&n.to_be_bytes());
            socket.send_to(&packet, "10.9.0.2:4000").unwrap();
            // 30 at once, then their time: there is a backlog when the change comes.
            if n % 30 == 29 {
                thread::sleep(Duration::from_millis(70));
            }
        }
    });
    for change in [
        "limit=900packets",
        "mpu=64",
        "drop_from=tail",
        "rate=3mbit",
        "discipline=fq",
        "discipline=pfq",
        "discipline=hier",
        "discipline=fifo",
        "discipline=sqf",
        "rate=4mbit",
    ] {
        thread::sleep(Duration::from_millis(150));
        let (ok, said) = say(&format!("up near --set {change}"));
        assert!(ok, "{change}: {said}");
    }
    sender.join().unwrap();
    let numbers = received.join().unwrap();
    let status = status();
    let egress = &status["directions"][0];
    assert_eq!(egress["drops"], serde_json::json!({}));
    assert_eq!(numbers, (0..PACKETS).collect::<Vec<_>>());
    assert_eq!(egress["discipline"], "sqf");
    assert_eq!(egress["rate_bps"], 4_000_000);
}

#[test]
fn a_transfer_survives_a_kill_and_down_cleans() {
    if !inside_in_order("a_transfer_survives_a_kill_and_down_cleans") {
        return;
    }
    let far = Far::new();
    let up = Up::start("up near --rate 20mbit --down 20mbit --backend nfqueue");
    let got = download(&far, 5001);
    let past = |bytes: u64| {
        until("the transfer", || {
            (got.load(Ordering::Relaxed) > bytes).then_some(())
        });
    };
    past(500_000);
    up.signal(libc::SIGKILL);
    // Dead: nothing shapes it, and the rules let it pass.
    let before = got.load(Ordering::Relaxed);
    past(before + 5_000_000);
    assert!(rules());
    let (ok, said) = say("status near");
    assert!(!ok && said.contains("no makeway runs on near"), "{said}");

    let (ok, said) = say("down near");
    assert!(ok && said.contains("egress and ingress rules"), "{said}");
    assert!(!rules());
    past(got.load(Ordering::Relaxed) + 1_000_000);
    // A killed one does not stand in the way of the next, with or without `down`.
    let next = Up::start("up near --rate 20mbit --backend nfqueue");
    next.signal(libc::SIGKILL);
    drop(next);
    let _again = Up::start("up near --rate 20mbit --backend nfqueue");
    past(got.load(Ordering::Relaxed) + 100_000);
    // Bytes that came may have left before it was there.
    until("a packet", || (egress("bytes_out") > 0).then_some(()));
}

#[test]
fn an_interface_that_goes_away_ends_it_and_a_link_that_goes_down_does_not() {
    if !inside_in_order("an_interface_that_goes_away_ends_it_and_a_link_that_goes_down_does_not") {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut up = Up::start("up near --rate 20mbit --backend nfqueue");
    ip("link set near down");
    thread::sleep(Duration::from_millis(600));
    assert!(up.0.try_wait().unwrap().is_none());
    ip("link set near up");
    let before = egress("packets_out");
    let sender = UdpSocket::bind("10.9.0.1:4001").unwrap();
    until("a packet after the link is up again", || {
        let _ = sender.send_to(b"again", "10.9.0.2:4000");
        (egress("packets_out") > before).then_some(())
    });
    receiver.recv(&mut [0; 8]).unwrap();
    ip("link del near");
    let (status, said) = up.end();
    assert!(
        !status.success() && said.contains("the interface near is gone"),
        "{said}"
    );
    assert!(!rules());
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence_and_changes_nothing() {
    if !inside_in_order("what_cannot_be_is_refused_with_a_sentence_and_changes_nothing") {
        return;
    }
    let _far = Far::new();
    let cases = [
        ("up wan7 --rate 20mbit", "choose lo or near"),
        ("up near --rate 0mbit", "must exceed 0: write 20mbit"),
        ("up near --rate 20", "a rate like 20mbit, 640kbit or 1gbit"),
        ("up near --rate fast", "a rate like 20mbit"),
        (
            "up near --rate 20mbit --down 0bit",
            "must exceed 0: write 20mbit",
        ),
        (
            "up near --rate 20mbit --discipline bfifo",
            "fifo, fq, pfq, sqf",
        ),
        ("up near --rate 20mbit --flows port", "5-tuple, src-port"),
        ("up near --rate 20mbit --users all", "5-tuple, src-port"),
        ("up near --rate 20mbit --limit 0B", "'100 packets' or 150kB"),
        ("up near --rate 20mbit --overhead 300", "-64..=256"),
        (
            "up near --rate 20mbit --discipline sqf --weight 10.0.0.1=2",
            "--discipline hier",
        ),
        (
            "up near --rate 20mbit --discipline hier --weight ten=2",
            "192.168.1.7=2",
        ),
        ("up near --rate 20mbit --atm --ptm", "cannot be used with"),
        ("up near", "--rate <RATE>"),
        ("up near --set rate=10mbit", "no makeway runs on near"),
        ("up near --set flows=5-tuple", "write rate=20mbit"),
        ("up near --set rate=0bit", "must exceed 0: write 20mbit"),
        ("status near", "no makeway runs on near"),
        ("status wan7", "choose lo or near"),
        ("watch near", "no makeway runs on near"),
        ("watch wan7", "choose lo or near"),
        ("down wan7", "choose lo or near"),
        ("tag near", "--tickets <[ADDRESS=|PORT=]N>"),
        ("tag near --tickets 0", "1 to 1000000 tickets per second"),
        ("tag near --tickets host=5", "192.168.1.7=500 or 443=500"),
        ("tag near --tickets 5 --tickets 6", "keep one of them"),
        ("tag near --tickets 5 --strip", "cannot be used with"),
        ("tag near --tickets 5 --tag-bits 1", "2..=16"),
        ("tag wan7 --tickets 5", "choose lo or near"),
        (
            "up near --rate 20mbit --tickets 5 --strip-tags",
            "cannot be used with",
        ),
        ("up near --set tickets=0", "1 to 1000000 tickets per second"),
    ];
    for (line, right) in cases {
        let (ok, said) = say(line);
        assert!(!ok, "makeway {line}: {said}");
        assert!(said.contains(right), "makeway {line}: {said}");
        assert!(!said.contains("panicked"), "makeway {line}: {said}");
    }
    let running = Up::start("up near --rate 20mbit --backend nfqueue");
    let (ok, said) = say("up near --set down=10mbit");
    assert!(!ok && said.contains("start it again with --down"), "{said}");
    let (ok, said) = say("up near --set tickets=10");
    assert!(
        !ok && said.contains("start it again with --tickets"),
        "{said}"
    );
    // One that is refused keeps the others from being done.
    for (refused, right) in [
        ("quantum=1B", "write a size from 64B"),
        ("red.max=7", "makeway has no parameter `red.max`"),
        ("limit=5000packets", "start it again with --limit"),
        ("discipline=csfq", "csfq cannot run here"),
    ] {
        let (ok, said) = say(&format!(
            "up near --set rate=5mbit --set limit=60packets --set overhead=38 --set {refused}"
        ));
        assert!(!ok && said.contains(right), "{refused}: {said}");
        assert_eq!(
            (egress("rate_bps"), egress("limit_packets")),
            (20_000_000, 200)
        );
    }
    let (ok, said) = say(
        "up near --set limit=60packets --set overhead=38 --set cells=ptm --set weight=10.9.0.1=3 --set quantum=3000B",
    );
    assert!(ok && said.contains("limit 60 packets"), "{said}");
    let now = status()["directions"][0].clone();
    assert_eq!(
        (&now["overhead"], &now["cells"]),
        (&38.into(), &"ptm".into())
    );
    assert_eq!(now["weights"], serde_json::json!({ "10.9.0.1": 3 }));
    assert_eq!(now["parameters"], serde_json::json!({ "quantum": "3000B" }));
    let (ok, said) = say("up near --set limit=default --set weight=10.9.0.1=1 --set quantum=");
    assert!(ok && said.contains("limit 200 packets"), "{said}");
    let now = status()["directions"][0].clone();
    assert_eq!(
        (&now["weights"], &now["parameters"]),
        (&serde_json::json!({}), &serde_json::json!({}))
    );
    assert_eq!(egress("rate_bps"), 20_000_000);
    drop(running);
    assert!(say("down near").0);
    assert!(!rules());
}

#[test]
fn without_the_privilege_it_says_how_to_get_it() {
    if !inside("without_the_privilege_it_says_how_to_get_it") {
        return;
    }
    let _far = Far::new();
    if Path::new("/usr/bin/setpriv").exists() {
        let output = Command::new("setpriv")
            .args([
                "--bounding-set=-net_admin",
                "--inh-caps=-net_admin",
                MAKEWAY,
            ])
            .args("up near --rate 20mbit".split(' '))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        for part in ["CAP_NET_ADMIN", "sudo", "systemctl start makeway@near"] {
            assert!(said.contains(part), "{said}");
        }
    } else {
        makeway_testing::skip("no setpriv to take CAP_NET_ADMIN away with");
    }
    assert!(!rules());
}
