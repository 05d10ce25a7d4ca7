// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes through a scenario's network.

use std::collections::VecDeque;

use crate::model::Scenario;

/// An egress of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The port taken, counted as in [`Scenario::ports`].
    pub port: usize,
    /// The node it leads to: the far end of a link, or a station of the channel, perhaps over others.
    pub to: usize,
}

/// The network, by node.
pub struct Graph {
    /// For each node, the ports of its neighbours that lead to it, in the order of the file, with whose they are.
    beside: Vec<Vec<(usize, Hop)>>,
}

impl Graph {
    /// The network of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        let mut beside = vec![Vec::new(); scenario.nodes.len()];
        for (link, ends) in scenario.links.iter().map(|link| link.ends).enumerate() {
            for end in 0..2 {
                let to = ends[1 - end];
                let port = 2 * link + end;
                beside[to].push((ends[end], Hop { port, to }));
            }
        }
        for (index, wlan) in scenario.wlans.iter().enumerate() {
            let first = scenario.first_port(index);
            for (to, &far) in wlan.stations.iter().enumerate() {
                for (from, &near) in wlan.stations.iter().enumerate() {
                    // Without an access point AODV gives each a route to each.
                    let talk = wlan.access_point.is_none_or(|ap| from == ap || to == ap);
                    if from != to && talk {
                        let port = first + from;
                        beside[far].push((near, Hop { port, to: far }));
                    }
                }
            }
        }
        Self { beside }
    }

    /// For each node, the first hop towards node `to`: fewest hops, then what comes first in
    /// the file, links before channels. `None` without a route, and at `to` itself.
    pub fn towards(&self, to: usize) -> Vec<Option<Hop>> {
        // Breadth first from the destination: each node learns the hop that leads back to it.
        let mut hops = vec![None; self.beside.len()];
        let mut queue = VecDeque::from([to]);
        while let Some(near) = queue.pop_front() {
            for &(far, hop) in &self.beside[near] {
                if far != to && hops[far].is_none() {
                    hops[far] = Some(hop);
                    queue.push_back(far);
                }
            }
        }
        hops
    }
}

/// For each node, the first hop towards every other node, see [`Graph::towards`].
pub fn routes(scenario: &Scenario) -> Vec<Vec<Option<Hop>>> {
    let (graph, nodes) = (Graph::new(scenario), scenario.nodes.len());
    let towards: Vec<_> = (0..nodes).map(|to| graph.towards(to)).collect();
    let from = |node: usize| towards.iter().map(|hops| hops[node]).collect();
    (0..nodes).map(from).collect()
}

/// How many links end at a node.
pub fn degree(scenario: &Scenario, node: usize) -> usize {
    let ends = scenario.links.iter().flat_map(|link| link.ends);
    ends.filter(|&end| end == node).count()
}
