// SPDX-License-Identifier: MIT OR Apache-2.0
mod known;

use std::net::IpAddr;

use makeway_core::loss::Loss;
use makeway_core::sched::{Class, Discipline};
use proptest::prelude::*;

use super::super::impair::Impairments;
use super::super::message::Verdict;
use super::super::stats::FlowStats;
use super::*;

fn config(packets: u32, rate: Option<Rate>) -> DatapathConfig {
    let limits = makeway_core::sched::Limits {
        packets,
        bytes: Bytes::new(10_000_000),
        flows: 64,
    };
    DatapathConfig::new(1, Discipline::Fifo.spec(), limits, rate)
}

/// IPv4, UDP, from 10.0.0.1 port `flow`.
fn headers(flow: u16) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[0] = 0x45;
    bytes[3] = 28;
    bytes[9] = 17;
    bytes[12..16].copy_from_slice(&[10, 0, 0, 1]);
    bytes[16..20].copy_from_slice(&[10, 0, 0, 2]);
    bytes[20..22].copy_from_slice(&flow.to_be_bytes());
    bytes[25] = 8;
    bytes
}

fn arrive(pipeline: &mut Pipeline, now: Instant, id: u32, flow: u16, verdicts: &mut Verdicts) {
    let queued = Queued {
        id,
        ethertype: 0x0800,
        len: 1000,
        mark: 0,
        translated: None,
        headers: &headers(flow),
    };
    pipeline.arrive(now, &queued, verdicts);
}

fn conserved(stats: &Stats) -> bool {
    stats.packets_in
        == stats.packets_out + stats.dropped() + stats.backlog_packets + stats.delayed_packets
}

#[test]
fn a_key_with_a_host_as_its_destination_has_the_host_behind_translation() {
    let host: IpAddr = "192.168.1.7".parse().unwrap();
    let router: IpAddr = "10.0.0.2".parse().unwrap();
    let other: IpAddr = "10.0.0.3".parse().unwrap();
    let by = |identity, from| {
        let queued = Queued {
            id: 1,
            ethertype: 0x0800,
            len: 1000,
            mark: 0,
            translated: Some(Translated { from, to: host }),
            headers: &headers(7),
        };
        key(identity, &queued).dst().unwrap()
    };
    for identity in [Identity::DstHost, Identity::HostPair] {
        assert_eq!(by(identity, router), host);
        // A packet that has been translated already, or is of another connection.
        assert_eq!(by(identity, other), router);
    }
    assert_eq!(by(Identity::FiveTuple, router), router);
    for without in [Identity::SrcHost, Identity::SrcPort] {
        assert!(by(without, router).is_unspecified());
    }
}

#[test]
fn a_round_in_the_kernels_order_is_one_verdict() {
    let mut verdicts = Verdicts::new(1, 64);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config(50, None)).unwrap();
    pipeline.begin_round(&verdicts);
    for id in 0..10 {
        arrive(&mut pipeline, Instant::ZERO, id, 1, &mut verdicts);
    }
    pipeline.depart(Instant::ZERO, 100, &mut verdicts);
    assert_eq!(verdicts.len(), 10);
    pipeline.finish_round(&mut verdicts);
    assert_eq!(verdicts.len(), 1);

    let rate = Rate::from_bps(8_000_000);
    pipeline = Pipeline::new(Instant::ZERO, &config(50, Some(rate))).unwrap();
    verdicts.clear();
    pipeline.begin_round(&verdicts);
    for id in 0..10 {
        arrive(&mut pipeline, Instant::ZERO, id, 1, &mut verdicts);
    }
    pipeline.depart(Instant::from_nanos(2_000_000), 100, &mut verdicts);
    pipeline.finish_round(&mut verdicts);
    // At 1 ms each: those of 0, 1 and 2 ms; the rest came later.
    assert_eq!(
        verdicts.iter().collect::<Vec<_>>(),
        [(2, Verdict::AcceptUpTo, None)]
    );
}

#[test]
fn a_flow_that_is_forgotten_begins_again_at_zero() {
    let mut verdicts = Verdicts::new(1, 4096);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config(8, None)).unwrap();
    for id in 0..1000 {
        arrive(&mut pipeline, Instant::ZERO, id, id as u16, &mut verdicts);
        pipeline.depart(Instant::ZERO, 100, &mut verdicts);
    }
    let stats = pipeline.stats(Instant::ZERO);
    assert_eq!((stats.flows_seen, stats.flows.len()), (1000, 64));
    assert!(stats.flows.iter().all(|flow| flow.packets_in == 1));
    assert_eq!(stats.packets_out, 1000);
}

/// Numbers of 32 of the 40 flows in standing stay theirs, half of all; the other eight go to flows that come once.
#[test]
fn flows_that_come_once_take_the_numbers_of_none_in_standing_and_inherit_nothing() {
    let mut config = config(8, None);
    config.spec = Discipline::Makeway.spec();
    let mut verdicts = Verdicts::new(1, 4096);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
    let mut now = Instant::ZERO;
    for _ in 0..250 {
        now += Duration::from_millis(20);
        for flow in 0..40 {
            arrive(&mut pipeline, now, flow.into(), flow, &mut verdicts);
        }
    }
    let classes = |pipeline: &Pipeline, now| {
        let told = pipeline.stats(now).flows.into_iter();
        let mut classes: Vec<_> = told.filter_map(|flow| flow.standing).collect();
        classes.sort_by_key(|class| *class != Class::Standing);
        classes
    };
    assert_eq!(classes(&pipeline, now), [Class::Standing; 40]);
    // More than all 64 numbers, twice.
    for flow in 100..300 {
        arrive(&mut pipeline, now, flow.into(), flow, &mut verdicts);
    }
    let expected = [[Class::Standing; 32], [Class::New; 32]].concat();
    assert_eq!(classes(&pipeline, now), expected);
}

#[test]
fn a_change_of_discipline_keeps_what_is_held() {
    let rate = Rate::from_bps(8_000_000);
    let mut verdicts = Verdicts::new(1, 64);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config(50, Some(rate))).unwrap();
    for id in 0..20 {
        let flow = id as u16 % 3;
        arrive(&mut pipeline, Instant::ZERO, id, flow, &mut verdicts);
    }
    let mut now = Instant::ZERO;
    let writes = |one: &Discipline| one.spec().needs().writes_tags;
    let (refused, others): (Vec<_>, Vec<_>) = Discipline::ALL.into_iter().partition(writes);
    for (id, discipline) in (20..).zip(others) {
        // One packet leaves each millisecond, and another comes.
        now += Duration::from_millis(1);
        arrive(&mut pipeline, now, id, 7, &mut verdicts);
        let change = Change {
            discipline: Some(discipline),
            ..Change::default()
        };
        pipeline.change(now, &change, &mut verdicts).unwrap();
        let stats = pipeline.stats(now);
        assert_eq!(stats.backlog_packets, 19, "{discipline}");
        assert_eq!(stats.dropped(), 0);
    }
    for discipline in refused {
        let change = Change {
            discipline: Some(discipline),
            ..Change::default()
        };
        let error = pipeline.change(now, &change, &mut verdicts).unwrap_err();
        let why = format!("{discipline} cannot run here: it writes tags on packets");
        assert!(error.to_string().starts_with(&why), "{error}");
    }
    pipeline.drain(Instant::from_nanos(40_000_000), &mut verdicts);
    let stats = pipeline.stats(Instant::from_nanos(40_000_000));
    assert_eq!(stats.packets_in, stats.packets_out);
}

#[test]
fn other_limits_keep_what_they_have_room_for_and_one_beyond_the_tables_changes_nothing() {
    let rate = Rate::from_bps(8_000_000);
    let mut verdicts = Verdicts::new(1, 256);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config(50, Some(rate))).unwrap();
    for id in 0..40 {
        arrive(&mut pipeline, Instant::ZERO, id, 1, &mut verdicts);
    }
    let limits = |packets| Change {
        limits: Some(makeway_core::sched::Limits {
            packets,
            bytes: Bytes::new(1_000_000),
            flows: 1,
        }),
        ..Change::default()
    };
    let mut change = |pipeline: &mut Pipeline, packets| {
        pipeline.change(Instant::ZERO, &limits(packets), &mut verdicts)
    };
    let held = |pipeline: &Pipeline| {
        let stats = pipeline.stats(Instant::ZERO);
        assert!(conserved(&stats), "{stats:?}");
        (stats.backlog_packets, stats.dropped())
    };
    // One has left.
    change(&mut pipeline, 10).unwrap();
    assert_eq!(held(&pipeline), (10, 29));
    // 100 flows are known: one packet fewer.
    change(&mut pipeline, 99).unwrap();
    let error = change(&mut pipeline, 100).unwrap_err().to_string();
    assert!(error.contains("start it again"), "{error}");
    for id in 40..140 {
        arrive(&mut pipeline, Instant::ZERO, id, id as u16, &mut verdicts);
    }
    assert_eq!(held(&pipeline), (99, 40));
}

#[test]
fn users_share_by_the_weights_of_the_moment() {
    let host = |n: u8| IpAddr::from([10, 0, 0, n]);
    // Shares of one take other weights while it runs; levels of the other are made anew.
    for (discipline, expected) in [
        (Discipline::Hier, 2.2..3.8),
        (Discipline::Prio, 10.0..f64::INFINITY),
    ] {
        let mut config = config(1000, Some(Rate::from_bps(8_000_000)));
        config.spec = discipline.spec();
        config.weights = vec![(host(2), 3)];
        let mut verdicts = Verdicts::new(1, 8192);
        let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
        let mut id = 0;
        // Of the next second: packets that left of each of two hosts, which send twice what the link takes.
        let mut shares = |pipeline: &mut Pipeline, second: u64| {
            let left = |pipeline: &Pipeline, now| {
                let flows = pipeline.stats(now).flows;
                ["udp 10.0.0.1:", "udp 10.0.0.2:"].map(|host| {
                    let own = flows.iter().filter(|flow| flow.flow.starts_with(host));
                    own.map(|flow| flow.packets_out).sum::<u64>()
                })
            };
            let begin = Instant::from_nanos(second * 1_000_000_000);
            let before = left(&*pipeline, begin);
            for n in 0..2000 {
                let now = begin + Duration::from_micros(500 * n);
                let mut headers = headers(7);
                headers[15] += (n % 2) as u8;
                let queued = Queued {
                    id,
                    ethertype: 0x0800,
                    len: 1000,
                    mark: 0,
                    translated: None,
                    headers: &headers,
                };
                pipeline.arrive(now, &queued, &mut verdicts);
                pipeline.depart(now, 10, &mut verdicts);
                verdicts.clear();
                id += 1;
            }
            let after = left(&*pipeline, begin + Duration::from_secs(1));
            let [first, other] = [0, 1].map(|n| (after[n] - before[n]).max(1) as f64);
            other / first
        };
        let weigh = |pipeline: &mut Pipeline, weights: &[(IpAddr, u32)], now| {
            let change = Change {
                weights: Some(weights.to_vec()),
                ..Change::default()
            };
            let mut verdicts = Verdicts::new(1, 8192);
            pipeline.change(now, &change, &mut verdicts).unwrap();
        };
        shares(&mut pipeline, 0);
        let ratio = shares(&mut pipeline, 1);
        assert!(expected.contains(&ratio), "{discipline}: {ratio}");
        let second = |n: u64| Instant::from_nanos(n * 1_000_000_000);
        weigh(&mut pipeline, &[(host(1), 3)], second(2));
        shares(&mut pipeline, 2);
        let ratio = 1.0 / shares(&mut pipeline, 3);
        assert!(expected.contains(&ratio), "{discipline}: {ratio}");
        weigh(&mut pipeline, &[], second(4));
        shares(&mut pipeline, 4);
        let ratio = shares(&mut pipeline, 5);
        let is_equal = (0.7..1.4).contains(&ratio);
        assert!(is_equal || discipline == Discipline::Prio, "{ratio}");
    }
}

#[test]
fn users_with_a_weight_leave_ids_to_all_others() {
    let mut config = config(8, Some(Rate::from_bps(8_000_000)));
    config.spec = Discipline::Hier.spec();
    // More than the table has ids without them.
    let heavy = (0..70u8).map(|n| (IpAddr::from([10, 1, 0, n]), 2));
    config.weights = heavy.collect();
    let mut verdicts = Verdicts::new(1, 64);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
    // One departs at once, and the limit is held, each packet of another user.
    for n in 0..9u8 {
        let mut headers = headers(7);
        headers[15] += n;
        let queued = Queued {
            id: n.into(),
            ethertype: 0x0800,
            len: 1000,
            mark: 0,
            translated: None,
            headers: &headers,
        };
        pipeline.arrive(Instant::ZERO, &queued, &mut verdicts);
    }
    let stats = pipeline.stats(Instant::ZERO);
    assert_eq!((stats.backlog_packets, stats.dropped()), (8, 0));
}

#[test]
fn a_discipline_that_needs_the_rate_of_its_link_is_refused_without_one() {
    for discipline in Discipline::ALL {
        let mut config = config(50, None);
        config.spec = discipline.spec();
        let needs_rate = config.spec.needs().link_rate;
        match Pipeline::new(Instant::ZERO, &config) {
            Ok(_) => assert!(!needs_rate, "{discipline}"),
            Err(error) => {
                let why = format!("{discipline} cannot run here: it needs the rate of its link");
                assert!(needs_rate && error.to_string().starts_with(&why), "{error}");
            }
        }
    }
}

#[test]
fn a_packet_that_is_held_is_in_no_range() {
    let mut order = Order::default();
    (0..4).for_each(|id| order.came(id));
    order.accepted(3);
    order.begin(true);
    // As many have their verdict as came up to packet 1, but packet 0 is held.
    order.accepted(1);
    assert_eq!(order.range(), None);
    order.begin(true);
    order.accepted(0);
    assert_eq!(order.range(), None);
    order.accepted(2);
    assert_eq!(order.range(), Some(2));
}

#[test]
fn what_an_aqm_drops_is_counted_by_its_reason() {
    let drops = |discipline: Discipline| {
        let rate = Rate::from_bps(8_000_000);
        let mut config = config(200, Some(rate));
        config.spec = discipline.on_a_link();
        let mut verdicts = Verdicts::new(1, 4096);
        let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
        // Twice what the link takes, for 300 ms.
        for id in 0..600 {
            let now = Instant::ZERO + Duration::from_micros(500 * u64::from(id));
            arrive(&mut pipeline, now, id, id as u16 % 2, &mut verdicts);
            pipeline.depart(now, 10, &mut verdicts);
        }
        let stats = pipeline.stats(Instant::from_nanos(300_000_000));
        assert!(conserved(&stats), "{stats:?}");
        stats.drops.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(drops(Discipline::Red), ["early", "forced"]);
    assert_eq!(drops(Discipline::CoDel), ["sojourn", "tail"]);
    assert_eq!(drops(Discipline::FqCoDel), ["longest-queue", "sojourn"]);
    assert_eq!(
        drops(Discipline::Cake),
        ["early", "longest-queue", "sojourn"]
    );
}

#[test]
fn a_discipline_is_told_the_links_rate_when_it_is_made() {
    let rate = |mbit: u64| Some(Rate::from_bps(mbit * 1_000_000));
    let mut verdicts = Verdicts::new(1, 64);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config(50, rate(8))).unwrap();
    assert_eq!(pipeline.env.rate, rate(8));
    let change = Change {
        rate: Some(rate(5)),
        discipline: Some(Discipline::Red),
        ..Change::default()
    };
    pipeline
        .change(Instant::ZERO, &change, &mut verdicts)
        .unwrap();
    assert_eq!(pipeline.env.rate, rate(5));
}

#[test]
fn hosts_share_under_cake_however_many_flows_they_have() {
    let mut config = config(200, Some(Rate::from_bps(8_000_000)));
    config.spec = Discipline::Cake.spec();
    config.users = Identity::SrcHost;
    let mut verdicts = Verdicts::new(1, 8192);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
    // Four flows of one host and one of another, each as fast as the link, for a second.
    for id in 0..5000 {
        let now = Instant::ZERO + Duration::from_micros(200 * u64::from(id));
        let mut headers = headers(id as u16 % 5);
        headers[15] += u8::from(id % 5 == 4);
        let queued = Queued {
            id,
            ethertype: 0x0800,
            len: 1000,
            mark: 0,
            translated: None,
            headers: &headers,
        };
        pipeline.arrive(now, &queued, &mut verdicts);
        pipeline.depart(now, 10, &mut verdicts);
    }
    let stats = pipeline.stats(Instant::from_nanos(1_000_000_000));
    let alone = |flow: &&FlowStats| flow.flow.starts_with("udp 10.0.0.2:");
    let one: u64 = stats
        .flows
        .iter()
        .filter(alone)
        .map(|f| f.packets_out)
        .sum();
    assert!(stats.packets_out.abs_diff(2 * one) < 40, "{one} {stats:?}");
}

/// The kernel's queue after `verdicts`, with the accepted and the dropped packets, in order.
fn obey(waiting: &mut Vec<u32>, verdicts: &Verdicts) -> Vec<(u32, bool)> {
    let mut done = Vec::new();
    for (id, verdict, _) in verdicts.iter() {
        let accept = verdict != Verdict::Drop;
        let at = waiting.iter().position(|waits| *waits == id);
        let at = at.expect("a verdict for a packet that waits");
        let from = if verdict == Verdict::AcceptUpTo {
            0
        } else {
            at
        };
        done.extend(waiting.drain(from..=at).map(|id| (id, accept)));
    }
    done
}

proptest! {
    #[test]
    fn packets_in_are_out_dropped_or_held(
        steps in proptest::collection::vec((0u64..3_000_000, 0u16..6, 0u8..8), 1..300),
        limit in 1u32..20,
        loss in 0.0f64..0.5,
    ) {
        let mut config = config(limit, Some(Rate::from_bps(8_000_000)));
        config.impairments = Impairments { loss: Loss::bernoulli(loss), delay: Duration::from_millis(3), ..Default::default() };
        let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
        let mut verdicts = Verdicts::new(1, 4096);
        let mut now = Instant::ZERO;
        let (mut id, mut answered) = (0u32, 0);
        for (gap, flow, what) in steps {
            now += Duration::from_nanos(gap);
            match what {
                0 => {
                    let discipline = Discipline::ALL[flow as usize % Discipline::ALL.len()];
                    let change = Change { discipline: Some(discipline), ..Change::default() };
                    pipeline.change(now, &change, &mut verdicts).unwrap();
                }
                1 => {
                    let rate = Some(Rate::from_bps(1_000_000 * (1 + u64::from(flow))));
                    let change = Change { rate: Some(rate), ..Change::default() };
                    pipeline.change(now, &change, &mut verdicts).unwrap();
                }
                2 => { pipeline.depart(now, 10, &mut verdicts); }
                _ => { arrive(&mut pipeline, now, id, flow, &mut verdicts); id += 1; }
            }
            answered += verdicts.len() as u64;
            verdicts.clear();
            let stats = pipeline.stats(now);
            prop_assert!(conserved(&stats), "{stats:?}");
            // Each packet has had a verdict exactly when it is held no more.
            prop_assert_eq!(answered, stats.packets_out + stats.dropped());
            let held: u64 = stats.flows.iter().map(|flow| flow.backlog_packets).sum();
            prop_assert_eq!(held, stats.backlog_packets);
        }
        pipeline.drain(now, &mut verdicts);
        let stats = pipeline.stats(now);
        prop_assert_eq!(stats.packets_in, stats.packets_out + stats.dropped());
    }

    /// One verdict for many does what the many would have done.
    #[test]
    fn a_range_accepts_what_its_verdicts_accept(
        rounds in proptest::collection::vec(
            (proptest::collection::vec((0u16..4, 0u32..20), 0..12), 0u64..12),
            1..30,
        ),
        first: u32,
        sqf: bool,
    ) {
        let mut config = config(20, Some(Rate::from_bps(8_000_000)));
        if sqf {
            config.spec = Discipline::Sqf.spec();
        }
        let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
        let mut verdicts = Verdicts::new(1, 64);
        let (mut now, mut id) = (Instant::ZERO, first);
        let (mut one, mut many) = (Vec::new(), Vec::new());
        for (arrivals, ms) in rounds {
            pipeline.begin_round(&verdicts);
            for (flow, gap) in arrivals {
                // Now and then the kernel cannot tell of a packet.
                id = id.wrapping_add(1 + u32::from(gap == 0));
                one.push(id);
                many.push(id);
                arrive(&mut pipeline, now, id, flow, &mut verdicts);
            }
            now += Duration::from_millis(ms);
            pipeline.depart(now, 100, &mut verdicts);
            let expected = obey(&mut many, &verdicts);
            pipeline.finish_round(&mut verdicts);
            prop_assert_eq!(obey(&mut one, &verdicts), expected);
            verdicts.clear();
        }
    }
}

/// The counters, and the packets with the fwmark 77, of 100 packets of a flow that come every 10 ms over a link that sends one in 20 ms.
fn congested(marking: Option<u32>, ecn: u8, mark: u32) -> (Stats, u64) {
    let mut config = config(1000, Some(Rate::from_bps(400_000)));
    config.spec = Discipline::FqCoDel.spec();
    let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
    let mut verdicts = Verdicts::new(1, 256);
    let change = Change {
        marking: Some(marking),
        ..Change::default()
    };
    pipeline
        .change(Instant::ZERO, &change, &mut verdicts)
        .unwrap();
    for id in 1..=100 {
        let now = Instant::ZERO + Duration::from_millis(10 * u64::from(id));
        let mut headers = headers(1);
        headers[1] |= ecn;
        let queued = Queued {
            id,
            ethertype: 0x0800,
            len: 1000,
            mark,
            translated: None,
            headers: &headers,
        };
        pipeline.arrive(now, &queued, &mut verdicts);
    }
    let fwmark = 77_u32.to_be_bytes();
    let marked = verdicts
        .iter()
        .filter(|(_, _, rest)| *rest == Some(&fwmark[..]));
    let marked = marked.count() as u64;
    (
        pipeline.stats(Instant::ZERO + Duration::from_secs(1)),
        marked,
    )
}

#[test]
fn what_understands_marks_is_marked_where_rules_can_and_dropped_elsewhere() {
    // ECT(0) behind rules that mark.
    let (stats, fwmarks) = congested(Some(77), 0b10, 0);
    assert!(stats.marked_out > 0 && stats.dropped() == 0, "{stats:?}");
    assert_eq!((stats.marked_in, fwmarks), (0, stats.marked_out));
    assert!(conserved(&stats));
    // Without such rules, without ECN, and with a fwmark of its own.
    for (marking, ecn, mark) in [(None, 0b10, 0), (Some(77), 0, 0), (Some(77), 0b10, 5)] {
        let (stats, fwmarks) = congested(marking, ecn, mark);
        assert!(stats.dropped() > 0, "{marking:?} {ecn} {mark}: {stats:?}");
        assert_eq!((stats.marked_out, fwmarks), (0, 0));
    }
    // One that came with a mark keeps it.
    let (stats, _) = congested(Some(77), 0b11, 0);
    assert_eq!((stats.marked_in, stats.dropped()), (100, 0));
    assert_eq!(stats.marked_out, stats.packets_out);
}
