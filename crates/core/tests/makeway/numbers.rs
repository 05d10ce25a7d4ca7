// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of flows that go from one flow to another, as a flow table with more flows than numbers gives them.

use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::sched::{Class, Drops, Scheduler};
use makeway_core::units::{Bytes, Duration, Instant};
use proptest::prelude::*;

use super::MBIT10;
use super::link::Link;

/// A gateway gives a flow's number to another when there are more flows than numbers.
#[test]
fn a_flow_that_gets_the_number_of_another_inherits_nothing() {
    let mut scheduler = Link::new(100, &MBIT10).scheduler;
    let mut drops = Drops::default();
    let mut now = Instant::ZERO;
    let mut packet = |scheduler: &mut Box<dyn Scheduler + Send>, ms: u64| {
        now += Duration::from_millis(ms);
        scheduler.enqueue(now, new_packet(now, 0, 0), &mut drops);
        scheduler.dequeue(now, &mut drops).unwrap();
        scheduler.standing(FlowId(0)).unwrap().class
    };
    for _ in 0..250 {
        packet(&mut scheduler, 20);
    }
    assert_eq!(packet(&mut scheduler, 20), Class::Standing);
    scheduler.forget(FlowId(0));
    assert_eq!(packet(&mut scheduler, 0), Class::New);
}

fn new_packet(now: Instant, flow: u32, user: u32) -> Packet {
    Packet::new(now, Handle(0), FlowId(flow), UserId(user), Bytes::new(1000))
}

proptest! {
    /// Numbers of flows without packets go to flows of other users at any time, also in the middle of a round: every packet leaves.
    #[test]
    fn numbers_of_flows_change_hands_and_every_packet_leaves(
        steps in proptest::collection::vec((0u32..12, 0u32..4, 0u32..12, 0usize..10), 1..400),
    ) {
        let mut scheduler = Link::new(60, &MBIT10).scheduler;
        let mut drops = Drops::default();
        let mut held = [0u32; 12];
        let mut owners = [0; 12];
        let mut now = Instant::ZERO;
        for (flow, user, leave, passed) in steps {
            now += Duration::from_millis([0, 1, 5, 20, 50, 100, 300, 0, 1, 700][passed]);
            if held[flow as usize] == 0 && owners[flow as usize] != user {
                scheduler.forget(FlowId(flow));
                owners[flow as usize] = user;
            }
            for _ in 0..3 {
                scheduler.enqueue(now, new_packet(now, flow, owners[flow as usize]), &mut drops);
                held[flow as usize] += 1;
            }
            for _ in 0..leave {
                if let Some(packet) = scheduler.dequeue(now, &mut drops) {
                    held[packet.flow.0 as usize] -= 1;
                }
            }
            for (packet, _) in drops.drain() {
                held[packet.flow.0 as usize] -= 1;
            }
            prop_assert_eq!(scheduler.backlog().packets, held.iter().sum::<u32>());
        }
        while let Some(packet) = scheduler.dequeue(now, &mut drops) {
            held[packet.flow.0 as usize] -= 1;
        }
        for (packet, _) in drops.drain() {
            held[packet.flow.0 as usize] -= 1;
        }
        prop_assert_eq!(held, [0; 12]);
    }
}

/// User 1 has flows 0 and 3, user 2 flow 1, all bulk. Flow 0 is empty, and still in the round of user 1, when user 2 gets its number; it is
/// bulk again before that round comes to it, since the link stands. User 1 keeps its half.
#[test]
fn a_flow_that_gets_the_number_of_another_users_has_turns_of_its_own_user() {
    let mut scheduler = Link::new(2000, &MBIT10).scheduler;
    let mut drops = Drops::default();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut left = [300, 300, 0, 300];
    for (flow, user) in [(0, 1), (1, 2), (3, 1)] {
        for _ in 0..300 {
            scheduler.enqueue(at(0), new_packet(at(0), flow, user), &mut drops);
        }
    }
    while left[0] > 0 {
        let packet = scheduler.dequeue(at(290), &mut drops).unwrap();
        left[packet.flow.0 as usize] -= 1;
    }
    scheduler.forget(FlowId(0));
    for flow in [0, 1] {
        for _ in 0..200 {
            scheduler.enqueue(at(290), new_packet(at(290), flow, 2), &mut drops);
        }
    }
    for (flow, user) in [(0, 2), (3, 1)] {
        for _ in 0..200 {
            scheduler.enqueue(at(545), new_packet(at(545), flow, user), &mut drops);
        }
    }
    assert_eq!(scheduler.standing(FlowId(0)).unwrap().class, Class::Bulk);
    let mut served = (0..200).map(|_| scheduler.dequeue(at(545), &mut drops).unwrap());
    let of_user_1 = served.by_ref().filter(|packet| packet.flow == FlowId(3));
    let of_user_1 = of_user_1.count();
    assert!((90..=110).contains(&of_user_1), "{of_user_1} of 200");
}
