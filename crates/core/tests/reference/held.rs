// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about the packets held: which queue is the shortest, which the longest, how much a flow and a user hold.

use makeway_core::packet::Packet;
use makeway_core::sched::Discipline;
use makeway_core::units::Bytes;

use super::{Held, Model};

impl Model {
    /// The first packet of the shortest queue among the flows that `may` be served.
    pub(super) fn shortest_of(&self, may: impl Fn(u32) -> bool) -> usize {
        let flow = self
            .held
            .iter()
            .map(|h| h.pkt.flow.0)
            .filter(|flow| may(*flow))
            .min_by_key(|flow| (self.bytes_of(*flow), self.flow_since[*flow as usize]));
        self.head(flow.expect("a flow may be served"))
    }

    pub(super) fn longest(&self) -> u32 {
        let mut flows: Vec<u32> = self.held.iter().map(|h| h.pkt.flow.0).collect();
        if self.config.discipline == Discipline::Hier {
            let mut users: Vec<u32> = flows.iter().map(|f| self.owner[*f as usize]).collect();
            // Bytes for the weight, over a common denominator of all weights.
            let all: u128 = (0..self.config.users)
                .map(|u| u128::from(self.weight(u)))
                .product();
            let load =
                |u: u32| u128::from(self.bytes_of_user(u)) * all / u128::from(self.weight(u));
            users.sort_by_key(|u| self.user_since[*u as usize]);
            let most = users.iter().map(|u| load(*u)).max();
            let user = users.into_iter().find(|u| Some(load(*u)) == most);
            flows.retain(|f| Some(self.owner[*f as usize]) == user);
        }
        flows.sort_by_key(|f| self.flow_since[*f as usize]);
        let most = flows.iter().map(|f| self.bytes_of(*f)).max();
        let longest = flows.into_iter().find(|f| Some(self.bytes_of(*f)) == most);
        longest.expect("something is held")
    }

    pub(super) fn head(&self, flow: u32) -> usize {
        let head = self.held.iter().position(|h| h.pkt.flow.0 == flow);
        head.expect("the flow is active")
    }

    pub(super) fn is_held(&self, flow: u32) -> bool {
        self.bytes_of(flow) > 0
    }

    pub(super) fn bytes_of(&self, flow: u32) -> u64 {
        let of = self.held.iter().filter(|h| h.pkt.flow.0 == flow);
        of.map(|h| self.cost(&h.pkt)).sum()
    }

    /// Small packets count more where a limit in packets would make them cheap.
    pub(super) fn cost(&self, pkt: &Packet) -> u64 {
        use Discipline::{Fq, Hier, Pfq, Sqf};
        let least = match self.config.discipline {
            Sqf => self.config.least_cost.get(),
            Hier | Fq | Pfq => 256,
            _ => 0,
        };
        pkt.len().get().max(least)
    }

    pub(super) fn bytes_of_user(&self, user: u32) -> u64 {
        let of = |h: &&Held| self.owner[h.pkt.flow.0 as usize] == user;
        self.held.iter().filter(of).map(|h| self.cost(&h.pkt)).sum()
    }

    /// The weight of the user that made the packet's flow active, or that of its own.
    pub(super) fn level(&self, pkt: &Packet) -> u32 {
        match self.is_held(pkt.flow.0) {
            true => self.weight(self.owner[pkt.flow.0 as usize]),
            false => self.weight(pkt.user().0),
        }
    }

    pub(super) fn weight(&self, user: u32) -> u32 {
        let set = self.config.weights.iter().rev().find(|(u, _)| u.0 == user);
        set.map_or(1, |(_, weight)| *weight)
    }

    pub(super) fn total(&self) -> Bytes {
        Bytes::new(self.held.iter().map(|h| h.pkt.len().get()).sum())
    }
}
