// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench kernel`: instructions that a packet costs in the kernel's qdiscs and in ours.

mod guest;
mod veth;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use indicatif::{ProgressBar, ProgressStyle};
use makeway_vm::{Accelerator, Kernel, Vm, cache, find};
use serde::{Deserialize, Serialize};

use super::Output;
use crate::tables::align;
use makeway::text;

/// Counts the instructions that a packet costs in qdiscs: pfifo, fq_codel, fq and cake of the kernel, and ours.
///
/// Boots Debian's newest kernel with BPF qdiscs in QEMU, which counts instructions (`-icount shift=0`: its clock advances by one
/// nanosecond with each), so that figures do not depend on this machine or what else it does. Takes some minutes.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  makeway-lab bench kernel\n  makeway-lab bench kernel --only sqf --only fq_codel\n  makeway-lab bench kernel --json kernel.json"
)]
pub struct KernelArgs {
    #[command(flatten)]
    output: Output,
    /// Only this qdisc; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(guest::NAMES))]
    only: Vec<String>,
    /// Measures in place: this is the guest.
    #[arg(long, hide = true)]
    guest: bool,
}

/// How the qdisc is loaded while packets are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Case {
    /// Packets pass one by one; nothing waits.
    Idle,
    /// The buffer is filled, is offered as many packets again, and is emptied; this number of flows in turn.
    Overload(u32),
    /// The same with a thousand flows, of which one sends nine tenths of all packets.
    Flood,
}

impl Case {
    const ALL: [Self; 5] = [
        Self::Idle,
        Self::Overload(10),
        Self::Overload(1000),
        Self::Overload(30_000),
        Self::Flood,
    ];

    fn name(self) -> String {
        match self {
            Self::Idle => "idle".into(),
            Self::Overload(flows) => format!("overload, {}", text::count(flows.into())),
            Self::Flood => "flood".into(),
        }
    }
}

/// Instructions for each packet, from the sender's system call to the receiver's softirq, medians over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    case: Case,
    /// Instructions for a packet that comes and leaves.
    forwarded: f64,
    /// Instructions for a packet that comes while the buffer is full, and for the one dropped. None in `idle`.
    dropped: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Subject {
    /// `noqueue` is the path without a qdisc.
    qdisc: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    commit: &'static str,
    kernel: String,
    counted_by: &'static str,
    subjects: Vec<Subject>,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct Target {
    name: String,
    target: f64,
    measured: f64,
    met: bool,
}

const COUNTED_BY: &str = "QEMU -icount shift=0, one processor";
const LIMIT: Duration = Duration::from_secs(900);
const PATH: &str = "noqueue";

pub fn run(args: &KernelArgs) -> anyhow::Result<ExitCode> {
    if args.guest {
        guest::run(&args.only)?;
        return Ok(ExitCode::SUCCESS);
    }
    let [_, kernel] = Kernel::with_bpf_qdiscs(&cache())?;
    let subjects = measure(&kernel, &args.only)?;
    let targets = targets(&subjects);
    let report = Report {
        schema: 1,
        command: "makeway-lab bench kernel",
        commit: env!("MAKEWAY_COMMIT"),
        kernel: kernel.release().into(),
        counted_by: COUNTED_BY,
        subjects,
        targets,
    };
    if args.output.has_tables() {
        print(&report);
    }
    args.output.json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(kernel: &Kernel, only: &[String]) -> anyhow::Result<Vec<Subject>> {
    let program = std::env::current_exe().context("where is this program?")?;
    let name = program.file_name().and_then(|name| name.to_str());
    let name = name.context("this program has no name")?;
    let mut command = format!("/bin/{name} bench kernel --guest");
    for name in only {
        command += &format!(" --only {name}");
    }
    let mut vm = Vm::new(kernel)
        .accelerator(Accelerator::Tcg)
        .qemu(["-icount", "shift=0"])
        .cpus(1)
        .program(&program)
        .program(&find("tc", "iproute2")?)
        .program(&find("ip", "iproute2")?);
    for module in ["veth", "sch_fq", "sch_cake"] {
        vm = vm.module(module);
    }
    let mut subjects = Vec::new();
    let progress = ProgressBar::new(guest::NAMES.len() as u64 + 1);
    progress.set_style(ProgressStyle::with_template(
        "qdiscs {bar:40.green} {pos} of {len}",
    )?);
    progress.tick();
    let output = vm.follow(&command, LIMIT, |line| {
        if let Ok(subject) = serde_json::from_str::<Subject>(line) {
            progress.inc(1);
            subjects.push(subject);
        }
    })?;
    progress.finish_and_clear();
    if output.status != 0 {
        bail!("the guest could not measure: {}", output.text.trim());
    }
    Ok(subjects)
}

/// Cost of a qdisc in a case: its packets' path, less that path without a qdisc.
fn own(subjects: &[Subject], qdisc: &str, case: Case, of: fn(&Row) -> Option<f64>) -> Option<f64> {
    let find = |qdisc: &str| {
        let subject = subjects.iter().find(|one| one.qdisc == qdisc)?;
        subject.rows.iter().find(|row| row.case == case)
    };
    Some(of(find(qdisc)?)? - of(find(PATH)?)?)
}

fn forwarded(row: &Row) -> Option<f64> {
    Some(row.forwarded)
}

fn dropped(row: &Row) -> Option<f64> {
    row.dropped
}

/// SQF against cake and fq_codel, and makeway against cake, wherever each is; under a flood a drop of SQF against a packet
/// that it forwards.
fn targets(subjects: &[Subject]) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut target = |name, target, ratio: Option<f64>| {
        if let Some(measured) = ratio {
            targets.push(Target {
                name,
                target,
                measured,
                met: measured <= target,
            });
        }
    };
    for case in Case::ALL {
        for (what, of) in [
            ("forwarded", forwarded as fn(&Row) -> _),
            ("dropped", dropped),
        ] {
            for (ours, other, most) in [
                ("sqf", "cake", 0.7),
                ("sqf", "fq_codel", 1.2),
                ("makeway", "cake", 0.7),
            ] {
                let name = format!("bpf:{ours}");
                let ratio =
                    || Some(own(subjects, &name, case, of)? / own(subjects, other, case, of)?);
                target(
                    format!("{}, {what}: {ours} / {other}", case.name()),
                    most,
                    ratio(),
                );
            }
        }
    }
    let flood = |of| own(subjects, "bpf:sqf", Case::Flood, of);
    let ratio = || Some(flood(dropped)? / flood(forwarded)?);
    target("flood: sqf, dropped / forwarded".into(), 1.0, ratio());
    targets
}

fn print(report: &Report) {
    text::say!(
        "Instructions of a packet in the qdisc: its path from the sender's system call to the receiver, less that path with {PATH}.\nA dropped packet \
         is one that comes to a full buffer, with the one dropped for it. Linux {}, {}.\n",
        report.kernel,
        report.counted_by
    );
    let subjects = &report.subjects;
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let names = subjects.iter().map(|subject| subject.qdisc.as_str());
    table.set_header(["case", ""].into_iter().chain(names));
    for case in Case::ALL {
        for (what, of) in [
            ("forwarded", forwarded as fn(&Row) -> _),
            ("dropped", dropped),
        ] {
            let figures = subjects.iter().map(|subject| {
                let row = subject.rows.iter().find(|row| row.case == case);
                match subject.qdisc == PATH {
                    true => row.and_then(of).map(|path| format!("({path:.0})")),
                    false => own(subjects, &subject.qdisc, case, of).map(|own| format!("{own:.0}")),
                }
            });
            let figures: Vec<String> = figures.map(Option::unwrap_or_default).collect();
            if figures.iter().any(|figure| !figure.is_empty()) {
                let head = [case.name(), what.to_owned()];
                table.add_row(head.into_iter().chain(figures));
            }
        }
    }
    let table = align(table, 2);
    text::say!("{table}\n({PATH}: the whole path.)\n");
    for one in &report.targets {
        let verdict = if one.met { "met" } else { "MISSED" };
        text::say!(
            "{}: {:.2}, at most {:.2}: {verdict}",
            one.name,
            one.measured,
            one.target
        );
    }
}
