// SPDX-License-Identifier: MIT OR Apache-2.0
use makeway_core::packet::Ecn;
use makeway_core::rate;
use makeway_core::send::fifo::Fifo;
use makeway_core::send::{self, AnyPolicy};
use makeway_core::units::{Bytes, Duration};

use super::*;
use crate::model::{Class, Frame, Keyframes};

fn media(video: Option<[Rate; 2]>) -> Media {
    let scene = |mean, deviation, seconds| Scene {
        mean: Bytes::new(mean),
        deviation: Bytes::new(deviation),
        length: Duration::from_secs(seconds),
    };
    let audio = Traffic::Even {
        payload: Bytes::new(214),
        period: Duration::from_millis(20),
    };
    let video = Traffic::Frames {
        period: Duration::from_millis(100),
        largest: Bytes::new(1026),
        scenes: vec![
            scene(4450, 1000, 10),
            scene(1075, 475, 5),
            scene(4450, 1000, 5),
        ],
        follows: video,
    };
    let class = |(name, traffic)| Class { name, traffic };
    Media {
        policy: AnyPolicy::Fifo(Fifo),
        rate: rate::Config::Fixed(Rate::from_bps(1_000_000)),
        queue: send::Config::default(),
        deadline: Duration::from_millis(200),
        headers: Bytes::new(36),
        tick: None,
        ecn: Ecn::NotCapable,
        whole_frames: true,
        pause: None,
        classes: [("audio", audio), ("video", video)].map(class).into(),
    }
}

fn seconds(units: &Units, seconds: u64) -> Vec<Unit> {
    let end = seconds * 1_000_000_000;
    units.clone().take_while(|unit| unit.at < end).collect()
}

fn bps(units: &[Unit], class: u8, seconds: f64) -> f64 {
    let bytes = units
        .iter()
        .filter(|unit| unit.class == class)
        .map(|unit| unit.bytes);
    bytes.map(f64::from).sum::<f64>() * 8.0 / seconds
}

/// SBPN paper, sections 4.1 and 5.2: audio 86 kbit/s, video 289, packets of 519 B on average.
#[test]
fn ekiga_has_the_rates_and_the_mean_packet_of_the_paper() {
    let media = media(None);
    let units = seconds(&Units::new(&media, 1, 0), 1200);
    let [audio, video] = [0, 1].map(|class| bps(&units, class, 1200.0) / 1000.0);
    assert_eq!(audio, 85.6);
    assert!((video - 288.5).abs() < 2.0, "{video} kbit/s");
    let mean = units.iter().map(|unit| f64::from(unit.bytes)).sum::<f64>() / units.len() as f64;
    assert!((mean - 519.0).abs() < 3.0, "{mean} B");
    let closed = media.classes[1].traffic.mean_bps().unwrap() / 1000.0;
    assert!((closed - 288.5).abs() < 0.01, "{closed}");
}

#[test]
fn sizes_of_frames_have_the_mean_and_the_deviation_of_their_scene() {
    let units = seconds(&Units::new(&media(None), 2, 0), 2000);
    for (is_in, mean, deviation) in [
        (
            &(|s: u64| !(10..15).contains(&s)) as &dyn Fn(u64) -> bool,
            4450.0,
            1000.0,
        ),
        (&|s: u64| (10..15).contains(&s), 1075.0, 475.0),
    ] {
        let mut sizes = std::collections::BTreeMap::<u32, f64>::new();
        let video = units.iter().filter(|unit| unit.class == 1);
        for unit in video.filter(|unit| is_in(unit.at / 1_000_000_000 % 20)) {
            *sizes.entry(unit.frame).or_default() += f64::from(unit.bytes);
        }
        let n = sizes.len() as f64;
        let got = sizes.values().sum::<f64>() / n;
        let variance = sizes.values().map(|size| (size - got).powi(2)).sum::<f64>() / (n - 1.0);
        // Five standard errors; what is cut off at zero lifts the mean of the still ones by 2 B.
        assert!(
            (got - mean).abs() < 5.0 * deviation / n.sqrt() + 2.0,
            "{got} {mean}"
        );
        assert!(
            (variance.sqrt() / deviation - 1.0).abs() < 0.05,
            "{variance} {deviation}"
        );
    }
}

#[test]
fn frames_are_cut_whole_and_handed_over_at_once() {
    let units = seconds(&Units::new(&media(None), 3, 0), 20);
    let frames = units.chunk_by(|a, b| (a.class, a.frame) == (b.class, b.frame));
    for frame in frames {
        let (last, others) = frame.split_last().unwrap();
        assert_eq!(usize::from(last.parts), frame.len());
        assert!(frame.iter().all(|unit| unit.at == last.at));
        assert!(last.class == 0 || others.iter().all(|unit| unit.bytes == 1026));
        assert!(last.bytes <= 1026);
    }
    assert!(units.is_sorted_by_key(|unit| unit.at));
}

#[test]
fn what_is_due_at_once_comes_in_random_order() {
    let units = seconds(&Units::new(&media(None), 4, 0), 200);
    let at_once = units.iter().filter(|unit| unit.at % 100_000_000 == 0);
    let mut firsts = at_once.collect::<Vec<_>>();
    firsts.dedup_by_key(|unit| unit.at);
    let audio = firsts.iter().filter(|unit| unit.class == 0).count();
    // 2000 throws of a coin: within five deviations.
    assert!(audio.abs_diff(1000) < 112, "{audio} of {}", firsts.len());
}

#[test]
fn an_encoder_makes_of_the_target_what_others_leave_within_its_bounds() {
    let bounds = [150_000, 1_500_000].map(Rate::from_bps);
    for (target, video) in [(0, 150.0), (600_000, 514.4), (9_000_000, 1500.0)] {
        let mut units = Units::new(&media(Some(bounds)), 5, 0);
        units.follow(Rate::from_bps(target));
        let got = bps(&seconds(&units, 400), 1, 400.0) / 1000.0;
        assert!((got / video - 1.0).abs() < 0.02, "{target}: {got} kbit/s");
    }
}

#[test]
fn another_target_has_the_same_luck() {
    let of = |target| {
        let mut units = Units::new(&media(Some([1, 10_000_000].map(Rate::from_bps))), 6, 0);
        units.follow(Rate::from_bps(target));
        let mut whole = std::collections::BTreeMap::<u32, f64>::new();
        for unit in seconds(&units, 20).iter().filter(|unit| unit.class == 1) {
            *whole.entry(unit.frame).or_default() += f64::from(unit.bytes);
        }
        whole
    };
    let (one, other) = (of(1_085_600), of(2_085_600));
    for (frame, bytes) in &one {
        assert!((other[frame] / bytes - 2.0).abs() < 0.1, "{frame}");
    }
}

/// Frames of these kinds, each of a size of its own from 1000 B on, 40 ms apart in datagrams of 1026 B.
fn coded(kinds: &str, follows: Option<[Rate; 2]>, pause: Option<[Duration; 2]>) -> Media {
    let frames = kinds.chars().zip(0..).map(|(kind, n)| Frame {
        at: Duration::from_millis(40 * n),
        bytes: Bytes::new(1000 + n),
        kind,
    });
    let video = Traffic::Coded {
        period: Duration::from_millis(40),
        largest: Bytes::new(1026),
        frames: frames.collect(),
        follows,
        keyframes: Keyframes::Trace,
    };
    Media {
        pause,
        classes: vec![Class {
            name: "video",
            traffic: video,
        }],
        ..media(None)
    }
}

/// First datagram of each frame of the first `until` seconds.
fn first_parts(media: &Media, seed: u64, until: u64) -> Vec<Unit> {
    let mut units = seconds(&Units::new(media, seed, 0), until);
    units.dedup_by_key(|unit| unit.frame);
    units
}

#[test]
fn a_trace_is_made_from_a_keyframe_on_and_again() {
    let media = coded("IPPIPPP", None, None);
    let begins: std::collections::BTreeSet<u32> = (0..40)
        .map(|seed| {
            let frames = first_parts(&media, seed, 2);
            let sizes: Vec<u32> = frames.iter().map(|unit| unit.bytes - 1000).collect();
            let expected = (sizes[0]..).map(|n| n % 7);
            assert!(sizes.iter().copied().eq(expected.take(50)), "{sizes:?}");
            sizes[0]
        })
        .collect();
    assert_eq!(Vec::from_iter(begins), [0, 3]);
}

#[test]
fn frames_of_a_trace_say_what_they_depend_on() {
    let refers = |kinds: &str| {
        let frames = first_parts(&coded(kinds, None, None), 1, 1);
        let each = frames.iter().map(|unit| unit.refers);
        each.collect::<Vec<[u8; 2]>>()
    };
    assert_eq!(
        refers("IPPP")[..6],
        [[0, 0], [1, 0], [1, 0], [1, 0], [0, 0], [1, 0]]
    );
    // A `B` needs the two around it, of which the later is coded before it.
    assert_eq!(
        refers("IPBBPB")[..6],
        [[0, 0], [1, 0], [1, 2], [2, 3], [3, 0], [1, 4]]
    );
}

#[test]
fn after_a_pause_a_trace_begins_with_a_keyframe() {
    let pause = [400, 1000].map(Duration::from_millis);
    let media = coded("IPPPPPPP", None, Some(pause));
    // Of one seed alone, a trace that begins anywhere could be at its keyframe by chance.
    for seed in 0..8 {
        let frames = first_parts(&media, seed, 2);
        let after = frames.iter().find(|unit| unit.at >= 1_000_000_000).unwrap();
        assert_eq!((after.frame, after.bytes, after.refers), (25, 1000, [0; 2]));
    }
}

#[test]
fn an_encoder_of_a_trace_follows_a_target() {
    let bounds = [100_000, 5_000_000].map(Rate::from_bps);
    let media = coded("IPPP", Some(bounds), None);
    // 1001.5 B each 40 ms are 200.3 kbit/s.
    assert_eq!(media.classes[0].traffic.mean_bps(), Some(200_300.0));
    let mut units = Units::new(&media, 1, 0);
    units.follow(Rate::from_bps(400_600));
    let got = bps(&seconds(&units, 40), 0, 40.0);
    assert!((got / 400_600.0 - 1.0).abs() < 0.001, "{got}");
}

/// As [`coded`], with an encoder that makes a keyframe when a frame is dropped.
fn forced(kinds: &str, follows: Option<[Rate; 2]>) -> Media {
    let mut media = coded(kinds, follows, None);
    for class in &mut media.classes {
        if let Traffic::Coded { keyframes, .. } = &mut class.traffic {
            *keyframes = Keyframes::OnRefusal;
        }
    }
    media
}

/// Numbers of the keyframes of the first 100 frames, where each of `refused` is dropped as soon as it is made.
fn keyframes(media: &Media, refused: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut units = Units::new(media, 1, 0);
    let mut keys = Vec::new();
    while let Some(unit) = units.next().filter(|unit| unit.frame < 100) {
        if unit.refers == [0; 2] && keys.last() != Some(&unit.frame) {
            keys.push(unit.frame);
        }
        if refused(unit.frame) {
            units.refuse(unit.class, unit.at);
        }
    }
    keys
}

#[test]
fn the_frame_after_a_dropped_one_is_a_keyframe_once_a_second_at_most() {
    let trace = format!("I{}", "P".repeat(199));
    let of = |refused: &dyn Fn(u32) -> bool| keyframes(&forced(&trace, None), refused);
    assert_eq!(of(&|_| false), [0]);
    // 40 ms each: after a second, and then when one is dropped.
    assert_eq!(of(&|n| n == 3), [0, 25]);
    assert_eq!(of(&|n| n == 3 || n == 60), [0, 25, 61]);
    assert_eq!(of(&|_| true), [0, 25, 50, 75]);
    // Without `on-refusal`, those of the trace alone.
    assert_eq!(keyframes(&coded(&trace, None, None), |_| true), [0]);
}

#[test]
fn a_frame_that_is_dropped_after_a_newer_keyframe_makes_none() {
    let media = forced(&format!("I{}", "P".repeat(199)), None);
    let mut units = Units::new(&media, 1, 0);
    let mut keys = 0;
    while let Some(unit) = units.next().filter(|unit| unit.frame < 150) {
        keys += u32::from(unit.refers == [0; 2]);
        // Frame 30, and again a datagram of it, long after the keyframe that its drop made.
        if unit.frame == 30 || unit.frame > 60 {
            units.refuse(0, 30 * 40_000_000);
        }
    }
    assert_eq!(keys, 2);
}

#[test]
fn a_keyframe_on_refusal_has_the_mean_size_of_those_of_the_trace_and_follows_the_target() {
    // Keyframes of 1000 and 1040 B, which are at 0 and 40.
    let trace = format!("I{}I{}", "P".repeat(39), "P".repeat(120));
    for (target, bytes) in [
        (None, 1020),
        (Some([1, 10_000_000].map(Rate::from_bps)), 2040),
    ] {
        let media = forced(&trace, target);
        let mut units = Units::new(&media, 1, 0);
        let mean = media.classes[0].traffic.mean_bps().unwrap_or_default();
        let (mut size, mut refers) = (0, None);
        units.follow(Rate::from_bps((2.0 * mean) as u64));
        while let Some(unit) = units.next().filter(|unit| unit.frame <= 100) {
            if unit.frame == 90 {
                units.refuse(0, unit.at);
            }
            if unit.frame == 91 {
                size += unit.bytes;
                refers = Some(unit.refers);
            }
        }
        assert_eq!(refers, Some([0; 2]));
        assert!(size.abs_diff(bytes) <= 1, "{size}");
    }
}

/// Audio each 20 ms, video each 100 ms: nothing from 1.01 to 2.05 s, then as if there had been no pause.
#[test]
fn nothing_is_made_in_a_pause() {
    let pause = [1010, 2050].map(Duration::from_millis);
    let paused = Media {
        pause: Some(pause),
        ..media(None)
    };
    let times = |media: &Media, class: u8| -> Vec<u64> {
        let units = seconds(&Units::new(media, 1, 0), 3);
        let frames = units.iter().filter(|unit| unit.class == class);
        let mut times: Vec<u64> = frames.map(|unit| unit.at / 1_000_000).collect();
        times.dedup();
        times
    };
    for class in [0, 1] {
        let mut expected = times(&media(None), class);
        expected.retain(|at| !(1010..2050).contains(at));
        assert_eq!(times(&paused, class), expected);
    }
}
