// SPDX-License-Identifier: MIT OR Apache-2.0
//! Late keyframes leave, with the frames behind them, and delay a datagram in time by one packet at most.

use makeway_core::rate::fixed::Fixed;
use makeway_core::send::{AnyPolicy, Config, Event, Frame, FrameId, Outcome, Sender};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use proptest::prelude::*;

use super::datagram;
use super::frames::{Whole, frame, frames_of, whole_frames};

const DROPS_LATE: [&str; 3] = ["sbpn1", "sbpn2", "weighted"];

/// A sender of 1 Mbit/s, a packet of 1000 B in 8 ms, that lets late keyframes leave.
fn mending(policy: &str) -> Whole {
    let config = Config {
        late_keyframes: true,
        ..Config::default()
    };
    whole_frames(policy, config)
}

/// Ten parts end after 72 ms, which is late and within twice 50 ms. The frame right behind is late too, the next one is in time.
#[test]
fn a_late_keyframe_leaves_and_the_frames_behind_it_until_they_are_in_time_again() {
    for policy in DROPS_LATE {
        let mut sender = mending(policy);
        frame(&mut sender, 10, 50, &[]);
        frame(&mut sender, 1, 60, &[0]);
        frame(&mut sender, 1, 90, &[1]);
        let ends = [(0, "late"), (1, "late"), (2, "sent")];
        assert_eq!(frames_of(&mut sender), ends, "{policy}");
        let stats = sender.stats().class(1);
        assert_eq!((stats.sent, stats.late, stats.expired), (12, 11, 0));
    }
}

/// As before, behind a keyframe that is in time: 64 ms of 70.
#[test]
fn a_late_frame_is_refused_behind_a_keyframe_in_time() {
    for policy in DROPS_LATE {
        let mut sender = mending(policy);
        frame(&mut sender, 9, 70, &[]);
        frame(&mut sender, 1, 60, &[0]);
        frame(&mut sender, 1, 90, &[1]);
        let ends = [(1, "expired"), (2, "orphaned"), (0, "sent")];
        assert_eq!(frames_of(&mut sender), ends, "{policy}");
    }
}

/// Fourteen parts end after 104 ms.
#[test]
fn a_keyframe_that_would_take_more_than_twice_its_time_is_refused_when_it_comes() {
    let mut sender = mending("sbpn1");
    frame(&mut sender, 14, 50, &[]);
    frame(&mut sender, 1, 300, &[0]);
    assert_eq!(sender.backlog().packets, 0);
    assert_eq!(frames_of(&mut sender), [(0, "expired"), (1, "orphaned")]);
    let stats = sender.stats().class(1);
    assert_eq!((stats.sent, stats.expired, stats.orphaned), (0, 14, 1));
    // One whose deadline has passed has no time, of which twice is none either.
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let past = Frame {
        class: 1,
        deadline: at(10),
        depends_on: &[],
    };
    sender
        .enqueue_frame(at(20), &past, [(1000, 0)])
        .expect("a frame");
    assert_eq!(sender.backlog().packets, 0);
}

/// The queue is full with a late keyframe, and with as much of a worse class as the hopeless one would need.
#[test]
fn a_keyframe_that_no_place_in_the_queue_would_help_costs_others_nothing() {
    for policy in ["sbpn1", "sbpn2"] {
        let config = Config {
            packets: 24,
            late_keyframes: true,
            ..Config::default()
        };
        let mut sender = whole_frames(policy, config);
        frame(&mut sender, 10, 50, &[]);
        for _ in 0..14 {
            sender.enqueue(Instant::ZERO, datagram(2, 1000, 900), 0);
        }
        frame(&mut sender, 14, 50, &[]);
        let ends = [(1, "expired"), (0, "late")];
        assert_eq!(frames_of(&mut sender), ends, "{policy}");
        let stats = sender.stats().class(2);
        assert_eq!((stats.sent, stats.evicted), (14, 0), "{policy}");
    }
}

/// Twice 40 ms; time passes at a rate of 0 until the turn of the frame, whose second part leaves 8 ms after its first.
#[test]
fn a_late_keyframe_is_dropped_at_its_turn_once_it_would_take_more_than_twice_its_time() {
    use makeway_core::rate::external::External;
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let config = Config {
        late_keyframes: true,
        ..Config::default()
    };
    for (turn, left) in [(72, 2), (73, 0)] {
        let policy: AnyPolicy = "sbpn1".parse().expect("a policy");
        let mut sender = Sender::new(config, External::new(Rate::from_bps(0)), policy);
        let frame = Frame {
            class: 1,
            deadline: at(40),
            depends_on: &[],
        };
        let parts = [(1000, ()), (1000, ())];
        sender.enqueue_frame(at(0), &frame, parts).expect("a frame");
        sender.change_rate(at(turn), |rate| rate.set(Rate::from_bps(1_000_000), None));
        while let Some(due) = sender.poll_timeout() {
            sender.poll_transmit(due.max(at(turn)));
        }
        assert_eq!(sender.stats().class(1).late, left, "{turn} ms");
    }
}

#[test]
fn a_late_keyframe_is_dropped_for_a_newer_one_of_its_class() {
    for policy in DROPS_LATE {
        let mut sender = mending(policy);
        frame(&mut sender, 10, 50, &[]);
        frame(&mut sender, 1, 60, &[0]);
        // A newer one that is late may still be lost: the older ones wait for their turn.
        frame(&mut sender, 10, 60, &[]);
        assert_eq!(sender.backlog().packets, 21, "{policy}");
        frame(&mut sender, 1, 200, &[]);
        assert_eq!(sender.backlog().packets, 1, "{policy}");
        let ends = [(0, "expired"), (1, "orphaned"), (2, "expired"), (3, "sent")];
        assert_eq!(frames_of(&mut sender), ends, "{policy}");
    }
    // At its turn, if the newer one is late.
    let mut sender = mending("sbpn1");
    frame(&mut sender, 10, 50, &[]);
    frame(&mut sender, 10, 60, &[]);
    assert_eq!(frames_of(&mut sender), [(0, "expired"), (1, "late")]);
    // A keyframe of another class is of another video, and supersedes none.
    let mut sender = mending("sbpn1");
    frame(&mut sender, 10, 50, &[]);
    let other = Frame {
        class: 0,
        deadline: Instant::ZERO + Duration::from_millis(200),
        depends_on: &[],
    };
    sender
        .enqueue_frame(Instant::ZERO, &other, [(1000, 0)])
        .expect("a frame");
    assert_eq!(frames_of(&mut sender), [(1, "sent"), (0, "late")]);
}

/// The path's MTU shrinks below the first packet of the newer one, which is late itself, and as long.
#[test]
fn a_late_keyframe_leaves_once_the_newer_one_is_dropped() {
    for policy in DROPS_LATE {
        let mut sender = mending(policy);
        frame(&mut sender, 10, 50, &[]);
        let newer = Frame {
            class: 1,
            deadline: Instant::ZERO + Duration::from_millis(60),
            depends_on: &[],
        };
        let parts = (0..10).map(|n| (if n == 0 { 1300 } else { 1000 }, n));
        sender
            .enqueue_frame(Instant::ZERO, &newer, parts)
            .expect("a frame");
        assert_eq!(sender.backlog().packets, 20, "{policy}");
        sender.set_largest(1200);
        frame(&mut sender, 1, 60, &[0]);
        let ends = [(1, "too-large"), (0, "late"), (2, "late")];
        assert_eq!(frames_of(&mut sender), ends, "{policy}");
    }
}

/// A datagram in time of its class leaves before it, one of a class below behind it.
#[test]
fn a_late_keyframe_leaves_behind_all_that_is_in_time_in_its_class() {
    for policy in ["sbpn1", "sbpn2"] {
        let mut sender = mending(policy);
        frame(&mut sender, 3, 10, &[]);
        sender.enqueue(Instant::ZERO, datagram(2, 1000, 900), 92);
        sender.enqueue(Instant::ZERO, datagram(1, 1000, 900), 91);
        let mut left = Vec::new();
        while let Some(due) = sender.poll_timeout() {
            left.extend(sender.poll_transmit(due).map(|sent| sent.payload));
        }
        // 16 ms for the rest of it are within twice 10; behind the other datagram they are 24.
        assert_eq!(left, [91, 92], "{policy}");

        let mut sender = mending(policy);
        frame(&mut sender, 3, 15, &[]);
        sender.enqueue(Instant::ZERO, datagram(2, 1000, 900), 92);
        sender.enqueue(Instant::ZERO, datagram(1, 1000, 900), 91);
        let mut left = Vec::new();
        while let Some(due) = sender.poll_timeout() {
            left.extend(sender.poll_transmit(due).map(|sent| sent.payload));
        }
        assert_eq!(left, [91, 0, 1, 2, 92], "{policy}");
    }
}

/// 100 ms pass at a rate of 0: the keyframe, which was in time when it came, is late at its turn, and a datagram of its class passes it.
#[test]
fn a_keyframe_that_is_late_at_its_turn_leaves_late_with_those_behind_it() {
    use makeway_core::rate::external::External;
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let config = Config {
        late_keyframes: true,
        ..Config::default()
    };
    let policy: AnyPolicy = "sbpn1".parse().expect("a policy");
    let mut sender = Sender::new(config, External::new(Rate::from_bps(0)), policy);
    for (id, depends_on) in [&[][..], &[FrameId(0)]].into_iter().enumerate() {
        let frame = Frame {
            class: 1,
            deadline: at(90 + id as u64),
            depends_on,
        };
        sender
            .enqueue_frame(at(0), &frame, [(1000, id)])
            .expect("a frame");
    }
    sender.enqueue(at(0), datagram(1, 1000, 900), 9);
    sender.change_rate(at(100), |rate| rate.set(Rate::from_bps(1_000_000), None));
    let mut left = Vec::new();
    while let Some(due) = sender.poll_timeout() {
        let sent = sender.poll_transmit(due.max(at(100)));
        left.extend(sent.map(|sent| sent.payload));
    }
    assert_eq!(left, [9, 0, 1]);
    assert_eq!(sender.stats().class(1).late, 2);
}

/// A call for two seconds: audio each 20 ms, and frames of these numbers of parts each 40 ms, a keyframe where the flag is set.
fn call(policy: &str, bps: u64, frames: &[(u64, bool)]) -> (Vec<Instant>, Whole) {
    let config = Config {
        late_keyframes: true,
        ..Config::default()
    };
    let rate = Fixed::new(Rate::from_bps(bps));
    let mut sender = Sender::new(config, rate, policy.parse().expect("a policy"));
    let mut audio = Vec::new();
    for tick in 0..200 {
        let now = Instant::ZERO + Duration::from_millis(20 * tick);
        if tick < 100 {
            let deadline = now + Duration::from_millis(200);
            let of = |class| makeway_core::send::Datagram {
                class,
                len: 160,
                deadline,
                frame: None,
            };
            sender.enqueue(now, of(0), tick);
            if let (0, Some((parts, is_key))) = (tick % 2, frames.get(tick as usize / 2)) {
                let last = FrameId((tick / 2).saturating_sub(1));
                let frame = Frame {
                    class: 1,
                    deadline,
                    depends_on: &[last][..usize::from(tick > 0 && !is_key)],
                };
                let parts = (0..*parts).map(|n| (1000, n));
                sender.enqueue_frame(now, &frame, parts).expect("a frame");
            }
        }
        let next = now + Duration::from_millis(20);
        while let Some(due) = sender.poll_timeout().filter(|due| *due < next) {
            let due = due.max(now);
            let sent = sender.poll_transmit(due);
            audio.extend(sent.filter(|sent| sent.datagram.class == 0).map(|_| due));
        }
    }
    (audio, sender)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn late_keyframes_delay_audio_by_one_datagram_at_most_and_each_frame_has_one_end(
        bps in 200_000u64..1_500_000,
        frames in proptest::collection::vec((1u64..12, proptest::bool::weighted(0.2)), 50),
    ) {
        let longest = Bytes::new(1000) / Rate::from_bps(bps);
        let (alone, _) = call("sbpn1", bps, &[]);
        for policy in ["sbpn1", "sbpn2"] {
            let (audio, mut sender) = call(policy, bps, &frames);
            prop_assert_eq!(audio.len(), alone.len());
            for (with, without) in audio.iter().zip(&alone) {
                prop_assert!(*with <= *without + longest, "{}: {:?} {:?}", policy, with, without);
            }
            prop_assert_eq!(sender.stats().class(0).late, 0);
            let (mut ends, mut late) = (vec![0; frames.len()], 0);
            while let Some(event) = sender.poll_event() {
                match event {
                    Event::Frame(id, _) => ends[id.0 as usize] += 1,
                    Event::Outcome(_, _, Outcome::Sent { late: true, .. }) => late += 1,
                    _ => {}
                }
            }
            prop_assert!(ends.iter().all(|ends| *ends == 1), "{:?}", ends);
            let stats = sender.stats().class(1);
            prop_assert_eq!(stats.late, late);
            let parts: u64 = frames.iter().map(|(parts, _)| *parts).sum();
            prop_assert_eq!(stats.sent + stats.expired + stats.evicted + stats.orphaned, parts);
        }
    }
}
