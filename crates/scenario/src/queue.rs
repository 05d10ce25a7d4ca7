// SPDX-License-Identifier: MIT OR Apache-2.0
//! `queue` of a link: discipline and limits at an end.

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::param::Refusal;
use makeway_core::sched::{Discipline, Limits, Spec, SpecError};
use makeway_core::units::Bytes;

use crate::context::Context;
use crate::document::{Item, Value};
use crate::error::ScenarioError;
use crate::field::{AT, Field, Values};
use crate::model::Queue;
use crate::section::{Section, shown, text};

/// Keys of every queue; those of a station have no `at`. The parameters of disciplines come behind them.
#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    AT,
    Field::needed("discipline", Values::Other("a discipline (below)"), "\"sqf\"", "order of service and drops"),
    Field::new("limit", Values::Other(LIMITS), "1000 packets", "queue limit"),
    Field::new("flows", Values::Other("5-tuple, src-port, src-host, dst-host or host-pair"), "5-tuple", "flow key"),
    Field::new("users", Values::OneOf(&["src-host", "dst-host"]), "dst-host", "user key, for disciplines with users"),
    Field::optional("weights", Values::Other("a table: `{ alice = 2 }`"), "1 each", "weights of users, by node, for disciplines with weights; of `prio` the levels, the largest first"),
    Field::optional("qdisc", Values::Other("a kind and options in the words of tc: `\"cake nat\"`, `\"sfq limit 100\"`"), "none", "one of Linux's own instead of the discipline; its rate is the link's. World `vm` only"),
];
pub(crate) const LIMITS: &str = "`\"50 packets\"`, `\"75kB\"`, or both in an array";

/// As Linux's default transmit queue; chosen by us where a link names none.
const DEFAULT_PACKETS: u32 = 1000;
/// Chosen by us: slots are allocated when the scheduler is made.
const MOST_PACKETS: u32 = 1_000_000;
/// The largest IP packet in ATM cells, rounded up.
const LARGEST_PACKET: u64 = 73_000;
/// An Ethernet frame at its smallest, to bound the packets that a limit in bytes holds.
const SMALLEST_PACKET: u64 = 64;

/// Queue of an end without one in the file.
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

/// Bytes that this number of packets never exceeds.
fn bytes_of(packets: u32) -> Bytes {
    Bytes::new(u64::from(packets) * LARGEST_PACKET).min(Limits::MOST_BYTES)
}

/// The table of a queue, with the parameters of all disciplines.
pub(crate) fn section<'a>(
    s: &Section<'_>,
    item: &'a Item,
    fields: &'static [Field],
) -> Result<Section<'a>, ScenarioError> {
    Section::with_others(s.name("queue"), item, &[fields], &below(&keys(), ""))
}

/// A station's, which has one end only.
pub(crate) fn alone(
    s: &Section<'_>,
    item: &Item,
    cx: &Context<'_>,
) -> Result<Queue, ScenarioError> {
    read(&section(s, item, &FIELDS[1..])?, cx)
}

/// All but where it is.
pub(crate) fn read(q: &Section<'_>, cx: &Context<'_>) -> Result<Queue, ScenarioError> {
    let discipline = q.read("discipline")?.unwrap_or(Discipline::Fifo);
    let mut queue = queue_of(discipline);
    queue.flows = q.read("flows")?.unwrap_or(queue.flows);
    if q.choice("users")? == Identity::SrcHost.name() {
        queue.users = Identity::SrcHost;
    }
    if let Some(item) = q.given("weights")? {
        queue.weights = weights(item, &q.name("weights"), cx)?;
    }
    if let Some(item) = q.given("limit")? {
        let limits = &mut queue.limits;
        (limits.packets, limits.bytes) = limit(item, &q.name("limit"))?;
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

/// Parameters of disciplines. The others ignore them, so that one file serves to compare several.
fn parameters(q: &Section<'_>, spec: &mut Spec) -> Result<(), ScenarioError> {
    let keys = keys();
    let own = q.table.entries.iter();
    let common = |key: &str| FIELDS.iter().any(|field| field.key == key);
    for entry in own.filter(|entry| !common(&entry.key)) {
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
        let s = Section::with_others(name, item, &[], &below(keys, key))?;
        for entry in &s.table.entries {
            parameter(q, &format!("{key}.{}", entry.key), &entry.item, keys, spec)?;
        }
        return Ok(());
    }
    let text = text(item).unwrap_or_default();
    let unknown = |set: &Result<(), SpecError>| {
        matches!(set, Err(SpecError::Parameter(_, Refusal::Unknown { .. })))
    };
    let mut set = spec.set(key, &text);
    if unknown(&set) {
        // Wrong values are refused, also of other disciplines.
        let others = Discipline::ALL.into_iter().map(Discipline::spec);
        set = others
            .map(|mut other| other.set(key, &text))
            .find(|set| !unknown(set))
            .unwrap_or(Ok(()));
    }
    set.map_err(|error| match error {
        SpecError::Parameter(_, refusal) => refused(item, &name, refusal),
        error => item.origin.error(format!("`{name}`: {error}")),
    })
}

/// The refusal of the parameter `name`, with its value as it was written.
pub(crate) fn refused(item: &Item, name: &str, refusal: Refusal) -> ScenarioError {
    item.origin.error(match refusal {
        Refusal::Value { allowed, .. } => {
            format!("`{name}` is {}: write {allowed}", shown(&item.value))
        }
        unknown => format!("`{name}`: {unknown}"),
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

/// Keys of the table `key`, or of the top for an empty one, each once.
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
    let names: Vec<&str> = cx.nodes.iter().map(|node| node.name.as_str()).collect();
    let written = match &item.value {
        Value::Table(table) => &table.entries[..],
        _ => &[],
    };
    for entry in written {
        cx.node(&entry.key, name, &entry.origin)?;
    }
    let s = Section::with_others(name, item, &[], &names)?;
    let mut weights = BTreeMap::new();
    for entry in &s.table.entries {
        let weight = text(&entry.item).and_then(|text| text.parse().ok());
        let weight = weight.filter(|weight| (1..=1000).contains(weight));
        let weight = weight.ok_or_else(|| {
            entry.item.origin.error(format!(
                "`{}` is {}: write a whole number from 1 to 1000",
                s.name(&entry.key),
                shown(&entry.item.value)
            ))
        })?;
        weights.insert(entry.key.clone(), weight);
    }
    Ok(weights)
}
