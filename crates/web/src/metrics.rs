// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot as metrics: <https://prometheus.io/docs/specs/om/open_metrics_spec/>, or the older text format of Prometheus.
//!
//! Labels are interface, direction, discipline, and reason of drops: as many series as the file has directions, never one for
//! each flow.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use makeway_gateway::control::protocol::{DirectionStatus, Status};
use makeway_gateway::datapath::SojournCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::sampler::Round;

/// A form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// The form for a scraper that sends this `Accept`.
    pub fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The text of a scrape.
pub fn encode(round: Arc<Round>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshotted(round)));
    let mut told = String::new();
    // A String takes all that is written.
    let _ = text::encode(&mut told, &registry);
    match format {
        Format::OpenMetrics => told,
        Format::Prometheus => older(&told),
    }
}

/// The older format names counters and infos by their samples, takes an info for a gauge, and knows no `# EOF`.
fn older(told: &str) -> String {
    let suffix = |kind: &str| match kind {
        "counter" => Some("_total"),
        "info" => Some("_info"),
        _ => None,
    };
    let longer: HashMap<&str, &str> = told
        .lines()
        .filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            Some((name, suffix(kind)?))
        })
        .collect();
    let mut out = String::with_capacity(told.len() + 16 * longer.len());
    for line in told.lines().filter(|line| *line != "# EOF") {
        let about = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|kind| Some((kind, line.strip_prefix(kind)?.split_once(' ')?)));
        match about.and_then(|(kind, (name, rest))| Some((kind, name, longer.get(name)?, rest))) {
            Some((kind, name, suffix, rest)) => {
                let rest = if rest == "info" { "gauge" } else { rest };
                out.extend([kind, name, suffix, " ", rest]);
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[derive(Debug)]
struct Snapshotted(Arc<Round>);

/// Reads a value of a direction.
type Read<T> = fn(&DirectionStatus) -> T;

const COUNTERS: [(&str, &str, Read<u64>); 4] = [
    ("arrived_packets", "Packets that arrived.", |one| {
        one.stats.packets_in
    }),
    (
        "arrived_bytes",
        "Bytes on the link of the packets that arrived.",
        |one| one.stats.bytes_in,
    ),
    ("sent_packets", "Packets sent on.", |one| {
        one.stats.packets_out
    }),
    (
        "sent_bytes",
        "Bytes on the link of the packets sent on.",
        |one| one.stats.bytes_out,
    ),
];

const GAUGES: [(&str, &str, Read<f64>); 5] = [
    (
        "rate_bytes_per_second",
        "Rate that is set, in bytes on the link; infinite: not limited.",
        |one| {
            one.stats
                .rate_bps
                .map_or(f64::INFINITY, |bps| bps as f64 / 8.0)
        },
    ),
    ("backlog_packets", "Packets in the queue.", |one| {
        one.stats.backlog_packets as f64
    }),
    ("backlog_bytes", "Bytes on the link in the queue.", |one| {
        one.stats.backlog_bytes as f64
    }),
    ("limit_bytes", "Most bytes that the queue holds.", |one| {
        one.limit_bytes as f64
    }),
    (
        "backlogged_flows",
        "Flows with packets in the queue.",
        |one| {
            let flows = one.stats.flows.iter();
            flows.filter(|flow| flow.backlog_packets > 0).count() as f64
        },
    ),
];

impl Snapshotted {
    fn directions(&self) -> impl Iterator<Item = (&Status, &DirectionStatus)> {
        let statuses = self
            .0
            .snapshot
            .interfaces
            .iter()
            .filter_map(|(_, one)| one.as_ref());
        statuses.flat_map(|status| status.directions.iter().map(move |one| (status, one)))
    }

    /// A metric with one series for each direction.
    fn each(
        &self,
        mut metric: MetricEncoder<'_>,
        mut encode: impl FnMut(MetricEncoder<'_>, &DirectionStatus) -> fmt::Result,
    ) -> fmt::Result {
        for (status, one) in self.directions() {
            let labels = labels(status, one);
            encode(metric.encode_family(&labels)?, one)?;
        }
        Ok(())
    }
}

impl Snapshotted {
    /// Metrics of the interfaces whose rates follow the link.
    fn encode_autorate(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let steered = || {
            let statuses = self.0.snapshot.interfaces.iter();
            let statuses = statuses.filter_map(|(_, one)| one.as_ref());
            statuses.filter_map(|one| Some((one.interface.as_str(), one.autorate.as_ref()?)))
        };
        if steered().next().is_none() {
            return Ok(());
        }
        let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
        let help = "Samples of delay, of reflectors, TCP and calls.";
        let mut all = encoder.encode_descriptor("makeway_autorate_samples", help, None, counter)?;
        for (interface, one) in steered() {
            let labels = [("interface", interface)];
            let mut metric = all.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&one.samples, None)?;
        }
        let help = "Falls of the rate, each for a queue before the link.";
        let mut all = encoder.encode_descriptor("makeway_autorate_cuts", help, None, counter)?;
        for (interface, one) in steered() {
            for side in &one.directions {
                let labels = [
                    ("interface", interface),
                    ("direction", side.direction.name()),
                ];
                let mut metric = all.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&side.cuts, None)?;
            }
        }
        let help = "Delay that stands before the link; no series without samples of late.";
        let name = "makeway_autorate_standing_seconds";
        let mut all = encoder.encode_descriptor(name, help, None, gauge)?;
        for (interface, one) in steered() {
            for side in &one.directions {
                // Without samples of late there is none.
                let Some(ms) = side.standing_ms else { continue };
                let labels = [
                    ("interface", interface),
                    ("direction", side.direction.name()),
                ];
                let mut metric = all.encode_family(&labels)?;
                metric.encode_gauge(&(ms / 1e3))?;
            }
        }
        Ok(())
    }
}

fn labels<'s>(status: &'s Status, one: &'s DirectionStatus) -> [(&'s str, &'s str); 3] {
    let discipline = one
        .stats
        .discipline
        .map_or("", |discipline| discipline.name());
    [
        ("interface", &status.interface),
        ("direction", one.direction.name()),
        ("discipline", discipline),
    ]
}

impl Collector for Snapshotted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
        let is_up = "Whether makeway shapes the interface: 1, or 0.";
        let mut up = encoder.encode_descriptor("makeway_up", is_up, None, gauge)?;
        for (asked, status) in &self.0.snapshot.interfaces {
            let labels = [("interface", asked.name.as_str())];
            let mut one = up.encode_family(&labels)?;
            one.encode_gauge(&i64::from(status.is_some()))?;
        }
        let about = "Holder of the packets: the kernel (bpf) or a process (nfqueue).";
        let mut info =
            encoder.encode_descriptor("makeway_backend", about, None, MetricType::Info)?;
        for (_, status) in &self.0.snapshot.interfaces {
            if let Some(status) = status {
                let backend = status.backend.to_string();
                let labels = [("interface", &status.interface), ("backend", &backend)];
                info.encode_info(&labels.map(|(key, value)| (key, value.as_str())))?;
            }
        }
        for (name, help, read) in COUNTERS {
            let name = format!("makeway_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, counter)?;
            self.each(metric, |mut metric, one| {
                metric.encode_counter::<NoLabelSet, _, u64>(&read(one), None)
            })?;
        }
        let help = "Packets dropped, by reason.";
        let name = "makeway_dropped_packets";
        let mut metric = encoder.encode_descriptor(name, help, None, counter)?;
        for (status, one) in self.directions() {
            let [interface, direction, discipline] = labels(status, one);
            for (reason, packets) in &one.stats.drops {
                let all = [
                    interface,
                    direction,
                    discipline,
                    ("reason", reason.as_str()),
                ];
                let mut metric = metric.encode_family(&all)?;
                metric.encode_counter::<NoLabelSet, _, u64>(packets, None)?;
            }
        }
        for (name, help, read) in GAUGES {
            let name = format!("makeway_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, gauge)?;
            self.each(metric, |mut metric, one| metric.encode_gauge(&read(one)))?;
        }
        self.encode_autorate(&mut encoder)?;
        let help =
            "Time in the queue of the packets that left it, or of those of them that are samples.";
        let name = "makeway_sojourn_seconds";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        self.each(metric, |mut metric, one| {
            let counts = &one.stats.sojourn_counts;
            let buckets = buckets(counts);
            metric.encode_histogram::<NoLabelSet>(counts.sum_s, counts.packets, &buckets, None)
        })
    }
}

/// Upper bounds in seconds, and the packets between each and the one before.
fn buckets(counts: &SojournCounts) -> Vec<(f64, u64)> {
    let bounds = SojournCounts::bounds_ns().map(|ns| ns as f64 / 1e9);
    let ends = counts.below.into_iter().chain([counts.packets]);
    let begins = [0].into_iter().chain(counts.below);
    let between = ends
        .zip(begins)
        .map(|(end, begin)| end.saturating_sub(begin));
    bounds
        .into_iter()
        .chain([f64::INFINITY])
        .zip(between)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interface;
    use crate::sampler::Snapshot;
    use makeway_core::sched::Discipline;
    use makeway_gateway::autorate::status::{Autorated, Steered};
    use makeway_gateway::control::Backend;
    use makeway_gateway::datapath::{FlowStats, Stats};

    fn round() -> Arc<Round> {
        let mut below = [40; SojournCounts::BOUNDS];
        below[..5].copy_from_slice(&[0, 10, 10, 30, 30]);
        let flow = FlowStats {
            flow: "udp 10.0.0.1:1 > 10.0.0.2:2".into(),
            backlog_packets: 3,
            ..FlowStats::default()
        };
        let one = DirectionStatus {
            limit_bytes: 300_000,
            stats: Stats {
                discipline: Some(Discipline::Makeway),
                rate_bps: Some(20_000_000),
                packets_in: 44,
                packets_out: 41,
                drops: [("longest-queue".into(), 2), ("too-large".into(), 1)].into(),
                backlog_packets: 3,
                sojourn_counts: SojournCounts {
                    below,
                    packets: 41,
                    sum_s: 12.5,
                },
                flows: vec![flow; 7],
                ..Stats::default()
            },
            ..DirectionStatus::default()
        };
        let status = Status {
            interface: "wan\"0".into(),
            backend: Backend::Bpf,
            directions: vec![one],
            ..Status::default()
        };
        let named = |name: &str| Interface {
            name: name.into(),
            ..Interface::default()
        };
        let snapshot = Snapshot {
            interfaces: vec![(named("wan\"0"), Some(status)), (named("lan0"), None)],
            ..Snapshot::default()
        };
        Arc::new(Round {
            snapshot,
            ..Round::default()
        })
    }

    #[test]
    fn every_figure_is_there_once_and_no_series_is_of_a_flow() {
        let told = encode(round(), Format::OpenMetrics);
        let labels = r#"interface="wan\"0",direction="egress",discipline="makeway""#;
        for line in [
            r#"makeway_up{interface="wan\"0"} 1"#.to_owned(),
            r#"makeway_up{interface="lan0"} 0"#.to_owned(),
            r#"makeway_backend_info{interface="wan\"0",backend="bpf"} 1"#.to_owned(),
            format!("makeway_arrived_packets_total{{{labels}}} 44"),
            format!("makeway_sent_packets_total{{{labels}}} 41"),
            format!(r#"makeway_dropped_packets_total{{{labels},reason="longest-queue"}} 2"#),
            format!("makeway_rate_bytes_per_second{{{labels}}} 2500000.0"),
            format!("makeway_backlogged_flows{{{labels}}} 7.0"),
            format!("makeway_sojourn_seconds_count{{{labels}}} 41"),
            format!("makeway_sojourn_seconds_sum{{{labels}}} 12.5"),
            "# TYPE makeway_sent_packets counter".to_owned(),
        ] {
            let found = told.lines().filter(|one| **one == line).count();
            assert_eq!(found, 1, "{line}\n{told}");
        }
        assert!(told.ends_with("# EOF\n"));
        assert!(!told.contains("10.0.0.1"), "{told}");
        // Twelve figures and two reasons of the one direction, the histogram, and three lines of interfaces.
        let series = told.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series, 3 + COUNTERS.len() + 2 + GAUGES.len() + 2 + 19);
    }

    #[test]
    fn rates_that_follow_the_link_have_figures_of_their_own() {
        assert!(!encode(round(), Format::OpenMetrics).contains("autorate"));
        let mut round = Arc::unwrap_or_clone(round());
        let status = round.snapshot.interfaces[0].1.as_mut().unwrap();
        status.autorate = Some(Autorated {
            samples: 31,
            directions: vec![Steered {
                cuts: 4,
                standing_ms: Some(12.5),
                ..Steered::default()
            }],
            ..Autorated::default()
        });
        let told = encode(Arc::new(round), Format::OpenMetrics);
        let labels = r#"interface="wan\"0",direction="egress""#;
        for line in [
            r#"makeway_autorate_samples_total{interface="wan\"0"} 31"#.to_owned(),
            format!("makeway_autorate_cuts_total{{{labels}}} 4"),
            format!("makeway_autorate_standing_seconds{{{labels}}} 0.0125"),
        ] {
            assert_eq!(
                told.lines().filter(|one| **one == line).count(),
                1,
                "{line}\n{told}"
            );
        }
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all_packets() {
        let told = encode(round(), Format::OpenMetrics);
        let buckets: Vec<u64> = told
            .lines()
            .filter(|line| line.starts_with("makeway_sojourn_seconds_bucket"))
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        assert_eq!(buckets[..6], [0, 10, 10, 30, 30, 40]);
        assert_eq!(buckets[17..], [40, 41]);
    }

    #[test]
    fn the_older_format_names_counters_by_their_samples() {
        assert_eq!(Format::accepted("text/plain"), Format::Prometheus);
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(Format::accepted(accept), Format::OpenMetrics);
        let told = encode(round(), Format::Prometheus);
        assert!(told.contains("# TYPE makeway_sent_packets_total counter\n"));
        assert!(told.contains("# HELP makeway_sent_packets_total Packets sent on.\n"));
        assert!(told.contains("# TYPE makeway_backend_info gauge\n"));
        assert!(told.contains("# TYPE makeway_backlog_packets gauge\n"));
        assert!(!told.contains("EOF"));
    }
}
