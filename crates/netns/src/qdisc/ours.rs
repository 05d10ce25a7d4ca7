// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discipline of ours as a BPF qdisc.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use makeway_core::sched::{Discipline, Env};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::bpf;
use makeway_gateway::datapath::Stats;
use makeway_scenario::model::Egress;

pub(super) fn has_program(discipline: Discipline) -> bool {
    bpf::has_program(discipline)
}

/// A loaded kind of qdisc, of a name that no other has.
#[derive(Debug)]
pub(super) struct Ours(Box<bpf::Qdisc>);

impl Ours {
    pub(super) fn load(egress: &Egress, rate: Rate, env: &Env) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let kind = format!("makeway{}", NEXT.fetch_add(1, Ordering::Relaxed));
        // There are never more packets than this on these links, and a qdisc's bytes are bounded.
        let largest = egress.framing.wire(Bytes::new(super::MTU)).get();
        let mut limits = env.limits;
        let most = Bytes::new(u64::from(limits.packets) * largest);
        limits.bytes = limits.bytes.min(most);
        let config = bpf::Config {
            spec: egress.queue.spec.clone(),
            limits,
            rate: Some(rate),
            framing: egress.framing,
            identity: egress.queue.flows,
            users: egress.queue.users,
            weights: Vec::new(),
            codec: env.codec,
            seed: env.seed,
            stamps: None,
        };
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
