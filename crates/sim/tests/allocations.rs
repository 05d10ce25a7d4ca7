// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neither end of a connection allocates while it sends, and a whole run not once it is warm.

use makeway_core::sched::Discipline;
use makeway_core::send::AnyPolicy;
use makeway_core::units::{Bytes, Duration, Instant};
use makeway_sim::tcp::{Ack, Config, Receiver, Segment, Sender, Variant};
use makeway_sim::{Options, run_in_full};
use std::collections::VecDeque;
use std::path::Path;

#[path = "../../core/tests/counting/mod.rs"]
mod counting;

#[test]
fn neither_end_allocates_after_it_is_made() {
    for variant in Variant::LOSS_BASED {
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

/// The series, the histograms and the counters are made with the world; queues, links and the arena
/// grow to the most that they have held.
#[test]
fn a_run_allocates_nothing_once_it_is_warm() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let text = include_str!("../../../scenarios/call-and-downloads.toml");
    for discipline in Discipline::ALL {
        let set = format!("link.line.queue.discipline={discipline}");
        let set = [set, "duration=60s".into()];
        let scenario = makeway_scenario::parse(text, "call.toml", folder, &set).unwrap();
        let mut counts = Vec::with_capacity(1000);
        let outcome = run_in_full(&scenario, &Options::default(), |_| {
            counts.push(counting::allocations());
        });
        let packets = outcome.unwrap().hops;
        let warm = counts[counts.len() / 3];
        let later = counts[counts.len() - 1] - warm;
        assert_eq!(later, 0, "{discipline}, {packets} hops");
        assert!(packets > 100_000, "{packets}");
    }
}

/// As [`a_run_allocates_nothing_once_it_is_warm`], over a radio channel, and with a router at each station.
#[test]
fn neither_do_radios_and_their_routers() {
    let text = include_str!("../../../scenarios/examples/wireless.toml");
    for mesh in [false, true] {
        let text = match mesh {
            false => text.to_owned(),
            true => text.replacen("access_point = \"ap\"", "", 1),
        };
        let set = ["duration=60s".into()];
        let scenario = makeway_scenario::parse(&text, "home.toml", Path::new("."), &set).unwrap();
        let mut counts = Vec::with_capacity(1000);
        let outcome = run_in_full(&scenario, &Options::default(), |_| {
            counts.push(counting::allocations());
        });
        let packets = outcome.unwrap().hops;
        // Later than above: a queue is at its longest, and a reason to drop is first met, by chance.
        let later = counts[counts.len() - 1] - counts[counts.len() / 2];
        assert_eq!(later, 0, "{packets} hops");
        assert!(packets > 40_000, "{packets}");
    }
}

/// As [`a_run_allocates_nothing_once_it_is_warm`], with a sender of its own, under each of its policies.
#[test]
fn neither_do_senders_of_their_own() {
    let text = include_str!("../../../scenarios/examples/video-call.toml");
    for policy in AnyPolicy::all() {
        let set = [format!("flow.call.policy={policy}"), "duration=200s".into()];
        let scenario = makeway_scenario::parse(text, "call.toml", Path::new("."), &set).unwrap();
        let mut counts = Vec::with_capacity(1000);
        let outcome = run_in_full(&scenario, &Options::default(), |_| {
            counts.push(counting::allocations());
        });
        let packets = outcome.unwrap().hops;
        let later = counts[counts.len() - 1] - counts[counts.len() / 2];
        assert_eq!(later, 0, "{policy}, {packets} hops");
        assert!(packets > 10_000, "{packets}");
    }
}
