// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rate` of media: who decides how fast a sender sends.

use makeway_core::rate::Config;
use makeway_core::rate::abrc::{AbrcParams, Alone, Leaving, Unit};
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::{Revision, SegmentSize, TfrcParams};
use makeway_core::units::{Duration, Fraction, Rate};

use crate::document::{Table, Value};
use crate::error::ScenarioError;
use crate::section::Section;

/// Names of controllers.
const KINDS: [&str; 3] = ["tfrc", "ccid2", "abrc"];
const EXAMPLE: &str = "\"tfrc\"";
const TFRC_KEYS: [&str; 9] = [
    "kind",
    "preset",
    "rfc",
    "segment",
    "damping",
    "discounting",
    "credit",
    "faster_restart",
    "granularity",
];
const ABRC_KEYS: [&str; 10] = [
    "kind", "k", "interval", "retarget", "floor", "first", "t_udp", "acks", "leaving", "unit",
];

/// Value of `rate`: the name of a controller, a table with its parameters, or a constant rate. Packets carry `largest`
/// bytes at most.
pub(crate) fn read(s: &Section<'_>, largest: u32) -> Result<Config, ScenarioError> {
    let entry = s.need("rate", EXAMPLE)?;
    let none = Table::default();
    let (kind, table) = match &entry.item.value {
        Value::String(name) if KINDS.contains(&name.as_str()) => (name.as_str(), &none),
        Value::Table(table) => match table.get("kind").map(|kind| &kind.item.value) {
            Some(Value::String(name)) => (name.as_str(), table),
            _ => (KINDS[0], table),
        },
        _ => return fixed(s),
    };
    let keys = match kind {
        "abrc" => &ABRC_KEYS[..],
        "ccid2" => &ABRC_KEYS[..1],
        _ => &TFRC_KEYS,
    };
    let of = Section::new(s.name("rate"), &entry.item.origin, table, keys)?;
    if let Value::Table(_) = entry.item.value {
        of.need("kind", EXAMPLE)?;
        of.choice("kind", &KINDS)?;
    }
    Ok(match kind {
        "abrc" => Config::Abrc(read_abrc(&of, largest)?),
        "ccid2" => Config::Ccid2(Ccid2Params {
            largest,
            ..Ccid2Params::default()
        }),
        _ => Config::Tfrc(read_tfrc(&of, largest)?),
    })
}

fn fixed(s: &Section<'_>) -> Result<Config, ScenarioError> {
    let rate: Option<Rate> = s.read("rate").ok().flatten();
    let rate = rate.filter(|rate| rate.bps() >= 1000);
    rate.map(Config::Fixed).ok_or_else(|| {
        s.at("rate").error(format!(
            "`{}` is not known: write a controller, {}, or a rate of 1kbit or more that stays",
            s.name("rate"),
            KINDS.join(", ")
        ))
    })
}

fn read_tfrc(s: &Section<'_>, largest: u32) -> Result<TfrcParams, ScenarioError> {
    let mut params = match s.choice("preset", &["linux"])? {
        Some(_) => TfrcParams {
            largest,
            ..TfrcParams::linux()
        },
        None => TfrcParams {
            largest,
            ..TfrcParams::default()
        },
    };
    params.revision = match s.choice("rfc", &["3448", "4342", "5348"])?.as_deref() {
        Some("3448") => Revision::Rfc3448,
        Some("4342") => Revision::Rfc4342,
        Some(_) => Revision::Rfc5348,
        None => params.revision,
    };
    params.segment = match s.get("segment").map(|entry| &entry.item.value) {
        None => params.segment,
        Some(Value::String(name)) if name == "largest" => SegmentSize::Largest,
        Some(Value::String(_)) => {
            return Err(s.at("segment").error(format!(
                "`{}` is the largest packet, \"largest\", or the mean of so many: write a number like 10",
                s.name("segment")
            )));
        }
        Some(_) => SegmentSize::Mean(s.integer("segment", 1..=100_000)?.unwrap_or(1) as u32),
    };
    params.damping = s.boolean("damping")?.unwrap_or(params.damping);
    params.discounting = s.boolean("discounting")?.unwrap_or(params.discounting);
    params.credit = s.boolean("credit")?.unwrap_or(params.credit);
    let faster = s.boolean("faster_restart")?;
    params.faster_restart = faster.unwrap_or(params.faster_restart);
    let granularity: Option<Duration> = s.read("granularity")?;
    params.granularity = granularity.unwrap_or(params.granularity);
    Ok(params)
}

fn read_abrc(s: &Section<'_>, largest: u32) -> Result<AbrcParams, ScenarioError> {
    let default = AbrcParams::default();
    let k: f64 = s.read("k")?.unwrap_or(1.0);
    if !(0.01..=100.0).contains(&k) {
        return Err(s.at("k").error(format!(
            "`{}` is {k}: write this stream's rate by that of all others, 0.01 to 100",
            s.name("k")
        )));
    }
    let interval = s.read("interval")?.unwrap_or(default.interval);
    if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&interval) {
        return Err(s.at("interval").error(format!(
            "`{}` is {interval}: write a time from 10ms to 60s",
            s.name("interval")
        )));
    }
    let first: Rate = s.read("first")?.unwrap_or(default.first);
    if first.bps() < 1000 {
        return Err(s.at("first").error(format!(
            "`{}` is below 1kbit: write a rate to begin with, like \"1mbit\"",
            s.name("first")
        )));
    }
    let acks = s.probability("acks")?;
    let number = |key, default: u32| -> Result<u32, ScenarioError> {
        Ok(s.integer(key, 1..=1000)?.unwrap_or(default.into()) as u32)
    };
    Ok(AbrcParams {
        share: (k * 100.0).round() as u32,
        interval,
        retarget: number("retarget", default.retarget)?,
        floor: number("floor", default.floor)?,
        first,
        alone: match s.choice("t_udp", &["pairs", "shortest"])?.as_deref() {
            Some("shortest") => Alone::Shortest,
            _ => Alone::Pairs,
        },
        acks: acks.map_or(default.acks, |acks| {
            Fraction::ratio((acks * 1000.0).round() as u64, 1000)
        }),
        leaving: match s.choice("leaving", &["numbered", "received"])?.as_deref() {
            Some("received") => Leaving::Received,
            _ => Leaving::Numbered,
        },
        unit: match s.choice("unit", &["packets", "bytes"])?.as_deref() {
            Some("bytes") => Unit::Bytes,
            _ => Unit::Packets,
        },
        largest,
        ..default
    })
}
