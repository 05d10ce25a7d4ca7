//! Ways through a scenario's network.

use std::collections::VecDeque;

use crate::model::Scenario;

/// A way out of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The link taken.
    pub link: usize,
    /// The end of it at which the node is.
    pub end: usize,
}

/// For each node, the first hop towards every other node: fewest links, then the link that
/// comes first in the file. `None` where there is no way, and towards itself.
pub fn routes(scenario: &Scenario) -> Vec<Vec<Option<Hop>>> {
    let nodes = scenario.nodes.len();
    let mut out = vec![Vec::with_capacity(nodes); nodes];
    for to in 0..nodes {
        // Breadth first from the destination: each node learns the hop that leads back to it.
        let mut hop: Vec<Option<Hop>> = vec![None; nodes];
        let mut queue = VecDeque::from([to]);
        while let Some(near) = queue.pop_front() {
            for (index, link) in scenario.links.iter().enumerate() {
                for end in 0..2 {
                    let far = link.ends[end];
                    if link.ends[1 - end] == near && far != to && hop[far].is_none() {
                        hop[far] = Some(Hop { link: index, end });
                        queue.push_back(far);
                    }
                }
            }
        }
        for (node, hop) in hop.into_iter().enumerate() {
            out[node].push(hop);
        }
    }
    out
}

/// How many links end at a node.
pub fn degree(scenario: &Scenario, node: usize) -> usize {
    let ends = scenario.links.iter().flat_map(|link| link.ends);
    ends.filter(|&end| end == node).count()
}
