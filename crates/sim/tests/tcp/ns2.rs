// SPDX-License-Identifier: MIT OR Apache-2.0
//! Against ns-2.35, segment by segment, where it is installed (Debian's package `ns2`): one to four
//! segments of a window lost, without and with limited transmit. `ns2.tcl` has its side.
//!
//! The two agree to the last segment of ten seconds, but for
//! - NewReno and two losses: ns-2 leaves recovery with the window that a partial acknowledgement
//!   deflated, and RFC 6582 with ssthresh;
//! - SACK and two losses or more: ns-2 fills a gap as soon as anything beyond has arrived, RFC 6675
//!   when three segments have.

use crate::pipe::{Fate, LOST, Pipe};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Config, LimitedTransmit, Segment, Variant};
use std::fs;
use std::process::Command;

const END: Duration = Duration::from_secs(10);

/// When a segment was sent, in us, and its number.
type Event = (u64, u64);

/// Segments of ns-2's `agent` when the packets `lost` are lost, counted from 0 in order of sending.
fn theirs(agent: &str, sink: &str, lost: &[usize], limited_transmit: bool) -> Option<Vec<Event>> {
    let name = format!("{agent}-{lost:?}-{limited_transmit}-{}", std::process::id());
    let trace = std::env::temp_dir().join(name.replace(['/', ' '], "_"));
    let lost: Vec<_> = lost.iter().map(usize::to_string).collect();
    let status = Command::new("ns")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tcp/ns2.tcl"))
        .args([agent, sink, &lost.join(" ")])
        .arg(u8::from(limited_transmit).to_string())
        .arg(&trace)
        .status()
        .ok()?;
    assert!(status.success());
    let text = fs::read_to_string(&trace).expect("the trace");
    fs::remove_file(&trace).expect("the trace");
    let sent = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let ["+", at, "0", "1", "tcp", _, _, _, _, _, number, ..] = words[..] else {
            return None;
        };
        let at: f64 = at.parse().expect("a time");
        Some(((at * 1e6).round() as u64, number.parse().expect("a number")))
    });
    Some(sent.collect())
}

/// The same of ours: 8 Mbit/s, then 800 kbit/s with 100 ms; acknowledgements of 40 B, and 8 B for
/// each range.
fn ours(config: &Config, lost: &[usize]) -> Vec<Event> {
    let mut arrived = Instant::ZERO;
    let mut out = Instant::ZERO;
    let mut pipe = Pipe::new(
        config,
        Rate::from_bps(8_000_000),
        Duration::from_millis(100),
        |n, segment: &Segment| {
            arrived = arrived.max(segment.sent_at) + Duration::from_millis(1);
            if lost.contains(&n) {
                return LOST;
            }
            out = out.max(arrived) + Duration::from_millis(10);
            Fate {
                late: out.saturating_since(arrived),
                ..Fate::default()
            }
        },
        |_, ack| Fate {
            late: Duration::from_micros(11) * (40 + 8 * ack.sacked().count() as u64),
            ..Fate::default()
        },
    );
    pipe.sender.send_endless();
    pipe.run(Instant::ZERO + END);
    let sent = pipe.sent.iter();
    sent.map(|(at, s)| (at.as_nanos() / 1000, s.seq / 1000))
        .collect()
}

#[test]
fn segments_leave_when_ns2_sends_them() {
    let agents = [
        (Variant::Tahoe, "TCP", "TCPSink"),
        (Variant::Reno, "TCP/Reno", "TCPSink"),
        (Variant::NewReno, "TCP/Newreno", "TCPSink"),
        (Variant::Sack, "TCP/Sack1", "TCPSink/Sack1"),
    ];
    let losses: [&[usize]; 5] = [
        &[1_000_000],
        &[14],
        &[14, 28],
        &[14, 26, 28],
        &[14, 24, 26, 28],
    ];
    for (variant, agent, sink) in agents {
        for lost in losses {
            for limited_transmit in [LimitedTransmit::Off, LimitedTransmit::Any] {
                let limited = limited_transmit != LimitedTransmit::Off;
                let Some(theirs) = theirs(agent, sink, lost, limited) else {
                    makeway_testing::skip("no ns-2 here to compare with");
                    return;
                };
                let config = Config {
                    window: Bytes::new(28_000),
                    initial_ssthresh: Bytes::new(28_000),
                    limited_transmit,
                    ..Config::ns2(variant)
                };
                let ours = ours(&config, lost);
                let what = format!("{agent} {lost:?} {limited}");
                let apart = match (variant, lost) {
                    (Variant::NewReno, [14, 28]) => !limited,
                    (Variant::Sack, lost) => lost.len() > 1,
                    _ => false,
                };
                if apart {
                    // As much in the end, within 1.5 %.
                    let (a, b) = (ours.len() as f64, theirs.len() as f64);
                    assert!((a / b - 1.0).abs() < 0.015, "{what}: {a} {b}");
                    continue;
                }
                let same = |(a, b): &(&Event, &Event)| a.1 == b.1 && a.0.abs_diff(b.0) < 10;
                let agree = ours.iter().zip(&theirs).take_while(same).count();
                assert!(
                    agree >= 500 && agree == ours.len() && agree == theirs.len(),
                    "{what}: {agree}; {:?} {:?}",
                    ours.get(agree),
                    theirs.get(agree)
                );
            }
        }
    }
}

/// Output of `ns2-segments`: agent and losses, then times and numbers.
const SEGMENTS: &str = include_str!("segments.txt");

#[test]
fn segments_leave_when_ns2_sent_them_where_it_was_installed() {
    let mut lines = SEGMENTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .peekable();
    let mut held = 0;
    while let Some(head) = lines.next() {
        let (agent, lost) = head.split_once(' ').expect("agent and losses");
        let mut theirs: Vec<Event> = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            theirs.extend(line.split_whitespace().map(|word| {
                let (at, number) = word.split_once(':').expect("a time and a number");
                (at.parse().expect("us"), number.parse().expect("a number"))
            }));
        }
        let lost: Vec<usize> = lost
            .split(' ')
            .map(|n| n.parse().expect("a packet"))
            .collect();
        let variant = match (agent, lost.len()) {
            ("TCP", _) => Variant::Tahoe,
            ("TCP/Reno", _) => Variant::Reno,
            // The others are apart, see above.
            ("TCP/Newreno", 1 | 3 | 4) => Variant::NewReno,
            ("TCP/Sack1", 1) => Variant::Sack,
            _ => continue,
        };
        let config = Config {
            window: Bytes::new(28_000),
            initial_ssthresh: Bytes::new(28_000),
            ..Config::ns2(variant)
        };
        let same = |(a, b): &(&Event, &Event)| a.1 == b.1 && a.0.abs_diff(b.0) <= 10;
        let ours = ours(&config, &lost);
        let alike = ours.iter().zip(&theirs).take_while(same).count();
        assert_eq!((alike, theirs.len()), (300, 300), "{head}");
        held += 1;
    }
    assert_eq!(held, 12);
}
