// SPDX-License-Identifier: MIT OR Apache-2.0
//! By class, then by deadline; datagrams that cannot arrive in time are dropped only when the queue is full, and sent in their turn otherwise.
//!
//! Source: the first half of the further work in I. McDonald, R. Nelson, "Application-level QoS: Improving Video Conferencing Quality
//! through Sending the Best Packet Next" (University of Waikato), section 6. The other half is [`late_last`](super::late_last).
//!
//! Departures: the paper does not say which of several late ones goes, nor what goes where none is late: here the one with the earliest
//! deadline, and what would leave last.

use super::{Key, Policy, Waiting, WhenFull, WhenLate, by_class_and_deadline};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscardWhenFull;

impl Policy for DiscardWhenFull {
    fn key(&self, waiting: &Waiting) -> Key {
        by_class_and_deadline(&waiting.datagram)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::EvictLate
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::Send
    }
}
