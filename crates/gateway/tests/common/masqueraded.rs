// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router that masquerades, two hosts behind it, and a server to which both send and from which both receive.

#![allow(dead_code)] // Not every test that has it uses all of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Far, ip};

/// Rate of the link to the server in bit/s, each way.
pub const RATE: u64 = 8_000_000;
/// Connections of each host in each direction.
const CONNECTIONS: [usize; 2] = [10, 1];
const SETTLES: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(5);
/// Nothing is under way any more when nothing arrived for so long.
const QUIET: Duration = Duration::from_millis(500);
/// Ports of the server: uploads, downloads.
const PORTS: [u16; 2] = [6000, 7000];

/// Bytes that arrived of each host.
type Counts = Arc<[AtomicU64; 2]>;

/// Senders wait while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set(&self, is_open: bool) {
        *self.0.0.lock().unwrap() = is_open;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let closed = |is_open: &mut bool| !*is_open;
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), closed));
    }
}

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V4,
    V6,
}

/// Shares of the host with one connection, and sums in bit/s: of uploads, of downloads.
pub type Shares = [(f64, f64); 2];

/// The hosts, and the server behind the interface `near`.
pub struct Net {
    versions: Vec<Version>,
    server: Far,
    hosts: [Far; 2],
}

impl Net {
    pub fn new(versions: &[Version]) -> Self {
        let net = Self {
            versions: versions.into(),
            server: Far::new(),
            hosts: [
                Far::at("lan0", "host0", "192.168.1"),
                Far::at("lan1", "host1", "192.168.2"),
            ],
        };
        for version in versions {
            match version {
                Version::V4 => {
                    for (host, router) in net.hosts.iter().zip(["192.168.1.1", "192.168.2.1"]) {
                        host.run(move || ip(&format!("route add default via {router}")));
                    }
                }
                Version::V6 => net.add_addresses(),
            }
        }
        net
    }

    /// Gives each its address of IPv6.
    fn add_addresses(&self) {
        let hosts = self.hosts.iter().zip(["lan0", "lan1"]);
        for (n, (host, near)) in hosts.enumerate() {
            let network = format!("fd00:{}:", n + 1);
            ip(&format!("-6 addr add {network}:1/64 dev {near} nodad"));
            host.run(move || {
                ip(&format!("-6 addr add {network}:2/64 dev host{n} nodad"));
                ip(&format!("-6 route add default via {network}:1"));
            });
        }
        ip("-6 addr add fd00:9::1/64 dev near nodad");
        let server = || ip("-6 addr add fd00:9::2/64 dev far nodad");
        self.server.run(server);
    }

    /// Forwards, with the router's address as the source.
    pub fn masquerade(&self) {
        self.versions.iter().copied().for_each(Self::masquerade_of);
    }

    fn masquerade_of(version: Version) {
        let (family, forward) = match version {
            Version::V4 => ("ip", "ipv4/ip_forward"),
            Version::V6 => ("ip6", "ipv6/conf/all/forwarding"),
        };
        let rules = format!(
            "table {family} translation {{\n\
             chain out {{\n\
             type nat hook postrouting priority srcnat\n\
             oifname \"near\" masquerade\n\
             }}\n}}\n"
        );
        let mut nft = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = nft.stdin.take().unwrap();
        input.write_all(rules.as_bytes()).unwrap();
        drop(input);
        assert!(nft.wait().unwrap().success());
        std::fs::write(format!("/proc/sys/net/{forward}"), "1").unwrap();
    }

    /// Packets leave their senders one by one, none larger than the MTU: a qdisc of the kernel does not cut them.
    pub fn send_single_packets(&self) {
        self.server.run(|| ip("link set dev far gso_max_segs 1"));
        for (n, host) in self.hosts.iter().enumerate() {
            host.run(move || ip(&format!("link set dev host{n} gso_max_segs 1")));
        }
    }

    /// Connections of each host, which wait to be measured.
    pub fn transfers(&self, version: Version) -> Transfers {
        let at = |port: u16| match version {
            Version::V4 => format!("10.9.0.2:{port}"),
            Version::V6 => format!("[fd00:9::2]:{port}"),
        };
        let (counts, gate) = (<[Counts; 2]>::default(), Gate::default());
        let [up, down] = PORTS.map(|port| {
            let address = at(port);
            self.server.run(move || TcpListener::bind(address).unwrap())
        });
        let uploads = Arc::clone(&counts[0]);
        thread::spawn(move || {
            for stream in up.incoming() {
                let mut stream = stream.unwrap();
                let mut host = [0];
                stream.read_exact(&mut host).unwrap();
                count(stream, host[0].into(), &uploads);
            }
        });
        let served = gate.clone();
        thread::spawn(move || {
            down.incoming()
                .for_each(|stream| send(stream.unwrap(), &served));
        });
        for (host, far) in self.hosts.iter().enumerate() {
            for _ in 0..CONNECTIONS[host] {
                let [mut upload, download] = PORTS.map(|port| {
                    let address = at(port);
                    far.run(move || TcpStream::connect(address).unwrap())
                });
                upload.write_all(&[host as u8]).unwrap();
                send(upload, &gate);
                count(download, host, &counts[1]);
            }
        }
        Transfers(counts, gate)
    }
}

/// Bytes that the server has of each host's uploads, and each host of its downloads.
pub struct Transfers([Counts; 2], Gate);

impl Transfers {
    /// Lets them go on and measures for some seconds, once they have settled. Afterwards they wait, and the link is idle.
    pub fn shares(&self) -> Shares {
        let all = || self.0.each_ref().map(read);
        self.1.set(true);
        thread::sleep(SETTLES);
        let before = all();
        thread::sleep(MEASURED);
        let after = all();
        self.1.set(false);
        let mut now = all();
        loop {
            thread::sleep(QUIET);
            let later = all();
            if std::mem::replace(&mut now, later) == later {
                break;
            }
        }
        [0, 1].map(|way| {
            let [many, one] = [0, 1].map(|host| (after[way][host] - before[way][host]) as f64);
            let rate = (many + one) * 8.0 / MEASURED.as_secs_f64();
            (one / (many + one), rate)
        })
    }
}

/// Checks that each host has half of a link that is full, both ways.
pub fn are_equal(shares: &Shares) {
    for (direction, (share, rate)) in ["up", "down"].into_iter().zip(shares) {
        println!("{direction}: {share:.3} of {rate:.0} bit/s to the host with one connection");
        assert!((0.42..0.58).contains(share), "{direction}: {share}");
        assert!(*rate > 0.8 * RATE as f64, "{direction}: {rate}");
    }
}

/// Reads until the connection ends.
fn count(mut stream: TcpStream, host: usize, counts: &Counts) {
    let counts = Arc::clone(counts);
    thread::spawn(move || {
        let mut buffer = [0; 1 << 14];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            counts[host].fetch_add(n as u64, Ordering::Relaxed);
        }
    });
}

fn send(mut stream: TcpStream, gate: &Gate) {
    let gate = gate.clone();
    thread::spawn(move || {
        gate.pass();
        while stream.write_all(&[7; 1 << 14]).is_ok() {
            gate.pass();
        }
    });
}

fn read(counts: &Counts) -> [u64; 2] {
    [0, 1].map(|host| counts[host].load(Ordering::Relaxed))
}
