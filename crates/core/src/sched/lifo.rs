// SPDX-License-Identifier: MIT OR Apache-2.0
//! Last in, first out: an example, kept to show how a discipline is added (docs/add-a-discipline.md). Nobody wants it on a link: while
//! packets come faster than they leave, the first of them wait for ever.
//!
//! Cost per packet: O(1).

use super::spec::Describe;
use super::{Backlog, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::Packet;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// It has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifoParams;

impl Describe for LifoParams {
    const NAME: &'static str = "lifo";
    const ABOUT: &'static str = "the newest packet first";

    fn needs(&self) -> Needs {
        Needs {
            reorders: true,
            ..Needs::default()
        }
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Lifo {
            held: Vec::with_capacity(env.limits.packets as usize),
            bytes: Bytes::ZERO,
            limits: env.limits,
        })
    }
}

/// A stack, drop-tail.
#[derive(Clone, Debug)]
pub struct Lifo {
    held: Vec<Packet>,
    bytes: Bytes,
    limits: Limits,
}

impl Scheduler for Lifo {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if let Some(reason) = self.limits.refusal(self.backlog(), &pkt) {
            return drops.push(pkt, reason);
        }
        self.bytes += pkt.len();
        self.held.push(pkt);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let pkt = self.held.pop()?;
        self.bytes -= pkt.len();
        Some(pkt)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.held.last().map(|pkt| pkt.arrived)
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.held.len() as u32,
            bytes: self.bytes,
        }
    }
}
