// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows that are tested.

use super::*;

const ASKS: (Class, Question) = (Class::Standing, Question::Asked);
const ASKS_NOT: (Class, Question) = (Class::Standing, Question::None);

/// The class and the question of a flow in standing that alone brought 500 000 B in each window, of 600 000 B that the link sent, and brings as
/// much beside bulk, after a full buffer took a packet of it while the link sent `sent`.
fn filled_alone(sent: u64, tested: bool) -> (Class, Question) {
    let alone = Link {
        sent: 600_000,
        quiet: true,
        ..Link::default()
    };
    let beside = Link {
        sent: 600_000,
        standing: 400_000,
        contended: true,
        ..Link::default()
    };
    let (mut record, mut past) = known();
    (record.class, past.tested) = (Class::Standing, tested);
    for window in 0..4 {
        record.judge(at(window, 0), alone, &mut past);
        for _ in 0..400 {
            record.on_arrival(1250);
        }
        if window == 3 {
            past.on_full(sent);
        }
    }
    let class = record.judge(at(4, 0), beside, &mut past);
    (class, record.question)
}

#[test]
fn what_a_flow_brought_as_it_filled_the_buffer_alone_is_not_its_own() {
    assert_eq!(filled_alone(999_999, false), ASKS);
    // It had half of the link, and others filled the buffer with it.
    assert_eq!(filled_alone(1_000_000, false), ASKS_NOT);
    assert_eq!(filled_alone(600_000, true), ASKS_NOT);
}

/// When a new flow that loses a packet in each window, has `part` of the 600 000 B that leave, and brings less by `fall` of them if it is asked, is
/// new no longer, in windows, and its class then. No bulk waits.
fn overdue(part: u32, fall: u32) -> (u64, Class) {
    let link = Link {
        sent: 600_000,
        new: 300_000,
        ..Link::default()
    };
    let (mut record, mut past) = known();
    for window in 1.. {
        let class = record.judge(at(window, 0), link, &mut past);
        if class != Class::New {
            return (window, class);
        }
        let fall = if record.question == Question::None {
            0
        } else {
            fall
        };
        for _ in 0..part - fall {
            record.on_arrival(1000);
        }
        past.on_loss(at(window, 1), 1);
    }
    unreachable!()
}

#[test]
fn a_new_flow_that_did_not_come_to_standing_in_time_is_tested() {
    assert_eq!(overdue(75, 0), (11, Class::Standing));
    assert_eq!(overdue(75, 40), (9, Class::Bulk));
    // Too small for a test, and alone.
    assert_eq!(overdue(74, 0), (8, Class::Bulk));
    assert_eq!(overdue(526, 0), (10, Class::Bulk));
}

/// The class of a flow in standing, and why, after windows in which it brings `packets` of 1000 B of the 600 that leave; it is tested after the second.
fn answers(packets: [u32; 5]) -> (Class, Reason) {
    let link = Link {
        sent: 600_000,
        standing: 400_000,
        contended: true,
        ..Link::default()
    };
    let (mut record, mut past) = known();
    record.class = Class::Standing;
    for (window, packets) in (0..).zip(packets) {
        record.judge(at(window, 0), link, &mut past);
        for _ in 0..packets {
            record.on_arrival(1000);
        }
    }
    record.judge(at(5, 0), link, &mut past);
    (record.class, past.reason)
}

#[test]
fn a_response_that_a_queue_hid_shows_in_the_window_after_the_test() {
    let bulk = (Class::Bulk, Reason::RespondsToLoss);
    assert_eq!(answers([320, 320, 280, 220, 219]), bulk);
    assert_eq!(answers([320, 320, 280, 219, 320]), bulk);
    assert_eq!(answers([320, 320, 280, 220, 220]).0, Class::Standing);
}
