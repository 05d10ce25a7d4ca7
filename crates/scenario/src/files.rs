// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of the files that a scenario names, from their bytes: for `fuzz/`.

use makeway_core::units::Duration;

use crate::model::{Captured, Changes, Frame, Opportunities};
use crate::ns2::{self, Event};
use crate::pcap::Record;
use crate::{changes, pcap, trace};

/// A capture; the error is what is wrong.
pub fn capture(bytes: &[u8]) -> Result<Vec<Captured>, String> {
    pcap::parse(bytes)
}

/// A trace of frames, and when it repeats; the error is a line and what is wrong with it.
pub fn frames(text: &str) -> Result<(Vec<Frame>, Duration), (usize, String)> {
    trace::parse(text)
}

/// The rates of a link; the error likewise.
pub fn changes(text: &str) -> Result<Changes, (usize, String)> {
    changes::parse(text)
}

/// A trace of Mahimahi; the error likewise.
pub fn opportunities(text: &str) -> Result<Opportunities, (usize, String)> {
    changes::opportunities(text)
}

/// IP packets of a capture as they are in the file; the error is what is wrong.
pub fn records(
    bytes: &[u8],
    each: impl FnMut(&Record<'_>) -> Result<(), String>,
) -> Result<usize, String> {
    pcap::read(bytes, each)
}

/// Events of a trace of ns-2; the error is a line and what is wrong with it.
pub fn events(
    text: &str,
    each: impl FnMut(&Event<'_>) -> Result<(), String>,
) -> Result<(), (usize, String)> {
    ns2::read(text, each)
}
