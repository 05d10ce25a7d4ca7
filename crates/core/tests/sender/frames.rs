// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that are handed over as a whole: sent in time or dropped with all that depends on them.

use makeway_core::rate::external::External;
use makeway_core::rate::fixed::Fixed;
use makeway_core::send::{AnyPolicy, Config, Event, Frame, FrameError, FrameId, Sender};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

use super::datagram;

pub type Whole = Sender<Fixed, AnyPolicy, u64>;

/// No frame may be late, keyframes neither.
pub fn in_time() -> Config {
    Config {
        late_keyframes: false,
        ..Config::default()
    }
}

/// A sender of 1 Mbit/s, a packet of 1000 B in 8 ms.
pub fn whole_frames(policy: &str, config: Config) -> Whole {
    let rate = Fixed::new(Rate::from_bps(1_000_000));
    Sender::new(config, rate, policy.parse().expect("a policy"))
}

/// Hands over a frame of `parts` parts of 1000 B at time 0, `lifetime_ms` before its deadline.
pub fn frame(sender: &mut Whole, parts: u64, lifetime_ms: u64, depends_on: &[u64]) -> FrameId {
    let depends_on: Vec<FrameId> = depends_on.iter().map(|id| FrameId(*id)).collect();
    let frame = Frame {
        class: 1,
        deadline: Instant::ZERO + Duration::from_millis(lifetime_ms),
        depends_on: &depends_on,
    };
    let parts = (0..parts).map(|n| (1000, n));
    sender
        .enqueue_frame(Instant::ZERO, &frame, parts)
        .expect("a frame")
        .0
}

/// Lets all leave: the ends of frames, by number.
pub fn frames_of(sender: &mut Whole) -> Vec<(u64, &'static str)> {
    while let Some(due) = sender.poll_timeout() {
        sender.poll_transmit(due);
    }
    let ends = std::iter::from_fn(|| sender.poll_event()).filter_map(|event| match event {
        Event::Frame(id, outcome) => Some((id.0, outcome.name())),
        _ => None,
    });
    ends.collect()
}

/// Frames of ten parts take 80 ms each, the first part of which leaves at once: two end within 152 ms, and a third does not within 200.
#[test]
fn a_frame_that_cannot_end_in_time_is_refused_as_a_whole_when_it_comes() {
    for policy in ["sbpn1", "sbpn2", "weighted"] {
        let mut sender = whole_frames(policy, in_time());
        for _ in 0..3 {
            frame(&mut sender, 10, 200, &[]);
        }
        assert_eq!(sender.backlog().packets, 20, "{policy}");
        let ends = [(2, "expired"), (0, "sent"), (1, "sent")];
        assert_eq!(frames_of(&mut sender), ends, "{policy}");
        let stats = sender.stats().class(1);
        assert_eq!((stats.sent, stats.late, stats.expired), (20, 0, 10));
    }
    // With 240 ms there is time for the third, and others send what is late.
    for (policy, lifetime) in [("sbpn1", 240), ("fifo", 100), ("when-full", 100)] {
        let mut sender = whole_frames(policy, in_time());
        for _ in 0..3 {
            frame(&mut sender, 10, lifetime, &[]);
        }
        assert_eq!(sender.backlog().packets, 30, "{policy}");
    }
}

/// More urgent datagrams count, and less urgent ones do not.
#[test]
fn a_frame_waits_for_what_leaves_before_it_and_for_nothing_else() {
    for (class, expected) in [(0, 1), (2, 2)] {
        let mut sender = whole_frames("sbpn1", in_time());
        for _ in 0..20 {
            sender.enqueue(Instant::ZERO, datagram(class, 1000, 1000), 0);
        }
        frame(&mut sender, 1, 100, &[]);
        frame(&mut sender, 1, 200, &[]);
        assert_eq!(sender.backlog().packets, 20 + expected, "class {class}");
    }
}

/// Without any part, the rate of such a sender would fall to nothing.
#[test]
fn a_late_frame_that_finds_an_empty_queue_sends_a_part_under_sbpn2() {
    let mut sender = whole_frames("sbpn2", in_time());
    frame(&mut sender, 10, 50, &[]);
    assert_eq!(frames_of(&mut sender), [(0, "expired")]);
    frame(&mut sender, 1, 500, &[0]);
    assert_eq!(frames_of(&mut sender), [(1, "orphaned")]);
    let stats = sender.stats().class(1);
    assert_eq!((stats.sent, stats.expired, stats.orphaned), (1, 9, 1));
}

#[test]
fn what_depends_on_a_dropped_frame_goes_with_it() {
    let mut sender = whole_frames("sbpn1", in_time());
    // 1 is refused. 2 and 4 depend on it, 3 does not; 5 is a keyframe, on which 6 depends.
    frame(&mut sender, 2, 300, &[]);
    frame(&mut sender, 9, 50, &[0]);
    frame(&mut sender, 2, 300, &[1]);
    frame(&mut sender, 2, 300, &[0]);
    frame(&mut sender, 2, 300, &[3, 2]);
    frame(&mut sender, 2, 300, &[]);
    frame(&mut sender, 2, 300, &[5]);
    let ends = [
        (1, "expired"),
        (2, "orphaned"),
        (4, "orphaned"),
        (0, "sent"),
        (3, "sent"),
        (5, "sent"),
        (6, "sent"),
    ];
    assert_eq!(frames_of(&mut sender), ends);
}

/// The path's MTU shrinks below a packet of the first frame, behind which others wait.
#[test]
fn what_waits_goes_with_the_frame_that_it_depends_on() {
    let mut sender = whole_frames("sbpn1", in_time());
    let keyframe = Frame {
        class: 1,
        deadline: Instant::ZERO + Duration::from_millis(300),
        depends_on: &[],
    };
    let parts = [(1000, 0), (1300, 1)];
    sender
        .enqueue_frame(Instant::ZERO, &keyframe, parts)
        .expect("a frame");
    for id in 0..5 {
        frame(&mut sender, 3, 300, &[id]);
    }
    frame(&mut sender, 1, 300, &[]);
    sender.set_largest(1200);
    assert_eq!(sender.backlog().packets, 1);
    let mut ends = vec![(0, "too-large")];
    ends.extend((1..6).map(|id| (id, "orphaned")));
    ends.push((6, "sent"));
    assert_eq!(frames_of(&mut sender), ends);
}

/// A layer of a better class than the base that it needs.
#[test]
fn a_frame_leaves_behind_those_that_it_depends_on() {
    for policy in ["prio", "sbpn1", "sbpn2", "weighted", "when-full"] {
        let mut sender = whole_frames(policy, in_time());
        for (class, depends_on) in [(2, &[][..]), (0, &[FrameId(0)]), (1, &[])] {
            let deadline = Instant::ZERO + Duration::from_millis(500);
            let frame = Frame {
                class,
                deadline,
                depends_on,
            };
            let parts = [(1000, 0), (1000, 1)];
            sender
                .enqueue_frame(Instant::ZERO, &frame, parts)
                .expect("a frame");
        }
        let ends = frames_of(&mut sender);
        assert_eq!(ends, [(2, "sent"), (0, "sent"), (1, "sent")], "{policy}");
    }
}

/// Eight packets have room. Those with later deadlines are dropped, unless they do not make enough.
#[test]
fn no_frame_is_dropped_for_one_that_finds_no_room_then_either() {
    let config = Config {
        packets: 8,
        ..in_time()
    };
    let mut sender = whole_frames("sbpn1", config);
    frame(&mut sender, 4, 300, &[]);
    frame(&mut sender, 3, 900, &[]);
    frame(&mut sender, 6, 600, &[]);
    assert_eq!(sender.backlog().packets, 7);
    frame(&mut sender, 4, 600, &[]);
    assert_eq!(sender.backlog().packets, 8);
    frame(&mut sender, 9, 900, &[]);
    let ends = [
        (2, "evicted"),
        (1, "evicted"),
        (4, "too-large"),
        (0, "sent"),
        (3, "sent"),
    ];
    assert_eq!(frames_of(&mut sender), ends);
}

#[test]
fn a_frame_that_cannot_be_is_an_error_and_changes_nothing() {
    let mut sender = whole_frames("sbpn1", in_time());
    frame(&mut sender, 1, 300, &[]);
    let mut refused = |parts: usize, depends_on: &[FrameId]| {
        let frame = Frame {
            class: 1,
            deadline: Instant::ZERO + Duration::from_millis(300),
            depends_on,
        };
        let parts = vec![(1000, 0); parts];
        sender
            .enqueue_frame(Instant::ZERO, &frame, parts)
            .expect_err("an error")
    };
    assert_eq!(refused(0, &[]), FrameError::Empty);
    assert_eq!(refused(1, &[FrameId(1)]), FrameError::Unknown(FrameId(1)));
    assert_eq!(refused(1, &[FrameId(0); 17]), FrameError::Dependencies(17));
    assert!(refused(1, &[FrameId(7)]).to_string().contains("frame 7"));
    assert_eq!(sender.backlog().packets, 1);
    assert_eq!(frame(&mut sender, 1, 300, &[0; 16]), FrameId(1));
}

/// The first frames of a stream whose frames wait for ever are dropped, each with one end; memory is bounded.
#[test]
fn the_latest_1024_frames_are_known() {
    let config = Config {
        packets: 3000,
        bytes: Bytes::new(1 << 30),
        ..in_time()
    };
    let rate = External::new(Rate::from_bps(0));
    let mut sender = Sender::new(config, rate, AnyPolicy::default());
    let all = 2000;
    for id in 0..all {
        let frame = Frame {
            class: 1,
            deadline: Instant::ZERO + Duration::from_secs(1),
            // The first is a keyframe, and forgotten in the end.
            depends_on: &[FrameId(0)][..usize::from(id > 1500)],
        };
        let parts = [(100, ()), (100, ())];
        sender
            .enqueue_frame(Instant::ZERO, &frame, parts)
            .expect("a frame");
    }
    assert_eq!(sender.backlog().packets, 2048);
    let ends: Vec<_> = std::iter::from_fn(|| sender.poll_event())
        .filter_map(|event| match event {
            Event::Frame(id, outcome) => Some((id.0, outcome.name())),
            _ => None,
        })
        .collect();
    assert!(
        ends.into_iter()
            .eq((0..all - 1024).map(|id| (id, "evicted")))
    );
}
