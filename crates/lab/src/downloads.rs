// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab downloads`: the kernel's own TCP through `makeway up`, in namespaces: shares, silences, and a call beside it.

mod bottleneck;
mod call;
mod tcp;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use comfy_table::{Table, presets};
use makeway::session::stop_on_signals;
use makeway::text;
use makeway_core::measure::jain;
use makeway_core::sched::Discipline;
use makeway_core::units::{self, Rate};
use serde::Serialize;

use crate::tables::align;
use bottleneck::Bottleneck;
use call::Call;

/// Downloads over the kernel's TCP through `makeway up`, in real time: shares, and downloads that stall.
///
/// Everything is in network namespaces of its own, with packets that wait for a verdict of makeway (`--backend nfqueue`); RTT is
/// added on the path of the acknowledgements. Each cell takes `--seconds`; do nothing else on the machine.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab downloads
  makeway-lab downloads --count 4 --tcp cubic --rtt 0ms --disciplines sqf,fq-codel,makeway --json
  makeway-lab downloads --count 10 --tcp cubic --rtt 20ms --disciplines fifo,sqf,makeway --call 200ms
      beside a 5 Mbit/s call of real processes, whose frames leave at once and whose sender stands still once

JSON: an array of {\"downloads\", \"tcp\", \"rtt_ms\", \"discipline\", \"rate_mbps\", \"seconds\", \"skipped\", \"mbps\", \"total_mbps\", \"jain\",
\"silent_s\", \"drops\", \"late_ms\", \"call\": {\"on_time\", \"lost\", \"delay_p50_ms\", \"delay_p95_ms\"}}. `silent_s` is the longest time in which a
download received nothing, `late_ms` the longest that makeway was late: above 10 the cell says little.")]
pub struct Downloads {
    /// Numbers of downloads, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "4,12", value_parser = clap::value_parser!(u32).range(1..=500))]
    count: Vec<u32>,
    /// Congestion controls of the kernel, with commas between.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "cubic,bbr,reno"
    )]
    tcp: Vec<String>,
    /// RTTs added, 0ms to 2s, with commas between.
    #[arg(long, value_name = "TIME,TIME", value_delimiter = ',', default_value = "0ms,20ms,100ms", value_parser = rtt)]
    rtt: Vec<units::Duration>,
    /// Disciplines, with commas between.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "makeway"
    )]
    disciplines: Vec<Discipline>,
    /// Rate of the bottleneck.
    #[arg(long, default_value = "10mbit")]
    rate: Rate,
    /// Seconds of each cell.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// A call beside them, whose sender stalls once for this time (0ms: never).
    #[arg(long, value_name = "TIME", value_parser = stall)]
    call: Option<units::Duration>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Figures of one run.
#[derive(Serialize)]
struct Cell {
    downloads: u32,
    tcp: String,
    rtt_ms: f64,
    discipline: &'static str,
    rate_mbps: f64,
    seconds: u64,
    /// Why nothing was measured.
    skipped: Option<String>,
    /// Goodput of each download.
    mbps: Vec<f64>,
    total_mbps: f64,
    jain: Option<f64>,
    silent_s: f64,
    /// Packets that makeway dropped, by reason.
    drops: BTreeMap<String, u64>,
    late_ms: f64,
    call: Option<call::Figures>,
}

/// Runs it. Exit status 130 if it was cut short.
pub fn run(args: &Downloads) -> anyhow::Result<ExitCode> {
    ensure!(args.rate.bps() > 0, "--rate must exceed 0: write 10mbit");
    makeway_netns::enter_user_namespace()?;
    let stop = stop_on_signals()?;
    let is_stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let mut cells = Vec::new();
    for rtt in &args.rtt {
        for tcp in &args.tcp {
            for &downloads in &args.count {
                for &discipline in &args.disciplines {
                    if is_stopped() {
                        return Ok(ExitCode::from(130));
                    }
                    let mut cell = Cell {
                        downloads,
                        tcp: tcp.clone(),
                        rtt_ms: rtt.as_millis_f64(),
                        discipline: discipline.name(),
                        rate_mbps: args.rate.bps() as f64 / 1e6,
                        seconds: args.seconds,
                        skipped: None,
                        mbps: Vec::new(),
                        total_mbps: 0.0,
                        jain: None,
                        silent_s: 0.0,
                        drops: BTreeMap::new(),
                        late_ms: 0.0,
                        call: None,
                    };
                    measure(args, *rtt, &mut cell)?;
                    eprintln!("{}", words(&cell));
                    cells.push(cell);
                }
            }
        }
    }
    match args.json {
        true => text::say!("{}", serde_json::to_string_pretty(&cells)?),
        false => text::say!("{}", table(&cells)),
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Downloads, rtt: units::Duration, cell: &mut Cell) -> anyhow::Result<()> {
    let time = Duration::from_secs(args.seconds);
    let bottleneck = Bottleneck::start(args.rate, cell.discipline, rtt)?;
    let flows = match tcp::Flows::open(&bottleneck, cell.downloads, &cell.tcp) {
        Ok(flows) => flows,
        Err(why) => {
            cell.skipped = Some(why.to_string());
            return Ok(());
        }
    };
    // The call is there first, as one that a download disturbs.
    let call = args
        .call
        .map(|stall| Call::start(&bottleneck, time, Duration::from_nanos(stall.as_nanos())));
    let call = call.transpose()?;
    let received = flows.run(time)?;
    cell.call = call.map(Call::end).transpose()?;
    let stats = bottleneck.stats()?;
    (cell.late_ms, cell.drops) = (stats.late_max_ms, stats.drops);
    let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / time.as_secs_f64();
    cell.mbps = received.iter().map(|one| mbps(one.bytes)).collect();
    cell.total_mbps = cell.mbps.iter().sum();
    cell.jain = jain(cell.mbps.iter().copied());
    cell.silent_s = received
        .iter()
        .map(|one| one.silent.as_secs_f64())
        .fold(0.0, f64::max);
    Ok(())
}

/// One cell in a line.
fn words(cell: &Cell) -> String {
    let what = format!(
        "{} x {}, RTT {} ms, {}",
        cell.downloads, cell.tcp, cell.rtt_ms, cell.discipline
    );
    match &cell.skipped {
        Some(why) => format!("{what}: skipped: {why}"),
        None => format!(
            "{what}: Jain's index {:.3}, silent {:.2} s",
            cell.jain.unwrap_or(0.0),
            cell.silent_s
        ),
    }
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "RTT, ms",
        "TCP",
        "downloads",
        "discipline",
        "Mbit/s",
        "least",
        "most",
        "Jain",
        "silent, s",
        "late, ms",
        "call on time",
        "lost",
        "p50, ms",
        "p95, ms",
    ]);
    for cell in cells {
        let least = cell.mbps.iter().copied().fold(f64::INFINITY, f64::min);
        let most = cell.mbps.iter().copied().fold(0.0, f64::max);
        let mut row = vec![
            format!("{}", cell.rtt_ms),
            cell.tcp.clone(),
            cell.downloads.to_string(),
            cell.discipline.to_owned(),
        ];
        match &cell.skipped {
            Some(why) => row.push(format!("skipped: {why}")),
            None => row.extend([
                format!("{:.2}", cell.total_mbps),
                format!("{least:.2}"),
                format!("{most:.2}"),
                cell.jain.map_or("-".into(), |jain| format!("{jain:.3}")),
                format!("{:.2}", cell.silent_s),
                format!("{:.1}", cell.late_ms),
            ]),
        }
        if let Some(call) = &cell.call {
            row.extend([
                format!("{:.1} %", call.on_time * 100.0),
                format!("{:.1} %", call.lost * 100.0),
                format!("{:.0}", call.delay_p50_ms),
                format!("{:.0}", call.delay_p95_ms),
            ]);
        }
        table.add_row(row);
    }
    align(table, 4)
}

fn rtt(text: &str) -> Result<units::Duration, String> {
    within(text, units::Duration::from_secs(2), "2s: write 20ms")
}

fn stall(text: &str) -> Result<units::Duration, String> {
    within(text, units::Duration::from_secs(1), "1s: write 200ms")
}

fn within(text: &str, most: units::Duration, said: &str) -> Result<units::Duration, String> {
    match text.parse::<units::Duration>() {
        Ok(time) if time <= most => Ok(time),
        _ => Err(format!("`{text}` is not a time from 0ms to {said}")),
    }
}
