// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway down`: ends the instance of an interface, or cleans up after a killed one.

use std::process::ExitCode;

use clap::Args;
use makeway_gateway::control::client::{self, Down as Found};
use makeway_gateway::control::interface::Interface;
use makeway_gateway::rules::Direction;

use super::describe::{ended, removed};
use crate::text;

const EXAMPLES: &str = "\
Examples:
  sudo makeway down wan0
      ends the makeway that runs on wan0 and waits until its rules are gone; after a `kill -9`
      it removes the remaining rules (which let all traffic pass meanwhile), or the qdisc (which keeps
      shaping meanwhile), and restores the former qdiscs";

/// Ends the makeway of an interface and removes its rules, also after a killed one.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Down {
    /// The interface.
    interface: String,
}

/// Runs it and prints the result. Nothing to do is no error; a missing interface is one.
pub fn run(args: &Down) -> anyhow::Result<ExitCode> {
    let name = &args.interface;
    let done = match client::down(name)? {
        Found::Stopped(status) => format!(
            "makeway on {name} (process {}) has ended and {}; {}.",
            status.pid,
            removed(&status),
            ended(&status)
        ),
        Found::Cleaned(directions) => {
            let names: Vec<_> = directions.into_iter().map(Direction::name).collect();
            format!(
                "No makeway ran on {name}; the {} rules that one had left are removed.",
                names.join(" and ")
            )
        }
        Found::Unloaded(status) => format!(
            "{name} is as it was before, {}; {}.",
            removed(&status),
            ended(&status)
        ),
        Found::Nothing => {
            Interface::find(name)?;
            format!("No makeway runs on {name} and there is no rule of one: nothing to do.")
        }
    };
    text::say!("{done}");
    Ok(ExitCode::SUCCESS)
}
