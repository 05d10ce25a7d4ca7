// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender's queue under every policy: exact equality with the naive reference, and its bounds.

mod frames;
mod late_keyframes;
#[path = "../reference/sender.rs"]
mod reference;

use makeway_core::rate::RateController as _;
use makeway_core::rate::external::External;
use makeway_core::rate::fixed::Fixed;
use makeway_core::rate::tfrc::{Tfrc, TfrcParams};
use makeway_core::send::{
    AnyPolicy, ClassStats, Config, Datagram, Event, Frame, Outcome, Policy, Sender, UNREAD,
    WhenFull,
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
        3 => whole(),
        3 => Just(Op::Transmit),
        1 => Just(Op::Peek),
        1 => (400u32..3000).prop_map(Op::Largest),
        1 => (0u64..20_000).prop_map(|us| Op::Advance(Duration::from_micros(us))),
        1 => proptest::option::of((0u64..60).prop_map(Duration::from_millis)).prop_map(Op::Rtt),
        1 => prop_oneof![Just(0u64), 10_000u64..10_000_000].prop_map(|bps| Op::Rate(Rate::from_bps(bps))),
    ]
}

fn whole() -> impl Strategy<Value = Op> {
    let len = prop_oneof![3 => 100u32..1400, 1 => Just(500u32), 1 => 1400u32..2000];
    let lens = proptest::array::uniform4(proptest::option::weighted(0.6, len));
    let back = proptest::array::uniform2(proptest::option::weighted(
        0.6,
        prop_oneof![0u8..3, 0u8..20],
    ));
    (0u8..3, lens, 0u64..80_000, back).prop_map(|(class, lens, lifetime, back)| Op::Frame {
        class,
        lens,
        lifetime: Duration::from_micros(lifetime),
        back,
    })
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
        late_keyframes in any::<bool>(),
    ) -> Config {
        Config {
            packets,
            bytes: Bytes::new(bytes),
            one_way: one_way.map(Duration::from_millis),
            low: Bytes::new(low),
            late_keyframes,
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
    let mut too_large = ClassStats::default();
    too_large.too_large = all;
    assert_eq!(sender.stats().class(1), too_large);
}

#[test]
fn a_call_with_more_outcomes_than_are_kept_tells_all_of_them() {
    let config = Config {
        packets: 4,
        ..Config::default()
    };
    let mut sender = Sender::new(config, Script::default(), AnyPolicy::all()[0]);
    let frame = Frame {
        class: 1,
        deadline: Instant::ZERO + Duration::from_millis(200),
        depends_on: &[],
    };
    let parts = 4 + UNREAD + 10;
    let taken = sender.enqueue_frame(Instant::ZERO, &frame, (0..parts).map(|_| (100, ())));
    assert!(taken.is_ok());
    let read = events(&mut sender);
    let ends = read
        .iter()
        .filter(|event| matches!(event, Event::Outcome(_, _, Outcome::TooLarge)));
    assert_eq!((ends.count(), sender.stats().unread), (parts, 0));
}

#[test]
fn a_log_sees_each_outcome_once_whether_the_application_reads_or_not() {
    let policy = AnyPolicy::all()[0];
    let mut sender = Sender::new(Config::default(), Script::default(), policy);
    let (mut made, mut seen) = (0, Vec::new());
    for n in 0..5000 {
        sender.enqueue(Instant::ZERO, datagram(1, 9000, 200), ());
        for event in sender.outcomes_since(made) {
            let Event::Outcome(id, ..) = event else {
                panic!("{event:?}");
            };
            seen.push(id.0);
        }
        made = sender.outcomes_made();
        if n < 1000 && n % 3 == 0 {
            sender.poll_event();
        }
    }
    assert_eq!(seen, (0..5000).collect::<Vec<u64>>());
    assert!(sender.stats().unread > 1000);
    assert_eq!(sender.outcomes_since(made).count(), 0);
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

/// SBPN paper, section 4.3, in the kernel of 2007: the send time had advanced before the packet was taken from the queue.
#[test]
fn an_expired_datagram_uses_its_send_time_where_it_is_told_to() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let send = |expired_use_slots| {
        let config = Config {
            expired_use_slots,
            ..Config::default()
        };
        let rate = Tfrc::new(TfrcParams::default());
        let mut sender = Sender::new(
            config,
            rate,
            "sbpn1".parse::<AnyPolicy>().expect("a policy"),
        );
        for (deadline, payload) in [(10, "late"), (9000, "in time")] {
            let datagram = Datagram {
                class: 0,
                deadline: at(deadline),
                len: 500,
                frame: None,
            };
            sender.enqueue(Instant::ZERO, datagram, payload);
        }
        let first = sender.poll_transmit(at(20)).map(|sent| sent.payload);
        let next = sender.rate().next_send();
        let later = next.and_then(|next| sender.poll_transmit(next));
        (first, next > Some(at(20)), later.map(|sent| sent.payload))
    };
    assert_eq!(send(false), (Some("in time"), true, None));
    assert_eq!(send(true), (None, true, Some("in time")));
}

/// 1000 B take 8 ms.
#[test]
fn a_packet_of_the_transport_leaves_behind_the_datagrams_and_takes_its_time() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let fixed = Fixed::new(Rate::from_bps(1_000_000));
    let policy: AnyPolicy = "fifo".parse().unwrap();
    let mut sender = Sender::new(Config::default(), fixed, policy);
    let datagram = Datagram {
        class: 0,
        len: 1000,
        deadline: at(1000),
        frame: None,
    };
    for _ in 0..2 {
        sender.enqueue(at(0), datagram, ());
    }
    let sequence =
        |transmit: Option<makeway_core::send::Transmit<()>>| transmit.map(|t| t.sequence);
    assert_eq!(sequence(sender.poll_transmit(at(0))), Some(0));
    assert_eq!(sender.poll_transmit_extra(at(8), 500), None, "one waits");
    assert_eq!(sequence(sender.poll_transmit(at(8))), Some(1));
    assert_eq!(sender.poll_transmit_extra(at(15), 500), None, "too early");
    assert_eq!(sender.poll_transmit_extra(at(16), 500), Some(2));
    sender.enqueue(at(16), datagram, ());
    assert_eq!(sequence(sender.poll_transmit(at(19))), None);
    assert_eq!(sequence(sender.poll_transmit(at(20))), Some(3));
}
