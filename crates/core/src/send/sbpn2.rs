// SPDX-License-Identifier: MIT OR Apache-2.0
//! SBPN2: as SBPN1, but what cannot arrive in time is sent if nothing else waits, so that a controller that looks at what was received
//! does not lower its rate for want of data.
//!
//! Source: I. McDonald, R. Nelson, "Application-level QoS: Improving Video Conferencing Quality through Sending the Best Packet Next"
//! (University of Waikato), section 3.3; symbols as in [`sbpn1`](super::sbpn1).
//!
//! Departures: those of [`sbpn1`](super::sbpn1). The paper knows no frames; of a late one that waits alone its first part is sent.

use super::{Key, Policy, Waiting, WhenFull, WhenLate, by_class_and_deadline};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sbpn2 {
    /// The datagram to drop for a new one.
    pub when_full: WhenFull,
}

impl Default for Sbpn2 {
    fn default() -> Self {
        Self {
            when_full: WhenFull::EvictWorst,
        }
    }
}

impl Policy for Sbpn2 {
    fn key(&self, waiting: &Waiting) -> Key {
        by_class_and_deadline(&waiting.datagram)
    }

    fn when_full(&self) -> WhenFull {
        self.when_full
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::DiscardUnlessAlone
    }
}
