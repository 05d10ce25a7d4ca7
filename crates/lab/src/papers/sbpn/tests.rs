// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up figures, where the paper is right.

use makeway_report::estimate::Estimate;
use makeway_report::model::{ClassReport, FlowReport, MediaReport};

use super::congestion::congested;
use super::runs::Gain;
use super::*;
use crate::papers::claim::Verdict;
use crate::papers::tests::{all_are, every_figure_is_refused_when_it_is_wrong, judged, made_up};

/// Shares on time and received of audio, then of video, where the paper is right.
fn shares(cell: &str) -> [[f64; 2]; 2] {
    let parts: Vec<&str> = cell.split('/').collect();
    let policy = parts[parts.len() - 2];
    match (parts[0], parts[1], policy) {
        ("loss", _, "fifo") => [[0.80, 0.90]; 2],
        ("loss", _, "sbpn1") => [[0.80, 0.80]; 2],
        ("loss", ..) => [[0.85, 0.85], [0.85, 0.855]],
        ("printed", "loss", "sbpn1") => [[0.70, 0.70]; 2],
        ("printed", "loss", _) => [[0.75, 0.75], [0.75, 0.80]],
        (_, "restart", _) => [[0.51, 0.60], [0.60, 0.70]],
        (.., "fifo") => [[0.50, 0.60], [0.60, 0.70]],
        (_, "80-32" | "32", _) => [[0.80, 0.80], [0.60, 0.70]],
        _ => [[0.70, 0.70], [0.57, 0.70]],
    }
}

fn perfect() -> Results {
    perfect_in(World::Sim)
}

fn perfect_in(world: World) -> Results {
    let report = |cell: &str| {
        let classes = ["audio", "video"].into_iter().zip(shares(cell));
        let class = |(name, [on_time, received]): (&str, [f64; 2])| ClassReport {
            name: name.into(),
            offered: 10_000,
            received: (received * 1e4).round() as u64,
            on_time: (on_time * 1e4).round() as u64,
            ..ClassReport::default()
        };
        let call = FlowReport {
            name: "call".into(),
            group: "call".into(),
            kind: "media".into(),
            media: Some(MediaReport {
                classes: classes.map(class).collect(),
                ..MediaReport::default()
            }),
            ..FlowReport::default()
        };
        made_up(57.0, vec![call], vec![])
    };
    let cells = cells(false, world).into_iter();
    cells
        .map(|cell| {
            let report = report(cell.key.path());
            (cell.key, vec![report; 3])
        })
        .collect()
}

#[test]
fn a_perfect_world_agrees_with_the_paper() {
    // The kernel's part is measured beside the cells.
    let receiver = ("sbpn.receiver_unchanged", [Verdict::NotMeasured; 2]);
    let claims = judged(&SBPN, World::Sim, &perfect());
    all_are(Verdict::Reproduced, &claims, &[receiver]);
}

#[test]
fn every_statement_follows_its_figures() {
    every_figure_is_refused_when_it_is_wrong(&SBPN, World::Sim, &perfect());
}

#[test]
fn statements_beside_the_kernels_tcp_follow_their_figures() {
    let perfect = perfect_in(World::Netns);
    let ours = [Verdict::NotMeasurable, Verdict::Reproduced];
    let but = ["sbpn.fig4", "sbpn.fig5"].map(|id| (id, ours));
    let claims = judged(&SBPN, World::Netns, &perfect);
    all_are(Verdict::Reproduced, &claims, &but);
    every_figure_is_refused_when_it_is_wrong(&SBPN, World::Netns, &perfect);
}

fn gains(all: &[(f64, f64)]) -> Vec<Gain> {
    let gain = |(audio, video): &(f64, f64)| Gain {
        kbit: 1000,
        fifo: Estimate::of([0.5]),
        audio: Estimate::of([*audio]),
        video: Estimate::of([*video]),
    };
    all.iter().map(gain).collect()
}

#[test]
fn gains_are_counted_where_they_are_over_a_tenth_and_falls_by_what_audio_gains() {
    let of = |all: &[(f64, f64)]| {
        let column = congested(&gains(all), "");
        let of = |name: &str| column.figure(name).unwrap().mean;
        [
            of("congested rates at which audio gains over 10 %, %"),
            of("video falls by audio's gain"),
        ]
    };
    // Over 10 % of 50 is 5 of 100.
    let [rates, falls] = of(&[(0.3, -0.1), (0.2, 0.0), (0.04, 0.0)]);
    assert!((rates - 200.0 / 3.0).abs() < 1e-9 && (falls - 0.1 / 0.54).abs() < 1e-9);
    assert_eq!(of(&[(0.3, 0.1)]), [100.0, 0.0]);
    assert_eq!(of(&[(-0.1, -0.1)]), [0.0, f64::INFINITY]);
    assert!(of(&[]).iter().all(|x| x.is_nan()));
}
