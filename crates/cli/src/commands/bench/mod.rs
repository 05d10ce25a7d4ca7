//! `makeway bench`: what our own parts cost, one file per part.

mod core;
mod datapath;
mod sim;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Measures what the parts cost on this machine
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    Core(core::Core),
    Datapath(datapath::DatapathArgs),
    Sim(sim::SimArgs),
}

pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match &bench.part {
        Part::Core(args) => core::run(args),
        Part::Datapath(args) => datapath::run(args),
        Part::Sim(args) => sim::run(args),
    }
}
