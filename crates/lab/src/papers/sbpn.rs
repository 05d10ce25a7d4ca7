// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of McDonald, Nelson, "Application-level QoS: Improving Video Conferencing Quality through Sending the Best Packet
//! Next", University of Waikato. Every verdict follows from the figures of this run.
//!
//! - [`runs`]: what is run, and what it is judged by;
//! - [`loss`], [`congestion`]: each statement, theirs and ours;
//! - [`tables`]: their charts and tables;
//! - [`guest`]: the kernel's DCCP as receiver.

mod congestion;
mod guest;
mod loss;
mod runs;
mod tables;

use super::claim::Claim;
use super::paper::Paper;
use crate::experiment::{Results, World};
use runs::{RTT_80, cells};

/// How it is run again.
pub const SBPN: Paper = Paper {
    id: "sbpn",
    title: "Send the best packet next, run again",
    source: "I. McDonald, R. Nelson, University of Waikato, Hamilton",
    worlds: &[World::Sim, World::Netns],
    shortened: "Each run has the paper's 60 s, of which the first 3 are not measured; 30 runs of each set-up as in the paper, 10 where a choice is changed.",
    full: "Each run has the paper's 60 s, of which the first 3 are not measured; 30 runs of each set-up as in the paper, 10 where a choice is changed.",
    cells,
    claims,
    beside: Some(guest::by_kernel),
};

const SETUP: &str = "two PCs and a router in simulated time; Ekiga's model over CCID 3 as Linux has it (RFC 4342, mean packet of ten, timer of 4 ms, a full queue refuses); deadline 200 ms";

/// Every statement, in the order of the paper; beside the kernel's TCP those of Fig. 4 and 5.
fn claims(r: &Results) -> Vec<Claim> {
    if !r.has(&RTT_80.key("fifo", 800)) {
        return congestion::kernel_claims(r);
    }
    vec![
        loss::fig1(r),
        loss::fig2(r),
        loss::fig3(r),
        congestion::fig4(r),
        congestion::fig5(r),
        congestion::fig6_7(r),
        congestion::fig8(r),
        guest::receiver_unchanged(r),
    ]
}

/// `+12.3`, in percent of the datagrams.
fn points(x: f64) -> String {
    format!("{:+.1}", x * 100.0)
}

fn at_loss(tenths: u32) -> String {
    format!("{} %", f64::from(tenths) / 10.0)
}

#[cfg(test)]
mod tests;
