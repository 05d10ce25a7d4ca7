// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kind = "media"`: an application's datagrams, and the sender that they go through.

use std::sync::Arc;

use makeway_core::packet::Ecn;
use makeway_core::send::{self, AnyPolicy, WhenFull};
use makeway_core::units::{Bytes, Duration, Rate};

use crate::context::Context;
use crate::controller;
use crate::document::Item;
use crate::error::ScenarioError;
use crate::field::{FILE, Field, RATE, TICK, TIME, Values};
use crate::flow::{MEAN_RATE, trace_file};
use crate::model::{Class, Frame, Keyframes, Media, Scene, Source, Traffic};
use crate::queue::{self, limit};
use crate::section::Section;
use crate::trace;
use crate::warnings::no_late_keyframes;

/// Keys of a flow of this kind; classes are in the order of this table, audio the most important.
#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    Field::new("policy", Values::Other("fifo, prio, sbpn1, sbpn2, weighted, when-full or late-last ([which](which-sender.md))"),
        "sbpn2",
        "order of service",
    ),
    Field::optional("when_full", Values::OneOf(&["evict", "refuse"]), "`evict`", "of `sbpn1`, `sbpn2` and `weighted`: a full queue drops the last in order, or refuses the arrival, as Linux's does"),
    Field::needed("rate", Values::Other("tfrc, ccid2, abrc, scream, gcc, external, a fixed rate like `\"300kbit\"`, or a table (below)"),
        "\"tfrc\"",
        "rate controller",
    ),
    Field::optional("queue", Values::Other(queue::LIMITS), "`[\"32 packets\", \"64KiB\"]`", "queue limit; with packets alone there is none in bytes"),
    // SBPN paper, section 4.2.
    Field::new("deadline", LONG, "200ms", "time from a datagram's creation until it is of no use"),
    Field::optional("one_way", TIME, "half of the RTT", "one-way delay to the receiver, where it is known"),
    Field::new("expired_use_slots", Values::Flag, "false", "a datagram that expired at its turn uses its send time, as in Linux's DCCP of 2007, instead of the next one leaving"),
    Field::new("whole_frames", Values::Flag, "true", "all of a frame is dropped where one of its datagrams is; frames of a `trace` are admitted whole and dropped with those that they depend on"),
    Field::optional("late_keyframes", Values::Flag, "`true` where it has an effect", "of `sbpn1`, `sbpn2` and `weighted` with `whole_frames`: a late keyframe of a `trace` leaves, and so do late frames that are decoded from it ([rules](send.md#late-keyframes))"),
    // IPv4 20 and DCCP-Data 16 with long sequence numbers (RFC 4340 §5.1).
    Field::new("headers", Values::Size(20, 256), "36B", "headers of each packet from IP on; IPv4 and DCCP"),
    Field::optional("tick", TICK, "at any time", "the sender's timers run out at multiples of this only. World `sim`"),
    Field::new("ecn", Values::OneOf(&["none", "ect0", "ect1"]), "none", "ECN field of its packets: `ect0` of RFC 3168, `ect1` of L4S (RFC 9331); `scream` follows marks of either, `tfrc` those of RFC 3168. World `sim`"),
    Field::optional("traffic", Values::OneOf(&["ekiga"]), "none", "audio and video as the SBPN paper has them"),
    Field::optional("audio", Values::Table(EVEN), "none", "class of even datagrams"),
    Field::optional("video", Values::Table(FRAMES), "none", "class of frames of random sizes or of a trace, each cut in datagrams"),
    Field::optional("stream", Values::Table(ALWAYS), "none", "class that always has another datagram"),
    Field::optional("pause", TIME, "never", "interval after the flow's start without audio and video: `[\"40s\", \"60s\"]`"),
];
#[rustfmt::skip]
const EVEN: &[Field] = &[
    Field::needed("payload", PAYLOAD, "\"160B\"", "payload of a datagram"),
    Field::needed("period", LONG, "\"20ms\"", "time between datagrams"),
];
#[rustfmt::skip]
const FRAMES: &[Field] = &[
    Field::needed("period", LONG, "\"40ms\"", "time between frames"),
    Field::optional("scenes", Values::Table(SCENE), "none", "one scene or an array of them, one after the other, then again"),
    Field::optional("trace", FILE, "none", "coded frames instead of `scenes`: sizes, and kinds I, P and B in the order of coding, from a keyframe on, again when the trace ends"),
    Field::optional("rate", MEAN_RATE, "the trace's", "scales sizes of the `trace`, so that its frames, without headers, have this mean; they stay a `period` apart"),
    Field::new("largest", Values::Size(64, LARGEST), "1464B", "largest payload of a datagram"),
    Field::optional("follows", RATE, "none", "bounds between which the encoder follows the sender's target: `[\"150kbit\", \"1500kbit\"]`"),
    Field::new("keyframes", Values::OneOf(&Keyframes::NAMES), "trace", "keyframes of the encoder: those of the `trace`; `on-refusal`: one more after each frame of the video that the sender drops, a second or more after the last keyframe, of the mean size of those of the trace"),
];
#[rustfmt::skip]
const SCENE: &[Field] = &[
    Field::needed("mean", Values::Size(1, 10_000_000), "\"4450B\"", "mean size of a frame"),
    Field::new("deviation", Values::Size(0, 10_000_000), "0B", "standard deviation of sizes"),
    Field::needed("for", LONG, "\"10s\"", "duration"),
];
#[rustfmt::skip]
const ALWAYS: &[Field] = &[Field::needed(
    "payload",
    PAYLOAD,
    "\"1000B\"",
    "payload of a datagram",
)];
const TRACE: &str = "\"traces/x264-500k.csv\"";
const SCENES: &str = "[{ mean = \"4450B\", deviation = \"1000B\", for = \"10s\" }]";
/// With IPv4 and DCCP-Data it fits an MTU of 1500 B.
const LARGEST: u64 = 1464;
const PAYLOAD: Values = Values::Size(1, LARGEST);
/// Chosen by us: a longer time is a typing error.
const LONG: Values = Values::Time(Duration::from_millis(1), Duration::from_secs(3600));

pub(crate) fn read(s: &Section<'_>, cx: &Context<'_>) -> Result<Source, ScenarioError> {
    let mut queue = send::Config {
        largest: LARGEST as u32,
        one_way: s.read("one_way")?,
        // As many as 16 KiB of TCP's buffer hold (SBPN paper, Fig. 5).
        packets: 32,
        bytes: Bytes::new(64 * 1024),
        ..send::Config::default()
    };
    if let Some(item) = s.given("queue")? {
        (queue.packets, queue.bytes) = limit(item, &s.name("queue"))?;
    }
    queue.expired_use_slots = s.value("expired_use_slots")?;
    let late_keyframes = s.read("late_keyframes")?;
    queue.late_keyframes = late_keyframes.unwrap_or(true);
    let mut media = Media {
        policy: policy(s)?,
        rate: controller::read(s)?.with_largest(queue.largest),
        queue,
        deadline: s.value("deadline")?,
        headers: s.value("headers")?,
        tick: s.read("tick")?,
        ecn: match s.choice("ecn")? {
            "ect0" => Ecn::Capable,
            "ect1" => Ecn::Scalable,
            _ => Ecn::NotCapable,
        },
        pause: pause(s)?,
        whole_frames: s.value("whole_frames")?,
        classes: classes(s, cx)?,
    };
    // Only what is said gets a warning.
    if late_keyframes.is_none() && no_late_keyframes(&media).is_some() {
        media.queue.late_keyframes = false;
    }
    Ok(Source::Media(Arc::new(media)))
}

/// With the response to a full queue.
fn policy(s: &Section<'_>) -> Result<AnyPolicy, ScenarioError> {
    let mut policy: AnyPolicy = s.read("policy")?.unwrap_or_default();
    let when_full = match s.choice("when_full")? {
        "refuse" => WhenFull::Refuse,
        "evict" => WhenFull::EvictWorst,
        _ => return Ok(policy),
    };
    match &mut policy {
        AnyPolicy::Sbpn1(sbpn1) => sbpn1.when_full = when_full,
        AnyPolicy::Sbpn2(sbpn2) => sbpn2.when_full = when_full,
        AnyPolicy::Weighted(weighted) => weighted.when_full = when_full,
        // Keys of other policies are ignored, so that one file serves to compare them.
        _ => {}
    }
    Ok(policy)
}

fn pause(s: &Section<'_>) -> Result<Option<[Duration; 2]>, ScenarioError> {
    let pause = s.pair::<Duration>("pause")?;
    match pause {
        Some([from, to]) if from >= to => Err(s.at("pause").error(format!(
            "`{}` is from {from} to {to}: write from when to when nothing is made, like [\"40s\", \"60s\"]",
            s.name("pause")
        ))),
        pause => Ok(pause),
    }
}

fn classes(s: &Section<'_>, cx: &Context<'_>) -> Result<Vec<Class>, ScenarioError> {
    let mut classes = match s.choice("traffic")? {
        "ekiga" => ekiga(),
        _ => Vec::new(),
    };
    let mut put = |name: &'static str, traffic: Traffic| {
        match classes.iter_mut().find(|class| class.name == name) {
            Some(class) => class.traffic = traffic,
            None => classes.push(Class { name, traffic }),
        };
    };
    if let Some(audio) = s.inner("audio")? {
        let payload = audio.value("payload")?;
        let period = audio.value("period")?;
        put("audio", Traffic::Even { payload, period });
    }
    if let Some(video) = s.inner("video")? {
        put("video", frames(&video, cx)?);
    }
    if let Some(stream) = s.inner("stream")? {
        let payload = stream.value("payload")?;
        put("stream", Traffic::Always { payload });
    }
    if classes.is_empty() {
        return Err(s.origin.error(format!(
            "`{}` makes nothing: write `traffic = \"ekiga\"`, or a table `audio`, `video` or `stream`",
            s.path
        )));
    }
    Ok(classes)
}

/// The SBPN paper's model of Ekiga, section 4.1: audio, then video.
pub fn ekiga() -> Vec<Class> {
    let motion = |seconds| Scene {
        mean: Bytes::new(4450),
        deviation: Bytes::new(1000),
        length: Duration::from_secs(seconds),
    };
    let still = Scene {
        mean: Bytes::new(1075),
        deviation: Bytes::new(475),
        length: Duration::from_secs(5),
    };
    let audio = Traffic::Even {
        payload: Bytes::new(214),
        period: Duration::from_millis(20),
    };
    let video = Traffic::Frames {
        period: Duration::from_millis(100),
        largest: Bytes::new(1026),
        scenes: vec![motion(10), still, motion(5)],
        follows: None,
    };
    let class = |(name, traffic)| Class { name, traffic };
    [("audio", audio), ("video", video)].map(class).into()
}

fn frames(s: &Section<'_>, cx: &Context<'_>) -> Result<Traffic, ScenarioError> {
    let follows = s.pair::<Rate>("follows")?;
    if let Some([least, most]) = follows
        && least > most
    {
        return Err(s.at("follows").error(format!(
            "`{}` is from {least} to {most}: write the least and the most that the encoder makes, like [\"150kbit\", \"1500kbit\"]",
            s.name("follows")
        )));
    }
    let (period, largest) = (s.value("period")?, s.value("largest")?);
    let keyframes = match s.choice("keyframes")? {
        "on-refusal" => Keyframes::OnRefusal,
        _ => Keyframes::Trace,
    };
    if s.get("rate").is_some() && (s.get("trace").is_none() || follows.is_some()) {
        return Err(s.at("rate").error(format!(
            "`{}` scales a `trace` whose encoder follows no target: write `trace = {TRACE}` too, and neither `scenes` nor `follows`",
            s.name("rate")
        )));
    }
    match (s.given("scenes")?, s.get("trace")) {
        (Some(_), None) if keyframes == Keyframes::OnRefusal => {
            Err(s.at("keyframes").error(format!(
                "`{}` is `on-refusal`, and `scenes` have no keyframes: write `trace = {TRACE}` instead of `scenes`",
                s.name("keyframes")
            )))
        }
        (Some(scenes), None) => Ok(Traffic::Frames {
            period,
            largest,
            scenes: self::scenes(s, scenes)?,
            follows,
        }),
        (None, Some(_)) => Ok(Traffic::Coded {
            period,
            largest,
            frames: coded(s, cx, period)?,
            follows,
            keyframes,
        }),
        (Some(_), Some(_)) => Err(s.at("trace").error(format!(
            "`{}` has `scenes` and `trace`: write one of them",
            s.path
        ))),
        (None, None) => Err(s.origin.error(format!(
            "`{}` has no sizes: write `scenes = {SCENES}`, or `trace = {TRACE}`",
            s.path
        ))),
    }
}

fn scenes(s: &Section<'_>, scenes: &Item) -> Result<Vec<Scene>, ScenarioError> {
    let scenes = scenes.one_or_more().iter();
    let scenes = scenes.map(|item| scene(&s.section("scenes", item)?));
    let scenes: Vec<Scene> = scenes.collect::<Result<_, _>>()?;
    match scenes.is_empty() {
        true => Err(s.at("scenes").error(format!(
            "`{}` is empty: write one at least, like {SCENES}",
            s.name("scenes")
        ))),
        false => Ok(scenes),
    }
}

/// The frames of a video, from a keyframe on, each `period` after the one before.
fn coded(
    s: &Section<'_>,
    cx: &Context<'_>,
    period: Duration,
) -> Result<Arc<[Frame]>, ScenarioError> {
    let (file, mut frames, _) = trace_file(s, cx)?;
    let refuse = |what: &str| {
        Err(s.at("trace").error(format!(
            "`{}`: {} {what}: name a trace of I, P and B that begins with I, like {TRACE}",
            s.name("trace"),
            file.display()
        )))
    };
    if frames.iter().any(|frame| frame.kind == 'A') {
        return refuse("has audio");
    }
    if frames.first().is_none_or(|frame| frame.kind != 'I') {
        return refuse("does not begin with a keyframe");
    }
    if let Some(rate) = s.read::<Rate>("rate")? {
        let all = period * frames.len() as u64;
        trace::scale(&mut frames, all, rate.bps() as f64);
    }
    Ok(frames.into())
}

fn scene(s: &Section<'_>) -> Result<Scene, ScenarioError> {
    Ok(Scene {
        mean: s.value("mean")?,
        deviation: s.value("deviation")?,
        length: s.value("for")?,
    })
}

#[cfg(test)]
mod tests {
    use makeway_core::rate::Config;

    use super::*;

    #[test]
    fn the_choices_of_policy_and_rate_have_every_name() {
        let words = |key: &str| {
            let field = FIELDS.iter().find(|field| field.key == key);
            match field.map(|field| field.values) {
                Some(Values::Other(words)) => words,
                other => panic!("{key}: {other:?}"),
            }
        };
        for policy in AnyPolicy::all() {
            assert!(words("policy").contains(policy.name()), "{policy}");
        }
        for name in Config::NAMES {
            assert!(words("rate").contains(name), "{name}");
        }
    }
}
