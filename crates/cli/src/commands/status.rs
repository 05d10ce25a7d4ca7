// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway status`: counters and rates so far.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use makeway_gateway::control::client::{self, All, Found};
use makeway_gateway::control::interface::Interface;
use makeway_gateway::control::protocol::{DirectionStatus, Status as Instance};
use makeway_gateway::datapath::{FlowStats, TagStats};
use serde_json::json;

use super::describe::{autorate, carrier, drops, headline, nat, standing};
use crate::text;

const EXAMPLES: &str = "\
Examples:
  makeway status
      every makeway that runs on this machine
  makeway status wan0 --flows 100
      the hundred flows with the largest backlog
  makeway status wan0 --json | jq '.instances[0].directions[0].drops'
      for programs: all counters, the 1024 flows with the largest backlogs, units in the names

Times are sojourn times: from a packet's arrival to its departure. Reasons of drops: longest-queue
(the buffer was full: a packet of the longest queue), tail (full: fifo, red, codel), early and forced
(red; cake: early), sojourn (codel, fq-codel, cake), too-large, flows (more than 1024 at once), kernel-queue and
kernel-socket (the kernel dropped it before makeway read it). Standing of flows under makeway: standing (goes
first), new, bulk (shares the rest), with the reason and since when.";

/// Shows each running makeway: rates, backlog, drops and sojourn times, by flow.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Status {
    /// The interface; all of them if it is not given.
    interface: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Most flows shown for each direction.
    #[arg(long, value_name = "N", default_value_t = 15)]
    flows: usize,
}

/// Runs it. Exit status 1 if none runs on the interface that was asked for, and if one does not answer.
pub fn run(args: &Status) -> anyhow::Result<ExitCode> {
    let All { found, silent } = match &args.interface {
        None => client::all()?,
        Some(name) => match client::status(name) {
            Ok(status) => All {
                found: vec![Found { status, here: true }],
                silent: Vec::new(),
            },
            Err(error) => {
                // A misspelt name is not "not running".
                Interface::find(name)?;
                return Err(error.into());
            }
        },
    };
    if args.json {
        let instances: Vec<&Instance> = found.iter().map(|found| &found.status).collect();
        text::say!("{:#}", json!({ "version": 1, "instances": instances }));
    } else if found.is_empty() && silent.is_empty() {
        text::say!("No makeway runs here. Start one: `sudo makeway up wan0 --rate 20mbit`.");
    } else {
        let shown: Vec<String> = found
            .iter()
            .map(|found| instance(found, args.flows))
            .collect();
        text::say!("{}", shown.join("\n").trim_end());
    }
    for (interface, error) in &silent {
        eprintln!("makeway: {interface}: {error}");
    }
    Ok(ExitCode::from(u8::from(!silent.is_empty())))
}

fn instance(found: &Found, flows: usize) -> String {
    let status = &found.status;
    let elsewhere = match found.here {
        true => String::new(),
        false => format!(" in network namespace {}", status.namespace),
    };
    let process = match status.pid {
        0 => "no process".into(),
        pid => format!("process {pid}"),
    };
    let mut out = format!(
        "{}{elsewhere}: {process}, packets wait {}\n",
        status.interface,
        carrier(status)
    );
    for warning in &status.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    for users in nat(&status.directions) {
        let _ = writeln!(out, "  {users}");
    }
    if let Some(one) = &status.autorate {
        let _ = writeln!(out, "\n  autorate:");
        for line in autorate(one).lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    for one in &status.directions {
        out.push('\n');
        out += &direction(one, flows);
    }
    out
}

fn direction(one: &DirectionStatus, flows: usize) -> String {
    let stats = &one.stats;
    let mut out = format!("  {}\n", headline(one));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "    {name:<9} {value}");
    };
    line(
        "sent",
        format!(
            "{}, {} in {}: {} on average",
            text::packets(stats.packets_out),
            text::size(stats.bytes_out),
            text::span(stats.seconds),
            text::rate(stats.bytes_out as f64 * 8.0 / stats.seconds.max(1e-9))
        ),
    );
    line(
        "backlog",
        format!(
            "{} of {}, {}",
            text::count(stats.backlog_packets),
            text::packets(u64::from(one.limit_packets)),
            text::size(stats.backlog_bytes)
        ),
    );
    line("drops", drops(&stats.drops));
    let tags = stats.tags;
    if tags != TagStats::default() {
        line(
            "tags",
            format!(
                "{} with tickets, {} foreign, {} that can carry none; {} rewritten",
                text::packets(tags.with_tickets),
                text::count(tags.foreign),
                text::count(tags.unable),
                text::count(tags.written)
            ),
        );
    }
    let [all, now] = [stats.sojourn, stats.sojourn_recent];
    line(
        "sojourn",
        format!(
            "p50 {}, p99 {}; in the last second p50 {}, p99 {}",
            text::millis(all.p50_ms),
            text::millis(all.p99_ms),
            text::millis(now.p50_ms),
            text::millis(now.p99_ms)
        ),
    );
    if stats.flows.is_empty() || flows == 0 {
        return out;
    }
    let table = flow_table(&stats.flows[..flows.min(stats.flows.len())]);
    for row in table.lines() {
        let _ = writeln!(out, "   {}", row.trim_end());
    }
    if stats.flows.len() > flows {
        let rest = stats.flows.len() - flows;
        let _ = writeln!(out, "    and {rest} more: --flows {}", stats.flows.len());
    }
    out
}

fn flow_table(flows: &[FlowStats]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // A row that is too long for the terminal is cut by it; broken cells could not be read.
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![
        "flow", "packets", "bytes", "backlog", "p50", "p99", "drops", "last",
    ];
    let are_judged = flows.iter().any(|flow| flow.standing.is_some());
    if are_judged {
        header.push("standing");
    }
    table.set_header(header);
    for flow in flows {
        let backlog = match flow.backlog_packets {
            0 => "-".into(),
            n => format!("{} ({})", text::count(n), text::size(flow.backlog_bytes)),
        };
        let mut row = vec![
            flow.flow.clone(),
            text::count(flow.packets_out),
            text::size(flow.bytes_out),
            backlog,
            text::millis(flow.sojourn_p50_ms),
            text::millis(flow.sojourn_p99_ms),
            drops(&flow.drops),
            last(flow.idle_s),
        ];
        if are_judged {
            row.push(standing(flow));
        }
        table.add_row(row);
    }
    for column in 1..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn last(idle: f64) -> String {
    match idle {
        idle if idle < 1.0 => "now".into(),
        idle => format!("{} ago", text::span(idle)),
    }
}
