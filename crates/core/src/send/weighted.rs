// SPDX-License-Identifier: MIT OR Apache-2.0
//! By a score of class, deadline and size, the least first; late ones as under [`sbpn2`](super::sbpn2).
//!
//! Source: the further work in I. McDonald, R. Nelson, "Application-level QoS: Improving Video Conferencing Quality through Sending the
//! Best Packet Next" (University of Waikato), section 6, which names the idea and gives no formula.
//!
//! The score is a deadline, in ns, put off for what matters less:
//!
//! ```text
//! score = deadline + class * per_class + len * per_byte
//! ```
//!
//! All deadlines come nearer alike, so it stays while a datagram waits. With `per_class` beyond every lifetime this is the order of SBPN,
//! with both at zero it is earliest deadline first.
//!
//! Defaults, chosen by us. `per_class` is 100 ms, half of the lifetime that the paper gives its packets (section 4.2): audio passes all
//! video but that which has used up half of its time more, so that video is put off and does not starve. `per_byte` is 8 us, what a byte
//! takes at 1 Mbit/s: a datagram pays for the time for which it holds up the others (a full one 11 ms), so that of two that are
//! as urgent the short one leaves first, as in W. E. Smith's rule ("Various optimizers for single-stage production", 1956).

use super::{Key, Policy, Waiting, WhenFull, WhenLate};
use crate::units::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// By how much later a datagram counts for each class below the first.
    pub per_class: Duration,
    /// By how much later it counts for each byte of payload.
    pub per_byte: Duration,
    /// The datagram to drop for a new one.
    pub when_full: WhenFull,
}

impl Default for Weighted {
    fn default() -> Self {
        Self {
            per_class: Duration::from_millis(100),
            per_byte: Duration::from_micros(8),
            when_full: WhenFull::EvictWorst,
        }
    }
}

impl Policy for Weighted {
    fn key(&self, waiting: &Waiting) -> Key {
        let datagram = &waiting.datagram;
        let later = self.per_class * datagram.class.into() + self.per_byte * datagram.len.into();
        (0, (datagram.deadline + later).as_nanos())
    }

    fn when_full(&self) -> WhenFull {
        self.when_full
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::DiscardUnlessAlone
    }
}
