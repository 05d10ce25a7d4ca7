// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of SCReAMv2.

use crate::param::{self, Hundredths, Ranged, Visitor};
use crate::rate::Start;
use crate::units::Rate;

/// Parameters of SCReAMv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreamParams {
    /// The longest payload of a packet, in bytes, at least 1.
    pub largest: u32,
    /// Whether marks are those of L4S (RFC 9331); otherwise a mark counts as one of RFC 3168.
    pub l4s: bool,
    /// Window by which bytes in flight may exceed the reference window, in hundredths of that.
    pub overhead: u32,
    /// The least target of an encoder.
    pub least: Rate,
    /// The largest target of an encoder.
    pub most: Rate,
    /// Packets that the sender remembers at first: see [`SentLog`](crate::rate::sent::SentLog).
    pub remembered: u32,
    /// Knowledge of the path: the window is `rate` for `rtt`, and at least the least one.
    pub start: Option<Start>,
}

impl Default for ScreamParams {
    /// The draft's constants; an encoder of 50 kbit/s to 100 Mbit/s.
    fn default() -> Self {
        Self {
            largest: 1400,
            l4s: false,
            overhead: 500,
            least: Rate::from_bps(50_000),
            most: Rate::from_bps(100_000_000),
            remembered: 4096,
            start: None,
        }
    }
}

impl ScreamParams {
    #[rustfmt::skip]
    pub(in crate::rate) fn fields(&mut self, visit: &mut Visitor<'_>) {
        let rates = Rate::from_bps(1000)..=Rate::from_bps(1_000_000_000_000);
        visit("l4s", "whether marks are those of L4S (RFC 9331), instead of those of RFC 3168", &mut param::flag(&mut self.l4s));
        visit("overhead", "bytes in flight at most, by the reference window", &mut Hundredths(&mut self.overhead, 100..=1000));
        visit("least", "least target of an encoder", &mut Ranged(&mut self.least, rates.clone()));
        visit("most", "largest target of an encoder", &mut Ranged(&mut self.most, rates));
    }
}
