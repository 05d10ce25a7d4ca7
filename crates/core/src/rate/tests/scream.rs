// SPDX-License-Identifier: MIT OR Apache-2.0
//! SCReAMv2 by the sections of its draft, and an encoder that follows it over a link with a queue.

use super::link::Link;
use super::*;
use crate::rate::scream::{Scream, ScreamParams};

fn of(path: &Path) -> &Scream {
    match &path.controller {
        AnyController::Scream(scream) => scream,
        other => panic!("{other:?}"),
    }
}

fn path(l4s: bool) -> Path {
    let params = ScreamParams {
        l4s,
        ..ScreamParams::default()
    };
    Path::new(Config::Scream(params), Duration::from_millis(50))
}

fn link(mbit: f64) -> Link<Scream> {
    Link::new(mbit, Scream::new(ScreamParams::default()))
}

/// Falls of the window by more than 3 % in two seconds, each as a factor.
fn falls(path: &mut Path) -> Vec<f64> {
    let mut falls = Vec::new();
    let mut before = of(path).window();
    for _ in 0..2000 {
        path.run(Duration::from_millis(1));
        let now = of(path).window();
        let factor = now as f64 / before as f64;
        falls.extend((factor < 0.97).then_some(factor));
        before = now;
    }
    falls
}

/// BETA_LOSS, BETA_ECN; of L4S one mark in an RTT is little.
#[test]
fn the_window_falls_once_for_a_loss_and_once_for_a_mark() {
    for (l4s, is_loss, factor) in [(false, true, 0.7), (true, true, 0.7), (false, false, 0.8)] {
        let mut path = path(l4s);
        path.run(Duration::from_secs(5));
        let next = path.sent;
        if is_loss {
            path.lose = Box::new(move |sequence| sequence == next);
        } else {
            path.mark = Box::new(move |sequence| sequence == next);
        }
        let falls = falls(&mut path);
        assert_eq!(falls.len(), 1, "{l4s} {is_loss} {falls:?}");
        assert!(
            (falls[0] - factor).abs() < 0.02,
            "{l4s} {is_loss} {falls:?}"
        );
    }
    let mut path = path(true);
    path.run(Duration::from_secs(5));
    let next = path.sent;
    path.mark = Box::new(move |sequence| sequence == next);
    assert_eq!(falls(&mut path), [0.0; 0]);
}

/// §4.2.1.1, and the bound of RFC 8985 §3.3.2. A packet each 20 ms, of which one comes after 0.9 s; a report each 100 ms.
#[test]
fn one_packet_that_comes_very_late_hides_no_later_loss() {
    let mut path = path(false);
    let mut last = 0;
    path.has_data = Box::new(move |now| {
        let packet = now.as_nanos() / 20_000_000;
        core::mem::replace(&mut last, packet) < packet
    });
    path.run(Duration::from_secs(5));
    let late = path.sent;
    path.lose = Box::new(move |sequence| sequence == late);
    path.run(Duration::from_millis(900));
    let arrival = Arrival {
        sequence: late,
        bytes: 1000,
        rtt: None,
        window: None,
        marked: false,
    };
    path.reporter.on_arrival(path.now, arrival);
    path.run(Duration::from_secs(10));
    let (before, lost) = (of(&path).window(), path.sent);
    path.lose = Box::new(move |sequence| sequence == lost);
    let fell = (0..2000).find(|_| {
        path.run(Duration::from_millis(1));
        of(&path).window() as f64 <= 0.9 * before as f64
    });
    assert!(fell.is_some_and(|ms| ms < 600), "{fell:?} ms");
}

#[test]
fn a_silent_receiver_gets_a_packet_after_each_timeout() {
    let (first, at) = path(false).run_into_silence();
    assert!((5..=15).contains(&first), "{first}");
    assert_eq!(at, [1, 3, 7, 15, 31, 63, 123]);
}

/// §4.2.1.4: the window falls where the queue is above half of 60 ms, so it stands at about that.
#[test]
fn a_queue_stands_at_the_target_of_the_delay_and_the_link_is_used() {
    for mbit in [0.5, 1.0, 2.0, 10.0] {
        let p99 = link(mbit).expect_short_queue(30, 90);
        assert!(p99 < 150.0, "{mbit} Mbit/s: {p99} ms");
    }
}

#[test]
fn a_link_that_becomes_slower_or_faster_is_followed() {
    let mut link = link(2.0);
    link.until(30);
    link.bps = 500_000.0;
    link.expect_short_queue(35, 60);
    link.bps = 2_000_000.0;
    link.expect_short_queue(90, 120);
}

/// Each packet is in several reports, so half of those may be lost.
#[test]
fn a_lost_report_is_no_lost_packet() {
    let mut link = link(2.0);
    link.loses_report = |report| report % 2 == 0;
    link.expect_short_queue(30, 60);
}

/// §4.2.1.4.1: others hold a queue of 150 ms from 20 s on, without losses and with one in 100 packets. The target is the mean delay, or
/// half as much more; when they end, it is 60 ms again.
#[test]
fn a_queue_of_others_raises_the_target_of_the_delay() {
    for (loses, least, most) in [
        ((|_| false) as fn(u64) -> bool, 145, 215),
        (|sequence| sequence % 100 == 99, 215, 330),
    ] {
        let mut link = link(2.0);
        link.until(20);
        assert_eq!(link.controller.delay_target(), Duration::from_millis(60));
        (link.others, link.loses) = (0.15, loses);
        link.until(90);
        let target = link.controller.delay_target();
        let range = Duration::from_millis(least)..=Duration::from_millis(most);
        assert!(range.contains(&target), "{target}");
        (link.others, link.loses) = (0.0, |_| false);
        link.until(120);
        assert_eq!(link.controller.delay_target(), Duration::from_millis(60));
        link.expect_short_queue(120, 150);
    }
}

/// §4.3.1: bytes in flight are bounded by the window where reports stop.
#[test]
fn no_more_is_in_flight_than_the_send_window() {
    let mut path = path(false);
    path.run(Duration::from_secs(3));
    let (window, sent) = (of(&path).window(), path.sent);
    path.lose = Box::new(|_| true);
    path.run(Duration::from_millis(900));
    let in_flight = (path.sent - sent) * 1000;
    assert!(in_flight <= window * 6, "{in_flight} of {window}");
    assert_eq!(of(&path).next_send(), None);
}
