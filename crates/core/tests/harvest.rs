// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams with tickets over one link (section 4 of the PPS paper): rates, and tickets after the link.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::random::Rng;
use makeway_core::sched::{Drops, Env, HarvestParams, Limits, RedParams, Spec, build};
use makeway_core::ticket::{Codec, Scale, Tagger, TicketRate};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

/// Link of Fig. 1: 1.2 Mbit/s, 150 packets of 1000 B a second.
const LINE: u64 = 150;
const KB: Bytes = Bytes::new(1000);
const WINDOW: Duration = Duration::from_secs(10);

/// Packets and tickets a second that leave of each flow, whose packets and tickets a second are given.
fn after(bits: u32, flows: &[(u64, u32)]) -> Vec<(f64, f64)> {
    let codec = Codec::new(bits, Scale::Linear).unwrap();
    let limits = Limits {
        packets: 400,
        bytes: Bytes::new(400_000),
        flows: 16,
    };
    let spec = Spec::Harvest(HarvestParams {
        red: RedParams {
            min: 20,
            max: 200,
            ..RedParams::default()
        },
        window: WINDOW,
    });
    let env = Env {
        rate: Some(Rate::from_bps(LINE * 8000)),
        codec,
        ..Env::new(limits)
    };
    let mut link = build(&spec, &env).unwrap();
    let mut taggers: Vec<Tagger> = flows
        .iter()
        .map(|(_, out)| Tagger::new(TicketRate::new(*out).unwrap(), WINDOW, false, codec))
        .collect();
    let (warmup, end) = (120_000_000, 720_000_000);
    let mut left = vec![(0.0, 0.0); flows.len()];
    let mut drops = Drops::default();
    let mut rng = Rng::new(1);
    let mut due: Vec<u64> = flows.iter().map(|(rate, _)| 1_000_000 / rate).collect();
    let mut departure = 0;
    for us in (0..end).step_by(100) {
        let now = Instant::from_nanos(us * 1000);
        for (flow, due) in due.iter_mut().enumerate() {
            if us < *due {
                continue;
            }
            // Between half and one and a half spacings.
            let spacing = (1_000_000 / flows[flow].0) as u32;
            *due += u64::from(spacing / 2 + rng.below(spacing));
            taggers[flow].on_through(now, KB);
            let tag = taggers[flow].tag(now, KB);
            let id = FlowId(flow as u32);
            let pkt = Packet::new(now, Handle(0), id, UserId(0), KB).with_tag(tag);
            link.enqueue(now, pkt, &mut drops);
            drops.drain().for_each(drop);
        }
        if us >= departure
            && let Some(pkt) = link.dequeue(now, &mut drops)
        {
            departure = departure.max(us.saturating_sub(100)) + 1_000_000 / LINE;
            if us >= warmup {
                let seconds = (end - warmup) as f64 / 1e6;
                let (packets, tickets) = &mut left[pkt.flow.0 as usize];
                *packets += 1.0 / seconds;
                *tickets += codec.decode(pkt.tag()).as_f64() / seconds;
            }
        }
    }
    left
}

fn near(left: &[(f64, f64)], expected: [(f64, f64); 3], error: f64) {
    for (left, expected) in left.iter().zip(expected) {
        for (left, expected) in [(left.0, expected.0), (left.1, expected.1)] {
            assert!((left / expected - 1.0).abs() < error, "{left} {expected}");
        }
    }
}

#[test]
fn streams_above_their_share_are_brought_down_to_it_with_all_their_tickets() {
    for rates in [[150, 150, 150], [100, 80, 300], [80, 200, 600]] {
        let left = after(16, &[(rates[0], 600), (rates[1], 400), (rates[2], 200)]);
        near(&left, [(75.0, 600.0), (50.0, 400.0), (25.0, 200.0)], 0.03);
    }
}

#[test]
fn who_sends_less_than_its_share_loses_nothing_and_what_is_left_is_not_shared_by_tickets() {
    let left = after(16, &[(75, 600), (20, 400), (25, 200)]);
    near(&left, [(75.0, 600.0), (20.0, 400.0), (25.0, 200.0)], 0.03);
    // The first leaves half of its share. While the queue is short all that comes is taken, of each of the others as
    // much: between their shares, 50 and 25, and those of tickets in what is left, 75 and 38.
    let left = after(16, &[(37, 600), (150, 400), (150, 200)]);
    near(&left[..1], [(37.0, 600.0); 3], 0.01);
    near(&left[1..], [(67.0, 400.0), (46.0, 200.0), (0.0, 0.0)], 0.03);
}

#[test]
fn who_sends_more_packets_than_it_has_tickets_has_one_for_each_where_tags_are_whole_tickets() {
    // 600 a second of 200 tickets, with a least code of 1: 600 of 1600.
    let left = after(8, &[(150, 600), (150, 400), (600, 200)]);
    let packets: f64 = left.iter().map(|(packets, _)| packets).sum();
    assert!((packets - 150.0).abs() < 1.0, "{left:?}");
    assert!((left[2].0 / 56.25 - 1.0).abs() < 0.05, "{left:?}");
}
