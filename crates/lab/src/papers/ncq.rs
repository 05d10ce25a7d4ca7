// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of Mamatas, Tsaoussidis, "Differentiating Services with Non-Congestive Queuing (NCQ)", IEEE
//! Transactions on Computers 58(5), 2009. Every verdict follows from closed forms and the figures of this run.
//!
//! - [`theory`], [`strategies`]: section 4, closed forms, beside the simulator where they are of queues;
//! - [`corrections`]: the same with one equation corrected at a time;
//! - [`causes`]: Fig. 8, 9, 11 and 12 with one thing changed;
//! - [`ftp`], [`sensors`], [`voip`], [`incremental`]: scenarios 1 to 4 of section 5;
//! - [`index`]: the satisfaction index by other readings of its formula;
//! - [`search`]: which of the choices that the paper leaves open give its figures;
//! - [`variants`]: what section 6 leaves open.
//!
//! Each has its cells and its claims.

mod causes;
mod corrections;
mod ftp;
mod incremental;
mod index;
mod search;
mod sensors;
mod strategies;
mod theory;
mod variants;
mod voip;

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::claim::{Claim, Table};
use super::figures::{Figures, row};
use super::paper::Paper;
use crate::experiment::{Cell, Results, World};

/// How it is run again.
pub const NCQ: Paper = Paper {
    id: "ncq",
    title: "Non-congestive queuing, run again",
    source: "L. Mamatas, V. Tsaoussidis, IEEE Transactions on Computers 58(5), 2009",
    worlds: &[World::Sim, World::Netns],
    shortened: "All of the paper's set-ups, each as long as the paper's where it says; --full searches rate, delay and buffer besides.",
    full: "All of the paper's set-ups, each as long as the paper's where it says.",
    cells,
    claims,
    beside: None,
};

/// Cells of the joint search of rate, delay and buffer.
pub fn region_cells() -> Vec<Cell> {
    search::cells()
}

/// Its extent, and the region that fits.
pub fn region(r: &Results) -> (String, Vec<Table>) {
    (search::searched(), search::tables(r))
}

/// DropTail, and the paper's thresholds.
const QUEUES: [&str; 4] = ["fifo", "0.01", "0.03", "0.05"];

/// Favoured packets push others out of a full buffer: ours, at the paper's thresholds.
const PUSHING: [&str; 3] = ["0.01", "0.03", "0.05"];
/// They only go first, as the paper has it.
const PLAIN: [&str; 3] = ["plain-0.01", "plain-0.03", "plain-0.05"];

fn cells(full: bool, world: World) -> Vec<Cell> {
    let search = || match full {
        true => search::cells(),
        false => Vec::new(),
    };
    match world {
        World::Netns => voip::kernel_cells(),
        World::Sim | World::Vm => [
            theory::cells(),
            ftp::cells(),
            search(),
            sensors::cells(),
            voip::cells(),
            incremental::cells(),
            variants::cells(),
        ]
        .concat(),
    }
}

fn claims(r: &Results) -> Vec<Claim> {
    if !r.has(&variants::key("ncq")) {
        return voip::kernel_claims(r);
    }
    [
        theory::claims(r),
        strategies::CLOSED_FORMS.to_vec(),
        ftp::claims(r),
        sensors::claims(r),
        voip::claims(r),
        incremental::claims(r),
        variants::claims(r),
    ]
    .concat()
}

/// Some of a sweep's figures, for a sentence; its chart has all of them.
fn some(figures: &Figures, shown: impl Fn(&Estimate) -> String) -> String {
    let some = figures
        .iter()
        .filter(|(n, _)| [10, 50, 80, 100].contains(n));
    row(&some.copied().collect::<Figures>(), shown)
}

/// Setting that puts `queue` (of [`QUEUES`]) on `link`.
fn queue_on(link: &str, queue: &str) -> String {
    match queue {
        "fifo" => format!("link.{link}.queue.discipline=fifo"),
        plain if plain.starts_with("plain-") => format!(
            "link.{link}.queue.ncq={{ threshold = {}, push_out = false }}",
            &plain["plain-".len()..]
        ),
        threshold => format!("link.{link}.queue.ncq.threshold={threshold}"),
    }
}

/// As it is written in tables.
fn label(queue: &str) -> String {
    let (threshold, rest) = match queue.strip_prefix("plain-") {
        Some(threshold) => (threshold, " as printed"),
        None => (queue, ""),
    };
    match threshold.parse::<f64>() {
        Ok(threshold) => format!("NCQ {} %{rest}", threshold * 100.0),
        Err(_) => "DropTail".into(),
    }
}

/// R-factor of the calls with the paper's 94.2 instead of G.107's 93.2.
fn r_factor(report: &Report) -> f64 {
    let voice = group(report, "call").voice;
    voice.map_or(f64::NAN, |voice| voice.r_factor + 1.0)
}

/// Payload of all flows of a group, in kbit/s a flow.
fn kbit(report: &Report, name: &str) -> f64 {
    let group = group(report, name);
    group.goodput_bps / group.flows as f64 / 1e3
}

#[cfg(test)]
mod tests;
