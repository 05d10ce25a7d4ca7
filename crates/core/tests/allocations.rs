//! No discipline allocates after it is made, no sender once it is warm.

use makeway_core::sched::{Config, Discipline, Drops, Limits, LowRate, NcqParams, build};
use makeway_core::send::AnyPolicy;
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
    let mut configs: Vec<Config> = Discipline::ALL
        .map(|discipline| Config::new(discipline, limits))
        .into();
    let mut variants = Config::new(Discipline::Ncq, limits);
    variants.ncq = NcqParams {
        window: Some(1000),
        probabilistic: true,
        extra_wait: Some(Fraction::ratio(1, 100)),
        low_rate: Some(LowRate {
            rate: Rate::from_bps(64_000),
            burst: Bytes::new(3000),
        }),
        push_out: true,
        ..NcqParams::default()
    };
    configs.push(variants);
    for config in configs {
        let mut scheduler = build(&config).unwrap();
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
        assert_eq!(counting::allocations() - before, 0, "{config:?} allocates");
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
