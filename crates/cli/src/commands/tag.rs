// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway tag`: writes tickets on packets of an interface, or removes them, until it is ended.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use makeway_core::flow::Identity;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::ticket::TicketRate;
use makeway_core::units::Bytes;
use makeway_gateway::control::{Backend, UpConfig};
use makeway_gateway::datapath::{DatapathConfig, Leaving, Rule, Share, TagConfig};
use makeway_gateway::rules::Direction;

use super::instance::{Domain, secret_seed, stay, tickets};

const EXAMPLES: &str = "\
Examples:
  sudo makeway tag eth0 --tickets 500
      each connection in the egress of eth0 has 500 tickets/s
  sudo makeway tag lan0 --incoming --tickets 192.168.1.7=600 --tickets 300 --each src-host --policing
      at the edge: in the ingress of lan0, one host has 600 tickets/s and each other one 300,
      regardless of the tags that they wrote
  sudo makeway tag eth0 --tickets 443=900 --tickets 22=100
      packets of port 443 share 900 tickets/s, of port 22 share 100, all others have none
  sudo makeway tag wan0 --strip
      at the end of the domain: packets leave with identification 0 and flow label 0

Links that drop by tickets: `makeway up wan0 --rate 20mbit --discipline tred --tickets 900`.
See it: makeway status. End it: Ctrl-C, or makeway down eth0. If it is killed, traffic passes untagged.";

/// Writes tickets on packets: a source's share of links that drop by them (PPS), for `up --discipline tred`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Tag {
    /// The interface.
    interface: String,
    /// Tickets per second, 1 to 1000000: for each source (N), for all packets of a host (ADDRESS=N), for all
    /// of a port (PORT=N). May be repeated; addresses come before ports, ports before N. Packets without a match
    /// carry no tickets.
    #[arg(long, value_name = "[ADDRESS=|PORT=]N", value_parser = grant, required_unless_present = "strip")]
    tickets: Vec<Grant>,
    /// Source key of `--tickets N`: 5-tuple, src-port, src-host, dst-host, host-pair.
    #[arg(long, value_name = "IDENTITY", default_value = "5-tuple")]
    each: Identity,
    /// Removes tags.
    #[arg(long, conflicts_with_all = ["tickets", "policing"])]
    strip: bool,
    /// Tags the ingress of the interface instead of its egress.
    #[arg(long)]
    incoming: bool,
    #[command(flatten)]
    domain: Domain,
}

/// Recipient of `--tickets`, in the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Host(IpAddr),
    Port(u16),
    Each,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    who: Who,
    rate: TicketRate,
}

/// Starts, says so, and stays until it is ended. Exit status 1 if it could not start or go on.
pub fn run(args: &Tag) -> anyhow::Result<ExitCode> {
    let direction = match args.incoming {
        true => Direction::Ingress,
        false => Direction::Egress,
    };
    let config = UpConfig {
        interface: args.interface.clone(),
        // The kernel writes nothing on packets.
        backend: Backend::Nfqueue,
        directions: vec![(direction, config(args)?)],
        autorate: None,
    };
    stay(config)
}

fn config(args: &Tag) -> anyhow::Result<DatapathConfig> {
    // No backlog: packets leave as they arrive.
    const PACKETS: u32 = 1024;
    let limits = Limits {
        packets: PACKETS,
        bytes: Bytes::new(u64::from(PACKETS) << 16),
        // Sources and connections that are remembered.
        flows: 4096,
    };
    let spec = Discipline::Fifo.spec();
    Ok(DatapathConfig {
        tags: TagConfig {
            rules: rules(&args.tickets, args.each)?,
            leaving: match args.strip {
                true => Leaving::Strip,
                false => Leaving::Keep,
            },
            ..args.domain.config()?
        },
        any_queue: true,
        seed: secret_seed(),
        ..DatapathConfig::new(0, spec, limits, None)
    })
}

fn rules(grants: &[Grant], each: Identity) -> anyhow::Result<Vec<Rule>> {
    let mut grants = grants.to_vec();
    grants.sort_unstable();
    if let Some(pair) = grants.windows(2).find(|pair| pair[0].who == pair[1].who) {
        let [first, second] = [pair[0], pair[1]].map(|grant| grant.rate);
        bail!("--tickets has {first} and {second} for the same packets: keep one of them");
    }
    let mut rules: Vec<_> = grants
        .iter()
        .map(|&Grant { who, rate }| {
            let (from, port, share) = match who {
                Who::Host(host) => (Some(host), None, Share::Together(rate)),
                Who::Port(port) => (None, Some(port), Share::Together(rate)),
                Who::Each => (None, None, Share::Each(rate, each)),
            };
            Rule { from, port, share }
        })
        .collect();
    let each_is_due = grants.last().is_none_or(|last| last.who == Who::Each);
    if !each_is_due {
        rules.push(Rule {
            from: None,
            port: None,
            share: Share::Nothing,
        });
    }
    Ok(rules)
}

fn grant(text: &str) -> Result<Grant, String> {
    let Some((who, rate)) = text.rsplit_once('=') else {
        let rate = tickets(text)?;
        return Ok(Grant {
            who: Who::Each,
            rate,
        });
    };
    let host = || who.parse().map(Who::Host).ok();
    let port = || who.parse().ok().filter(|port| *port > 0).map(Who::Port);
    match host().or_else(port) {
        Some(who) => Ok(Grant {
            who,
            rate: tickets(rate)?,
        }),
        None => Err(format!(
            "`{who}` is neither an address nor a port from 1 to 65535: write 500, 192.168.1.7=500 or 443=500"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_before_ports_and_ports_before_each() {
        let grants =
            ["300", "443=900", "10.0.0.7=600", "fe80::1=5"].map(|text| grant(text).unwrap());
        let rules = rules(&grants, Identity::SrcHost).unwrap();
        let of = |rule: &Rule| (rule.from.map(|from| from.to_string()), rule.port);
        let expected = [
            (Some("10.0.0.7".into()), None),
            (Some("fe80::1".into()), None),
            (None, Some(443)),
            (None, None),
        ];
        assert_eq!(rules.iter().map(of).collect::<Vec<_>>(), expected);
        let rate = TicketRate::new(300).unwrap();
        assert_eq!(rules[3].share, Share::Each(rate, Identity::SrcHost));
    }

    #[test]
    fn what_no_rule_fits_carries_nothing() {
        let rules = rules(&[grant("443=900").unwrap()], Identity::FiveTuple).unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[1].share, Share::Nothing);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_could() {
        for text in ["0", "1000001", "many", "443=0", "443=-1"] {
            assert!(grant(text).unwrap_err().contains("1 to 1000000"), "{text}");
        }
        for text in ["host=5", "0=5", "65536=5", "=5"] {
            assert!(grant(text).unwrap_err().contains("443=500"), "{text}");
        }
        let twice = ["443=1", "443=2"].map(|text| grant(text).unwrap());
        assert!(rules(&twice, Identity::FiveTuple).is_err());
    }
}
