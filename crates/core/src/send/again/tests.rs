// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// 1 Mbit/s: 1000 B take 8 ms. 20 ms to the receiver, 40 ms there and back.
fn pace(now: u64, ahead: u64) -> Pace {
    Pace {
        start: at(now),
        one_way: Duration::from_millis(20),
        rate: Rate::from_bps(1_000_000),
        ahead: Bytes::new(ahead),
        round_trip: Duration::from_millis(40),
    }
}

fn datagram(class: u8, deadline: u64) -> Datagram {
    Datagram {
        class,
        len: 1000,
        deadline: at(deadline),
        frame: None,
    }
}

/// With these packets, of class and deadline, sent at 0 ms.
fn kept(packets: &[(u8, u64)]) -> Again<()> {
    let mut again = Again::new(Bytes::new(1 << 20));
    for (number, (class, deadline)) in packets.iter().enumerate() {
        again.keep(at(0), number as u64, datagram(*class, *deadline), ());
    }
    again
}

fn next(again: &mut Again<()>, now: u64) -> Option<u64> {
    again.peek(at(now), Duration::from_millis(20))?;
    again.take(at(now)).map(|copy| copy.number)
}

#[test]
fn a_lost_packet_is_sent_again_once_it_is_asked_for() {
    let mut again = kept(&[(0, 200), (0, 200)]);
    assert_eq!(next(&mut again, 50), None);
    assert_eq!(again.ask(at(50), Some(1), &pace(50, 0)), Answer::Waits);
    assert_eq!(next(&mut again, 51), Some(1));
    assert_eq!(next(&mut again, 51), None);
}

/// 20 ms to the receiver and 8 ms for each packet before it: to the nanosecond.
#[test]
fn a_packet_that_would_be_late_behind_the_queue_is_not_sent_again() {
    for (ahead, answer) in [(5000, Answer::Waits), (5001, Answer::Late)] {
        let mut again = kept(&[(0, 120)]);
        assert_eq!(again.ask(at(60), Some(0), &pace(60, ahead)), answer);
        assert_eq!(again.stats().late, u64::from(answer == Answer::Late));
    }
    let mut again = kept(&[(0, 120)]);
    let later = Pace {
        start: at(101),
        ..pace(60, 0)
    };
    assert_eq!(again.ask(at(60), Some(0), &later), Answer::Late);
}

/// The one of class 0 passes, and leaves no time for the third.
#[test]
fn retransmissions_that_leave_before_it_take_time_and_those_behind_it_do_not() {
    let mut again = kept(&[(1, 120), (0, 200), (1, 121), (1, 119)]);
    let pace = pace(84, 0);
    let asked = [0, 1, 2, 3].map(|n| again.ask(at(84), Some(n), &pace));
    use Answer::{Late, Waits};
    assert_eq!(asked, [Waits, Waits, Waits, Waits]);
    let mut again = kept(&[(1, 120), (0, 200), (1, 121), (1, 119)]);
    let late = Pace {
        ahead: Bytes::new(500),
        ..pace
    };
    let asked = [1, 0, 2, 3].map(|n| again.ask(at(84), Some(n), &late));
    assert_eq!(asked, [Waits, Waits, Late, Waits]);
    let left: Vec<_> = std::iter::from_fn(|| next(&mut again, 90)).collect();
    assert_eq!(left, [1, 3, 0]);
}

#[test]
fn a_packet_that_became_late_while_it_waited_is_dropped_and_counted() {
    let mut again = kept(&[(0, 100), (1, 200)]);
    assert_eq!(again.ask(at(70), Some(0), &pace(70, 0)), Answer::Waits);
    assert_eq!(again.ask(at(70), Some(1), &pace(70, 0)), Answer::Waits);
    assert_eq!(next(&mut again, 81), Some(1), "that of 80 ms is too late");
    assert_eq!((again.stats().sent, again.stats().late), (1, 1));
    assert!(!again.is_waiting());
}

#[test]
fn a_thousand_equal_requests_are_one_packet_in_each_round_trip() {
    let mut again = kept(&[(0, 1000)]);
    let mut sent = Vec::new();
    for n in 0..1000 {
        let now = 50 + n / 10; // 100 ms
        again.ask(at(now), Some(0), &pace(now, 0));
        sent.extend(next(&mut again, now).map(|_| now));
    }
    assert_eq!(sent, [50, 90, 130]);
    assert_eq!(again.stats().repeated, 997);
}

#[test]
fn a_packet_with_time_enough_is_sent_again_a_bounded_number_of_times() {
    let mut again = kept(&[(0, 60_000)]);
    let mut sent = 0;
    for now in 1..30_000 {
        again.ask(at(now), Some(0), &pace(now, 0));
        sent += usize::from(next(&mut again, now).is_some());
    }
    assert_eq!(sent, usize::from(COPIES));
    assert_eq!(again.stats().repeated, 29_999 - u64::from(COPIES));
}

#[test]
fn packets_are_kept_until_their_deadline_and_within_their_bytes() {
    let mut again = Again::new(Bytes::new(3 * (1000 + OVERHEAD)));
    for number in 0..4 {
        again.keep(at(0), number, datagram(0, 100), ());
    }
    assert_eq!(again.held(), Bytes::new(3 * (1000 + OVERHEAD)));
    assert_eq!(again.ask(at(1), Some(0), &pace(1, 0)), Answer::Unknown);
    assert_eq!(again.ask(at(1), Some(1), &pace(1, 0)), Answer::Waits);
    again.keep(at(2), 4, datagram(0, 300), ());
    assert_eq!((again.stats().evicted, again.is_waiting()), (1, false));
    again.keep(at(101), 5, datagram(0, 300), ());
    assert_eq!(again.held(), Bytes::new(2 * (1000 + OVERHEAD)));
    let huge = Datagram {
        len: u32::MAX,
        ..datagram(0, 300)
    };
    again.keep(at(101), 6, huge, ());
    assert_eq!(again.held(), Bytes::new(2 * (1000 + OVERHEAD)));
}

#[test]
fn a_packet_that_has_arrived_is_not_sent_again() {
    let mut again = kept(&[(0, 200), (0, 200)]);
    again.settle(0);
    assert_eq!(again.ask(at(50), Some(0), &pace(50, 0)), Answer::Unknown);
    again.ask(at(50), Some(1), &pace(50, 0));
    again.settle(1);
    assert_eq!(next(&mut again, 50), None);
    assert_eq!(again.stats().unknown, 2);
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    let packets = [(0, 60_000); WAITING + 5];
    let mut again = kept(&packets);
    for number in 0..packets.len() as u64 {
        again.ask(at(1), Some(number), &pace(1, 0));
    }
    assert_eq!(again.stats().evicted, 5);
    let sent = std::iter::from_fn(|| next(&mut again, 2)).count();
    assert_eq!(sent, WAITING);
}

proptest! {
    /// Any packets and requests: none is sent late or twice in a round trip, every request has one end, and memory is bounded.
    #[test]
    fn every_request_has_one_end_and_no_packet_is_sent_late(
        steps in prop::collection::vec((0u8..5, 0u64..40, 0u8..3, 0u64..300), 1..400),
    ) {
        let mut again = Again::new(Bytes::new(10_000));
        let (mut now, mut number, mut last) = (0, 0, std::collections::BTreeMap::new());
        for (step, back, class, ms) in steps {
            now += ms % 7;
            match step {
                0 | 1 => {
                    again.keep(at(now), number, datagram(class, now + ms), ());
                    number += 1;
                }
                2 => {
                    again.ask(at(now), number.checked_sub(back), &pace(now, ms * 10));
                }
                3 => again.settle(number.saturating_sub(back)),
                _ => {
                    let one_way = Duration::from_millis(20);
                    if again.peek(at(now), one_way).is_some() {
                        let copy = again.take(at(now)).expect("what was peeked at");
                        prop_assert!(at(now) + one_way <= copy.datagram.deadline);
                        let before = last.insert(copy.number, now);
                        prop_assert!(before.is_none_or(|before| now >= before + 40));
                    }
                }
            }
            let Stats { asked, sent, late, repeated, unknown, evicted } = *again.stats();
            prop_assert_eq!(asked, sent + late + repeated + unknown + evicted + again.waiting.len() as u64);
            prop_assert!(again.held() <= Bytes::new(10_000));
            let held: u64 = again.kept.iter().map(|kept| cost(&kept.datagram)).sum();
            prop_assert_eq!(held, again.held().get());
            let bytes: u64 = again.waiting.iter().map(|due| u64::from(due.len)).sum();
            prop_assert_eq!(bytes, again.waiting_bytes);
        }
    }
}
