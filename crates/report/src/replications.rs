// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many runs of one scenario: each figure's mean, and how certain it is.
//!
//! The runs are independent, so the interval is Student's t over one value a run; it takes the values to
//! be about Gaussian (docs/sim.md).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::estimate::{Estimate, Unit};
use crate::model::Report;
use crate::summary;

mod comparison;
mod html;
mod table;

pub use comparison::{Comparison, Difference};

/// Version of the JSON form; raised when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;
/// Runs before a precision may end them: the deviation of fewer is mostly chance. Chosen by us.
pub const LEAST: usize = 5;
/// A loss known to this share of the packets is settled for any mean, so that a stream that
/// loses nothing does not ask for runs without end: half of what counts as negligible.
pub const LOSS_FLOOR: f64 = 0.0005;

/// Statistics of many runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replications {
    /// [`FORMAT`].
    pub format: u32,
    /// The scenario's title.
    pub title: String,
    /// `sim`.
    pub world: String,
    /// Version of the program.
    pub environment: BTreeMap<String, String>,
    /// Settings that differ from the file's.
    pub set: BTreeMap<String, String>,
    /// Measured seconds of each run.
    pub seconds: f64,
    /// False when fewer runs were made than were asked for.
    pub complete: bool,
    /// Probability that an interval holds the true mean.
    pub confidence: f64,
    /// If one was asked for.
    pub precision: Option<Precision>,
    /// Groups in the order of the scenario, then queues.
    pub figures: Vec<Figure>,
    /// In the order of [`Figure::values`].
    pub runs: Vec<Run>,
}

/// How precise the headline figures had to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Precision {
    /// Largest half-width, as a share of its mean.
    pub asked: f64,
    /// Whether each headline figure has it.
    pub reached: bool,
}

/// One run, so that it can be had again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The scenario's seed.
    pub seed: u64,
    /// Which run of this seed, from 1; 0 is the run that is not replicated.
    pub replication: u64,
    /// Fingerprint of the run, from its report.
    pub fingerprint: String,
}

/// One figure over all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// A group or a queue.
    pub of: String,
    /// Which figure.
    pub figure: Measure,
    /// Mean and interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Run by run; none where the run does not have it.
    pub values: Vec<Option<f64>>,
}

/// The figures of groups and queues; names say the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // Names and units are those of the report.
pub enum Measure {
    GoodputBps,
    Jain,
    Loss,
    DelayMeanMs,
    DelayP50Ms,
    DelayP99Ms,
    IpdvMeanMs,
    IpdvP99Ms,
    ThroughputBps,
    Utilisation,
    Drops,
    SojournMeanMs,
    RFactor,
    Mos,
    Asi,
    OnTime,
    Shown,
    TooLarge,
    Freezes,
    FrozenMs,
    DoneMeanMs,
    DoneLastMs,
}

impl Measure {
    /// Every one.
    pub const ALL: [Self; 22] = [
        Self::GoodputBps,
        Self::Jain,
        Self::Loss,
        Self::DelayMeanMs,
        Self::DelayP50Ms,
        Self::DelayP99Ms,
        Self::IpdvMeanMs,
        Self::IpdvP99Ms,
        Self::ThroughputBps,
        Self::Utilisation,
        Self::Drops,
        Self::SojournMeanMs,
        Self::RFactor,
        Self::Mos,
        Self::Asi,
        Self::OnTime,
        Self::Shown,
        Self::TooLarge,
        Self::Freezes,
        Self::FrozenMs,
        Self::DoneMeanMs,
        Self::DoneLastMs,
    ];

    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GoodputBps => "goodput",
            Self::Jain => "Jain's index",
            Self::Loss => "lost",
            Self::DelayMeanMs => "delay mean",
            Self::DelayP50Ms => "delay p50",
            Self::DelayP99Ms => "delay p99",
            Self::IpdvMeanMs => "IPDV mean",
            Self::IpdvP99Ms => "IPDV p99",
            Self::ThroughputBps => "throughput",
            Self::Utilisation => "used",
            Self::Drops => "dropped",
            Self::SojournMeanMs => "sojourn mean",
            Self::RFactor => "R-factor",
            Self::Mos => "MOS",
            Self::Asi => "ASI",
            Self::OnTime => "on time",
            Self::Shown => "shown",
            Self::TooLarge => "too large",
            Self::Freezes => "freezes",
            Self::FrozenMs => "frozen",
            Self::DoneMeanMs => "done after",
            Self::DoneLastMs => "all done after",
        }
    }

    /// As tables and JSON have it: the unit is at the end.
    pub const fn key(self) -> &'static str {
        match self {
            Self::GoodputBps => "goodput_bps",
            Self::Jain => "jain",
            Self::Loss => "loss",
            Self::DelayMeanMs => "delay_mean_ms",
            Self::DelayP50Ms => "delay_p50_ms",
            Self::DelayP99Ms => "delay_p99_ms",
            Self::IpdvMeanMs => "ipdv_mean_ms",
            Self::IpdvP99Ms => "ipdv_p99_ms",
            Self::ThroughputBps => "throughput_bps",
            Self::Utilisation => "utilisation",
            Self::Drops => "drops",
            Self::SojournMeanMs => "sojourn_mean_ms",
            Self::RFactor => "r_factor",
            Self::Mos => "mos",
            Self::Asi => "asi",
            Self::OnTime => "on_time",
            Self::Shown => "shown",
            Self::TooLarge => "too_large",
            Self::Freezes => "freezes",
            Self::FrozenMs => "frozen_ms",
            Self::DoneMeanMs => "done_mean_ms",
            Self::DoneLastMs => "done_last_ms",
        }
    }

    /// Its unit.
    pub const fn unit(self) -> Unit {
        match self {
            Self::GoodputBps | Self::ThroughputBps => Unit::Rate,
            Self::Jain | Self::RFactor | Self::Mos | Self::Asi => Unit::Index,
            Self::Loss | Self::Utilisation | Self::OnTime | Self::Shown => Unit::Share,
            Self::Drops | Self::TooLarge => Unit::Packets,
            Self::Freezes => Unit::Index,
            _ => Unit::Millis,
        }
    }

    /// Whether a precision is asked of it, and whether it has a chart.
    pub const fn headline(self) -> bool {
        matches!(self, Self::GoodputBps | Self::Loss | Self::DelayMeanMs)
    }
}

impl Figure {
    fn new(of: String, figure: Measure, values: Vec<Option<f64>>) -> Self {
        let estimate = Estimate::of(values.iter().flatten().copied());
        Self {
            of,
            figure,
            estimate,
            values,
        }
    }

    fn add(&mut self, value: Option<f64>) {
        self.values.push(value);
        self.estimate = Estimate::of(self.values.iter().flatten().copied());
    }

    /// Whether its half-width is at most `precision` of its mean, or a loss is known to [`LOSS_FLOOR`].
    pub fn settled(&self, precision: f64) -> bool {
        let floor = match self.figure {
            Measure::Loss => LOSS_FLOOR,
            _ => 0.0,
        };
        let bound = (precision * self.estimate.mean.abs()).max(floor);
        match self.estimate.half_width {
            Some(half) => half <= bound,
            // No run has it: more of them would not help.
            None => self.estimate.runs == 0,
        }
    }
}

impl Replications {
    /// Replications so far: the first.
    pub fn new(report: &Report) -> Self {
        let mut environment = report.environment.clone();
        environment.remove("fingerprint");
        let figures = figures(report)
            .into_iter()
            .map(|(of, figure, _)| Figure::new(of, figure, Vec::new()))
            .collect();
        let mut all = Self {
            format: FORMAT,
            title: report.title.clone(),
            world: report.world.clone(),
            environment,
            set: report.set.clone(),
            seconds: report.seconds,
            complete: true,
            confidence: 0.95,
            precision: None,
            figures,
            runs: Vec::new(),
        };
        all.add(report);
        all
    }

    /// The next replication of the same scenario.
    pub fn add(&mut self, report: &Report) {
        let values = figures(report);
        for (figure, (_, _, value)) in self.figures.iter_mut().zip(values) {
            figure.add(value);
        }
        let fingerprint = report.environment.get("fingerprint");
        self.runs.push(Run {
            seed: report.seed,
            replication: self.runs.len() as u64 + 1,
            fingerprint: fingerprint.cloned().unwrap_or_default(),
        });
    }

    /// The figures that a precision is asked of: goodput of each group, loss and mean delay of streams.
    pub fn headlines(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|f| f.figure.headline())
    }

    /// Whether there are [`LEAST`] runs, and each headline figure is as precise as is asked.
    pub fn settled(&self, precision: f64) -> bool {
        self.runs.len() >= LEAST && self.headlines().all(|f| f.settled(precision))
    }

    /// Whether the headline figures are as precise as was asked, and which are not, as a sentence.
    pub fn precise(&self) -> Option<String> {
        let precision = self.precision.as_ref()?;
        let asked = Unit::Share.show_value(precision.asked);
        if precision.reached {
            return Some(format!(
                "Known to {asked} of their mean: goodput of each group, loss and mean delay of each stream \
                 (a loss: or to {} of the packets).",
                Unit::Share.show_value(LOSS_FLOOR)
            ));
        }
        let open: Vec<String> = self
            .headlines()
            .filter(|f| !f.settled(precision.asked))
            .map(|f| {
                let shown = f.figure.unit().show(&f.estimate);
                format!("{} of {} ({shown})", f.figure.name(), f.of)
            })
            .collect();
        Some(match open.is_empty() {
            true => format!("{LEAST} runs at least are needed to tell a precision of {asked}."),
            false => format!(
                "After {} runs these are not known to {asked}: {}.",
                self.runs.len(),
                open.join(", ")
            ),
        })
    }

    /// `10 replications of 16 s, seed 1`.
    pub fn brief(&self) -> String {
        let seed = self.runs.first().map_or(0, |run| run.seed);
        format!(
            "{} replications of {:.0} s, seed {seed}; mean ± half-width of the 95 % interval",
            self.runs.len(),
            self.seconds
        )
    }

    /// As a table for a terminal.
    pub fn table(&self) -> String {
        table::replications(self)
    }

    /// As a page.
    pub fn html(&self) -> String {
        html::replications(self)
    }

    /// As JSON, ending in a newline.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("it holds only plain values");
        text + "\n"
    }
}

/// Figures of a run for each group and queue, always in the same order. `None`: the run does not have it.
pub fn figures(report: &Report) -> Vec<(String, Measure, Option<f64>)> {
    let mut figures = Vec::new();
    for group in summary::groups(report) {
        let mut add = |measure, value| figures.push((group.name.clone(), measure, value));
        add(Measure::GoodputBps, Some(group.goodput_bps));
        if group.flows > 1 {
            add(Measure::Jain, group.jain);
        }
        if let Some(tasks) = &group.tasks {
            let after = |ms: f64| (tasks.done > 0).then_some(ms);
            add(Measure::DoneMeanMs, after(tasks.completion_ms.mean));
            add(Measure::DoneLastMs, after(tasks.completion_ms.max));
        }
        if let Some(d) = &group.datagrams {
            // Packets that did not arrive have no delay.
            let delay = |ms: f64| (d.received > 0).then_some(ms);
            add(Measure::Loss, (d.sent > 0).then_some(d.loss));
            add(Measure::OnTime, (d.sent > 0).then_some(d.on_time));
            add(Measure::DelayMeanMs, delay(d.delay_ms.mean));
            add(Measure::DelayP50Ms, delay(d.delay_ms.p50));
            add(Measure::DelayP99Ms, delay(d.delay_ms.p99));
            add(Measure::IpdvMeanMs, delay(d.ipdv_ms.mean));
            add(Measure::IpdvP99Ms, delay(d.ipdv_ms.p99));
            if let Some(call) = &group.voice {
                add(Measure::RFactor, (d.sent > 0).then_some(call.r_factor));
                add(Measure::Mos, (d.sent > 0).then_some(call.mos));
            }
        }
        for class in &group.classes {
            let of = format!("{} {}", group.name, class.name);
            let mut add = |measure, value| figures.push((of.clone(), measure, value));
            let delay = |ms: f64| (class.received > 0).then_some(ms);
            add(Measure::OnTime, class.on_time_share());
            add(Measure::DelayMeanMs, delay(class.delay_ms.mean));
            add(Measure::DelayP99Ms, delay(class.delay_ms.p99));
            if let Some(freezes) = class.freezes {
                add(Measure::Shown, class.shown_share());
                add(Measure::TooLarge, Some(class.too_large as f64));
                add(Measure::Freezes, Some(freezes.count as f64));
                add(Measure::FrozenMs, Some(freezes.seconds * 1000.0));
            }
        }
    }
    figures.push(("all flows".into(), Measure::Asi, report.asi));
    for queue in &report.queues {
        let mut add = |measure, value| figures.push((queue.name.clone(), measure, value));
        add(Measure::ThroughputBps, Some(queue.throughput_bps));
        if queue.rate_bps > 0 {
            add(Measure::Utilisation, Some(queue.utilisation));
        }
        add(Measure::Drops, Some(queue.dropped() as f64));
        add(Measure::SojournMeanMs, queue.sojourn_ms.map(|s| s.mean));
    }
    figures
}

#[cfg(test)]
mod tests;
