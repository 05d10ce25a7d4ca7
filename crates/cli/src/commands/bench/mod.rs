//! `makeway bench`: what our own parts cost, one file per part.

mod core;

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
}

pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match &bench.part {
        Part::Core(args) => core::run(args),
    }
}
