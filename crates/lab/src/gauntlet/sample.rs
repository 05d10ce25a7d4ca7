// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of one run.

use makeway_core::measure::jain;
use makeway_report::model::{FlowReport, Report};

/// Figures of one run; none where the case does not have it.
#[derive(Clone, Default)]
pub struct Sample {
    pub on_time: Option<f64>,
    pub freezes: Option<f64>,
    pub frozen_s: Option<f64>,
    pub delay_p50_ms: Option<f64>,
    pub delay_p99_ms: Option<f64>,
    pub rate_mbps: Option<f64>,
    pub r_factor: Option<f64>,
    pub mos: Option<f64>,
    pub goodput_mbps: Option<f64>,
    pub jain: Option<f64>,
    pub page_s: Option<f64>,
    pub page_last_s: Option<f64>,
    pub wait_p50_ms: Option<f64>,
    pub wait_p99_ms: Option<f64>,
}

/// A figure of it.
pub type Get = fn(&Sample) -> Option<f64>;

/// Whether the flows of this group are the call.
pub fn is_call(group: &str) -> bool {
    matches!(group, "call" | "video") || group.starts_with("call-")
}

impl Sample {
    pub fn of(report: &Report) -> Self {
        let (call, others): (Vec<&FlowReport>, Vec<_>) =
            (report.flows.iter()).partition(|flow| is_call(&flow.group));
        let rest: Vec<&FlowReport> = others
            .into_iter()
            .filter(|flow| flow.kind == "bulk")
            .collect();
        let mut sample = Self {
            rate_mbps: mbps(&call),
            goodput_mbps: mbps(&rest),
            ..Self::default()
        };
        sample.record_call(&call);
        sample.record_voice(report);
        sample.record_rest(&rest);
        sample
    }

    /// Figures of several flows: all their packets, and the longest delay.
    fn record_call(&mut self, call: &[&FlowReport]) {
        let (mut offered, mut on_time) = (0.0, 0.0);
        for flow in call {
            if let Some(media) = &flow.media {
                for class in &media.classes {
                    offered += class.offered as f64;
                    on_time += class.on_time as f64;
                    most(&mut self.delay_p50_ms, class.delay_ms.p50);
                    most(&mut self.delay_p99_ms, class.delay_ms.p99);
                    if let Some(freezes) = class.freezes {
                        *self.freezes.get_or_insert(0.0) += freezes.count as f64;
                        *self.frozen_s.get_or_insert(0.0) += freezes.seconds;
                    }
                }
            } else if let Some(datagrams) = &flow.datagrams {
                offered += datagrams.sent as f64;
                on_time += datagrams.on_time * datagrams.sent as f64;
                most(&mut self.delay_p50_ms, datagrams.delay_ms.p50);
                most(&mut self.delay_p99_ms, datagrams.delay_ms.p99);
            }
        }
        self.on_time = (offered > 0.0).then(|| on_time / offered);
    }

    /// Figures of the voice that sounds worst.
    fn record_voice(&mut self, report: &Report) {
        for voice in report.flows.iter().filter_map(|flow| flow.voice) {
            least(&mut self.r_factor, voice.r_factor);
            least(&mut self.mos, voice.mos);
        }
    }

    /// Jain's index is the least of the groups: what begins elsewhere, or ends, has another share. Waits are of transfers
    /// without an end: the mean of their medians, and the longest 99th percentile.
    fn record_rest(&mut self, rest: &[&FlowReport]) {
        let endless = || rest.iter().filter(|flow| flow.tasks.is_none());
        for flow in endless() {
            let group = rest.iter().filter(|other| other.group == flow.group);
            if let Some(fair) = jain(group.map(|flow| flow.goodput_bps)) {
                least(&mut self.jain, fair);
            }
        }
        let waits = || endless().filter_map(|flow| flow.queueing);
        let medians: f64 = waits().map(|wait| wait.p50_ms).sum();
        let count = waits().count();
        self.wait_p50_ms = (count > 0).then(|| medians / count as f64);
        for wait in waits() {
            most(&mut self.wait_p99_ms, wait.p99_ms);
        }
        let tasks = || rest.iter().filter_map(|flow| flow.tasks);
        let done: f64 = tasks().map(|tasks| tasks.done as f64).sum();
        let ms: f64 = tasks()
            .map(|tasks| tasks.completion_ms.mean * tasks.done as f64)
            .sum();
        if done > 0.0 {
            self.page_s = Some(ms / done / 1e3);
            for tasks in tasks() {
                most(&mut self.page_last_s, tasks.completion_ms.max / 1e3);
            }
        }
    }
}

fn most(to: &mut Option<f64>, value: f64) {
    *to = Some(to.map_or(value, |most| most.max(value)));
}

fn least(to: &mut Option<f64>, value: f64) {
    *to = Some(to.map_or(value, |least| least.min(value)));
}

fn mbps(flows: &[&FlowReport]) -> Option<f64> {
    let sum: f64 = flows.iter().map(|flow| flow.goodput_bps).sum();
    (!flows.is_empty()).then_some(sum / 1e6)
}
