// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world `vm`: scenarios in a guest with Debian's newest kernel and its qdiscs.
//!
//! The guest has this program, `tc` and the scenarios' files. There `makeway guest` runs one after the other as the world netns does,
//! in namespaces with real TCP, and writes [`Message`]s.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use makeway_core::units::Rate;
use makeway_netns::{Backend, LATEST_MS, Options, lateness};
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_scenario::model::Source;
use makeway_vm::{Accelerator, Kernel, Vm, VmError, cache, find};
use serde::{Deserialize, Serialize};

use super::session;
use crate::text;

/// Largest sum of the measured links' rates in such a guest: see docs/scenario.md.
const TRANSLATED: Rate = Rate::from_bps(40_000_000);
/// Time limit of a guest without progress, as a multiple of the scenario's duration.
const SLOWNESS: f64 = 20.0;
/// Below this share of idle processors figures are the machine's as much as the queue's.
const LEAST_IDLE: f64 = 0.2;
/// Part of every kernel.
const BUILT_IN: [&str; 3] = ["bfifo", "pfifo", "cubic"];
/// Links, delay, and shaping.
const MODULES: [&str; 7] = [
    "veth",
    "ifb",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
    "sch_netem",
    "sch_tbf",
];

/// A scenario file with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Where it is, here and in the guest.
    pub file: PathBuf,
    /// `link.line.rate=5mbit`.
    pub set: Vec<String>,
}

/// A message of the guest.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// How far a run is, in seconds.
    At { elapsed: f64, of: f64 },
    /// A run is finished.
    Done(Box<Report>),
    /// A run could not be made, and no other is.
    Failed(String),
}

/// Runs scenarios, as asked for from outside.
#[derive(Args)]
pub struct Guest {
    /// JSON: what to run.
    jobs: PathBuf,
}

/// The guest's half.
pub fn guest(args: &Guest) -> anyhow::Result<ExitCode> {
    let jobs: Vec<Job> = serde_json::from_slice(&fs::read(&args.jobs)?)?;
    for job in jobs {
        let line = match in_guest(&job) {
            Ok(report) => Message::Done(Box::new(report)),
            Err(error) => Message::Failed(format!("{error:#}")),
        };
        say(&line)?;
        if let Message::Failed(_) = line {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn in_guest(job: &Job) -> anyhow::Result<Report> {
    let scenario = makeway_scenario::load(&job.file, &job.set)?;
    let options = Options {
        backend: Backend::Kernel,
        ..Options::default()
    };
    let before = Ticks::now();
    let mut second = 0;
    let mut report = makeway_netns::run(&scenario, options, |progress| {
        let [elapsed, of] = [progress.elapsed, progress.duration].map(|d| d.as_secs_f64());
        if elapsed as u64 > second {
            second = elapsed as u64;
            // Without a reader the progress is not needed.
            let _ = say(&Message::At { elapsed, of });
        }
    })?;
    let idle = before.idle_until(&Ticks::now());
    let environment = &mut report.environment;
    environment.insert("processors idle".into(), format!("{:.0} %", idle * 100.0));
    if idle < LEAST_IDLE {
        report.warnings.push(format!(
            "the guest's processors were idle for {:.0} % of the time only: lower the rates",
            idle * 100.0
        ));
    }
    Ok(report)
}

fn say(line: &Message) -> anyhow::Result<()> {
    text::say!("{}", serde_json::to_string(line)?);
    Ok(std::io::stdout().flush()?)
}

/// Time of all processors, from `/proc/stat`.
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = first
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        Self {
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().sum(),
        }
    }

    fn idle_until(&self, later: &Self) -> f64 {
        let [idle, all] = [later.idle - self.idle, later.all - self.all];
        idle as f64 / all.max(1) as f64
    }
}

/// Kernel of the guest, and the executor of its instructions. Where `/dev/kvm` is, a guest is booted to know it, once for each boot of the machine.
///
/// # Errors
/// There is no such guest here.
pub fn machine() -> Result<(Kernel, Accelerator), VmError> {
    let [_, kernel] = Kernel::with_bpf_qdiscs(&cache())?;
    let accelerator = Accelerator::best(&kernel)?;
    Ok((kernel, accelerator))
}

/// Why no guest here has the qdisc `kind` of Linux: its kernel has no module of it, or `tc`, which comes from this machine, does not know it.
///
/// # Errors
/// There is no such guest here.
pub fn lacks(kind: &str) -> anyhow::Result<Option<String>> {
    let [_, kernel] = Kernel::with_bpf_qdiscs(&cache())?;
    let module = format!("sch_{kind}");
    if !BUILT_IN.contains(&kind) && !kernel.has(&module)? {
        let release = kernel.release();
        return Ok(Some(format!("Linux {release} has no module {module}")));
    }
    let why =
        "this machine's `tc`, which guests have too, does not know it: install a newer iproute2";
    Ok((!tc_knows(kind)?).then(|| why.into()))
}

/// Asks `tc` for its help of a qdisc. Help and "Unknown qdisc" both come on standard error, with the same exit status.
fn tc_knows(kind: &str) -> anyhow::Result<bool> {
    let mut tc = Command::new(find("tc", "iproute2")?);
    let output = tc.args(["qdisc", "add", kind, "help"]).output()?;
    Ok(!String::from_utf8_lossy(&output.stderr).contains("Unknown qdisc"))
}

/// Whether all were run; a signal may have come between.
///
/// `took` is given each report, in order, and `shown` how far a run is: which, and seconds of how many.
///
/// # Errors
/// There is no such guest here, or a scenario cannot be run in it.
pub fn run(
    jobs: &[Job],
    any_rate: bool,
    stop: &AtomicBool,
    mut shown: impl FnMut(usize, f64, f64),
    mut took: impl FnMut(Report) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let (kernel, accelerator) = machine()?;
    let program = std::env::current_exe()?;
    let mut guest = match accelerator {
        Accelerator::Kvm => Vm::new(&kernel).accelerator(accelerator),
        Accelerator::Tcg => Vm::new(&kernel).counting(),
    };
    guest = guest
        .stop_on(stop)
        .program(&program)
        .program(&find("tc", "iproute2")?);
    let mut limit = Duration::from_secs(120);
    let mut modules: BTreeSet<String> = MODULES.map(String::from).into();
    let mut files = BTreeSet::new();
    let mut inside = Vec::new();
    for job in jobs {
        let file = std::path::absolute(&job.file)?;
        let scenario = makeway_scenario::load(&file, &job.set)?;
        if let Some(why) = too_fast(&scenario)
            && !any_rate
            && accelerator == Accelerator::Tcg
        {
            bail!("{why}, or add --any-rate");
        }
        limit += Duration::from_secs_f64(scenario.duration.as_secs_f64() * SLOWNESS);
        modules.extend(needs(&scenario));
        files.extend(carried(&scenario));
        files.insert(file.clone());
        inside.push(Job {
            file,
            set: job.set.clone(),
        });
    }
    for module in &modules {
        guest = guest.module(module);
    }
    for file in &files {
        let content = fs::read(file).with_context(|| file.display().to_string())?;
        guest = guest.file(&file.to_string_lossy(), content);
    }
    guest = guest.file("/etc/jobs", serde_json::to_vec(&inside)?);
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let (mut done, mut failed) = (0, None);
    let ended = guest.follow(&format!("/bin/{name} guest /etc/jobs"), limit, |line| {
        match serde_json::from_str(line) {
            Ok(Message::At { elapsed, of }) => shown(done, elapsed, of),
            Ok(Message::Done(report)) => {
                done += 1;
                if let Err(error) = took(of_guest(*report, accelerator)) {
                    failed.get_or_insert(error);
                }
            }
            Ok(Message::Failed(why)) => {
                failed.get_or_insert(anyhow::anyhow!("in the guest: {why}"));
            }
            // Other lines stay in the output.
            Err(_) => {}
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let boots = ended.as_ref().map_or(0, |output| output.failed_boots.len());
    if boots > 0 {
        eprintln!("boots of the guest's kernel that failed and were tried again: {boots}");
    }
    match ended {
        Ok(output) if output.status == 0 && done == jobs.len() => Ok(true),
        Ok(output) => bail!(
            "in the guest: {}{}",
            last_words(&output.text),
            output.console
        ),
        Err(VmError::TimedOut { limit, .. }) => bail!(
            "the guest made no progress for {} s, after {done} of {} runs",
            limit.as_secs(),
            jobs.len()
        ),
        Err(error) => Err(error.into()),
    }
}

fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('{')).collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// A report of the guest, which does not know what runs it.
fn of_guest(mut report: Report, accelerator: Accelerator) -> Report {
    report.world = "vm".into();
    let (how, processors) = match accelerator {
        Accelerator::Kvm => ("kvm", "2"),
        Accelerator::Tcg => (
            "tcg; the guest's clock counts instructions, 10^9 a second",
            "1",
        ),
    };
    let environment = &mut report.environment;
    environment.insert("accelerator".into(), how.into());
    environment.insert("processors".into(), processors.into());
    if let Some(late) = lateness(&report).filter(|late| *late > LATEST_MS) {
        report.warnings.push(format!(
            "a sender in the guest was up to {late:.1} ms late: its next packets left as a burst"
        ));
    }
    report
}

/// Why a translated guest would not keep up with it.
pub fn too_fast(scenario: &Scenario) -> Option<String> {
    let rate = measured(scenario);
    (rate > TRANSLATED).then(|| {
        format!("the measured links carry {rate} together, and a translated guest keeps up with at most {TRANSLATED}: lower the rates")
    })
}

/// Rates of the links whose queues are reported.
fn measured(scenario: &Scenario) -> Rate {
    let egresses = scenario.links.iter().flat_map(|link| &link.egress);
    let measured = egresses.filter(|egress| egress.measure);
    let rates = measured.filter_map(|egress| egress.rate);
    Rate::from_bps(rates.map(|rate| rate.bps()).sum())
}

/// Modules of its qdiscs and of its congestion control.
fn needs(scenario: &Scenario) -> Vec<String> {
    let qdiscs = makeway_netns::kinds(scenario);
    let qdiscs = qdiscs.iter().map(|kind| ("sch", kind.as_str()));
    let controls = scenario.flows.iter().filter_map(|flow| match &flow.source {
        Source::Bulk {
            congestion_control, ..
        } => Some(("tcp", congestion_control.as_str())),
        _ => None,
    });
    qdiscs
        .chain(controls)
        .filter(|(_, name)| !BUILT_IN.contains(name) && *name != "reno")
        .map(|(kind, name)| format!("{kind}_{name}"))
        .collect()
}

/// The files that it reads.
fn carried(scenario: &Scenario) -> Vec<PathBuf> {
    let read = scenario.flows.iter().filter_map(|flow| match &flow.source {
        Source::Rtp { trace, .. } => Some(trace),
        Source::Pcap { file, .. } => Some(file),
        _ => None,
    });
    read.cloned().collect()
}

/// One scenario, with a bar.
///
/// # Errors
/// As [`run`].
pub fn one(file: &Path, set: &[String], any_rate: bool) -> anyhow::Result<Option<Report>> {
    let job = Job {
        file: file.into(),
        set: set.to_vec(),
    };
    let stop = session::stop_on_signals()?;
    let scenario = makeway_scenario::load(file, set)?;
    let bar = session::bar(&scenario, "vm")?;
    let mut report = None;
    let show = |_, elapsed: f64, of: f64| session::show_seconds(&bar, elapsed, of);
    run(&[job], any_rate, &stop, show, |done| {
        report = Some(done);
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tc_says_whether_it_knows_a_qdisc() {
        if find("tc", "iproute2").is_err() {
            return makeway_testing::skip("no tc");
        }
        let known = ["fq_codel", "netem", "no_such_kind"].map(|kind| tc_knows(kind).unwrap());
        assert_eq!(known, [true, true, false]);
    }
}
