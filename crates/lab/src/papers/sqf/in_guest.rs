// SPDX-License-Identifier: MIT OR Apache-2.0
//! The testbed in the world vm, shortened: our disciplines as BPF qdiscs, and beside them what Linux has for home links. Its SQF counts a
//! packet as 256 B at least, so it has no column as printed.

use makeway_core::sched::Discipline;
use makeway_gateway::bpf;
use makeway_report::summary::bottleneck;

use super::columns::is_long;
use super::figures::{data, jitter, loss, row, testbed};
use super::{TESTBED, fifo_loss, fq_loss, lost_at_worst, over, runs, sqf_rates, with_jitter};
use crate::experiment::{Cell, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{Figures, in_percent, least, mean, ms, only, plain, share, worst};

/// Downloads: the ends of Table I and its middle.
const DOWNLOADS: [u32; 3] = [1, 10, 20];
/// The paper's disciplines.
const OURS: [Discipline; 3] = [Discipline::Fifo, Discipline::Fq, Discipline::Sqf];
/// As they come, but for the rate.
const LINUX: [&str; 2] = ["fq_codel", "cake"];

/// Disciplines of the paper that are in the kernel, then Linux's own.
fn disciplines() -> Vec<&'static str> {
    let ours = OURS.into_iter().filter(|d| bpf::has_program(*d));
    ours.map(Discipline::name).chain(LINUX).collect()
}

/// Cells of the guest.
pub fn cells(full: bool) -> Vec<Cell> {
    let seconds = if full { 605 } else { 25 };
    let mut cells = Vec::new();
    for discipline in disciplines() {
        let key = match LINUX.contains(&discipline) {
            true => "qdisc",
            false => "discipline",
        };
        for n in DOWNLOADS {
            cells.push(Cell {
                set: vec![
                    format!("link.line.queue.{key}={discipline}"),
                    format!("flow.download.count={n}"),
                ],
                ..Cell::new(
                    runs::testbed(discipline, n),
                    "papers/sqf/testbed.toml",
                    seconds,
                )
            });
        }
    }
    cells
}

/// Linux's own are run in no other world.
pub fn is_of_guest(r: &Results) -> bool {
    r.has(&runs::testbed("cake", 20))
}

/// A printed column without SQF; runs that are shorter than the paper's are not its set-up.
fn printed(r: &Results, column: Column) -> Column {
    match is_long(r) {
        true => column,
        false => Column::default(),
    }
}

/// Statements on them.
pub fn claims(r: &Results) -> Vec<Claim> {
    let mut claims = vec![sqf(r), fifo(r), throughput(r)];
    if bpf::has_program(Discipline::Fq) {
        claims.insert(2, fq(r));
    }
    claims.push(jitters(r));
    claims
}

fn streams(r: &Results, discipline: &str) -> [Figures; 2] {
    ["video", "audio"].map(|stream| testbed(r, discipline, |x| loss(x, stream)))
}

fn sqf(r: &Results) -> Claim {
    let [video, audio] = streams(r, "sqf");
    let ours = lost_at_worst(&video, &audio);
    let besides = LINUX.map(|d| {
        let [video, audio] = streams(r, d);
        format!(
            "{d}: video {}; audio {}",
            row(&video, share),
            row(&audio, share)
        )
    });
    Claim {
        id: "sqf.fig6.sqf",
        ours,
        paper: "Under SQF the loss of audio and video is negligible for every n from 1 to 20."
            .into(),
        said: format!(
            "the worst n loses {} of the video, {} of the audio. {}",
            share(&worst(&video)),
            share(&worst(&audio)),
            besides.join(". ")
        ),
        ideal: "0".into(),
        why: format!(
            "{}fq_codel and cake share the line between flows, as FQ does: a video above its share loses what is above it.",
            over(&video, &audio)
        ),
        setup: TESTBED,
        from: &["testbed/"],
        tables: vec![table(r)],
        ..Claim::default()
    }
}

fn fifo(r: &Results) -> Claim {
    let [video, audio] = streams(r, "fifo");
    let [_, sqf] = streams(r, "sqf");
    let last = sqf.last().map_or(only(f64::NAN), |x| x.1);
    Claim {
        id: "sqf.fig6.fifo.audio",
        printed: printed(r, fifo_loss(&audio, &video)),
        ours: Column::of([("audio lost at n = 20, SQF, %", in_percent(last))]),
        paper: "Under FIFO audio loss grows about linearly from 1 % at n = 1 to more than 25 % at n = 20; video loses slightly less.".into(),
        said: format!("audio {}; video {}", row(&audio, share), row(&video, share)),
        ideal: "0".into(),
        setup: TESTBED,
        from: &["testbed/fifo/", "testbed/sqf/"],
        ..Claim::default()
    }
}

fn fq(r: &Results) -> Claim {
    let [video, audio] = streams(r, "fq");
    let [sqf, _] = streams(r, "sqf");
    Claim {
        id: "sqf.fig6.fq",
        printed: printed(r, fq_loss(&audio, &video)),
        ours: Column::of([("video lost at the worst n, SQF, %", in_percent(worst(&sqf)))]),
        paper: "Under FQ audio loss is low; video loss is high as soon as n > 1, its share being C/(n+1).".into(),
        said: format!("audio at most {}; video {}", share(&worst(&audio)), row(&video, share)),
        ideal: "0; with shares of C/(n+1) the video loses 91 % at n = 20".into(),
        setup: TESTBED,
        from: &["testbed/fq/", "testbed/sqf/"],
        ..Claim::default()
    }
}

fn throughput(r: &Results) -> Claim {
    let sqf = testbed(r, "sqf", data);
    let used = testbed(r, "sqf", |x| {
        bottleneck(x).map_or(f64::NAN, |queue| queue.utilisation)
    });
    Claim {
        id: "sqf.table1",
        ours: sqf_rates(r),
        paper: "Data bandwidth under SQF is 4.1 Mbit/s for every n; utilisation about 92 %.".into(),
        said: format!(
            "{} Mbit/s; utilisation {} at least",
            row(&sqf, plain),
            share(&least(&used))
        ),
        ideal: "4.36 Mbit/s of TCP payload beside the streams' 5.37 Mbit/s on the wire".into(),
        setup: TESTBED,
        from: &["testbed/sqf/"],
        ..Claim::default()
    }
}

fn jitters(r: &Results) -> Claim {
    let (mut columns, mut said) = ([Column::default(), Column::default()], Vec::new());
    for stream in ["audio", "video"] {
        let of = |d: &str| testbed(r, d, |x| jitter(x, stream));
        let sqf = of("sqf");
        let others = || disciplines().into_iter().filter(|d| *d != "sqf");
        // Those of Linux are beside it: the paper has nothing of them.
        let theirs: Vec<Figures> = others().filter(|d| !LINUX.contains(d)).map(of).collect();
        columns = with_jitter(columns, stream, &sqf, &theirs.iter().collect::<Vec<_>>());
        let mut all = vec![format!("SQF {}", row(&sqf, ms))];
        all.extend(others().map(|d| format!("{d} {}", row(&of(d), ms))));
        said.push(format!("{stream}: {}", all.join("; ")));
    }
    let [_, ours] = columns;
    Claim {
        id: "sqf.fig7.jitter",
        ours,
        paper: "Under SQF jitter does not depend on n and is the least of the three.".into(),
        said: said.join(". "),
        ideal: "a packet waits up to one 1538 B packet, 1.23 ms, for every n".into(),
        why: "Mean absolute difference of the one-way delays of consecutive packets (RFC 3393). Of what is lost nothing is known: few of a stream's packets come through fq_codel and cake.".into(),
        setup: TESTBED,
        from: &["testbed/"],
        ..Claim::default()
    }
}

/// Loss, jitter and throughput of all of them.
fn table(r: &Results) -> Table {
    let head = [
        "discipline",
        "n",
        "video lost",
        "audio lost",
        "video jitter",
        "audio jitter",
        "downloads",
        "line used",
    ];
    let mut rows = Vec::new();
    for discipline in disciplines() {
        for n in DOWNLOADS {
            let Some(replications) = r.get(&runs::testbed(discipline, n)) else {
                continue;
            };
            let of = |figure: fn(&_, &str) -> f64, stream: &'static str| {
                mean(replications, move |x| figure(x, stream))
            };
            let used = mean(replications, |x| {
                bottleneck(x).map_or(f64::NAN, |queue| queue.utilisation)
            });
            rows.push(vec![
                discipline.to_owned(),
                n.to_string(),
                share(&of(loss, "video")),
                share(&of(loss, "audio")),
                ms(&of(jitter, "video")),
                ms(&of(jitter, "audio")),
                format!("{} Mbit/s", plain(&mean(replications, data))),
                share(&used),
            ]);
        }
    }
    Table {
        title:
            "Loss, jitter and throughput; our disciplines as BPF qdiscs, Linux's own as they come"
                .into(),
        head: head.map(String::from).to_vec(),
        rows,
    }
}
