// SPDX-License-Identifier: MIT OR Apache-2.0
//! Google congestion control: its answers to a queue, to losses and to silence, and an encoder that follows it over a link.

use super::link::Link;
use super::*;
use crate::rate::gcc::{Gcc, GccParams};
use crate::units::Rate;

fn link(mbit: f64) -> Link<Gcc> {
    Link::new(mbit, Gcc::new(GccParams::default()))
}

fn mbit(rate: Rate) -> f64 {
    rate.bps() as f64 / 1e6
}

#[test]
fn a_queue_stays_short_and_the_link_is_used() {
    for mbit in [0.5, 1.0, 2.0, 10.0] {
        let p99 = link(mbit).expect_short_queue(60, 120);
        assert!(p99 < 150.0, "{mbit} Mbit/s: {p99} ms");
    }
}

/// The threshold rises with the gradient of the queue that drains, and K_d takes some 20 s to lower it: until then a queue of 0.4 s comes
/// back.
#[test]
fn a_link_that_becomes_slower_or_faster_is_followed() {
    let mut link = link(2.0);
    link.until(60);
    link.bps = 500_000.0;
    link.until(64);
    assert!(mbit(link.controller.target_rate()) < 0.5);
    link.expect_short_queue(85, 115);
    link.bps = 2_000_000.0;
    link.expect_short_queue(145, 175);
}

/// §6: 5 % of losses hold the rate, 20 % let it fall although no queue stands.
#[test]
fn losses_above_ten_percent_lower_the_rate_and_five_do_not() {
    let mut link = link(2.0);
    link.until(60);
    let before = mbit(link.controller.target_rate());
    link.loses = |sequence| sequence % 20 == 19;
    link.until(70);
    let held = mbit(link.controller.target_rate());
    assert!(held > 0.7 * before, "{before} {held}");
    link.loses = |sequence| sequence % 5 == 4;
    link.until(80);
    let fallen = mbit(link.controller.target_rate());
    assert!(fallen < held / 3.0, "{held} {fallen}");
    assert!(mbit(link.controller.rate_by_delay()) > fallen * 1.5);
}

#[test]
fn a_lost_report_is_no_lost_packet() {
    let mut link = link(2.0);
    link.loses_report = |report| report % 2 == 0;
    link.expect_short_queue(60, 90);
}

/// Frames of 14 packets, as keyframes are: their trains tell the rate of a link at once, growth of 8 % a second takes half a minute. As_hat
/// follows, but not where 5 % of the packets are lost, which hold it (§6).
#[test]
fn trains_of_packets_find_the_rate_of_a_link() {
    let after = |probes, loses: fn(u64) -> bool| {
        let params = GccParams {
            probes,
            ..GccParams::default()
        };
        let mut path = Path::new(Config::Gcc(params), Duration::from_millis(50));
        path.lose = Box::new(loses);
        let mut waiting = 0;
        let mut last = 0;
        path.has_data = Box::new(move |now| {
            let frame = now.as_nanos() / 400_000_000;
            if frame > last {
                (last, waiting) = (frame, 14);
            }
            waiting -= i32::from(waiting > 0);
            waiting > 0
        });
        path.run(Duration::from_secs(5));
        let AnyController::Gcc(gcc) = &path.controller else {
            panic!("{:?}", path.controller);
        };
        (mbit(gcc.target_rate()), mbit(gcc.rate_by_delay()))
    };
    let (with, by_delay) = after(true, |_| false);
    let (without, _) = after(false, |_| false);
    assert!(with > without * 1.5, "{with} {without}");
    assert_eq!(with, by_delay);
    let (held, by_delay) = after(true, |sequence| sequence % 20 == 19);
    assert!(held * 1.5 < by_delay, "{held} {by_delay}");
}

#[test]
fn a_silent_receiver_gets_a_packet_after_each_timeout() {
    let config = Config::Gcc(GccParams::default());
    let mut path = Path::new(config, Duration::from_millis(50));
    let (first, at) = path.run_into_silence();
    // 600 kbit/s, twice the first target.
    assert!((74..=77).contains(&first), "{first}");
    assert_eq!(at, [1, 3, 7, 15, 31, 63, 123]);
    assert_eq!(path.controller.target_rate(), Rate::from_bps(50_000));
}
