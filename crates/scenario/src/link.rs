// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[link.NAME]`.

use makeway_core::framing::{Cells, Framing};
use makeway_core::loss::Loss;
use makeway_core::units::{Duration, Rate};

use crate::changes::changes;
use crate::context::Context;
use crate::document::{Entry, Item, Value};
use crate::error::ScenarioError;
use crate::media::tick;
use crate::model::{Egress, Link};
use crate::queue::{default_queue, queue};
use crate::section::{Section, read as read_item, shown, string, table};
use crate::ticket::issue;

const KEYS: [&str; 10] = [
    "between", "rate", "changes", "tick", "framing", "delay", "jitter", "loss", "queue", "tickets",
];
const LOSS_KEYS: [&str; 4] = ["p", "r", "bad", "good"];
const FRAMINGS: &str = "\"ethernet\", \"ip\" or { overhead = 44, mpu = 84, cells = \"atm\" }";
const FRAMING_KEYS: [&str; 3] = ["overhead", "mpu", "cells"];

pub(crate) fn read(entry: &Entry, cx: &Context<'_>) -> Result<Link, ScenarioError> {
    let path = format!("link.{}", entry.key);
    let t = table(&entry.item, &path, &format!("[{path}]"))?;
    let s = Section::new(path, &entry.origin, t, &KEYS)?;
    let ends = ends(&s, cx)?;
    let rate = rates(&s)?;
    let framing = framing(&s)?;
    let delay = s.pair::<Duration>("delay")?.unwrap_or_default();
    let jitter = s.pair::<Duration>("jitter")?.unwrap_or_default();
    let loss = losses(&s)?;
    let queues = at_ends(&s, "queue", ends, cx, queue)?;
    let changes = at_ends(&s, "changes", ends, cx, changes)?;
    let tickets = at_ends(&s, "tickets", ends, cx, issue)?;
    let tick = tick(&s)?;
    if tick.is_some() && rate[0].is_none() {
        return Err(s.at("tick").error(format!(
            "`{}` is when a limited link sends: write a rate too, like `rate = \"1mbit\"`",
            s.name("tick")
        )));
    }
    let egress = [0, 1].map(|i| Egress {
        rate: rate[i],
        changes: changes[i].clone().unwrap_or_default(),
        tick,
        framing,
        queue: queues[i].clone().unwrap_or_else(default_queue),
        tickets: tickets[i].clone(),
        delay: delay[i],
        jitter: jitter[i],
        loss: loss[i],
        measure: queues[i].is_some(),
    });
    for (i, e) in egress.iter().enumerate() {
        if e.measure && e.rate.is_none() {
            let node = &cx.nodes[ends[i]].name;
            return Err(s.origin.error(format!(
                "`{}` has a queue at `{node}` and no rate, so nothing would ever wait there: write `rate = \"10mbit\"`",
                s.path
            )));
        }
        if !e.changes.steps.is_empty() && e.rate.is_none() {
            return Err(s.at("changes").error(format!(
                "`{}` changes a rate that is not there: write the first one, like `rate = \"10mbit\"`",
                s.name("changes")
            )));
        }
    }
    Ok(Link {
        name: entry.key.clone(),
        ends,
        egress,
    })
}

/// Value of `key` for both ends: one table, or an array of two, each read by `read`.
fn at_ends<T>(
    s: &Section<'_>,
    key: &str,
    ends: [usize; 2],
    cx: &Context<'_>,
    read: impl Fn(&Section<'_>, &Item, [usize; 2], &Context<'_>) -> Result<(usize, T), ScenarioError>,
) -> Result<[Option<T>; 2], ScenarioError> {
    let mut both = [None, None];
    let Some(entry) = s.get(key) else {
        return Ok(both);
    };
    for item in entry.item.one_or_more() {
        let (end, one) = read(s, item, ends, cx)?;
        if both[end].replace(one).is_some() {
            return Err(item.origin.error(format!(
                "`{}` is there twice for `{}`: keep one for each end",
                s.name(key),
                cx.nodes[ends[end]].name
            )));
        }
    }
    Ok(both)
}

fn ends(s: &Section<'_>, cx: &Context<'_>) -> Result<[usize; 2], ScenarioError> {
    let between = s.need("between", "[\"router\", \"client\"]")?;
    let name = s.name("between");
    let Value::Array(items) = &between.item.value else {
        return Err(between.item.origin.error(format!(
            "`{name}` is {}: write the two nodes, like [\"router\", \"client\"]",
            shown(&between.item.value)
        )));
    };
    let [a, b] = &items[..] else {
        return Err(between.item.origin.error(format!(
            "`{name}` has {} nodes: a link has two ends",
            items.len()
        )));
    };
    let node = |item: &Item| cx.node(string(item, &name)?, &name, &item.origin);
    let ends = [node(a)?, node(b)?];
    if ends[0] == ends[1] {
        return Err(between.item.origin.error(format!(
            "`{name}` names `{}` twice: a link joins two nodes",
            cx.nodes[ends[0]].name
        )));
    }
    Ok(ends)
}

fn rates(s: &Section<'_>) -> Result<[Option<Rate>; 2], ScenarioError> {
    let Some(rates) = s.pair::<Rate>("rate")? else {
        return Ok([None; 2]);
    };
    if rates.iter().any(|r| r.bps() < 1000) {
        return Err(s.at("rate").error(format!(
            "`{}` is below 1kbit, which carries nothing: write a rate like \"10mbit\", or leave it out for no limit",
            s.name("rate")
        )));
    }
    Ok(rates.map(Some))
}

/// One for both directions or an array of two; each a probability, or a table of the bursts' model.
fn losses(s: &Section<'_>) -> Result<[Loss; 2], ScenarioError> {
    let Some(entry) = s.get("loss") else {
        return Ok([Loss::default(); 2]);
    };
    let name = s.name("loss");
    match entry.item.one_or_more() {
        [both] => Ok([loss(both, &name)?; 2]),
        [a, b] => Ok([loss(a, &name)?, loss(b, &name)?]),
        more => Err(entry.item.origin.error(format!(
            "`{name}` has {} values: write one for both directions, or two",
            more.len()
        ))),
    }
}

fn loss(item: &Item, name: &str) -> Result<Loss, ScenarioError> {
    if let Value::Table(t) = &item.value {
        let s = Section::new(name, &item.origin, t, &LOSS_KEYS)?;
        s.need("p", "0.01")?;
        s.need("r", "0.3")?;
        let probability = |key| Ok(s.probability(key)?.unwrap_or_default());
        return Ok(Loss {
            p: probability("p")?,
            r: probability("r")?,
            bad: s.probability("bad")?.unwrap_or(1.0),
            good: probability("good")?,
        });
    }
    let p: f64 = read_item(item, name)?;
    if (0.0..=1.0).contains(&p) {
        return Ok(Loss::bernoulli(p));
    }
    Err(item.origin.error(format!(
        "`{name}` is a probability: write a number from 0 to 1, like 0.01 for 1 %"
    )))
}

fn framing(s: &Section<'_>) -> Result<Framing, ScenarioError> {
    let Some(entry) = s.get("framing") else {
        return Ok(Framing::ETHERNET);
    };
    let name = s.name("framing");
    if let Value::String(_) = entry.item.value {
        return match s.string("framing")? {
            Some(("ethernet", _)) => Ok(Framing::ETHERNET),
            Some(("ip", _)) => Ok(Framing::default()),
            _ => Err(entry.item.origin.error(format!(
                "`{name}` is {}: write {FRAMINGS}",
                shown(&entry.item.value)
            ))),
        };
    }
    let t = table(&entry.item, &name, FRAMINGS)?;
    let f = Section::new(name, &entry.item.origin, t, &FRAMING_KEYS)?;
    let overhead: i32 = f.read("overhead")?.unwrap_or(0);
    if !(-64..=256).contains(&overhead) {
        return Err(f.at("overhead").error(format!(
            "`{}` is {overhead}: write the bytes added to an IP packet, -64 to 256",
            f.name("overhead")
        )));
    }
    let mpu = f.integer("mpu", 0..=256)?.unwrap_or(0);
    let cells = match f.choice("cells", &["none", "atm", "ptm"])?.as_deref() {
        Some("atm") => Cells::Atm,
        Some("ptm") => Cells::Ptm,
        _ => Cells::None,
    };
    Ok(Framing {
        overhead,
        mpu: mpu as u32,
        cells,
    })
}
