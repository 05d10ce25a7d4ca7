// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mobile link as it was recorded: two traces of Mahimahi, one for each direction.

use std::path::Path;

use anyhow::{Context, anyhow};
use makeway_scenario::files;

use super::link::{Course, LOAD, Probes, SECONDS, VaryingLink};

/// Its name among the cases.
const NAME: &str = "trace";
/// Bits that may leave at one opportunity.
const BITS: f64 = 12_000.0;
/// Shares of the mean rate that a second may have: those between which every algorithm may set its own.
const SHARES: (f64, f64) = (0.1, 2.0);
/// Least mean rate, Mbit/s.
const LEAST: f64 = 0.1;

/// The link of two files.
pub fn traced(up: &Path, down: &Path) -> anyhow::Result<VaryingLink> {
    let read = |file: &Path| -> anyhow::Result<Vec<f64>> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("{} cannot be read", file.display()))?;
        rates(&text).map_err(|why| anyhow!("{}: {why}", file.display()))
    };
    Ok(of([read(up)?, read(down)?]))
}

/// Mbit/s of each second of a run; a trace begins again after its end.
fn rates(text: &str) -> Result<Vec<f64>, String> {
    let trace = files::opportunities(text).map_err(|(line, why)| format!("line {line}: {why}"))?;
    let mut rates = vec![0.0; SECONDS as usize];
    for n in 0_u64.. {
        let (at, count) = trace.nth(n);
        let second = at.as_nanos() / 1_000_000_000;
        let Some(rate) = rates.get_mut(second as usize) else {
            break;
        };
        *rate += f64::from(count) * BITS / 1e6;
    }
    Ok(rates)
}

fn of(rates: [Vec<f64>; 2]) -> VaryingLink {
    // In whole kbit/s.
    let nominal = [0, 1].map(|n: usize| {
        let mean = rates[n].iter().sum::<f64>() / rates[n].len() as f64;
        (mean.max(LEAST) * 1e3).round() / 1e3
    });
    let share = |n: usize, second: u32| {
        let share = rates[n][second as usize] / nominal[n];
        share.clamp(SHARES.0, SHARES.1)
    };
    let steps = (1..SECONDS).map(|second| (f64::from(second), share(0, second), share(1, second)));
    let steps: Vec<(f64, f64, f64)> = steps.collect();
    VaryingLink {
        name: NAME,
        nominal,
        // One for the whole life of the program.
        rates: Course::Traced(steps.leak()),
        probes: Probes::Plain,
        load: &[(LOAD, SECONDS)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_the_rate_of_its_opportunities_within_what_algorithms_may_set() {
        // 1000 opportunities in the first second of two, and one at the end of the second; 1000 in each second.
        let up = "500\n".repeat(1000) + "2000\n";
        let down: String = (1..=1000).map(|ms| format!("{ms}\n")).collect();
        let link = of([rates(&up).unwrap(), rates(&down).unwrap()]);
        assert_eq!(link.nominal, [6.006, 12.0]);
        let steps = link.steps(7);
        assert_eq!(steps.len(), 90);
        let is = |n: usize, at: f64, up: f64| {
            let (found, [share, other]) = steps[n];
            assert_eq!(found, at);
            assert!((share - up).abs() < 1e-9 && (other - 1.0).abs() < 1e-9);
        };
        // Before the load begins it has its mean.
        is(0, 0.0, 1.0);
        is(1, 1.0, 0.1);
        is(2, 2.0, 2.0);
        is(89, 89.0, 0.1);
        assert_eq!(link.events(), [8.0]);
        let text = link.scenario(7, link.nominal);
        let read = makeway_scenario::parse(&text, link.name, Path::new("."), &[]);
        assert!(read.is_ok(), "{:?}\n{text}", read.err());
    }

    #[test]
    fn a_wrong_trace_is_refused_with_its_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let [good, bad] = ["good", "bad"].map(|name| folder.path().join(name));
        std::fs::write(&good, "1\n2\n").unwrap();
        std::fs::write(&bad, "2\n1\n").unwrap();
        assert!(traced(&good, &good).is_ok());
        for [up, down] in [[&good, &bad], [&bad, &good]] {
            let error = traced(up, down).err().unwrap().to_string();
            assert!(error.contains("bad: line 2: `1` should be"), "{error}");
        }
        let error = traced(&good, &folder.path().join("none")).err().unwrap();
        assert!(error.to_string().contains("none cannot be read"), "{error}");
    }
}
