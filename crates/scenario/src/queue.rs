// SPDX-License-Identifier: MIT OR Apache-2.0
//! `queue` of a link: what waits at an end, and how.

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::sched::{Discipline, Limits, Spec, SpecError};
use makeway_core::units::Bytes;

use crate::context::Context;
use crate::document::{Item, Value};
use crate::error::{ScenarioError, list};
use crate::model::Queue;
use crate::section::{Section, shown, table};

/// What every queue may have; `at` not where there is one end only. The parameters of disciplines come behind them.
const KEYS: [&str; 7] = [
    "at",
    "discipline",
    "limit",
    "flows",
    "users",
    "weights",
    "qdisc",
];

/// As Linux's default transmit queue; chosen by us where a link names none.
const DEFAULT_PACKETS: u32 = 1000;
/// Chosen by us: slots are allocated when the scheduler is made.
const MOST_PACKETS: u32 = 1_000_000;
/// The largest IP packet in ATM cells, rounded up.
const LARGEST_PACKET: u64 = 73_000;
/// An Ethernet frame at its smallest, to bound the packets that a limit in bytes holds.
const SMALLEST_PACKET: u64 = 64;

/// What waits where nothing is written.
pub(crate) fn default_queue() -> Queue {
    queue_of(Discipline::Fifo)
}

fn queue_of(discipline: Discipline) -> Queue {
    let limits = Limits {
        packets: DEFAULT_PACKETS,
        bytes: bytes_of(DEFAULT_PACKETS),
        flows: 1,
    };
    Queue {
        spec: discipline.spec(),
        limits,
        flows: Identity::FiveTuple,
        users: Identity::DstHost,
        weights: BTreeMap::new(),
        qdisc: None,
    }
}

/// Bytes that so many packets never exceed.
fn bytes_of(packets: u32) -> Bytes {
    Bytes::new(u64::from(packets) * LARGEST_PACKET).min(Limits::MOST_BYTES)
}

/// One end's.
pub(crate) fn queue(
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
    let keys = keys();
    let q = Section::new(
        name,
        &item.origin,
        t,
        &[&KEYS, &below(&keys, "")[..]].concat(),
    )?;
    let end = q.end("at", names)?;
    Ok((end, described(&q, cx)?))
}

/// A station's, which has one end only.
pub(crate) fn alone(
    s: &Section<'_>,
    item: &Item,
    cx: &Context<'_>,
) -> Result<Queue, ScenarioError> {
    let name = s.name("queue");
    let t = table(
        item,
        &name,
        "{ discipline = \"fifo\", limit = \"50 packets\" }",
    )?;
    let keys = keys();
    let known = [&KEYS[1..], &below(&keys, "")[..]].concat();
    let q = Section::new(name, &item.origin, t, &known)?;
    described(&q, cx)
}

/// All but where it is.
fn described(q: &Section<'_>, cx: &Context<'_>) -> Result<Queue, ScenarioError> {
    q.need("discipline", "\"sqf\"")?;
    let discipline = q.read("discipline")?.unwrap_or(Discipline::Fifo);
    let mut queue = queue_of(discipline);
    if let Some(flows) = q.read("flows")? {
        queue.flows = flows;
    }
    let hosts = [Identity::SrcHost, Identity::DstHost];
    if let Some(users) = q.choice("users", &hosts.map(Identity::name))? {
        queue.users = hosts[usize::from(users == hosts[1].name())];
    }
    if let Some(entry) = q.get("weights") {
        queue.weights = weights(&entry.item, &q.name("weights"), cx)?;
    }
    if let Some(entry) = q.get("limit") {
        let limits = &mut queue.limits;
        (limits.packets, limits.bytes) = limit(&entry.item, &q.name("limit"))?;
    }
    parameters(q, &mut queue.spec)?;
    queue.qdisc = qdisc(q)?;
    queue
        .spec
        .check()
        .map_err(|error| q.origin.error(format!("`{}`: {error}", q.path)))?;
    Ok(queue)
}

/// Kind and options, as behind `tc qdisc add dev DEV root`; what they mean is the kernel's to say.
fn qdisc(q: &Section<'_>) -> Result<Option<Vec<String>>, ScenarioError> {
    let Some((text, origin)) = q.string("qdisc")? else {
        return Ok(None);
    };
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.%:/+-".contains(c);
    let kind = |word: &String| word.starts_with(|c: char| c.is_ascii_lowercase());
    if !words.first().is_some_and(kind) || !text.chars().all(|c| plain(c) || c == ' ') {
        return Err(origin.error(format!(
            "`{}` is \"{text}\": write a kind of qdisc and its options as tc has them, like \"cake besteffort\" or \"sfq limit 100\"",
            q.name("qdisc")
        )));
    }
    // The link says it already.
    if let Some(word) = words
        .iter()
        .find(|word| ["bandwidth", "handle", "parent"].contains(&word.as_str()))
    {
        return Err(origin.error(format!(
            "`{}` has `{word}`: leave it out, the link's `rate` and place say it",
            q.name("qdisc")
        )));
    }
    Ok(Some(words))
}

/// What only some disciplines have. The others leave it aside, so that one file serves to compare them.
fn parameters(q: &Section<'_>, spec: &mut Spec) -> Result<(), ScenarioError> {
    let keys = keys();
    let own = q.table.entries.iter();
    for entry in own.filter(|entry| !KEYS.contains(&entry.key.as_str())) {
        parameter(q, &entry.key, &entry.item, &keys, spec)?;
    }
    Ok(())
}

/// The parameter `key`, or those of the table that is written there.
fn parameter(
    q: &Section<'_>,
    key: &str,
    item: &Item,
    keys: &[String],
    spec: &mut Spec,
) -> Result<(), ScenarioError> {
    let name = q.name(key);
    if !keys.iter().any(|known| known == key) {
        let example = format!("{{ {} = ... }}", below(keys, key)[0]);
        let t = table(item, &name, &example)?;
        let s = Section::new(name, &item.origin, t, &below(keys, key))?;
        for entry in &s.table.entries {
            parameter(q, &format!("{key}.{}", entry.key), &entry.item, keys, spec)?;
        }
        return Ok(());
    }
    let text = match &item.value {
        Value::String(text) | Value::Scalar(text) => text.clone(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Array(_) | Value::Table(_) => String::new(),
    };
    let mut set = spec.set(key, &text);
    if let Err(SpecError::Unknown { .. }) = set {
        // Wrong values are refused, whoever would have them.
        let others = Discipline::ALL.into_iter().map(Discipline::spec);
        set = others
            .map(|mut other| other.set(key, &text))
            .find(|set| !matches!(set, Err(SpecError::Unknown { .. })))
            .unwrap_or(Ok(()));
    }
    set.map_err(|error| match error {
        SpecError::Value { allowed, .. } => item.origin.error(format!(
            "`{name}` is {}: write {allowed}",
            shown(&item.value)
        )),
        error => item.origin.error(format!("`{name}`: {error}")),
    })
}

/// Parameters of all disciplines, each once: `quantum`, `red.min`.
fn keys() -> Vec<String> {
    let mut keys = Vec::new();
    for discipline in Discipline::ALL {
        discipline.spec().fields(&mut |key, _, _| {
            if !keys.iter().any(|known| known == key) {
                keys.push(key.to_owned());
            }
        });
    }
    keys
}

/// What may be written in the table `key`, or at the top for an empty one, each once.
fn below<'a>(keys: &'a [String], key: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    for known in keys {
        let rest = match key {
            "" => Some(known.as_str()),
            key => known
                .strip_prefix(key)
                .and_then(|rest| rest.strip_prefix('.')),
        };
        let part = rest.and_then(|rest| rest.split('.').next());
        parts.extend(part.filter(|part| !parts.contains(part)));
    }
    parts
}

/// `"50 packets"`, `"75kB"` or both; what is not said follows from the other.
pub(crate) fn limit(item: &Item, name: &str) -> Result<(u32, Bytes), ScenarioError> {
    let (mut packets, mut bytes) = (None, None);
    for part in item.one_or_more() {
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
        (Some(p), None) => Ok((p, bytes_of(p))),
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
