//! `[flow.NAME]`.

use std::path::PathBuf;

use makeway_core::units::{Bytes, Duration, Rate};

use crate::document::Entry;
use crate::error::{Origin, ScenarioError};
use crate::model::{Flow, Frame, Link, Pace, Source};
use crate::read::Context;
use crate::section::{Section, table};
use crate::trace;

const KINDS: [&str; 4] = ["bulk", "rtp", "cbr", "poisson"];
const COMMON: [&str; 7] = ["kind", "from", "to", "count", "start", "stagger", "stop"];
/// Largest payload of an RTP packet that fits an MTU of 1500 B with IP, UDP and RTP headers.
const LARGEST_PAYLOAD: u64 = 1460;
/// Room for our own header behind RTP's: a smaller payload carries no time stamp.
const SMALLEST_PAYLOAD: u64 = 24;
/// Near to what media tools send; chosen by us.
const VIDEO_PAYLOAD: u64 = 1400;
/// A G.711 packet of 20 ms; chosen by us.
const CBR_PAYLOAD: u64 = 160;
/// VLC's pacing is about this coarse; chosen by us.
const DEFAULT_PACE: Pace = Pace::Slice(Duration::from_millis(200));
/// Chosen by us: more parallel flows than this are a typing error. A world may have its own bound.
const MOST_FLOWS: u64 = 1_000_000;

/// A trace is held in memory: hours of frames, not devices or pipes without end.
const LARGEST_TRACE: u64 = 64_000_000;

fn keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "bulk" => &["congestion_control", "bytes"],
        "rtp" => &["trace", "rate", "payload", "pace", "jitter"],
        "cbr" => &["rate", "payload", "jitter"],
        _ => &["rate", "payload"],
    }
}

/// The flows of one entry: `count` of them.
pub(crate) fn read(
    entry: &Entry,
    cx: &Context<'_>,
    links: &[Link],
) -> Result<Vec<Flow>, ScenarioError> {
    let path = format!("flow.{}", entry.key);
    let t = table(&entry.item, &path, &format!("[{path}]"))?;
    let every: Vec<&str> = t.entries.iter().map(|e| e.key.as_str()).collect();
    let any = Section::new(path.as_str(), &entry.origin, t, &every)?;
    any.need("kind", "\"bulk\", \"rtp\", \"cbr\" or \"poisson\"")?;
    let kind = any.choice("kind", &KINDS)?.unwrap_or_default();
    let known = [&COMMON[..], keys(&kind)].concat();
    let s = Section::new(path, &entry.origin, t, &known)?;

    let from = node(&s, "from", cx)?;
    let to = node(&s, "to", cx)?;
    reach(&s, from, to, cx, links)?;
    let source = match kind.as_str() {
        "bulk" => bulk(&s)?,
        "rtp" => rtp(&s, cx)?,
        "cbr" => Source::Cbr {
            rate: rate(&s)?,
            payload: payload(&s, CBR_PAYLOAD)?,
            jitter: s.read("jitter")?.unwrap_or_default(),
        },
        _ => Source::Poisson {
            rate: rate(&s)?,
            payload: payload(&s, CBR_PAYLOAD)?,
        },
    };
    let count = s.integer("count", 0..=MOST_FLOWS)?.unwrap_or(1);
    let first: Duration = s.read("start")?.unwrap_or_default();
    let stagger: Duration = s.read("stagger")?.unwrap_or_default();
    let stop: Option<Duration> = s.read("stop")?;
    let last = first + stagger * count.saturating_sub(1);
    times(&s, last, stop, cx)?;
    Ok((0..count)
        .map(|i| Flow {
            name: if count == 1 {
                entry.key.clone()
            } else {
                format!("{}-{}", entry.key, i + 1)
            },
            group: entry.key.clone(),
            from,
            to,
            start: first + stagger * i,
            stop,
            source: source.clone(),
        })
        .collect())
}

fn node(s: &Section<'_>, key: &str, cx: &Context<'_>) -> Result<usize, ScenarioError> {
    s.need(key, "\"client\"")?;
    let (text, origin) = s.string(key)?.unwrap_or(("", s.origin));
    cx.node(text, &s.name(key), origin)
}

fn origin<'a>(s: &Section<'a>, key: &str) -> &'a Origin {
    s.get(key).map_or(s.origin, |e| &e.item.origin)
}

/// A path of links joins both ends.
fn reach(
    s: &Section<'_>,
    from: usize,
    to: usize,
    cx: &Context<'_>,
    links: &[Link],
) -> Result<(), ScenarioError> {
    let (a, b) = (&cx.nodes[from].name, &cx.nodes[to].name);
    if from == to {
        return Err(origin(s, "to").error(format!(
            "`{}` goes from `{a}` to itself: a flow needs two nodes",
            s.path
        )));
    }
    let mut reached = vec![false; cx.nodes.len()];
    reached[from] = true;
    let mut grown = true;
    while grown && !reached[to] {
        grown = false;
        for [x, y] in links.iter().map(|l| l.ends) {
            if reached[x] != reached[y] {
                (reached[x], reached[y], grown) = (true, true, true);
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
        return Err(origin(s, "start").error(format!(
            "`{}` starts at {last}, when the scenario of {} is over: start it earlier",
            s.path, cx.duration
        )));
    }
    match stop {
        Some(stop) if stop <= last => Err(origin(s, "stop").error(format!(
            "`{}` is {stop}, not later than its start at {last}: stop it later",
            s.name("stop")
        ))),
        _ => Ok(()),
    }
}

fn bulk(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let congestion_control = s
        .choice("congestion_control", &["reno", "cubic", "bbr"])?
        .unwrap_or_else(|| "cubic".into());
    let bytes: Option<Bytes> = s.read("bytes")?;
    if bytes == Some(Bytes::ZERO) {
        return Err(origin(s, "bytes").error(format!(
            "`{}` is zero: write a size like \"10MB\", or leave it out for a download without end",
            s.name("bytes")
        )));
    }
    Ok(Source::Bulk {
        congestion_control,
        bytes,
    })
}

fn rate(s: &Section<'_>) -> Result<Rate, ScenarioError> {
    s.need("rate", "\"2mbit\"")?;
    let rate: Rate = s.read("rate")?.unwrap_or_default();
    if rate.bps() < 100 {
        return Err(origin(s, "rate").error(format!(
            "`{}` is {rate}: write a rate of 100bit or more, like \"2mbit\"",
            s.name("rate")
        )));
    }
    Ok(rate)
}

fn payload(s: &Section<'_>, default: u64) -> Result<Bytes, ScenarioError> {
    let payload = s.read("payload")?.unwrap_or(Bytes::new(default));
    if (SMALLEST_PAYLOAD..=LARGEST_PAYLOAD).contains(&payload.get()) {
        return Ok(payload);
    }
    Err(origin(s, "payload").error(format!(
        "`{}` is {payload}: write a size from {SMALLEST_PAYLOAD}B to {LARGEST_PAYLOAD}B, so that a packet fits 1500 B",
        s.name("payload")
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
    let (text, origin) = s.string("trace")?.unwrap_or(("", s.origin));
    let path = cx.folder.join(text);
    let size = std::fs::metadata(&path).map(|m| if m.is_file() { m.len() } else { u64::MAX });
    if size.is_ok_and(|n| n > LARGEST_TRACE) {
        return Err(origin.error(format!(
            "`{}`: {} is no trace: name a CSV file of 64 MB at most",
            s.name("trace"),
            path.display()
        )));
    }
    let csv = std::fs::read_to_string(&path).map_err(|e| {
        origin.error(format!(
            "`{}`: the trace {} cannot be read ({e}): name it from the scenario's own folder",
            s.name("trace"),
            path.display()
        ))
    })?;
    let (frames, period) = trace::parse(&csv).map_err(|(line, message)| {
        origin.error(format!(
            "`{}`: {}:{line}: {message}",
            s.name("trace"),
            path.display()
        ))
    })?;
    Ok((path, frames, period))
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
