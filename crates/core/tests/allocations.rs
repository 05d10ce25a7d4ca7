//! No discipline allocates after it is made.

use makeway_core::sched::{Config, Discipline, Drops, Limits, build};
use makeway_core::units::{Bytes, Duration, Instant};
use makeway_core::workload::Workload;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator unchanged; counting touches only a
// thread-local cell that needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System`, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let before = ALLOCATIONS.get();
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
        assert_eq!(ALLOCATIONS.get() - before, 0, "{discipline} allocates");
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8]));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
