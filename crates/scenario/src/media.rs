// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kind = "media"`: an application's datagrams, and the sender that they go through.

use std::sync::Arc;

use makeway_core::send::{self, AnyPolicy, WhenFull};
use makeway_core::units::{Bytes, Duration, Rate};

use crate::controller;
use crate::document::{Entry, Item};
use crate::error::ScenarioError;
use crate::model::{Class, Media, Scene, Source, Traffic};
use crate::queue::limit;
use crate::section::{Section, table};

/// Keys of `[flow.NAME]` of this kind.
pub(crate) const KEYS: [&str; 14] = [
    "policy",
    "when_full",
    "rate",
    "queue",
    "deadline",
    "headers",
    "one_way",
    "tick",
    "traffic",
    "audio",
    "video",
    "stream",
    "whole_frames",
    "pause",
];
const EVEN_KEYS: [&str; 2] = ["payload", "period"];
const FRAMES_KEYS: [&str; 4] = ["period", "largest", "scenes", "follows"];
const SCENE_KEYS: [&str; 3] = ["mean", "deviation", "for"];
const ALWAYS_KEYS: [&str; 1] = ["payload"];
const SCENES: &str = "[{ mean = \"4450B\", deviation = \"1000B\", for = \"10s\" }]";

/// SBPN paper, section 4.2.
const DEADLINE: Duration = Duration::from_millis(200);
/// IPv4 20 and DCCP-Data 16 with long sequence numbers (RFC 4340 §5.1).
const HEADERS: Bytes = Bytes::new(36);
/// With these it fits an MTU of 1500 B.
const LARGEST: Bytes = Bytes::new(1464);
/// Chosen by us: what lasts longer is a typing error.
const LONGEST: Duration = Duration::from_secs(3600);
/// HZ 100: a link catches up on no more.
const COARSEST: Duration = Duration::from_millis(10);

pub(crate) fn read(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let mut queue = send::Config {
        largest: LARGEST.get() as u32,
        one_way: s.read("one_way")?,
        ..send::Config::default()
    };
    if let Some(entry) = s.get("queue") {
        (queue.packets, queue.bytes) = limit(&entry.item, &s.name("queue"))?;
    }
    Ok(Source::Media(Arc::new(Media {
        policy: policy(s)?,
        rate: controller::read(s, queue.largest)?,
        queue,
        deadline: time(s, "deadline")?.unwrap_or(DEADLINE),
        headers: size(s, "headers", 20..=256)?.unwrap_or(HEADERS),
        tick: tick(s)?,
        pause: pause(s)?,
        whole_frames: s.boolean("whole_frames")?.unwrap_or(true),
        classes: classes(s)?,
    })))
}

/// With the response to a full queue.
fn policy(s: &Section<'_>) -> Result<AnyPolicy, ScenarioError> {
    let mut policy: AnyPolicy = s.read("policy")?.unwrap_or_default();
    let when_full = match s.choice("when_full", &["evict", "refuse"])?.as_deref() {
        Some("refuse") => WhenFull::Refuse,
        Some(_) => WhenFull::EvictWorst,
        None => return Ok(policy),
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

/// How coarse a timer is, of a sender or of a link.
pub(crate) fn tick(s: &Section<'_>) -> Result<Option<Duration>, ScenarioError> {
    let tick: Option<Duration> = s.read("tick")?;
    match tick {
        Some(tick) if tick == Duration::ZERO || tick > COARSEST => Err(s.at("tick").error(format!(
            "`{}` is {tick}: write a time up to {COARSEST}, like \"4ms\" for HZ 250, or leave it out",
            s.name("tick")
        ))),
        tick => Ok(tick),
    }
}

fn classes(s: &Section<'_>) -> Result<Vec<Class>, ScenarioError> {
    let mut classes = match s.choice("traffic", &["ekiga"])? {
        Some(_) => ekiga(),
        None => Vec::new(),
    };
    let mut put = |name: &'static str, traffic: Traffic| {
        match classes.iter_mut().find(|class| class.name == name) {
            Some(class) => class.traffic = traffic,
            None => classes.push(Class { name, traffic }),
        };
    };
    if let Some(entry) = s.get("audio") {
        put("audio", even(s, entry)?);
    }
    if let Some(entry) = s.get("video") {
        put("video", frames(s, entry)?);
    }
    if let Some(entry) = s.get("stream") {
        let name = s.name("stream");
        let t = table(&entry.item, &name, "{ payload = \"1000B\" }")?;
        let s = Section::new(name, &entry.item.origin, t, &ALWAYS_KEYS)?;
        s.need("payload", "\"1000B\"")?;
        let payload = size(&s, "payload", 1..=LARGEST.get())?.unwrap_or_default();
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

fn even(s: &Section<'_>, entry: &Entry) -> Result<Traffic, ScenarioError> {
    let name = s.name("audio");
    let t = table(
        &entry.item,
        &name,
        "{ payload = \"160B\", period = \"20ms\" }",
    )?;
    let s = Section::new(name, &entry.item.origin, t, &EVEN_KEYS)?;
    s.need("payload", "\"160B\"")?;
    s.need("period", "\"20ms\"")?;
    Ok(Traffic::Even {
        payload: size(&s, "payload", 1..=LARGEST.get())?.unwrap_or_default(),
        period: time(&s, "period")?.unwrap_or_default(),
    })
}

fn frames(s: &Section<'_>, entry: &Entry) -> Result<Traffic, ScenarioError> {
    let name = s.name("video");
    let t = table(
        &entry.item,
        &name,
        &format!("{{ period = \"40ms\", scenes = {SCENES} }}"),
    )?;
    let s = Section::new(name, &entry.item.origin, t, &FRAMES_KEYS)?;
    s.need("period", "\"40ms\"")?;
    let listed = s.need("scenes", SCENES)?;
    let scenes = listed.item.one_or_more().iter();
    let scenes: Vec<Scene> = scenes
        .map(|item| scene(item, &s.name("scenes")))
        .collect::<Result<_, _>>()?;
    if scenes.is_empty() {
        return Err(listed.item.origin.error(format!(
            "`{}` is empty: write one at least, like {SCENES}",
            s.name("scenes")
        )));
    }
    let follows = s.pair::<Rate>("follows")?;
    if let Some([least, most]) = follows
        && (least.bps() < 1000 || least > most)
    {
        return Err(s.at("follows").error(format!(
            "`{}` is from {least} to {most}: write the least and the most that the encoder makes, like [\"150kbit\", \"1500kbit\"]",
            s.name("follows")
        )));
    }
    Ok(Traffic::Frames {
        period: time(&s, "period")?.unwrap_or_default(),
        largest: size(&s, "largest", 64..=LARGEST.get())?.unwrap_or(LARGEST),
        scenes,
        follows,
    })
}

fn scene(item: &Item, name: &str) -> Result<Scene, ScenarioError> {
    let t = table(item, name, SCENES)?;
    let s = Section::new(name, &item.origin, t, &SCENE_KEYS)?;
    s.need("mean", "\"4450B\"")?;
    s.need("for", "\"10s\"")?;
    Ok(Scene {
        mean: size(&s, "mean", 1..=10_000_000)?.unwrap_or_default(),
        deviation: size(&s, "deviation", 0..=10_000_000)?.unwrap_or_default(),
        length: time(&s, "for")?.unwrap_or_default(),
    })
}

fn size(
    s: &Section<'_>,
    key: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<Bytes>, ScenarioError> {
    let size: Option<Bytes> = s.read(key)?;
    match size {
        Some(size) if !range.contains(&size.get()) => Err(s.at(key).error(format!(
            "`{}` is {size}: write a size from {}B to {}B",
            s.name(key),
            range.start(),
            range.end()
        ))),
        size => Ok(size),
    }
}

/// A time from a millisecond to an hour.
fn time(s: &Section<'_>, key: &str) -> Result<Option<Duration>, ScenarioError> {
    let time: Option<Duration> = s.read(key)?;
    match time {
        Some(time) if time < Duration::from_millis(1) || time > LONGEST => {
            Err(s.at(key).error(format!(
                "`{}` is {time}: write a time from 1ms to an hour",
                s.name(key)
            )))
        }
        time => Ok(time),
    }
}
