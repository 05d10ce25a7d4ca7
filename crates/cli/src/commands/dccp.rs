// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway dccp`: a call from our DCCP to the kernel's, which knows nothing of policies.

mod call;
mod reno;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, ensure};
use makeway_core::units::{self, Rate};
use makeway_report::estimate::Estimate;
use makeway_report::table::{right, table};
use makeway_scenario::model::Scenario;
use makeway_vm::{Kernel, Vm, VmError};
use serde::{Deserialize, Serialize};

use crate::builtin;
use crate::text::say;

/// The scenario of the call.
pub const CALL: &str = "papers/sbpn/guest.toml";

/// Delay of the call's link, each way.
const DELAY: units::Duration = units::Duration::from_millis(40);

/// Sends a call to the kernel's own DCCP in a guest, and counts timely arrivals.
///
/// The kernel's DCCP is the unmodified receiver of the SBPN paper: only the sender's policy differs. Sender, link and receiver
/// are in one guest of QEMU with Debian 12's kernel, so that one clock serves both ends. It counts the guest's instructions, so that other
/// load of this machine makes no datagram late.
#[derive(clap::Args)]
pub struct Dccp {
    #[command(flatten)]
    calls: Calls,
    /// Writes the figures of each run to a file.
    #[arg(long)]
    json: Option<std::path::PathBuf>,
    /// Runs in the guest.
    #[arg(long, hide = true)]
    guest: bool,
}

/// Calls that are measured, each policy at each rate.
#[derive(Clone, Debug, clap::Args)]
pub struct Calls {
    /// Policies of the sender's queue.
    #[arg(long, value_delimiter = ',', default_value = "fifo,sbpn2")]
    pub policies: Vec<String>,
    /// Link rates in kbit/s; the call needs about 340 with the headers of IP and DCCP.
    #[arg(long, value_delimiter = ',', default_value = "200,250,300,350")]
    pub rates: Vec<u64>,
    /// Runs of each, with another call.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MOST_RUNS))]
    pub runs: u64,
    /// Number of the first run.
    #[arg(long, default_value_t = 0, hide = true, value_parser = clap::value_parser!(u64).range(..END))]
    pub first: u64,
    /// Seconds of each run.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub seconds: u64,
    /// Downloads of the kernel's Reno beside each call; the link has room for 20 packets with them, for 10 without.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tcp: u32,
    /// Changes the scenario of the call, as `makeway run` does: flow.call.expired_use_slots=true.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Receive counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Datagrams that the application made after the warm-up.
    pub made: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that arrived before their deadline.
    pub on_time: u64,
}

impl Count {
    /// Share of the created datagrams that arrived on time, 0 to 1.
    pub fn on_time_share(&self) -> f64 {
        self.on_time as f64 / self.made.max(1) as f64
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Policy of the sender's queue.
    pub policy: String,
    /// Link rate in kbit/s.
    pub rate: u64,
    /// Counted from 0.
    pub run: u64,
    /// Largest lateness of a datagram at the sender, in ms: the machine's disturbance of the run.
    pub late_ms: f64,
    /// Count of audio datagrams.
    pub audio: Count,
    /// Count of video datagrams.
    pub video: Count,
}

/// The subcommand.
pub fn run(args: &Dccp) -> anyhow::Result<ExitCode> {
    if args.guest {
        return guest(&args.calls);
    }
    let rows = measure(&args.calls)?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows)?;
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    say!("{}", summary(&rows));
    Ok(ExitCode::SUCCESS)
}

/// The guest's kernel: Debian's newest of a release that has DCCP.
///
/// # Errors
/// None can be found.
pub fn kernel() -> Result<Kernel, VmError> {
    Kernel::newest("6.1.", "-cloud-amd64", &makeway_vm::cache())
}

/// Guests at a time, of a core and 1 GiB each.
const MOST_GUESTS: u64 = 4;

/// Runs of each policy at each rate.
const MOST_RUNS: u64 = 1 << 20;

/// Numbers of runs are below it.
const END: u64 = 1 << 32;

/// Boots a guest for each core, 4 at most, each with a share of the runs, and measures there.
///
/// # Errors
/// Without QEMU, or where apt has no kernel with DCCP; the last run has a number of 2^32 or more.
pub fn measure(calls: &Calls) -> anyhow::Result<Vec<Row>> {
    for policy in &calls.policies {
        scenario(policy, 0, &calls.set)?;
    }
    ensure!(
        !calls.rates.contains(&0),
        "--rates must exceed 0 kbit/s: write 250,300"
    );
    ensure!(
        calls.first.saturating_add(calls.runs) <= END,
        "--first {} and --runs {} have numbers of runs beyond {}: write --first 0",
        calls.first,
        calls.runs,
        END - 1
    );
    let kernel = kernel()?;
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let shares = shares(calls, cores.min(MOST_GUESTS));
    let rows: Vec<anyhow::Result<Vec<Row>>> = thread::scope(|scope| {
        let guests = shares.iter();
        let guests: Vec<_> = guests
            .map(|share| scope.spawn(|| in_guest(&kernel, share)))
            .collect();
        let joined = guests.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|rows| rows.unwrap_or_else(|_| Err(anyhow::anyhow!("a guest's thread panicked"))))
            .collect()
    });
    let rows: Vec<Vec<Row>> = rows.into_iter().collect::<anyhow::Result<_>>()?;
    Ok(rows.concat())
}

/// The runs in `guests` parts or fewer, in order.
fn shares(calls: &Calls, guests: u64) -> Vec<Calls> {
    let most = calls.runs.div_ceil(guests.max(1)).max(1);
    let begins = (0..calls.runs).step_by(usize::try_from(most).unwrap_or(usize::MAX));
    begins
        .map(|begin| Calls {
            first: calls.first + begin,
            runs: most.min(calls.runs - begin),
            ..calls.clone()
        })
        .collect()
}

fn in_guest(kernel: &Kernel, calls: &Calls) -> anyhow::Result<Vec<Row>> {
    let program = env::current_exe()?;
    let guest = Vm::new(kernel)
        .counting()
        .module("dccp_ipv4")
        .module("tun")
        .program(&program);
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let command = command(&name, calls);
    let limit = Duration::from_secs(120 + calls.runs * (calls.seconds + 30));
    let output = guest.run(&command, limit)?;
    ensure!(output.status == 0, "in the guest: {}", output.text);
    let lines = output.text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

/// Command of the guest's shell.
fn command(program: &str, calls: &Calls) -> String {
    let rates: Vec<String> = calls.rates.iter().map(u64::to_string).collect();
    let set = calls.set.iter();
    let set = set.map(|set| format!(" --set '{}'", set.replace('\'', r"'\''")));
    format!(
        "/bin/{program} dccp --guest --policies {} --rates {} --first {} --runs {} --seconds {} --tcp {}{}",
        calls.policies.join(","),
        rates.join(","),
        calls.first,
        calls.runs,
        calls.seconds,
        calls.tcp,
        set.collect::<String>()
    )
}

/// All policies and rates of a run at once, each on a separate link.
fn guest(args: &Calls) -> anyhow::Result<ExitCode> {
    let rates = args.rates.iter();
    let cells: Vec<(&str, u64)> = rates
        .flat_map(|rate| args.policies.iter().map(|policy| (policy.as_str(), *rate)))
        .collect();
    for run in args.first..args.first.saturating_add(args.runs) {
        let rows: Vec<anyhow::Result<Row>> = thread::scope(|scope| {
            let calls: Vec<_> = cells
                .iter()
                .zip(0..)
                .map(|(&(policy, rate), place)| {
                    scope.spawn(move || {
                        let scenario = scenario(policy, run, &args.set)?;
                        let line = Rate::from_bps(rate * 1000);
                        let ([audio, video], late) =
                            call::call(&scenario, line, place, args.seconds, args.tcp)
                                .with_context(|| format!("{policy} at {rate} kbit/s"))?;
                        let policy = policy.to_owned();
                        Ok(Row {
                            policy,
                            rate,
                            run,
                            late_ms: late.as_nanos() as f64 / 1e6,
                            audio,
                            video,
                        })
                    })
                })
                .collect();
            let joined = calls.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|row| row.unwrap_or_else(|_| Err(anyhow::anyhow!("a call panicked"))))
                .collect()
        });
        for row in rows {
            say!("{}", serde_json::to_string(&row?)?);
        }
        std::io::stdout().flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `ip` in the calling thread's network namespace.
fn ip(words: &str) -> anyhow::Result<()> {
    let done = Command::new("ip").args(words.split(' ')).status()?;
    ensure!(done.success(), "`ip {words}` failed");
    Ok(())
}

fn scenario(policy: &str, run: u64, set: &[String]) -> anyhow::Result<Scenario> {
    let own = [
        format!("flow.call.policy={policy}"),
        format!("seed={}", run + 1),
    ];
    let text = builtin::text(CALL);
    let set = [&own[..], set].concat();
    Ok(makeway_scenario::parse(text, CALL, Path::new(""), &set)?)
}

/// A line for each rate and policy.
fn summary(rows: &[Row]) -> String {
    let mut cells: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let policies = cells.entry(row.rate).or_default();
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
    }
    let mut table = table(&[
        "link",
        "policy",
        "audio on time",
        "video on time",
        "video received",
    ]);
    for (rate, policies) in cells {
        for policy in policies {
            let of = |share: fn(&Row) -> f64| {
                let rows = rows
                    .iter()
                    .filter(|row| row.rate == rate && row.policy == policy);
                let share = Estimate::of(rows.map(share));
                let half = share
                    .half_width
                    .map_or_else(String::new, |half| format!(" ± {half:.1}"));
                right(format!("{:.1}{half} %", share.mean))
            };
            table.add_row([
                format!("{rate} kbit/s").into(),
                policy.into(),
                of(|row| row.audio.on_time_share() * 100.0),
                of(|row| row.video.on_time_share() * 100.0),
                of(|row| row.video.received as f64 * 100.0 / row.video.made.max(1) as f64),
            ]);
        }
    }
    format!("{table}\nShares of the created datagrams; the receiver is the kernel's DCCP, CCID 3.")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        command: Which,
    }

    #[derive(clap::Subcommand)]
    enum Which {
        Dccp(Dccp),
    }

    /// The guest's program reads what this one was asked for.
    #[test]
    fn the_guest_gets_all_that_was_asked_for() {
        let calls = Calls {
            policies: vec!["fifo".into(), "sbpn2".into()],
            rates: vec![600, 800],
            runs: 30,
            first: 15,
            seconds: 60,
            tcp: 2,
            set: vec!["flow.call.expired_use_slots=true".into()],
        };
        let command = command("makeway", &calls);
        // A shell takes the quotes away.
        let words = command.replace('\'', "");
        let Which::Dccp(read) = Program::try_parse_from(words.split(' ')).unwrap().command;
        assert!(read.guest);
        assert_eq!(format!("{:?}", read.calls), format!("{calls:?}"));
        let quoted = Calls {
            set: vec!["title=\"it's\"".into()],
            ..calls
        };
        assert!(super::command("makeway", &quoted).ends_with(r#" --set 'title="it'\''s"'"#));
    }

    #[test]
    fn each_run_is_made_in_one_guest() {
        let Which::Dccp(read) = Program::try_parse_from(["makeway", "dccp"])
            .unwrap()
            .command;
        let shares = |runs, guests| -> Vec<(u64, u64)> {
            let calls = Calls {
                runs,
                ..read.calls.clone()
            };
            let shares = super::shares(&calls, guests);
            shares
                .iter()
                .map(|share| (share.first, share.runs))
                .collect()
        };
        assert_eq!(shares(30, 2), [(0, 15), (15, 15)]);
        assert_eq!(shares(3, 2), [(0, 2), (2, 1)]);
        assert_eq!(shares(2, 4), [(0, 1), (1, 1)]);
        assert_eq!(shares(5, 1), [(0, 5)]);
        assert_eq!(shares(0, 2), []);
    }

    #[test]
    fn a_call_without_runs_or_with_more_than_can_be_numbered_is_refused() {
        let is_read = |more: &str| {
            let words = format!("makeway dccp {more}");
            Program::try_parse_from(words.split(' ')).is_ok()
        };
        for more in [
            "--runs 1 --first 4294967295",
            "--runs 1048576",
            "--seconds 86400",
        ] {
            assert!(is_read(more), "{more}");
        }
        for more in [
            "--runs 0",
            "--runs 1048577",
            "--first 4294967296",
            "--seconds 86401",
        ] {
            assert!(!is_read(more), "{more}");
        }
        let Which::Dccp(read) =
            Program::try_parse_from(["makeway", "dccp", "--first", "4294967295"])
                .unwrap()
                .command;
        let error = measure(&read.calls).unwrap_err().to_string();
        assert!(error.contains("beyond 4294967295"), "{error}");
    }

    #[test]
    fn a_setting_reaches_the_scenario_of_the_call() {
        let set = ["flow.call.expired_use_slots=true".to_owned()];
        let slots = |set: &[String]| {
            let scenario = scenario("sbpn2", 0, set).unwrap();
            let makeway_scenario::model::Source::Media(media) = &scenario.flows[0].source else {
                panic!("the flow is not of kind media");
            };
            media.queue.expired_use_slots
        };
        assert!(slots(&set) && !slots(&[]));
        assert!(scenario("sbpn2", 0, &["flow.call.slots=1".into()]).is_err());
    }
}
