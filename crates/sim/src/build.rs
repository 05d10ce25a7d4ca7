//! From a scenario to a world at time zero.

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::loss::LossyLink;
use makeway_core::measure::Histogram;
use makeway_core::packet::{FlowId, UserId};
use makeway_core::sched;
use makeway_core::shaper::Shaper;
use makeway_core::units::{Duration, Instant};
use makeway_report::flow::{Bytes, Received, Sent};
use makeway_report::interval::Interval;
use makeway_scenario::departures::departures;
use makeway_scenario::model::{self, Egress, Preset, Scenario, Source};
use makeway_scenario::routes::{Hop, routes};
use rand_pcg::Pcg64Mcg;

use crate::flow::{Flow, Kind, Stream, Tasks, Tcp};
use crate::port::{Counts, Port, Way};
use crate::run::RunError;
use crate::tcp::{self, DelayedAck, Receiver, Sender, Variant};
use crate::world::{Changing, END, Identities, Network, World};

/// IPv4 and TCP.
const TCP_HEADERS: u32 = 40;
/// RFC 7323, padded.
const TIMESTAMPS: u32 = 12;
/// Random streams from here on are those of the times between tasks.
const THINKING: u64 = 1 << 40;

/// The world of `scenario`.
pub fn build(
    scenario: &Scenario,
    interval: Interval,
    tcp: Option<&tcp::Config>,
) -> Result<World, RunError> {
    let ways = Ways::find(scenario)?;
    let mut flows = Vec::with_capacity(scenario.flows.len());
    for (number, flow) in scenario.flows.iter().enumerate() {
        flows.push(Flow {
            ways: ways.starts[number],
            start: Instant::ZERO + flow.start,
            stop: Instant::ZERO
                + flow
                    .stop
                    .unwrap_or(scenario.duration)
                    .min(scenario.duration),
            kind: kind(scenario, number, interval, tcp)?,
        });
    }
    Ok(World::new(
        network(scenario, ways.ports, interval)?,
        flows,
        interval,
    ))
}

/// The ways of all flows, forth and back, as lists of ports.
struct Ways {
    ports: Vec<u32>,
    starts: Vec<[u32; 2]>,
}

impl Ways {
    fn find(scenario: &Scenario) -> Result<Self, RunError> {
        let routes = routes(scenario);
        let mut ways = Self {
            ports: Vec::new(),
            starts: Vec::with_capacity(scenario.flows.len()),
        };
        for flow in &scenario.flows {
            let forth = ways.add(scenario, &routes, flow, flow.from, flow.to)?;
            let back = ways.add(scenario, &routes, flow, flow.to, flow.from)?;
            ways.starts.push([forth, back]);
        }
        Ok(ways)
    }

    fn add(
        &mut self,
        scenario: &Scenario,
        routes: &[Vec<Option<Hop>>],
        flow: &model::Flow,
        mut at: usize,
        to: usize,
    ) -> Result<u32, RunError> {
        let start = self.ports.len() as u32;
        let no_way = || RunError::NoWay {
            flow: flow.name.clone(),
            from: scenario.nodes[flow.from].name.clone(),
            to: scenario.nodes[flow.to].name.clone(),
        };
        if at == to {
            return Err(no_way());
        }
        while at != to {
            let hop = routes[at][to].ok_or_else(no_way)?;
            self.ports.push(port_number(hop.link, hop.end));
            at = scenario.links[hop.link].ends[1 - hop.end];
        }
        self.ports.push(END);
        Ok(start)
    }
}

/// The egress of an end of a link.
pub fn port_number(link: usize, end: usize) -> u32 {
    (2 * link + end) as u32
}

fn kind(
    scenario: &Scenario,
    number: usize,
    interval: Interval,
    tcp: Option<&tcp::Config>,
) -> Result<Kind, RunError> {
    let flow = &scenario.flows[number];
    if let Source::Bulk { bytes, think, .. } = &flow.source {
        let modelled = config(flow)?;
        let config = tcp.copied().unwrap_or(modelled);
        let mut sender = Sender::new(&config);
        if bytes.is_none() {
            sender.send_endless();
        }
        let tasks = bytes.map(|bytes| {
            Box::new(Tasks {
                bytes: bytes.get(),
                think: think.map(|think| think.as_nanos() as f64),
                end: 0,
                began: Instant::ZERO,
                next: Some(Instant::ZERO + flow.start),
                times: Histogram::new(),
                rng: random(scenario.seed, THINKING + number as u64),
            })
        });
        return Ok(Kind::Tcp(Box::new(Tcp {
            sender,
            receiver: Receiver::new(&config),
            delivered: 0,
            bytes: Bytes::new(interval),
            headers: match config.timestamps {
                true => TCP_HEADERS + TIMESTAMPS,
                false => TCP_HEADERS,
            },
            ecn: config.ecn,
            tasks,
        })));
    }
    let seed = scenario
        .seed
        .wrapping_mul(1_000_003)
        .wrapping_add(number as u64);
    let mut departures =
        departures(&flow.source, seed).unwrap_or_else(|| Box::new(std::iter::empty()));
    Ok(Kind::Stream(Box::new(Stream {
        next: departures.next(),
        departures,
        sent: Sent::new(interval),
        received: Received::new(interval),
    })))
}

/// TCP as the scenario has it; the default where the flow has none.
fn config(flow: &model::Flow) -> Result<tcp::Config, RunError> {
    let Source::Bulk {
        congestion_control,
        tcp,
        ..
    } = &flow.source
    else {
        return Ok(tcp::Config::linux(Variant::Cubic));
    };
    let variant = match (congestion_control.as_str(), tcp.preset) {
        // Linux's reno recovers by SACK.
        ("reno", Preset::Linux) | ("sack", _) => Variant::Sack,
        ("reno", Preset::Ns2) => Variant::Reno,
        ("cubic", _) => Variant::Cubic,
        ("newreno", _) => Variant::NewReno,
        ("tahoe", _) => Variant::Tahoe,
        (name, _) => {
            return Err(RunError::CongestionControl {
                place: flow.place.clone(),
                flow: flow.name.clone(),
                name: name.into(),
            });
        }
    };
    let mut config = match tcp.preset {
        Preset::Linux => tcp::Config::linux(variant),
        Preset::Ns2 => tcp::Config::ns2(variant),
    };
    if let Some(mss) = tcp.mss {
        config.mss = mss.get() as u32;
    }
    if let Some(window) = tcp.window {
        config.window = window;
    }
    if tcp.preset == Preset::Ns2 {
        config.initial_ssthresh = config.window;
    }
    if let Some(initial) = tcp.initial_window {
        config.initial_window = initial;
    }
    if let Some(delay) = tcp.delayed_ack {
        config.delayed_ack = match delay {
            Duration::ZERO => DelayedAck::Off,
            delay => DelayedAck::EverySecond(delay),
        };
    }
    if let Some(min_rto) = tcp.min_rto {
        config.min_rto = min_rto;
        // As Linux has it, where the preset is Linux's.
        config.min_rto_margin = config.min_rto_margin.min(min_rto);
    }
    config.ecn = tcp.ecn;
    Ok(config)
}

fn network(scenario: &Scenario, ways: Vec<u32>, interval: Interval) -> Result<Network, RunError> {
    let mut kinds: Vec<(Identity, Identity)> = Vec::new();
    let mut network = Network {
        ports: Vec::with_capacity(2 * scenario.links.len()),
        identity_of: Vec::with_capacity(2 * scenario.links.len()),
        identities: Vec::new(),
        ways,
        changing: Vec::new(),
    };
    for link in &scenario.links {
        for egress in &link.egress {
            let queue = &egress.queue;
            let kind = (queue.flows, queue.users);
            let place = kinds.iter().position(|known| *known == kind);
            let place = place.unwrap_or_else(|| {
                kinds.push(kind);
                network.identities.push(Identities {
                    flow: numbers(scenario, kind.0).into_iter().map(FlowId).collect(),
                    user: numbers(scenario, kind.1).into_iter().map(UserId).collect(),
                });
                kinds.len() - 1
            });
            network.identity_of.push(place as u32);
            let number = network.ports.len() as u64;
            let mut port = port(scenario, link, egress, number)?;
            if !egress.changes.steps.is_empty() {
                network.changing.push(Changing {
                    port: number as u32,
                    changes: egress.changes.clone(),
                    made: 0,
                });
            }
            if egress.measure {
                port.counts = Some(Box::new(Counts::new(interval)));
            }
            network.ports.push(port);
        }
    }
    Ok(network)
}

/// A dense number for each flow and direction, equal where `identity` sees no difference. Both ends
/// of a flow have a port of their own.
fn numbers(scenario: &Scenario, identity: Identity) -> Vec<u32> {
    let mut pairs = BTreeMap::new();
    let ends = scenario.flows.iter().flat_map(|flow| {
        let (a, b) = (flow.from, flow.to);
        [(a, b), (b, a)]
    });
    let mut number = |index: usize, (from, to): (usize, usize)| match identity {
        Identity::FiveTuple | Identity::SrcPort => index,
        Identity::SrcHost => from,
        Identity::DstHost => to,
        Identity::HostPair => {
            let next = pairs.len();
            *pairs.entry((from, to)).or_insert(next)
        }
    };
    let numbers = ends
        .enumerate()
        .map(|(index, ends)| number(index, ends) as u32);
    numbers.collect()
}

fn port(
    scenario: &Scenario,
    link: &model::Link,
    egress: &Egress,
    number: u64,
) -> Result<Port, RunError> {
    let most = scenario.nodes.len().max(2 * scenario.flows.len());
    let seed = scenario.seed.wrapping_add(number);
    let mut config = egress.scheduler(most as u32, seed);
    for (name, weight) in &egress.queue.weights {
        // Users are hosts, whose number is that of the node.
        if let Some(node) = scenario.nodes.iter().position(|node| node.name == *name) {
            config.weights.push((UserId(node as u32), *weight));
        }
    }
    let scheduler = sched::build(&config).map_err(|error| RunError::queue(link, error))?;
    let way = Way {
        delay: egress.delay,
        jitter: egress.jitter.as_nanos() as f64,
        loss: LossyLink::new(egress.loss),
        rng: random(scenario.seed, number),
    };
    Ok(Port::new(
        Shaper::new(egress.rate, scheduler),
        egress.framing,
        way,
    ))
}

/// The random stream of a component: its own for each seed and number.
fn random(seed: u64, component: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed) << 64 | u128::from(component) << 1 | 1)
}

/// The longest that a packet may be under way through all queues of the scenario.
pub fn longest_way(scenario: &Scenario) -> Duration {
    let mut longest = Duration::ZERO;
    for egress in scenario.links.iter().flat_map(|link| &link.egress) {
        longest += egress.delay + egress.jitter * 6;
        if let Some(rate) = egress.rate {
            longest += egress.queue.scheduler.limits.bytes / rate;
        }
    }
    longest
}
