//! First in, first out: what a socket does. A full queue refuses, lateness does not matter.

use super::{Key, Policy, Waiting, WhenFull, WhenLate};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fifo;

impl Policy for Fifo {
    fn key(&self, waiting: &Waiting) -> Key {
        (waiting.id.0, 0)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Refuse
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::Send
    }
}
