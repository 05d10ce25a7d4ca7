// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench`: costs of the parts, one file per part.

mod attack;
mod core;
mod datapath;
#[cfg(feature = "bpf")]
mod kernel;
mod rounds;
mod send;
mod sim;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;

use makeway::text;

/// Measures the cost of the parts on this machine.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    Attack(attack::AttackArgs),
    Core(core::Core),
    Datapath(datapath::DatapathArgs),
    #[cfg(feature = "bpf")]
    Kernel(kernel::KernelArgs),
    Send(send::SendArgs),
    Sim(sim::SimArgs),
}

pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match &bench.part {
        Part::Attack(args) => attack::run(args),
        Part::Core(args) => core::run(args),
        Part::Datapath(args) => datapath::run(args),
        #[cfg(feature = "bpf")]
        Part::Kernel(args) => kernel::run(args),
        Part::Send(args) => send::run(args),
        Part::Sim(args) => sim::run(args),
    }
}

/// Destination of the figures.
#[derive(Args)]
struct Output {
    /// Prints JSON instead of the tables, or writes it to FILE beside them.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
}

impl Output {
    /// Whether tables are printed.
    fn has_tables(&self) -> bool {
        !matches!(self.json, Some(None))
    }

    fn json(&self, figures: &impl Serialize) -> anyhow::Result<()> {
        let Some(to) = &self.json else {
            return Ok(());
        };
        let json = serde_json::to_string_pretty(figures)?;
        match to {
            None => text::say!("{json}"),
            Some(file) => std::fs::write(file, json + "\n")
                .with_context(|| format!("{} cannot be written", file.display()))?,
        }
        Ok(())
    }
}

/// Machine and code that figures of speed belong to.
#[derive(Serialize)]
struct Origin {
    schema: u32,
    command: &'static str,
    commit: &'static str,
    machine: String,
    /// Mean number of runnable processes over the last minute, when the run began.
    load: String,
}

impl Origin {
    /// This program on this machine, now.
    fn new(command: &'static str) -> Self {
        Self {
            schema: 1,
            command,
            commit: env!("MAKEWAY_COMMIT"),
            machine: machine(),
            load: load(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            machine,
            load,
            commit,
            ..
        } = self;
        write!(f, "{machine}, load {load}, commit {commit}")
    }
}

/// The processor and the number of its cores.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

/// Mean number of runnable processes over the last minute.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").into()
}
