// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases to measure: dumbbells, what runs on them, and one run of each.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use makeway_scenario::Scenario;
use makeway_sim::tcp::{Config, DelayedAck, Variant};
use makeway_sim::{Options, run_in_full};

/// A network with traffic.
pub struct Dumbbell {
    pub name: String,
    /// Changes of the scenario.
    changes: Vec<String>,
    /// Arguments of ns-2, which is left out where it would take minutes.
    ns2: Option<[String; 5]>,
    /// Our simulator's run there.
    pub kinds: &'static [Kind],
}

/// Our simulator's run: discipline and TCP.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    discipline: &'static str,
    variant: Variant,
    delayed_ack: bool,
}

const FIFO: Kind = Kind {
    name: "makeway, fifo, NewReno",
    discipline: "fifo",
    variant: Variant::NewReno,
    delayed_ack: false,
};
const FIFO_SACK: Kind = Kind {
    name: "makeway, fifo, SACK, delayed ACK",
    variant: Variant::Sack,
    delayed_ack: true,
    ..FIFO
};
const SQF: Kind = Kind {
    name: "makeway, sqf, NewReno",
    discipline: "sqf",
    ..FIFO
};
/// The fastest link of a scenario, in kbit/s.
const FASTEST: u64 = 1_000_000_000;

/// The run of `ns`.
pub const NS2: &str = "ns-2, DropTail, NewReno";

/// All of them, the smallest first: the first is A, which has targets of its own.
pub fn dumbbells() -> Vec<Dumbbell> {
    let strings = |list: [&str; 5]| list.map(String::from);
    let a = Dumbbell {
        name: "A: 10 Mbit/s, 20 flows".into(),
        changes: Vec::new(),
        ns2: Some(strings(["10Mb", "100Mb", "20", "60", "100"])),
        kinds: &[FIFO, FIFO_SACK, SQF],
    };
    let b = Dumbbell {
        name: "B: 1 Gbit/s, 100 flows".into(),
        changes: [
            "duration=5s",
            "link.access.rate=10gbit",
            "link.line.rate=1gbit",
            "link.delivery.rate=10gbit",
            "link.line.queue.limit=1667 packets",
            "flow.download.count=100",
            "flow.download.stagger=1ms",
        ]
        .map(String::from)
        .to_vec(),
        ns2: Some(strings(["1Gb", "10Gb", "100", "5", "1667"])),
        kinds: &[FIFO, FIFO_SACK, SQF],
    };
    vec![
        a,
        b,
        grown(10, 600_000),
        grown(1000, 6000),
        grown(100_000, 250),
    ]
}

/// As many flows as there are, each of them with 2 Mbit/s and its part of a queue of one bandwidth-delay
/// product: a million packets in `ms` of simulated time, or some for each flow where there are many.
fn grown(flows: u64, ms: u64) -> Dumbbell {
    let kbit = 2000 * flows;
    // 20 ms, in packets of 1500 bytes.
    let queue = (kbit * 20).div_ceil(1500 * 8);
    let access = (10 * kbit).min(FASTEST);
    Dumbbell {
        name: format!("{flows} flows of 2 Mbit/s"),
        changes: vec![
            format!("duration={ms}ms"),
            format!("link.access.rate={access}kbit"),
            format!("link.line.rate={kbit}kbit"),
            format!("link.delivery.rate={access}kbit"),
            format!("link.line.queue.limit={queue} packets"),
            format!("flow.download.count={flows}"),
            format!("flow.download.stagger={}ns", 20_000_000 / flows),
        ],
        ns2: (flows <= 1000).then(|| {
            [
                format!("{kbit}kb"),
                format!("{access}kb"),
                flows.to_string(),
                format!("{}", ms as f64 / 1e3),
                queue.to_string(),
            ]
        }),
        kinds: &[FIFO],
    }
}

/// One run.
pub struct Sample {
    /// Packets that the link forwarded in a second of wall time, the set-up left out.
    pub speed: f64,
    /// Time to build the world and to report, in seconds.
    pub setup: f64,
}

impl Dumbbell {
    pub fn scenario(&self, kind: &Kind) -> anyhow::Result<Scenario> {
        let mut set = self.changes.clone();
        set.push(format!("link.line.queue.discipline={}", kind.discipline));
        let text = include_str!("dumbbell.toml");
        Ok(makeway_scenario::parse(
            text,
            "dumbbell.toml",
            Path::new("."),
            &set,
        )?)
    }

    /// `None` where it is not for ns-2, or ns-2 is not installed.
    pub fn ns2(&self) -> anyhow::Result<Option<f64>> {
        let Some(arguments) = &self.ns2 else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("dumbbell.tcl");
        std::fs::write(&script, include_str!("dumbbell.tcl"))?;
        let Ok(output) = Command::new("ns").arg(script).args(arguments).output() else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let figures: Vec<f64> = text
            .split_whitespace()
            .filter_map(|f| f.parse().ok())
            .collect();
        match figures[..] {
            [packets, ms] if ms > 0.0 => Ok(Some(packets / ms * 1e3)),
            _ => Ok(None),
        }
    }
}

impl Kind {
    fn options(&self) -> Options {
        let mut tcp = Config::linux(self.variant);
        if !self.delayed_ack {
            tcp.delayed_ack = DelayedAck::Off;
        }
        Options {
            tcp: Some(tcp),
            ..Options::default()
        }
    }

    /// Runs `scenario`; returns the packets that the link forwarded, and the seconds.
    pub fn run(&self, scenario: &Scenario) -> anyhow::Result<(u64, f64)> {
        timed(scenario, &self.options())
    }

    pub fn sample(&self, scenario: &Scenario) -> anyhow::Result<Sample> {
        // A run that is stopped before it begins is set-up and report.
        let stopped = Options {
            stop: Arc::new(AtomicBool::new(true)),
            ..self.options()
        };
        let (_, setup) = timed(scenario, &stopped)?;
        let (packets, seconds) = self.run(scenario)?;
        Ok(Sample {
            speed: packets as f64 / (seconds - setup).max(1e-9),
            setup,
        })
    }
}

fn timed(scenario: &Scenario, options: &Options) -> anyhow::Result<(u64, f64)> {
    let begun = Instant::now();
    let outcome = run_in_full(scenario, options, |_| {})?;
    let seconds = begun.elapsed().as_secs_f64();
    let line = outcome.report.queues.first();
    Ok((line.context("no queue was measured")?.packets_out, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dumbbell_is_a_scenario() {
        for dumbbell in dumbbells() {
            for kind in dumbbell.kinds {
                let read = dumbbell.scenario(kind);
                assert!(read.is_ok(), "{}: {read:?}", dumbbell.name);
            }
        }
    }
}
