// SPDX-License-Identifier: MIT OR Apache-2.0
//! No discipline allocates after it is made, no sender once it is warm.

use makeway_core::rate::fixed::Fixed;
use makeway_core::sched::{Discipline, Drops, Env, Limits, LowRate, NcqParams, Spec, build};
use makeway_core::send::{AnyPolicy, Config, Datagram, Frame, FrameId, Sender};
use makeway_core::units::{Bytes, Duration, Fraction, Instant, Rate};
use makeway_core::workload::{SendBench, SendCase, Workload};

mod counting;

#[test]
fn no_discipline_allocates_after_it_is_made() {
    let limits = Limits {
        packets: 500,
        bytes: Bytes::new(200_000),
        flows: 64,
    };
    let mut specs: Vec<Spec> = Discipline::ALL.map(Discipline::spec).into();
    specs.push(Spec::Ncq(NcqParams {
        window: Some(1000),
        probabilistic: true,
        extra_wait: Some(Fraction::ratio(1, 100)),
        low_rate: Some(LowRate {
            rate: Rate::from_bps(64_000),
            burst: Bytes::new(3000),
        }),
        push_out: true,
        ..NcqParams::default()
    }));
    for spec in specs {
        let mut scheduler = build(&spec, &Env::new(limits)).unwrap();
        let mut drops = Drops::with_capacity(500);
        let mut workload = Workload::new(1, 64, 64);
        let before = counting::allocations();
        let mut now = Instant::ZERO;
        for round in 0..20_000 {
            // Slow enough for CoDel to drop.
            now += Duration::from_micros(50);
            scheduler.enqueue(now, workload.packet(now), &mut drops);
            if round % 3 == 0 {
                scheduler.dequeue(now, &mut drops);
            }
            drops.drain().for_each(drop);
        }
        while scheduler.dequeue(now, &mut drops).is_some() {}
        assert_eq!(counting::allocations() - before, 0, "{spec:?} allocates");
    }
}

#[test]
fn no_sender_allocates_once_it_is_warm() {
    for case in SendCase::ALL {
        for policy in AnyPolicy::all() {
            let mut bench = SendBench::new(case, policy, 32, 1);
            bench.run(1000);
            let before = counting::allocations();
            bench.run(20_000);
            assert_eq!(counting::allocations() - before, 0, "{case} {policy}");
        }
    }
}

/// Frames of six parts, of which each fourth is refused and its child with it.
#[test]
fn no_sender_of_whole_frames_allocates_once_it_is_warm() {
    for policy in AnyPolicy::all() {
        let rate = Fixed::new(Rate::from_bps(10_000_000));
        let mut sender = Sender::new(Config::default(), rate, policy);
        let mut now = Instant::ZERO;
        let mut run = |frames: std::ops::Range<u64>| {
            for id in frames {
                let lifetime = if id % 4 == 1 { 1 } else { 20 };
                let frame = Frame {
                    class: 1,
                    deadline: now + Duration::from_millis(lifetime),
                    depends_on: &[FrameId(id.saturating_sub(1))][..usize::from(id % 4 == 2)],
                };
                let parts = (0..6).map(|n| (1000, n));
                sender.enqueue_frame(now, &frame, parts).expect("a frame");
                let came = now;
                now += Duration::from_millis(5);
                while let Some(due) = sender.poll_timeout().filter(|due| *due <= now) {
                    sender.poll_transmit(due.max(came));
                }
                while sender.poll_event().is_some() {}
            }
        };
        run(0..2000);
        let before = counting::allocations();
        run(2000..10_000);
        assert_eq!(counting::allocations() - before, 0, "{policy}");
    }
}

/// Each 10 ms a keyframe, its child, and audio that passes both: keyframe and child come in time, are late at their turn, and leave last.
#[test]
fn no_sender_of_late_keyframes_allocates_once_it_is_warm() {
    for name in ["sbpn1", "sbpn2", "weighted"] {
        let rate = Fixed::new(Rate::from_bps(10_000_000));
        let config = Config {
            late_keyframes: true,
            ..Config::default()
        };
        let policy: AnyPolicy = name.parse().expect("a policy");
        let mut sender = Sender::new(config, rate, policy);
        let mut now = Instant::ZERO;
        let mut run = |rounds: std::ops::Range<u64>| {
            for round in rounds {
                let keyframe = [FrameId(2 * round)];
                for (lifetime, depends_on, parts) in [(4, &[][..], 5), (6, &keyframe[..], 2)] {
                    let frame = Frame {
                        class: 1,
                        deadline: now + Duration::from_millis(lifetime),
                        depends_on,
                    };
                    let parts = (0..parts).map(|n| (1000, n));
                    sender.enqueue_frame(now, &frame, parts).expect("a frame");
                }
                for n in 0..2 {
                    let audio = Datagram {
                        class: 0,
                        len: 1000,
                        deadline: now + Duration::from_millis(20),
                        frame: None,
                    };
                    sender.enqueue(now, audio, n);
                }
                let came = now;
                now += Duration::from_millis(10);
                while let Some(due) = sender.poll_timeout().filter(|due| *due <= now) {
                    sender.poll_transmit(due.max(came));
                }
                while sender.poll_event().is_some() {}
            }
        };
        run(0..2000);
        let before = counting::allocations();
        run(2000..10_000);
        assert_eq!(counting::allocations() - before, 0, "{name}");
        let stats = sender.stats().class(1);
        assert_eq!((stats.late, stats.expired), (70_000, 0), "{name}");
    }
}
