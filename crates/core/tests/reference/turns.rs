// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round robin: of flows in `fq`, `pfq` and `fq-codel`, of users in `hier`.

use makeway_core::packet::{DropReason, Packet};
use makeway_core::units::Instant;

use super::{Model, len};

impl Model {
    /// RFC 8290 §4.2, one flow after the other. Some in the lists may be empty.
    pub(super) fn fq_codel(&mut self, now: Instant) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let flow = *self.new.first().or(self.active.first())?;
            if self.deficit[flow as usize] > 0 && self.is_held(flow) {
                let sent = self.codel(now, flow, |other| other == flow);
                self.deficit[flow as usize] -= len(&sent);
                return Some(sent);
            }
            match is_new {
                true => self.new.remove(0),
                false => self.active.remove(0),
            };
            if self.deficit[flow as usize] <= 0 {
                self.deficit[flow as usize] += self.config.quantum.get() as i64;
                self.active.push(flow);
            } else {
                self.codels[flow as usize].empty();
                if is_new {
                    self.active.push(flow);
                }
            }
        }
    }

    /// Half of the bytes of a flow, or 64 packets of it.
    pub(super) fn give_up_half(&mut self, flow: u32) {
        let all = self.bytes_of(flow);
        for _ in 0..64 {
            let dropped = self.remove(self.head(flow));
            self.events.push((dropped, Some(DropReason::LongestQueue)));
            if (all - self.bytes_of(flow)) >= all / 2 {
                break;
            }
        }
    }

    /// Shreedhar and Varghese 1995, figure 1, one packet at a time. In the list of PFQ some flows only
    /// wait to leave it.
    pub(super) fn drr(&mut self) -> usize {
        loop {
            let flow = self.active[0];
            if !self.is_held(flow) {
                self.active.remove(0);
                continue;
            }
            if !self.granted {
                self.deficit[flow as usize] += self.config.quantum.get() as i64;
                self.granted = true;
            }
            let at = self.head(flow);
            let size = len(&self.held[at].pkt);
            if size <= self.deficit[flow as usize] {
                self.deficit[flow as usize] -= size;
                return at;
            }
            self.active.rotate_left(1);
            self.granted = false;
        }
    }

    /// Deficit round robin of users, the shortest queue of the one whose turn it is.
    pub(super) fn hierarchy(&mut self) -> usize {
        loop {
            let user = self.active[0];
            if !self.granted {
                self.deficit[user as usize] +=
                    self.config.quantum.get() as i64 * self.weight(user) as i64;
                self.granted = true;
            }
            let owner = self.owner.clone();
            let at = self.shortest_of(|flow| owner[flow as usize] == user);
            let size = len(&self.held[at].pkt);
            if size <= self.deficit[user as usize] {
                self.deficit[user as usize] -= size;
                return at;
            }
            self.active.rotate_left(1);
            self.granted = false;
        }
    }

    pub(super) fn activate(&mut self, i: u32) {
        if !self.active.contains(&i) {
            self.active.push(i);
            self.deficit[i as usize] = 0;
        }
    }

    pub(super) fn deactivate(&mut self, i: u32) {
        if self.active.first() == Some(&i) {
            self.granted = false;
        }
        self.active.retain(|j| *j != i);
        self.deficit[i as usize] = 0;
    }
}
