// SPDX-License-Identifier: MIT OR Apache-2.0
//! Qdiscs in the kernel against core: the same packets, sent while the link is as good as stopped and let go at once,
//! leave in the same order, and the same ones are dropped, for the same reasons.

#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

#[path = "bpf_parity/changes.rs"]
mod changes;
#[path = "common/frames.rs"]
mod frames;
#[path = "common/guest.rs"]
mod guest;
#[path = "bpf_parity/verifier.rs"]
mod verifier;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use frames::{Frames, GSO_HEADER, LINK, frame, headers, run};
use makeway_core::framing::{Cells, Framing};
use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::sched::{Discipline, Drops, Limits, Spec, build};
use makeway_core::units::{Bytes, Instant, Rate};
use makeway_gateway::bpf::{Config, Qdisc};

const FLOWS: u32 = 2000;
const PACKETS: u32 = 2500;
/// One qdisc is filled and emptied so often on the first kernel, once on the second.
const ROUNDS: u32 = 4;
/// A full frame takes two minutes.
const STOPPED: Rate = Rate::from_bps(100);
const ADSL: Framing = Framing {
    overhead: 32,
    mpu: 100,
    cells: Cells::Atm,
};

#[test]
fn the_kernels_qdiscs_do_what_core_does() {
    let told = guest::run("guest_", &["dummy"], |guest| guest.counting());
    for ((release, text), rounds) in told.into_iter().zip([ROUNDS, 1]) {
        for discipline in ["sqf", "makeway"] {
            let done = format!("{discipline}: {} packets", rounds * PACKETS);
            assert!(text.contains(&done), "Linux {release}: {text}");
        }
        assert!(text.contains("\n| parity | "), "Linux {release}: {text}");
        assert!(verifier::all_are_in(&text), "Linux {release}: {text}");
    }
}

/// An interface of its own with the qdisc on it, of a tc kind of its own.
fn put(interface: &str, kind: &str, config: &Config) -> Qdisc {
    run(&format!("ip link add {interface} type dummy"));
    run(&format!("ip link set {interface} up"));
    let qdisc = Qdisc::load(kind, config).unwrap();
    verifier::looks_at(config.spec.discipline());
    run(&format!("tc qdisc replace dev {interface} root {kind}"));
    qdisc
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_departures_and_drops_are_cores() {
    // No packets of the kernel's own.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let most = if guest::is_short() { 1 } else { ROUNDS };
    let disciplines = [
        Discipline::Fifo,
        Discipline::Sqf,
        Discipline::Fq,
        Discipline::Makeway,
    ];
    let (mut qdiscs, mut packets) = (0, 0);
    for (i, discipline) in disciplines.into_iter().enumerate() {
        let links = [
            (most, 1000, 16 << 20, "head", Framing::default()),
            (1, 1000, 400_000, "tail", ADSL),
            (1, 131_072, 1_200_000, "head", Framing::ETHERNET),
            (1, 500, 1200, "head", Framing::default()),
        ];
        for (j, (rounds, limit_packets, limit_bytes, drop_from, framing)) in
            links.into_iter().enumerate()
        {
            // Each of them twice on the second kernel, too: most of the time is the verifier's, for each qdisc that is loaded.
            if guest::is_short() && (i + j) % 2 == 1 {
                continue;
            }
            let limits = Limits {
                packets: limit_packets,
                bytes: Bytes::new(limit_bytes),
                flows: FLOWS,
            };
            let mut spec = discipline.spec();
            if matches!(discipline, Discipline::Sqf | Discipline::Fq) {
                spec.set("drop_from", drop_from).unwrap();
            }
            let config = Config {
                rate: Some(STOPPED),
                framing,
                seed: 77,
                ..Config::new(spec, limits)
            };
            let n = i * links.len() + j + 1;
            agrees(&format!("d{n}"), &format!("makeway{n}"), &config, rounds);
            println!("{discipline}: {} packets, as core", rounds * PACKETS);
            qdiscs += 1;
            packets += rounds * PACKETS;
        }
    }
    // A row of docs/kernel-verifier.md.
    println!("\n| parity | {qdiscs} qdiscs, {packets} packets |");
}

/// The kernel's departures and drops by reason beside core's, in rounds on one qdisc.
fn agrees(interface: &str, kind: &str, config: &Config, rounds: u32) {
    let qdisc = put(interface, kind, config);
    let heard = Frames::heard(interface);
    let sent = Frames::sent(interface);
    let mut core = build(&config.spec, &config.env()).unwrap();
    let mut drops = Drops::default();
    let mut reasons = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(kind.len() as u64);
    let mut bytes_in = 0;
    // To within what a packet takes of the guest's time: `makeway` changes a flow's class after 250 ms and more.
    let start = std::time::Instant::now();
    let now = || Instant::from_nanos(start.elapsed().as_nanos() as u64);
    for round in 0..rounds {
        if round > 0 && matches!(config.spec, Spec::Makeway(_)) {
            // The kernel's packets leave a little later than core's: flows are forgotten, so that no rule of time tells.
            std::thread::sleep(Duration::from_secs(4));
        }
        qdisc.set_rate(Some(STOPPED)).unwrap();
        let mut expected = Vec::new();
        for n in 0..PACKETS {
            let number = round * PACKETS + n;
            // The first keeps the link busy; then few flows with much, and many with little.
            let (flow, len) = match (n, random.u32(0..3)) {
                (0, _) => (0, 1100),
                (_, 0) => (random.u32(0..5), random.usize(1000..=1514)),
                (_, _) => (random.u32(0..FLOWS), random.usize(60..=1514)),
            };
            sent.send(&frame(number, flow, len));
            let wire = config.framing.wire(Bytes::new((len - LINK) as u64));
            bytes_in += wire.get();
            let (handle, flow) = (Handle(number), FlowId(flow));
            let packet = Packet::new(now(), handle, flow, UserId(0), wire);
            core.enqueue(now(), packet, &mut drops);
            if n == 0 {
                expected.extend(core.dequeue(now(), &mut drops));
            }
        }
        // `makeway` judges a new flow that waits for half a second: here each has, on both sides.
        std::thread::sleep(Duration::from_millis(600));
        while let Some(packet) = core.dequeue(now(), &mut drops) {
            expected.push(packet);
        }
        for (_, reason) in drops.drain() {
            *reasons.entry(reason.name()).or_insert(0) += 1;
        }
        qdisc.set_rate(None).unwrap();
        for (n, packet) in expected.iter().enumerate() {
            let left = heard
                .next(Duration::from_secs(10))
                .map(|frame| number_of(&frame));
            assert_eq!(
                left,
                Some(packet.handle.0),
                "{config:?}, round {round}, departure {n}"
            );
        }
        let more = heard.next(Duration::from_millis(20));
        assert!(more.is_none(), "round {round}: more than core sends");
    }
    let counters = qdisc.counters().unwrap();
    let dropped: BTreeMap<_, _> = counters.drops().collect();
    assert_eq!(dropped, reasons, "{config:?}");
    assert!(!reasons.is_empty(), "no limit was hit: {config:?}");
    assert_eq!(counters.bytes_in, bytes_in);
    let dropped = dropped.values().sum::<u64>();
    assert_eq!(counters.packets_in, counters.packets_out + dropped);
    run(&format!("ip link del {interface}"));
}

fn number_of(frame: &[u8]) -> u32 {
    let number = frame.get(LINK + 28..LINK + 32).unwrap();
    u32::from_be_bytes(number.try_into().unwrap())
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_a_gso_packet_costs_what_its_segments_cost() {
    let vdsl = Framing {
        overhead: -10,
        mpu: 1000,
        cells: Cells::Ptm,
    };
    for (n, framing) in [Framing::ETHERNET, ADSL, vdsl].into_iter().enumerate() {
        let limits = Limits {
            packets: 1000,
            bytes: Bytes::new(16 << 20),
            flows: FLOWS,
        };
        let config = Config {
            framing,
            ..Config::new(Discipline::Fifo.spec(), limits)
        };
        let interface = format!("g{n}");
        let qdisc = put(&interface, &format!("gso{n}"), &config);
        run(&format!("ip addr add 10.{n}.0.1/16 dev {interface}"));
        // The qdisc has the whole packet, and the kernel cuts it then.
        run(&format!("ip link set {interface} gso_max_size 1000"));
        let heard = Frames::heard(&interface);
        let check = |what: &str, least| {
            let mut frames = Vec::new();
            let wait = Duration::from_millis(200);
            frames.extend(std::iter::from_fn(|| heard.next(wait)));
            let ip_lengths = frames
                .iter()
                .map(|frame| Bytes::new((frame.len() - LINK) as u64));
            let bytes: u64 = ip_lengths.map(|len| framing.wire(len).get()).sum();
            assert!(frames.len() >= least, "{what}: {} frames", frames.len());
            bytes
        };
        let mut before = qdisc.counters().unwrap();
        let mut came = |what: &str, least| {
            let bytes = check(what, least);
            let after = qdisc.counters().unwrap();
            let packets = after.packets_in - before.packets_in;
            assert!(
                packets < least as u64,
                "{what}: {packets} packets were not GSO"
            );
            assert_eq!(
                after.bytes_in - before.bytes_in,
                bytes,
                "{what}, {framing:?}"
            );
            before = after;
        };

        let socket = UdpSocket::bind(format!("10.{n}.0.1:0")).unwrap();
        for (size, payload) in [(1200, 40_000), (1400, 2801), (300, 18_000), (1000, 5000)] {
            segment(&socket, size);
            socket
                .send_to(&vec![0; payload], format!("10.{n}.0.2:9"))
                .unwrap();
            came("UDP_SEGMENT", payload / size as usize);
        }
        // From a guest of ours, say: the kernel counts the segments itself.
        let raw = Frames::sent(&interface).with_gso();
        for (size, payload, options) in [(1448, 28_960, 12), (1460, 60_001, 0), (500, 1001, 12)] {
            raw.send(&tcp_to_segment(size, payload, options));
            came("TCP of a guest", payload / usize::from(size));
        }
        println!("{framing:?}: as the segments");
        run(&format!("ip link del {interface}"));
    }
}

fn segment(socket: &UdpSocket, size: i32) {
    const UDP_SEGMENT: i32 = 103;
    let len = size_of_val(&size) as u32;
    // SAFETY: the size lives until the call returns.
    let set = unsafe {
        let size = (&raw const size).cast();
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            UDP_SEGMENT,
            size,
            len,
        )
    };
    assert_eq!(set, 0);
}

/// A TCP segment with a number of bytes of options, to be cut to `size`.
fn tcp_to_segment(size: u16, payload: usize, options: usize) -> Vec<u8> {
    const NEEDS_CHECKSUM: u8 = 1;
    const TCPV4: u8 = 1;
    let tcp = 20 + options;
    let headers_len = LINK + 20 + tcp;
    let mut frame = vec![0; headers_len + payload];
    headers(&mut frame, 6, 0);
    frame[LINK + 32] = (tcp / 4) as u8 * 16;
    let [h, s] = [headers_len as u16, size].map(u16::to_le_bytes);
    let [start, offset] = [LINK as u16 + 20, 16].map(u16::to_le_bytes);
    let header: [u8; GSO_HEADER] = [
        NEEDS_CHECKSUM,
        TCPV4,
        h[0],
        h[1],
        s[0],
        s[1],
        start[0],
        start[1],
        offset[0],
        offset[1],
    ];
    [&header[..], &frame].concat()
}

/// `hier` on a link as good as stopped.
fn stopped(discipline: Discipline) -> Config {
    let limits = Limits {
        packets: 1000,
        bytes: Bytes::new(16 << 20),
        flows: FLOWS,
    };
    Config {
        rate: Some(STOPPED),
        seed: 77,
        ..Config::new(discipline.spec(), limits)
    }
}

/// Everything that leaves once the link is let go, by the number at the end of each frame.
fn let_go(qdisc: &Qdisc, heard: &Frames) -> Vec<u32> {
    qdisc.set_rate(None).unwrap();
    let mut left = Vec::new();
    let mut wait = Duration::from_secs(10);
    while let Some(frame) = heard.next(wait) {
        let number = frame[frame.len() - 4..].try_into().unwrap();
        left.push(u32::from_be_bytes(number));
        wait = Duration::from_millis(500);
    }
    left
}

/// Sizes that make one path of a tree whose priorities are the public hash of an index, as they once were.
#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_flows_of_chosen_sizes_hold_nobody_up() {
    const ATTACKERS: u32 = 199;
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let known_priority = |node: u32| {
        let hash = (node + 1).wrapping_mul(0x9e37_79b1);
        (hash ^ hash >> 15).wrapping_mul(0x85eb_ca77)
    };
    let mut by_priority: Vec<u32> = (0..ATTACKERS).collect();
    // The first flow has the packet that keeps the link busy; then indices are handed out in order.
    by_priority.sort_by_key(|i| std::cmp::Reverse(known_priority((i + 2) << 1)));
    let mut lens = [0; ATTACKERS as usize];
    for (&i, rank) in by_priority.iter().zip(0..) {
        lens[i as usize] = 500 - rank;
    }
    let config = stopped(Discipline::Hier);
    let qdisc = put("a0", "attack0", &config);
    let (heard, sent) = (Frames::heard("a0"), Frames::sent("a0"));
    let send = |number: u32, flow: u32, len: usize, host: u8| {
        let mut frame = frame(number, flow, len);
        frame[LINK + 19] = host;
        frame[len - 4..].copy_from_slice(&number.to_be_bytes());
        sent.send(&frame);
    };
    send(9000, 9000, 1500, 9);
    send(9001, 9001, 1500, 9);
    for (i, len) in (0..ATTACKERS).zip(lens) {
        send(i, i, len, 1);
    }
    // A second packet for those at the end of the path: they change their places.
    for (&i, n) in by_priority.iter().rev().take(20).zip(1000..) {
        send(n, i, 100, 1);
    }
    let left = let_go(&qdisc, &heard).len();
    // Another host comes once the tree has been walked.
    for number in 8000..8020 {
        send(number, 8000, 200, 2);
    }
    let of_victim = let_go(&qdisc, &heard).len();
    println!("{of_victim} of the victim's 20 left, {left} of the others' 221");
    assert_eq!((of_victim, left), (20, 221));
    run("ip link del a0");
}

/// A flow label is its sender's to choose.
#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_rotating_flow_labels_are_one_flow() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let qdisc = put("a1", "attack1", &stopped(Discipline::Sqf));
    let (heard, sent) = (Frames::heard("a1"), Frames::sent("a1"));
    let send = |number: u32, label: u32, port: u8, options: bool, len: usize| {
        let mut frame = vec![0; len];
        frame[..LINK].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
        let [_, a, b, c] = label.to_be_bytes();
        let payload = ((len - LINK - 40) as u16).to_be_bytes();
        let next = if options { 60 } else { 17 };
        frame[LINK..LINK + 8].copy_from_slice(&[
            0x60,
            a & 15,
            b,
            c,
            payload[0],
            payload[1],
            next,
            64,
        ]);
        (frame[LINK + 23], frame[LINK + 39]) = (1, 2);
        let mut at = LINK + 40;
        if options {
            // Destination options of eight bytes: PadN.
            frame[at..at + 4].copy_from_slice(&[17, 0, 1, 4]);
            at += 8;
        }
        frame[at..at + 4].copy_from_slice(&[4, port, 19, 136]);
        frame[len - 4..].copy_from_slice(&number.to_be_bytes());
        sent.send(&frame);
    };
    for options in [false, true] {
        qdisc.set_rate(Some(STOPPED)).unwrap();
        send(900, 1, 9, options, 1200);
        for n in 0..10 {
            send(n, 0x1357 * (n + 1), 1, options, 300);
        }
        for n in 10..12 {
            send(n, 5, 2, options, 600);
        }
        let left = let_go(&qdisc, &heard);
        // 1200 bytes wait of the steady flow and 3000 of the other, of any label.
        assert_eq!(left.len(), 13, "{left:?}");
        assert_eq!(left[1..3], [10, 11], "with options {options}: {left:?}");
    }
    run("ip link del a1");
}
