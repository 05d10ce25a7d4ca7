// SPDX-License-Identifier: MIT OR Apache-2.0
//! Only the sender changes: the call to another receiver, which is the DCCP of Debian's kernel in a guest.
//!
//! It is measured by `makeway dccp`, with real packets and in real time, and kept like a run in network namespaces.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use makeway_report::estimate::Estimate;
use makeway_vm::VmError;

use super::congestion::{congested, told_of};
use super::runs::{CHOICES, GUEST, Gain};
use super::tables::by_rate;
use super::{SETUP, points};
use crate::experiment::{CODE, Cell, Key, Results, folder_of, keep};
use crate::papers::claim::{Claim, Column};
use crate::papers::figures::{largest, only};
use makeway::dccp::{CALL, Row, measure};
use makeway::session::stop_on_signals;

const ID: &str = "sbpn.receiver_unchanged";
/// The first is what the others are compared with.
const POLICIES: [&str; 2] = ["fifo", "sbpn2"];
/// As long as the paper's.
const SECONDS: u64 = 60;
/// Real time: with the boot, about five minutes.
const RUNS: u32 = 4;

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
        tables: vec![by_rate(
            &GUEST.congested(r),
            "RTT 80 ms, queue 5, alone on a slow link in simulated time",
        )],
        ..Claim::default()
    }
}

/// Judges the statement by the kernel too, if it is among `claims`.
///
/// # Errors
/// A call failed in the guest, the figures cannot be kept, or a signal stopped it. Where no guest runs, the claim says so.
pub fn by_kernel(claims: &mut [Claim], folder: &Path, runs: Option<u32>) -> anyhow::Result<()> {
    if let Some(claim) = claims.iter_mut().find(|claim| claim.id == ID) {
        let runs = runs.map_or(RUNS, |runs| runs.min(RUNS));
        let rows = rows(folder, u64::from(runs))?;
        judge(claim, rows);
    }
    Ok(())
}

/// The kept measurement, or else a new one; the inner error is why no guest ran.
fn rows(folder: &Path, runs: u64) -> anyhow::Result<Result<Vec<Row>, VmError>> {
    let policies = POLICIES.map(str::to_owned);
    let rates = GUEST.points.iter().map(|rate| u64::from(*rate));
    let rates: Vec<u64> = rates.collect();
    let cell = Cell {
        set: vec![policies.join(","), format!("{rates:?}"), runs.to_string()],
        ..Cell::new(Key::new("guest"), CALL, SECONDS)
    };
    let place = folder_of(&cell, folder, CODE);
    let file = place.join("rows.json");
    let kept = fs::read_to_string(&file).ok();
    if let Some(rows) = kept.and_then(|text| serde_json::from_str(&text).ok()) {
        return Ok(Ok(rows));
    }
    let calls = rates.len() * policies.len();
    let minutes = (runs * (SECONDS + 4) + 30).div_ceil(60);
    eprintln!(
        "a guest with Debian's kernel and its DCCP: {calls} calls at once, {runs} times {SECONDS} s: about {minutes} min"
    );
    let stop = stop_on_signals()?;
    let rows = measure(&policies, &rates, runs, SECONDS);
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

/// Both must hold: simulated time, as `claim` has it, and the kernel.
fn judge(claim: &mut Claim, rows: Result<Vec<Row>, VmError>) {
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            claim.why = format!(
                "The receiver is this library's: the kernel's, in a guest, was not run here ({first})."
            );
            return;
        }
    };
    let gains = gains(&rows);
    let column = std::mem::take(&mut claim.ours);
    claim.ours = column.and(congested(&gains, " with the kernel's DCCP"));
    claim.said = format!(
        "in simulated time {}. With Debian's kernel as receiver {}",
        claim.said,
        told_of(&gains)
    );
    claim.setup = "as Fig. 4; and real packets to the DCCP of Debian's kernel, which knows nothing of policies, in a guest of QEMU: the call alone on a line that is too slow for it, RTT 80 ms, buffer of 10 packets (`makeway dccp`)";
    let worst = largest(rows.iter().map(|row| row.late_ms));
    let runs = rows.iter().map(|row| row.run + 1).max().unwrap_or(0);
    claim.why = format!(
        "It holds if it does in both. The second table is the simulator's of the kernel's set-up: alone on a line audio gains less than beside TCP. The guest has {runs} runs of each, and translates its processor's instructions: a datagram came to the sender {worst:.0} ms late at worst."
    );
    claim.tables.insert(
        0,
        by_rate(
            &gains,
            "RTT 80 ms, queue 5, alone on a slow link to the kernel's DCCP",
        ),
    );
}

/// Rate by rate, run by run: both policies had the same call.
fn gains(rows: &[Row]) -> Vec<Gain> {
    let gain = |kbit: &u32| {
        let of = |policy: &str, share: fn(&Row) -> f64| {
            let is_of = |row: &&Row| row.policy == policy && row.rate == u64::from(*kbit);
            let shares = rows.iter().filter(is_of).map(share);
            shares.collect::<Vec<f64>>()
        };
        let more = |share: fn(&Row) -> f64| {
            let [before, after] = POLICIES.map(|policy| of(policy, share));
            Estimate::of(
                after
                    .iter()
                    .zip(before)
                    .map(|(after, before)| after - before),
            )
        };
        let audio: fn(&Row) -> f64 = |row| row.audio.on_time_share();
        Gain {
            kbit: *kbit,
            fifo: Estimate::of(of(POLICIES[0], audio)),
            audio: more(audio),
            video: more(|row| row.video.on_time_share()),
        }
    };
    let gains = GUEST.points.iter().map(gain);
    gains.filter(Gain::is_congested).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::World;
    use crate::papers::claim::Verdict;
    use crate::papers::criteria::Criteria;
    use makeway::dccp::Count;

    /// Two runs at each rate; shares on time in per cent: audio and video without the policy, then with it.
    fn made_up(shares: [[u64; 2]; 2]) -> Vec<Row> {
        let count = |on_time| Count {
            made: 100,
            received: 100,
            on_time,
        };
        let mut rows = Vec::new();
        for rate in GUEST.points {
            for run in 0..2 {
                for (policy, [audio, video]) in POLICIES.iter().zip(shares) {
                    rows.push(Row {
                        policy: (*policy).into(),
                        rate: u64::from(*rate),
                        run,
                        late_ms: 3.0,
                        audio: count(audio + run),
                        video: count(video),
                    });
                }
            }
        }
        rows
    }

    fn judged(simulated: bool, rows: Result<Vec<Row>, VmError>) -> Claim {
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
        let verdict = |simulated, rows| judged(simulated, Ok(rows)).ours.verdict;
        let gained = || made_up([[50, 40], [80, 30]]);
        assert_eq!(verdict(true, gained()), Verdict::Reproduced);
        assert_eq!(verdict(false, gained()), Verdict::Differs);
        for lost in [[[50, 40], [52, 40]], [[50, 60], [80, 10]]] {
            assert_eq!(verdict(true, made_up(lost)), Verdict::Differs);
        }
        assert_eq!(verdict(true, vec![]), Verdict::NotMeasured);
    }

    #[test]
    fn gains_are_those_of_the_same_run() {
        let mut rows = made_up([[50, 40], [80, 30]]);
        let gain = gains(&rows)[0];
        assert_eq!(gain.kbit, GUEST.points[0]);
        assert!((gain.fifo.mean - 0.505).abs() < 1e-9);
        assert!((gain.audio.mean - 0.3).abs() < 1e-9 && gain.audio.half_width < Some(1e-9));
        assert!((gain.video.mean + 0.1).abs() < 1e-9);
        // A rate at which all of the unmodified queue's audio is on time tells nothing.
        rows.retain(|row| row.rate != u64::from(GUEST.points[0]));
        assert_eq!(gains(&rows).len(), GUEST.points.len() - 1);
        assert!(gains(&made_up([[97, 40], [99, 40]])).is_empty());
    }

    #[test]
    fn without_a_guest_it_is_not_measured_and_the_claim_says_why() {
        let missing = VmError::Missing {
            program: "qemu".into(),
            package: "qemu-system-x86",
        };
        let claim = judged(true, Err(missing));
        assert_eq!(claim.ours.verdict, Verdict::NotMeasured);
        assert_eq!(claim.said, "audio on time +20.0 %");
        let asked = "was not run here (qemu is not installed";
        assert!(claim.why.contains(asked), "{}", claim.why);
        assert!(claim.tables.is_empty());
    }
}
