//! `[link.NAME]`.

use std::collections::BTreeMap;
use std::str::FromStr;

use makeway_core::flow::Identity;
use makeway_core::framing::{Cells, Framing};
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Duration, Rate};

use crate::document::{Entry, Item, Value};
use crate::error::{ScenarioError, list};
use crate::model::{Egress, Link, Queue};
use crate::read::Context;
use crate::section::{Section, shown, string, table};

const KEYS: [&str; 7] = [
    "between", "rate", "framing", "delay", "jitter", "loss", "queue",
];
const QUEUE_KEYS: [&str; 6] = ["at", "discipline", "limit", "flows", "users", "weights"];
const FRAMING_KEYS: [&str; 3] = ["overhead", "mpu", "cells"];

/// As Linux's default transmit queue; chosen by us where a link names none.
const DEFAULT_PACKETS: u32 = 1000;
/// Chosen by us: slots are allocated when the scheduler is made.
const MOST_PACKETS: u32 = 1_000_000;
/// The largest IP packet in ATM cells, rounded up.
const LARGEST_PACKET: u64 = 73_000;
/// An Ethernet frame at its smallest, to bound the packets that a limit in bytes holds.
const SMALLEST_PACKET: u64 = 64;

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
    let queues = queues(&s, ends, cx)?;
    let egress = [0, 1].map(|i| Egress {
        rate: rate[i],
        framing,
        queue: queues[i].clone().unwrap_or_else(default_queue),
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
    }
    Ok(Link {
        name: entry.key.clone(),
        ends,
        egress,
    })
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
        let origin = s.get("rate").map_or(s.origin, |e| &e.item.origin);
        return Err(origin.error(format!(
            "`{}` is below 1kbit, which carries nothing: write a rate like \"10mbit\", or leave it out for no limit",
            s.name("rate")
        )));
    }
    Ok(rates.map(Some))
}

fn losses(s: &Section<'_>) -> Result<[f64; 2], ScenarioError> {
    let loss = s.pair::<f64>("loss")?.unwrap_or_default();
    if loss.iter().all(|p| (0.0..=1.0).contains(p)) {
        return Ok(loss);
    }
    let origin = s.get("loss").map_or(s.origin, |e| &e.item.origin);
    Err(origin.error(format!(
        "`{}` is a probability: write a number from 0 to 1, like 0.01 for 1 %",
        s.name("loss")
    )))
}

fn framing(s: &Section<'_>) -> Result<Framing, ScenarioError> {
    let Some(entry) = s.get("framing") else {
        return Ok(Framing::ETHERNET);
    };
    let name = s.name("framing");
    if let Value::String(_) = entry.item.value {
        let choice = s.choice("framing", &["ethernet", "ip"])?;
        return Ok(match choice.as_deref() {
            Some("ip") => Framing::default(),
            _ => Framing::ETHERNET,
        });
    }
    let example = "\"ethernet\", \"ip\" or { overhead = 44, mpu = 84, cells = \"atm\" }";
    let t = table(&entry.item, &name, example)?;
    let f = Section::new(name, &entry.item.origin, t, &FRAMING_KEYS)?;
    let overhead: i32 = f.read("overhead")?.unwrap_or(0);
    if !(-64..=256).contains(&overhead) {
        let origin = f.get("overhead").map_or(f.origin, |e| &e.item.origin);
        return Err(origin.error(format!(
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

fn default_queue() -> Queue {
    Queue {
        discipline: Discipline::Fifo.name().into(),
        packets: DEFAULT_PACKETS,
        bytes: Bytes::new(u64::from(DEFAULT_PACKETS) * LARGEST_PACKET),
        flows: Identity::FiveTuple.name().into(),
        users: Identity::DstHost.name().into(),
        weights: BTreeMap::new(),
    }
}

/// The queues of both ends; one table, or an array of two.
fn queues(
    s: &Section<'_>,
    ends: [usize; 2],
    cx: &Context<'_>,
) -> Result<[Option<Queue>; 2], ScenarioError> {
    let mut queues = [None, None];
    let Some(entry) = s.get("queue") else {
        return Ok(queues);
    };
    let items = match &entry.item.value {
        Value::Array(items) => &items[..],
        _ => std::slice::from_ref(&entry.item),
    };
    for item in items {
        let (end, queue) = queue(s, item, ends, cx)?;
        if queues[end].is_some() {
            return Err(item.origin.error(format!(
                "`{}` has two queues at `{}`: keep one for each end",
                s.path, cx.nodes[ends[end]].name
            )));
        }
        queues[end] = Some(queue);
    }
    Ok(queues)
}

fn queue(
    s: &Section<'_>,
    item: &Item,
    ends: [usize; 2],
    cx: &Context<'_>,
) -> Result<(usize, Queue), ScenarioError> {
    let name = s.name("queue");
    let names = ends.map(|i| cx.nodes[i].name.as_str());
    let example = format!(
        "{{ at = \"{}\", discipline = \"sqf\", limit = \"50 packets\" }}",
        names[0]
    );
    let t = table(item, &name, &example)?;
    let q = Section::new(name, &item.origin, t, &QUEUE_KEYS)?;
    q.need("at", &format!("\"{}\"", names[0]))?;
    let end = match q.choice("at", &names)? {
        Some(at) if at == names[1] => 1,
        _ => 0,
    };
    q.need("discipline", "\"sqf\"")?;
    let mut queue = default_queue();
    if let Some(discipline) = named::<Discipline>(&q, "discipline")? {
        queue.discipline = discipline;
    }
    if let Some(flows) = named::<Identity>(&q, "flows")? {
        queue.flows = flows;
    }
    let hosts = [Identity::SrcHost.name(), Identity::DstHost.name()];
    if let Some(users) = q.choice("users", &hosts)? {
        queue.users = users;
    }
    if let Some(entry) = q.get("limit") {
        (queue.packets, queue.bytes) = limit(&entry.item, &q.name("limit"))?;
    }
    if let Some(entry) = q.get("weights") {
        queue.weights = weights(&entry.item, &q.name("weights"), cx)?;
    }
    Ok((end, queue))
}

/// A name that `T` knows.
fn named<T>(q: &Section<'_>, key: &str) -> Result<Option<String>, ScenarioError>
where
    T: FromStr + ToString,
    T::Err: std::fmt::Display,
{
    Ok(q.read::<T>(key)?.map(|t| t.to_string()))
}

/// `"50 packets"`, `"75kB"`, or both in an array: whichever is reached first.
fn limit(item: &Item, name: &str) -> Result<(u32, Bytes), ScenarioError> {
    let (mut packets, mut bytes) = (None, None);
    let items = match &item.value {
        Value::Array(items) => &items[..],
        _ => std::slice::from_ref(item),
    };
    for part in items {
        let text = match &part.value {
            Value::String(s) => s.trim(),
            Value::Scalar(s) => s.as_str(),
            _ => "",
        };
        let wrong = || {
            part.origin.error(format!(
                "`{name}` is {}: write \"50 packets\" (1 to {MOST_PACKETS}), \"75kB\" (2kB to 1GB), or [\"50 packets\", \"75kB\"]",
                shown(&part.value)
            ))
        };
        let slot_taken = if let Some(n) = text
            .strip_suffix("packets")
            .or_else(|| text.strip_suffix("packet"))
        {
            let n = n.trim().parse::<u32>().map_err(|_| wrong())?;
            if !(1..=MOST_PACKETS).contains(&n) {
                return Err(wrong());
            }
            packets.replace(n).is_some()
        } else {
            let b: Bytes = text.parse().map_err(|_| wrong())?;
            if !(2_000..=1_000_000_000).contains(&b.get()) {
                return Err(wrong());
            }
            bytes.replace(b).is_some()
        };
        if slot_taken {
            return Err(wrong());
        }
    }
    match (packets, bytes) {
        (Some(p), Some(b)) => Ok((p, b)),
        (Some(p), None) => {
            let bytes = u64::from(p) * LARGEST_PACKET;
            Ok((p, Bytes::new(bytes).min(Limits::MOST_BYTES)))
        }
        (None, Some(b)) => {
            let most = b.get().div_ceil(SMALLEST_PACKET);
            Ok((most.min(u64::from(MOST_PACKETS)) as u32, b))
        }
        (None, None) => Err(item.origin.error(format!(
            "`{name}` is empty: write \"50 packets\" or \"75kB\""
        ))),
    }
}

fn weights(
    item: &Item,
    name: &str,
    cx: &Context<'_>,
) -> Result<BTreeMap<String, u32>, ScenarioError> {
    let example = format!(
        "{{ {} = 2 }}",
        list(cx.nodes.first().map(|n| n.name.as_str()))
    );
    let t = table(item, name, &example)?;
    let keys: Vec<&str> = t.entries.iter().map(|e| e.key.as_str()).collect();
    let s = Section::new(name, &item.origin, t, &keys)?;
    let mut weights = BTreeMap::new();
    for entry in &t.entries {
        cx.node(&entry.key, name, &entry.origin)?;
        let weight = s.integer(&entry.key, 1..=1000)?.unwrap_or(1);
        weights.insert(entry.key.clone(), weight as u32);
    }
    Ok(weights)
}
