// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet traces: captures, and the text of ns-2.

use std::path::Path;

pub use crate::ns2::Event;
pub use crate::pcap::Record;

use crate::error::ScenarioError;
use crate::pcap::LARGEST_CAPTURE;
use crate::{bytes_of, ns2, pcap, text_of};

/// Gives `each` the IP packets of a capture, pcap or pcapng of 256 MB at most, in the order of the file.
///
/// # Errors
/// The file cannot be read, the first record of it that is wrong, or an error of `each`.
pub fn capture(
    path: &Path,
    each: impl FnMut(&Record<'_>) -> Result<(), String>,
) -> Result<(), ScenarioError> {
    let place = path.display().to_string();
    let refuse = |message: String| ScenarioError {
        place: place.clone(),
        message,
    };
    let bytes = bytes_of(path, LARGEST_CAPTURE)
        .map_err(|e| refuse(format!("the capture cannot be read: {e}")))?;
    pcap::read(&bytes, each).map_err(refuse)?;
    Ok(())
}

/// Gives `each` the events of a trace of ns-2, of 256 MB at most, in the order of the file.
///
/// # Errors
/// The file cannot be read, the first line of it that is wrong, or an error of `each`.
pub fn ns2(
    path: &Path,
    each: impl FnMut(&Event<'_>) -> Result<(), String>,
) -> Result<(), ScenarioError> {
    let file = path.display();
    let refuse = |place: String, message: String| ScenarioError { place, message };
    let text = text_of(path, LARGEST_CAPTURE)
        .map_err(|e| refuse(file.to_string(), format!("the trace cannot be read: {e}")))?;
    ns2::read(&text, each).map_err(|(line, message)| refuse(format!("{file}:{line}"), message))
}
