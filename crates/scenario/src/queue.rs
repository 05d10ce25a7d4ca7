//! `queue` of a link: what waits at an end, and how.

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::sched::{
    CakeParams, CoDelParams, Config, ConfuciusParams, CsfqParams, Discipline, DropFrom, Isolation,
    Limits, LowRate, NcqParams, RedParams, TredParams,
};
use makeway_core::units::{Bytes, Fraction};

use crate::context::Context;
use crate::document::{Item, Value};
use crate::error::{ScenarioError, list};
use crate::model::Queue;
use crate::section::{Section, shown, table};

const KEYS: [&str; 18] = [
    "at",
    "discipline",
    "limit",
    "flows",
    "users",
    "weights",
    "quantum",
    "drop_from",
    "ecn",
    "red",
    "codel",
    "cake",
    "ncq",
    "tred",
    "rio",
    "csfq",
    "confucius",
    "qdisc",
];
const CONFUCIUS_KEYS: [&str; 2] = ["doubling", "memory"];
const RED_KEYS: [&str; 8] = [
    "min",
    "max",
    "weight",
    "max_p",
    "gentle",
    "wait",
    "by",
    "mean_packet",
];
const TRED_KEYS: [&str; 4] = ["k", "exponent", "interval", "window"];
const RIO_KEYS: [&str; 2] = ["in", "out"];
const CSFQ_KEYS: [&str; 4] = ["edge", "flow_window", "window", "threshold"];
const CODEL_KEYS: [&str; 3] = ["target", "interval", "mtu"];
const CAKE_KEYS: [&str; 2] = ["rtt", "isolation"];
const NCQ_KEYS: [&str; 9] = [
    "threshold",
    "length",
    "window",
    "probabilistic",
    "extra_wait",
    "control",
    "low_rate",
    "keep_order",
    "push_out",
];
const LOW_RATE_KEYS: [&str; 2] = ["rate", "burst"];

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
        scheduler: Config::new(discipline, limits),
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
    let q = Section::new(name, &item.origin, t, &KEYS)?;
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
    let q = Section::new(name, &item.origin, t, &KEYS[1..])?;
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
    let scheduler = &mut queue.scheduler;
    if let Some(entry) = q.get("limit") {
        let limits = &mut scheduler.limits;
        (limits.packets, limits.bytes) = limit(&entry.item, &q.name("limit"))?;
    }
    parameters(q, scheduler)?;
    queue.qdisc = qdisc(q)?;
    let scheduler = &queue.scheduler;
    scheduler
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
fn parameters(q: &Section<'_>, config: &mut Config) -> Result<(), ScenarioError> {
    if let Some(quantum) = q.read("quantum")? {
        config.quantum = quantum;
        config.fq_codel.quantum = quantum;
    }
    if let Some(from) = q.choice("drop_from", &["head", "tail"])? {
        config.drop_from = match from.as_str() {
            "tail" => DropFrom::Tail,
            _ => DropFrom::Head,
        };
    }
    if let Some(ecn) = q.boolean("ecn")? {
        config.red.ecn = ecn;
        config.codel.ecn = ecn;
        config.fq_codel.codel.ecn = ecn;
        config.cake.ecn = ecn;
    }
    if let Some(entry) = q.get("red") {
        red(&entry.item, &q.name("red"), &mut config.red)?;
    }
    if let Some(entry) = q.get("tred") {
        tred(&entry.item, &q.name("tred"), &mut config.tred)?;
    }
    if let Some(entry) = q.get("rio") {
        let name = q.name("rio");
        let t = table(
            &entry.item,
            &name,
            "{ in = { min = 20 }, out = { min = 10 } }",
        )?;
        let s = Section::new(name, &entry.item.origin, t, &RIO_KEYS)?;
        let rio = &mut config.rio;
        for (key, params) in [("in", &mut rio.inside), ("out", &mut rio.outside)] {
            if let Some(entry) = s.get(key) {
                red(&entry.item, &s.name(key), params)?;
            }
        }
    }
    if let Some(entry) = q.get("csfq") {
        csfq(&entry.item, &q.name("csfq"), &mut config.csfq)?;
    }
    if let Some(entry) = q.get("confucius") {
        confucius(&entry.item, &q.name("confucius"), &mut config.confucius)?;
    }
    if let Some(entry) = q.get("codel") {
        let name = q.name("codel");
        codel(&entry.item, &name, &mut config.codel)?;
        codel(&entry.item, &name, &mut config.fq_codel.codel)?;
    }
    if let Some(entry) = q.get("cake") {
        cake(&entry.item, &q.name("cake"), &mut config.cake)?;
    }
    if let Some(entry) = q.get("ncq") {
        ncq(&entry.item, &q.name("ncq"), &mut config.ncq)?;
    }
    Ok(())
}

fn red(item: &Item, name: &str, params: &mut RedParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ min = 5, max = 15 }")?;
    let s = Section::new(name, &item.origin, t, &RED_KEYS)?;
    let thresholds = 1..=1 << 30;
    if let Some(min) = s.integer("min", thresholds.clone())? {
        params.min = min as u32;
    }
    if let Some(max) = s.integer("max", thresholds)? {
        params.max = max as u32;
    }
    if let Some(weight) = fraction(&s, "weight")? {
        params.weight = weight;
    }
    if let Some(max_p) = fraction(&s, "max_p")? {
        params.max_p = max_p;
    }
    if let Some(gentle) = s.boolean("gentle")? {
        params.gentle = gentle;
    }
    if let Some(wait) = s.boolean("wait")? {
        params.wait = wait;
    }
    if let Some(by) = s.choice("by", &["packets", "bytes"])? {
        params.by_bytes = by == "bytes";
    }
    if let Some(mean) = s.read("mean_packet")? {
        params.mean_packet = mean;
    }
    Ok(())
}

fn tred(item: &Item, name: &str, params: &mut TredParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ k = 1.4, interval = \"1s\" }")?;
    let s = Section::new(name, &item.origin, t, &TRED_KEYS)?;
    if let Some(k) = s.read::<f64>("k")? {
        if !(1.01..=100.0).contains(&k) {
            return Err(s.at("k").error(format!(
                "`{}` is {k}: write a number from 1.01 to 100, like 1.4",
                s.name("k")
            )));
        }
        params.k = (k * 100.0).round() as u32;
    }
    if let Some(exponent) = s.integer("exponent", 1..=64)? {
        params.exponent = exponent as u32;
    }
    if let Some(interval) = s.read("interval")? {
        params.interval = interval;
    }
    if let Some(window) = s.read("window")? {
        params.window = window;
    }
    Ok(())
}

/// Digits behind the point that are read: 10^-12 is about the least step of a [`Fraction`].
fn fraction(s: &Section<'_>, key: &str) -> Result<Option<Fraction>, ScenarioError> {
    const STEPS: u64 = 1_000_000_000_000;
    Ok(s.probability(key)?
        .map(|p| Fraction::ratio((p * STEPS as f64).round() as u64, STEPS)))
}

fn csfq(item: &Item, name: &str, params: &mut CsfqParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ edge = true, window = \"200ms\" }")?;
    let s = Section::new(name, &item.origin, t, &CSFQ_KEYS)?;
    if let Some(edge) = s.boolean("edge")? {
        params.edge = edge;
    }
    if let Some(window) = s.read("flow_window")? {
        params.flow_window = window;
    }
    if let Some(window) = s.read("window")? {
        params.window = window;
    }
    if let Some(threshold) = s.read("threshold")? {
        params.threshold = threshold;
    }
    Ok(())
}

fn confucius(item: &Item, name: &str, params: &mut ConfuciusParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ doubling = \"200ms\", memory = \"1s\" }")?;
    let s = Section::new(name, &item.origin, t, &CONFUCIUS_KEYS)?;
    if let Some(doubling) = s.read("doubling")? {
        params.doubling = doubling;
    }
    if let Some(memory) = s.read("memory")? {
        params.memory = memory;
    }
    Ok(())
}

fn codel(item: &Item, name: &str, params: &mut CoDelParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ target = \"5ms\", interval = \"100ms\" }")?;
    let s = Section::new(name, &item.origin, t, &CODEL_KEYS)?;
    if let Some(target) = s.read("target")? {
        params.target = target;
    }
    if let Some(interval) = s.read("interval")? {
        params.interval = interval;
    }
    if let Some(mtu) = s.read("mtu")? {
        params.mtu = Some(mtu);
    }
    Ok(())
}

fn cake(item: &Item, name: &str, params: &mut CakeParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ rtt = \"100ms\", isolation = \"flows\" }")?;
    let s = Section::new(name, &item.origin, t, &CAKE_KEYS)?;
    if let Some(rtt) = s.read("rtt")? {
        params.rtt = rtt;
    }
    if let Some(isolation) = s.choice("isolation", &["dual", "flows"])? {
        params.isolation = match isolation.as_str() {
            "flows" => Isolation::Flows,
            _ => Isolation::Dual,
        };
    }
    Ok(())
}

fn ncq(item: &Item, name: &str, params: &mut NcqParams) -> Result<(), ScenarioError> {
    let t = table(item, name, "{ threshold = 0.05, length = \"130B\" }")?;
    let s = Section::new(name, &item.origin, t, &NCQ_KEYS)?;
    if let Some(threshold) = fraction(&s, "threshold")? {
        params.threshold = threshold;
    }
    if let Some(length) = s.read("length")? {
        params.length = length;
    }
    if let Some(window) = s.integer("window", 1..=1 << 20)? {
        params.window = Some(window as u32);
    }
    if let Some(probabilistic) = s.boolean("probabilistic")? {
        params.probabilistic = probabilistic;
    }
    if let Some(extra_wait) = fraction(&s, "extra_wait")? {
        params.extra_wait = Some(extra_wait);
    }
    if let Some(control) = s.boolean("control")? {
        params.control = control;
    }
    if let Some(entry) = s.get("low_rate") {
        params.low_rate = Some(low_rate(&entry.item, &s.name("low_rate"))?);
    }
    if let Some(keep_order) = s.boolean("keep_order")? {
        params.keep_order = keep_order;
    }
    if let Some(push_out) = s.boolean("push_out")? {
        params.push_out = push_out;
    }
    Ok(())
}

fn low_rate(item: &Item, name: &str) -> Result<LowRate, ScenarioError> {
    let t = table(item, name, "{ rate = \"64kbit\", burst = \"3kB\" }")?;
    let s = Section::new(name, &item.origin, t, &LOW_RATE_KEYS)?;
    s.need("rate", "\"64kbit\"")?;
    s.need("burst", "\"3kB\"")?;
    Ok(LowRate {
        rate: s.read("rate")?.unwrap_or_default(),
        burst: s.read("burst")?.unwrap_or_default(),
    })
}

/// `"50 packets"`, `"75kB"`, or both in an array: whichever is reached first.
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
