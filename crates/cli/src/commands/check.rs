// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway check`: reads a scenario and describes the run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use makeway_core::rate::Config;
use makeway_core::rate::tfrc::Revision;
use makeway_scenario::model::{Egress, Pace, Scenario, Source};
use serde_json::{Value, json};

use crate::text;

/// Reads a scenario and describes the run, without running it.
#[derive(Args)]
pub struct Check {
    /// The scenario file.
    file: PathBuf,
    /// Changes a value of the file: `link.line.rate=5mbit`, `flow.download.count=20`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it. Exit status 1 if the scenario is refused.
pub fn run(args: &Check) -> anyhow::Result<ExitCode> {
    let scenario = makeway_scenario::load(&args.file, &args.set)?;
    if args.json {
        text::say!("{:#}", value(&scenario));
    } else {
        text::say!("{}", makeway_scenario::explain(&scenario).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn value(s: &Scenario) -> Value {
    let name = |i: usize| &s.nodes[i].name;
    let egress = |from: usize, to: usize, e: &Egress| {
        json!({
            "from": name(from), "to": name(to),
            "rate_bps": e.rate.map(|r| r.bps()),
            "delay_ms": e.delay.as_millis_f64(),
            "jitter_ms": e.jitter.as_millis_f64(),
            "loss": e.loss.mean(),
            "loss_model": { "p": e.loss.p, "r": e.loss.r, "bad": e.loss.bad, "good": e.loss.good },
            "changes": e.changes.steps.iter()
                .map(|(at, rate)| json!([at.as_secs_f64(), rate.bps()]))
                .collect::<Vec<_>>(),
            "changes_every_s": e.changes.every.map(|every| every.as_secs_f64()),
            "opportunities": e.changes.opportunities.as_ref().map(|trace| trace.count()),
            "discipline": e.queue.spec.discipline().name(),
            "limit_packets": e.queue.limits.packets,
            "limit_bytes": e.queue.limits.bytes.get(),
            "flows": e.queue.flows.name(),
            "measured": e.measure,
        })
    };
    json!({
        "title": s.title,
        "duration_s": s.duration.as_secs_f64(),
        "warmup_s": s.warmup.as_secs_f64(),
        "seed": s.seed,
        "set": s.set,
        "nodes": s.nodes.iter().map(|n| &n.name).collect::<Vec<_>>(),
        "links": s.links.iter().map(|l| json!({
            "name": l.name,
            "egress": [
                egress(l.ends[0], l.ends[1], &l.egress[0]),
                egress(l.ends[1], l.ends[0], &l.egress[1]),
            ],
        })).collect::<Vec<_>>(),
        "wlans": s.wlans.iter().map(|w| json!({
            "name": w.name,
            "stations": w.stations.iter().map(|n| name(*n)).collect::<Vec<_>>(),
            "access_point": w.access_point.map(|station| name(w.stations[station])),
            "rate_bps": w.rate.bps(),
            "places_m": w.places,
            "discipline": w.queue.spec.discipline().name(),
            "limit_packets": w.queue.limits.packets,
        })).collect::<Vec<_>>(),
        "flows": s.flows.iter().map(|f| json!({
            "name": f.name, "group": f.group,
            "from": name(f.from), "to": name(f.to),
            "start_s": f.start.as_secs_f64(),
            "stop_s": f.stop.map(|t| t.as_secs_f64()),
            "source": source(&f.source),
        })).collect::<Vec<_>>(),
        "warnings": makeway_scenario::warnings(s),
    })
}

fn controller(rate: &Config) -> Value {
    match rate {
        Config::Fixed(rate) => json!({ "kind": "fixed", "rate_bps": rate.bps() }),
        Config::External(rate) => json!({ "kind": "external", "rate_bps": rate.bps() }),
        Config::Tfrc(params) => json!({
            "kind": "tfrc",
            "rfc": match params.revision {
                Revision::Rfc3448 => 3448,
                Revision::Rfc4342 => 4342,
                Revision::Rfc5348 => 5348,
            },
            "damping": params.damping,
            "discounting": params.discounting,
            "faster_restart": params.faster_restart,
            "credit": params.credit,
            "granularity_ms": params.granularity.as_millis_f64(),
        }),
        Config::Ccid2(_) => json!({ "kind": "ccid2" }),
        Config::Abrc(params) => json!({ "kind": "abrc", "k": f64::from(params.share) / 100.0 }),
        Config::Scream(params) => json!({
            "kind": "scream",
            "l4s": params.l4s,
            "overhead": f64::from(params.overhead) / 100.0,
            "least_bps": params.least.bps(),
            "most_bps": params.most.bps(),
        }),
        Config::Gcc(params) => json!({
            "kind": "gcc",
            "first_bps": params.first.bps(),
            "pacing": f64::from(params.pacing) / 100.0,
            "gain": params.gain,
            "probes": params.probes,
            "losses": params.losses,
            "least_bps": params.least.bps(),
            "most_bps": params.most.bps(),
        }),
        other => json!({ "kind": other.to_string() }),
    }
}

fn source(source: &Source) -> Value {
    match source {
        Source::Bulk {
            congestion_control,
            bytes,
            think,
            every,
            tcp,
        } => json!({
            "kind": "bulk",
            "congestion_control": congestion_control,
            "bytes": bytes.map(|b| b.get()),
            "think_s": think.map(|think| think.as_secs_f64()),
            "every_s": every.map(|every| every.as_secs_f64()),
            "ecn": tcp.ecn,
        }),
        Source::Rtp {
            trace,
            frames,
            period,
            payload,
            pace,
            jitter,
        } => json!({
            "kind": "rtp",
            "trace": trace,
            "frames": frames.len(),
            "mean_bps": frames.iter().map(|f| f.bytes.get()).sum::<u64>() as f64 * 8.0
                / period.as_secs_f64(),
            "payload": payload.get(),
            "pace": match pace {
                Pace::Slice(d) => d.to_string(),
                Pace::Frame => "frame".into(),
                Pace::Burst => "burst".into(),
            },
            "jitter_ms": jitter.deviation.as_millis_f64(),
            "jitter_of": jitter.of.name(),
        }),
        Source::Cbr {
            rate,
            payload,
            jitter,
        } => json!({
            "kind": "cbr",
            "rate_bps": rate.bps(),
            "payload": payload.get(),
            "jitter_ms": jitter.deviation.as_millis_f64(),
            "jitter_of": jitter.of.name(),
        }),
        Source::Sensor {
            payload,
            period,
            pulses,
        } => json!({
            "kind": "sensor", "payload": payload.get(),
            "period_s": period.as_secs_f64(), "packets": pulses.len(),
        }),
        Source::Pcap {
            file,
            packets,
            period,
        } => json!({
            "kind": "pcap",
            "file": file,
            "packets": packets.len(),
            "bytes": packets.iter().map(|p| p.bytes.get()).sum::<u64>(),
            "duration_s": packets.last().map_or(0.0, |p| p.at.as_secs_f64()),
            "period_s": period.map(|p| p.as_secs_f64()),
        }),
        Source::Poisson {
            rate,
            payload,
            exponential,
        } => json!({
            "kind": "poisson", "rate_bps": rate.bps(), "payload": payload.get(),
            "sizes": if *exponential { "exponential" } else { "constant" },
        }),
        Source::OnOff {
            rate,
            payload,
            on,
            off,
            shape,
        } => json!({
            "kind": "on-off", "rate_bps": rate.bps(), "payload": payload.get(),
            "on_s": on.as_secs_f64(), "off_s": off.as_secs_f64(),
            "shape": shape,
        }),
        Source::Media(media) => json!({
            "kind": "media",
            "policy": media.policy.to_string(),
            "rate": controller(&media.rate),
            "queue_packets": media.queue.packets,
            "deadline_ms": media.deadline.as_millis_f64(),
            "headers": media.headers.get(),
            "tick_ms": media.tick.map(|tick| tick.as_millis_f64()),
            "classes": media.classes.iter().map(|class| json!({
                "name": class.name,
                "mean_bps": class.traffic.mean_bps(),
                "period_ms": class.traffic.period().map(|period| period.as_millis_f64()),
            })).collect::<Vec<_>>(),
        }),
    }
}
