// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thousand random changes while packets are under way, 200 on the second kernel: qdiscs come and go, interfaces too, and at the
//! end nothing is left of them, no packet, no program, no map, and no complaint of the kernel's.

#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

#[path = "common/frames.rs"]
mod frames;
#[path = "common/guest.rs"]
mod guest;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use frames::{Frames, frame, try_run};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use makeway_core::framing::Framing;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::bpf::{Config, Qdisc};

const INTERFACES: [&str; 4] = ["life0", "life1", "life2", "life3"];
/// Has two queues, and a qdisc for each below mq.
const TWO_QUEUES: &str = "life3";

#[test]
fn nothing_is_left_of_a_thousand_changes_under_traffic() {
    let told = guest::run("guest_", &["dummy"], |guest| guest);
    for ((release, text), changes) in told.into_iter().zip([1000, 200]) {
        let life = format!("\n| life | {changes} changes, ");
        for row in [life.as_str(), "\n| memory | "] {
            assert!(text.contains(row), "Linux {release}: {text}");
        }
    }
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_changes_under_traffic() {
    // Few loads: what they take is for the most part the verifier's. Each discipline is among twelve.
    let (changes, loads) = if guest::is_short() {
        (200, 12)
    } else {
        (1000, 24)
    };
    INTERFACES.into_iter().for_each(make);
    // One-time allocations are there from the first on.
    let mut lives = Lives::default();
    lives.put(0);
    let stop = AtomicBool::new(false);
    let changed = AtomicU32::new(0);
    let before = thread::scope(|scope| {
        let traffic = scope.spawn(|| traffic(&stop, &changed));
        let stops = StopsTraffic(&stop);
        thread::sleep(Duration::from_millis(300));
        lives.take_away();
        let before = packets_of_the_kernel();
        for n in 1..=changes {
            changed.store(n, Ordering::Relaxed);
            match n % (changes / loads) {
                0 => lives.put(n),
                _ => lives.change(n),
            }
        }
        drop(stops);
        let sent = traffic.join().unwrap();
        lives.take_away();
        assert!(sent > u64::from(10 * changes), "{sent} packets sent");
        // Rows of docs/kernel-verifier.md, this one and the last.
        println!(
            "\n| life | {changes} changes, {} qdiscs put on interfaces, {} packets into them of {sent} sent |",
            lives.put, lives.packets,
        );
        before
    });
    let (put, packets) = (lives.put, lives.packets);
    println!("loaded: {:?}", lives.of);
    assert_eq!(lives.of.len(), 7, "{:?}", lives.of);
    assert!(
        put > changes / 50 && packets > 1000,
        "{put} qdiscs, {packets} packets"
    );
    eventually("programs and maps are gone", || {
        let programs = ProgInfoIter::default();
        let ours = programs.filter(|one| one.name.to_string_lossy().contains("_qdisc_"));
        let maps = MapInfoIter::default().filter(|map| {
            let name = map.name.to_string_lossy();
            [
                "slots", "flows", "chains", "users", "nodes", "kinds", "tickets",
            ]
            .contains(&&*name)
        });
        ours.count() + maps.count() == 0
    });
    // A qdisc that lost its packets would have lost hundreds at a time.
    let after = Cell::new(0);
    eventually("packets are freed", || {
        after.set(packets_of_the_kernel());
        println!("{} packets in the kernel's memory", after.get());
        after.get() < before + 300
    });
    println!(
        "\n| memory | {before} packets before, {} after |",
        after.get()
    );
}

/// However the changes end.
struct StopsTraffic<'a>(&'a AtomicBool);

impl Drop for StopsTraffic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A qdisc that is loaded, and where it was put.
struct Live {
    interface: &'static str,
    parent: &'static str,
    qdisc: Qdisc,
}

#[derive(Default)]
struct Lives {
    all: Vec<Live>,
    /// Number of qdiscs put on an interface.
    put: u32,
    /// Number of packets sent into those.
    packets: u64,
    /// How many were loaded of each discipline.
    of: BTreeMap<&'static str, usize>,
}

impl Lives {
    fn change(&mut self, n: u32) {
        let mut random = fastrand::Rng::with_seed(n.into());
        let interface = INTERFACES[random.usize(0..INTERFACES.len())];
        let one = (!self.all.is_empty()).then(|| random.usize(0..self.all.len()));
        match (random.u32(0..100), one) {
            // Another with the same maps is refused.
            (4..6, Some(one)) => {
                let kind = self.all[one].qdisc.kind().to_owned();
                if is_on(&self.all[one]) {
                    let again = format!("tc qdisc replace dev lo root {kind}");
                    assert!(!try_run(&again), "{kind} is on two interfaces");
                }
            }
            // Off and on again.
            (0..4 | 6..10, Some(one)) => {
                let live = &self.all[one];
                let (interface, parent) = (live.interface, live.parent);
                let kind = live.qdisc.kind();
                try_run(&format!("tc qdisc del dev {interface} {parent}"));
                try_run(&format!("tc qdisc add dev {interface} {parent} {kind}"));
            }
            (10..11, Some(one)) => {
                let Live {
                    interface, parent, ..
                } = self.all[one];
                try_run(&format!("tc qdisc del dev {interface} {parent}"));
            }
            // It stays on its interface, and nobody has a hold of it.
            (11..12, Some(one)) => self.leave(one),
            (12..16, _) => {
                try_run(&format!("ip link set {interface} down"));
                try_run(&format!("ip link set {interface} up"));
            }
            (16..17, _) => {
                try_run(&format!("ip link del {interface}"));
                make(interface);
            }
            (17..18, _) => {
                elsewhere(interface);
                make(interface);
            }
            (_, Some(one)) => {
                let rates = [
                    None,
                    Some(100),
                    Some(50_000),
                    Some(10_000_000),
                    Some(10_000_000_000),
                ];
                let rate = rates[random.usize(0..rates.len())].map(Rate::from_bps);
                self.all[one].qdisc.set_rate(rate).unwrap();
                thread::sleep(Duration::from_millis(random.u64(0..10)));
            }
            _ => {}
        }
    }

    fn leave(&mut self, one: usize) {
        let live = self.all.swap_remove(one);
        self.packets += live.qdisc.counters().unwrap().packets_in;
    }

    /// Loads one and puts it on an interface, replacing the present one.
    fn put(&mut self, n: u32) {
        let mut random = fastrand::Rng::with_seed(n.into());
        let interface = INTERFACES[random.usize(0..INTERFACES.len())];
        let limits = Limits {
            packets: random.u32(1..2000),
            bytes: Bytes::new(random.u64(10_000..16 << 20)),
            flows: 1000,
        };
        // More often where the verifier has least to look at.
        let disciplines = [
            Discipline::Sqf,
            Discipline::Fq,
            Discipline::Fifo,
            Discipline::Fifo,
            Discipline::Fifo,
            Discipline::Hier,
            Discipline::Makeway,
            Discipline::Ncq,
            Discipline::Ncq,
            Discipline::Ncq,
            Discipline::Tred,
            Discipline::Tred,
        ];
        let loaded = self.of.values().sum::<usize>();
        let discipline = disciplines[loaded % disciplines.len()];
        *self.of.entry(discipline.name()).or_default() += 1;
        let mut spec = discipline.spec();
        let drop_from = ["head", "tail"][random.usize(0..2)];
        if matches!(
            discipline,
            Discipline::Sqf | Discipline::Fq | Discipline::Hier
        ) {
            spec.set("drop_from", drop_from).unwrap();
        }
        let config = Config {
            rate: Some(Rate::from_bps(100_000)),
            framing: Framing::ETHERNET,
            seed: n.into(),
            ..Config::new(spec, limits)
        };
        let qdisc = Qdisc::load(&format!("life{n}"), &config).unwrap();
        let mut parent = "root";
        if interface == TWO_QUEUES {
            parent = ["parent 8:1", "parent 8:2"][random.usize(0..2)];
        }
        let kind = qdisc.kind();
        if try_run(&format!("tc qdisc replace dev {interface} {parent} {kind}")) {
            self.put += 1;
        }
        self.all.push(Live {
            interface,
            parent,
            qdisc,
        });
        if self.all.len() > 6 {
            // With what it holds, if it is still there.
            let oldest = self.all.remove(0);
            self.check(&oldest);
        }
    }

    /// Everything, and checks what was counted.
    fn take_away(&mut self) {
        for live in &self.all {
            try_run(&format!(
                "tc qdisc del dev {} {}",
                live.interface, live.parent
            ));
        }
        for live in std::mem::take(&mut self.all) {
            self.check(&live);
        }
        for interface in INTERFACES {
            try_run(&format!("ip link del {interface}"));
            make(interface);
        }
    }

    /// Every arrival has left or was dropped, once the qdisc is on no interface any more.
    fn check(&mut self, live: &Live) {
        let Live {
            interface,
            parent,
            qdisc,
        } = live;
        if is_on(live) {
            try_run(&format!("tc qdisc del dev {interface} {parent}"));
        }
        let kind = qdisc.kind();
        eventually(&format!("{kind}: in = out + dropped"), || {
            let counters = qdisc.counters().unwrap();
            let dropped: u64 = counters.drops().map(|(_, n)| n).sum();
            counters.packets_in == counters.packets_out + dropped
        });
        self.packets += qdisc.counters().unwrap().packets_in;
    }
}

/// Whether tc shows it where it was put.
fn is_on(live: &Live) -> bool {
    let shown = Command::new("/bin/tc")
        .args(["qdisc", "show", "dev", live.interface])
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    shown.contains(&format!("qdisc {} ", live.qdisc.kind()))
}

fn make(interface: &'static str) {
    let queues = if interface == TWO_QUEUES {
        "numtxqueues 2 "
    } else {
        ""
    };
    try_run(&format!("ip link add {interface} {queues}type dummy"));
    try_run(&format!("ip link set {interface} up"));
    if interface == TWO_QUEUES {
        try_run(&format!(
            "tc qdisc replace dev {interface} root handle 8: mq"
        ));
    }
}

/// Moves the interface to another network namespace, which ends with it.
fn elsewhere(interface: &str) {
    let (moved, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let namespace = thread::spawn(move || {
        // SAFETY: only this thread's network namespace changes.
        let thread = unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNET), 0);
            libc::gettid()
        };
        tell.send(thread).unwrap();
        let _ = wait.recv();
    });
    let thread = told.recv().unwrap();
    try_run(&format!("ip link set {interface} netns {thread}"));
    drop(moved);
    namespace.join().unwrap();
}

/// Sends on all interfaces that there are, as many packets for each change however long it takes; how many.
fn traffic(stop: &AtomicBool, changed: &AtomicU32) -> u64 {
    let mut random = fastrand::Rng::with_seed(1);
    let mut sent = 0;
    let mut sockets = INTERFACES.map(|_| None);
    while !stop.load(Ordering::Relaxed) {
        // More would take the processors from the changes.
        thread::sleep(Duration::from_millis(20));
        if sent > 400 + 40 * u64::from(changed.load(Ordering::Relaxed)) {
            continue;
        }
        for (interface, socket) in INTERFACES.into_iter().zip(&mut sockets) {
            if socket.is_none() {
                *socket = Frames::try_sent(interface).ok();
            }
            let burst = 10;
            let goes = |frames: &mut Frames| {
                (0..burst)
                    .all(|_| frames.try_send(&frame(0, random.u32(0..300), random.usize(60..1514))))
            };
            // An interface of that name is another one now.
            if socket.as_mut().is_some_and(goes) {
                sent += burst;
            } else {
                *socket = None;
            }
        }
    }
    sent
}

/// Heads of packets that the kernel has allocated.
fn packets_of_the_kernel() -> u64 {
    let mut settled = u64::MAX;
    // Memory is freed after a grace period.
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(100));
        let _ = fs::write("/sys/kernel/slab/skbuff_head_cache/shrink", "1");
        let slabs = fs::read_to_string("/proc/slabinfo").unwrap();
        let mut lines = slabs.lines();
        let heads = lines
            .find(|line| line.starts_with("skbuff_head_cache "))
            .unwrap();
        let active = heads.split_whitespace().nth(1).unwrap().parse().unwrap();
        settled = settled.min(active);
    }
    settled
}

/// The guest's clock is that of the host, which may be busy: the kernel's own threads come late.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        thread::sleep(Duration::from_millis(50));
    }
}
