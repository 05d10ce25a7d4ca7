//! `rate` of media: who decides how fast a sender sends.

use makeway_core::rate::Config;
use makeway_core::rate::tfrc::{Revision, SegmentSize, TfrcParams};
use makeway_core::units::{Duration, Rate};

use crate::document::Value;
use crate::error::ScenarioError;
use crate::section::{Section, table};

/// Names of controllers.
const KINDS: [&str; 1] = ["tfrc"];
const EXAMPLE: &str = "\"tfrc\"";

/// What `rate` says: the name of a controller, a table with its parameters, or a rate that stays. Packets carry `largest`
/// bytes at most.
pub(crate) fn read(s: &Section<'_>, largest: u32) -> Result<Config, ScenarioError> {
    let entry = s.need("rate", EXAMPLE)?;
    let tfrc = TfrcParams {
        largest,
        ..TfrcParams::default()
    };
    match &entry.item.value {
        Value::String(name) if KINDS.contains(&name.as_str()) => Ok(Config::Tfrc(tfrc)),
        Value::Table(_) => {
            let name = s.name("rate");
            let t = table(&entry.item, &name, "{ kind = \"tfrc\", rfc = 3448 }")?;
            let known = [
                "kind",
                "rfc",
                "segment",
                "damping",
                "discounting",
                "granularity",
            ];
            let s = Section::new(name, &entry.item.origin, t, &known)?;
            s.need("kind", EXAMPLE)?;
            s.choice("kind", &KINDS)?;
            read_tfrc(&s, tfrc).map(Config::Tfrc)
        }
        _ => fixed(s),
    }
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

fn read_tfrc(s: &Section<'_>, mut params: TfrcParams) -> Result<TfrcParams, ScenarioError> {
    params.revision = match s.choice("rfc", &["3448", "5348"])?.as_deref() {
        Some("3448") => Revision::Rfc3448,
        _ => Revision::Rfc5348,
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
    let granularity: Option<Duration> = s.read("granularity")?;
    params.granularity = granularity.unwrap_or(params.granularity);
    Ok(params)
}
