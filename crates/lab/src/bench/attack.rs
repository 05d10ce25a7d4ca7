// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench attack`: packets that a call and a bulk transfer keep beside a flood that is spread over many flows.
//!
//! Three hosts behind 10 Mbit/s: one has a call, one a bulk transfer, and one is sent a flood of 12 Mbit/s. The world `sim` drives core's
//! disciplines in virtual time; `native` gives the same packets at the same times to the C of `bpf/`, compiled for this machine's processor.
//! Flows and hosts are read from the headers in both.

mod native;
mod traffic;

use std::process::ExitCode;

use clap::Args;
use comfy_table::Table;
use makeway_core::sched::Discipline;
use serde::Serialize;

use super::Output;
use crate::tables::{align, markdown};
use makeway::text;
use native::Native;
use traffic::{Flood, Kept, Run};

/// Measures the packets that a call and a bulk transfer keep beside a flood of many flows, under every discipline.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  makeway-lab bench attack\n  makeway-lab bench attack --json attack.json\n  makeway-lab bench attack --only hier"
)]
pub struct AttackArgs {
    #[command(flatten)]
    output: Output,
    /// Only this discipline, like hier.
    #[arg(long, value_name = "NAME")]
    only: Option<Discipline>,
}

/// One cell of the matrix.
#[derive(Serialize)]
struct Row {
    discipline: &'static str,
    /// `sim` or `native`.
    world: &'static str,
    flows: u32,
    /// Bytes of each packet of the flood, its IP header included.
    bytes: u32,
    /// `ipv4`, or `ipv6` with a new flow label on each packet.
    ip: &'static str,
    /// The part of the call's packets that did not come.
    voice_loss: f64,
    /// Delay of the packets that came, from arrival at the queue to the end of transmission; none if none came.
    voice_p99_ms: Option<f64>,
    /// Throughput of the bulk transfer over its due, if hosts shared the link max-min fairly.
    bulk_share: f64,
}

const FLOWS: [u32; 5] = [1, 5, 20, 100, 200];
const BYTES: [u32; 2] = [100, 1000];

pub fn run(args: &AttackArgs) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for discipline in Discipline::ALL {
        if args.only.is_some_and(|only| only != discipline) {
            continue;
        }
        let native = Native::of(discipline)?;
        for flood in floods() {
            let run = Run::of(discipline, flood);
            rows.push(Row::new(discipline, "sim", flood, &run.kept));
            if let Some(native) = &native {
                let kept = native.replay(&run)?;
                rows.push(Row::new(discipline, "native", flood, &kept));
            }
        }
    }
    if args.output.has_tables() {
        text::say!("{}", table(&rows));
    }
    args.output.json(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn floods() -> impl Iterator<Item = Flood> {
    [false, true].into_iter().flat_map(|v6| {
        let bytes = move |bytes| FLOWS.map(|flows| Flood { flows, bytes, v6 });
        BYTES.into_iter().flat_map(bytes)
    })
}

impl Row {
    fn new(discipline: Discipline, world: &'static str, flood: Flood, kept: &Kept) -> Self {
        let Flood { flows, bytes, v6 } = flood;
        Self {
            discipline: discipline.name(),
            world,
            flows,
            bytes,
            ip: if v6 { "ipv6" } else { "ipv4" },
            voice_loss: kept.voice_loss,
            voice_p99_ms: kept.voice_p99_ms,
            bulk_share: kept.bulk_share,
        }
    }

    /// `0 % 3.4 ms, 100 %`
    fn told(&self) -> String {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let p99 = self.voice_p99_ms.map(|ms| format!(" {ms:.1} ms"));
        format!(
            "{}{}, {}",
            percent(self.voice_loss),
            p99.unwrap_or_default(),
            percent(self.bulk_share)
        )
    }
}

/// A line for each discipline, world, size and kind of IP; in each cell the call's loss and p99, and the bulk transfer's share.
fn table(rows: &[Row]) -> Table {
    let heading = FLOWS.map(|flows| match flows {
        1 => "1 flow".into(),
        _ => format!("{flows} flows"),
    });
    let before = ["discipline", "world", "bytes", "ip"].map(String::from);
    let mut table = markdown(before.into_iter().chain(heading));
    for world in ["sim", "native"] {
        let of_world: Vec<&Row> = rows.iter().filter(|row| row.world == world).collect();
        for cells in of_world.chunks(FLOWS.len()) {
            let row = cells[0];
            let line = [row.discipline, world, &row.bytes.to_string(), row.ip].map(String::from);
            table.add_row(line.into_iter().chain(cells.iter().map(|row| row.told())));
        }
    }
    align(table, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users share fairly with any number of flows, and a call is first inside its host's share.
    #[test]
    fn under_hier_a_call_loses_nothing_and_a_bulk_transfer_keeps_its_share() {
        for flood in floods() {
            let kept = Run::of(Discipline::Hier, flood).kept;
            assert_eq!(kept.voice_loss, 0.0, "{flood:?}");
            assert!(kept.bulk_share >= 0.9, "{flood:?}: {kept:?}");
        }
    }

    /// The order of flows counts packets as the limit does.
    #[test]
    fn a_flood_of_small_packets_takes_no_call_under_sqf_and_fq() {
        for discipline in [Discipline::Sqf, Discipline::Fq] {
            for flood in floods().filter(|flood| flood.bytes == 100) {
                let lost = Run::of(discipline, flood).kept.voice_loss;
                // With more flows than the buffer holds packets, no more than what the flood itself loses.
                let most = if flood.flows > 100 { 1.0 / 6.0 } else { 0.005 };
                assert!(lost <= most, "{discipline}, {flood:?}: {lost}");
            }
        }
    }

    #[test]
    fn rotating_flow_labels_are_no_more_flows() {
        let [flows, bytes] = [5, 1000];
        let kept = [false, true].map(|v6| {
            let flood = Flood { flows, bytes, v6 };
            Run::of(Discipline::Fq, flood).kept.bulk_share
        });
        assert!((kept[0] - kept[1]).abs() < 0.02, "{kept:?}");
    }

    /// In the order of the alphabet.
    const KEYS_BESIDE_WORLD: [&str; 7] = [
        "bulk_share",
        "bytes",
        "discipline",
        "flows",
        "ip",
        "voice_loss",
        "voice_p99_ms",
    ];

    /// Others read the rows: their keys, and numbers that are the same in both worlds.
    #[test]
    fn a_row_has_eight_keys_and_is_the_same_in_both_worlds() {
        let flood = Flood {
            flows: 20,
            bytes: 1000,
            v6: false,
        };
        // Under the first the call loses packets.
        for discipline in [Discipline::Fifo, Discipline::Hier] {
            let run = Run::of(discipline, flood);
            let native = Native::of(discipline).unwrap().unwrap();
            let native = native.replay(&run).unwrap();
            let [sim, native] = [("sim", &run.kept), ("native", &native)].map(|(world, kept)| {
                serde_json::to_value(Row::new(discipline, world, flood, kept)).unwrap()
            });
            let rest = |row: &serde_json::Value| {
                let mut row = row.as_object().unwrap().clone();
                (row.remove("world").unwrap(), row)
            };
            let [(sim, sims), (native, natives)] = [rest(&sim), rest(&native)];
            assert_eq!([sim, native], ["sim", "native"]);
            let mut keys: Vec<_> = sims.keys().map(String::as_str).collect();
            keys.sort_unstable();
            assert_eq!(keys, KEYS_BESIDE_WORLD);
            assert_eq!(sims["voice_loss"] == 0.0, discipline == Discipline::Hier);
            assert!(sims["voice_p99_ms"].is_number());
            assert_eq!(sims, natives);
        }
    }
}
