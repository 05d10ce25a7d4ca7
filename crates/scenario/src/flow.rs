// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[flow.NAME]`.

use std::io::ErrorKind;
use std::path::PathBuf;

use makeway_core::units::{Bytes, Duration, Rate};

use crate::context::Context;
use crate::document::{Entry, Item, Value};
use crate::error::ScenarioError;
use crate::field::{FILE, Field, LARGEST_PAYLOAD, NODE, PAYLOAD, SMALLEST_PAYLOAD, TIME, Values};
use crate::model::{Flow, Frame, Jitter, Jittered, Link, Pace, Source, Voice, Wlan};
use crate::pcap::{self, LARGEST_CAPTURE};
use crate::section::{Section, string};
use crate::sensor::{self, Phenomenon};
use crate::{media, tcp, ticket, trace};

/// Names of the kinds, and their keys beside [`COMMON`].
pub(crate) const KINDS: [(&str, &[Field]); 8] = [
    ("bulk", BULK),
    ("rtp", RTP),
    ("cbr", CBR),
    ("poisson", POISSON),
    ("on-off", ON_OFF),
    ("sensor", sensor::FIELDS),
    ("pcap", CAPTURE),
    ("media", media::FIELDS),
];
const KIND: Values = Values::OneOf(&[
    "bulk", "rtp", "cbr", "poisson", "on-off", "sensor", "pcap", "media",
]);
/// Flows of a whole scenario, some tens of MB of memory before it runs; chosen by us: more are a typing error. A world may have
/// its own bound.
const MOST_FLOWS: u64 = 100_000;
#[rustfmt::skip]
pub(crate) const COMMON: &[Field] = &[
    Field::needed("kind", KIND, "\"bulk\"", "kind of traffic"),
    Field::needed("from", Values::Other("a node, or an array of them"), "\"server\"", "sender; a flow for each node of an array"),
    Field::needed("to", NODE, "\"client\"", "receiver; a path of links and radio channels joins both"),
    Field::new("count", Values::Whole(0, MOST_FLOWS), "1", "number of flows, named `NAME-1` and so on; a scenario has 100 000 flows at most"),
    Field::new("start", TIME, "0s", "first start, from the start of traffic"),
    Field::new("stagger", TIME, "0s", "delay of each start after the one before"),
    Field::optional("stop", TIME, "the end", "end, from the start of traffic"),
    Field::new("shared_port", Values::Flag, "false", "all flows of this name and sender have one source port, as a program has that talks with many others. World `sim`"),
];
/// Where sizes are exponential: a hundred-thousandth of them reach what IP carries.
const LARGEST_MEAN: u64 = 6000;
pub(crate) const MEAN_RATE: Values = Values::Rate(100, 1_000_000_000_000);
const MEAN_TIME: Values = Values::Time(Duration::from_nanos(1), Duration::from_secs(366 * 86_400));
/// A G.711 packet of 20 ms; chosen by us.
#[rustfmt::skip]
const PAYLOAD_OF: Field = Field::new("payload", PAYLOAD, "160B", "payload of a packet; headers are 40 B");
const RATE_OF: Field = Field::needed("rate", MEAN_RATE, "\"2mbit\"", "rate of IP packets");
#[rustfmt::skip]
const JITTER: Field = Field::new("jitter", TIME, "0s", "standard deviation of a Gaussian delay of each packet at the source");
#[rustfmt::skip]
const JITTER_OF: Field = Field::new("jitter_of", Values::OneOf(&["delay", "ordered-delay", "gap"]), "delay", "what `jitter` is of: the delay of each packet, which may overtake; the delay, but order is kept, so that packets leave in bunches; or the time from one packet to the next");
#[rustfmt::skip]
const VOICE: Field = Field::optional("voice", Values::Table(CALL), "no call", "it is a call, and the report has its quality (below)");
/// A packet of 10 ms: as the NCQ paper has it, section 5.2.3.
#[rustfmt::skip]
const CALL: &[Field] = &[Field::new(
    "encoder_delay",
    TIME,
    "10ms",
    "time to fill a packet and to encode",
)];
const EVERY: Values = Values::Time(Duration::from_millis(1), Duration::from_secs(3600));
#[rustfmt::skip]
const BULK: &[Field] = &[
    // Those of Linux, then those of a model.
    Field::new("congestion_control", Values::OneOf(&["cubic", "reno", "bbr", "ledbat", "newreno", "sack", "tahoe"]), "cubic", "congestion control; no `bbr` in the world `sim`, the last four only there"),
    Field::optional("bytes", Values::Size(1, 1 << 53), "unlimited", "size of a task, whose duration is reported"),
    Field::optional("think", TIME, "one task", "mean of the exponential time to the next task on the same connection; needs `bytes`. World `sim`"),
    Field::optional("every", EVERY, "one task", "tasks begin at multiples of this on the same connection, done or not: an application that writes at a rate of its own; needs `bytes`, instead of `think`. World `sim`"),
    Field::optional("tcp", Values::Table(tcp::FIELDS), "`linux`", "model of TCP in the world `sim`; `mss` and `window` can be set in the world `netns` too"),
];
#[rustfmt::skip]
const RTP: &[Field] = &[
    Field::needed("trace", FILE, "\"traces/mpeg2-5m.csv\"", "frames, again from the start when the trace ends"),
    Field::optional("rate", MEAN_RATE, "the trace's", "scales sizes of the `trace`, so that its frames, without headers, have this mean; their times stay"),
    // Near to what media tools send; chosen by us.
    Field::new("payload", PAYLOAD, "1400B", "largest payload of a packet"),
    // VLC's pacing is about this coarse; chosen by us.
    Field::new("pace", Values::Other("frame, burst, or a time from 1ms to 10s"), "200ms", "packets of a frame evenly until the next frame, as of a sender that paces; at once, as of an encoder alone; or evenly within slices of this time, over several frames as VLC does"),
    JITTER,
    JITTER_OF,
    VOICE,
];
#[rustfmt::skip]
const CBR: &[Field] = &[RATE_OF, PAYLOAD_OF, JITTER, JITTER_OF, VOICE];
#[rustfmt::skip]
const POISSON: &[Field] = &[
    RATE_OF,
    Field::new("payload", Values::Size(SMALLEST_PAYLOAD, LARGEST_MEAN), "160B", "payload of a packet, 1460 B at most; their mean where sizes are exponential"),
    Field::new("sizes", Values::OneOf(&["constant", "exponential"]), "constant", "`exponential`: sizes are random, from 64 B to 64 kB with headers. World `sim`"),
    VOICE,
];
#[rustfmt::skip]
const ON_OFF: &[Field] = &[
    Field::needed("rate", MEAN_RATE, "\"2mbit\"", "rate of IP packets while it is on"),
    PAYLOAD_OF,
    Field::needed("on", MEAN_TIME, "\"400ms\"", "mean time on"),
    Field::needed("off", MEAN_TIME, "\"600ms\"", "mean time off"),
    Field::new("distribution", Values::OneOf(&["exponential", "pareto"]), "exponential", "distribution of both times"),
    // Of ns-2 and of measurements of web traffic. Above 1, so that there is a mean.
    Field::optional("shape", Values::Number(1.0 + 1e-9, 10.0), "1.5", "shape of a Pareto distribution"),
    VOICE,
];
const PARETO_SHAPE: f64 = 1.5;
#[rustfmt::skip]
const CAPTURE: &[Field] = &[
    Field::needed("file", FILE, "\"capture.pcapng\"", "capture, pcap or pcapng"),
    Field::new("repeat", Values::Flag, "false", "it is played again and again, instead of once"),
    VOICE,
];
/// The flows of one entry, `count` of them, beside the `others` of the scenario.
pub(crate) fn read(
    entry: &Entry,
    cx: &Context<'_>,
    links: &[Link],
    wlans: &[Wlan],
    others: usize,
) -> Result<Vec<Flow>, ScenarioError> {
    let every: Vec<&str> = match &entry.item.value {
        Value::Table(table) => table.entries.iter().map(|e| e.key.as_str()).collect(),
        _ => Vec::new(),
    };
    let path = format!("flow.{}", entry.key);
    let mut any = Section::with_others(path, &entry.item, &[COMMON], &every)?;
    any.origin = &entry.origin;
    let kind = any.choice("kind")?;
    let own = KINDS.iter().find(|(name, _)| *name == kind);
    let own = own.map_or(&[][..], |(_, fields)| fields);
    let s = Section::named("flow", entry, &[COMMON, ticket::SHARE, own])?;

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
    let sources = match kind {
        "sensor" => {
            let phenomenon = Phenomenon::read(&s, cx)?;
            let noticed = |from: &usize| phenomenon.noticed_by(&s, *from, cx, wlans);
            from.iter().map(noticed).collect::<Result<_, _>>()?
        }
        kind => vec![source(kind, &s, cx)?],
    };
    let voice = match own.iter().any(|field| field.key == "voice") {
        true => voice(&s)?,
        false => None,
    };
    let each: u64 = s.value("count")?;
    let count = each * from.len() as u64;
    let all = count + others as u64;
    if all > MOST_FLOWS {
        return Err(s.at("count").error(format!(
            "`{}` makes {all} flows in all: {MOST_FLOWS} is the most that a scenario can have",
            s.name("count")
        )));
    }
    let first: Duration = s.value("start")?;
    let stagger: Duration = s.value("stagger")?;
    let stop: Option<Duration> = s.read("stop")?;
    let last = first + stagger * count.saturating_sub(1);
    times(&s, last, stop, cx)?;
    let share = ticket::share(&s)?;
    let shared_port: bool = s.value("shared_port")?;
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
            shared_port,
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
            rate: s.value("rate")?,
            payload: s.value("payload")?,
            jitter: jitter(s)?,
        },
        "on-off" => on_off(s)?,
        "pcap" => capture(s, cx)?,
        "media" => media::read(s, cx)?,
        _ => poisson(s)?,
    })
}

/// One, or an array of several, each with flows of its own.
fn nodes(s: &Section<'_>, key: &str, cx: &Context<'_>) -> Result<Vec<usize>, ScenarioError> {
    let name = s.name(key);
    let items = s.given(key)?.map_or(&[][..], Item::one_or_more);
    if items.is_empty() {
        return Err(s.at(key).error(format!(
            "`{name}` is empty: write a node, or several like [\"client\", \"server\"]"
        )));
    }
    let node = |item: &Item| cx.node(string(item, &name)?, &name, &item.origin);
    items.iter().map(node).collect()
}

fn node(s: &Section<'_>, key: &str, cx: &Context<'_>) -> Result<usize, ScenarioError> {
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
    let bytes: Option<Bytes> = s.read("bytes")?;
    let think: Option<Duration> = s.read("think")?;
    if think.is_some() && bytes.is_none() {
        return Err(s.at("think").error(format!(
            "`{}` is the time between tasks, and a download without end is none: write `bytes = \"1MB\"`",
            s.name("think")
        )));
    }
    let every: Option<Duration> = s.read("every")?;
    if every.is_some() && (bytes.is_none() || think.is_some()) {
        return Err(s.at("every").error(format!(
            "`{}` is the time from one task to the next: write `bytes = \"25kB\"` too, and no `think`",
            s.name("every")
        )));
    }
    Ok(Source::Bulk {
        congestion_control: s.choice("congestion_control")?.into(),
        bytes,
        think,
        every,
        tcp: tcp::read(s)?,
    })
}

fn poisson(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let exponential = s.choice("sizes")? == "exponential";
    let payload: Bytes = s.value("payload")?;
    if !exponential && payload.get() > LARGEST_PAYLOAD {
        return Err(s.at("payload").error(format!(
            "`{}` is {payload}: write a size from {SMALLEST_PAYLOAD}B to {LARGEST_PAYLOAD}B, so that a packet fits 1500 B",
            s.name("payload")
        )));
    }
    Ok(Source::Poisson {
        rate: s.value("rate")?,
        payload,
        exponential,
    })
}

fn on_off(s: &Section<'_>) -> Result<Source, ScenarioError> {
    let pareto = s.choice("distribution")? == "pareto";
    let shape: Option<f64> = s.read("shape")?;
    if shape.is_some() && !pareto {
        return Err(s.at("shape").error(format!(
            "`{}` is of a Pareto distribution: write `distribution = \"pareto\"` too",
            s.name("shape")
        )));
    }
    Ok(Source::OnOff {
        rate: s.value("rate")?,
        payload: s.value("payload")?,
        on: s.value("on")?,
        off: s.value("off")?,
        shape: pareto.then(|| shape.unwrap_or(PARETO_SHAPE)),
    })
}

fn voice(s: &Section<'_>) -> Result<Option<Voice>, ScenarioError> {
    let Some(v) = s.inner("voice")? else {
        return Ok(None);
    };
    Ok(Some(Voice {
        encoder_delay: v.value("encoder_delay")?,
    }))
}

fn rtp(s: &Section<'_>, cx: &Context<'_>) -> Result<Source, ScenarioError> {
    let (trace, mut frames, period) = trace_file(s, cx)?;
    if let Some(rate) = s.read::<Rate>("rate")? {
        trace::scale(&mut frames, period, rate.bps() as f64);
    }
    Ok(Source::Rtp {
        trace,
        frames: frames.into(),
        period,
        payload: s.value("payload")?,
        pace: pace(s)?,
        jitter: jitter(s)?,
    })
}

fn jitter(s: &Section<'_>) -> Result<Jitter, ScenarioError> {
    let name = s.choice("jitter_of")?;
    let of = Jittered::NAMES.iter().find(|(other, _)| *other == name);
    Ok(Jitter {
        deviation: s.value("jitter")?,
        of: of.map_or_else(Jittered::default, |(_, of)| *of),
    })
}

pub(crate) fn trace_file(
    s: &Section<'_>,
    cx: &Context<'_>,
) -> Result<(PathBuf, Vec<Frame>, Duration), ScenarioError> {
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
    let (text, origin) = s.string("file")?.unwrap_or(("", s.origin));
    let file = cx.folder.join(text);
    let about = |what: String| {
        let name = s.name("file");
        origin.error(format!("`{name}`: {}: {what}", file.display()))
    };
    let bytes = crate::bytes_of(&file, LARGEST_CAPTURE).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge => about(format!(
            "{e}: `tcpdump -r FILE -s 64 -w SMALLER` keeps the headers, which is enough"
        )),
        _ => about(format!(
            "it cannot be read ({e}): name it from the scenario's own folder"
        )),
    })?;
    let packets = pcap::parse(&bytes).map_err(about)?;
    let repeat: bool = s.value("repeat")?;
    Ok(Source::Pcap {
        period: repeat.then(|| pcap::period(&packets)),
        packets: packets.into(),
        file,
    })
}

fn pace(s: &Section<'_>) -> Result<Pace, ScenarioError> {
    let Some((text, origin)) = s.string("pace")? else {
        return Ok(Pace::Slice(Duration::from_millis(200)));
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
