// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of a qdisc that runs: its packets stay, and the next one meets the new settings.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use makeway_core::framing::Framing;
use makeway_core::sched::Discipline;
use makeway_core::units::Bytes;
use makeway_gateway::bpf::{Config, Qdisc};

use super::frames::{Frames, LINK, frame, run};
use super::{STOPPED, let_go, put, stopped};

/// Changes the settings of a qdisc that has `from`; the new ones.
fn set(qdisc: &Qdisc, from: &Config, change: impl Fn(&mut Config)) -> Config {
    let mut to = from.clone();
    change(&mut to);
    assert!(qdisc.takes(from, &to).unwrap(), "{to:?}");
    qdisc.set(from, &to).unwrap();
    to
}

fn dropped(qdisc: &Qdisc) -> u64 {
    qdisc.counters().unwrap().drops().map(|(_, n)| n).sum()
}

fn held(qdisc: &Qdisc) -> u64 {
    let counters = qdisc.counters().unwrap();
    counters.packets_in - counters.packets_out - dropped(qdisc)
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_limits_and_framing_change_while_it_runs() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let mut config = stopped(Discipline::Sqf);
    config.limits.packets = 100;
    let qdisc = put("c0", "change0", &config);
    let (heard, sent) = (Frames::heard("c0"), Frames::sent("c0"));
    let mut numbers = 0..;
    let mut send = |n: usize| {
        for number in numbers.by_ref().take(n) {
            sent.send(&frame(number, number % 5, 1000));
        }
    };
    // The first leaves, and keeps the link busy.
    send(61);
    assert_eq!((held(&qdisc), dropped(&qdisc)), (60, 0));
    let low = set(&qdisc, &config, |to| to.limits.packets = 20);
    assert_eq!(held(&qdisc), 60);
    send(1);
    assert_eq!((held(&qdisc), dropped(&qdisc)), (20, 41));
    let high = set(&qdisc, &low, |to| to.limits.packets = 900);
    send(500);
    assert_eq!((held(&qdisc), dropped(&qdisc)), (520, 41));

    let before = qdisc.counters().unwrap().bytes_in;
    let framed = set(&qdisc, &high, |to| to.framing = Framing::ETHERNET);
    send(1);
    let wire = Framing::ETHERNET.wire(Bytes::new(1000 - LINK as u64));
    assert_eq!(qdisc.counters().unwrap().bytes_in - before, wire.get());

    // The maps have room for 1000 packets.
    let mut large = framed.clone();
    large.limits.packets = 1001;
    assert!(!qdisc.takes(&framed, &large).unwrap());
    large.limits.packets = 0;
    let error = qdisc.takes(&framed, &large).unwrap_err().to_string();
    assert!(error.contains("holds 1 to 131072"), "{error}");

    // All of them leave once the rate is gone.
    set(&qdisc, &framed, |to| to.rate = None);
    let left = std::iter::from_fn(|| heard.next(Duration::from_millis(500))).count();
    assert_eq!((left, held(&qdisc), dropped(&qdisc)), (522, 0, 41));
    run("ip link del c0");
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_parameters_change_while_it_runs() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let config = stopped(Discipline::Ncq);
    let qdisc = put("c1", "change1", &config);
    let sent = Frames::sent("c1");
    let favoured = || {
        let before = qdisc.counters().unwrap().favoured;
        (0..10).for_each(|n| sent.send(&frame(n, n, 100)));
        qdisc.counters().unwrap().favoured - before
    };
    // The first is no share of those before it; after that 5 % of 10 are none.
    assert_eq!(favoured(), 1);
    let all = set(&qdisc, &config, |to| {
        to.spec.set("ncq.threshold", "1").unwrap();
    });
    assert_eq!(favoured(), 10);
    let none = set(&qdisc, &all, |to| {
        to.spec.set("ncq.length", "50B").unwrap();
    });
    assert_eq!(favoured(), 0);
    let mut window = none.clone();
    window.spec.set("ncq.window", "300").unwrap();
    assert!(!qdisc.takes(&none, &window).unwrap());
    run("ip link del c1");
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by the test above in a guest"]
fn guest_weights_are_of_their_hosts_and_change_while_it_runs() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let host = |n: u8| IpAddr::from([10, 2, 0, n]);
    for (n, discipline) in [Discipline::Hier, Discipline::Makeway]
        .into_iter()
        .enumerate()
    {
        let interface = format!("w{n}");
        let config = Config {
            weights: vec![(host(2), 3)],
            ..stopped(discipline)
        };
        let qdisc = put(&interface, &format!("weigh{n}"), &config);
        let (heard, sent) = (Frames::heard(&interface), Frames::sent(&interface));
        let send = |to: u8, number: u32| {
            let mut frame = frame(number, to.into(), 1000);
            frame[LINK + 19] = to;
            frame[996..].copy_from_slice(&number.to_be_bytes());
            sent.send(&frame);
        };
        // How many of the first 40 that wait go to each of the two hosts.
        let served = || {
            qdisc.set_rate(Some(STOPPED)).unwrap();
            // Two keep the link busy.
            send(9, 9000);
            send(9, 9001);
            // A queue that has stood is bulk under makeway, once another packet comes; two seconds later nothing is dropped for its fall any more.
            for (number, ms) in [(9002, 300), (9003, 2100)] {
                send(1, number);
                send(2, number);
                thread::sleep(Duration::from_millis(ms));
            }
            for number in 0..40 {
                send(1, number);
                send(2, 1000 + number);
            }
            let left = let_go(&qdisc, &heard);
            let waited: Vec<u32> = left.into_iter().filter(|number| *number < 9000).collect();
            let second = waited[..40].iter().filter(|number| **number >= 1000);
            (waited.len(), second.count())
        };
        let (all, second) = served();
        println!("{discipline}, weights 1 and 3: {second} of 40");
        assert!(all == 80 && (26..=34).contains(&second), "{all} {second}");
        let other = set(&qdisc, &config, |to| to.weights = vec![(host(1), 3)]);
        let (all, second) = served();
        println!("{discipline}, weights 3 and 1: {second} of 40");
        assert!(all == 80 && (6..=14).contains(&second), "{all} {second}");
        set(&qdisc, &other, |to| to.weights.clear());
        let (all, second) = served();
        assert!(all == 80 && (16..=24).contains(&second), "{all} {second}");
        run(&format!("ip link del {interface}"));
    }
}
