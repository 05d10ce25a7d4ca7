// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender's queue under every policy: exact equality with the naive reference, and its bounds.

#[path = "reference/sender.rs"]
mod reference;

use makeway_core::rate::external::External;
use makeway_core::rate::fixed::Fixed;
use makeway_core::send::{
    AnyPolicy, ClassStats, Config, Datagram, Event, Outcome, Policy, Sender, UNREAD, WhenFull,
};
use makeway_core::units::{Bytes, Duration, Fraction, Instant, Rate};
use proptest::prelude::*;
use reference::{Op, Script, check};

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![3 => 0u32..1500, 2 => Just(500u32), 1 => 1400u32..3000];
    // Deadlines that meet, that differ and that have passed.
    let lifetime =
        prop_oneof![2 => Just(20_000u64), 3 => 0u64..60_000].prop_map(Duration::from_micros);
    let frame = proptest::option::weighted(0.6, prop_oneof![9 => 0u32..6, 1 => 0u32..40]);
    prop_oneof![
        6 => (0u8..3, size, lifetime, frame)
            .prop_map(|(class, len, lifetime, frame)| Op::Enqueue { class, len, lifetime, frame }),
        3 => Just(Op::Transmit),
        1 => Just(Op::Peek),
        1 => (400u32..3000).prop_map(Op::Largest),
        1 => (0u64..20_000).prop_map(|us| Op::Advance(Duration::from_micros(us))),
        1 => proptest::option::of((0u64..60).prop_map(Duration::from_millis)).prop_map(Op::Rtt),
        1 => prop_oneof![Just(0u64), 10_000u64..10_000_000].prop_map(|bps| Op::Rate(Rate::from_bps(bps))),
    ]
}

fn policy() -> impl Strategy<Value = AnyPolicy> {
    let when_full = prop_oneof![
        Just(None),
        Just(Some(WhenFull::Refuse)),
        Just(Some(WhenFull::EvictWorst)),
        Just(Some(WhenFull::EvictOldest)),
        Just(Some(WhenFull::EvictLate)),
    ];
    let all = proptest::sample::select(AnyPolicy::all().to_vec());
    (all, when_full).prop_map(|(mut policy, when_full)| {
        let field = match &mut policy {
            AnyPolicy::Sbpn1(p) => &mut p.when_full,
            AnyPolicy::Sbpn2(p) => &mut p.when_full,
            AnyPolicy::Weighted(p) => &mut p.when_full,
            _ => return policy,
        };
        *field = when_full.unwrap_or(*field);
        policy
    })
}

prop_compose! {
    fn config()(
        packets in prop_oneof![1u32..6, 6u32..40],
        bytes in prop_oneof![1000u64..5000, Just(1_000_000)],
        one_way in proptest::option::weighted(0.2, 0u64..30),
        low in prop_oneof![Just(0u64), 1u64..3000],
    ) -> Config {
        Config {
            packets,
            bytes: Bytes::new(bytes),
            one_way: one_way.map(Duration::from_millis),
            low: Bytes::new(low),
            ..Config::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_datagram_has_the_outcome_that_the_reference_gives_it(
        config in config(),
        policy in policy(),
        ops in proptest::collection::vec(op(), 0..200),
    ) {
        check(config, policy, &ops);
    }

    #[test]
    fn a_target_is_told_when_it_has_moved_by_the_hysteresis(
        rates in proptest::collection::vec(prop_oneof![0u64..100, 1_000_000u64..2_000_000], 1..50),
        quarters in 0u64..4,
    ) {
        let script = Script::default();
        script.set_rate(Rate::from_bps(1_000_000));
        let config = Config { hysteresis: Fraction::ratio(quarters, 4), ..Config::default() };
        let mut sender = Sender::<_, _, ()>::new(config, script.clone(), AnyPolicy::all()[0]);
        let mut told = None;
        for bps in std::iter::once(1_000_000).chain(rates) {
            script.set_rate(Rate::from_bps(bps));
            sender.handle_feedback(Instant::ZERO, &feedback()).expect("believed");
            match sender.poll_event() {
                Some(Event::Target(rate)) => {
                    prop_assert_eq!(rate.bps(), bps);
                    prop_assert!(told.is_none_or(|told: u64| bps.abs_diff(told) * 4 > told * quarters));
                    told = Some(bps);
                }
                event => {
                    prop_assert_eq!(event, None);
                    let told = told.expect("the first is told");
                    prop_assert!(bps.abs_diff(told) * 4 <= told * quarters);
                }
            }
        }
    }
}

fn feedback() -> makeway_core::rate::Feedback {
    makeway_core::rate::Feedback {
        highest: 0,
        held: Duration::ZERO,
        report: makeway_core::rate::Report::Acks(Default::default()),
    }
}

fn datagram(class: u8, len: u32, lifetime_ms: u64) -> Datagram {
    Datagram {
        class,
        len,
        deadline: Instant::ZERO + Duration::from_millis(lifetime_ms),
        frame: None,
    }
}

fn events<P: Policy, T>(sender: &mut Sender<Script, P, T>) -> Vec<Event> {
    std::iter::from_fn(|| sender.poll_event()).collect()
}

#[test]
fn an_application_that_never_asks_loses_the_oldest_outcomes_and_the_counters_stay_exact() {
    let policy = AnyPolicy::all()[0];
    let mut sender = Sender::new(Config::default(), Script::default(), policy);
    let all = 10_000;
    for _ in 0..all {
        sender.enqueue(Instant::ZERO, datagram(1, 9000, 200), ());
    }
    let read = events(&mut sender);
    let kept = Config::default().packets as usize + UNREAD;
    assert_eq!(read.len(), kept + 1, "and the first target");
    assert!(matches!(read[kept - 1], Event::Outcome(id, _, Outcome::TooLarge) if id.0 == all - 1));
    assert_eq!(sender.stats().unread, all - kept as u64);
    let too_large = ClassStats {
        too_large: all,
        ..ClassStats::default()
    };
    assert_eq!(sender.stats().class(1), too_large);
}

#[test]
fn the_controller_learns_that_there_was_nothing_to_send_before_anything_else_happens() {
    let script = Script::default();
    let mut sender = Sender::new(Config::default(), script.clone(), AnyPolicy::all()[0]);
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    script.allow(Some(at(5)));
    sender
        .handle_feedback(at(4), &feedback())
        .expect("believed");
    assert_eq!(script.idle(), 0, "nothing could leave yet");
    sender
        .handle_feedback(at(6), &feedback())
        .expect("believed");
    assert_eq!(script.idle(), 1);
    sender.enqueue(at(7), datagram(0, 100, 200), ());
    assert_eq!(script.idle(), 2);
    sender.enqueue(at(8), datagram(0, 100, 200), ());
    assert_eq!(script.idle(), 2, "something waits");
    assert_eq!(sender.poll_timeout(), Some(at(5)));
    assert!(sender.poll_transmit(at(8)).is_some());
}

#[test]
fn low_comes_once_for_each_fall_below_the_mark() {
    let script = Script::default();
    let config = Config {
        low: Bytes::new(200),
        ..Config::default()
    };
    let mut sender = Sender::new(config, script.clone(), AnyPolicy::all()[0]);
    let low = |sender: &mut Sender<_, _, _>| {
        let events = events(sender);
        events.iter().filter(|e| **e == Event::Low).count()
    };
    let fill = |sender: &mut Sender<_, _, ()>| {
        for _ in 0..4 {
            sender.enqueue(Instant::ZERO, datagram(0, 100, 200), ());
        }
    };
    let send = |sender: &mut Sender<_, _, ()>| {
        script.allow(Some(Instant::ZERO));
        assert!(sender.poll_transmit(Instant::ZERO).is_some());
    };
    assert_eq!(low(&mut sender), 0, "it was never more");
    fill(&mut sender);
    for expected in [0, 0, 1, 0] {
        send(&mut sender);
        assert_eq!(low(&mut sender), expected);
    }
    fill(&mut sender);
    for _ in 0..3 {
        send(&mut sender);
    }
    fill(&mut sender);
    assert_eq!(low(&mut sender), 0, "it rose before anybody asked");
}

/// Ten parts of 1000 B at 1 Mbit/s take 80 ms, and the frame has 50.
#[test]
fn a_frame_that_cannot_end_in_time_is_not_begun() {
    for name in ["sbpn1", "sbpn2", "weighted"] {
        let rate = Fixed::new(Rate::from_bps(1_000_000));
        let mut sender = Sender::new(Config::default(), rate, name.parse::<AnyPolicy>().unwrap());
        for (frame, class, lifetime) in [(0, 1, 50), (1, 2, 300)] {
            for _ in 0..10 {
                let datagram = Datagram {
                    frame: Some(frame),
                    ..datagram(class, 1000, lifetime)
                };
                sender.enqueue(Instant::ZERO, datagram, frame);
            }
        }
        let mut sent = Vec::new();
        while let Some(due) = sender.poll_timeout() {
            sent.extend(sender.poll_transmit(due).map(|t| t.payload));
        }
        assert_eq!(sent, [1; 10], "{name}");
        let stats = sender.stats();
        assert_eq!((stats.class(1).expired, stats.class(2).sent), (10, 10));
    }
}

/// A keyframe of 33 packets has room in an empty queue that nobody has configured, as has one of 500.
#[test]
fn a_queue_has_room_for_a_keyframe() {
    for parts in [33, 500] {
        let policy = AnyPolicy::default();
        let mut sender = Sender::new(Config::default(), Script::default(), policy);
        for _ in 0..parts {
            let datagram = Datagram {
                frame: Some(7),
                ..datagram(1, 1400, 200)
            };
            sender.enqueue(Instant::ZERO, datagram, ());
        }
        assert_eq!(sender.backlog().packets, parts);
    }
}

#[test]
fn an_estimate_from_outside_is_the_rate_and_the_target() {
    let rate = External::new(Rate::from_bps(1_000_000));
    let mut sender = Sender::<_, _, ()>::new(Config::default(), rate, AnyPolicy::default());
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let target = |bps| Some(Event::Target(Rate::from_bps(bps)));
    assert_eq!(sender.poll_event(), target(1_000_000));
    sender.change_rate(at(5), |rate| rate.set(Rate::from_bps(250_000), None));
    assert_eq!(sender.poll_event(), target(250_000));
    // Two parts of 1250 B take 80 ms: the second leaves after 40.
    for _ in 0..2 {
        sender.enqueue(at(5), datagram(0, 1250, 200), ());
    }
    assert!(sender.poll_transmit(at(5)).is_some());
    assert_eq!(sender.poll_timeout(), Some(at(45)));
    sender.change_rate(at(10), |rate| rate.set(Rate::from_bps(1_000_000), None));
    assert_eq!(sender.poll_timeout(), Some(at(15)));
}
