// SPDX-License-Identifier: MIT OR Apache-2.0
//! Senders of their own in simulated time, against closed forms and laws of conservation.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::{ClassReport, Report};
use makeway_scenario::Scenario;
use makeway_sim::{Options, run};

/// 250 B of IP at 1 Mbit/s are 2 ms; 250 B and the propagation are 42 ms.
const CALL: &str = r#"duration = "23s"
warmup = "3s"
[node.phone]
[node.friend]
[link.line]
between = ["phone", "friend"]
rate = "1mbit"
delay = "40ms"
framing = "ip"
queue = { at = "phone", discipline = "fifo", limit = "1000 packets" }
[flow.call]
kind = "media"
from = "phone"
to = "friend"
policy = "fifo"
rate = "50mbit"
audio = { payload = "214B", period = "20ms" }
"#;

fn scenario(set: &[&str]) -> Scenario {
    let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
    makeway_scenario::parse(CALL, "call.toml", Path::new("."), &set).unwrap()
}

fn simulate(set: &[&str]) -> Report {
    run(&scenario(set), &Options::default(), |_| {}).unwrap()
}

fn classes(report: &Report) -> &[ClassReport] {
    &report.flows[0].media.as_ref().unwrap().classes
}

#[test]
fn a_datagram_takes_its_transmission_and_the_propagation() {
    let report = simulate(&[]);
    let audio = &classes(&report)[0];
    assert_eq!(
        (audio.offered, audio.sent, audio.received, audio.on_time),
        (1000, 1000, 1000, 1000)
    );
    assert_eq!((audio.delay_ms.mean, audio.delay_ms.max), (42.0, 42.0));
    assert_eq!(report.flows[0].goodput_bps, 85_600.0);
    assert_eq!(report.flows[0].ip_bps, Some(100_000.0));
}

#[test]
fn what_comes_after_its_deadline_is_not_on_time() {
    let at = |deadline: &str| classes(&simulate(&[deadline]))[0].on_time;
    assert_eq!(at("flow.call.deadline=42ms"), 1000);
    assert_eq!(at("flow.call.deadline=41ms"), 0);
}

/// The sender's own rate is the bottleneck: 100 datagrams of 1000 B a second at 480 kbit/s are 60.
#[test]
fn every_datagram_has_one_end() {
    for policy in [
        "fifo",
        "prio",
        "sbpn1",
        "sbpn2",
        "weighted",
        "when-full",
        "late-last",
    ] {
        let report = simulate(&[
            &format!("flow.call.policy={policy}"),
            "flow.call.audio={ payload = \"1000B\", period = \"10ms\" }",
            "flow.call.rate=480kbit",
            "flow.call.queue=5 packets",
        ]);
        let class = &classes(&report)[0];
        let ended = class.sent + class.expired + class.evicted + class.too_large;
        assert_eq!(class.offered, 2000, "{policy}");
        // Five may have waited at each end of the measured time.
        assert!(class.offered.abs_diff(ended) <= 5, "{policy}: {class:?}");
        assert!(class.sent.abs_diff(1200) <= 5, "{policy}: {class:?}");
        assert_eq!(class.received, class.sent, "{policy}");
    }
}

#[test]
fn what_is_made_depends_on_the_replication_and_not_on_the_policy() {
    let of = |policy: &str, replication: u64| {
        let set = [
            &format!("flow.call.policy={policy}"),
            "flow.call.traffic=ekiga",
            "flow.call.rate=200kbit",
            "flow.call.queue=5 packets",
        ];
        let options = Options {
            replication,
            ..Options::default()
        };
        let report = run(&scenario(&set), &options, |_| {}).unwrap();
        let offered: Vec<u64> = classes(&report).iter().map(|class| class.offered).collect();
        (offered, report.environment["fingerprint"].clone())
    };
    let [fifo, sbpn, again, other] =
        [("fifo", 1), ("sbpn2", 1), ("sbpn2", 1), ("sbpn2", 2)].map(|(p, n)| of(p, n));
    assert_eq!(fifo.0, sbpn.0);
    assert_ne!(fifo.1, sbpn.1);
    assert_eq!(sbpn, again);
    assert_ne!(sbpn.0, other.0);
}

#[test]
fn a_stream_is_never_without_a_datagram() {
    let report = simulate(&[
        "flow.call.stream={ payload = \"1000B\" }",
        "flow.call.rate=400kbit",
    ]);
    let [audio, stream] = classes(&report) else {
        panic!("two classes");
    };
    // The last two may wait behind two of the stream when traffic ends.
    assert!(audio.on_time >= 998, "{audio:?}");
    let kbit = report.flows[0].goodput_bps / 1000.0;
    assert!((kbit - 400.0).abs() < 1.0, "{kbit} kbit/s");
    assert!(stream.received > 0 && stream.freezes.is_none());
}

/// An encoder of 490 kbit/s beside audio of 86, and a sender of 500: a frame that cannot end in time is refused as a whole, and those
/// that depend on it, so that there is time for the next keyframe. Without knowledge of frames nearly each frame, or one that it depends
/// on, lacks a part.
#[test]
fn frames_of_a_trace_are_admitted_whole_and_shown_with_those_that_they_depend_on() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let of = |whole_frames: bool| {
        let set = [
            "flow.call.video={ period = \"40ms\", largest = \"1200B\", trace = \"traces/x264-500k.csv\" }",
            "flow.call.rate=500kbit",
            "flow.call.policy=sbpn2",
            "flow.call.queue=128 packets",
            "flow.call.one_way=55ms",
            &format!("flow.call.whole_frames={whole_frames}"),
        ]
        .map(String::from);
        let scenario = makeway_scenario::parse(CALL, "call.toml", folder, &set).unwrap();
        let report = run(&scenario, &Options::default(), |_| {}).unwrap();
        let video = classes(&report)[1].clone();
        let ended = video.sent + video.expired + video.evicted + video.too_large;
        assert!(video.offered.abs_diff(ended) <= 128, "{video:?}");
        assert_eq!((video.evicted, video.too_large), (0, 0));
        video.freezes.unwrap()
    };
    let [whole, parts] = [true, false].map(of);
    // Frames each 40 ms for 20 s, sent or not.
    assert_eq!([whole.made, parts.made], [500, 500]);
    assert!(whole.frames > 2 * parts.frames, "{whole:?} {parts:?}");
    assert!(whole.seconds < parts.seconds, "{whole:?} {parts:?}");
}

/// Video of 300 kbit/s and audio of 86 at 500, over a path of 120 ms: 76 ms are left to a keyframe, too little for the larger ones of the
/// trace, and the frames behind it take less time than they last.
#[test]
fn late_keyframes_mend_the_chain_where_keyframes_are_too_large_to_be_in_time() {
    let [late, plain] = [true, false].map(|late| {
        let late = format!("flow.call.late_keyframes={late}");
        short_of_time(&["flow.call.rate=500kbit", &late])
    });
    let [shown, without] = [&late, &plain].map(|video| video.freezes.unwrap().frames);
    assert!(2 * shown > 3 * without, "{late:?} {plain:?}");
    assert!(
        late.sent_late > 0 && plain.sent_late == 0,
        "{late:?} {plain:?}"
    );
}

#[test]
fn an_encoder_makes_keyframes_on_refusal_and_else_those_of_its_trace() {
    let made = |rate: &str, more: &str| {
        let rate = format!("flow.call.rate={rate}");
        short_of_time(&["flow.call.late_keyframes=false", &rate, more]).offered
    };
    let [on_refusal, of_trace] =
        ["on-refusal", "trace"].map(|keyframes| format!("flow.call.video.keyframes={keyframes}"));
    assert!(made("400kbit", &on_refusal) > made("400kbit", &of_trace));
    assert_eq!(made("50mbit", &on_refusal), made("50mbit", &of_trace));
}

/// The video's figures.
fn short_of_time(more: &[&str]) -> ClassReport {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let set = [
        "flow.call.video={ period = \"40ms\", largest = \"1200B\", trace = \"traces/x264-500k.csv\", follows = [\"300kbit\", \"300kbit\"] }",
        "link.line.rate=100mbit",
        "link.line.delay=120ms",
        "flow.call.one_way=121ms",
        "flow.call.policy=sbpn2",
        "flow.call.queue=128 packets",
    ];
    let set: Vec<String> = set
        .iter()
        .chain(more)
        .map(|set| (*set).to_owned())
        .collect();
    let scenario = makeway_scenario::parse(CALL, "call.toml", folder, &set).unwrap();
    let report = run(&scenario, &Options::default(), |_| {}).unwrap();
    let video = classes(&report)[1].clone();
    let ended = video.sent + video.expired + video.evicted + video.too_large;
    assert!(video.offered.abs_diff(ended) <= 128, "{video:?}");
    video
}

/// A frame of eight packets of 2 ms comes to an idle link: the first leaves at once, the others when there are tokens for them at
/// multiples of 4 ms, two at a time.
#[test]
fn a_link_with_a_coarse_timer_sends_in_bursts() {
    let frames = "flow.call.video={ period = \"100ms\", largest = \"214B\", scenes = [{ mean = \"1712B\", for = \"10s\" }] }";
    let of = |tick: &[&str]| {
        let sparse = [
            "flow.call.audio={ payload = \"214B\", period = \"3600s\" }",
            frames,
        ];
        let report = simulate(&[&sparse[..], tick].concat());
        let delay = classes(&report)[1].delay_ms;
        (delay.mean, delay.max)
    };
    // 42, 44, ... 56 ms.
    assert_eq!(of(&[]), (49.0, 56.0));
    // 40, 44, 44, 48, 48, 52, 52, 56 ms.
    assert_eq!(of(&["link.line.tick=4ms"]), (48.0, 56.0));
}

#[test]
fn a_link_with_a_coarse_timer_keeps_its_rate() {
    for tick in [&[][..], &["link.line.tick=4ms"], &["link.line.tick=10ms"]] {
        let full = [
            "flow.call.stream={ payload = \"214B\" }",
            "flow.call.rate=2mbit",
        ];
        let report = simulate(&[&full, tick].concat());
        let mbit = report.flows[0].ip_bps.unwrap() / 1e6;
        assert!((mbit - 1.0).abs() < 0.001, "{tick:?}: {mbit} Mbit/s");
    }
}

/// A sender that may send each 5 ms and looks each 4 ms sends each 8 ms.
#[test]
fn a_sender_with_a_coarse_timer_sends_at_its_ticks() {
    let set = [
        "flow.call.stream={ payload = \"500B\" }",
        "flow.call.rate=800kbit",
    ];
    let fine = simulate(&set);
    let coarse = simulate(&[&set[..], &["flow.call.tick=4ms"]].concat());
    let rate = |report: &Report| report.flows[0].goodput_bps / 1000.0;
    assert!((rate(&fine) - 800.0).abs() < 5.0, "{}", rate(&fine));
    assert!(rate(&coarse) < 700.0, "{}", rate(&coarse));
}

#[test]
fn a_stream_alone_has_the_whole_rate() {
    let report = simulate(&[
        "flow.call.audio={ payload = \"1B\", period = \"10s\" }",
        "flow.call.stream={ payload = \"1000B\" }",
        "flow.call.rate=400kbit",
    ]);
    let kbit = report.flows[0].goodput_bps / 1000.0;
    assert!((kbit - 400.0).abs() < 1.0, "{kbit} kbit/s");
}

/// X = s / (R f(p)): 1000 B at an RTT of 80 ms. f(0.01) and f(0.001) were computed independently (b = 1, t_RTO = 4 R).
/// Losses within an RTT are one event, so that p is a little less than the loss.
#[test]
fn tfrc_sends_what_its_equation_says_under_random_loss() {
    for (loss, f) in [(0.01, 0.089_021), (0.001, 0.026_052)] {
        let report = simulate(&[
            "flow.call.stream={ payload = \"1000B\" }",
            "flow.call.audio={ payload = \"1000B\", period = \"3600s\" }",
            "flow.call.rate=tfrc",
            "flow.call.deadline=10s",
            "link.line.rate=[\"100mbit\", \"100mbit\"]",
            &format!("link.line.loss=[{loss}, 0]"),
            "duration=600s",
            "warmup=60s",
        ]);
        let sent = report.flows[0].goodput_bps / (1.0 - loss);
        let equation = 1000.0 * 8.0 / (0.080 * f);
        let ratio = sent / equation;
        assert!((0.9..1.25).contains(&ratio), "{loss}: {ratio}");
    }
}

/// The mark of a dual queue (RFC 9332) reaches a sender: SCReAM beside a download, each with the ECN field of its packets.
mod marked {
    use super::*;

    const DUAL: &str = r#"duration = "80s"
warmup = "20s"
[node.phone]
[node.friend]
[link.line]
between = ["phone", "friend"]
rate = "10mbit"
delay = "20ms"
framing = "ip"
queue = { at = "phone", discipline = "dualpi2", limit = "1000 packets" }
[flow.call]
kind = "media"
from = "phone"
to = "friend"
policy = "fifo"
rate = { kind = "scream", l4s = true }
ecn = "ect1"
stream = { payload = "1200B" }
[flow.download]
kind = "bulk"
from = "phone"
to = "friend"
congestion_control = "reno"
"#;
    const LINK_BPS: f64 = 10e6;

    /// p99 of the call's delay in queues in ms, shares of the link of the call and the download, and the queue's marks.
    fn beside_a_download(set: &[&str]) -> (f64, [f64; 2], u64) {
        let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        let scenario = makeway_scenario::parse(DUAL, "dual.toml", Path::new("."), &set).unwrap();
        let report = run(&scenario, &Options::default(), |_| {}).unwrap();
        let of = |group: &str| {
            let mut flows = report.flows.iter();
            flows.find(|flow| flow.group == group).unwrap()
        };
        let shares = ["call", "download"].map(|group| of(group).ip_bps.unwrap() / LINK_BPS);
        let p99 = of("call").queueing.unwrap().p99_ms;
        let marks: u64 = report.queues.iter().map(|queue| queue.marks).sum();
        println!("{set:?}: p99 {p99:.2} ms, call and download {shares:.3?}, {marks} marks");
        (p99, shares, marks)
    }

    #[test]
    fn a_scalable_sender_has_a_short_queue_beside_a_download_and_a_classic_one_the_queue_of_the_download()
     {
        let (scalable, shares, marks) = beside_a_download(&[]);
        assert!(marks > 1000, "{marks}");
        // A packet of the download may be on the link, 1.2 ms; marks begin at 0.8 ms.
        assert!(scalable < 10.0, "{scalable} ms");
        // "Each has about the same rate" (RFC 9332 §2.5.2): a bar of ours is an eighth.
        assert!(shares.iter().all(|share| *share > 0.125), "{shares:?}");

        // Without the field nothing can be marked, and the queue is the one that aims at 15 ms.
        let (classic, _, marks) = beside_a_download(&["flow.call.ecn=none"]);
        assert_eq!(marks, 0);
        assert!(
            classic > 15.0 && classic > 2.0 * scalable,
            "{classic} and {scalable} ms"
        );
    }

    #[test]
    fn tfrc_follows_marks_as_losses() {
        let tfrc = ["flow.call.rate=tfrc", "flow.call.ecn=ect0"];
        let (delay, shares, marks) = beside_a_download(&tfrc);
        // Both follow the one probability of the classic queue, which holds its delay.
        assert!(marks > 0 && delay < 100.0, "{marks} marks, {delay} ms");
        assert!(shares.iter().all(|share| *share > 0.1), "{shares:?}");
        let (_, _, marks) = beside_a_download(&["flow.call.rate=tfrc", "flow.call.ecn=none"]);
        assert_eq!(marks, 0);
    }

    #[test]
    fn marks_of_rfc_3168_reach_a_sender_in_the_classic_queue() {
        let classic = [
            "flow.call.ecn=ect0",
            "flow.call.rate={ kind = \"scream\", l4s = false }",
        ];
        let (delay, shares, marks) = beside_a_download(&classic);
        assert!(marks > 0 && delay > 10.0, "{marks} marks, {delay} ms");
        assert!(shares[0] > 0.02, "{shares:?}");
    }
}
