// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package in a machine of its own: a guest of Debian's packages whose first process is systemd. It is installed as the guide
//! says, has a file of five lines, and shapes from the next boot on; a call beside downloads is clean, and traffic goes on through a reload,
//! other names, a cable, a device that goes and comes, an upgrade, a `kill -9` and the purge. A second machine follows further pages of the
//! guide, and a third has an earlier version, which is upgraded. `make installed` runs it; it takes root, minutes, and Debian's mirror.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod deb;
mod guide;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use makeway_vm::{Kernel, Vm, cache, system};
use serde_json::Value;

use deb::{package, package_of, run};

/// Without a line of the guest's: on a busy machine it takes ten times as long as on a quiet one.
const LIMIT: Duration = Duration::from_secs(1800);
/// In the guest.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time without a packet that a change may take.
const LONGEST: Duration = Duration::from_secs(1);
/// Libraries of the program, the tool of its rules, the tools that make the link, and those that the guide names.
const PACKAGES: [&str; 6] = [
    "iproute2",
    "iputils-ping",
    "libelf1",
    "nftables",
    "sudo",
    "zlib1g",
];
const MODULES: [&str; 9] = [
    "veth",
    "ifb",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
    "sch_tbf",
    "sch_netem",
    "sch_fq_codel",
    "sch_cake",
];

/// The line: a modem with a FIFO of 300 ms each way at 10 Mbit/s, and a server 10 ms behind it. It belongs to the machine, and is there at each boot. A
/// question of ARP, lost as a link comes up, is asked again after 0.1 s instead of the kernel's 1 s, which is no time of ours.
const LINE: &str = "set -e
line() {
    ip link add wan0 type veth peer name far netns modem
    ip addr add 10.9.0.1/24 dev wan0
    echo 100 >/proc/sys/net/ipv4/neigh/wan0/retrans_time_ms
    ip netns exec modem sh -c 'echo 100 >/proc/sys/net/ipv4/neigh/far/retrans_time_ms'
    ip link set wan0 up
    ip -n modem addr add 10.9.0.2/24 dev far
    ip -n modem link set far up
    ip route add 10.9.1.0/24 via 10.9.0.2
    ip netns exec modem tc qdisc add dev far root tbf rate 10mbit burst 15kb limit 375kb
}
if [ \"$1\" = again ]; then line; exit; fi
ip netns add modem
ip netns add server
line
ip -n modem link add behind type veth peer name server netns server
ip -n modem addr add 10.9.1.1/24 dev behind
ip -n modem link set behind up
ip -n server addr add 10.9.1.2/24 dev server
ip -n server link set server up
ip -n server route add default via 10.9.1.1
ip netns exec server tc qdisc add dev server root netem delay 10ms limit 10000
ip netns exec modem sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
ip netns exec modem tc qdisc add dev behind root tbf rate 10mbit burst 15kb limit 375kb
";
const LINE_UNIT: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh /etc/line\n[Install]\nWantedBy=multi-user.target\n";
/// Five lines.
const FILE: &str = "# /etc/makeway/makeway.toml\n[interface.wan0]\nupload = \"9500kbit\"\ndownload = \"9mbit\"\nlink = \"ethernet\"\n";

#[test]
#[ignore = "takes minutes: make installed"]
fn traffic_goes_on_from_the_installation_to_the_purge() {
    let [_, kernel] = Kernel::with_bpf_qdiscs(&cache()).unwrap();
    let image = system::debian(&PACKAGES, &cache()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [disk, other, third] = ["disk", "other", "third"].map(|name| folder.path().join(name));
    let [first, second] = ["1.0-1", "1.0-2"].map(|version| package(version, folder.path()));
    let files = [
        (Path::new(&first), "/first.deb"),
        (Path::new(&second), "/second.deb"),
    ];
    system::copy(&image, &disk, &files).unwrap();
    system::copy(&image, &other, &files).unwrap();
    let mut parts = vec![
        ("guide::the_page_is_followed", &disk),
        ("shapes_and_goes_on", &disk),
        ("guide::others::the_other_pages_are_followed", &other),
    ];
    if let Some(earlier) = earlier(folder.path()) {
        let files = [(Path::new(&earlier), "/earlier.deb"), files[0]];
        system::copy(&image, &third, &files).unwrap();
        parts.push(("an_earlier_version_is_upgraded", &third));
    }
    let test = std::env::current_exe().unwrap();
    let name = test.file_name().unwrap().to_str().unwrap();
    for (part, disk) in parts {
        let guest = MODULES.into_iter().fold(Vm::new(&kernel), Vm::module);
        let guest = guest.counting().memory(1024).disk(disk).program(&test);
        let command = format!("{name} --exact {part} --ignored --nocapture");
        let output = guest.run(&command, LIMIT).unwrap();
        println!("{}", output.text);
        assert_eq!(output.status, 0, "{}", output.console);
        assert!(output.text.contains("1 passed"), "{}", output.text);
        for bad in ["WARNING:", "BUG:", "refcount"] {
            assert!(!output.console.contains(bad), "{}", output.console);
        }
    }
}

/// Package of the earlier version that `scripts/previous` has built.
fn earlier(folder: &Path) -> Option<String> {
    let built = std::env::var_os("MAKEWAY_PREVIOUS").filter(|built| !built.is_empty());
    let Some(built) = built.map(PathBuf::from) else {
        println!("no earlier version was built: the upgrade is of one build with two numbers");
        return None;
    };
    println!("an upgrade is of the earlier version {}", built.display());
    let [program, sources] = ["makeway", "tree"].map(|name| built.join(name));
    Some(package_of(&program, &sources, "0.9-1", folder))
}

#[test]
#[ignore = "runs in the guest"]
fn an_earlier_version_is_upgraded() {
    has_line();
    shell("dpkg -i /earlier.deb");
    fs::write("/etc/makeway/makeway.toml", FILE).unwrap();
    let before = shapes(9_500_000, 9_000_000, 0);
    let program = || shell("sha256sum </usr/bin/makeway");
    let earlier = program();
    let loads = [(5001, false), (5002, true)].map(|(port, down)| transfer(port, down));
    thread::sleep(Duration::from_secs(10));
    let gaps = Gaps::start();
    gaps.are_below(LONGEST, "transfers under the earlier version");
    let got = loads.each_ref().map(Transfer::got);

    // If the package's own file has changed too, dpkg asks, and the user's stays.
    shell("dpkg --force-confold -i /first.deb");
    shapes(9_500_000, 9_000_000, pid(&before));
    gaps.are_below(LONGEST, "the upgrade of the earlier version");
    assert!(shell("dpkg -s makeway").contains("Version: 1.0-1\n"));
    assert_ne!(
        earlier,
        program(),
        "the same program: name another PREVIOUS"
    );
    thread::sleep(Duration::from_secs(5));
    for (load, got) in loads.iter().zip(got) {
        let more = load.got() - got;
        assert!(more > 1_000_000, "transfers go on: {more} bytes");
    }
    gaps.end();
    for load in loads {
        load.stop();
    }
    let said = shell("makeway doctor wan0");
    assert!(said.contains(" checks: 0 faults,"), "{said}");
}

#[test]
#[ignore = "runs in the guest"]
fn shapes_and_goes_on() {
    // Nothing but the boot has started it.
    let booted = shapes(9_500_000, 9_000_000, 0);
    assert_eq!(booted["backend"], "bpf", "{booted:#}");
    println!("{}", shell("systemd-analyze time | head -1"));
    println!(
        "booted: {}, {} and {} bit/s, {:.0} s after the kernel",
        booted["backend"].as_str().unwrap(),
        booted["directions"][0]["rate_bps"],
        booted["directions"][1]["rate_bps"],
        fs::read_to_string("/proc/uptime")
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap(),
    );
    // Ten transfers one way, then ten the other way, with makeway and without it.
    let mut loads = Vec::new();
    for (n, what) in [(0, "ten uploads"), (1, "ten downloads")] {
        let ports = 5001 + 100 * n as u16..5011 + 100 * n as u16;
        let mut load: Vec<_> = ports.map(|port| transfer(port, n == 1)).collect();
        // Ten slow starts at once fill the queue of the link itself; of downloads that is before us, and drains by the margin of the rate alone.
        thread::sleep(Duration::from_secs(10));
        let shaped = call();
        shell("systemctl stop makeway");
        thread::sleep(Duration::from_secs(4));
        let unshaped = call();
        shell("systemctl start makeway");
        shapes(9_500_000, 9_000_000, 0);
        println!("a call beside {what}: {shaped:?}\nwithout makeway: {unshaped:?}");
        // A frame of the call is late after 50 ms; the link holds 300 ms.
        assert!(shaped.iter().all(|one| one.lost <= 1 && one.p99_ms < 50.0));
        assert!(unshaped[n].median_ms > 100.0);
        // Of each way one goes on.
        loads.push(load.swap_remove(0));
        for one in load {
            one.stop();
        }
    }
    let first = pid(&shapes(9_500_000, 9_000_000, 0));
    let before: Vec<_> = loads.iter().map(Transfer::got).collect();

    let gaps = Gaps::start();
    let done = |step: &str, limit: Duration| gaps.are_below(limit, step);
    done("nothing", LONGEST);

    fs::write("/etc/makeway/makeway.toml", FILE.replace("9500", "8500")).unwrap();
    shell("systemctl reload makeway");
    assert_eq!(pid(&shapes(8_500_000, 9_000_000, 0)), first, "no new start");
    done("reload", LONGEST);

    shell("ip link set wan0 name wan9");
    until("the end of the old name's", || {
        status().is_none().then_some(())
    });
    assert!(!shell("tc qdisc show").contains("makeway"));
    done("another name", LONGEST);
    shell("ip link set wan9 name wan0");
    let second = pid(&shapes(8_500_000, 9_000_000, first));
    done("the name again", LONGEST);

    shell("ip -n modem link set far down");
    thread::sleep(Duration::from_secs(2));
    gaps.again(|| drop(shell("ip -n modem link set far up")));
    done("the cable again", LONGEST);
    assert_eq!(pid(&shapes(8_500_000, 9_000_000, 0)), second);

    shell("ip link del wan0");
    until("the end with the device", || {
        status().is_none().then_some(())
    });
    gaps.again(|| drop(shell("sh /etc/line again")));
    let third = pid(&shapes(8_500_000, 9_000_000, second));
    done("the device again", LONGEST);

    shell("dpkg -i /second.deb");
    assert!(shell("dpkg -s makeway").contains("Version: 1.0-2\n"));
    let fourth = pid(&shapes(8_500_000, 9_000_000, third));
    done("the upgrade", LONGEST);

    let main = property("MainPID");
    shell(&format!("kill -9 {main}"));
    shapes(8_500_000, 9_000_000, fourth);
    assert_ne!(property("MainPID"), main);
    assert_eq!(property("NRestarts"), "1");
    done("kill -9 of the service", LONGEST);

    shell("apt-get purge -q -y makeway");
    done("the purge", LONGEST);
    assert!(!shell("tc qdisc show; ip link").contains("makeway"));
    assert!(!shell("ip link").contains("mwifb"));
    let left = shell(
        "find / -xdev -name '*makeway*' -not -path '/var/log/*' -not -path '/var/lib/apt/*'; find /run /sys/fs/bpf -name '*makeway*'",
    );
    assert_eq!(left, "", "nothing is left");
    for (load, before) in loads.iter().zip(before) {
        let more = load.got() - before;
        assert!(more > 1_000_000, "transfers go on: {more} bytes");
    }
    gaps.end();
}

/// A router's link, which is there at each boot.
fn has_line() {
    fs::write("/etc/line", LINE).unwrap();
    fs::write("/etc/systemd/system/line.service", LINE_UNIT).unwrap();
    shell("systemctl -q enable --now line");
}

/// Runs it by the shell; its output.
fn shell(line: &str) -> String {
    run(Command::new("sh")
        .args(["-c", line])
        .env("DEBIAN_FRONTEND", "noninteractive"))
    .trim()
    .to_owned()
}

fn property(name: &str) -> String {
    shell(&format!("systemctl show makeway --value -p {name}"))
}

/// Status of wan0; `None` if nothing shapes it.
fn status() -> Option<Value> {
    let output = Command::new("makeway")
        .args(["status", "wan0", "--json"])
        .output()
        .ok()?;
    let all: Value = serde_json::from_slice(&output.stdout).ok()?;
    let one = all["instances"][0].clone();
    one["directions"].is_array().then_some(one)
}

/// Waits until a process that is not `not_by` has these rates; its status.
fn shapes(up: u64, down: u64, not_by: u64) -> Value {
    until(&format!("rates of {up} and {down}"), || {
        let now = status()?;
        let rates = [0, 1].map(|n| now["directions"][n]["rate_bps"].as_u64());
        let is_new = ![0, not_by].contains(&pid(&now));
        (is_new && rates == [Some(up), Some(down)]).then_some(now)
    })
}

fn pid(status: &Value) -> u64 {
    status["pid"].as_u64().unwrap_or(0)
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = begin.elapsed();
        let why = || shell("systemctl status makeway; journalctl -u makeway | tail -20; true");
        assert!(waited < PATIENCE, "{what} took too long\n{}", why());
        thread::sleep((waited / 8).clamp(Duration::from_millis(50), Duration::from_millis(500)));
    }
}

/// Runs `f` in the server's network namespace.
fn at_server<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(|| {
        use std::os::fd::AsRawFd;
        let space = fs::File::open("/run/netns/server").unwrap();
        // SAFETY: the descriptor is open; only this thread's network namespace changes.
        let entered = unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0);
        f()
    });
    thread.join().unwrap()
}

/// A transfer that does not stop by itself.
struct Transfer {
    got: Arc<AtomicU64>,
    sender: TcpStream,
}

/// From the server to here, or from here to the server.
fn transfer(port: u16, is_download: bool) -> Transfer {
    let listener = at_server(move || TcpListener::bind(("10.9.1.2", port)).unwrap());
    let here = TcpStream::connect(("10.9.1.2", port)).unwrap();
    let there = listener.accept().unwrap().0;
    let [mut receiver, sender] = match is_download {
        true => [here, there],
        false => [there, here],
    };
    let got = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&got);
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok(n @ 1..) = receiver.read(&mut buffer) {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    let mut sends = sender.try_clone().unwrap();
    thread::spawn(move || {
        let chunk = vec![7; 16_384];
        while sends.write_all(&chunk).is_ok() {}
    });
    Transfer { got, sender }
}

impl Transfer {
    /// Bytes that came.
    fn got(&self) -> u64 {
        self.got.load(Ordering::Relaxed)
    }

    fn stop(self) {
        // Either end may have gone.
        let _ = self.sender.shutdown(Shutdown::Both);
    }
}

/// Sockets of both ways, up then down: that which receives at `port`, and the sender.
fn ways(port: u16) -> [[UdpSocket; 2]; 2] {
    let [there, sends] =
        at_server(move || [port, 0].map(|port| UdpSocket::bind(("10.9.1.2", port)).unwrap()));
    // On any address: the device with it may go.
    let [here, from_here] = [port, 0].map(|port| UdpSocket::bind(("0.0.0.0", port)).unwrap());
    from_here.connect(("10.9.1.2", port)).unwrap();
    sends.connect(("10.9.0.1", port)).unwrap();
    [[there, from_here], [here, sends]]
}

/// One way of a call.
#[derive(Debug)]
struct Heard {
    lost: usize,
    median_ms: f64,
    p99_ms: f64,
}

/// A call of 50 packets of 200 B a second for six seconds: up, then down.
fn call() -> [Heard; 2] {
    const PACKETS: usize = 300;
    let epoch = Instant::now();
    let both = ways(4000).map(|[receiver, sender]| {
        let wait = Some(Duration::from_secs(2));
        receiver.set_read_timeout(wait).unwrap();
        let hears = thread::spawn(move || {
            let (mut delays, mut packet) = (Vec::new(), [0; 200]);
            while delays.len() < PACKETS && receiver.recv(&mut packet).is_ok() {
                let sent = u64::from_be_bytes(packet[..8].try_into().unwrap());
                delays.push((epoch.elapsed().as_micros() as u64 - sent) as f64 / 1e3);
            }
            delays
        });
        thread::spawn(move || {
            let begin = Instant::now();
            for n in 1..=PACKETS as u32 {
                let mut packet = [0; 200];
                packet[..8].copy_from_slice(&(epoch.elapsed().as_micros() as u64).to_be_bytes());
                let _ = sender.send(&packet);
                let next = begin + Duration::from_millis(20) * n;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        hears
    });
    both.map(|hears| {
        let mut delays = hears.join().unwrap();
        delays.sort_by(f64::total_cmp);
        let at = |share: f64| delays[(delays.len() as f64 * share) as usize];
        Heard {
            lost: PACKETS - delays.len(),
            median_ms: at(0.5),
            p99_ms: at(0.99),
        }
    })
}

/// A packet each 10 ms each way, and the longest time between two that arrive.
struct Gaps {
    stop: Arc<AtomicBool>,
    /// ns since the start: the last arrival of each way, and the longest time without one.
    last: [Arc<AtomicU64>; 2],
    longest: [Arc<AtomicU64>; 2],
    begin: Instant,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Gaps {
    fn start() -> Self {
        let new = || [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let mut gaps = Self {
            stop: Arc::default(),
            last: new(),
            longest: new(),
            begin: Instant::now(),
            threads: Vec::new(),
        };
        for (n, [receiver, sender]) in ways(4001).into_iter().enumerate() {
            receiver
                .set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            let [sends, receives] = [(); 2].map(|()| Arc::clone(&gaps.stop));
            gaps.threads.push(thread::spawn(move || {
                while !sends.load(Ordering::Relaxed) {
                    // There may be no way just now.
                    let _ = sender.send(&[0; 200]);
                    thread::sleep(Duration::from_millis(10));
                }
            }));
            let [last, longest] = [&gaps.last[n], &gaps.longest[n]].map(Arc::clone);
            let begin = gaps.begin;
            gaps.threads.push(thread::spawn(move || {
                while !receives.load(Ordering::Relaxed) {
                    let came = receiver.recv(&mut [0; 300]).is_ok();
                    let now = begin.elapsed().as_nanos() as u64;
                    let since = now.saturating_sub(last.load(Ordering::Relaxed));
                    longest.fetch_max(since, Ordering::Relaxed);
                    if came {
                        last.store(now, Ordering::Relaxed);
                    }
                }
            }));
        }
        gaps
    }

    /// The longest of each way since the last call.
    fn lap(&self) -> [Duration; 2] {
        let taken = self
            .longest
            .each_ref()
            .map(|one| one.swap(0, Ordering::Relaxed));
        taken.map(Duration::from_nanos)
    }

    /// A step has ended, in which no gap was as long as `limit`.
    fn are_below(&self, limit: Duration, step: &str) {
        thread::sleep(Duration::from_millis(300));
        let longest = self.lap();
        println!("{step}: the longest time without a packet up, down: {longest:?}");
        assert!(
            longest.iter().all(|one| *one < limit),
            "{step}: {longest:?}"
        );
    }

    /// Nothing could pass until now: counts from the end of `f`, which makes a way again.
    fn again(&self, f: impl FnOnce()) {
        f();
        let now = self.begin.elapsed().as_nanos() as u64;
        for last in &self.last {
            last.fetch_max(now, Ordering::Relaxed);
        }
        self.lap();
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}
