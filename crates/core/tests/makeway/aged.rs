// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts of flows in standing that wait for each other.

use super::MBIT10;
use super::hostile::download_from;
use super::link::*;
use proptest::prelude::*;

/// The rule's constants: ns after which a packet has aged, and the part of the bytes that is the shortest queue's while one has.
const AGED: f64 = 20e6;
const AGED_OF: f64 = 8.0;

/// Bytes in a ns that those in standing have at least on a link of `bit_per_s`.
fn part(bit_per_s: u32) -> f64 {
    f64::from(bit_per_s) / 8e9 * 120.0 / 133.0
}

/// Bytes of bulk and of a shorter queue that go between.
fn between() -> f64 {
    2.0 * (QUANTUM as f64 + f64::from(LEN)) + 2.0 * f64::from(LEN)
}

/// Bytes of bulk that waited while a packet had aged, and then go at once.
fn grace(bit_per_s: u32) -> f64 {
    f64::from(bit_per_s) / 8e9 * (1u64 << WINDOW_BITS) as f64 / 72.0
}

pub fn stream(burst: u32, len: u32, period: u64, from: u64, to: u64) -> Source {
    Source::Stream {
        burst,
        len,
        period,
        from,
        to,
    }
}

/// 80 kbit/s, a packet every 20 ms.
fn call() -> Source {
    stream(1, 200, 20 * MS, 5 * MS, u64::MAX)
}

/// A flow that sends as `first` and then as `then`.
fn becomes(link: &mut Link, first: Source, then: Source) {
    let [first, then] = [first, then].map(|source| link.flow(0, source));
    link.flows[then].id = link.flows[first].id;
}

/// A video that sends `burst` full packets every 40 ms, and `large` more every 480 ms; the numbers of both parts.
fn video_of(link: &mut Link, burst: u32, large: u32, from: u64) -> [usize; 2] {
    let frames = [(burst, 40 * MS), (large, 480 * MS)];
    let parts =
        frames.map(|(burst, period)| link.flow(0, stream(burst, LEN, period, from, u64::MAX)));
    link.flows[parts[1]].id = link.flows[parts[0]].id;
    parts
}

/// The longest wait of a packet of these flows that was sent after `from`, in ns.
fn longest_wait(link: &Link, flows: &[usize], from: u64) -> f64 {
    let came = flows.iter().flat_map(|flow| &link.flows[*flow].came);
    let waits = came
        .filter(|(at, _)| *at > from)
        .filter_map(|(_, wait)| *wait);
    waits.max().unwrap_or(0) as f64
}

/// The longest wait under FIFO of these flows, with the bytes of their packets, on a link of `rate` bytes in a ns (Lindley's recursion).
fn wait_under_fifo(link: &Link, flows: &[(usize, u32)], rate: f64, from: u64) -> f64 {
    let arrivals = flows.iter().flat_map(|&(flow, len)| {
        let came = link.flows[flow].came.iter();
        came.map(move |(at, _)| (*at, len))
    });
    let mut arrivals: Vec<(u64, u32)> = arrivals.collect();
    arrivals.sort_unstable();
    let (mut backlog, mut last, mut longest) = (0.0_f64, 0, 0.0_f64);
    for (at, len) in arrivals {
        backlog = (backlog - (at - last) as f64 * rate).max(0.0) + f64::from(len);
        last = at;
        if at > from {
            longest = longest.max(backlog / rate);
        }
    }
    longest
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// (f) Videos that need 4/5 of the link: no packet waits longer than 20 ms and 8/7 of its wait under FIFO. And the shortest queue, a call's,
    /// waits for no burst.
    #[test]
    fn bursts_wait_little_longer_than_under_fifo_and_a_call_does_not_wait_for_them(
        videos in proptest::collection::vec((12u32..16, 15u32..31, 0u64..40), 3),
    ) {
        let mut link = Link::new(400, &[(0, 20_000_000)]);
        let parts: Vec<usize> = videos.into_iter()
            .flat_map(|(burst, large, from)| video_of(&mut link, burst, large, from * MS))
            .collect();
        let call = link.flow(0, call());
        for _ in 0..4 {
            link.flow(0, download_from(5 * SECOND, 30));
        }
        link.run(16 * SECOND);
        let rate = part(20_000_000);
        let mut flows: Vec<(usize, u32)> = parts.iter().map(|part| (*part, LEN)).collect();
        flows.push((call, 200));
        let fifo = wait_under_fifo(&link, &flows, rate, 6 * SECOND);
        let bound = AGED + fifo * AGED_OF / (AGED_OF - 1.0) + between() / rate;
        let wait = longest_wait(&link, &parts, 6 * SECOND);
        prop_assert!(wait <= bound, "{wait} ns, bound {bound} ns, {fifo} ns under FIFO");
        let bound = (AGED_OF * 200.0 + between() + grace(20_000_000)) / rate;
        let wait = longest_wait(&link, &[call], 6 * SECOND);
        prop_assert!(wait <= bound, "{wait} ns of the call, bound {bound} ns");
    }

    /// (f) Flows that stand with even packets, and then send all that they have in bursts: each delays a video by no more than a burst, and no
    /// more than a quarter of the bytes that it brings in a window; and a call by none of that.
    #[test]
    fn flows_that_burst_delay_a_video_by_a_quarter_of_a_window_and_a_call_not_at_all(
        offsets in proptest::collection::vec(prop_oneof![2 => Just(0u64), 1 => 0u64..500], 1..9),
        period in 150u64..500,
        kbit_per_s in 2000u64..3000,
    ) {
        let mut link = Link::new(400, &MBIT10);
        let video = link.flow(0, stream(10, 1470, 40 * MS, 0, u64::MAX));
        let call = link.flow(0, call());
        for _ in 0..2 {
            link.flow(0, download_from(4 * SECOND, 30));
        }
        let count = offsets.len() as u64;
        let burst = (kbit_per_s * period / 8 / u64::from(LEN) / count).max(1) as u32;
        for (n, offset) in (0..).zip(&offsets) {
            let even = stream(1, LEN, period * MS / u64::from(burst), n * MS, 8 * SECOND);
            let from = 8 * SECOND + offset % period * MS;
            let bursts = stream(burst, LEN, period * MS, from, u64::MAX);
            becomes(&mut link, even, bursts);
        }
        link.run(20 * SECOND);
        let rate = part(10_000_000);
        let burst = f64::from(burst * LEN);
        let window = burst * ((1u64 << WINDOW_BITS) / (period * MS) + 1) as f64;
        let bursts = burst.min(window / 4.0) * count as f64 + 10.0 * 1470.0 + 200.0;
        let bound = AGED + (bursts * AGED_OF / (AGED_OF - 1.0) + between()) / rate;
        let wait = longest_wait(&link, &[video], 9 * SECOND);
        prop_assert!(wait <= bound, "{wait} ns, bound {bound} ns");
        let bound = (AGED_OF * 200.0 + between() + grace(10_000_000)) / rate;
        let wait = longest_wait(&link, &[call], 9 * SECOND);
        prop_assert!(wait <= bound, "{wait} ns of the call, bound {bound} ns");
    }
}

/// Three videos whose large frames come 11 ms apart. By the shortest queue alone the last one waits for 128 ms; if bulk has its part in between, for 79 ms.
#[test]
fn the_longest_of_several_videos_does_not_wait_for_all_frames_of_the_others_and_not_for_bulk() {
    let mut link = Link::new(400, &[(0, 20_000_000)]);
    let parts: Vec<usize> = (0..3)
        .flat_map(|n| video_of(&mut link, 15, 30, n * 11 * MS))
        .collect();
    for _ in 0..4 {
        link.flow(0, download_from(5 * SECOND, 30));
    }
    link.run(20 * SECOND);
    let wait = longest_wait(&link, &parts, 6 * SECOND) / 1e6;
    assert!(wait < 74.0, "{wait} ms");
}

/// 19 ms of the link and 5 ms, 2 ms later.
#[test]
fn a_burst_goes_before_a_shorter_one_after_20_ms_and_no_sooner() {
    let mut link = Link::new(400, &MBIT10);
    link.flow(0, stream(16, LEN, 40 * MS, 0, u64::MAX));
    let short = link.flow(0, stream(4, LEN, 40 * MS, 2 * MS, u64::MAX));
    link.flow(0, stream(10, LEN, 10 * MS, 4 * SECOND, u64::MAX));
    link.run(16 * SECOND);
    let wait = longest_wait(&link, &[short], 6 * SECOND) / 1e6;
    assert!(wait < 10.0, "{wait} ms");
}

/// 120 ms of the link at once, from a flow with 0.6 Mbit/s: under FIFO a video waits for all of them.
#[test]
fn a_burst_of_more_than_a_quarter_of_a_window_does_not_age() {
    let mut link = Link::new(400, &MBIT10);
    let video = link.flow(0, stream(10, 1470, 40 * MS, 0, u64::MAX));
    for _ in 0..4 {
        link.flow(0, download_from(4 * SECOND, 20));
    }
    let even = stream(1, LEN, 19 * MS, 0, 8 * SECOND);
    let bursts = stream(100, LEN, 1900 * MS, 8 * SECOND, u64::MAX);
    becomes(&mut link, even, bursts);
    link.run(20 * SECOND);
    let wait = longest_wait(&link, &[video], 8 * SECOND) / 1e6;
    assert!(wait < 30.0, "{wait} ms");
}

/// A flow stands with 4 Mbit/s, and goes on as TCP does, which keeps a queue of less than a quarter of a window.
#[test]
fn a_queue_that_stands_does_not_age() {
    let mut link = Link::new(200, &MBIT10);
    let video = link.flow(0, stream(12, 1470, 40 * MS, 0, u64::MAX));
    for n in 0..2 {
        link.flow(0, download_from(4 * SECOND + n * 20 * MS, 20));
    }
    let even = stream(1, LEN, 3 * MS, 0, 8 * SECOND);
    becomes(&mut link, even, download_from(8 * SECOND, 20));
    link.run(20 * SECOND);
    let on_time = link.on_time(video, 8 * SECOND, 19 * SECOND, 60 * MS);
    assert!(on_time > 0.995, "{on_time}");
}

/// Four streams with 9.08 Mbit/s, of which 9.02 go first: packets have aged most of the time.
#[test]
fn bulk_that_waits_for_bursts_has_nine_percent_in_every_second_all_the_same() {
    let mut link = Link::new(400, &MBIT10);
    for n in 0..4 {
        link.flow(0, stream(14, LEN, 74 * MS, n * 7 * MS, u64::MAX));
    }
    let flood = link.flow(0, stream(10, LEN, 12 * MS, 6 * SECOND, u64::MAX));
    link.run(14 * SECOND);
    for from in 6..14 {
        let rate = link.goodput(flood, from * SECOND, (from + 1) * SECOND);
        // To a packet.
        let packet = f64::from(LEN * 8);
        assert!(rate + packet >= 900_000.0, "{rate} bit/s from {from} s");
    }
}
