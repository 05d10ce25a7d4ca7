// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces our qdiscs where makeway was built without them: there is never one.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;

use makeway_core::sched::{Discipline, Env};
use makeway_core::units::Rate;
use makeway_gateway::datapath::Stats;
use makeway_scenario::model::Egress;

pub(super) fn has_program(_: Discipline) -> bool {
    false
}

/// Has no value.
#[derive(Debug)]
pub(super) struct Ours(Infallible);

impl Ours {
    pub(super) fn load(_: &Egress, _: Rate, _: &Env, _: &[(IpAddr, u32)]) -> io::Result<Self> {
        Err(io::Error::other("makeway was built without BPF qdiscs"))
    }

    pub(super) fn kind(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn set_rate(&self, _: Rate) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn count(&self, _: &mut Stats) -> io::Result<()> {
        match self.0 {}
    }
}
