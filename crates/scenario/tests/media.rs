// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kind = "media"` in scenario files.

use std::path::Path;

use makeway_core::rate::Config;
use makeway_core::rate::abrc::AbrcParams;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::{Revision, SegmentSize, TfrcParams};
use makeway_core::send::AnyPolicy;
use makeway_core::units::{Bytes, Duration, Rate};
use makeway_scenario::model::{Keyframes, Media, Scenario, Source, Traffic};
use makeway_scenario::{KINDS, explain, field, parse, warnings};

const CALL: &str = r#"duration = "20s"
[node.phone]
[node.friend]
[link.line]
between = ["phone", "friend"]
rate = "1mbit"
[flow.call]
kind = "media"
from = "phone"
to = "friend"
rate = "300kbit"
audio = { payload = "160B", period = "20ms" }
video = { period = "40ms", scenes = [{ mean = "2kB", for = "10s" }] }
"#;

const SCENES: &str = "scenes = [{ mean = \"2kB\", for = \"10s\" }]";

fn read(from: &str, to: &str) -> Result<Media, String> {
    assert!(CALL.contains(from), "{from}");
    let text = CALL.replacen(from, to, 1);
    let scenario = parse(&text, "call.toml", Path::new("."), &[]).map_err(|e| e.to_string())?;
    assert!(explain(&scenario).contains("of use for"));
    match &scenario.flows[0].source {
        Source::Media(media) => Ok((**media).clone()),
        _ => Err("it is no media".into()),
    }
}

#[test]
fn what_is_not_said_has_a_default() {
    let media = read("", "").unwrap();
    assert!(!media.queue.late_keyframes);
    assert_eq!(media.policy, AnyPolicy::default());
    assert_eq!(media.deadline, Duration::from_millis(200));
    assert_eq!((media.headers, media.tick), (Bytes::new(36), None));
    assert_eq!(media.queue.packets, 32);
}

#[test]
fn the_documented_limit_of_the_queue_is_the_one_that_is_not_said() {
    let none = read("", "").unwrap();
    let media = KINDS.iter().find(|(name, _)| *name == "media").unwrap();
    let queue = media.1.iter().find(|field| field.key == "queue").unwrap();
    let field::Default::Words(words) = queue.default else {
        panic!("{queue:?}");
    };
    let queue = format!("kind = \"media\"\nqueue = {}", words.trim_matches('`'));
    assert_eq!(read("kind = \"media\"", &queue).unwrap().queue, none.queue);
    // Packets alone are of any size.
    let packets = "kind = \"media\"\nqueue = \"32 packets\"";
    let packets = read("kind = \"media\"", packets).unwrap().queue;
    assert!(packets.bytes > none.queue.bytes);
}

#[test]
fn every_key_reaches_the_sender() {
    let media = read(
        "kind = \"media\"",
        "kind = \"media\"\npolicy = \"fifo\"\nqueue = \"5 packets\"\ndeadline = \"150ms\"\nheaders = \"40B\"\nwhole_frames = false\nlate_keyframes = true\npause = [\"2s\", \"3s\"]\ntick = \"4ms\"\none_way = \"30ms\"",
    )
    .unwrap();
    assert_eq!(media.policy.to_string(), "fifo");
    assert_eq!(media.queue.packets, 5);
    assert_eq!(media.queue.one_way, Some(Duration::from_millis(30)));
    assert!(media.queue.late_keyframes);
    assert_eq!(media.deadline, Duration::from_millis(150));
    assert_eq!(media.headers, Bytes::new(40));
    assert_eq!(media.pause, Some([2, 3].map(Duration::from_secs)));
    assert_eq!(
        (media.tick, media.whole_frames),
        (Some(Duration::from_millis(4)), false)
    );
}

/// The call with a trace of this name, or with its scenes.
fn with_trace(trace: Option<&str>, set: &[&str]) -> Result<Scenario, Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let frames = "time_ms,kind,bytes\n0,I,5000\n40,P,1000\n";
    let text = match trace {
        Some(name) => {
            std::fs::write(folder.join(name), frames)?;
            CALL.replacen(SCENES, &format!("trace = \"{name}\""), 1)
        }
        None => CALL.to_owned(),
    };
    let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
    Ok(parse(&text, "call.toml", folder, &set)?)
}

#[test]
fn late_keyframes_leave_if_nothing_is_said_and_are_a_part_of_the_description() {
    let trace = Some("late.csv");
    for set in [&[][..], &["flow.call.late_keyframes=true"]] {
        let late = with_trace(trace, set).unwrap();
        assert_eq!(warnings(&late), [""; 0]);
        let late = explain(&late);
        let expected = "sender sbpn2 of 32 packets, late keyframes leave, rate 300";
        assert!(late.contains(expected), "{late}");
    }
    let none = with_trace(trace, &["flow.call.late_keyframes=false"]).unwrap();
    assert!(!explain(&none).contains("late keyframes leave"));
}

#[test]
fn late_keyframes_without_an_effect_are_a_warning_and_no_part_of_the_description() {
    let trace = Some("no-effect.csv");
    for (trace, set, reason) in [
        (
            trace,
            "flow.call.policy=late-last",
            "the policy `late-last` sends",
        ),
        (
            trace,
            "flow.call.whole_frames=false",
            "`whole_frames` is false",
        ),
        (None, "flow.call.policy=sbpn2", "no class has keyframes"),
    ] {
        let scenario = with_trace(trace, &[set, "flow.call.late_keyframes=true"]).unwrap();
        let found = warnings(&scenario);
        let [warning] = &found[..] else {
            panic!("{set}: {found:?}");
        };
        let expected = format!("flow `call`: `late_keyframes` has no effect, since {reason}");
        assert!(warning.starts_with(&expected), "{warning}");
        let words = explain(&scenario);
        assert!(!words.contains("late keyframes leave"), "{words}");
        assert_eq!(warnings(&with_trace(trace, &[set]).unwrap()), [""; 0]);
    }
}

#[test]
fn a_frame_that_is_larger_than_the_queue_is_a_warning() {
    // Of 5000 B: four datagrams. The mean is 600 kbit/s.
    let found = |set: &[&str]| warnings(&with_trace(Some("too-large.csv"), set).unwrap());
    let expected = "flow `call`: the largest frame of `video` has 4 datagrams and 5000 B, and `queue` holds 3 packets and ";
    let of_packets = found(&["flow.call.queue=3 packets"]);
    assert!(of_packets[0].starts_with(expected), "{of_packets:?}");
    assert!(
        of_packets[0]
            .ends_with("(`too_large` in the report); write `queue = \"4 packets\"` or more"),
        "{of_packets:?}"
    );
    assert_eq!(found(&["flow.call.queue=4kB"]).len(), 1);
    // One sentence for a group.
    assert_eq!(
        found(&["flow.call.queue=4kB", "flow.call.count=3"]).len(),
        1
    );
    assert!(found(&["flow.call.queue=1 packet"])[0].contains("holds 1 packet and"));
    for enough in ["flow.call.queue=4 packets", "flow.call.queue=5kB"] {
        assert_eq!(found(&[enough]), [""; 0]);
    }
    assert_eq!(
        found(&["flow.call.queue=3 packets", "flow.call.whole_frames=false"]),
        [""; 0]
    );
    // Sixteen times as large at the most that the encoder makes: 80 kB.
    let follows = |most: &str| format!("flow.call.video.follows=[\"60kbit\", \"{most}\"]");
    let told = found(&[&follows("9600kbit")]);
    assert!(told[0].contains("has 55 datagrams and 80000 B"), "{told:?}");
    assert_eq!(found(&[&follows("600kbit")]), [""; 0]);
}

#[test]
fn tables_take_the_place_of_those_of_a_known_traffic() {
    let media = read(
        "audio =",
        "traffic = \"ekiga\"\nstream = { payload = \"1kB\" }\naudio =",
    )
    .unwrap();
    let names: Vec<&str> = media.classes.iter().map(|class| class.name).collect();
    assert_eq!(names, ["audio", "video", "stream"]);
    let payload = Bytes::new(160);
    let period = Duration::from_millis(20);
    assert_eq!(media.classes[0].traffic, Traffic::Even { payload, period });
    assert_eq!(
        media.classes[1].traffic.period(),
        Some(Duration::from_millis(40))
    );
}

#[test]
fn an_encoder_may_follow_the_target() {
    let media = read(
        "period = \"40ms\",",
        "period = \"40ms\", follows = [\"150kbit\", \"1500kbit\"],",
    )
    .unwrap();
    let Traffic::Frames { follows, .. } = media.classes[1].traffic else {
        panic!("no frames");
    };
    assert_eq!(follows, Some([150_000, 1_500_000].map(Rate::from_bps)));
}

#[test]
fn every_key_of_tfrc_reaches_the_controller() {
    let rate = |text: &str| read("rate = \"300kbit\"", text).unwrap().rate;
    let plain = TfrcParams {
        largest: 1464,
        ..TfrcParams::default()
    };
    assert_eq!(rate("rate = \"tfrc\""), Config::Tfrc(plain));
    let other = "rate = { kind = \"tfrc\", rfc = \"3448\", segment = \"largest\", damping = false, \
        discounting = false, granularity = \"10ms\", first_rtt = \"500ms\" }";
    let expected = TfrcParams {
        revision: Revision::Rfc3448,
        segment: SegmentSize::Largest,
        damping: false,
        discounting: false,
        granularity: Duration::from_millis(10),
        first_rtt: Some(Duration::from_millis(500)),
        ..plain
    };
    assert_eq!(rate(other), Config::Tfrc(expected));
}

#[test]
fn every_key_of_abrc_reaches_the_controller() {
    let rate = |text: &str| read("rate = \"300kbit\"", text).unwrap().rate;
    let plain = AbrcParams {
        largest: 1464,
        ..AbrcParams::default()
    };
    assert_eq!(rate("rate = \"abrc\""), Config::Abrc(plain));
    let other = "rate = { kind = \"abrc\", k = 0.25, interval = \"500ms\", retarget = 2, floor = 7, first = \"6mbit\", \
        t_udp = \"shortest\", acks = 0, leaving = \"received\", unit = \"packets\", pair_each = 0, path = \"none\" }";
    let expected = AbrcParams {
        share: 25,
        interval: Duration::from_millis(500),
        retarget: 2,
        floor: 7,
        first: Rate::from_bps(6_000_000),
        largest: 1464,
        ..AbrcParams::printed()
    };
    assert_eq!(rate(other), Config::Abrc(expected));
    let ccid2 = Config::Ccid2(Ccid2Params {
        largest: 1464,
        ..Ccid2Params::default()
    });
    assert_eq!(rate("rate = \"ccid2\""), ccid2);
    assert_eq!(rate("rate = { kind = \"ccid2\" }"), ccid2);
}

#[test]
fn errors_of_abrc_say_where_what_and_what_would_be_right() {
    let shown: Vec<String> = [
        "k = 0",
        "interval = \"1ms\"",
        "first = \"1bit\"",
        "acks = 2",
        "t_udp = \"longest\"",
        "rfc = 3448",
    ]
    .map(|key| {
        let rate = format!("rate = {{ kind = \"abrc\", {key} }}");
        read("rate = \"300kbit\"", &rate).unwrap_err()
    })
    .into();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn errors_say_where_what_and_what_would_be_right() {
    let shown: Vec<String> = [
        ("rate = \"300kbit\"\n", ""),
        ("rate = \"300kbit\"", "rate = \"0bit\""),
        ("rate = \"300kbit\"", "rate = \"tfcr\""),
        (
            "rate = \"300kbit\"",
            "rate = { kind = \"tfrc\", rfc = \"2119\" }",
        ),
        (
            "rate = \"300kbit\"",
            "rate = { kind = \"tfrc\", cap = true }",
        ),
        ("kind = \"media\"", "kind = \"media\"\npolicy = \"sbpn\""),
        ("kind = \"media\"", "kind = \"media\"\nqueue = 5"),
        ("kind = \"media\"", "kind = \"media\"\ndeadline = \"0s\""),
        ("kind = \"media\"", "kind = \"media\"\ndeadline = \"2h\""),
        ("kind = \"media\"", "kind = \"media\"\nheaders = \"4B\""),
        ("kind = \"media\"", "kind = \"media\"\ntick = \"20ms\""),
        ("kind = \"media\"", "kind = \"media\"\nvoice = {}"),
        ("kind = \"media\"", "kind = \"media\"\ntraffic = \"skype\""),
        (", period = \"20ms\"", ""),
        ("payload = \"160B\"", "payload = \"1600B\""),
        (
            "payload = \"160B\"",
            "payload = \"160B\", rate = \"64kbit\"",
        ),
        (", scenes = [{ mean = \"2kB\", for = \"10s\" }]", ""),
        ("[{ mean = \"2kB\", for = \"10s\" }]", "[]"),
        ("mean = \"2kB\"", "mean = \"0B\""),
        (", for = \"10s\"", ""),
        (
            "period = \"40ms\"",
            "period = \"40ms\", follows = [\"2mbit\", \"1mbit\"]",
        ),
        ("rate = \"1mbit\"", "tick = \"1ms\""),
        ("rate = \"1mbit\"", "rate = \"1mbit\"\ntick = \"0s\""),
    ]
    .iter()
    .map(|(from, to)| read(from, to).unwrap_err())
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_trace_has_to_be_of_video_from_a_keyframe_on() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let video = |frames: &str, keys: &str| {
        let head = "time_ms,kind,bytes\n";
        std::fs::write(folder.join("gop.csv"), format!("{head}{frames}")).unwrap();
        let text = CALL.replacen(SCENES, keys, 1);
        let scenario = parse(&text, "call.toml", folder, &[]);
        scenario.map(|scenario| match &scenario.flows[0].source {
            Source::Media(media) => (media.classes[1].traffic.clone(), explain(&scenario)),
            other => panic!("{other:?}"),
        })
    };
    const TRACE: &str = "trace = \"gop.csv\"";
    let (traffic, words) = video("0,I,5000\n40,P,1000\n", TRACE).unwrap();
    let Traffic::Coded { frames, .. } = &traffic else {
        panic!("{traffic:?}");
    };
    assert_eq!((frames.len(), frames[0].kind), (2, 'I'));
    assert_eq!(traffic.mean_bps(), Some(600_000.0));
    assert!(
        words.contains(
            "600.0 kbit/s in a frame each 40ms, 1464 B at most at once, from a trace of 2 frames"
        ),
        "{words}"
    );
    let on_refusal = |keys: &str| format!("{keys}, keyframes = \"on-refusal\"");
    let (traffic, words) = video("0,I,5000\n40,P,1000\n", &on_refusal(TRACE)).unwrap();
    assert!(
        matches!(
            traffic,
            Traffic::Coded {
                keyframes: Keyframes::OnRefusal,
                ..
            }
        ),
        "{traffic:?}"
    );
    assert!(
        words.contains("from a trace of 2 frames and a keyframe when one is dropped"),
        "{words}"
    );
    let none = on_refusal(SCENES);
    let other = format!("{TRACE}, keyframes = \"on-loss\"");
    let both = format!("{TRACE}, {SCENES}");
    for (frames, keys, expected) in [
        (
            "0,A,100\n40,A,100\n",
            TRACE,
            "gop.csv has audio: name a trace of I, P and B",
        ),
        (
            "0,P,100\n40,I,100\n",
            TRACE,
            "gop.csv does not begin with a keyframe",
        ),
        (
            "0,I,100\n40,P,0\n",
            TRACE,
            "gop.csv:3: `0` should be a size in bytes",
        ),
        (
            "0,I,100\n40,P,100\n",
            both.as_str(),
            "has `scenes` and `trace`: write one of them",
        ),
        (
            "0,I,100\n40,P,100\n",
            none.as_str(),
            "`scenes` have no keyframes: write `trace =",
        ),
        (
            "0,I,100\n40,P,100\n",
            other.as_str(),
            "`flow.call.video.keyframes` is `on-loss`: choose among trace",
        ),
    ] {
        let error = video(frames, keys).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_rate_scales_the_frames_of_a_trace() {
    let of = |set: &[&str]| {
        let scenario = with_trace(Some("scaled.csv"), set).unwrap();
        let Source::Media(media) = &scenario.flows[0].source else {
            panic!("it is no media");
        };
        let traffic = &media.classes[1].traffic;
        let Traffic::Coded { frames, .. } = traffic else {
            panic!("{traffic:?}");
        };
        let sizes: Vec<u64> = frames.iter().map(|frame| frame.bytes.get()).collect();
        (sizes, traffic.mean_bps().unwrap())
    };
    // 6000 B in 80 ms.
    assert_eq!(of(&[]), (vec![5000, 1000], 6e5));
    let twice = vec![10_000, 2000];
    assert_eq!(
        of(&["flow.call.video.rate=1200kbit"]),
        (twice.clone(), 1.2e6)
    );
    // Frames come each period, and not at the times of the trace.
    let sooner = [
        "flow.call.video.rate=2400kbit",
        "flow.call.video.period=20ms",
    ];
    assert_eq!(of(&sooner), (twice, 2.4e6));
    let expected = "scales a `trace` whose encoder follows no target";
    let follows = "flow.call.video.follows=[\"1mbit\", \"1mbit\"]";
    for (trace, more) in [(None, "seed=2"), (Some("follows.csv"), follows)] {
        let error = with_trace(trace, &["flow.call.video.rate=1mbit", more]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_sender_without_traffic_is_refused() {
    let bare = CALL.split("audio").next().unwrap();
    let error = parse(bare, "call.toml", Path::new("."), &[]).unwrap_err();
    assert!(error.to_string().contains("makes nothing"), "{error}");
}

#[test]
fn a_rate_from_outside_has_a_first_one() {
    let rate = |text: &str| read("rate = \"300kbit\"", text).map(|media| media.rate);
    let external = |bps| Ok(Config::External(Rate::from_bps(bps)));
    assert_eq!(rate("rate = \"external\""), external(300_000));
    assert_eq!(rate("rate = { kind = \"external\" }"), external(300_000));
    let of = |first: &str| rate(&format!("rate = {{ kind = \"external\", {first} }}"));
    assert_eq!(of("first = \"1mbit\""), external(1_000_000));
    assert_eq!(of("first = \"0bit\""), external(0));
    let error = of("first = \"2000gbit\"").unwrap_err();
    assert!(error.contains("a rate from 0bit to 1000gbit"), "{error}");
    let error = of("last = \"1mbit\"").unwrap_err();
    assert!(error.contains("(keys: kind and first)"), "{error}");
    let error = rate("rate = { kind = \"externl\" }").unwrap_err();
    assert!(error.contains("did you mean `external`?"), "{error}");
}
