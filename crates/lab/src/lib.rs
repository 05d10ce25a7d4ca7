// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab: the papers' experiments run again and judged, the simulator held against oracles, senders compared, parts measured.
//!
//! [`experiment`] is a library: cells in a grid, run in one of the worlds, and their results. [`run`] is the program.

#![warn(clippy::print_stdout)] // `text::say!` does not mind a reader that goes away.

mod autorate;
mod bench;
mod downloads;
pub mod experiment;
#[cfg(test)]
mod fingerprint;
mod gauntlet;
mod marks;
mod papers;
mod senders;
mod tables;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use makeway::{dccp, recv, send, up, vm};

/// Runs the papers' experiments again, compares the simulator with oracles, and measures the cost of the parts of makeway.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Papers(papers::Papers),
    Region(papers::Region),
    Validate(validate::Validate),
    Bench(bench::Bench),
    Senders(senders::Senders),
    Marks(marks::Marks),
    Gauntlet(gauntlet::Gauntlet),
    Autorate(autorate::Autorate),
    Adversary(gauntlet::Adversary),
    Downloads(downloads::Downloads),
    // As of `makeway`: an experiment starts its own program in a process, or a guest, for each.
    #[command(hide = true)]
    Run(makeway::run::Run),
    #[command(hide = true)]
    Guest(vm::Guest),
    #[command(hide = true)]
    Dccp(dccp::Dccp),
    #[command(hide = true)]
    Up(up::Up),
    #[command(hide = true)]
    Send(send::Send),
    #[command(hide = true)]
    Recv(recv::Recv),
}

/// Runs the subcommand that was asked for.
///
/// # Errors
/// The reason of a failure, for the user.
pub fn run(lab: Lab) -> anyhow::Result<ExitCode> {
    match lab.command {
        Command::Papers(args) => papers::run(&args),
        Command::Region(args) => papers::run_region(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Senders(args) => senders::run(&args),
        Command::Marks(args) => marks::run(&args),
        Command::Gauntlet(args) => gauntlet::run(&args),
        Command::Autorate(args) => autorate::run(&args),
        Command::Adversary(args) => gauntlet::attack(&args),
        Command::Downloads(args) => downloads::run(&args),
        Command::Run(args) => makeway::run::run(&args),
        Command::Guest(args) => vm::guest(&args),
        Command::Dccp(args) => dccp::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
    }
}
