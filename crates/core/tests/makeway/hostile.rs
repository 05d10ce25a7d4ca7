// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic that is made to look well-behaved.

use super::*;

/// A download from `from` on.
pub fn download_from(from: u64, rtt_ms: u64) -> Source {
    Source::Download {
        rtt: rtt_ms * MS,
        from,
        packets: u32::MAX,
    }
}

/// `count` flows of user 1 that send a small packet every 1.9 s, and from `from` on `bit_per_s` together.
fn sleepers(link: &mut Link, count: u64, from: u64, bit_per_s: u64) {
    let pause = 1900 * MS;
    let period = count * 12_000 * SECOND / bit_per_s;
    for n in 0..count {
        let sleeps = Source::Stream {
            burst: 1,
            len: 100,
            period: pause,
            from: n * pause / count,
            to: from,
        };
        let wakes = Source::Stream {
            burst: 1,
            len: LEN,
            period,
            from: from + n * period / count,
            to: u64::MAX,
        };
        let [sleeps, wakes] = [sleeps, wakes].map(|source| link.flow(1, source));
        link.flows[wakes].id = link.flows[sleeps].id;
    }
}

#[test]
fn flows_that_stood_without_a_rate_take_no_call_together() {
    for count in [10, 20, 50, 100, 200, 400] {
        let mut link = Link::new(200, &MBIT10);
        let stream = link.flow(0, video());
        let rest = [4, 5].map(|from| link.flow(0, download_from(from * SECOND, 20)));
        sleepers(&mut link, count, 12 * SECOND, 20_000_000);
        link.run(32 * SECOND);
        // A second to find out. 400 flows of bulk fill a buffer of 200 packets, and take half a second more.
        let from = |ms| link.on_time(stream, ms * MS, 31 * SECOND, 150 * MS);
        let on_time = [from(13_500), from(14_000)];
        let least = [if count <= 200 { 0.99 } else { 0.9 }, 0.99];
        assert!(
            on_time[0] > least[0] && on_time[1] > least[1],
            "{on_time:?} beside {count} flows"
        );
        let goodput: f64 = rest
            .map(|flow| link.goodput(flow, 14 * SECOND, 31 * SECOND))
            .iter()
            .sum();
        assert!(goodput > 900_000.0, "{goodput} bit/s beside {count} flows");
    }
}

/// They rise again one by one, or many in a window, beside a call of another user that takes half of the link: no more than fit.
#[test]
fn flows_that_rise_later_fit_beside_a_call() {
    let floods = [
        (75, 20),
        (100, 16),
        (120, 12),
        (130, 60),
        (150, 60),
        (170, 12),
        (196, 20),
        (204, 16),
        (280, 12),
    ];
    for (count, mbit_per_s) in floods {
        let mut link = Link::new(200, &MBIT10);
        let stream = link.flow(0, video());
        for from in [4, 5] {
            link.flow(0, download_from(from * SECOND, 20));
        }
        sleepers(&mut link, count, 12 * SECOND, mbit_per_s * 1_000_000);
        link.run(60 * SECOND);
        let on_time = link.on_time(stream, 14 * SECOND, 59 * SECOND, 150 * MS);
        assert!(
            on_time > 0.99,
            "{on_time} beside {count} flows of {mbit_per_s} Mbit/s"
        );
    }
}

#[test]
fn flows_that_rise_in_the_same_window_fit_together() {
    let mut link = Link::new(200, &MBIT10);
    let stream = link.flow(0, video());
    for from in [4, 5] {
        link.flow(0, download_from(from * SECOND, 20));
    }
    // 20 Mbit/s that ignore loss: two of them fit beside the stream, or one while bulk of another user waits.
    for n in 0..20 {
        let flood = Source::Stream {
            burst: 1,
            len: LEN,
            period: 12 * MS,
            from: 8 * SECOND + n * MS,
            to: u64::MAX,
        };
        link.flow(1, flood);
    }
    link.run(32 * SECOND);
    let on_time = link.on_time(stream, 14 * SECOND, 31 * SECOND, 150 * MS);
    assert!(on_time > 0.99, "{on_time}");
}

#[test]
fn tcp_of_short_packets_is_asked_too() {
    let mut link = Link::new(200, &MBIT10);
    link.flow(0, video());
    for _ in 0..3 {
        link.flow(0, download(20));
    }
    let short = link.flow(0, download_from(5 * SECOND, 100));
    link.flows[short].len = 400;
    link.run(30 * SECOND);
    let standing = link.scheduler.standing(FlowId(link.flows[short].id));
    let standing = standing.unwrap();
    let found = (standing.class, standing.reason);
    assert_eq!(found, (Class::Bulk, Reason::RespondsToLoss));
    assert!(standing.since < Instant::from_nanos(12 * SECOND));
}

/// A flow that loses at least half of what it sends has an eighth of the even part; others share what it leaves.
#[test]
fn a_flood_leaves_its_part_to_those_that_respond() {
    let mut link = Link::new(100, &MBIT10);
    let flood = Source::Stream {
        burst: 1,
        len: LEN,
        period: 600_000,
        from: 0,
        to: u64::MAX,
    };
    let flood = link.flow(0, flood);
    let downloads: Vec<usize> = (0..4).map(|_| link.flow(0, download(20))).collect();
    link.run(20 * SECOND);
    let rate = |flow| link.goodput(flow, 10 * SECOND, 20 * SECOND) / 1e6;
    assert!(rate(flood) < 1.0 && rate(flood) > 0.1, "{}", rate(flood));
    for flow in downloads {
        assert!(rate(flow) > 2.0, "{}", rate(flow));
    }
}

/// Each of many downloads over a long RTT brings less than an eighth of the link, and builds no queue of its own.
#[test]
fn downloads_that_fill_the_link_together_leave_a_stream_that_begins_its_part() {
    let mut link = Link::new(600, &[(0, 100_000_000)]);
    for n in 0..100 {
        link.flow(0, download_from(n * 80 * MS, 195));
    }
    let stream = link.flow(
        0,
        Source::Stream {
            burst: 68,
            len: 1470,
            period: 40 * MS,
            from: 10 * SECOND,
            to: u64::MAX,
        },
    );
    link.run(30 * SECOND);
    let on_time = link.on_time(stream, 16 * SECOND, 29 * SECOND, 150 * MS);
    assert!(on_time > 0.85, "{on_time}");
}
