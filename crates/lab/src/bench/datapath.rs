// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench datapath`: cost of the datapath, on a veth pair in namespaces of its own.

mod link;
mod traffic;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use makeway_core::units::Rate;
use makeway_gateway::datapath::Change;
use serde::Serialize;

use link::Link;
use traffic::{Flood, Tcp};

use super::Output;
use crate::tables::align;
use makeway::text;

/// Measures the datapath: accuracy of the shaper, packets a second against a loop that accepts
/// everything, and processor time when idle.
///
/// Runs for about two minutes in network namespaces of its own; no interface of this machine is touched.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  makeway-lab bench datapath\n  makeway-lab bench datapath --json datapath.json"
)]
pub struct DatapathArgs {
    #[command(flatten)]
    output: Output,
    /// Seconds of each measurement of the rate; a round of packets a second takes half of it.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// Rates of the accuracy table, in bit/s.
const RATES: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Rounds of each kind; the median counts.
const ROUNDS: usize = 7;
/// Time before a measurement begins: slow start and more.
const WARM_UP: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct Results {
    accuracy: Vec<Accuracy>,
    throughput: Vec<Throughput>,
    /// Processor time of the whole program while nothing passes, in percent of one processor.
    idle_cpu_percent: f64,
}

#[derive(Serialize)]
struct Accuracy {
    rate_bps: u64,
    /// Rate of the bytes that arrived by the far interface, link header included.
    measured_bps: f64,
    error_percent: f64,
    /// Whether the queue ran empty on the way: then the sender had less of this machine than it
    /// needed, and the rate is not the shaper's.
    ran_empty: bool,
}

#[derive(Serialize)]
struct Throughput {
    traffic: &'static str,
    accept_all: Pace,
    /// Not limited in rate.
    sqf: Pace,
    /// Median of the rounds' ratios: each round runs the three after each other.
    sqf_ratio: f64,
    /// With a rate of 10 Gbit/s, which is never reached.
    shaped: Pace,
    shaped_ratio: f64,
}

/// Medians over the rounds.
#[derive(Clone, Copy, Serialize)]
struct Pace {
    /// Packets a second that came by the far interface.
    pps: f64,
    /// Processor time for each, the kernel's work for its queue and its verdict included.
    cpu_us: f64,
}

/// Runs it.
pub fn run(args: &DatapathArgs) -> anyhow::Result<ExitCode> {
    makeway_netns::enter_user_namespace()?;
    let link = Link::new()?;
    let say = |what: &str| {
        if args.output.has_tables() {
            eprintln!("measuring {what} ...");
        }
    };
    say("processor time when idle");
    let idle_cpu_percent = idle(&link)?;
    let seconds = Duration::from_secs(args.seconds);
    let mut accuracy = Vec::new();
    for bps in RATES {
        say(&format!("the shaper at {}", Rate::from_bps(bps)));
        accuracy.push(shape(&link, bps, seconds)?);
    }
    let mut throughput = Vec::new();
    for traffic in ["UDP, 64 flows, 46 B", "TCP, one connection"] {
        say(&format!("packets a second: {traffic}"));
        throughput.push(race(&link, traffic, seconds / 2)?);
    }
    let results = Results {
        accuracy,
        throughput,
        idle_cpu_percent,
    };
    if args.output.has_tables() {
        print(&results);
    }
    args.output.json(&results)?;
    Ok(ExitCode::SUCCESS)
}

fn idle(link: &Link) -> anyhow::Result<f64> {
    let _datapath = link.datapath(Some(Rate::from_bps(20_000_000)))?;
    sleep(WARM_UP);
    let (before, time) = (cpu_seconds(), Duration::from_secs(3));
    sleep(time);
    Ok((cpu_seconds() - before) / time.as_secs_f64() * 100.0)
}

/// Processor time of this program so far.
fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn shape(link: &Link, bps: u64, time: Duration) -> anyhow::Result<Accuracy> {
    let datapath = link.datapath(Some(Rate::from_bps(bps)))?;
    let flood = Flood::start(link, 1472, 8)?;
    sleep(WARM_UP);
    let begin = link.next_arrival()?;
    let mut ran_empty = false;
    while begin.at.elapsed() < time {
        sleep(Duration::from_millis(50));
        ran_empty |= datapath.snapshot()?.backlog_packets == 0;
    }
    let end = link.next_arrival()?;
    flood.stop();
    // The sender's buffer is let go at once.
    datapath.set(Change {
        rate: Some(None),
        ..Change::default()
    })?;
    datapath.stop()?;
    let measured_bps = (end.bytes - begin.bytes) as f64 * 8.0 / (end.at - begin.at).as_secs_f64();
    Ok(Accuracy {
        rate_bps: bps,
        measured_bps,
        error_percent: (measured_bps / bps as f64 - 1.0) * 100.0,
        ran_empty,
    })
}

fn race(link: &Link, traffic: &'static str, time: Duration) -> anyhow::Result<Throughput> {
    let mut rounds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let queue = link.accept_all()?;
        let pps = arrivals(link, traffic, time)?;
        let done = queue.stop()?;
        rounds[0].push(pace(pps, done.cpu_seconds, done.packets));
        let shaped = Some(Rate::from_bps(10_000_000_000));
        for (rate, rounds) in [None, shaped].into_iter().zip(&mut rounds[1..]) {
            let datapath = link.datapath(rate)?;
            let pps = arrivals(link, traffic, time)?;
            let done = datapath.stop()?;
            rounds.push(pace(pps, done.cpu_seconds, done.packets_out));
        }
    }
    let ratio = |of: &[Pace]| {
        let paired = rounds[0].iter().zip(of);
        median(paired.map(|(all, ours): (&Pace, &Pace)| ours.pps / all.pps))
    };
    let (sqf_ratio, shaped_ratio) = (ratio(&rounds[1]), ratio(&rounds[2]));
    let [accept_all, sqf, shaped] = rounds.map(|rounds| Pace {
        pps: median(rounds.iter().map(|pace| pace.pps)),
        cpu_us: median(rounds.iter().map(|pace| pace.cpu_us)),
    });
    Ok(Throughput {
        traffic,
        accept_all,
        sqf,
        sqf_ratio,
        shaped,
        shaped_ratio,
    })
}

fn pace(pps: f64, cpu_seconds: f64, packets: u64) -> Pace {
    Pace {
        pps,
        cpu_us: cpu_seconds * 1e6 / packets.max(1) as f64,
    }
}

/// Packets a second at the far interface.
fn arrivals(link: &Link, traffic: &str, time: Duration) -> anyhow::Result<f64> {
    let count = || -> anyhow::Result<f64> {
        sleep(WARM_UP);
        let begin = link.arrived()?;
        sleep(time);
        let end = link.arrived()?;
        Ok((end.packets - begin.packets) as f64 / (end.at - begin.at).as_secs_f64())
    };
    if traffic.starts_with("UDP") {
        let flood = Flood::start(link, 18, 64).context("cannot send datagrams")?;
        let pps = count();
        flood.stop();
        pps
    } else {
        let tcp = Tcp::start(link).context("cannot start a TCP transfer")?;
        let pps = count();
        tcp.stop();
        pps
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(results: &Results) {
    let mut rates = Table::new();
    rates.load_style(UTF8_HORIZONTAL_ONLY);
    rates.set_header(["rate set", "measured on the wire", "error"]);
    for a in &results.accuracy {
        rates.add_row([
            Rate::from_bps(a.rate_bps).to_string(),
            format!("{:.4} Mbit/s", a.measured_bps / 1e6),
            match a.ran_empty {
                true => format!("{:+.3} %, the sender too slow", a.error_percent),
                false => format!("{:+.3} %", a.error_percent),
            },
        ]);
    }
    let mut races = Table::new();
    races.load_style(UTF8_HORIZONTAL_ONLY);
    races.set_header([
        "traffic, datapath",
        "packets a second",
        "ratio",
        "us of cpu each",
    ]);
    for t in &results.throughput {
        let rows = [
            ("accept all", t.accept_all, 1.0),
            ("sqf", t.sqf, t.sqf_ratio),
            ("sqf at 10gbit", t.shaped, t.shaped_ratio),
        ];
        for (name, pace, ratio) in rows {
            races.add_row([
                format!("{}: {name}", t.traffic),
                format!("{:.0}", pace.pps),
                format!("{ratio:.3}"),
                format!("{:.2}", pace.cpu_us),
            ]);
        }
    }
    for table in [rates, races] {
        text::say!("{}", align(table, 1));
    }
    text::say!("idle: {:.2} % of one processor", results.idle_cpu_percent);
}
