// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of flows, step by step.

use makeway_core::packet::{FlowId, UserId};

/// A step of a path: the port, and the ids of a packet there.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The port's number; [`Step::END`] has none.
    pub port: u32,
    /// The flow's id at the port.
    pub flow: FlowId,
    /// The user's id at the port.
    pub user: UserId,
    /// On a radio channel the station that it is for, perhaps over others.
    pub to: u16,
}

impl Step {
    /// End of a path.
    pub const END: Self = Self {
        port: u32::MAX,
        flow: FlowId(0),
        user: UserId(0),
        to: 0,
    };
}
