// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[link.NAME]`.

use makeway_core::framing::{Cells, Framing};
use makeway_core::loss::Loss;
use makeway_core::units::{Duration, Rate};

use crate::changes;
use crate::context::Context;
use crate::document::{Entry, Item, Value};
use crate::error::ScenarioError;
use crate::field::{Field, PROBABILITY, RATE, TICK, TIME, Values};
use crate::model::{Egress, Link};
use crate::queue::{self, default_queue};
use crate::section::{Section, read as read_item, shown, string};
use crate::ticket;

const FRAMINGS: &str = "\"ethernet\", \"ip\" or { overhead = 44, mpu = 84, cells = \"atm\" }";

#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    Field::needed("between", Values::Other("an array of two nodes"), "[\"router\", \"client\"]", "nodes that the link joins"),
    Field::optional("rate", RATE, "no limit", "link rate, one for both directions; `[\"10mbit\", \"1mbit\"]`: egress rate of the first node, then of the second"),
    Field::optional("framing", Values::Other(FRAMINGS), "`\"ethernet\"`: 38 B more, 84 B at least", "bytes of a packet on the wire; for DSL see [which overhead](up.md)"),
    Field::optional("tick", TICK, "at any time", "with a `rate`: queued packets leave at multiples of this only, several at once if need be: a token bucket that a coarse timer wakes, as Linux's with HZ 250 (`\"4ms\"`). World `sim`"),
    Field::new("delay", TIME, "0s", "one-way delay, one for both directions or two as of `rate`: an RTT of 50 ms is `\"25ms\"`"),
    Field::new("jitter", TIME, "0s", "standard deviation of a Gaussian extra delay, which keeps the order; one for both directions, or two"),
    Field::optional("loss", Values::Other("a number from 0 to 1, or a table of bursts (below)"), "0", "loss probability of each packet; one for both directions, or two"),
    Field::optional("changes", Values::Table(changes::FIELDS), "constant", "changes of the rate at one end, or an array of two for both"),
    Field::optional("queue", Values::Table(queue::FIELDS), "FIFO, 1000 packets", "queue at one end, of the direction that leaves there, or an array of two for both"),
    Field::optional("tickets", Values::Table(ticket::ISSUE), "tags stay as they are", "tickets that the next hop issues to one end, or an array of two for both; tags are traded for its currency"),
];
/// `loss` as a table.
#[rustfmt::skip]
pub(crate) const LOSS: &[Field] = &[
    Field::needed("p", PROBABILITY, "0.01", "probability that the link turns bad, for each packet"),
    Field::needed("r", PROBABILITY, "0.3", "probability that it turns good again: a burst lasts 1 / `r` packets"),
    Field::new("bad", PROBABILITY, "1", "loss probability while it is bad"),
    Field::new("good", PROBABILITY, "0", "loss probability while it is good"),
];
/// `framing` as a table.
#[rustfmt::skip]
pub(crate) const FRAMING: &[Field] = &[
    Field::new("overhead", Values::Other("a whole number from -64 to 256"), "0", "bytes added to an IP packet"),
    Field::new("mpu", Values::Whole(0, 256), "0", "least bytes of a packet"),
    Field::new("cells", Values::OneOf(&["none", "atm", "ptm"]), "none", "cells that carry it"),
];
pub(crate) fn read(entry: &Entry, cx: &Context<'_>) -> Result<Link, ScenarioError> {
    let s = Section::named("link", entry, &[FIELDS])?;
    let ends = ends(&s, cx)?;
    let rate = s
        .pair::<Rate>("rate")?
        .map_or([None; 2], |rates| rates.map(Some));
    let framing = framing(&s)?;
    let delay = s.pair::<Duration>("delay")?.unwrap_or_default();
    let jitter = s.pair::<Duration>("jitter")?.unwrap_or_default();
    let loss = losses(&s)?;
    let queues = at_ends(&s, "queue", ends, cx, queue::read)?;
    let changes = at_ends(&s, "changes", ends, cx, changes::read_at)?;
    let tickets = at_ends(&s, "tickets", ends, cx, ticket::issue)?;
    let tick: Option<Duration> = s.read("tick")?;
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
        if e.changes.opportunities.is_some() && tick.is_some() {
            return Err(s.at("tick").error(format!(
                "`{}`: the link sends at the times of its trace: leave `tick` or `changes.exact` out",
                s.name("tick")
            )));
        }
    }
    Ok(Link {
        name: entry.key.clone(),
        ends,
        egress,
    })
}

/// Tables of `key` for both ends: one table, or an array of two, each read by `read`.
fn at_ends<'a, T>(
    s: &Section<'a>,
    key: &str,
    ends: [usize; 2],
    cx: &Context<'_>,
    read: impl Fn(&Section<'a>, &Context<'_>) -> Result<T, ScenarioError>,
) -> Result<[Option<T>; 2], ScenarioError> {
    let mut both = [None, None];
    let items = s.given(key)?.map_or(&[][..], Item::one_or_more);
    let names = ends.map(|i| cx.nodes[i].name.as_str());
    for item in items {
        let section = match key {
            "queue" => queue::section(s, item, queue::FIELDS)?,
            _ => s.section(key, item)?,
        };
        let end = section.end(names)?;
        if both[end].replace(read(&section, cx)?).is_some() {
            return Err(item.origin.error(format!(
                "`{}` is there twice for `{}`: keep one for each end",
                s.name(key),
                names[end]
            )));
        }
    }
    Ok(both)
}

fn ends(s: &Section<'_>, cx: &Context<'_>) -> Result<[usize; 2], ScenarioError> {
    let name = s.name("between");
    let items = s.given("between")?.map_or(&[][..], Item::one_or_more);
    let [a, b] = items else {
        return Err(s.at("between").error(format!(
            "`{name}` should be two nodes, like [\"router\", \"client\"]"
        )));
    };
    let node = |item: &Item| cx.node(string(item, &name)?, &name, &item.origin);
    let ends = [node(a)?, node(b)?];
    if ends[0] == ends[1] {
        return Err(s.at("between").error(format!(
            "`{name}` names `{}` twice: a link joins two nodes",
            cx.nodes[ends[0]].name
        )));
    }
    Ok(ends)
}

/// One value for both directions, or two.
fn losses(s: &Section<'_>) -> Result<[Loss; 2], ScenarioError> {
    let name = s.name("loss");
    match s.given("loss")?.map_or(&[][..], Item::one_or_more) {
        [] => Ok([Loss::default(); 2]),
        [both] => Ok([loss(both, &name)?; 2]),
        [a, b] => Ok([loss(a, &name)?, loss(b, &name)?]),
        more => Err(s.at("loss").error(format!(
            "`{name}` has {} values: write one for both directions, or two",
            more.len()
        ))),
    }
}

/// A probability, or a table of the bursts' model.
fn loss(item: &Item, name: &str) -> Result<Loss, ScenarioError> {
    if let Value::Table(_) = item.value {
        let s = Section::new(name, item, &[LOSS])?;
        return Ok(Loss {
            p: s.value("p")?,
            r: s.value("r")?,
            bad: s.value("bad")?,
            good: s.value("good")?,
        });
    }
    match read_item(item, name)? {
        p if (0.0..=1.0).contains(&p) => Ok(Loss::bernoulli(p)),
        p => Err(item.origin.error(format!(
            "`{name}` is {p}: write a number from 0 to 1, like 0.01 for 1 %"
        ))),
    }
}

fn framing(s: &Section<'_>) -> Result<Framing, ScenarioError> {
    let Some(item) = s.given("framing")? else {
        return Ok(Framing::ETHERNET);
    };
    let name = s.name("framing");
    match &item.value {
        Value::Table(_) => {}
        Value::String(text) if text == "ethernet" => return Ok(Framing::ETHERNET),
        Value::String(text) if text == "ip" => return Ok(Framing::default()),
        other => {
            let given = shown(other);
            return Err(item
                .origin
                .error(format!("`{name}` is {given}: write {FRAMINGS}")));
        }
    }
    let f = Section::new(name, item, &[FRAMING])?;
    let overhead: i32 = f.value("overhead")?;
    if !(-64..=256).contains(&overhead) {
        return Err(f.at("overhead").error(format!(
            "`{}` is {overhead}: write the bytes added to an IP packet, -64 to 256",
            f.name("overhead")
        )));
    }
    Ok(Framing {
        overhead,
        mpu: f.value("mpu")?,
        cells: match f.choice("cells")? {
            "atm" => Cells::Atm,
            "ptm" => Cells::Ptm,
            _ => Cells::None,
        },
    })
}
