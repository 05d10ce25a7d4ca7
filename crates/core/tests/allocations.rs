//! No discipline allocates after it is made.

use makeway_core::sched::{Config, Discipline, Drops, Limits, build};
use makeway_core::units::{Bytes, Duration, Instant};
use makeway_core::workload::Workload;

mod counting;

#[test]
fn no_discipline_allocates_after_it_is_made() {
    for discipline in Discipline::ALL {
        let limits = Limits {
            packets: 500,
            bytes: Bytes::new(200_000),
            flows: 64,
        };
        let mut scheduler = build(&Config::new(discipline, limits)).unwrap();
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
        assert_eq!(
            counting::allocations() - before,
            0,
            "{discipline} allocates"
        );
    }
}
