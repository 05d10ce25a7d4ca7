// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of Wang, Liew, Lee, "ABRC: An End-to-End Rate Adaptation Scheme for Multimedia Streaming over Wireless LAN".
//! Every verdict follows from the figures of this run.
//!
//! - [`runs`]: the experiments;
//! - [`variants`]: the controller as printed, ours, and changes between them;
//! - [`tables`]: Tables 1 and 2, with what the estimate of the transmission time and the buffer do;
//! - [`dynamics`]: Fig. 2 and 3, and loss;
//! - [`many`]: several streams;
//! - [`others`]: what the paper says without figures.

mod dynamics;
mod many;
mod others;
mod runs;
mod tables;
mod variants;

use makeway_report::model::Report;
use makeway_report::summary::group;

use super::claim::Claim;
use super::figures::downloads;
use super::paper::Paper;
use crate::experiment::{Results, World};

/// How it is run again.
pub const ABRC: Paper = Paper {
    id: "abrc",
    title: "Adaptive-buffer rate control, run again",
    source: "W. Wang, S. C. Liew, J. Y. B. Lee, The Chinese University of Hong Kong",
    worlds: &[World::Sim],
    shortened: "All of the paper's set-ups for five minutes each.",
    full: "All of the paper's set-ups for five minutes each.",
    cells: runs::cells,
    claims,
    beside: None,
};

/// Every statement, in the order of the paper.
fn claims(r: &Results) -> Vec<Claim> {
    [
        tables::claims(r),
        dynamics::claims(r),
        many::claims(r),
        others::claims(r),
    ]
    .concat()
}

/// The stream's payload in Mbit/s; of several the sum.
fn stream(report: &Report) -> f64 {
    group(report, "stream").goodput_bps / 1e6
}

/// lambda_UDP / lambda_TCP.
fn ratio(report: &Report) -> f64 {
    stream(report) / downloads(report)
}

#[cfg(test)]
mod tests;
