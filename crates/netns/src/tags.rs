// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writers of tickets on real packets in a scenario: the egress of each host, for the flows that it sends, and links
//! that are issued some.

use std::net::IpAddr;

use makeway_gateway::datapath::{Leaving, Rule, Share, TagConfig};
use makeway_scenario::model::{self, Egress, Scenario};
use makeway_scenario::wire;

use crate::topology::node_address;

/// Treatment of tags at `egress` of node `from`; nothing where the scenario has none.
pub(crate) fn config(scenario: &Scenario, from: usize, egress: &Egress) -> TagConfig {
    let model::Tags {
        codec,
        window,
        policing,
        silence,
        ..
    } = scenario.tags;
    let needs = egress.queue.spec.needs();
    TagConfig {
        codec: egress.queue.spec.codec(codec),
        window,
        policing,
        silence,
        rules: if has_tags(scenario) {
            rules(scenario, from)
        } else {
            Vec::new()
        },
        leaving: match &egress.tickets {
            Some(issue) => Leaving::Relabel(issue.rate),
            None if needs.writes_tags => Leaving::AsScheduled,
            None => Leaving::Keep,
        },
    }
}

fn has_tags(scenario: &Scenario) -> bool {
    let reads = |egress: &Egress| {
        let needs = egress.queue.spec.needs();
        egress.tickets.is_some() || needs.reads_tags || needs.writes_tags
    };
    let mut links = scenario.links.iter().flat_map(|link| &link.egress);
    links.any(reads) || scenario.flows.iter().any(|flow| flow.share.is_some())
}

/// Tickets for the flows that the node sends, none for all else of its own: the kernel numbers what TCP sends, and that
/// would be read as tickets. Forwarded packets stay unchanged.
fn rules(scenario: &Scenario, node: usize) -> Vec<Rule> {
    let own = Some(IpAddr::V4(node_address(node)));
    let mut rules = Vec::new();
    let mut is_host = false;
    for (index, flow) in scenario.flows.iter().enumerate() {
        is_host |= flow.from == node || flow.to == node;
        if let Some(model::Share::Tickets(rate)) = flow.share
            && flow.from == node
        {
            rules.push(Rule {
                from: own,
                port: Some(wire::port(index)),
                share: Share::Together(rate),
            });
        }
    }
    if is_host {
        rules.push(Rule {
            from: own,
            port: None,
            share: Share::Nothing,
        });
    }
    rules
}
