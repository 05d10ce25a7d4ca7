// SPDX-License-Identifier: MIT OR Apache-2.0
//! SBPN1: by class, then by deadline; a datagram that cannot arrive in time at its turn is dropped.
//!
//! Source: I. McDonald, R. Nelson, "Application-level QoS: Improving Video Conferencing Quality through Sending the Best Packet Next"
//! (University of Waikato), sections 3.2 and 4.3.
//!
//! | paper | here |
//! | --- | --- |
//! | priority | [`Datagram::class`](super::Datagram), 0 first |
//! | expiry time | [`Datagram::deadline`](super::Datagram) |
//! | current time + RTT / 2 > expiry time | late, looked at in [`Sender::poll_transmit`](super::Sender) |
//!
//! Departures: the paper is silent on a full queue. Its kernel refused every arrival at a full one, and so an audio datagram because of
//! video that would be sent after it. Here the last in order is dropped; [`Sbpn1::when_full`] can be [`WhenFull::Refuse`].

use super::{Key, Policy, Waiting, WhenFull, WhenLate, by_class_and_deadline};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sbpn1 {
    /// The datagram to drop for a new one.
    pub when_full: WhenFull,
}

impl Default for Sbpn1 {
    fn default() -> Self {
        Self {
            when_full: WhenFull::EvictWorst,
        }
    }
}

impl Policy for Sbpn1 {
    fn key(&self, waiting: &Waiting) -> Key {
        by_class_and_deadline(&waiting.datagram)
    }

    fn when_full(&self) -> WhenFull {
        self.when_full
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::Discard
    }
}
