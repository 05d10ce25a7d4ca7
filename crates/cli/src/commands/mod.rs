//! One file per subcommand.

mod bench;
mod check;
mod dccp;
mod demo;
mod down;
mod papers;
mod parallel;
mod plan;
mod recv;
mod replicate;
mod run;
mod send;
mod senders;
mod session;
mod status;
mod tag;
mod traces;
mod up;
mod validate;
mod vm;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Tag(tag::Tag),
    Status(status::Status),
    Watch(watch::Watch),
    Send(send::Send),
    Recv(recv::Recv),
    Bench(bench::Bench),
    Dccp(dccp::Dccp),
    Check(check::Check),
    Plan(plan::Plan),
    Papers(papers::Papers),
    Run(run::Run),
    #[command(hide = true)]
    Guest(vm::Guest),
    Senders(senders::Senders),
    Validate(validate::Validate),
}

/// Runs the subcommand that was asked for.
pub fn run(makeway: Makeway) -> anyhow::Result<ExitCode> {
    match makeway.command {
        Command::Demo(args) => demo::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Down(args) => down::run(&args),
        Command::Tag(args) => tag::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Dccp(args) => dccp::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Papers(args) => papers::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Guest(args) => vm::guest(&args),
        Command::Senders(args) => senders::run(&args),
        Command::Validate(args) => validate::run(&args),
    }
}
