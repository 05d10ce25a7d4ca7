// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of flows: their ports, and the ids of flow and user at each.

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::packet::{FlowId, UserId};
use makeway_core::units::Duration;
use makeway_scenario::model::{Flow, Queue, Scenario, Source};
use makeway_scenario::routes::{Graph, Hop};

use crate::error::RunError;
use crate::step::Step;

/// The paths of all flows.
pub struct Paths {
    /// Steps, each path ended by [`Step::END`].
    pub steps: Vec<Step>,
    /// First step of each flow's paths, forth and back.
    pub starts: Vec<[u32; 2]>,
}

impl Paths {
    /// Paths with the fewest hops.
    ///
    /// # Errors
    /// No path joins the ends of a flow, or a download takes no time.
    pub fn find(scenario: &Scenario) -> Result<Self, RunError> {
        let graph = Graph::new(scenario);
        let identities = Identities::find(scenario);
        let mut paths = Self {
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
                let no_path = || RunError::NoPath {
                    flow: flow.name.clone(),
                    from: scenario.nodes[flow.from].name.clone(),
                    to: scenario.nodes[flow.to].name.clone(),
                };
                if at == to {
                    return Err(no_path());
                }
                paths.starts[number][back] = paths.steps.len() as u32;
                while at != to {
                    let hop = hops[at].ok_or_else(no_path)?;
                    paths.steps.push(Step {
                        to: station(scenario, hop),
                        ..identities.step(hop.port as u32, 2 * number + back)
                    });
                    at = hop.to;
                }
                paths.steps.push(Step::END);
            }
        }
        let mut flows = scenario.flows.iter().zip(&paths.starts);
        let timeless = flows.find(|(flow, starts)| {
            matches!(flow.source, Source::Bulk { .. })
                && !starts
                    .iter()
                    .any(|start| paths.takes_time(scenario, *start))
        });
        match timeless {
            Some((flow, _)) => Err(RunError::NoTime {
                place: flow.place.clone(),
                flow: flow.name.clone(),
            }),
            None => Ok(paths),
        }
    }

    /// Whether packets need any time on the path that begins at `start`.
    fn takes_time(&self, scenario: &Scenario, start: u32) -> bool {
        let path = self.steps[start as usize..].iter();
        let mut ports = path
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

/// Flow and user of every packet at every port.
struct Identities {
    /// For each port, its identities of flows and users, as indices of `numbers`.
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

/// Packets of a flow and direction that have one source port: those of its group and sender, where they share one.
fn port(scenario: &Scenario, index: usize) -> usize {
    let flow = &scenario.flows[index / 2];
    let is_back = index % 2 == 1;
    if is_back || !flow.shared_port {
        return index;
    }
    let of_port = |other: &Flow| other.group == flow.group && other.from == flow.from;
    let first = scenario.flows.iter().position(of_port);
    first.map_or(index, |first| 2 * first)
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
        Identity::FiveTuple => index,
        Identity::SrcPort => port(scenario, index),
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
