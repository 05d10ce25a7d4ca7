//! Neither end of a connection allocates after it is made.

use makeway_core::units::{Bytes, Duration, Instant};
use makeway_sim::tcp::{Ack, Config, Receiver, Segment, Sender, Variant};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

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
fn neither_end_allocates_after_it_is_made() {
    for variant in Variant::ALL {
        let config = Config {
            window: Bytes::new(200 * 1448),
            ..Config::linux(variant)
        };
        let mut sender = Sender::new(&config);
        let mut receiver = Receiver::new(&config);
        let mut data: VecDeque<Segment> = VecDeque::with_capacity(1000);
        let mut acks: VecDeque<Ack> = VecDeque::with_capacity(1000);
        sender.send_endless();
        let before = ALLOCATIONS.get();
        let mut now = Instant::ZERO;
        let mut count = 0;
        for _ in 0..2000 {
            now += Duration::from_millis(20);
            sender.on_timeout(now);
            while let Some(segment) = sender.poll_transmit(now) {
                count += 1;
                // Every 13th is lost, and at times most of a window.
                if count % 13 != 0 && count % 500 < 450 {
                    data.push_back(segment);
                }
            }
            acks.extend(receiver.on_timeout(now));
            while let Some(segment) = data.pop_front() {
                acks.extend(receiver.on_segment(now, &segment, false));
            }
            while let Some(ack) = acks.pop_front() {
                sender.on_ack(now, &ack);
            }
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{variant:?} allocates");
        assert!(sender.stats().fast_retransmits > 10, "{variant:?}");
        assert!(sender.stats().timeouts > 1, "{variant:?}");
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8]));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
