// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[wlan.NAME]`: stations that share a radio channel.

use makeway_core::units::{Duration, Rate};

use crate::context::Context;
use crate::document::{Entry, Item, Value};
use crate::error::ScenarioError;
use crate::model::{Power, Standard, Wlan};
use crate::queue::{alone, default_queue};
use crate::section::{Section, read as read_item, shown, string, table};

const KEYS: [&str; 14] = [
    "stations",
    "access_point",
    "standard",
    "rate",
    "preamble",
    "rts",
    "loss",
    "retry_limit",
    "queue",
    "places",
    "range",
    "sense",
    "off",
    "power",
];
const POWER_KEYS: [&str; 3] = ["send", "receive", "idle"];
const STANDARDS: [&str; 2] = ["802.11b", "802.11a"];
/// Rates of data in kbit/s: IEEE 802.11-2020 clauses 15 to 17.
const RATES_B: [u64; 4] = [1000, 2000, 5500, 11_000];
const RATES_A: [u64; 8] = [6000, 9000, 12_000, 18_000, 24_000, 36_000, 48_000, 54_000];
/// The standard's (IEEE 802.11-2020 annex C, dot11ShortRetryLimit).
const RETRY_LIMIT: u64 = 7;
/// ns-2's, in m.
const RANGE: f64 = 250.0;
const SENSE: f64 = 550.0;

pub(crate) fn read(entry: &Entry, cx: &Context<'_>) -> Result<Wlan, ScenarioError> {
    let path = format!("wlan.{}", entry.key);
    let t = table(&entry.item, &path, &format!("[{path}]"))?;
    let s = Section::new(path, &entry.origin, t, &KEYS)?;
    let stations = stations(&s, cx)?;
    let standard = standard(&s)?;
    let access_point = access_point(&s, cx, &stations)?;
    let queue = match s.get("queue") {
        Some(entry) => Some(alone(&s, &entry.item, cx)?),
        None => None,
    };
    Ok(Wlan {
        name: entry.key.clone(),
        rate: rate(&s, standard)?,
        standard,
        rts: s.read("rts")?,
        loss: s.probability("loss")?.unwrap_or(0.0),
        retry_limit: s.integer("retry_limit", 1..=255)?.unwrap_or(RETRY_LIMIT) as u32,
        places: places(&s, stations.len())?,
        range: metres(&s, "range", RANGE)?,
        sense: sense(&s)?,
        off: off(&s, cx, &stations)?,
        power: power(&s)?,
        measure: queue.is_some(),
        queue: queue.unwrap_or_else(default_queue),
        access_point,
        stations,
    })
}

fn stations(s: &Section<'_>, cx: &Context<'_>) -> Result<Vec<usize>, ScenarioError> {
    let entry = s.need("stations", "[\"ap\", \"laptop\"]")?;
    let name = s.name("stations");
    let mut stations = Vec::new();
    for item in entry.item.one_or_more() {
        let station = cx.node(string(item, &name)?, &name, &item.origin)?;
        if stations.contains(&station) {
            return Err(item.origin.error(format!(
                "`{name}` names `{}` twice: a node has one radio on a channel",
                cx.nodes[station].name
            )));
        }
        stations.push(station);
    }
    if (2..=Wlan::MOST_STATIONS).contains(&stations.len()) {
        return Ok(stations);
    }
    Err(entry.item.origin.error(format!(
        "`{name}` has {}: a channel is for 2 to {} of them",
        stations.len(),
        Wlan::MOST_STATIONS
    )))
}

/// The place among `stations` of the one that `text` names.
fn station(
    text: &str,
    name: &str,
    item: &Item,
    cx: &Context<'_>,
    stations: &[usize],
) -> Result<usize, ScenarioError> {
    let node = cx.node(text, name, &item.origin)?;
    let place = stations.iter().position(|station| *station == node);
    place.ok_or_else(|| {
        item.origin.error(format!(
            "`{name}`: `{text}` is none of the stations: add it to `stations`, or name one of them"
        ))
    })
}

fn access_point(
    s: &Section<'_>,
    cx: &Context<'_>,
    stations: &[usize],
) -> Result<Option<usize>, ScenarioError> {
    let Some(entry) = s.get("access_point") else {
        return Ok(None);
    };
    let name = s.name("access_point");
    let text = string(&entry.item, &name)?;
    station(text, &name, &entry.item, cx, stations).map(Some)
}

fn standard(s: &Section<'_>) -> Result<Standard, ScenarioError> {
    let named = s.choice("standard", &STANDARDS)?;
    let short = s.choice("preamble", &["long", "short"])?;
    match named.as_deref() {
        Some("802.11a") if short.is_some() => Err(s.at("preamble").error(format!(
            "`{}` is of 802.11b only: leave it out",
            s.name("preamble")
        ))),
        Some("802.11a") => Ok(Standard::A),
        _ => Ok(Standard::B {
            short_preamble: short.as_deref() == Some("short"),
        }),
    }
}

fn rate(s: &Section<'_>, standard: Standard) -> Result<Rate, ScenarioError> {
    let (rates, name) = match standard {
        Standard::B { .. } => (&RATES_B[..], STANDARDS[0]),
        Standard::A => (&RATES_A[..], STANDARDS[1]),
    };
    let rates = rates.iter().map(|kbit| Rate::from_bps(kbit * 1000));
    let rate = s.read("rate")?;
    match rate {
        None => Ok(rates.max().unwrap_or_default()),
        Some(rate) if rates.clone().any(|known| known == rate) => Ok(rate),
        Some(rate) => {
            let known: Vec<String> = rates.map(|rate| rate.to_string()).collect();
            Err(s.at("rate").error(format!(
                "`{}` is {rate}: {name} sends at {}",
                s.name("rate"),
                crate::error::list(known.iter().map(String::as_str))
            )))
        }
    }
}

/// The numbers of an array, or nothing where it has others than `N` of them.
fn numbers<const N: usize>(item: &Item, name: &str) -> Option<[f64; N]> {
    let Value::Array(items) = &item.value else {
        return None;
    };
    let numbers: Option<Vec<f64>> = items.iter().map(|i| read_item(i, name).ok()).collect();
    let numbers: [f64; N] = numbers?.try_into().ok()?;
    let good = |n: &f64| n.abs() <= 1e6;
    numbers.iter().all(good).then_some(numbers)
}

fn places(s: &Section<'_>, stations: usize) -> Result<Option<Vec<[f64; 2]>>, ScenarioError> {
    let Some(entry) = s.get("places") else {
        return Ok(None);
    };
    let places = points(&entry.item, &s.name("places"))?;
    if places.len() == stations {
        return Ok(Some(places));
    }
    Err(entry.item.origin.error(format!(
        "`{}` has {} places for {stations} stations: write one for each, in their order",
        s.name("places"),
        places.len()
    )))
}

/// Points in the plane, in m.
pub(crate) fn points(item: &Item, name: &str) -> Result<Vec<[f64; 2]>, ScenarioError> {
    let Value::Array(items) = &item.value else {
        return Err(item.origin.error(format!(
            "`{name}` is {}: write points in m, like [[0, 0], [200, 0]]",
            shown(&item.value)
        )));
    };
    let point = |item: &Item| {
        numbers(item, name).ok_or_else(|| {
            item.origin.error(format!(
                "`{name}`: a point is two numbers in m, up to a million, like [200, 0]"
            ))
        })
    };
    items.iter().map(point).collect()
}

pub(crate) fn metres(s: &Section<'_>, key: &str, default: f64) -> Result<f64, ScenarioError> {
    let metres: f64 = s.read(key)?.unwrap_or(default);
    match metres {
        m if (1.0..=1e6).contains(&m) => Ok(m),
        m => Err(s.at(key).error(format!(
            "`{}` is {m}: write a distance in m, 1 to a million",
            s.name(key)
        ))),
    }
}

fn sense(s: &Section<'_>) -> Result<f64, ScenarioError> {
    let range = metres(s, "range", RANGE)?;
    let sense = metres(s, "sense", SENSE.max(range))?;
    if sense >= range {
        return Ok(sense);
    }
    Err(s.at("sense").error(format!(
        "`{}` is {sense} m, below the range of {range} m: what is understood is heard",
        s.name("sense")
    )))
}

fn off(
    s: &Section<'_>,
    cx: &Context<'_>,
    stations: &[usize],
) -> Result<Vec<(usize, Duration)>, ScenarioError> {
    let Some(entry) = s.get("off") else {
        return Ok(Vec::new());
    };
    let name = s.name("off");
    let t = table(&entry.item, &name, "{ laptop = \"30s\" }")?;
    let one = |e: &Entry| {
        let station = station(&e.key, &name, &e.item, cx, stations)?;
        Ok((station, read_item(&e.item, &name)?))
    };
    t.entries.iter().map(one).collect()
}

fn power(s: &Section<'_>) -> Result<Power, ScenarioError> {
    let mut power = Power::default();
    let Some(entry) = s.get("power") else {
        return Ok(power);
    };
    let name = s.name("power");
    let example = "{ send = 1.3, receive = 0.9, idle = 0.74 }";
    let t = table(&entry.item, &name, example)?;
    let p = Section::new(name, &entry.item.origin, t, &POWER_KEYS)?;
    for (key, watts) in [
        ("send", &mut power.send),
        ("receive", &mut power.receive),
        ("idle", &mut power.idle),
    ] {
        *watts = p.read(key)?.unwrap_or(*watts);
        if !(0.0..=1000.0).contains(watts) {
            return Err(p.at(key).error(format!(
                "`{}` is {watts}: write a power in W, 0 to 1000",
                p.name(key)
            )));
        }
    }
    Ok(power)
}
