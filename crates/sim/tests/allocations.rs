//! Neither end of a connection allocates after it is made.

use makeway_core::units::{Bytes, Duration, Instant};
use makeway_sim::tcp::{Ack, Config, Receiver, Segment, Sender, Variant};
use std::collections::VecDeque;

#[path = "../../core/tests/counting/mod.rs"]
mod counting;

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
        let before = counting::allocations();
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
        assert_eq!(counting::allocations() - before, 0, "{variant:?} allocates");
        assert!(sender.stats().fast_retransmits > 10, "{variant:?}");
        assert!(sender.stats().timeouts > 1, "{variant:?}");
    }
}
