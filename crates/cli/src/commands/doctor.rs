// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway doctor`: checks one by one what would keep makeway from working, and names the repair.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use makeway_gateway::control::Backend;
use makeway_gateway::control::client;
use makeway_gateway::control::doctor::{Finding, State, Wanted, examine};
use makeway_gateway::control::interface::toml_key;
use makeway_scenario::service::Shaped;
use serde_json::json;

use super::service::{self, FILE};
use crate::text;

/// Checks what would keep makeway from working on this machine, and names the repair.
///
/// Checks the file of `makeway service`, privileges, the kernel, and each interface: is it there, does makeway run on it and see its
/// packets, is another shaper or an offload in the way, is its rate above the device's. It takes a second and changes nothing that stays.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo makeway doctor
  sudo makeway doctor wan0
  sudo makeway doctor --json | jq '.checks[] | select(.state != \"good\")'

Exit status: 1 if there is a fault, 0 if there are warnings at most.")]
pub struct Doctor {
    /// Interfaces; those of the file and of every running makeway if none is given.
    interface: Vec<String>,
    /// The file of `makeway service` [default: /etc/makeway/makeway.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Doctor) -> anyhow::Result<ExitCode> {
    let (file, wanted) = wanted(args);
    let mut found: Vec<Finding> = file.into_iter().collect();
    found.extend(examine(&wanted));
    if args.json {
        text::say!("{:#}", json!({ "version": 1, "checks": found }));
    } else {
        for one in &found {
            text::say!("{}", shown(one));
        }
        let count = |state| found.iter().filter(|one| one.state == state).count() as u64;
        text::say!(
            "{}: {}, {}",
            text::some(found.len() as u64, "check"),
            text::some(count(State::Fault), "fault"),
            text::some(count(State::Warning), "warning")
        );
    }
    let is_fault = found.iter().any(|one| one.state == State::Fault);
    Ok(ExitCode::from(u8::from(is_fault)))
}

/// The check of the file, and all that is to be shaped.
fn wanted(args: &Doctor) -> (Option<Finding>, Vec<Wanted>) {
    let path = args.config.as_deref().unwrap_or(Path::new(FILE));
    let (file, mut all): (Option<Finding>, Vec<Wanted>) =
        match args.config.is_some() || path.exists() {
            true => match service::read(path) {
                Ok(read) if read.interfaces.is_empty() => {
                    let found = format!("{}: it names no interface", path.display());
                    let repair = to_write(args.interface.first().map_or("wan0", |name| name));
                    (
                        Some(Finding::bad("file", State::Fault, found, repair)),
                        Vec::new(),
                    )
                }
                Ok(read) => {
                    let count = text::some(read.interfaces.len() as u64, "interface");
                    let found = format!("{}: {count}, no error", path.display());
                    let all = read.interfaces.iter().map(of_file).collect();
                    (Some(Finding::good("file", found)), all)
                }
                Err(error) => {
                    let repair = format!(
                        "correct it; `makeway service --check {}` reads it again",
                        path.display()
                    );
                    let found = Finding::bad("file", State::Fault, format!("{error:#}"), repair);
                    (Some(found), Vec::new())
                }
            },
            false => (None, Vec::new()),
        };
    let is_known = |all: &[Wanted], name: &str| all.iter().any(|one| one.interface == name);
    // Those that cannot be asked are found out one by one.
    let running = client::all().unwrap_or_default();
    for one in running.found.iter().filter(|one| one.here) {
        if !is_known(&all, &one.status.interface) {
            all.push(Wanted::of(&one.status));
        }
    }
    for name in &args.interface {
        if !is_known(&all, name) {
            all.push(Wanted {
                has_file: file.is_some(),
                ..Wanted::nothing(name)
            });
        }
    }
    if !args.interface.is_empty() {
        all.retain(|one| args.interface.contains(&one.interface));
    }
    if file.is_none() && all.is_empty() {
        let found = format!("there is no file {FILE}, and no makeway runs here");
        let repair =
            "write the file (docs/service.md), or start one: `makeway up wan0 --rate 20mbit`";
        return (Some(Finding::bad("file", State::Fault, found, repair)), all);
    }
    (file, all)
}

/// The lines that have the service shape `interface`.
fn to_write(interface: &str) -> String {
    let key = toml_key(interface);
    format!("write [interface.{key}], and `upload = \"20mbit\"` below it")
}

fn of_file(one: &Shaped) -> Wanted {
    Wanted {
        interface: one.name.clone(),
        upload: one.upload,
        download: one.download,
        discipline: Some(one.discipline),
        backend: one.backend.parse().unwrap_or(Backend::Auto),
        in_file: true,
        has_file: true,
        autorate: one.autorate.is_some(),
    }
}

/// A line, and one more with the repair.
fn shown(one: &Finding) -> String {
    let state = match one.state {
        State::Good => "good",
        State::Warning => "WARNING",
        State::Fault => "FAULT",
    };
    let check = match &one.interface {
        Some(name) => format!("{name}: {}", one.check),
        None => one.check.into(),
    };
    let mut out = format!("{state:<8} {check:<24} {}", one.found);
    if !one.repair.is_empty() {
        out += &format!("\n{:<8} {:<24} repair: {}", "", "", one.repair);
    }
    out
}
