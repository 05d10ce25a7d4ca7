// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::sched::testing::{limits, of, packet};
use crate::units::Duration;

/// Two users with bulk of 9000 B a packet, of which one sends a small packet of another new flow after each: each of the packets
/// costs 140 turns, and a debt for new flows 64 at most.
#[test]
fn a_packet_of_a_new_flow_forgives_its_user_nothing() {
    let mut makeway = Makeway::new(limits(100, 10_000_000), 3, Bytes::new(64), 1);
    let mut drops = Drops::default();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    for (ms, n) in [(0, 20), (300, 1)] {
        for (flow, user) in [(0, 1), (1, 2)] {
            for _ in 0..n {
                makeway.enqueue(at(ms), of(user, packet(0, flow, 9000)), &mut drops);
            }
        }
    }
    let (mut left, mut fresh) = ([0i32; 2], 2);
    while left[0] + left[1] < 24 {
        let flow = makeway.dequeue(at(300), &mut drops).unwrap().flow.0;
        if flow < 2 {
            left[flow as usize] += 1;
        }
        if flow == 0 {
            makeway.enqueue(at(300), of(1, packet(0, fresh, 60)), &mut drops);
            fresh += 1;
        }
    }
    assert!(left[0].abs_diff(left[1]) <= 2, "{left:?}");
}

/// Bulk whose sentence is over while its queue stands: it is bulk again as a packet leaves, though no other new flow waits.
#[test]
fn the_queue_of_a_flow_that_is_new_again_stands_since_it_began() {
    let mut makeway = Makeway::new(limits(100, 1_000_000), 1, Bytes::new(1538), 1);
    let mut drops = Drops::default();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    for (ms, n) in [(0, 20), (300, 1)] {
        for _ in 0..n {
            makeway.enqueue(at(ms), packet(0, 0, 1000), &mut drops);
        }
    }
    makeway.dequeue(at(600), &mut drops).unwrap();
    assert_eq!(makeway.flows[0].record.class, Class::Bulk);
    makeway.flows[0].record.class = Class::New;
    makeway.change(0, Class::Bulk, Class::New);
    makeway.dequeue(at(610), &mut drops).unwrap();
    assert_eq!(makeway.flows[0].record.class, Class::Bulk);
}

/// A flow begins 37 ms before a window ends. The next window ends at 1074 ms.
#[test]
fn a_window_that_begins_in_silence_is_not_busy() {
    let mut makeway = Makeway::new(limits(100, 1_000_000), 1, Bytes::new(1538), 1);
    let mut drops = Drops::default();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let come = |ms| {
        let mut pkt = packet(0, 0, 1000);
        pkt.arrived = at(ms);
        pkt
    };
    for _ in 0..20 {
        makeway.enqueue(at(500), come(500), &mut drops);
    }
    let mut busy = |from: u64, to: u64| {
        for ms in (from..=to).step_by(10) {
            makeway.enqueue(at(ms), come(ms), &mut drops);
            makeway.dequeue(at(ms), &mut drops).unwrap();
        }
        let frame = makeway.meter.frame().as_nanos() / 1_000_000;
        (makeway.meter.link().contended, frame)
    };
    assert_eq!(busy(510, 540), (false, 0));
    assert_eq!(busy(550, 1080), (true, 15));
}
