// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[flow.NAME]`.

use std::path::PathBuf;

use makeway_core::units::{Bytes, Duration, Rate};

use crate::context::Context;
use crate::document::{Entry, Item};
use crate::error::ScenarioError;
use crate::model::{Flow, Frame, Link, Pace, Source, Voice, Wlan};
use crate::pcap::{self, LARGEST_CAPTURE};
use crate::section::{Section, string, table};
use crate::sensor::Phenomenon;
use crate::{media, tcp, ticket, trace};

const KINDS: [&str; 8] = [
    "bulk", "rtp", "cbr", "poisson", "on-off", "sensor", "pcap", "media",
];
const COMMON: [&str; 9] = [
    "kind", "from", "to", "count", "start", "stagger", "stop", "tickets", "profile",
];
/// Largest payload of an RTP packet that fits an MTU of 1500 B with IP, UDP and RTP headers.
const LARGEST_PAYLOAD: u64 = 1460;
/// Room for our own header behind RTP's: a smaller payload carries no time stamp.
const SMALLEST_PAYLOAD: u64 = 24;
/// Near to what media tools send; chosen by us.
const VIDEO_PAYLOAD: u64 = 1400;
/// Where sizes are exponential: a hundred-thousandth of them reach what IP carries.
const LARGEST_MEAN: u64 = 6000;
/// Of ns-2 and of measurements of web traffic.
const PARETO_SHAPE: f64 = 1.5;
/// Those of Linux, then those of a model.
const CONGESTION_CONTROLS: [&str; 6] = ["cubic", "reno", "bbr", "newreno", "sack", "tahoe"];
/// A G.711 packet of 20 ms; chosen by us.
const CBR_PAYLOAD: u64 = 160;
/// A packet of 10 ms: as the NCQ paper has it, section 5.2.3.
const ENCODER_DELAY: Duration = Duration::from_millis(10);
/// VLC's pacing is about this coarse; chosen by us.
const DEFAULT_PACE: Pace = Pace::Slice(Duration::from_millis(200));
/// Of a whole scenario, some tens of MB of memory before it runs; chosen by us: more are a typing error. A world may have
/// its own bound.
const MOST_FLOWS: u64 = 100_000;

fn keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "bulk" => &["congestion_control", "bytes", "think", "tcp"],
        "rtp" => &["trace", "rate", "payload", "pace", "jitter", "voice"],
        "cbr" => &["rate", "payload", "jitter", "voice"],
        "on-off" => &[
            "rate",
            "payload",
            "on",
            "off",
            "distribution",
            "shape",
            "voice",
        ],
        "sensor" => &["payload", "period", "phenomenon"],
        "pcap" => &["file", "repeat", "voice"],
        "media" => &media::KEYS,
        _ => &["rate", "payload", "sizes", "voice"],
    }
}

/// The flows of one entry, `count` of them, beside the `others` of the scenario.
pub(crate) fn read(
    entry: &Entry,
    cx: &Context<'_>,
    links: &[Link],
    wlans: &[Wlan],
    others: usize,
) -> Result<Vec<Flow>, ScenarioError> {
    let path = format!("flow.{}", entry.key);
    let t = table(&entry.item, &path, &format!("[{path}]"))?;
    let every: Vec<&str> = t.entries.iter().map(|e| e.key.as_str()).collect();
    let any = Section::new(path.as_str(), &entry.origin, t, &every)?;
    any.need(
        "kind",
        "\"bulk\", \"rtp\", \"cbr\", \"poisson\", \"on-off\", \"sensor\", \"pcap\" or \"media\"",
    )?;
    let kind = any.choice("kind", &KINDS)?.unwrap_or_default();
    let known = [&COMMON[..], keys(&kind)].concat();
    let s = Section::new(path, &entry.origin, t, &known)?;

    let from = nodes(&s, "from", cx)?;
    let to = node(&s, "to", cx)?;
    let joined: Vec<&[usize]> = links
        .iter()
        .map(|link| &link.ends[..])
        .chain(wlans.iter().map(|wlan| &wlan.stations[..]))
        .collect();
    for from in &from {
        reach(&s, *from, to, cx, &joined)?;
    }
    let sources = match kind.as_str() {
        "sensor" => {
            let payload = payload(&s, SMALLEST_PAYLOAD)?;
            let phenomenon = Phenomenon::read(&s, payload, cx)?;
            let noticed = |from: &usize| phenomenon.noticed_by(&s, *from, cx, wlans);
            from.iter().map(noticed).collect::<Result<_, _>>()?
        }
        kind => vec![source(kind, &s, cx)?],
    };
    let voice = voice(&s)?;
    let each = s.integer("count", 0..=MOST_FLOWS)?.unwrap_or(1);
    let count = each * from.len() as u64;
    let all = count + others as u64;
    if all > MOST_FLOWS {
        return Err(s.at("count").error(format!(
            "`{}` makes {all} flows in all: {MOST_FLOWS} is the most that a scenario can have",
            s.name("count")
        )));
    }
    let first: Duration = s.read("start")?.unwrap_or_default();
    let stagger: Duration = s.read("stagger")?.unwrap_or_default();
    let stop: Option<Duration> = s.read("stop")?;
    let last = first + stagger * count.saturating_sub(1);
    times(&s, last, stop, cx)?;
    let share = ticket::share(&s)?;
    Ok((0..count)
        .map(|i| Flow {
            name: if count == 1 {
                entry.key.clone()
            } else {
                format!("{}-{}", entry.key, i + 1)
            },
            group: entry.key.clone(),
            place: entry.origin.to_string(),
            from: from[(i / each) as usize],
            to,
            start: first + stagger * i,
            stop,
            share,
            source: sources[i as usize / each as usize % sources.len()].clone(),
            voice,
        })
        .collect())
}

fn source(kind: &str, s: &Section<'_>, cx: &Context<'_>) -> Result<Source, ScenarioError> {
    Ok(match kind {
        "bulk" => bulk(s)?,
        "rtp" => rtp(s, cx)?,
        "cbr" => Source::Cbr {
            rate: rate(s)?,
            payload: payload(s, CBR_PAYLOAD)?,
            jitter: s.read("jitter")?.unwrap_or_default(),
        },
        "on-off" => on_off(s)?,
        "pcap" => capture(s, cx)?,
        "media" => media::read(s)?,
        _ => poisson(s)?,
    })
}

/// One, or an array of several, each with flows of its own.
fn nodes(s: &Section<'_>, key: &str, cx: &Context<'_>) -> Result<Vec<usize>, ScenarioError> {
    let entry = s.need(key, "\"client\"")?;
    let name = s.name(key);
    let items = entry.item.one_or_more();
    if items.is_empty() {
        return Err(entry.item.origin.error(format!(
            "`{name}` is empty: write a node, or several like [\"client\", \"server\"]"
        )));
    }
    let node = |item: &Item| cx.node(string(item, &name)?, &name, &item.origin);
    items.iter().map(node).collect()
}

fn node(s: &Section<'_>, key: &str, cx: &Context<'_>) -> Result<usize, ScenarioError> {
    s.need(key, "\"client\"")?;
    let (text, origin) = s.string(key)?.unwrap_or(("", s.origin));
    cx.node(text, &s.name(key), origin)
}

/// A path of links and channels, each of which joins some nodes, leads from one end to the other.
fn reach(
    s: &Section<'_>,
    from: usize,
    to: usize,
    cx: &Context<'_>,
    joined: &[&[usize]],
) -> Result<(), ScenarioError> {
    let (a, b) = (&cx.nodes[from].name, &cx.nodes[to].name);
    if from == to {
        return Err(s.at("to").error(format!(
            "`{}` goes from `{a}` to itself: a flow needs two nodes",
            s.path
        )));
    }
    let mut reached = vec![false; cx.nodes.len()];
    reached[from] = true;
    let mut grown = true;
    while grown && !reached[to] {
        grown = false;
        for nodes in joined {
            if nodes.iter().any(|n| reached[*n]) && !nodes.iter().all(|n| reached[*n]) {
                nodes.iter().for_each(|n| reached[*n] = true);
                grown = true;
            }
        }
    }
    if reached[to] {
        return Ok(());
    }
    Err(s.origin.error(format!(
        "`{}` cannot get from `{a}` to `{b}`: no path of links joins them",
        s.path
    )))
}

fn times(
    s: &Section<'_>,
    last: Duration,
    stop: Option<Duration>,
    cx: &Context<'_>,
) -> Result<(), ScenarioError> {
    if last >= cx.duration {
        return Err(s.at("start").error(format!(
            "`{}` starts at {last}, when the scenario of {} is over: start it earlier",
            s.path, cx.duration
        )));
    }
    match stop {
        Some(stop) if stop <= last => Err(s.at("stop").error(format!(
            "`{}` is {stop}, not later than its start at {last}: stop it later",
            s.name("stop")
        ))),
        _ => Ok(()),
    }
}

fn bulk(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let congestion_control = s
        .choice("congestion_control", &CONGESTION_CONTROLS)?
        .unwrap_or_else(|| "cubic".into());
    let bytes: Option<Bytes> = s.read("bytes")?;
    if bytes == Some(Bytes::ZERO) {
        return Err(s.at("bytes").error(format!(
            "`{}` is zero: write a size like \"10MB\", or leave it out for a download without end",
            s.name("bytes")
        )));
    }
    let think: Option<Duration> = s.read("think")?;
    if think.is_some() && bytes.is_none() {
        return Err(s.at("think").error(format!(
            "`{}` is the time between tasks, and a download without end is none: write `bytes = \"1MB\"`",
            s.name("think")
        )));
    }
    Ok(Source::Bulk {
        congestion_control,
        bytes,
        think,
        tcp: tcp::read(s)?,
    })
}

fn poisson(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let exponential =
        s.choice("sizes", &["constant", "exponential"])?.as_deref() == Some("exponential");
    let most = match exponential {
        true => LARGEST_MEAN,
        false => LARGEST_PAYLOAD,
    };
    Ok(Source::Poisson {
        rate: rate(s)?,
        payload: payload_up_to(s, CBR_PAYLOAD, most)?,
        exponential,
    })
}

fn on_off(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let time = |key: &str| -> Result<Duration, ScenarioError> {
        s.need(key, "\"500ms\"")?;
        let time: Duration = s.read(key)?.unwrap_or_default();
        if time == Duration::ZERO {
            return Err(s.at(key).error(format!(
                "`{}` is zero: write the mean time, like \"500ms\"",
                s.name(key)
            )));
        }
        Ok(time)
    };
    let pareto = s
        .choice("distribution", &["exponential", "pareto"])?
        .as_deref()
        == Some("pareto");
    let shape: Option<f64> = s.read("shape")?;
    if shape.is_some() && !pareto {
        return Err(s.at("shape").error(format!(
            "`{}` is of a Pareto distribution: write `distribution = \"pareto\"` too",
            s.name("shape")
        )));
    }
    if shape.is_some_and(|shape| !(shape > 1.0 && shape <= 10.0)) {
        return Err(s.at("shape").error(format!(
            "`{}` should be above 1, so that there is a mean, and 10 at most",
            s.name("shape")
        )));
    }
    Ok(Source::OnOff {
        rate: rate(s)?,
        payload: payload(s, CBR_PAYLOAD)?,
        on: time("on")?,
        off: time("off")?,
        shape: pareto.then(|| shape.unwrap_or(PARETO_SHAPE)),
    })
}

fn voice(s: &Section<'_>) -> Result<Option<Voice>, ScenarioError> {
    let Some(entry) = s.get("voice") else {
        return Ok(None);
    };
    let name = s.name("voice");
    let t = table(&entry.item, &name, "{ encoder_delay = \"10ms\" }")?;
    let v = Section::new(name.as_str(), &entry.item.origin, t, &["encoder_delay"])?;
    Ok(Some(Voice {
        encoder_delay: v.read("encoder_delay")?.unwrap_or(ENCODER_DELAY),
    }))
}

fn rate(s: &Section<'_>) -> Result<Rate, ScenarioError> {
    s.need("rate", "\"2mbit\"")?;
    let rate: Rate = s.read("rate")?.unwrap_or_default();
    if rate.bps() < 100 {
        return Err(s.at("rate").error(format!(
            "`{}` is {rate}: write a rate of 100bit or more, like \"2mbit\"",
            s.name("rate")
        )));
    }
    Ok(rate)
}

fn payload(s: &Section<'_>, default: u64) -> Result<Bytes, ScenarioError> {
    payload_up_to(s, default, LARGEST_PAYLOAD)
}

fn payload_up_to(s: &Section<'_>, default: u64, most: u64) -> Result<Bytes, ScenarioError> {
    let payload = s.read("payload")?.unwrap_or(Bytes::new(default));
    if (SMALLEST_PAYLOAD..=most).contains(&payload.get()) {
        return Ok(payload);
    }
    Err(s.at("payload").error(format!(
        "`{}` is {payload}: write a size from {SMALLEST_PAYLOAD}B to {most}B, so that a packet fits {} B",
        s.name("payload"),
        most + 40
    )))
}

fn rtp(s: &Section<'_>, cx: &Context<'_>) -> Result<Source, ScenarioError> {
    let (trace, mut frames, period) = trace_file(s, cx)?;
    if s.get("rate").is_some() {
        trace::scale(&mut frames, period, rate(s)?.bps() as f64);
    }
    Ok(Source::Rtp {
        trace,
        frames: frames.into(),
        period,
        payload: payload(s, VIDEO_PAYLOAD)?,
        pace: pace(s)?,
        jitter: s.read("jitter")?.unwrap_or_default(),
    })
}

fn trace_file(
    s: &Section<'_>,
    cx: &Context<'_>,
) -> Result<(PathBuf, Vec<Frame>, Duration), ScenarioError> {
    s.need("trace", "\"traces/mpeg2-5m.csv\"")?;
    let (csv, path, origin) = cx.file(s, "trace")?;
    let (frames, period) = trace::parse(&csv).map_err(|(line, message)| {
        origin.error(format!(
            "`{}`: {}:{line}: {message}",
            s.name("trace"),
            path.display()
        ))
    })?;
    Ok((path, frames, period))
}

fn capture(s: &Section<'_>, cx: &Context<'_>) -> Result<Source, ScenarioError> {
    s.need("file", "\"capture.pcapng\"")?;
    let (text, origin) = s.string("file")?.unwrap_or(("", s.origin));
    let file = cx.folder.join(text);
    let about = |what: String| {
        let name = s.name("file");
        origin.error(format!("`{name}`: {}: {what}", file.display()))
    };
    let size = std::fs::metadata(&file).map(|m| if m.is_file() { m.len() } else { u64::MAX });
    if size.is_ok_and(|n| n > LARGEST_CAPTURE) {
        return Err(about(
            "it is no file of 256 MB at most: `tcpdump -r FILE -s 64 -w SMALLER` keeps the headers, which is enough".into(),
        ));
    }
    let bytes = std::fs::read(&file).map_err(|e| {
        about(format!(
            "it cannot be read ({e}): name it from the scenario's own folder"
        ))
    })?;
    let packets = pcap::parse(&bytes).map_err(about)?;
    let repeat = s.boolean("repeat")?.unwrap_or(false);
    Ok(Source::Pcap {
        period: repeat.then(|| pcap::period(&packets)),
        packets: packets.into(),
        file,
    })
}

fn pace(s: &Section<'_>) -> Result<Pace, ScenarioError> {
    let Some((text, origin)) = s.string("pace")? else {
        return Ok(DEFAULT_PACE);
    };
    match text {
        "frame" => return Ok(Pace::Frame),
        "burst" => return Ok(Pace::Burst),
        _ => {}
    }
    text.parse()
        .ok()
        .filter(|&d| d >= Duration::from_millis(1) && d <= Duration::from_secs(10))
        .map(Pace::Slice)
        .ok_or_else(|| {
            origin.error(format!(
                "`{}` is `{text}`: write \"frame\", \"burst\", or a slice from 1ms to 10s like \"200ms\"",
                s.name("pace")
            ))
        })
}
