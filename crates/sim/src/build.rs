//! From a scenario to a world at time zero.

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::packet::{FlowId, UserId};
use makeway_core::sched::{self, Config, Discipline, Limits};
use makeway_core::shaper::Shaper;
use makeway_core::units::{Duration, Instant};
use makeway_report::flow::{Bytes, Received, Sent};
use makeway_report::interval::Interval;
use makeway_scenario::departures::departures;
use makeway_scenario::model::{self, Egress, Scenario, Source};
use makeway_scenario::routes::{Hop, routes};
use rand_distr::Bernoulli;
use rand_pcg::Pcg64Mcg;

use crate::flow::{Flow, Kind, Stream, Tcp};
use crate::port::{Counts, Port, Way};
use crate::run::RunError;
use crate::tcp::{self, Receiver, Sender, Variant};
use crate::trace::Trace;
use crate::world::{END, Identities, Network, World};

/// The world of `scenario`.
pub fn build<T: Trace>(
    scenario: &Scenario,
    interval: Interval,
    tcp: Option<&tcp::Config>,
    trace: T,
) -> Result<World<T>, RunError> {
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
        trace,
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
    if let Source::Bulk {
        congestion_control,
        bytes,
    } = &flow.source
    {
        let linux = tcp::Config::linux(variant(flow, congestion_control)?);
        let config = tcp.copied().unwrap_or(linux);
        let mut sender = Sender::new(&config);
        match bytes {
            Some(bytes) => sender.send(*bytes),
            None => sender.send_endless(),
        }
        return Ok(Kind::Tcp(Box::new(Tcp {
            sender,
            receiver: Receiver::new(&config),
            delivered: 0,
            bytes: Bytes::new(interval),
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

fn variant(flow: &model::Flow, name: &str) -> Result<Variant, RunError> {
    match name {
        // Linux's reno recovers by SACK.
        "reno" => Ok(Variant::Sack),
        "cubic" => Ok(Variant::Cubic),
        _ => Err(RunError::CongestionControl {
            flow: flow.name.clone(),
            name: name.into(),
        }),
    }
}

fn network(scenario: &Scenario, ways: Vec<u32>, interval: Interval) -> Result<Network, RunError> {
    let mut kinds: Vec<(Identity, Identity)> = Vec::new();
    let mut network = Network {
        ports: Vec::with_capacity(2 * scenario.links.len()),
        identity_of: Vec::with_capacity(2 * scenario.links.len()),
        identities: Vec::new(),
        ways,
    };
    for link in &scenario.links {
        for egress in &link.egress {
            let queue = &egress.queue;
            let identity = |name: &str| {
                name.parse::<Identity>()
                    .map_err(|error| RunError::queue(link, error))
            };
            let kind = (identity(&queue.flows)?, identity(&queue.users)?);
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
    let queue = &egress.queue;
    let discipline: Discipline = queue
        .discipline
        .parse()
        .map_err(|error| RunError::queue(link, error))?;
    let most = scenario.nodes.len().max(2 * scenario.flows.len());
    let limits = Limits {
        packets: queue.packets,
        bytes: queue.bytes,
        flows: most as u32,
    };
    let mut config = Config::new(discipline, limits);
    config.users = most as u32;
    config.red.rate = egress.rate;
    config.red.seed = scenario.seed.wrapping_add(number);
    for (name, weight) in &queue.weights {
        // Users are hosts, whose number is that of the node.
        if let Some(node) = scenario.nodes.iter().position(|node| node.name == *name) {
            config.weights.push((UserId(node as u32), *weight));
        }
    }
    let scheduler = sched::build(&config).map_err(|error| RunError::queue(link, error))?;
    let way = Way {
        delay: egress.delay,
        jitter: egress.jitter.as_nanos() as f64,
        loss: Some(egress.loss)
            .filter(|loss| *loss > 0.0)
            .and_then(|loss| Bernoulli::new(loss).ok()),
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
            longest += egress.queue.bytes / rate;
        }
    }
    longest
}
