// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file per subcommand.

mod check;
pub mod dccp;
mod demo;
mod describe;
mod doctor;
mod down;
mod instance;
mod pages;
pub mod parallel;
mod pin_nat;
mod plan;
pub mod recv;
mod replicate;
pub mod run;
pub mod send;
mod service;
pub mod session;
mod status;
mod sweep;
mod tag;
mod traces;
mod tune;
pub mod up;
pub mod vm;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Keeps voice and video clear of bulk traffic at a bottleneck.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Makeway {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Up(up::Up),
    Down(down::Down),
    Service(service::ServiceArgs),
    Doctor(doctor::Doctor),
    Tune(tune::Tune),
    Tag(tag::Tag),
    Status(status::Status),
    Watch(watch::Watch),
    Send(send::Send),
    Recv(recv::Recv),
    #[command(hide = true)]
    Dccp(dccp::Dccp),
    Check(check::Check),
    Plan(plan::Plan),
    Run(run::Run),
    #[command(hide = true)]
    Pages(pages::Pages),
    #[command(hide = true)]
    PinNat(pin_nat::PinNat),
    #[command(hide = true)]
    Guest(vm::Guest),
    #[command(hide = true, disable_help_flag = true)]
    Papers(Moved),
    #[command(hide = true, disable_help_flag = true)]
    Validate(Moved),
    #[command(hide = true, disable_help_flag = true)]
    Bench(Moved),
    #[command(hide = true, disable_help_flag = true)]
    Senders(Moved),
}

/// A subcommand that `makeway-lab` has now.
#[derive(Args)]
struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

fn moved(name: &str) -> ExitCode {
    eprintln!("makeway: `makeway {name}` is now `makeway-lab {name}`");
    ExitCode::from(2)
}

/// Runs the subcommand that was asked for.
///
/// # Errors
/// The failure of the subcommand, worded for the user.
pub fn run(makeway: Makeway) -> anyhow::Result<ExitCode> {
    match makeway.command {
        Command::Demo(args) => demo::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Down(args) => down::run(&args),
        Command::Service(args) => service::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Tag(args) => tag::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Dccp(args) => dccp::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Pages(args) => pages::run(&args),
        Command::PinNat(args) => pin_nat::run(&args),
        Command::Guest(args) => vm::guest(&args),
        Command::Papers(_) => Ok(moved("papers")),
        Command::Validate(_) => Ok(moved("validate")),
        Command::Bench(_) => Ok(moved("bench")),
        Command::Senders(_) => Ok(moved("senders")),
    }
}

#[cfg(test)]
mod tests;
