// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users behind a router that masquerades, in namespaces of a guest: Debian's kernels tell the packet queue of connections, which not
//! every kernel does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use makeway_core::flow::Identity;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::datapath::{Datapath, DatapathConfig};
use makeway_gateway::rules::{Direction, Rules};
use makeway_testing::{CLOCK, skip};

use crate::common::{self, Far};

const RATE: u64 = 8_000_000;
/// Connections of each host in each direction.
const CONNECTIONS: [usize; 2] = [10, 1];
const SETTLES: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(5);

/// Bytes that arrived of each host.
type Counts = Arc<[AtomicU64; 2]>;

fn masquerade() {
    let rules = "table ip translation {\n\
                 chain out {\n\
                 type nat hook postrouting priority srcnat\n\
                 oifname \"near\" masquerade\n\
                 }\n}\n";
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    nft.stdin
        .take()
        .unwrap()
        .write_all(rules.as_bytes())
        .unwrap();
    assert!(nft.wait().unwrap().success());
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
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

fn send(mut stream: TcpStream) {
    thread::spawn(move || while stream.write_all(&[7; 1 << 14]).is_ok() {});
}

/// Bytes that the server has of each host's uploads, and each host of its downloads.
fn transfers(server: &Far, hosts: &[Far; 2]) -> [Counts; 2] {
    let counts: [Counts; 2] = Default::default();
    let [up, down] = ["10.9.0.2:6000", "10.9.0.2:7000"]
        .map(|address| server.run(move || TcpListener::bind(address).unwrap()));
    let uploads = Arc::clone(&counts[0]);
    thread::spawn(move || {
        for stream in up.incoming() {
            let mut stream = stream.unwrap();
            let mut host = [0];
            stream.read_exact(&mut host).unwrap();
            count(stream, host[0].into(), &uploads);
        }
    });
    thread::spawn(move || down.incoming().for_each(|stream| send(stream.unwrap())));
    for (host, far) in hosts.iter().enumerate() {
        for _ in 0..CONNECTIONS[host] {
            let mut upload = far.run(|| TcpStream::connect("10.9.0.2:6000").unwrap());
            upload.write_all(&[host as u8]).unwrap();
            send(upload);
            let download = far.run(|| TcpStream::connect("10.9.0.2:7000").unwrap());
            count(download, host, &counts[1]);
        }
    }
    counts
}

fn read(counts: &Counts) -> [u64; 2] {
    [0, 1].map(|host| counts[host].load(Ordering::Relaxed))
}

#[test]
fn hosts_behind_a_router_that_masquerades_have_equal_shares_both_ways() {
    let test = "translated::hosts_behind_a_router_that_masquerades_have_equal_shares_both_ways";
    if std::env::var_os(CLOCK).is_none_or(|clock| clock != "counted") {
        if let Err(why) = makeway_vm::again(&format!("--exact {test} --nocapture"), &[]) {
            skip(why);
        }
        return;
    }
    let server = Far::new();
    let hosts = [
        Far::at("lan0", "host0", "192.168.1"),
        Far::at("lan1", "host1", "192.168.2"),
    ];
    for (host, router) in hosts.iter().zip(["192.168.1.1", "192.168.2.1"]) {
        host.run(move || common::ip(&format!("route add default via {router}")));
    }
    masquerade();
    let limits = Limits {
        packets: 200,
        bytes: Bytes::new(400_000),
        flows: 256,
    };
    let mut running = Vec::new();
    for (direction, users) in [
        (Direction::Egress, Identity::SrcHost),
        (Direction::Ingress, Identity::DstHost),
    ] {
        let rate = Some(Rate::from_bps(RATE));
        let datapath = Datapath::spawn(DatapathConfig {
            any_queue: true,
            users,
            ..DatapathConfig::new(5, Discipline::Makeway.spec(), limits, rate)
        })
        .unwrap();
        let rules = Rules::install("near", direction, datapath.queue_num()).unwrap();
        running.push((rules, datapath));
    }
    let counts = transfers(&server, &hosts);
    thread::sleep(SETTLES);
    let before = counts.each_ref().map(read);
    thread::sleep(MEASURED);
    let after = counts.each_ref().map(read);
    for (way, direction) in ["up", "down"].into_iter().enumerate() {
        let [many, one] = [0, 1].map(|host| (after[way][host] - before[way][host]) as f64);
        let rate = (many + one) * 8.0 / MEASURED.as_secs_f64();
        let share = one / (many + one);
        println!("{direction}: {share:.3} of {rate:.0} bit/s to the host with one connection");
        assert!((0.42..0.58).contains(&share), "{direction}: {share}");
        assert!(rate > 0.8 * RATE as f64, "{direction}: {rate}");
    }
    drop(running);
}
