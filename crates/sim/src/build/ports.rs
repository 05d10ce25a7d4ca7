// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports of links and stations, and radio channels.

use makeway_core::loss::{Loss, LossyLink};
use makeway_core::packet::UserId;
use makeway_core::sched::{self, Env, Limits};
use makeway_core::shaper::Shaper;
use makeway_core::ticket::Relabeller;
use makeway_core::units::{Duration, Instant};
use makeway_report::interval::Interval;
use makeway_scenario::model::{self, Egress, Issue, Queue, Scenario, Standard};

use super::seeds::Seeds;
use crate::error::RunError;
use crate::opportune::Opportune;
use crate::port::{Counts, Currency, FRAMING, Port, Way, port_number};
use crate::wlan::{Config, Medium, Reach};
use crate::world::{Cell, Changing, Mesh};

/// Every port, in the order of their numbers.
pub fn ports(scenario: &Scenario, interval: Interval, seeds: Seeds) -> Result<Vec<Port>, RunError> {
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
            add(port(scenario, link, both, number, seeds)?, egress.measure);
        }
    }
    for (index, wlan) in scenario.wlans.iter().enumerate() {
        let first = scenario.first_port(index) as u64;
        for number in first..first + wlan.stations.len() as u64 {
            add(station_port(scenario, wlan, number, seeds)?, wlan.measure);
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
    seeds: Seeds,
) -> Result<Port, RunError> {
    no_qdisc("link", &link.name, &egress.queue)?;
    let queue = &egress.queue;
    let env = Env {
        weights: weights(scenario, queue),
        ..egress.env(&scenario.tags, most(scenario), seeds.discipline(number))
    };
    let scheduler = sched::build(&queue.spec, &env)
        .map_err(|error| RunError::queue("link", &link.name, error))?;
    let way = Way {
        delay: egress.delay,
        jitter: egress.jitter.as_nanos() as f64,
        loss: LossyLink::new(egress.loss),
        rng: seeds.link(number),
    };
    let shaper = match &egress.changes.opportunities {
        Some(trace) => Shaper::new(None, Box::new(Opportune::new(trace.clone(), scheduler))),
        None => Shaper::new(egress.rate, scheduler),
    };
    Ok(Port::new(
        shaper,
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

/// Relabelling of tickets at a port, where its end is issued `own` and the other end of the link `other`.
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
    seeds: Seeds,
) -> Result<Port, RunError> {
    no_qdisc("wlan", &wlan.name, &wlan.queue)?;
    let queue = &wlan.queue;
    let env = Env {
        rate: Some(wlan.rate),
        framing: FRAMING,
        codec: scenario.tags.codec,
        weights: weights(scenario, queue),
        seed: seeds.discipline(number),
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
        rng: seeds.link(number),
    };
    Ok(Port::new(
        Shaper::new(None, scheduler),
        None,
        FRAMING,
        way,
        None,
    ))
}

/// The ports whose rates change.
pub fn changing(scenario: &Scenario) -> Vec<Changing> {
    let mut all = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for (end, egress) in link.egress.iter().enumerate() {
            let changes = &egress.changes;
            if !changes.steps.is_empty() && changes.opportunities.is_none() {
                all.push(Changing {
                    port: port_number(index, end),
                    changes: changes.clone(),
                    made: 0,
                });
            }
        }
    }
    all
}

/// The radio channels.
pub fn cells(scenario: &Scenario, seeds: Seeds) -> Vec<Cell> {
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
        let mut medium = Medium::new(config, reach, seeds.channel(number));
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
                None => Some(Mesh::new(stations, seeds.routers(number))),
            },
        }
    };
    scenario.wlans.iter().enumerate().map(cell).collect()
}
