//! `rate` of media: who decides how fast a sender sends.

use makeway_core::rate::Config;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::{Revision, SegmentSize, TfrcParams};
use makeway_core::units::{Duration, Rate};

use crate::document::Value;
use crate::error::ScenarioError;
use crate::section::{Section, table};

/// Names of controllers.
const KINDS: [&str; 2] = ["tfrc", "ccid2"];
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
        Value::String(name) if name == "ccid2" => Ok(Config::Ccid2(Ccid2Params {
            largest,
            ..Ccid2Params::default()
        })),
        Value::String(name) if name == "tfrc" => Ok(Config::Tfrc(tfrc)),
        Value::Table(_) => {
            let name = s.name("rate");
            let t = table(&entry.item, &name, "{ kind = \"tfrc\", rfc = 3448 }")?;
            let s = Section::new(name, &entry.item.origin, t, &TFRC_KEYS)?;
            s.need("kind", EXAMPLE)?;
            s.choice("kind", &["tfrc"])?;
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

fn read_tfrc(s: &Section<'_>, plain: TfrcParams) -> Result<TfrcParams, ScenarioError> {
    let mut params = match s.choice("preset", &["linux"])? {
        Some(_) => TfrcParams {
            largest: plain.largest,
            ..TfrcParams::linux()
        },
        None => plain,
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
