// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 8: a video whose source jitters; then with one thing changed at a time.

use std::cmp::Ordering;

use makeway_report::estimate::Estimate;

use super::NEGLIGIBLE;
use super::charts;
use super::columns::Columns;
use super::figures::{jittered, loss};
use super::runs::{self, DELTAS, JITTERED, KINDS};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{Figures, NOT_MEASURED, mean, only, share};

/// Downloads that it is judged by: the middle of the paper's 1 to 20, which does not say how many it had.
const N: u32 = runs::DISTURBED_N;
/// Stands for a threshold above all that is tried, ms.
const NONE: f64 = 1000.0;

/// The smallest delta from which on the video loses more than [`NEGLIGIBLE`], in ms: a loss that a larger delta does not have is not the
/// jitter's. [`NONE`] where it never does, and not a number where a delta was not measured.
fn threshold(figures: &[(u32, Estimate)]) -> f64 {
    let is_measured = |delta: &u32| {
        let found = figures.iter().find(|(other, _)| other == delta);
        found.is_some_and(|(_, x)| !x.mean.is_nan())
    };
    if !DELTAS.iter().all(is_measured) {
        return f64::NAN;
    }
    let loses = |f: &&(u32, Estimate)| f.1.mean > NEGLIGIBLE;
    let first = figures.iter().rev().take_while(loses).last();
    first.map_or(NONE, |f| f64::from(f.0))
}

/// `from 2 ms on`.
fn begins(threshold: f64) -> String {
    match threshold {
        x if x.is_nan() => NOT_MEASURED.into(),
        x if x == NONE => "at no delta tried".into(),
        x => format!("from {x} ms on"),
    }
}

fn column(r: &Results) -> Column {
    Column::of([10, 100].map(|mbit| {
        let name =
            format!("the least delta from which on video is lost at {mbit} Mbit/s, n = {N}, ms");
        (name, only(threshold(&jittered(r, mbit, N))))
    }))
}

pub fn fig8(c: &Columns<'_>) -> Claim {
    let r = c.ours;
    let [printed, ours] = c.both(column);
    let lines = JITTERED.map(|(mbit, n)| {
        let figures = jittered(r, mbit, n);
        let each: Vec<String> = figures
            .iter()
            .map(|(d, l)| format!("{} at {d} ms", share(l)))
            .collect();
        format!("{mbit} Mbit/s, n = {n}: {}", each.join(", "))
    });
    Claim {
        id: "sqf.fig8.10m",
        printed,
        ours,
        paper: "On 10 Mbit/s the video loses its priority, and packets, once its source jitter reaches 5 ms; on 100 Mbit/s the threshold is larger.".into(),
        said: format!("video loss: {}", lines.join("; ")),
        ideal: "eq. (1): the stream is in danger when it has B/(n+1) packets waiting: 25 with one download, 8.3 with five, 5.6 with eight, 4.5 with ten".into(),
        why: why(r),
        setup: "testbed of section V under SQF, each video packet delayed at the source by a Gaussian time of standard deviation delta, packets overtaking each other",
        from: &["jitter/", "jitter-of/", "unpaced"],
        charts: vec![charts::fig8(r)],
        tables: vec![table(r)],
        ..Claim::default()
    }
}

/// Cause, as far as the runs show it: the threshold by downloads, and how one thing changed alone moves it.
fn why(r: &Results) -> String {
    let judged = match r[runs::unpaced()].len() {
        1 => "by the middle one of three runs each".to_owned(),
        runs => format!("by the mean of {runs} replications each"),
    };
    let of_line = JITTERED.iter().filter(|(mbit, _)| *mbit == 10);
    let by_downloads = of_line.map(|(mbit, n)| {
        let threshold = threshold(&jittered(r, *mbit, *n));
        format!("with {n} {}", begins(threshold))
    });
    let mut sentences = vec![
        format!(
            "The paper does not say n; judged at n = {N}, the middle of its 1 to 20, {judged}."
        ),
        format!(
            "On 10 Mbit/s video is lost, by the number of downloads: {}.",
            by_downloads.collect::<Vec<_>>().join(", ")
        ),
    ];
    for mbit in [10, 100] {
        let changed: Vec<(&str, f64)> = (changes(r, mbit).iter())
            .map(|(name, figures)| (*name, threshold(figures)))
            .collect();
        if !changed.is_empty() {
            sentences.push(effects(mbit, threshold(&jittered(r, mbit, N)), &changed));
        }
    }
    let unpaced = mean(&r[runs::unpaced()], |x| loss(x, "video"));
    sentences.push(format!(
        "A video that sends each frame at once, unpaced, loses {} at n = {N}.",
        share(&unpaced)
    ));
    sentences.join(" ")
}

/// Changes by their effect on the delta from which on video is lost.
fn effects(mbit: u32, before: f64, changed: &[(&str, f64)]) -> String {
    let kinds = [
        ("later", Some(Ordering::Greater)),
        ("sooner", Some(Ordering::Less)),
        ("no change", Some(Ordering::Equal)),
        ("nothing is known", None),
    ];
    let of_kind = |(kind, order): &(&str, Option<Ordering>)| {
        let those = changed
            .iter()
            .filter(|(_, after)| after.partial_cmp(&before) == *order);
        let those: Vec<String> = those
            .map(|(name, after)| format!("{name} ({})", begins(*after)))
            .collect();
        (!those.is_empty()).then(|| format!("{kind} with: {}", those.join(", ")))
    };
    let said: Vec<String> = kinds.iter().filter_map(of_kind).collect();
    format!(
        "At {mbit} Mbit/s and n = {N} it is lost {}; of things changed alone, {}.",
        begins(before),
        said.join("; ")
    )
}

/// Losses by delta with one thing changed, where they were run.
fn changes(r: &Results, mbit: u32) -> Vec<(&'static str, Figures)> {
    let kinds = KINDS.iter().filter(|kind| kind.3.contains(&mbit));
    let of = |(kind, name, ..): &(&str, &'static str, &str, &[u32])| {
        let figures = DELTAS.iter().filter_map(|delta| {
            let runs = r.get(&runs::disturbance(kind, mbit, *delta))?;
            Some((*delta, mean(runs, |x| loss(x, "video"))))
        });
        let figures: Figures = figures.collect();
        (!figures.is_empty()).then_some((*name, figures))
    };
    kinds.filter_map(of).collect()
}

fn table(r: &Results) -> Table {
    let row = |name: String, figures: &Figures| {
        let cell = |delta: u32| {
            let found = figures.iter().find(|(other, _)| *other == delta);
            found.map_or_else(String::new, |(_, x)| share(x))
        };
        [name]
            .into_iter()
            .chain(DELTAS.map(cell))
            .collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for mbit in [10, 100] {
        rows.push(row(
            format!("{mbit} Mbit/s, packets overtake"),
            &jittered(r, mbit, N),
        ));
        for (name, figures) in changes(r, mbit) {
            rows.push(row(format!("{mbit} Mbit/s, {name}"), &figures));
        }
    }
    let head = DELTAS.map(|delta| format!("{delta} ms"));
    Table {
        title: format!("Video lost by delta with one thing changed, n = {N}"),
        head: [String::new()].into_iter().chain(head).collect(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{perfect_in, stream};
    use super::super::{SQF, claims};
    use super::*;
    use crate::experiment::World;
    use crate::papers::claim::Verdict;
    use crate::papers::tests::judged;

    fn by_delta(losses: [f64; 6]) -> Figures {
        DELTAS.into_iter().zip(losses.map(only)).collect()
    }

    #[test]
    fn losses_begin_at_the_delta_from_which_on_all_larger_ones_lose() {
        let of = |losses| threshold(&by_delta(losses));
        assert_eq!(of([0.0, 0.0, 0.0, 0.3, 0.3, 0.3]), 5.0);
        assert_eq!(of([0.0, 0.3, 0.0, 0.0, 0.3, 0.3]), 10.0);
        assert_eq!(of([0.0; 6]), NONE);
        assert_eq!(of([0.3; 6]), 0.0);
    }

    #[test]
    fn a_delta_that_was_not_measured_leaves_the_threshold_unknown() {
        for missing in 0..DELTAS.len() {
            let mut losses = [0.0, 0.0, 0.0, 0.0, 0.0, 0.3];
            losses[missing] = f64::NAN;
            assert!(threshold(&by_delta(losses)).is_nan(), "{missing}");
            let mut figures = by_delta([0.0; 6]);
            figures.remove(missing);
            assert!(threshold(&figures).is_nan(), "{missing}");
        }
        assert!(threshold(&[]).is_nan());
    }

    #[test]
    fn a_video_without_figures_is_not_measured_in_both_columns() {
        for seed in 1..=3 {
            let mut r = perfect_in(World::Netns);
            for form in ["", "/printed"] {
                let key = format!("jitter/10/10/20/{seed}{form}");
                r.runs_mut(&key)[0].flows.clear();
            }
            let claims = judged(&SQF, World::Netns, &r);
            let fig8 = claims.iter().find(|claim| claim.id == "sqf.fig8.10m");
            let verdicts = fig8.map(|claim| [claim.printed.verdict, claim.ours.verdict]);
            assert_eq!(verdicts, Some([Verdict::NotMeasured; 2]), "{seed}");
        }
    }

    #[test]
    fn the_explanation_follows_the_runs() {
        let why = |r: &Results| {
            let all = claims(r);
            let fig8 = all.into_iter().find(|claim| claim.id == "sqf.fig8.10m");
            fig8.unwrap().why
        };
        let buffer = "packets overtake, a buffer of 200 packets";
        let far = "packets overtake, downloads with a one-way delay of 25 ms, not 0";
        let mut r = perfect_in(World::Sim);
        let said = why(&r);
        let first = "At 10 Mbit/s and n = 10 it is lost from 5 ms on; of things changed alone, later with: ";
        assert!(said.contains(first), "{said}");
        let later = format!("later with: {buffer} (from 20 ms on)");
        assert!(said.contains(&later), "{said}");
        let same = format!("no change with: {far} (from 5 ms on)");
        assert!(said.contains(&same), "{said}");
        // The other way round.
        for delta in DELTAS {
            let set = |r: &mut Results, kind: &str, lost: bool| {
                let key = runs::disturbance(kind, 10, delta);
                let flow = stream("video", if lost { 0.3 } else { 0.0 }, 0.4);
                r.runs_mut(key.path())[0].flows = vec![flow];
            };
            set(&mut r, "buffer-200", delta >= 5);
            set(&mut r, "far", delta >= 2);
        }
        let said = why(&r);
        let ten = said.split("At 100 Mbit/s").next().unwrap();
        assert!(!ten.contains("later with: "), "{said}");
        for is in [
            format!("no change with: {buffer} (from 5 ms on)"),
            format!("{far} (from 2 ms on)"),
        ] {
            assert!(ten.contains(&is), "{said}");
        }
        r.runs_mut("unpaced")[0].flows = vec![stream("video", 0.25, 0.4)];
        assert!(why(&r).contains("unpaced, loses 25 % at n = 10"));
    }
}
