// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[wlan.NAME]`: stations that share a radio channel.

use makeway_core::units::{Duration, Rate};

use crate::context::Context;
use crate::document::{Entry, Item, Value};
use crate::error::ScenarioError;
use crate::field::{Field, PROBABILITY, Values};
use crate::model::{Power, Standard, Wlan};
use crate::queue::{alone, default_queue};
use crate::section::{Section, read as read_item, shown, string};

#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    Field::needed("stations", Values::Other("an array of 2 to 128 nodes"), "[\"ap\", \"laptop\"]", "nodes with a radio on the channel"),
    Field::optional("access_point", Values::Other("a station"), "none: ad hoc", "the station that all others talk through"),
    Field::new("standard", Values::OneOf(&STANDARDS), "802.11b", "`802.11b` (1, 2, 5.5, 11 Mbit/s) or `802.11a` (6, 9, 12, 18, 24, 36, 48, 54 Mbit/s)"),
    Field::optional("rate", Values::Other("one of those"), "the highest", "rate of data"),
    Field::optional("preamble", Values::OneOf(&["long", "short"]), "`long`", "of 802.11b: 192 us or 96 us"),
    Field::optional("rts", Values::Size(0, 1 << 30), "no frame does", "frames longer than this, with 36 B of headers, ask by RTS first"),
    Field::new("loss", PROBABILITY, "0", "probability that a data frame is not received, for each try; an unacknowledged frame is sent again"),
    // IEEE 802.11-2020 annex C, dot11ShortRetryLimit.
    Field::new("retry_limit", Values::Whole(1, 255), "7", "tries of a frame before it is dropped; of those that need no RTS"),
    Field::optional("queue", Values::Other("a table, as of a link but without `at`"), "FIFO, 1000 packets", "the queue of each station; written out it is measured"),
    Field::optional("places", Values::Other("an array of points in m: `[[0, 0], [200, 0]]`"), "all understand each other", "where stations are, in their order"),
    // ns-2's distances.
    Field::new("range", METRES, "250", "distance in m at which a frame is understood (two-ray ground, as in ns-2)"),
    Field::optional("sense", METRES, "550, or `range`", "distance in m at which it keeps others silent"),
    Field::optional("off", Values::Other("a table of times: `{ laptop = \"30s\" }`"), "never", "when stations are switched off for good"),
    Field::optional("power", Values::Table(POWER), "as below", "power of a radio in W"),
];
#[rustfmt::skip]
const POWER: &[Field] = &[
    Field::new("send", WATTS, "1.3", "while it sends"),
    Field::new("receive", WATTS, "0.9", "while it receives"),
    Field::new("idle", WATTS, "0.74", "while it listens"),
];
const WATTS: Values = Values::Number(0.0, 1000.0);
/// A distance.
pub(crate) const METRES: Values = Values::Number(1.0, 1e6);
const STANDARDS: [&str; 2] = ["802.11b", "802.11a"];
/// ns-2's, in m.
const SENSE: f64 = 550.0;
/// Rates of data in kbit/s: IEEE 802.11-2020 clauses 15 to 17.
const RATES_B: [u64; 4] = [1000, 2000, 5500, 11_000];
const RATES_A: [u64; 8] = [6000, 9000, 12_000, 18_000, 24_000, 36_000, 48_000, 54_000];
pub(crate) fn read(entry: &Entry, cx: &Context<'_>) -> Result<Wlan, ScenarioError> {
    let s = Section::named("wlan", entry, &[FIELDS])?;
    let stations = stations(&s, cx)?;
    let standard = standard(&s)?;
    let access_point = access_point(&s, cx, &stations)?;
    let queue = s.given("queue")?.map(|item| alone(&s, item, cx));
    let queue = queue.transpose()?;
    Ok(Wlan {
        name: entry.key.clone(),
        rate: rate(&s, standard)?,
        standard,
        rts: s.read("rts")?,
        loss: s.value("loss")?,
        retry_limit: s.value("retry_limit")?,
        places: places(&s, stations.len())?,
        range: s.value("range")?,
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
    let name = s.name("stations");
    let mut stations = Vec::new();
    for item in s.given("stations")?.map_or(&[][..], Item::one_or_more) {
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
    Err(s.at("stations").error(format!(
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
    let Some(item) = s.given("access_point")? else {
        return Ok(None);
    };
    let name = s.name("access_point");
    station(string(item, &name)?, &name, item, cx, stations).map(Some)
}

fn standard(s: &Section<'_>) -> Result<Standard, ScenarioError> {
    match (s.choice("standard")?, s.choice("preamble")?) {
        ("802.11a", "") => Ok(Standard::A),
        ("802.11a", _) => Err(s.at("preamble").error(format!(
            "`{}` is of 802.11b only: leave it out",
            s.name("preamble")
        ))),
        (_, preamble) => Ok(Standard::B {
            short_preamble: preamble == "short",
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
    let Some(item) = s.given("places")? else {
        return Ok(None);
    };
    let places = points(item, &s.name("places"))?;
    if places.len() == stations {
        return Ok(Some(places));
    }
    Err(item.origin.error(format!(
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

fn sense(s: &Section<'_>) -> Result<f64, ScenarioError> {
    let range: f64 = s.value("range")?;
    let sense = s.read("sense")?.unwrap_or(SENSE.max(range));
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
    let name = s.name("off");
    let Some(item) = s.given("off")? else {
        return Ok(Vec::new());
    };
    let Value::Table(t) = &item.value else {
        let given = shown(&item.value);
        return Err(item.origin.error(format!(
            "`{name}` is {given}, not a table: write {{ laptop = \"30s\" }}"
        )));
    };
    let one = |e: &Entry| {
        let station = station(&e.key, &name, &e.item, cx, stations)?;
        Ok((station, read_item(&e.item, &name)?))
    };
    t.entries.iter().map(one).collect()
}

fn power(s: &Section<'_>) -> Result<Power, ScenarioError> {
    let Some(p) = s.inner("power")? else {
        return Ok(Power::default());
    };
    Ok(Power {
        send: p.value("send")?,
        receive: p.value("receive")?,
        idle: p.value("idle")?,
    })
}
