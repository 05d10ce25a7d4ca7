// SPDX-License-Identifier: MIT OR Apache-2.0
//! First in, first out: what a datagram socket does. A full queue refuses, and lateness does not matter.
//!
//! Source: "unmodified DCCP", the baseline of I. McDonald, R. Nelson, "Application-level QoS: Improving Video Conferencing Quality
//! through Sending the Best Packet Next" (University of Waikato), section 5; Linux's `DCCPQ_POLICY_SIMPLE`.
//!
//! Departures: none. Linux answers `EAGAIN` where the outcome here is [`Evicted`](super::Outcome::Evicted).

use super::{Key, Policy, Waiting, WhenFull, WhenLate};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fifo;

impl Policy for Fifo {
    fn key(&self, _waiting: &Waiting) -> Key {
        (0, 0)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Refuse
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::Send
    }
}
