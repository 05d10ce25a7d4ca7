// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a scenario to a world at time zero.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use makeway_core::flow::Identity;
use makeway_core::loss::{Loss, LossyLink};
use makeway_core::measure::Histogram;
use makeway_core::packet::{FlowId, UserId};
use makeway_core::random::Rng;
use makeway_core::sched::{self, Env, Limits};
use makeway_core::shaper::Shaper;
use makeway_core::ticket::{Meter, Relabeller, Tagger};
use makeway_core::units::{Duration, Instant};
use makeway_endpoints::Media;
use makeway_report::flow::{Bytes, Delays, Received, Sent};
use makeway_report::interval::Interval;
use makeway_scenario::departures::{Units, departures};
use makeway_scenario::model::{
    self, Egress, Issue, Preset, Queue, Scenario, Share, Source, Standard,
};
use makeway_scenario::routes::{Graph, Hop};
use rand_pcg::Pcg64Mcg;

use crate::error::RunError;
use crate::flow::{Flow, Kind, Stream, Tags, Tasks, Tcp};
use crate::port::{Counts, Currency, FRAMING, Port, Way, port_number};
use crate::tcp::{self, DelayedAck, Receiver, Sender, Variant};
use crate::trace::Trace;
use crate::wlan::{Config, Medium, Reach};
use crate::world::{Cell, Changing, Mesh, Step, World};

/// IPv4 and TCP.
const TCP_HEADERS: u32 = 40;
/// RFC 7323, padded.
const TIMESTAMPS: u32 = 12;
/// Random streams from here on are those of the times between tasks.
const THINKING: u64 = 1 << 40;

/// Numbers from here on are those of the meters of profiles.
const PROFILES: u64 = 1 << 41;
/// Numbers from here on are those of radio channels, and of their routers.
const RADIO: u64 = 1 << 42;
const ROUTERS: u64 = 1 << 43;

/// In a replication each flow begins later by a random time below this: without it a scenario that
/// has no random source would be the same run again and again, and the sources' phases, which decide
/// much at a full buffer (Floyd and Jacobson 1992), would never change. Chosen by us: many packets'
/// time, and little of any warm-up.
pub const PHASE: Duration = Duration::from_millis(100);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Set to true from anywhere, it ends the run early, with a report of what there was.
    pub stop: Arc<AtomicBool>,
    /// TCP of every download, instead of the one of its congestion control.
    pub tcp: Option<tcp::Config>,
    /// Which of the runs that a seed stands for. 0 is the scenario as it is written; in each other
    /// one all random streams are new, and flows begin up to [`PHASE`](crate::PHASE) later.
    pub replication: u64,
}

/// The world of `scenario`.
pub fn build<T: Trace>(
    scenario: &Scenario,
    interval: Interval,
    options: &Options,
    trace: T,
) -> Result<World<T>, RunError> {
    let seed = seed(scenario.seed, options.replication);
    let ways = Ways::find(scenario)?;
    let mut flows = Vec::with_capacity(scenario.flows.len());
    for (number, flow) in scenario.flows.iter().enumerate() {
        let phase = phase(seed, number, options.replication);
        let start = Instant::ZERO + flow.start + phase;
        let stop = flow.stop.unwrap_or(scenario.duration) + phase;
        flows.push(Flow {
            ways: ways.starts[number],
            start,
            ip_bytes: 0,
            stop: Instant::ZERO + stop.min(scenario.duration),
            tags: tags(scenario, flow, number, seed),
            kind: kind(
                scenario,
                number,
                start,
                interval,
                options.tcp.as_ref(),
                seed,
            )?,
        });
    }
    let ports = ports(scenario, interval, seed)?;
    let cells = cells(scenario, seed);
    let mut world = World::new(ports, ways.steps, flows, cells, interval, trace);
    world.change_rates(changing(scenario));
    Ok(world)
}

/// Tagger of the packets of `flow`.
fn tags(scenario: &Scenario, flow: &model::Flow, number: usize, seed: u64) -> Option<Box<Tags>> {
    let model::Tags {
        codec,
        window,
        policing,
        silence,
        by_receiver,
    } = scenario.tags;
    // Nothing comes back to the source of a stream.
    let by_receiver = by_receiver && matches!(flow.source, Source::Bulk { .. });
    Some(Box::new(match flow.share? {
        Share::Tickets(rate) => {
            let own = match silence {
                true => |tagger| tagger,
                false => Tagger::by_acknowledgements,
            };
            let issued = Tagger::new(rate, window, policing, codec);
            match by_receiver {
                true => Tags::Receiver {
                    source: own(Tagger::by_receiver(window, policing, codec)),
                    sink: issued,
                },
                false => Tags::Tickets(own(issued)),
            }
        }
        Share::Profile(rate) => {
            let own = Rng::new(seed ^ Rng::new(PROFILES + number as u64).next_u64()).next_u64();
            Tags::Profile(Meter::new(rate, Meter::WINDOW, own))
        }
    }))
}

/// The ports whose rates change.
fn changing(scenario: &Scenario) -> Vec<Changing> {
    let mut all = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for (end, egress) in link.egress.iter().enumerate() {
            if !egress.changes.steps.is_empty() {
                all.push(Changing {
                    port: port_number(index, end),
                    changes: egress.changes.clone(),
                    made: 0,
                });
            }
        }
    }
    all
}

/// The ways of all flows.
struct Ways {
    steps: Vec<Step>,
    /// Where each flow's ways begin, forth and back.
    starts: Vec<[u32; 2]>,
}

impl Ways {
    fn find(scenario: &Scenario) -> Result<Self, RunError> {
        let graph = Graph::new(scenario);
        let identities = Identities::find(scenario);
        let mut ways = Self {
            steps: Vec::new(),
            starts: vec![[0; 2]; scenario.flows.len()],
        };
        let ends = scenario
            .flows
            .iter()
            .enumerate()
            .flat_map(|(number, flow)| {
                [
                    (flow.to, flow.from, number, 0),
                    (flow.from, flow.to, number, 1),
                ]
            });
        let mut ends: Vec<(usize, usize, usize, usize)> = ends.collect();
        // By destination: the hops towards one serve all that go there.
        ends.sort_unstable();
        for ends in ends.chunk_by(|a, b| a.0 == b.0) {
            let hops = graph.towards(ends[0].0);
            for &(to, mut at, number, back) in ends {
                let flow = &scenario.flows[number];
                let no_way = || RunError::NoWay {
                    flow: flow.name.clone(),
                    from: scenario.nodes[flow.from].name.clone(),
                    to: scenario.nodes[flow.to].name.clone(),
                };
                if at == to {
                    return Err(no_way());
                }
                ways.starts[number][back] = ways.steps.len() as u32;
                while at != to {
                    let hop = hops[at].ok_or_else(no_way)?;
                    ways.steps.push(Step {
                        to: station(scenario, hop),
                        ..identities.step(hop.port as u32, 2 * number + back)
                    });
                    at = hop.to;
                }
                ways.steps.push(Step::END);
            }
        }
        let mut flows = scenario.flows.iter().zip(&ways.starts);
        let timeless = flows.find(|(flow, starts)| {
            matches!(flow.source, Source::Bulk { .. })
                && !starts.iter().any(|start| ways.takes_time(scenario, *start))
        });
        match timeless {
            Some((flow, _)) => Err(RunError::NoTime {
                place: flow.place.clone(),
                flow: flow.name.clone(),
            }),
            None => Ok(ways),
        }
    }

    /// Whether packets need any time on the way that begins at `start`.
    fn takes_time(&self, scenario: &Scenario, start: u32) -> bool {
        let way = self.steps[start as usize..].iter();
        let mut ports = way
            .map(|step| step.port)
            .take_while(|port| *port != Step::END.port);
        ports.any(|port| {
            let link = scenario.links.get(port as usize / 2);
            let egress = link.map(|link| &link.egress[port as usize % 2]);
            egress.is_none_or(|egress| egress.rate.is_some() || egress.delay > Duration::ZERO)
        })
    }
}

/// The station of a channel to which `hop` leads.
fn station(scenario: &Scenario, hop: Hop) -> u16 {
    let ours = |n: &usize| hop.port >= scenario.first_port(*n);
    let wlan = (0..scenario.wlans.len()).rev().find(ours);
    let stations = wlan.map_or(&[][..], |n| &scenario.wlans[n].stations);
    let place = stations.iter().position(|node| *node == hop.to);
    place.unwrap_or_default() as u16
}

/// The radio channels.
fn cells(scenario: &Scenario, seed: u64) -> Vec<Cell> {
    let cell = |(number, wlan): (usize, &model::Wlan)| {
        let config = match wlan.standard {
            Standard::A => Config::a(wlan.rate),
            Standard::B { short_preamble } => Config::b(wlan.rate, short_preamble),
        };
        let config = Config {
            rts_threshold: wlan.rts.map_or(u64::MAX, |bytes| bytes.get()),
            short_retries: wlan.retry_limit,
            // Of 2^64; one is the most that there is.
            loss: (wlan.loss * 18_446_744_073_709_551_616.0) as u64,
            ..config
        };
        let reach = match &wlan.places {
            Some(places) => Reach::two_ray(places, wlan.range, wlan.sense),
            None => Reach::everybody(wlan.stations.len()),
        };
        let own = |kind: u64| Rng::new(seed ^ Rng::new(kind + number as u64).next_u64()).next_u64();
        let mut medium = Medium::new(config, reach, own(RADIO));
        for (station, at) in &wlan.off {
            medium.switch_off(*station as u16, Instant::ZERO + *at);
        }
        let stations = wlan.stations.len() as u16;
        Cell {
            medium,
            first: scenario.first_port(number) as u32,
            stations,
            mesh: match wlan.access_point {
                Some(_) => None,
                None => Some(Mesh::new(stations, own(ROUTERS))),
            },
        }
    };
    scenario.wlans.iter().enumerate().map(cell).collect()
}

fn kind(
    scenario: &Scenario,
    number: usize,
    start: Instant,
    interval: Interval,
    tcp: Option<&tcp::Config>,
    seed: u64,
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
                next: Some(start),
                times: Histogram::new(),
                steps: interval.steps(),
                rng: random(seed, THINKING + number as u64),
            })
        });
        return Ok(Kind::Tcp(Box::new(Tcp {
            sender,
            receiver: Receiver::new(&config),
            delivered: 0,
            bytes: Bytes::new(interval),
            delays: Delays::default(),
            headers: match config.timestamps {
                true => TCP_HEADERS + TIMESTAMPS,
                false => TCP_HEADERS,
            },
            ecn: config.ecn,
            tasks,
        })));
    }
    if let Source::Media(media) = &flow.source {
        let units = Units::new(media, seed, number);
        return Ok(Kind::Media(Box::new(Media::new(
            media, units, start, interval,
        ))));
    }
    let mut departures =
        departures(&flow.source, seed, number).unwrap_or_else(|| Box::new(std::iter::empty()));
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

/// What every packet is at every port.
struct Identities {
    /// For each port, what makes a flow and a user there, as a place in `numbers`.
    of_port: Vec<[usize; 2]>,
    /// For each identity that occurs, see [`numbers`].
    numbers: Vec<Vec<u32>>,
}

impl Identities {
    fn find(scenario: &Scenario) -> Self {
        let mut known: Vec<Identity> = Vec::new();
        let mut of_port = Vec::with_capacity(scenario.ports());
        for queue in queues(scenario) {
            let mut place = |identity: Identity| {
                let place = known.iter().position(|known| *known == identity);
                place.unwrap_or_else(|| {
                    known.push(identity);
                    known.len() - 1
                })
            };
            of_port.push([place(queue.flows), place(queue.users)]);
        }
        let numbers = known
            .into_iter()
            .map(|identity| numbers(scenario, identity));
        Self {
            of_port,
            numbers: numbers.collect(),
        }
    }

    /// The step through `port` of a packet whose flow and direction are `index`.
    fn step(&self, port: u32, index: usize) -> Step {
        let [flow, user] = self.of_port[port as usize].map(|place| self.numbers[place][index]);
        Step {
            port,
            flow: FlowId(flow),
            user: UserId(user),
            to: 0,
        }
    }
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

/// The queue of every port.
fn queues(scenario: &Scenario) -> impl Iterator<Item = &Queue> {
    let links = scenario.links.iter().flat_map(|link| &link.egress);
    let stations = scenario
        .wlans
        .iter()
        .flat_map(|wlan| wlan.stations.iter().map(|_| &wlan.queue));
    links.map(|egress| &egress.queue).chain(stations)
}

fn ports(scenario: &Scenario, interval: Interval, seed: u64) -> Result<Vec<Port>, RunError> {
    let mut ports = Vec::with_capacity(scenario.ports());
    let mut add = |mut port: Port, measure: bool| {
        if measure {
            port.counts = Some(Box::new(Counts::new(interval)));
        }
        ports.push(port);
    };
    for (index, link) in scenario.links.iter().enumerate() {
        for (end, egress) in link.egress.iter().enumerate() {
            let number = u64::from(port_number(index, end));
            let both = [egress, &link.egress[1 - end]];
            add(port(scenario, link, both, number, seed)?, egress.measure);
        }
    }
    for (index, wlan) in scenario.wlans.iter().enumerate() {
        let first = scenario.first_port(index) as u64;
        for number in first..first + wlan.stations.len() as u64 {
            add(station_port(scenario, wlan, number, seed)?, wlan.measure);
        }
    }
    Ok(ports)
}

/// Flows and users that may come by a port.
fn most(scenario: &Scenario) -> u32 {
    scenario.nodes.len().max(2 * scenario.flows.len()) as u32
}

/// Users are hosts, whose number is that of the node.
fn weights(scenario: &Scenario, queue: &Queue) -> Vec<(UserId, u32)> {
    let place = |name: &String| scenario.nodes.iter().position(|node| node.name == *name);
    let weights = queue.weights.iter();
    weights
        .filter_map(|(name, weight)| Some((UserId(place(name)? as u32), *weight)))
        .collect()
}

/// Linux's own are not modelled.
fn no_qdisc(kind: &'static str, name: &str, queue: &Queue) -> Result<(), RunError> {
    match &queue.qdisc {
        None => Ok(()),
        Some(_) => Err(RunError::queue(kind, name, Queue::NOT_HERE)),
    }
}

fn port(
    scenario: &Scenario,
    link: &model::Link,
    [egress, other]: [&Egress; 2],
    number: u64,
    seed: u64,
) -> Result<Port, RunError> {
    no_qdisc("link", &link.name, &egress.queue)?;
    let queue = &egress.queue;
    let env = Env {
        weights: weights(scenario, queue),
        ..egress.env(&scenario.tags, most(scenario), seed.wrapping_add(number))
    };
    let scheduler = sched::build(&queue.spec, &env)
        .map_err(|error| RunError::queue("link", &link.name, error))?;
    let way = Way {
        delay: egress.delay,
        jitter: egress.jitter.as_nanos() as f64,
        loss: LossyLink::new(egress.loss),
        rng: random(seed, number),
    };
    Ok(Port::new(
        Shaper::new(egress.rate, scheduler),
        egress.tick,
        egress.framing,
        way,
        currency(
            scenario.tags,
            egress.tickets.as_ref(),
            other.tickets.as_ref(),
        ),
    ))
}

/// What a port makes of tickets, where its end is issued `own` and the other end of the link `other`.
fn currency(
    tags: model::Tags,
    own: Option<&Issue>,
    other: Option<&Issue>,
) -> Option<Box<Currency>> {
    let model::Tags {
        codec,
        window,
        policing,
        by_receiver,
        ..
    } = tags;
    let issued = own.map(|issue| Relabeller::new(issue.rate, window, policing, codec));
    let steps = own.map_or(&[][..], |issue| &issue.steps);
    let (data, acks) = match by_receiver {
        true => {
            let heard = other.map(|_| Relabeller::by_receiver(window, policing, codec));
            (heard, issued)
        }
        false => (issued, None),
    };
    (data.is_some() || acks.is_some()).then(|| {
        let changes = steps.iter().rev();
        Box::new(Currency {
            data,
            acks,
            changes: changes
                .map(|(at, rate)| (Instant::ZERO + *at, *rate))
                .collect(),
        })
    })
}

/// A station's port: a queue alone, since the medium does the rest.
fn station_port(
    scenario: &Scenario,
    wlan: &model::Wlan,
    number: u64,
    seed: u64,
) -> Result<Port, RunError> {
    no_qdisc("wlan", &wlan.name, &wlan.queue)?;
    let seed = seed.wrapping_add(number);
    let queue = &wlan.queue;
    let env = Env {
        rate: Some(wlan.rate),
        framing: FRAMING,
        codec: scenario.tags.codec,
        weights: weights(scenario, queue),
        seed,
        ..Env::new(Limits {
            flows: most(scenario),
            ..queue.limits
        })
    };
    let scheduler = sched::build(&queue.spec, &env)
        .map_err(|error| RunError::queue("wlan", &wlan.name, error))?;
    let way = Way {
        delay: Duration::ZERO,
        jitter: 0.0,
        loss: LossyLink::new(Loss::default()),
        rng: random(seed, number),
    };
    Ok(Port::new(
        Shaper::new(None, scheduler),
        None,
        FRAMING,
        way,
        None,
    ))
}

/// The seed of a replication; that of the first is the scenario's own.
fn seed(seed: u64, replication: u64) -> u64 {
    match replication {
        0 => seed,
        // Twice through the generator: neither neighbours nor sums of the two have anything in common.
        n => Rng::new(seed ^ Rng::new(n).next_u64()).next_u64(),
    }
}

/// How much later a flow begins. It depends on nothing but seed and flow, so that it is the same
/// whatever waits at the bottleneck.
fn phase(seed: u64, flow: usize, replication: u64) -> Duration {
    if replication == 0 {
        return Duration::ZERO;
    }
    let own = seed ^ Rng::new(flow as u64).next_u64();
    Duration::from_nanos(u64::from(Rng::new(own).below(PHASE.as_nanos() as u32)))
}

/// The random stream of a component: its own for each seed and number.
fn random(seed: u64, component: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed) << 64 | u128::from(component) << 1 | 1)
}
