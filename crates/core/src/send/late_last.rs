// SPDX-License-Identifier: MIT OR Apache-2.0
//! By class, then by deadline; what cannot arrive in time is sent only if nothing else waits, and is the first to go when the queue is
//! full.
//!
//! Source: the further work in I. McDonald, R. Nelson, "Application-level QoS: Improving Video Conferencing Quality through Sending the
//! Best Packet Next" (University of Waikato), section 6: discard when the buffer is full, send expired packets when there are no others.
//!
//! Departures: as in [`when_full`](super::when_full). Whether a datagram is late is looked at when its turn comes; what was late then
//! stays so, though the RTT may fall.

use super::{Key, Policy, Waiting, WhenFull, WhenLate, by_class_and_deadline};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateLast;

impl Policy for LateLast {
    fn key(&self, waiting: &Waiting) -> Key {
        by_class_and_deadline(&waiting.datagram)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::EvictLate
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::SendLast
    }
}
