// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queues of a scenario: a datapath at the egress of each link end that has something to do.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use makeway_core::sched::Env;
use makeway_core::ticket::TicketRate;
use makeway_core::units::{Duration, Rate};
use makeway_gateway::datapath::{
    Change, Datapath, DatapathConfig, DatapathHandle, Impairments, Stats, TagConfig,
};
use makeway_gateway::rules::{Direction, Rules};
use makeway_report::interval::Interval;
use makeway_report::model::{Quantiles, QueueReport};
use makeway_scenario::model::{Egress, Scenario};

use crate::namespace::Namespace;
use crate::network::Network;
use crate::qdisc::{self, Qdisc};
use crate::run::Backend;
use crate::tags;
use crate::topology::{interface, node_address};

/// Flows that a queue can tell apart: the scenario's, and room for control messages.
const SPARE_FLOWS: usize = 256;

/// A queue that could not be made or ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("queue {queue}: {why}")]
pub struct QueueError {
    queue: String,
    why: String,
}

/// A running queue of the scenario.
#[derive(Debug)]
pub(crate) struct Queue {
    name: String,
    /// Number of the link, and of its end.
    link_and_end: (usize, usize),
    /// Rate that it has now.
    rate: Option<Rate>,
    egress: Egress,
    carrier: Carrier,
    backlog: Vec<f64>,
    /// Changes of the rate, and of the tickets that the link is issued, that were made.
    changed: u64,
    issued: usize,
    begin: Option<Stats>,
    end: Option<Stats>,
    /// How late a departure was at worst when it was last looked at.
    late_ms: f64,
    /// The tool that made its rule.
    pub(crate) tool: String,
}

/// Its queue: a datapath or a qdisc.
#[derive(Debug)]
enum Carrier {
    Datapath(DatapathHandle),
    Kernel(Qdisc),
}

/// Starts what queues for each direction of a link that limits, delays, loses or is measured.
pub(crate) fn start(
    scenario: &Scenario,
    network: &Network,
    backend: Backend,
) -> Result<Vec<Queue>, QueueError> {
    let mut queues = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for end in 0..2 {
            let egress = &link.egress[end];
            let tags = tags::config(scenario, link.ends[end], egress);
            if !is_needed(egress) && !tags.writes() {
                continue;
            }
            let [from, to] = [link.ends[end], link.ends[1 - end]];
            let name = format!(
                "{} -> {}",
                scenario.nodes[from].name, scenario.nodes[to].name
            );
            let interfaces = [end, 1 - end].map(|end| interface(index, end));
            let nodes = [from, to].map(|node| network.node(node));
            let number = queues.len() as u64;
            let started = match backend {
                Backend::Nfqueue => {
                    let config = config(scenario, egress, tags, scenario.seed.wrapping_add(number));
                    config.and_then(|config| datapath(nodes[0], &interfaces[0], config).map(Some))
                }
                Backend::Kernel => {
                    let seed = scenario.seed.wrapping_add(number) as u32;
                    let env = egress.env(&scenario.tags, flows(scenario), seed.into());
                    let weights = weights(scenario, egress);
                    weights.and_then(|of| qdisc(nodes, &interfaces, egress, &env, &of))
                }
            };
            let started = started.map_err(|why| QueueError {
                queue: name.clone(),
                why,
            })?;
            let Some((carrier, tool)) = started else {
                continue;
            };
            queues.push(Queue {
                name,
                link_and_end: (index, end),
                rate: egress.rate,
                egress: egress.clone(),
                carrier,
                backlog: Vec::new(),
                changed: 0,
                issued: 0,
                begin: None,
                end: None,
                late_ms: 0.0,
                tool,
            });
        }
    }
    Ok(queues)
}

fn datapath(
    node: &Namespace,
    interface: &str,
    config: DatapathConfig,
) -> Result<(Carrier, String), String> {
    let start = || {
        let datapath = Datapath::spawn(config).map_err(io::Error::other)?;
        let rules = Rules::install(interface, Direction::Egress, datapath.queue_num())
            .map_err(io::Error::other)?;
        datapath.mark_by(&rules).map_err(io::Error::other)?;
        let tool = rules.tool();
        // They end with the namespace.
        rules.forget();
        Ok((Carrier::Datapath(datapath), tool))
    };
    node.run(start).map_err(|error| error.to_string())
}

/// `None` where nothing is limited.
fn qdisc(
    [from, to]: [&Namespace; 2],
    [sends, receives]: &[String; 2],
    egress: &Egress,
    env: &Env,
    weights: &[(IpAddr, u32)],
) -> Result<Option<(Carrier, String)>, String> {
    let install = || {
        if egress.delay > Duration::ZERO || !egress.loss.is_none() {
            qdisc::wire(to, receives, egress)?;
        }
        let Some(rate) = egress.rate else {
            return Ok(None);
        };
        let qdisc = Qdisc::install(from, sends, egress, rate, env, weights)?;
        Ok(Some((Carrier::Kernel(qdisc), "tc".into())))
    };
    install().map_err(|error: io::Error| error.to_string())
}

fn is_needed(egress: &Egress) -> bool {
    egress.rate.is_some()
        || egress.delay > Duration::ZERO
        || egress.jitter > Duration::ZERO
        || !egress.loss.is_none()
        || egress.measure
}

/// At most, of both directions; a scenario has 32 000 ([`crate::topology::MOST`]).
fn flows(scenario: &Scenario) -> u32 {
    (scenario.flows.len() * 2 + SPARE_FLOWS) as u32
}

/// Weights of users by address.
fn weights(scenario: &Scenario, egress: &Egress) -> Result<Vec<(IpAddr, u32)>, String> {
    let weights = egress.queue.weights.iter();
    let each = weights.map(|(name, &weight)| {
        let node = scenario.nodes.iter().position(|node| node.name == *name);
        let node = node.ok_or_else(|| format!("the weight of `{name}` is of no node"))?;
        Ok((IpAddr::V4(node_address(node)), weight))
    });
    each.collect()
}

fn config(
    scenario: &Scenario,
    egress: &Egress,
    tags: TagConfig,
    seed: u64,
) -> Result<DatapathConfig, String> {
    let queue = &egress.queue;
    Ok(DatapathConfig {
        queue_num: 0,
        any_queue: true,
        spec: queue.spec.clone(),
        limits: egress.env(&scenario.tags, flows(scenario), seed).limits,
        rate: egress.rate,
        framing: egress.framing,
        identity: queue.flows,
        users: queue.users,
        weights: weights(scenario, egress)?,
        tags,
        impairments: Impairments {
            loss: egress.loss,
            delay: egress.delay,
            jitter: egress.jitter,
        },
        seed,
    })
}

/// The longest that a packet may be under way through all queues of the scenario.
pub(crate) fn longest_way(scenario: &Scenario) -> Duration {
    let mut longest = Duration::ZERO;
    for egress in scenario.links.iter().flat_map(|link| &link.egress) {
        longest += egress.delay + egress.jitter * 6;
        if let Some(rate) = egress.rate {
            let limits = egress.queue.limits;
            let most = u64::from(limits.packets).saturating_mul(1600);
            let held = limits.bytes.get().min(most);
            longest += makeway_core::units::Bytes::new(held) / rate;
        }
    }
    longest
}

impl Queue {
    /// Looks at the backlog for the series.
    pub(crate) fn sample(&mut self) -> Result<(), QueueError> {
        let stats = self.snapshot()?;
        self.backlog.push(stats.backlog_packets as f64);
        self.late_ms = stats.late_max_ms;
        Ok(())
    }

    /// How late a departure was at worst, in ms, as of the last sample.
    pub(crate) fn late_ms(&self) -> f64 {
        self.late_ms
    }

    /// Makes the last change of the rate and of the tickets that is due `at` ns after the start of traffic.
    pub(crate) fn follow(&mut self, at: u64) -> Result<(), QueueError> {
        let mut due = None;
        while let Some((when, rate)) = self.egress.changes.nth(self.changed)
            && when.as_nanos() <= at
        {
            due = Some(rate);
            self.changed += 1;
        }
        let mut tickets = None;
        let issues = self.egress.tickets.iter().flat_map(|issue| &issue.steps);
        for (_, rate) in issues
            .skip(self.issued)
            .take_while(|(when, _)| when.as_nanos() <= at)
        {
            tickets = Some(*rate);
            self.issued += 1;
        }
        if due.is_none() && tickets.is_none() {
            return Ok(());
        }
        self.rate = due.or(self.rate);
        self.change(due, tickets)
    }

    /// Number of the link, and of its end.
    pub(crate) fn link_and_end(&self) -> (usize, usize) {
        self.link_and_end
    }

    /// Rate now; `None`: not limited.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Bytes that have left, and that wait, at little cost.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        match &self.carrier {
            Carrier::Datapath(datapath) => {
                let traffic = datapath.traffic(Direction::Egress);
                (traffic.bytes_out, traffic.backlog)
            }
            Carrier::Kernel(qdisc) => {
                let stats = qdisc.stats().unwrap_or_default();
                (stats.bytes_out, stats.backlog_bytes)
            }
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) -> Result<(), QueueError> {
        self.rate = Some(rate);
        self.change(Some(rate), None)
    }

    fn change(&mut self, due: Option<Rate>, tickets: Option<TicketRate>) -> Result<(), QueueError> {
        let change = Change {
            rate: due.map(Some),
            tickets,
            ..Change::default()
        };
        let changed = match &mut self.carrier {
            Carrier::Datapath(datapath) => datapath.set(change).map_err(|e| e.to_string()),
            Carrier::Kernel(qdisc) => match due {
                Some(rate) => qdisc.set_rate(rate).map_err(|e| e.to_string()),
                None => Ok(()),
            },
        };
        changed.map_err(|why| QueueError {
            queue: self.name.clone(),
            why,
        })
    }

    /// The measured interval begins.
    pub(crate) fn begin(&mut self) -> Result<(), QueueError> {
        self.begin = Some(self.snapshot()?);
        Ok(())
    }

    /// The measured interval ends.
    pub(crate) fn end(&mut self) -> Result<(), QueueError> {
        let stats = self.snapshot()?;
        self.late_ms = stats.late_max_ms;
        self.end = Some(stats);
        Ok(())
    }

    /// Ends the datapath and tells what it did; `None` where nobody asked.
    pub(crate) fn finish(self, interval: Interval) -> Result<Option<QueueReport>, QueueError> {
        let name = self.name;
        let sees_sojourn = matches!(self.carrier, Carrier::Datapath(_));
        let (discipline, total) = match self.carrier {
            Carrier::Datapath(datapath) => (
                self.egress.queue.spec.discipline().to_string(),
                datapath.stop().map_err(|e| e.to_string()),
            ),
            Carrier::Kernel(qdisc) => (
                qdisc.discipline.clone(),
                qdisc.stats().map_err(|e| e.to_string()),
            ),
        };
        let total = total.map_err(|why| QueueError {
            queue: name.clone(),
            why,
        })?;
        if !self.egress.measure {
            return Ok(None);
        }
        let begin = self.begin.unwrap_or_default();
        let end = self.end.unwrap_or_default();
        let seconds = end.seconds - begin.seconds;
        let bits = end.bytes_out.saturating_sub(begin.bytes_out) as f64 * 8.0;
        let throughput_bps = if seconds > 0.0 { bits / seconds } else { 0.0 };
        let [from, to] = [interval.from(), interval.to()].map(Duration::from_nanos);
        let rate_bps = self.egress.mean_bps(from, to).round() as u64;
        let utilisation = match rate_bps {
            0 => 0.0,
            bps => throughput_bps / bps as f64,
        };
        let drops: BTreeMap<_, _> = total.drops.into_iter().filter(|&(_, n)| n > 0).collect();
        Ok(Some(QueueReport {
            name,
            discipline,
            rate_bps,
            throughput_bps,
            utilisation,
            packets_in: total.packets_in,
            packets_out: total.packets_out,
            marks: total.marked_out.saturating_sub(total.marked_in),
            favoured: total.favoured,
            reordered: total.reordered,
            expected: total.expected,
            drops,
            sojourn_ms: sees_sojourn.then_some(Quantiles {
                mean: total.sojourn.mean_ms,
                p50: total.sojourn.p50_ms,
                p99: total.sojourn.p99_ms,
                max: total.sojourn.max_ms,
            }),
            backlog_series: self.backlog,
            series_step_s: interval.step().as_secs_f64(),
        }))
    }

    fn snapshot(&self) -> Result<Stats, QueueError> {
        let stats = match &self.carrier {
            Carrier::Datapath(datapath) => datapath.snapshot().map_err(|e| e.to_string()),
            Carrier::Kernel(qdisc) => qdisc.stats().map_err(|e| e.to_string()),
        };
        stats.map_err(|why| QueueError {
            queue: self.name.clone(),
            why,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use makeway_core::flow::Identity;
    use makeway_core::param::one_of;
    use makeway_core::sched::Discipline;
    use makeway_gateway::datapath::Leaving;

    use super::*;

    const SCENARIO: &str = r#"
duration = "1s"
tags = { bits = 6 }
[node.alice]
[node.client]
[link.line]
between = ["alice", "client"]
rate = "2mbit"
queue = { at = "alice", discipline = "fifo", limit = "40 packets", users = "src-host", weights = { alice = 3 } }
[flow.a]
kind = "cbr"
from = "alice"
to = "client"
rate = "1mbit"
"#;

    /// `makeway-gateway` tests the datapath; this, that it is given all of the configuration.
    #[test]
    fn a_datapath_is_told_all_that_a_discipline_needs() {
        for discipline in Discipline::ALL {
            let set = [format!("link.line.queue.discipline={discipline}")];
            let scenario =
                makeway_scenario::parse(SCENARIO, "one.toml", Path::new(""), &set).unwrap();
            let egress = &scenario.links[0].egress[0];
            let tags = tags::config(&scenario, 0, egress);
            let config = config(&scenario, egress, tags, 7).unwrap();
            let env = egress.env(&scenario.tags, flows(&scenario), 7);
            assert_eq!(
                (&config.spec, config.limits),
                (&egress.queue.spec, env.limits)
            );
            assert_eq!(
                (config.rate, config.framing, config.seed),
                (env.rate, env.framing, env.seed)
            );
            assert_eq!(config.weights, [(IpAddr::V4(node_address(0)), 3)]);
            assert_eq!(config.users, Identity::SrcHost);
            assert_eq!(config.tags.codec, config.spec.codec(scenario.tags.codec));
            let writes = config.tags.leaving == Leaving::AsScheduled;
            assert_eq!(writes, config.spec.needs().writes_tags, "{discipline}");
        }
    }

    #[test]
    fn a_discipline_that_no_kernel_has_is_refused_with_those_that_one_has_and_so_are_its_weights() {
        let refusals = Discipline::ALL.map(|discipline| {
            let read = |text: &str| {
                let set = [format!("link.line.queue.discipline={discipline}")];
                makeway_scenario::parse(text, "one.toml", Path::new(""), &set).unwrap()
            };
            let weighted = read(SCENARIO);
            let plain = read(&SCENARIO.replace(", weights = { alice = 3 }", ""));
            let refusal = |scenario: &Scenario| qdisc::refusal(&scenario.links[0].egress[0]);
            let is_refused = refusal(&weighted).is_some_and(|why| why.contains("weights"));
            let has = makeway_gateway::bpf::has_program(discipline);
            let takes = discipline.spec().needs().weights;
            assert_eq!(is_refused, takes && !has, "{discipline}");
            (discipline, refusal(&plain))
        });
        let taken = refusals.iter().filter(|(_, why)| why.is_none());
        let names: Vec<_> = taken.map(|(discipline, _)| discipline.name()).collect();
        assert!(names.contains(&"fifo") && names.contains(&"cake"));
        let choice = format!("is in no kernel: choose {}, or write", one_of(&names));
        for (discipline, why) in refusals {
            let has = makeway_gateway::bpf::has_program(discipline);
            if let Some(why) = why {
                assert!(!has && why.contains(&choice), "{discipline}: {why}");
            }
        }
    }
}
