// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strict priority between classes, first in, first out within one; lateness does not matter. When the queue is full the oldest of the
//! lowest waiting class makes room, for a new one of any class.
//!
//! Source: `DCCPQ_POLICY_PRIO` of Linux (`net/dccp/qpolicy.c`), which is the paper's queue without its expiry times: the
//! baseline between [`Fifo`](super::fifo::Fifo) and SBPN.
//!
//! Departures: none. Linux counts priorities upwards, here 0 is the most important.

use super::{Key, Policy, Waiting, WhenFull, WhenLate};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prio;

impl Policy for Prio {
    fn key(&self, waiting: &Waiting) -> Key {
        (waiting.datagram.class.into(), 0)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::EvictOldest
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::Send
    }
}
