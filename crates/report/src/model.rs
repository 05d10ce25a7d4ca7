// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a run. Names and units are the same from every world; rates name the bytes they count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the JSON form; raised when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// The report of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// The scenario's title.
    pub title: String,
    /// `netns`, `sim` or `vm`.
    pub world: String,
    /// Version of the program, kernel, and other facts that name the machine's part in the result.
    pub environment: BTreeMap<String, String>,
    /// Settings that differ from the file's.
    pub set: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// Measured interval in seconds, warm-up excluded.
    pub seconds: f64,
    /// False when the run was cut short; figures are of what there was.
    pub complete: bool,
    /// How late this machine was; none where time is not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Sentences about what makes figures doubtful: loss in this machine, flows that ended early.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Application Satisfaction Index over all flows ([`makeway_core::measure::asi`]), 0 to 1; none where a
    /// flow's queueing delay is not known.
    #[serde(default)]
    pub asi: Option<f64>,
    /// Flows in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// Measured queues.
    pub queues: Vec<QueueReport>,
    /// Stations of radio channels.
    #[serde(default)]
    pub radios: Vec<RadioReport>,
}

/// How late a machine ran what keeps a run's time, at worst, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// A sender, in ms.
    pub senders_ms: f64,
    /// A queue, in ms.
    pub queues_ms: f64,
    /// Tolerance of a run, in ms.
    pub limit_ms: f64,
    /// False beyond the limit: then the figures are the machine's as much as the discipline's.
    pub measured: bool,
}

impl Lateness {
    /// Lateness of senders and of queues, each of which may be late by `limit_ms`.
    pub fn new(senders_ms: f64, queues_ms: f64, limit_ms: f64) -> Self {
        Self {
            senders_ms,
            queues_ms,
            limit_ms,
            measured: senders_ms.max(queues_ms) <= limit_ms,
        }
    }
}

impl Report {
    /// How long the machine stalled, in ms, where that was more than the run bears: nothing was measured then.
    pub fn stalled_ms(&self) -> Option<f64> {
        let late = self.lateness.filter(|late| !late.measured)?;
        Some(late.senders_ms.max(late.queues_ms))
    }

    /// Without what happened over time: of many runs, figures are kept and series are not.
    pub fn without_series(mut self) -> Self {
        for flow in &mut self.flows {
            flow.goodput_series_bps = Vec::new();
            flow.loss_series = Vec::new();
            flow.delay_series_ms = Vec::new();
            flow.tasks_series = Vec::new();
            flow.rate_series_bps = Vec::new();
        }
        for queue in &mut self.queues {
            queue.backlog_series = Vec::new();
        }
        self
    }
}

/// One flow, as its receiver saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Name, `download-3`.
    pub name: String,
    /// Group, `download`.
    pub group: String,
    /// `bulk`, `rtp`, `cbr`, `poisson`, `on-off`, `sensor`, `pcap`, `media`.
    pub kind: String,
    /// Payload received, bit/s.
    pub goodput_bps: f64,
    /// IP packets received, bit/s, headers and retransmissions included. Where the world counts it.
    #[serde(default)]
    pub ip_bps: Option<f64>,
    /// Datagram flows only.
    pub datagrams: Option<DatagramReport>,
    /// Calls only: flows of which the scenario says so.
    #[serde(default)]
    pub voice: Option<VoiceReport>,
    /// Flows with a sender of their own only (`media`).
    #[serde(default)]
    pub media: Option<MediaReport>,
    /// Where the world knows when the flow's packets were sent.
    #[serde(default)]
    pub queueing: Option<QueueingReport>,
    /// Downloads with an end only.
    #[serde(default)]
    pub tasks: Option<TasksReport>,
    /// Goodput over time: one value a `series_step_s`, bit/s.
    pub goodput_series_bps: Vec<f64>,
    /// Lost share over time, 0 to 1, in the same steps; empty for bulk.
    pub loss_series: Vec<f64>,
    /// Largest one-way delay in each step, ms; empty for bulk.
    pub delay_series_ms: Vec<f64>,
    /// Tasks done by the end of each step; empty for flows that are none.
    #[serde(default)]
    pub tasks_series: Vec<f64>,
    /// Rate allowed by the sender's controller at the beginning of each step, payload, bit/s; empty for flows without one.
    #[serde(default)]
    pub rate_series_bps: Vec<f64>,
    /// Length of a step in seconds.
    pub series_step_s: f64,
}

/// An application's datagrams and what its sender did with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MediaReport {
    /// The most important first.
    pub classes: Vec<ClassReport>,
    /// Occupancy estimates of ABRC through a radio channel, in the measured interval.
    #[serde(default)]
    pub occupancy: Option<OccupancyReport>,
}

/// Error of a sender's estimates of its packets at an access point, at the time of the receiver's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OccupancyReport {
    /// Estimates.
    pub estimates: u64,
    /// Mean of estimate less truth, in packets.
    pub mean_error: f64,
    /// How large the error is, in packets.
    pub error: Quantiles,
    /// Share of the estimates that are wrong by two packets at most.
    pub within_two: f64,
}

/// Datagrams of one class, made in the measured interval. Each offered datagram was sent, expired, evicted, too large, or
/// waited at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// `audio`, `video`, `stream`.
    pub name: String,
    /// Made by the application.
    pub offered: u64,
    /// Given to the network.
    pub sent: u64,
    /// Sent when they could not be expected to arrive in time.
    pub sent_late: u64,
    /// Dropped by the sender because they could not arrive in time.
    pub expired: u64,
    /// Dropped by the sender because its queue was full.
    pub evicted: u64,
    /// Larger than a packet, or of a frame that is larger than the sender's queue.
    pub too_large: u64,
    /// Arrived.
    pub received: u64,
    /// Arrived before their deadline.
    pub on_time: u64,
    /// One-way delay of those that arrived, from creation on, in ms.
    pub delay_ms: Quantiles,
    /// Where the class has frames.
    pub freezes: Option<Freezes>,
}

impl ClassReport {
    /// Share of the created datagrams that arrived in time; `None` without any.
    pub fn on_time_share(&self) -> Option<f64> {
        (self.offered > 0).then(|| self.on_time as f64 / self.offered as f64)
    }

    /// Share of the frames made that were shown; `None` without any.
    pub fn shown_share(&self) -> Option<f64> {
        let freezes = self.freezes.filter(|freezes| freezes.made > 0)?;
        Some(freezes.frames as f64 / freezes.made as f64)
    }
}

/// How smoothly frames are shown, each once all of it has arrived and the frames that it depends on are decoded, if that is in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Freezes {
    /// Frames that the application made; 0 in reports of earlier versions, which did not count them.
    #[serde(default)]
    pub made: u64,
    /// Frames shown, of those.
    pub frames: u64,
    /// Gaps between two frames shown of three periods at least, and of a period and 150 ms.
    pub count: u64,
    /// How long those are together.
    pub seconds: f64,
}

/// How a call sounds, by the E-model (ITU-T G.107) for G.711. Of several calls: the means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VoiceReport {
    /// Mean time from the mouth to the ear in ms: one-way delay and the encoder's.
    pub mouth_to_ear_ms: f64,
    /// R-factor, 93.2 at best.
    pub r_factor: f64,
    /// Mean opinion score, 1 to 4.5.
    pub mos: f64,
}

/// One-way delay above the least that a packet of the flow had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueingReport {
    /// Mean in ms.
    pub mean_ms: f64,
    /// Median in ms; of downloads within 3 %.
    #[serde(default)]
    pub p50_ms: f64,
    /// 99th percentile in ms; of downloads within 3 %.
    #[serde(default)]
    pub p99_ms: f64,
    /// Largest in ms.
    pub max_ms: f64,
}

/// Tasks of a download, with the size of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TasksReport {
    /// Begun and ended inside the measured interval.
    pub done: u64,
    /// From the beginning of a task until its last byte had arrived, in ms.
    pub completion_ms: Quantiles,
}

/// A datagram flow: loss by sequence number, RFC 3393 delay variation, one-way delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatagramReport {
    /// Sent in the measured interval.
    pub sent: u64,
    /// Sent and received.
    pub received: u64,
    /// 1 - received / sent.
    pub loss: f64,
    /// Share of those sent that was received within 150 ms (ITU-T G.114).
    #[serde(default)]
    pub on_time: f64,
    /// Mean, p50, p99, largest one-way delay in ms.
    pub delay_ms: Quantiles,
    /// Absolute IPDV between consecutive packets (RFC 3393), in ms.
    pub ipdv_ms: Quantiles,
}

/// A distribution in brief.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// One egress queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueReport {
    /// `router -> client`.
    pub name: String,
    /// Discipline.
    pub discipline: String,
    /// Rate on the wire, bit/s, the mean where it changes; zero if not limited.
    pub rate_bps: u64,
    /// Sent on the wire over the measured interval, bit/s.
    pub throughput_bps: f64,
    /// Throughput / rate.
    pub utilisation: f64,
    /// Packets that came, over the whole run.
    pub packets_in: u64,
    /// Packets sent on, over the whole run.
    pub packets_out: u64,
    /// Packets marked (RFC 3168), over the whole run.
    #[serde(default)]
    pub marks: u64,
    /// Packets given priority (NCQ), over the whole run.
    #[serde(default)]
    pub favoured: u64,
    /// Packets sent behind a later one of their flow (RFC 4737 §3.3; NCQ), over the whole run.
    #[serde(default)]
    pub reordered: u64,
    /// Packets that came with less than K times the least tickets (TRED), over the whole run.
    #[serde(default)]
    pub expected: u64,
    /// Dropped packets by reason, over the whole run; `loss` are those that the link lost after sending.
    pub drops: BTreeMap<String, u64>,
    /// Sojourn time in ms, where the world sees it.
    pub sojourn_ms: Option<Quantiles>,
    /// Backlog over time in packets, one value a `series_step_s`.
    pub backlog_series: Vec<f64>,
    /// Length of a step in seconds.
    pub series_step_s: f64,
}

/// A station of a radio channel, over the whole run, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RadioReport {
    /// The channel.
    pub channel: String,
    /// The node.
    pub station: String,
    /// Seconds that it sent.
    pub send_s: f64,
    /// Seconds that it heard something and did not send.
    pub receive_s: f64,
    /// Seconds of neither, while it was on.
    pub idle_s: f64,
    /// Energy of that, in J.
    pub energy_j: f64,
    /// Data frames sent, every try.
    pub frames: u64,
    /// Data frames and RTS without an answer.
    pub failures: u64,
    /// Frames dropped after the last try.
    pub given_up: u64,
    /// Messages of routing sent (AODV): RREQ, RREP, RERR.
    pub routing: u64,
}

impl QueueReport {
    /// Mean time in the queue in ms; NaN where the world does not see it.
    pub fn mean_sojourn_ms(&self) -> f64 {
        self.sojourn_ms.map_or(f64::NAN, |sojourn| sojourn.mean)
    }

    /// Packets dropped by the queue; those that the link lost are not among them.
    pub fn dropped(&self) -> u64 {
        let given_up = self.drops.iter().filter(|(reason, _)| *reason != "loss");
        given_up.map(|(_, n)| n).sum()
    }
}
