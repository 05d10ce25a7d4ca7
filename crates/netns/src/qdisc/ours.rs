// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discipline of ours as a BPF qdisc.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use makeway_core::sched::{Discipline, Env};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::bpf;
use makeway_gateway::datapath::Stats;
use makeway_scenario::model::Egress;

pub(super) fn has_program(discipline: Discipline) -> bool {
    bpf::has_program(discipline)
}

fn config(egress: &Egress, rate: Rate, env: &Env, weights: &[(IpAddr, u32)]) -> bpf::Config {
    // There are never more packets than this on these links, and a qdisc's bytes are bounded.
    let largest = egress.framing.wire(Bytes::new(super::MTU)).get();
    let mut limits = env.limits;
    let most = Bytes::new(u64::from(limits.packets) * largest);
    limits.bytes = limits.bytes.min(most);
    bpf::Config {
        spec: egress.queue.spec.clone(),
        limits,
        rate: Some(rate),
        framing: egress.framing,
        identity: egress.queue.flows,
        users: egress.queue.users,
        weights: match egress.queue.spec.needs().weights {
            true => weights.to_vec(),
            false => Vec::new(),
        },
        codec: env.codec,
        seed: env.seed,
        stamps: None,
    }
}

/// A loaded kind of qdisc, of a name that no other has.
#[derive(Debug)]
pub(super) struct Ours(Box<bpf::Qdisc>);

impl Ours {
    pub(super) fn load(
        egress: &Egress,
        rate: Rate,
        env: &Env,
        weights: &[(IpAddr, u32)],
    ) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let kind = format!("makeway{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let config = config(egress, rate, env, weights);
        let loaded = bpf::Qdisc::load(&kind, &config).map_err(io::Error::other)?;
        Ok(Self(Box::new(loaded)))
    }

    pub(super) fn kind(&self) -> &str {
        self.0.kind()
    }

    pub(super) fn set_rate(&self, rate: Rate) -> io::Result<()> {
        self.0.set_rate(Some(rate)).map_err(io::Error::other)
    }

    /// Adds its counters to `stats`.
    pub(super) fn count(&self, stats: &mut Stats) -> io::Result<()> {
        let counted = self.0.counters().map_err(io::Error::other)?;
        stats.packets_in = counted.packets_in;
        stats.packets_out = counted.packets_out;
        stats.bytes_out = counted.bytes_out;
        let drops = counted.drops();
        stats.drops = drops.map(|(why, n)| (why.to_owned(), n)).collect();
        stats.backlog_packets =
            (counted.packets_in - counted.packets_out).saturating_sub(stats.dropped());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SCENARIO: &str = r#"
duration = "1s"
[node.alice]
[node.client]
[link.line]
between = ["alice", "client"]
rate = "2mbit"
queue = { at = "alice", discipline = "fifo", limit = "40 packets" }
[flow.a]
kind = "cbr"
from = "alice"
to = "client"
rate = "1mbit"
"#;

    #[test]
    fn weights_are_given_to_the_programs_that_have_them() {
        let weights = [(IpAddr::from([10, 0, 0, 1]), 3)];
        let programs = Discipline::ALL.into_iter().filter(|one| has_program(*one));
        let given = programs.filter(|discipline| {
            let set = [format!("link.line.queue.discipline={discipline}")];
            let scenario =
                makeway_scenario::parse(SCENARIO, "one.toml", Path::new(""), &set).unwrap();
            let egress = &scenario.links[0].egress[0];
            let env = egress.env(&scenario.tags, 8, 7);
            let rate = Rate::from_bps(2_000_000);
            config(egress, rate, &env, &weights).weights == weights
        });
        let given: Vec<_> = given.collect();
        assert_eq!(given, [Discipline::Hier, Discipline::Makeway]);
    }
}
