// SPDX-License-Identifier: MIT OR Apache-2.0
//! No discipline allocates after it is made, no sender once it is warm.

use makeway_core::rate::fixed::Fixed;
use makeway_core::sched::{Discipline, Drops, Env, Limits, LowRate, NcqParams, Spec, build};
use makeway_core::send::{AnyPolicy, Config, Frame, FrameId, Sender};
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
