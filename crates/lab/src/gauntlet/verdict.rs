// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether `makeway` wins a case, and why not.

use makeway_core::sched::Discipline;
use makeway_report::estimate::Estimate;

use super::sample::{Get, Sample};

/// A call does not gain by a shorter 99th percentile of its delay than this, in ms.
const SOON: f64 = 60.0;
/// Part of the remaining capacity that the other traffic must use.
const REST: f64 = 0.95;

/// Why `own` does not win; `None` without rivals or an interval.
pub fn lost(own: &[Sample], rivals: &[(Discipline, &Vec<Sample>)]) -> Option<Vec<String>> {
    if own.len() < 2 || rivals.is_empty() {
        return None;
    }
    let mut reasons = Vec::new();
    for (name, rival) in rivals {
        if let Some(figure) = better_call(rival, own) {
            reasons.push(format!("the call under {name} has {figure}"));
        }
        if starves_rest(own, rival) {
            reasons.push(format!("the other traffic has more under {name}"));
        }
    }
    Some(reasons)
}

/// The difference `a - b` over replications with the same random numbers.
fn difference(a: &[Sample], b: &[Sample], get: Get) -> Estimate {
    let pairs = a.iter().zip(b);
    Estimate::of(pairs.filter_map(|(a, b)| Some(get(a)? - get(b)?)))
}

/// The first figure that differs beyond the interval, if the difference is for `rival`.
fn better_call(rival: &[Sample], own: &[Sample]) -> Option<&'static str> {
    let figures: [(Get, f64, &str); 4] = [
        (|s| s.on_time, 1.0, "a larger share on time"),
        (|s| s.frozen_s, -1.0, "less frozen time"),
        // The rate of a sender that does not adapt says nothing that `on_time` does not.
        (|s| s.frozen_s.and(s.rate_mbps), 1.0, "a higher rate"),
        (
            |s| s.delay_p99_ms.map(|ms| ms.max(SOON)),
            -1.0,
            "a shorter delay",
        ),
    ];
    figures
        .into_iter()
        .map(|(get, sign, figure)| (difference(rival, own, get), sign, figure))
        .find(|(difference, ..)| difference.certain())
        .filter(|(difference, sign, _)| difference.mean * sign > 0.0)
        .map(|(.., figure)| figure)
}

/// Whether the other traffic lacks, beyond the interval, more than the call uses more than under `rival`, and 5 % of the remainder.
fn starves_rest(own: &[Sample], rival: &[Sample]) -> bool {
    let lacking = own.iter().zip(rival).filter_map(|(own, rival)| {
        let call = own.rate_mbps.unwrap_or(0.0) - rival.rate_mbps.unwrap_or(0.0);
        Some(REST * (rival.goodput_mbps? - call) - own.goodput_mbps?)
    });
    let lacking = Estimate::of(lacking);
    lacking.certain() && lacking.mean > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share on time and frozen time, 5 Mbit/s, and the goodput of the rest, a little different in each of three runs.
    fn made_up(on_time: f64, frozen_s: f64, p99: f64, rest: f64) -> Vec<Sample> {
        let run = |n: u32| Sample {
            on_time: Some(on_time - 0.001 * f64::from(n % 2)),
            frozen_s: Some(frozen_s),
            delay_p99_ms: Some(p99),
            rate_mbps: Some(5.0),
            goodput_mbps: Some(rest + 0.01 * f64::from(n)),
            ..Sample::default()
        };
        (0..3).map(run).collect()
    }

    #[test]
    fn a_call_wins_unless_a_rivals_is_better_or_the_rest_starves() {
        let own = made_up(0.99, 1.0, 40.0, 4.0);
        let wins = |rival: Vec<Sample>| {
            lost(&own, &[(Discipline::Fifo, &rival)]).map(|reasons| reasons.is_empty())
        };
        assert_eq!(wins(own.clone()), Some(true));
        // The share on time decides before frozen time does.
        assert_eq!(wins(made_up(0.98, 0.0, 10.0, 4.0)), Some(true));
        assert_eq!(wins(made_up(0.995, 2.0, 80.0, 4.0)), Some(false));
        assert_eq!(wins(made_up(0.99, 0.5, 40.0, 4.0)), Some(false));
        // Sooner than soon is no better.
        assert_eq!(wins(made_up(0.99, 1.0, 10.0, 4.0)), Some(true));
        // Of 4.4 Mbit/s beside a call that has no less, 4 are not 95 %; of 4.1 they are.
        assert_eq!(wins(made_up(0.99, 1.0, 40.0, 4.4)), Some(false));
        assert_eq!(wins(made_up(0.99, 1.0, 40.0, 4.1)), Some(true));
        // A rate that the call lacks under the rival is the call's.
        let mut thirsty = made_up(0.5, 1.0, 40.0, 8.0);
        thirsty.iter_mut().for_each(|s| s.rate_mbps = Some(1.0));
        assert_eq!(wins(thirsty.clone()), Some(true));
        thirsty.iter_mut().for_each(|s| s.rate_mbps = Some(2.0));
        assert_eq!(wins(thirsty), Some(false));
    }

    #[test]
    fn a_difference_within_the_interval_is_none() {
        let own = made_up(0.99, 1.0, 40.0, 4.0);
        let mut rival = own.clone();
        rival[0].on_time = Some(0.991);
        rival[1].on_time = Some(0.9885);
        assert_eq!(lost(&own, &[(Discipline::Fifo, &rival)]), Some(vec![]));
        // One run has no interval, and without a rival there is nothing to win.
        assert_eq!(lost(&own[..1], &[(Discipline::Fifo, &rival)]), None);
        assert_eq!(lost(&own, &[]), None);
    }
}
