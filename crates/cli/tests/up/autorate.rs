// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates that follow a link: `[interface.NAME.autorate]` before a modem whose rates change, with the kernel's TCP.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use super::service::Service;
use super::*;

/// A modem and a server behind it: here 10.9.0.1, the modem 10.9.0.2, the server 10.9.1.2 to 10.9.1.4.
pub struct Line {
    modem: Far,
    server: Far,
}

impl Line {
    /// A link of `up` and `down` Mbit/s, with a FIFO of 300 ms in each direction.
    pub fn new(up: u32, down: u32) -> Self {
        let (modem, server) = (Far::new(), Far::alone());
        let tid = server.tid;
        modem.run(move || {
            ip("link add behind type veth peer name server");
            ip(&format!("link set server netns {tid}"));
            ip("addr add 10.9.1.1/24 dev behind");
            ip("link set behind up");
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        });
        server.run(|| {
            ip("link set lo up");
            for n in 2..5 {
                ip(&format!("addr add 10.9.1.{n}/24 dev server"));
            }
            ip("link set server up");
            ip("route add default via 10.9.1.1");
        });
        ip("route add 10.9.1.0/24 via 10.9.0.2");
        let line = Self { modem, server };
        line.rates("add", up, down);
        line
    }

    /// Sets the rates of the modem, Mbit/s.
    pub fn set(&self, up: u32, down: u32) {
        self.rates("change", up, down);
    }

    fn rates(&self, verb: &'static str, up: u32, down: u32) {
        self.modem.run(move || {
            for (device, mbit) in [("behind", up), ("far", down)] {
                let limit = mbit * 1_000_000 / 8 * 3 / 10;
                tc(&format!(
                    "qdisc {verb} dev {device} root handle 1: tbf rate {mbit}mbit burst 30kb limit {limit}"
                ));
            }
        });
    }

    pub fn at_server<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        self.server.run(f)
    }

    /// Two downloads and an upload without end, of the kernel's TCP; they end with the process.
    fn load(&self) {
        self.load_with(b"ddu");
    }

    /// A download for each `d`, and an upload for each `u`.
    fn load_with(&self, words: &[u8]) {
        let address: SocketAddr = "10.9.1.2:5001".parse().unwrap();
        let listener = self.at_server(move || TcpListener::bind(address).unwrap());
        loss_based(&listener);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut word = [0];
                    stream.read_exact(&mut word).unwrap();
                    match word[0] {
                        b'd' => fill(stream),
                        _ => sink(stream),
                    }
                });
            }
        });
        for &word in words {
            let mut stream = TcpStream::connect(address).unwrap();
            loss_based(&stream);
            stream.write_all(&[word]).unwrap();
            thread::spawn(move || match word {
                b'd' => sink(stream),
                _ => fill(stream),
            });
        }
    }
}

/// A socket that fills the queue before a link, as CUBIC does; those that it accepts do likewise.
fn loss_based(socket: &impl AsRawFd) {
    let name = b"cubic";
    // SAFETY: pointer and length are those of `name`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn fill(mut stream: TcpStream) {
    while stream.write_all(&[0; 16_384]).is_ok() {}
}

fn sink(mut stream: TcpStream) {
    while stream.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {}
}

pub fn tc(line: &str) {
    let status = Command::new("tc").args(line.split(' ')).status();
    assert!(status.expect("tc runs").success(), "tc {line}");
}

/// Autorate's part of the interface's status.
fn autorate() -> Value {
    status()["autorate"].clone()
}

/// Rates of both directions now, in Mbit/s.
fn rates() -> [f64; 2] {
    let all = status();
    [0, 1].map(|n| all["directions"][n]["rate_bps"].as_f64().unwrap() / 1e6)
}

/// Waits until the mean rate over a second has been within these shares of the link's, in each direction.
fn follows(
    directions: &[usize],
    what: &str,
    link: [f64; 2],
    within: std::ops::RangeInclusive<f64>,
) -> Duration {
    let begin = Instant::now();
    let mut left = directions.to_vec();
    until(what, || {
        let all = (0..5).map(|_| {
            thread::sleep(Duration::from_millis(180));
            rates()
        });
        let all: Vec<_> = all.collect();
        let share = |n: usize| all.iter().map(|one| one[n]).sum::<f64>() / 5.0 / link[n];
        println!("{what}: {:.2} and {:.2}", share(0), share(1));
        left.retain(|n| !within.contains(&share(*n)));
        left.is_empty().then_some(())
    });
    begin.elapsed()
}

fn file(keys: &str) -> String {
    format!(
        "[web]\n[interface.near]\nupload = \"5mbit\"\ndownload = \"10mbit\"\nbackend = \"nfqueue\"\n\
         [interface.near.autorate]\nupload = [\"1mbit\", \"16mbit\"]\ndownload = [\"2mbit\", \"60mbit\"]\n{keys}"
    )
}

/// Shares of the link's rate.
const NEAR_THE_LINKS: std::ops::RangeInclusive<f64> = 0.85..=1.05;

/// Traffic before a link that has its rate, less than half of it then, and its rate again.
fn follows_a_link(keys: &str, directions: &[usize], load: impl FnOnce(&Line)) -> (Line, Service) {
    let line = Line::new(8, 24);
    let service = Service::start(&file(keys));
    service.shapes("near", 5_000_000);
    load(&line);
    let reaches = |what, rates| follows(directions, what, rates, NEAR_THE_LINKS);
    let up = reaches("the rates rise to the link's", [8.0, 24.0]);
    line.set(4, 10);
    let down = reaches("the rates fall below the link's", [4.0, 10.0]);
    line.set(8, 24);
    let again = reaches("the rates rise to the link's again", [8.0, 24.0]);
    let told = autorate();
    let [cpu, seconds] = ["cpu_seconds", "seconds"].map(|key| told[key].as_f64().unwrap());
    println!(
        "autorate {keys:?}: up {up:.1?}, down {down:.1?}, up again {again:.1?}; {:.2} % of a processor, {} samples, {} of TCP, {} of calls",
        cpu / seconds * 100.0,
        told["samples"],
        told["tcp_samples"],
        told["call_samples"]
    );
    assert!(cpu / seconds < 0.01, "{told:#}");
    (line, service)
}

/// As [`common::inside_in_real_time`], with this makeway.
fn inside_in_real_time(test: &str) -> bool {
    common::inside_in_real_time(test, &[Path::new(MAKEWAY)])
}

#[test]
fn rates_follow_a_link_by_reflectors_and_the_page_and_metrics_tell_why() {
    if !inside_in_real_time(
        "autorate::rates_follow_a_link_by_reflectors_and_the_page_and_metrics_tell_why",
    ) {
        return;
    }
    let reflectors =
        "reflectors = [\"10.9.1.2\", \"10.9.1.77\", \"10.9.1.3\", \"10.9.1.4\"]\ntcp = false\n";
    let (_line, service) = follows_a_link(reflectors, &[0, 1], Line::load);
    // One of them does not answer: it is asked seldom from then on.
    until("a silent reflector", || {
        (autorate()["reflectors"][1]["is_silent"] == true).then_some(())
    });
    let told = autorate();
    let all = told["reflectors"].as_array().unwrap();
    assert!([0, 2, 3].iter().all(|n| all[*n]["is_silent"] == false));
    assert_eq!(all[0]["kind"], "timestamp", "{told:#}");
    assert_eq!(told["tcp_samples"], 0);
    // The reason is an event of status, of the service's output, and of the page.
    let why = "of delay stand before the link";
    assert!(told["events"].to_string().contains(why), "{told:#}");
    service.says(why);
    until("the reason on the page", || {
        let mut page = TcpStream::connect("127.0.0.1:8480").ok()?;
        let asks = "GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:8480\r\n\r\n";
        page.write_all(asks.as_bytes()).ok()?;
        let mut lines = BufReader::new(page).lines().map_while(Result::ok);
        let state = lines.find(|line| line.starts_with("data:"))?;
        state.contains(why).then_some(())
    });
    let (_, page) = super::metrics::get("127.0.0.1:8480", "/metrics", &[]).unwrap();
    let cuts = page
        .lines()
        .filter(|line| line.starts_with("makeway_autorate_cuts_total{"));
    assert_eq!(cuts.count(), 2, "{page}");
    let (ok, text) = say("status near");
    assert!(
        ok && text.contains("3 reflectors answer, 1 do not"),
        "{text}"
    );
}

#[test]
fn a_download_follows_a_link_by_the_timestamps_of_tcp_alone() {
    if !inside_in_real_time("autorate::a_download_follows_a_link_by_the_timestamps_of_tcp_alone") {
        return;
    }
    // Acknowledgements of the one upload are too few at times: then its rate stays.
    let (_line, _service) = follows_a_link("reflectors = []\n", &[1], Line::load);
    let told = autorate();
    assert!(told["connections"].as_u64() >= Some(3), "{told:#}");
    assert!(told["tcp_samples"].as_u64() > Some(20), "{told:#}");
}

/// A program of ours that runs until it is dropped.
fn runs(line: &str) -> Up {
    Up(makeway(line).stdout(Stdio::null()).spawn().unwrap())
}

#[test]
fn an_upload_follows_a_link_by_the_feedback_of_a_call_alone() {
    if !inside_in_real_time("autorate::an_upload_follows_a_link_by_the_feedback_of_a_call_alone") {
        return;
    }
    let mut call = Vec::new();
    let (_line, _service) = follows_a_link("tcp = false\n", &[0], |line| {
        call.push(line.at_server(|| runs("recv 10.9.1.2:5004")));
        call.push(runs("send 10.9.1.2:5004 --rate 1mbit"));
        line.load_with(b"u");
    });
    let told = autorate();
    assert_eq!(told["calls"], 1, "{told:#}");
    assert!(told["call_samples"].as_u64() > Some(50), "{told:#}");
    assert_eq!(told["tcp_samples"], 0, "{told:#}");
    // Without a sample the download stays at its first rate.
    assert_eq!(rates()[1], 10.0);
    let (ok, text) = say("status near");
    assert!(ok && text.contains("feedback of 1 calls"), "{text}");
    // Of a call that has ended the path is none.
    drop(call);
    until("the end of the call", || {
        (autorate()["calls"] == 0).then_some(())
    });
}

#[test]
fn without_a_sample_rates_stay_and_by_hand_they_change() {
    if !inside_in_real_time("autorate::without_a_sample_rates_stay_and_by_hand_they_change") {
        return;
    }
    let line = Line::new(8, 24);
    let service = Service::start(&file("reflectors = [\"10.9.1.77\"]\ntcp = false\n"));
    let pid = service.shapes("near", 5_000_000);
    line.load();
    service.says(
        "no answer of a reflector, no TCP timestamp and no feedback of a call for 10 s: rates stay",
    );
    assert_eq!(rates(), [5.0, 10.0]);
    let (ok, said) = say("up near --set down=12mbit");
    assert!(ok, "{said}");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(rates(), [5.0, 12.0]);
    assert_eq!(status()["pid"], pid);
    // Bounds hold for those, too.
    say("up near --set down=90mbit");
    until("the upper bound", || (rates()[1] == 60.0).then_some(()));
}
