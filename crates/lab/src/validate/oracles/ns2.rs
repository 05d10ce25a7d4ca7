// SPDX-License-Identifier: MIT OR Apache-2.0
//! ns-2.35, segment by segment: one to four packets of a window lost.

#[path = "../ns2/pipe.rs"]
mod pipe;

use anyhow::Context;
use makeway_core::units::Bytes;
use makeway_sim::tcp::{Config, Variant};

use crate::validate::oracle::{Case, Known, Ours, Question};

/// Packets that ns-2 sends, see its head.
const SEGMENTS: &str = include_str!("../../../../sim/tests/tcp/segments.txt");
/// Segments of each, there.
const COUNT: usize = 300;
/// us: ns-2's own times are rounded to ten.
const APART: u64 = 10;

const AGENTS: [(&str, Variant); 4] = [
    ("TCP", Variant::Tahoe),
    ("TCP/Reno", Variant::Reno),
    ("TCP/Newreno", Variant::NewReno),
    ("TCP/Sack1", Variant::Sack),
];
const LOSSES: [&[usize]; 4] = [&[14], &[14, 28], &[14, 26, 28], &[14, 24, 26, 28]];

/// Each agent with each loss.
pub fn cases() -> Vec<Case> {
    let agents = AGENTS.into_iter();
    let all = agents.flat_map(|agent| LOSSES.map(move |lost| case(agent, lost)));
    all.collect()
}

fn case((agent, variant): (&'static str, Variant), lost: &'static [usize]) -> Case {
    let question = Question {
        what: format!(
            "{variant:?}, {} lost: segments of {COUNT} that differ",
            lost.len()
        ),
        source: "ns-2.35, Debian's package ns2",
        unit: "",
        expected: Some([0.0; 2]),
        known: match (variant, lost.len()) {
            (Variant::NewReno, 2) => Some(Known {
                section: "NewReno leaves recovery with all of its window",
                beyond: 149.0,
            }),
            (Variant::Sack, n @ 2..=4) => Some(Known {
                section: "SACK waits for three segments beyond a gap",
                beyond: [259.0, 267.0, 269.0][n - 2],
            }),
            _ => None,
        },
    };
    Case::one(question, move |_| {
        let theirs = theirs(agent, lost)?;
        let ours = ours(variant, lost);
        let same = |(a, b): &(&(u64, u64), &(u64, u64))| a.1 == b.1 && a.0.abs_diff(b.0) <= APART;
        let alike = ours.iter().zip(&theirs).filter(same).count();
        Ok(Ours::Value((COUNT - alike) as f64))
    })
}

fn ours(variant: Variant, lost: &[usize]) -> Vec<(u64, u64)> {
    let config = Config {
        window: Bytes::new(28_000),
        initial_ssthresh: Bytes::new(28_000),
        ..Config::ns2(variant)
    };
    pipe::sent(&config, lost, COUNT)
}

fn theirs(agent: &str, lost: &[usize]) -> anyhow::Result<Vec<(u64, u64)>> {
    let lost: Vec<String> = lost.iter().map(usize::to_string).collect();
    let head = format!("{agent} {}", lost.join(" "));
    let lines = SEGMENTS.lines().skip_while(|line| *line != head).skip(1);
    let words = lines
        .take_while(|line| line.starts_with(' '))
        .flat_map(str::split_whitespace);
    let events: Option<Vec<(u64, u64)>> = words
        .map(|word| {
            let (at, number) = word.split_once(':')?;
            Some((at.parse().ok()?, number.parse().ok()?))
        })
        .collect();
    let events = events.filter(|events| events.len() == COUNT);
    events.with_context(|| format!("segments.txt has no `{head}`"))
}
