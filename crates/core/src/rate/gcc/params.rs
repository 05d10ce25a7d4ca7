// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of Google congestion control.

use crate::param::{self, Hundredths, Ranged, Visitor};
use crate::rate::Start;
use crate::units::Rate;

/// Parameters of Google congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GccParams {
    /// The longest payload of a packet, in bytes, at least 1.
    pub largest: u32,
    /// The target before the first feedback.
    pub first: Rate,
    /// Rate at which packets leave, in hundredths of the target.
    pub pacing: u32,
    /// Groups of packets, at most, whose gradients are added before they are compared with the threshold; 1: the draft's text.
    pub gain: u32,
    /// Whether trains of packets leave at twice the pace now and then, to find a higher rate.
    pub probes: bool,
    /// Whether the controller by losses counts.
    pub losses: bool,
    /// The least target of an encoder.
    pub least: Rate,
    /// The largest target of an encoder.
    pub most: Rate,
    /// Packets that the sender remembers at first: see [`SentLog`](crate::rate::sent::SentLog).
    pub remembered: u32,
    /// Knowledge of the path: the target is `rate` until feedback.
    pub start: Option<Start>,
}

impl Default for GccParams {
    /// The draft's constants; the gain of libwebrtc; an encoder of 50 kbit/s to 100 Mbit/s, first 300 kbit/s.
    fn default() -> Self {
        Self {
            largest: 1400,
            first: Rate::from_bps(300_000),
            pacing: 100,
            gain: 60,
            probes: true,
            losses: true,
            least: Rate::from_bps(50_000),
            most: Rate::from_bps(100_000_000),
            remembered: 4096,
            start: None,
        }
    }
}

impl GccParams {
    #[rustfmt::skip]
    pub(in crate::rate) fn fields(&mut self, visit: &mut Visitor<'_>) {
        let rates = Rate::from_bps(1000)..=Rate::from_bps(1_000_000_000_000);
        visit("first", "target before the first feedback", &mut Ranged(&mut self.first, rates.clone()));
        visit("pacing", "rate at which packets leave, by the target", &mut Hundredths(&mut self.pacing, 100..=1000));
        visit("gain", "groups of packets, at most, whose delay gradients are added for the threshold; 1 is the draft's text", &mut Ranged(&mut self.gain, 1..=1000));
        visit("probes", "whether trains of packets leave at twice the pace now and then, to find a higher rate", &mut param::flag(&mut self.probes));
        visit("losses", "whether the controller by losses counts beside that by delay", &mut param::flag(&mut self.losses));
        visit("least", "least target of an encoder", &mut Ranged(&mut self.least, rates.clone()));
        visit("most", "largest target of an encoder", &mut Ranged(&mut self.most, rates));
    }
}
