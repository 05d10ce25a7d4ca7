// SPDX-License-Identifier: MIT OR Apache-2.0
//! The datapath on a real link: each test in namespaces of its own.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod common;
#[path = "common/masqueraded.rs"]
mod masqueraded;
#[path = "common/translated.rs"]
mod translated;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use common::{Far, inside_in_order, inside_in_real_time};
use makeway_core::framing::Framing;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::datapath::{
    AttachError, BindError, Change, Datapath, DatapathConfig, Impairments, Stats,
};
use makeway_gateway::rules::{self, Direction, Rules};

fn config(queue_num: u16, rate: Option<u64>) -> DatapathConfig {
    let limits = Limits {
        packets: 100,
        bytes: Bytes::new(200_000),
        flows: 256,
    };
    DatapathConfig {
        framing: Framing {
            overhead: 14,
            ..Framing::default()
        },
        ..DatapathConfig::new(
            queue_num,
            Discipline::Fifo.spec(),
            limits,
            rate.map(Rate::from_bps),
        )
    }
}

fn conserved(stats: &Stats) {
    let held = stats.backlog_packets + stats.delayed_packets;
    let out = stats.packets_out + stats.dropped() + held;
    assert_eq!(stats.packets_in, out, "{stats:?}");
}

/// Sends datagrams of `bytes` as fast as they go until `time` is over; how many.
fn flood(time: Duration, bytes: usize) -> u64 {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.connect("10.9.0.2:5000").unwrap();
    let (end, mut sent) = (Instant::now() + time, 0);
    while Instant::now() < end {
        sent += u64::from(socket.send(&[0; 1000][..bytes]).is_ok());
    }
    sent
}

#[test]
fn a_shaped_flood_leaves_at_the_rate() {
    if !inside_in_real_time("a_shaped_flood_leaves_at_the_rate", &[]) {
        return;
    }
    let far = Far::new();
    let _sink = far.udp(5000);
    let mut config = config(5, Some(20_000_000));
    // Long enough for a sender that a busy machine holds up, and below what the sockets' own buffers
    // hold, so that packets are dropped.
    config.limits.packets = 300;
    config.limits.bytes = Bytes::new(600_000);
    let handle = Datapath::spawn(config).unwrap();
    let rules = Rules::install("near", Direction::Egress, 5).unwrap();
    let senders = [(); 6].map(|()| {
        thread::spawn(|| {
            // They fill all processors, and the datapath must not wait behind them.
            // SAFETY: plain numbers; on Linux 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
            flood(Duration::from_millis(1500), 1000)
        })
    });
    thread::sleep(Duration::from_millis(300));
    let before = handle.snapshot().unwrap();
    thread::sleep(Duration::from_millis(1000));
    let after = handle.snapshot().unwrap();
    for sender in senders {
        sender.join().unwrap();
    }
    drop(rules);
    let bits = (after.bytes_out - before.bytes_out) as f64 * 8.0;
    let rate = bits / (after.seconds - before.seconds);
    assert!((rate / 20e6 - 1.0).abs() < 0.01, "{rate}");
    conserved(&after);
    assert!(after.drops["tail"] > 0);
    let last = handle.stop().unwrap();
    conserved(&last);
    assert_eq!(last.backlog_packets, 0);
}

#[test]
fn tcp_is_segmented_before_it_is_queued_both_ways() {
    if !inside_in_order("tcp_is_segmented_before_it_is_queued_both_ways", &[]) {
        return;
    }
    let far = Far::new();
    let egress = Datapath::spawn(config(5, None)).unwrap();
    let ingress = Datapath::spawn(config(6, None)).unwrap();
    let _egress = Rules::install("near", Direction::Egress, 5).unwrap();
    let _ingress = Rules::install("near", Direction::Ingress, 6).unwrap();
    let listener = far.run(|| TcpListener::bind("10.9.0.2:6000").unwrap());
    const BYTES: usize = 4 << 20;
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; BYTES];
        stream.read_exact(&mut buffer).unwrap();
        stream.write_all(&buffer).unwrap();
    });
    let mut stream = TcpStream::connect("10.9.0.2:6000").unwrap();
    let mut buffer = vec![7; BYTES];
    stream.write_all(&buffer).unwrap();
    stream.read_exact(&mut buffer).unwrap();
    server.join().unwrap();
    for handle in [&egress, &ingress] {
        let stats = handle.snapshot().unwrap();
        conserved(&stats);
        assert!(stats.bytes_out > BYTES as u64, "{stats:?}");
        assert_eq!(stats.largest_bytes, 1514);
    }
}

#[test]
fn changes_under_traffic_lose_nothing() {
    if !inside_in_real_time("changes_under_traffic_lose_nothing", &[]) {
        return;
    }
    let far = Far::new();
    let sink = far.udp(5000);
    sink.set_nonblocking(true).unwrap();
    let handle = Datapath::spawn(config(5, Some(10_000_000))).unwrap();
    let rules = Rules::install("near", Direction::Egress, 5).unwrap();
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.connect("10.9.0.2:5000").unwrap();
    let (mut received, mut buffer) = (0, [0; 2000]);
    // CAKE drops from the first burst of 10 that it sees: some of it waits longer than its target. A discipline that writes tags is refused.
    let calm = |one: &Discipline| *one != Discipline::Cake && !one.spec().needs().writes_tags;
    let disciplines: Vec<_> = Discipline::ALL.into_iter().filter(calm).collect();
    // 8 Mbit/s in bursts of 10, below every rate that is set.
    for round in 0..100u64 {
        for _ in 0..10 {
            socket.send(&[0; 1000]).unwrap();
        }
        let rate = Rate::from_bps(9_000_000 + round * 100_000);
        handle
            .set(Change {
                rate: Some(Some(rate)),
                discipline: Some(disciplines[round as usize % disciplines.len()]),
                ..Change::default()
            })
            .unwrap();
        thread::sleep(Duration::from_millis(10));
        while sink.recv(&mut buffer).is_ok() {
            received += 1;
        }
    }
    drop(rules);
    let stats = handle.stop().unwrap();
    thread::sleep(Duration::from_millis(50));
    while sink.recv(&mut buffer).is_ok() {
        received += 1;
    }
    conserved(&stats);
    assert_eq!(stats.dropped(), 0, "{stats:?}");
    assert_eq!(received, 1000);
}

#[test]
fn a_delay_line_delays_and_loses_as_told() {
    if !inside_in_real_time("a_delay_line_delays_and_loses_as_told", &[]) {
        return;
    }
    let far = Far::new();
    let sink = far.udp(5000);
    let mut config = config(5, None);
    config.impairments = Impairments {
        delay: makeway_core::units::Duration::from_millis(30),
        ..Impairments::default()
    };
    let handle = Datapath::spawn(config).unwrap();
    let _rules = Rules::install("near", Direction::Egress, 5).unwrap();
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.send_to(b"x", "10.9.0.2:5000").unwrap();
    sink.recv(&mut [0; 10]).unwrap();
    let start = Instant::now();
    socket.send_to(b"x", "10.9.0.2:5000").unwrap();
    sink.recv(&mut [0; 10]).unwrap();
    let ms = start.elapsed().as_secs_f64() * 1e3;
    // Late on a busy machine, never early.
    assert!((30.0..130.0).contains(&ms), "{ms}");
    conserved(&handle.snapshot().unwrap());
}

#[test]
fn a_queue_that_is_taken_is_refused() {
    if !inside_in_order("a_queue_that_is_taken_is_refused", &[]) {
        return;
    }
    let first = Datapath::spawn(config(5, None)).unwrap();
    let error = Datapath::spawn(config(5, None)).unwrap_err();
    assert!(
        matches!(error, AttachError::Bind(BindError::Taken(5))),
        "{error}"
    );
    let mut next = config(5, None);
    next.any_queue = true;
    assert_eq!(Datapath::spawn(next).unwrap().queue_num(), 6);
    first.stop().unwrap();
}

#[test]
fn rules_go_when_dropped_and_by_name() {
    if !inside_in_order("rules_go_when_dropped_and_by_name", &[]) {
        return;
    }
    for direction in Direction::BOTH {
        let installed = || rules::installed("near", direction).unwrap();
        assert!(!installed());
        let rules = Rules::install("near", direction, 5).unwrap();
        assert!(installed());
        // From another thread too.
        thread::spawn(move || drop(rules)).join().unwrap();
        assert!(!installed());
        // As after a kill: nobody is left who knows of them.
        Rules::install("near", direction, 5).unwrap().forget();
        Rules::install("near", direction, 6).unwrap().forget();
        assert!(rules::remove("near", direction).unwrap());
        assert!(!installed());
        assert!(!rules::remove("near", direction).unwrap());
    }
}

#[test]
fn a_link_of_no_rate_drops_nothing_and_every_packet_is_counted() {
    if !inside_in_order(
        "a_link_of_no_rate_drops_nothing_and_every_packet_is_counted",
        &[],
    ) {
        return;
    }
    let far = Far::new();
    let sink = far.udp(5000);
    sink.set_nonblocking(true).unwrap();
    let handle = Datapath::spawn(config(5, None)).unwrap();
    let rules = Rules::install("near", Direction::Egress, 5).unwrap();
    let sent: u64 = thread::scope(|scope| {
        let floods = [(); 12].map(|()| scope.spawn(|| flood(Duration::from_millis(700), 18)));
        floods.into_iter().map(|one| one.join().unwrap()).sum()
    });
    drop(rules);
    let stats = handle.stop().unwrap();
    conserved(&stats);
    assert!(!stats.drops.contains_key("tail"), "{stats:?}");
    // A few more than were sent: neighbour discovery of IPv6.
    assert!(stats.packets_in >= sent, "{sent} {stats:?}");
    assert!(stats.packets_in < sent + 20, "{sent} {stats:?}");
}

/// A counter of this namespace's `/proc/net/netstat`.
fn netstat(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut pairs = names.split(' ').zip(values.split(' '));
        if let Some((_, value)) = pairs.find(|(other, _)| *other == name) {
            return value.parse().unwrap();
        }
    }
    panic!("no counter {name}");
}

#[test]
fn tcp_with_ecn_is_marked_instead_of_dropped() {
    if !inside_in_order("tcp_with_ecn_is_marked_instead_of_dropped", &[]) {
        return;
    }
    let far = Far::new();
    // BBR, where it is the default, keeps its queue below CoDel's target.
    let understand_marks = || {
        std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
        std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap();
    };
    understand_marks();
    far.run(understand_marks);
    let mut config = config(5, Some(8_000_000));
    config.spec = Discipline::Makeway.spec();
    config.limits.packets = 1000;
    config.limits.bytes = Bytes::new(2_000_000);
    let handle = Datapath::spawn(config).unwrap();
    let rules = Rules::install("near", Direction::Egress, 5).unwrap();
    let Some(_) = rules.marking() else {
        assert!(
            !rules.tool().contains("nft") || rules.tool().contains("iptables"),
            "{}",
            rules.tool()
        );
        return makeway_testing::skip("nft cannot mark here: packets are dropped instead");
    };
    handle.mark_by(&rules).unwrap();
    let listener = far.run(|| TcpListener::bind("10.9.0.2:6000").unwrap());
    const BYTES: usize = 3 << 20;
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; BYTES];
        stream.read_exact(&mut buffer).unwrap();
    });
    let mut stream = TcpStream::connect("10.9.0.2:6000").unwrap();
    stream.write_all(&vec![7; BYTES]).unwrap();
    server.join().unwrap();
    let stats = handle.snapshot().unwrap();
    conserved(&stats);
    // CoDel slows it down, and loses nothing: the kernel's receiver saw each mark.
    assert!(stats.marked_out > 0 && stats.dropped() == 0, "{stats:?}");
    assert_eq!(far.run(|| netstat("InCEPkts")), stats.marked_out);
}
