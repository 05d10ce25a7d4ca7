// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user of a packet, for disciplines that share between users.

use std::net::IpAddr;

use makeway_core::flow::{FlowKey, FlowTable, Identity};
use makeway_core::packet::UserId;
use makeway_core::sched::{Env, Needs};

use super::key;
use crate::datapath::{DatapathConfig, Queued};

/// Users by address, for disciplines that have any. User 0 stands for addresses unknown when the packet came: packets
/// that are not IP, and those held while the discipline was another.
pub(super) struct Users {
    identity: Identity,
    weights: Vec<(IpAddr, u32)>,
    /// The same by their ids, which they keep.
    by_id: Vec<(UserId, u32)>,
    seed: u64,
    table: Option<FlowTable<FlowKey, UserId>>,
}

impl Users {
    pub(super) fn new(config: &DatapathConfig) -> Self {
        Self {
            identity: config.users,
            weights: config.weights.clone(),
            by_id: Vec::new(),
            seed: config.seed,
            table: None,
        }
    }

    /// Makes the table when the discipline is the first to need it, and tells every discipline users and weights.
    pub(super) fn prepare(&mut self, needs: Needs, env: &mut Env) {
        if needs.users && self.table.is_none() {
            self.make(env.users);
        }
        env.weights.clone_from(&self.by_id);
    }

    pub(super) fn weights(&self) -> &[(IpAddr, u32)] {
        &self.weights
    }

    /// Other weights: of each user that has another one now, that one.
    pub(super) fn reweigh(&mut self, weights: &[(IpAddr, u32)]) -> Vec<(UserId, u32)> {
        self.weights = weights.to_vec();
        let Some(table) = &mut self.table else {
            return Vec::new();
        };
        let before = std::mem::take(&mut self.by_id);
        for &(address, weight) in weights {
            if let Some(held) = table.hold(&user_key(self.identity, address)) {
                self.by_id.push((held.id, weight));
            }
        }
        let has_one = |user: UserId| self.by_id.iter().any(|(other, _)| *other == user);
        let without = before.iter().filter(|(user, _)| !has_one(*user));
        let mut changed: Vec<_> = without.map(|&(user, _)| (user, 1)).collect();
        changed.extend(self.by_id.iter().filter(|one| !before.contains(one)));
        // Those with a weight are held already: they keep their ids.
        before.iter().for_each(|&(user, _)| {
            table.release(user);
        });
        changed
    }

    fn make(&mut self, users: u32) {
        let mut table = FlowTable::new(users, self.seed);
        // Held for ever: user 0, and users with a weight, keep their ids.
        table.hold(&FlowKey::OTHER);
        for &(address, weight) in &self.weights {
            if let Some(held) = table.hold(&user_key(self.identity, address)) {
                self.by_id.push((held.id, weight));
            }
        }
        self.table = Some(table);
    }

    pub(super) fn hold(&mut self, queued: &Queued<'_>) -> Option<UserId> {
        let Some(table) = &mut self.table else {
            return Some(UserId(0));
        };
        let key = key(self.identity, queued);
        if key == FlowKey::OTHER {
            return Some(UserId(0));
        }
        table.hold(&key).map(|held| held.id)
    }

    pub(super) fn release(&mut self, user: UserId) {
        if let Some(table) = &mut self.table
            && user != UserId(0)
        {
            table.release(user);
        }
    }
}

/// The key that a packet of the user at `address` has.
fn user_key(identity: Identity, address: IpAddr) -> FlowKey {
    FlowKey::new(identity, address, address, 0, 0, 0)
}
