// SPDX-License-Identifier: MIT OR Apache-2.0
//! Only the sender changes: the call to another receiver, which is the DCCP of Debian's kernel in a guest.
//!
//! It is measured by `makeway dccp`, with real packets, by a guest's clock that counts instructions, and kept like a run in network
//! namespaces: as printed beside two Reno flows of the kernel, ours alone on a link that is too slow for the call.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use makeway_report::estimate::Estimate;
use makeway_vm::VmError;

use super::congestion::{congested, told_of};
use super::runs::{CHOICES, GUEST, GUEST_CHOICES, Gain, SLOTS, Sweep};
use super::tables::by_rate;
use super::{SETUP, points};
use crate::experiment::{CODE, Cell, Key, Results, folder_of, keep};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{largest, only, plain, times};
use makeway::dccp::{CALL, Calls, Count, Row, kernel, measure};
use makeway::session::stop_on_signals;

const ID: &str = "sbpn.receiver_unchanged";
/// The first is what the others are compared with.
const POLICIES: [&str; 2] = ["fifo", "sbpn2"];
/// As long as the paper's.
const SECONDS: u64 = 60;
/// As many as the paper's.
const RUNS: u32 = 30;
/// Beside Reno flows, kbit/s: of the sweep of Fig. 4, where the call is congested.
const BESIDE: [u32; 3] = [600, 800, 1000];
/// Reno flows.
const FLOWS: u32 = 2;
const GAIN: &str = "audio's gain with the kernel's DCCP beside two Reno flows, 30 runs, points";

/// Rows of the two measurements.
struct Rows {
    /// Beside the Reno flows.
    beside: Vec<Row>,
    alone: Vec<Row>,
}

/// By simulated time.
pub fn receiver_unchanged(r: &Results) -> Claim {
    let [audio, _] = CHOICES[0].gains(r, "sbpn2");
    Claim {
        id: ID,
        ours: Column::of([(
            "audio's gain in simulated time, points",
            only(audio * 100.0),
        )]),
        paper: "Only the sender changes: an unmodified receiver gains.".into(),
        said: format!(
            "audio on time {} % of the datagrams with the same receiver, which knows nothing of policies",
            points(audio)
        ),
        ideal: "the same receiver".into(),
        setup: SETUP,
        from: &["choice/none", "guest/"],
        tables: vec![
            by_rate(
                &GUEST.congested(r),
                "RTT 80 ms, queue 5, alone on a slow link in simulated time",
            ),
            changed(r),
        ],
        ..Claim::default()
    }
}

/// Alone on a slow link in simulated time, with one thing changed.
fn changed(r: &Results) -> Table {
    let row = |name: &str, sweep: &Sweep| {
        let gains = sweep.congested(r);
        let cells = sweep.points.iter().map(|kbit| {
            let gain = gains.iter().find(|gain| gain.kbit == *kbit);
            gain.map_or_else(
                || "not congested".to_owned(),
                |gain| {
                    let fifo = gain.fifo.mean * 100.0;
                    let [audio, video] = [gain.audio, gain.video].map(|x| points(x.mean));
                    format!("{fifo:.1}; {audio}, {video}")
                },
            )
        });
        let column = congested(&gains, "");
        let judged = [
            "congested rates at which audio gains over 10 %, %",
            "video falls by audio's gain",
        ];
        let judged = judged.map(|name| match column.figure(name) {
            _ if gains.is_empty() => "no rate congested".into(),
            figure => figure.map_or_else(String::new, |x| plain(&x)),
        });
        let name = [name.to_owned()].into_iter();
        name.chain(cells).chain(judged).collect::<Vec<String>>()
    };
    let changed = GUEST_CHOICES.iter();
    let changed = changed.map(|choice| row(choice.name, &choice.sweep));
    let rates = GUEST.points.iter().map(|kbit| format!("{kbit} kbit/s"));
    let head = ["changed".to_owned()].into_iter().chain(rates);
    let ends = ["rates with over 10 %, %", "video falls by audio's gain"];
    Table {
        title: "Alone on a slow link in simulated time, with one thing changed, or two where the row says so. In each cell: audio on time with the unmodified queue, in %; then how much more audio and video is on time with SBPN2, in points of the datagrams".into(),
        head: head.chain(ends.map(str::to_owned)).collect(),
        rows: [row("nothing", &GUEST)].into_iter().chain(changed).collect(),
    }
}

/// Judges the statement by the kernel too, if it is among `claims`.
///
/// # Errors
/// A call failed in the guest, the figures cannot be kept, or a signal stopped it. Then, and where no guest runs, the claim says so.
pub fn by_kernel(claims: &mut [Claim], folder: &Path, runs: Option<u32>) -> anyhow::Result<()> {
    match claims.iter_mut().find(|claim| claim.id == ID) {
        Some(claim) => {
            let runs = u64::from(runs.map_or(RUNS, |runs| runs.min(RUNS)));
            take(claim, measured(folder, runs))
        }
        None => Ok(()),
    }
}

/// Both measurements; the inner error is why no guest ran.
fn measured(folder: &Path, runs: u64) -> anyhow::Result<Result<Rows, VmError>> {
    let [beside, alone] = both(runs);
    Ok(match rows(folder, "guest-beside", &beside)? {
        Ok(beside) => rows(folder, "guest", &alone)?.map(|alone| Rows { beside, alone }),
        Err(error) => Err(error),
    })
}

/// Judges `claim` by them, or has it say why there are none.
fn take(claim: &mut Claim, rows: anyhow::Result<Result<Rows, VmError>>) -> anyhow::Result<()> {
    match rows {
        Ok(rows) => judge(claim, rows),
        Err(error) => {
            not_run(claim, &error);
            return Err(error);
        }
    }
    Ok(())
}

fn not_run(claim: &mut Claim, error: impl Display) {
    let error = format!("{error:#}");
    let first = error.lines().next().unwrap_or_default();
    claim.why = format!(
        "The receiver is this library's: the kernel's, in a guest, was not run here ({first})."
    );
}

/// Calls beside the Reno flows, as printed; and alone.
fn both(runs: u64) -> [Calls; 2] {
    let calls = |rates: &[u32], tcp, set: &[&str]| Calls {
        policies: POLICIES.map(str::to_owned).into(),
        rates: rates.iter().map(|rate| u64::from(*rate)).collect(),
        runs,
        first: 0,
        seconds: SECONDS,
        tcp,
        set: set.iter().map(|set| (*set).to_owned()).collect(),
    };
    [calls(&BESIDE, FLOWS, &[SLOTS]), calls(GUEST.points, 0, &[])]
}

/// The kept measurement, or else a new one; the inner error is why no guest ran.
fn rows(folder: &Path, name: &str, calls: &Calls) -> anyhow::Result<Result<Vec<Row>, VmError>> {
    let cell = Cell {
        set: vec![format!("{calls:?}")],
        ..Cell::new(Key::new(name), CALL, SECONDS)
    };
    let release = match kernel() {
        Ok(kernel) => kernel.release().to_owned(),
        Err(error) => return Ok(Err(error)),
    };
    let place = folder_of(&cell, folder, &format!("{CODE} {release}"));
    let file = place.join("rows.json");
    let kept = fs::read_to_string(&file).ok();
    if let Some(rows) = kept.and_then(|text| serde_json::from_str(&text).ok()) {
        return Ok(Ok(rows));
    }
    eprintln!(
        "a guest with Debian's kernel and its DCCP: {} calls at once, each beside {} Reno flows, {} times {SECONDS} s of its own clock",
        calls.rates.len() * calls.policies.len(),
        calls.tcp,
        calls.runs
    );
    let stop = stop_on_signals()?;
    let rows = measure(calls);
    if stop.load(Ordering::Relaxed) {
        bail!("stopped in the guest; the runs in simulated time are kept");
    }
    let rows = match rows {
        Err(error) => return error.downcast().map(Err),
        Ok(rows) => rows,
    };
    let text = serde_json::to_string_pretty(&rows)?;
    fs::create_dir_all(&place)
        .and_then(|()| keep(&file, &text))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Ok(rows))
}

/// As printed by the kernel; ours by both, simulated time, as `claim` has it, and the kernel.
fn judge(claim: &mut Claim, rows: Result<Rows, VmError>) {
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => return not_run(claim, error),
    };
    claim.printed = Column::of([(GAIN, gain_of_runs(&rows.beside))]);
    let alone = gains(&rows.alone, GUEST.points);
    let column = std::mem::take(&mut claim.ours);
    claim.ours = column.and(congested(&alone, " with the kernel's DCCP"));
    claim.said = format!(
        "in simulated time {}. With Debian's kernel as receiver, beside two Reno flows: {}; alone: {}",
        claim.said,
        told_of(&gains(&rows.beside, &BESIDE)),
        told_of(&alone)
    );
    claim.setup = "as Fig. 4; and real packets to the DCCP of Debian's kernel, which knows nothing of policies, in a guest of QEMU whose clock counts instructions, RTT 80 ms: beside two Reno flows of the kernel with a buffer of 20 packets, an expired packet using its send slot; and alone on a link that is too slow for the call, with 10 packets (`makeway dccp`)";
    let all = || rows.beside.iter().chain(&rows.alone);
    let worst = largest(all().map(|row| row.late_ms));
    let runs = all().map(|row| row.run + 1).max().unwrap_or(0);
    claim.why = format!(
        "Ours holds if it does in simulated time and with the kernel. The guest has {runs} runs of each, and a datagram came to the sender {worst:.0} ms late at worst."
    );
    let tables = [
        (
            gains(&rows.beside, &BESIDE),
            "RTT 80 ms, queue 5, beside two Reno flows to the kernel's DCCP",
        ),
        (
            alone,
            "RTT 80 ms, queue 5, alone on a slow link to the kernel's DCCP",
        ),
    ];
    let tables = tables.map(|(gains, title)| by_rate(&gains, title));
    let simulated = std::mem::take(&mut claim.tables);
    claim.tables = tables.into_iter().chain(simulated).collect();
}

/// Share of a class on time in one run; not a number where there is no such run, or nothing was sent in it.
fn share(rows: &[Row], policy: &str, kbit: u32, run: u64, class: fn(&Row) -> Count) -> f64 {
    let is_of = |row: &&Row| row.policy == policy && row.rate == u64::from(kbit) && row.run == run;
    let count = rows.iter().find(is_of).map(class);
    let count = count.filter(|count| count.made > 0);
    count.map_or(f64::NAN, |count| count.on_time_share())
}

/// Gain of a class in one run: both policies had the same call.
fn more(rows: &[Row], kbit: u32, run: u64, class: fn(&Row) -> Count) -> f64 {
    let [before, after] = POLICIES.map(|policy| share(rows, policy, kbit, run, class));
    after - before
}

/// Points that audio gains: the mean over the rates, run by run. All of the paper's runs must be there.
fn gain_of_runs(rows: &[Row]) -> Estimate {
    let of_run = |run| {
        let gains = BESIDE.map(|kbit| more(rows, kbit, run, |row| row.audio));
        gains.iter().sum::<f64>() / gains.len() as f64
    };
    times(Estimate::of((0..u64::from(RUNS)).map(of_run)), 100.0)
}

/// Rate by rate, run by run, where the call is congested or nothing is known of it.
fn gains(rows: &[Row], rates: &[u32]) -> Vec<Gain> {
    let runs = rows.iter().map(|row| row.run + 1).max().unwrap_or(0);
    let gain = |kbit: &u32| {
        let each = |of: &dyn Fn(u64) -> f64| Estimate::of((0..runs).map(of));
        Gain {
            kbit: *kbit,
            fifo: each(&|run| share(rows, POLICIES[0], *kbit, run, |row| row.audio)),
            audio: each(&|run| more(rows, *kbit, run, |row| row.audio)),
            video: each(&|run| more(rows, *kbit, run, |row| row.video)),
        }
    };
    let gains = rates.iter().map(gain);
    gains.filter(Gain::is_congested).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::World;
    use crate::papers::claim::Verdict;
    use crate::papers::criteria::Criteria;

    /// Runs at each rate; shares on time in per cent: audio and video without the policy, then with it.
    fn made_up(rates: &[u32], runs: u32, shares: [[u64; 2]; 2]) -> Vec<Row> {
        let count = |on_time| Count {
            made: 100,
            received: 100,
            on_time,
        };
        let mut rows = Vec::new();
        for rate in rates {
            for run in 0..u64::from(runs) {
                for (policy, [audio, video]) in POLICIES.iter().zip(shares) {
                    rows.push(Row {
                        policy: (*policy).into(),
                        rate: u64::from(*rate),
                        run,
                        late_ms: 3.0,
                        audio: count(audio + run % 2),
                        video: count(video),
                    });
                }
            }
        }
        rows
    }

    fn alone(shares: [[u64; 2]; 2]) -> Vec<Row> {
        made_up(GUEST.points, 2, shares)
    }

    const GAINED: [[u64; 2]; 2] = [[50, 40], [80, 30]];

    fn judged(simulated: bool, rows: Result<Rows, VmError>) -> Claim {
        let gain = if simulated { 20.0 } else { 5.0 };
        let mut claim = Claim {
            id: ID,
            ours: Column::of([("audio's gain in simulated time, points", only(gain))]),
            said: "audio on time +20.0 %".into(),
            ..Claim::default()
        };
        judge(&mut claim, rows);
        let criteria = Criteria::of("sbpn").unwrap();
        criteria.judge(World::Sim, vec![claim]).unwrap().remove(0)
    }

    #[test]
    fn both_simulated_time_and_the_kernel_must_hold() {
        let verdict = |simulated, alone| {
            let beside = made_up(&BESIDE, RUNS, GAINED);
            judged(simulated, Ok(Rows { beside, alone })).ours.verdict
        };
        assert_eq!(verdict(true, alone(GAINED)), Verdict::Reproduced);
        assert_eq!(verdict(false, alone(GAINED)), Verdict::Differs);
        for lost in [[[50, 40], [52, 40]], [[50, 60], [80, 10]]] {
            assert_eq!(verdict(true, alone(lost)), Verdict::Differs);
        }
        assert_eq!(verdict(true, vec![]), Verdict::NotMeasured);
    }

    #[test]
    fn as_printed_it_takes_thirty_runs_beside_two_reno_flows_at_each_rate() {
        let verdict = |beside: Vec<Row>| {
            let alone = alone(GAINED);
            judged(true, Ok(Rows { beside, alone })).printed.verdict
        };
        let all = || made_up(&BESIDE, RUNS, GAINED);
        assert_eq!(verdict(all()), Verdict::Reproduced);
        let lost = made_up(&BESIDE, RUNS, [[50, 40], [49, 40]]);
        assert_eq!(verdict(lost), Verdict::Differs);
        assert_eq!(verdict(made_up(&BESIDE, 29, GAINED)), Verdict::NotMeasured);
        assert_eq!(
            verdict(made_up(&BESIDE[1..], RUNS, GAINED)),
            Verdict::NotMeasured
        );
        assert_eq!(verdict(vec![]), Verdict::NotMeasured);
        // A call of which nothing was sent.
        let mut empty = all();
        empty[7].audio = Count::default();
        assert_eq!(verdict(empty), Verdict::NotMeasured);
        let [beside, alone] = both(u64::from(RUNS));
        assert_eq!((beside.runs, beside.tcp), (30, 2));
        assert_eq!(beside.set, ["flow.call.expired_use_slots=true"]);
        assert_eq!((alone.runs, alone.tcp, alone.set.len()), (30, 0, 0));
    }

    #[test]
    fn gains_are_those_of_the_same_run() {
        let of = |rows: &[Row]| gains(rows, GUEST.points);
        let mut rows = alone(GAINED);
        let gain = of(&rows)[0];
        assert_eq!(gain.kbit, GUEST.points[0]);
        assert!((gain.fifo.mean - 0.505).abs() < 1e-9);
        assert!((gain.audio.mean - 0.3).abs() < 1e-9 && gain.audio.half_width < Some(1e-9));
        assert!((gain.video.mean + 0.1).abs() < 1e-9);
        // A rate at which all of the unmodified queue's audio is on time tells nothing, ...
        assert!(of(&alone([[97, 40], [99, 40]])).is_empty());
        // ... and one that was not measured is not left out.
        rows.retain(|row| row.rate != u64::from(GUEST.points[0]));
        assert_eq!(of(&rows).len(), GUEST.points.len());
        let column = congested(&of(&rows), "");
        let figures = [
            "congested rates at which audio gains over 10 %, %",
            "video falls by audio's gain",
        ];
        assert!(
            figures
                .map(|name| column.figure(name).unwrap().mean)
                .iter()
                .all(|x| x.is_nan())
        );
    }

    #[test]
    fn without_a_guest_it_is_not_measured_and_the_claim_says_why() {
        let missing = VmError::Missing {
            program: "qemu".into(),
            package: "qemu-system-x86",
        };
        let claim = judged(true, Err(missing));
        let verdicts = [claim.printed.verdict, claim.ours.verdict];
        assert_eq!(verdicts, [Verdict::NotMeasured; 2]);
        assert_eq!(claim.said, "audio on time +20.0 %");
        let asked = "was not run here (qemu is not installed";
        assert!(claim.why.contains(asked), "{}", claim.why);
        assert!(claim.tables.is_empty());
    }

    #[test]
    fn a_guest_that_fails_is_an_error_and_the_claim_says_why() {
        let mut claim = Claim::default();
        let failed = anyhow::anyhow!("no such module").context("in the guest: dccp_ipv4\nmore");
        let error = take(&mut claim, Err(failed)).unwrap_err();
        assert!(error.to_string().starts_with("in the guest"), "{error}");
        let asked = "was not run here (in the guest: dccp_ipv4)";
        assert!(claim.why.contains(asked), "{}", claim.why);
    }
}
