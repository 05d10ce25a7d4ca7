// SPDX-License-Identifier: MIT OR Apache-2.0
//! More than the link carries, with `watch` open: makeway is asked and answers, and loses no packet without a counter.
//!
//! Six seconds of it; MAKEWAY_OVERLOAD_SECONDS says how many else.

use std::fs;
use std::sync::atomic::AtomicBool;

use super::crash::left;
use super::*;

/// A `makeway watch` in a terminal of its own, whose output goes nowhere.
struct Watch(Child);

impl Watch {
    fn open() -> Self {
        let [mut ours, theirs] = terminal();
        let terminal = || Stdio::from(theirs.try_clone().unwrap());
        let child = makeway("watch near")
            .env("TERM", "xterm")
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .spawn();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while ours.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        Self(child.unwrap())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Memory of `process` alone, in KiB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[(times.len() * 99).div_ceil(100) - 1]
}

const TEST: &str = "overload::under_overload_everybody_is_answered_and_every_packet_counted";

#[test]
fn under_overload_everybody_is_answered_and_every_packet_counted() {
    if !inside(TEST) {
        return;
    }
    let seconds = std::env::var("MAKEWAY_OVERLOAD_SECONDS").ok();
    let time = Duration::from_secs(seconds.map_or(6, |n| n.parse().expect("seconds")));
    let far = Far::new();
    let _sink = far.udp(4000);
    // Counts and memory do not depend on the time that the machine takes.
    let mut wrong = None;
    let here = || {
        let told = overload(time);
        wrong = told.wrong();
        assert!(wrong.is_some() || told.is_in_time(), "{told}");
    };
    makeway_testing::in_real_time_within_or(EXCUSE, here, || {
        makeway_vm::again(
            &format!("--exact {TEST} --nocapture"),
            &[Path::new(MAKEWAY)],
        )
    });
    assert_eq!(wrong, None);
}

/// Asked for of each answer at the 99th percentile, and of the end.
const BAR: Duration = Duration::from_secs(1);
/// The load delays every thread by some 10 ms, so that a failure of any run could be blamed on the machine: it counts unless
/// the machine stalled by more than this.
const EXCUSE: Duration = Duration::from_millis(200);

/// Figures of an overload.
struct Told {
    time: Duration,
    /// Offered load as a multiple of the capacity.
    offered: f64,
    /// Longest times of `status`, `--set`, `down` and SIGTERM.
    took: [Duration; 4],
    asked: usize,
    /// More memory after the first third, in KiB.
    grown: u64,
    egress: Value,
    left: Vec<String>,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [status, set, down, signal] = self.took.map(|took| took.as_millis());
        write!(
            f,
            "{:.1} times the capacity for {} s: status p99 {status} ms, --set p99 {set} ms ({} each), down {down} ms, SIGTERM {signal} ms, memory {:+} KiB",
            self.offered,
            self.time.as_secs(),
            self.asked,
            self.grown
        )
    }
}

impl Told {
    fn is_in_time(&self) -> bool {
        self.offered >= 2.0 && self.took.iter().all(|took| *took < BAR)
    }

    /// A fault that no stall explains.
    fn wrong(&self) -> Option<String> {
        let of = |key: &str| self.egress[key].as_u64().expect(key);
        let drops = self.egress["drops"].as_object().expect("drops").values();
        let drops: u64 = drops.filter_map(Value::as_u64).sum();
        let gone = of("packets_out") + drops + of("backlog_packets");
        if of("packets_in") != gone {
            return Some(format!("{gone} packets left or wait: {}", self.egress));
        }
        // Pages that were taken at the start are counted when they are first used.
        if self.grown > 512 {
            return Some(format!("{} KiB more", self.grown));
        }
        (!self.left.is_empty()).then(|| format!("{:?} is left", self.left))
    }
}

/// The link, in Mbit/s. The one processor of a guest, which takes a nanosecond for an instruction, sends no three times of 20.
fn rate() -> u64 {
    let is_in_guest = std::env::var(makeway_testing::CLOCK).is_ok_and(|clock| clock == "counted");
    if is_in_guest { 5 } else { 20 }
}

/// 3000 packets/s for each Mbit/s, of 200 flows: over three times what the link carries; faster would only take the processors away.
fn flood(stop: &AtomicBool) {
    let each_ms = u128::from(3 * rate());
    let sockets = [(); 200].map(|()| {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.connect("10.9.0.2:4000").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let (begin, mut sent) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        // On a busy machine it falls behind, and is to end all the same.
        while sent < begin.elapsed().as_micros() * each_ms / 1000 && !stop.load(Ordering::Relaxed) {
            for socket in &sockets {
                let _ = socket.send(&[0; 100]);
            }
            sent += sockets.len() as u128;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the flood, also if the test fails.
struct Floods(Arc<AtomicBool>);

impl Drop for Floods {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn overload(time: Duration) -> Told {
    let line = format!("up near --rate {}mbit --backend nfqueue", rate());
    let mut up = Up::start(&line);
    let watch = Watch::open();
    let stop = Arc::new(AtomicBool::new(false));
    let flood = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || flood(&stop))
    };
    let stops = Floods(stop);
    let begin = Instant::now();
    let (mut asked, mut set, mut settled) = (Vec::new(), Vec::new(), 0);
    for round in 0_u64.. {
        if begin.elapsed() > time {
            break;
        }
        let timed = |line: &str| {
            let begin = Instant::now();
            // 200 flows are more than a pipe holds.
            let output = makeway(line).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {said}");
            begin.elapsed()
        };
        asked.push(timed("status near --json"));
        set.push(timed(&format!(
            "up near --set rate={}mbit",
            rate() + round % 2
        )));
        if settled == 0 && begin.elapsed() > time / 3 {
            settled = memory(up.0.id());
        }
        thread::sleep(Duration::from_millis(50));
    }
    let grown = memory(up.0.id()).saturating_sub(settled);
    let told = makeway("status near --json").output().unwrap().stdout;
    let told: Value = serde_json::from_slice(&told).unwrap();
    let egress = told["instances"][0]["directions"][0].clone();
    let of = |key: &str| egress[key].as_u64().unwrap() as f64;
    let offered = of("packets_in") / of("packets_out");
    drop(watch);
    let begin = Instant::now();
    let (ok, said) = say("down near");
    let down = begin.elapsed();
    assert!(ok, "{said}");
    let (status, said) = up.end();
    assert!(status.success(), "{said}");

    let mut up = Up::start(&line);
    // The queue is full.
    thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    up.signal(libc::SIGTERM);
    let (status, said) = up.end();
    let signal = begin.elapsed();
    drop(stops);
    flood.join().unwrap();
    assert!(status.success(), "{said}");

    let asks = asked.len();
    let told = Told {
        time,
        offered,
        took: [p99(asked), p99(set), down, signal],
        asked: asks,
        grown,
        egress,
        left: left(),
    };
    println!("{told}");
    told
}
