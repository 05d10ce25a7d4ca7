// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of Bonald, Muscariello, Ostallo, "Self-Prioritization of Audio
//! and Video Traffic", ICC 2011. Every verdict follows from the figures of this run alone; where a
//! set-up is run several times, from their means.
//!
//! - [`runs`]: the experiments;
//! - [`columns`]: the runs of both columns, the paper's SQF and ours;
//! - [`figures`]: what they are judged by;
//! - [`charts`]: the paper's figures;
//! - [`theory`]: the statements that need no run;
//! - [`changed`]: the testbed with one thing changed;
//! - [`fig8`]: a source that jitters;
//! - [`beyond`]: what the paper says beside its measurements;
//! - [`in_guest`]: what is run and judged in the world vm;
//! - here: each statement, theirs and ours.

mod beyond;
mod changed;
mod charts;
mod columns;
mod fig8;
mod figures;
mod in_guest;
mod runs;
mod theory;

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::{bottleneck, group};

use super::claim::{Claim, Column};
use super::figures::{
    Figures, in_percent, largest, least, least_step, mean, ms, only, plain, share, smallest, worst,
};
use super::paper::Paper;
use crate::experiment::{Results, World};
use columns::{Columns, say_what_is_owed};
use figures::{at, data, fairness, jitter, line, loss, of_table, row, testbed};
use runs::{SLICED, TABLE, cells};
use theory::CLOSED_FORMS;

/// How it is run again.
pub const SQF: Paper = Paper {
    id: "sqf",
    title: "Self-prioritization of audio and video traffic, run again",
    source: "T. Bonald, L. Muscariello, N. Ostallo, ICC 2011",
    worlds: &[World::Sim, World::Netns, World::Vm],
    shortened: "In simulated time each run measured 10 minutes, as in the paper; elsewhere 20 s (10 s at 100 Mbit/s), which is not as printed: --full runs all of it.",
    full: "Each run measured 10 minutes, as in the paper, with each n from 1 to 20 under every discipline.",
    cells,
    claims,
    beside: None,
};

/// Seconds that the paper measured.
const LONG: f64 = 600.0;
/// "Negligible": a packet in a thousand.
const NEGLIGIBLE: f64 = 0.001;
const TESTBED: &str = "testbed of section V: 100 Mbit/s servers, a 10 Mbit/s line with 50 packets of buffer, n downloads beside a 5 Mbit/s video and 64 kbit/s audio";

/// Every statement, in the order of the paper.
fn claims(r: &Results) -> Vec<Claim> {
    let mut all = match in_guest::is_of_guest(r) {
        true => in_guest::claims(r),
        false => of_runs(&Columns::of(r)),
    };
    all.iter_mut().for_each(say_what_is_owed);
    all
}

fn of_runs(c: &Columns<'_>) -> Vec<Claim> {
    let of_runs = vec![
        fig3_streams(c),
        fig6_sqf(c),
        fig6_fifo(c),
        fig6_fq(c),
        fig7_jitter(c),
        pfq(c),
        table1(c),
        fig8::fig8(c),
        users(c),
    ];
    let closed = CLOSED_FORMS.iter().cloned();
    closed.chain(of_runs).chain(beyond::claims(c)).collect()
}

/// Section IV.B: the worst of three streams, and one of their sum.
fn of_streams(r: &Results) -> [Estimate; 2] {
    let each = mean(&r[runs::streams("three")], |x| {
        let streams = x.flows.iter().filter_map(|f| f.datagrams.as_ref());
        largest(streams.map(|d| d.loss))
    });
    let one = mean(&r[runs::streams("one")], |x| loss(x, "video"));
    [each, one]
}

fn fig3_streams(c: &Columns<'_>) -> Claim {
    let three = mean(&c.ours[runs::streams("three")], |x| loss(x, "video"));
    let [each, one] = of_streams(c.ours);
    let p = line(20).deprioritised(600.0, 600.0);
    let [printed, ours] = c.both(|r| {
        let [each, one] = of_streams(r);
        Column::of([
            ("the worst of three streams loses, %", in_percent(each)),
            ("one stream of their sum loses, %", in_percent(one)),
        ])
    });
    Claim {
        id: "sqf.fig3.multi",
        printed,
        ours,
        paper: "Several streams are protected like one of the sum of their rates: three of 2 Mbit/s keep priority over 20 downloads on 10 Mbit/s.".into(),
        said: format!(
            "three of 2 Mbit/s lose {} (the worst {}), one of 6 Mbit/s {}; closed form for both: p = {p:.3} within 10 min",
            share(&three), share(&each), share(&one)
        ),
        ideal: "no loss".into(),
        why: "Each stream is judged by its own queue, eq. (3), which is easier to meet than the sum's, eq. (1); the buffer here is the testbed's 50 packets, not the 200 of Fig. 3.".into(),
        setup: "testbed of section V under SQF with three streams, and with one; closed form",
        from: &["streams/"],
        ..Claim::default()
    }
}

fn fig6_sqf(c: &Columns<'_>) -> Claim {
    let r = c.ours;
    let of = |r: &Results| ["video", "audio"].map(|stream| testbed(r, "sqf", |x| loss(x, stream)));
    let [video, audio] = of(r);
    let [printed, ours] = c.both(|r| {
        let [video, audio] = of(r);
        lost_at_worst(&video, &audio)
    });
    Claim {
        id: "sqf.fig6.sqf",
        printed,
        ours,
        paper: "Under SQF the loss of audio and video is negligible for every n from 1 to 20."
            .into(),
        said: format!(
            "the worst n loses {} of the video, {} of the audio",
            share(&worst(&video)),
            share(&worst(&audio))
        ),
        ideal: "0".into(),
        why: format!(
            "{}The paper does not give the peak rate of its stream. Here packets are spaced evenly over each group of pictures (480 ms, peak 5.7 Mbit/s). Paced over 200 ms it peaks at 7.0 Mbit/s and loses {}: with 20 downloads eq. (1) leaves it 2.4 packets of the 50. From n = 16 on a third packet waiting is beyond eq. (1), and for good: the downloads cannot all hold three of 50, so one of them is always shorter than the video. A stall of the sender or of the router by 3 ms is enough.",
            over(&video, &audio),
            SLICED
                .map(|n| format!(
                    "{} at n = {n}",
                    share(&mean(&r[runs::slices(n)], |x| loss(x, "video")))
                ))
                .join(", ")
        ),
        setup: TESTBED,
        from: &["testbed/sqf/", "slices/"],
        charts: charts::fig6(r),
        ..Claim::default()
    }
}

/// Fig. 6 under SQF.
fn lost_at_worst(video: &Figures, audio: &Figures) -> Column {
    Column::of([
        ("video lost at the worst n, %", in_percent(worst(video))),
        ("audio lost at the worst n, %", in_percent(worst(audio))),
    ])
}

/// Which n lose more than a packet in a thousand.
fn over(video: &[(u32, Estimate)], audio: &[(u32, Estimate)]) -> String {
    let lost: Vec<String> = video
        .iter()
        .chain(audio)
        .filter(|x| x.1.mean > NEGLIGIBLE)
        .map(|x| format!("{} at n = {}", share(&x.1), x.0))
        .collect();
    if lost.is_empty() {
        String::new()
    } else {
        format!("Over the bound of 0.1 %: {}. ", lost.join(", "))
    }
}

fn fig6_fifo(c: &Columns<'_>) -> Claim {
    let of = |r: &Results| ["audio", "video"].map(|stream| testbed(r, "fifo", |x| loss(x, stream)));
    let [audio, video] = of(c.ours);
    let printed = c.printed(|r| {
        let [audio, video] = of(r);
        let line = only(straight(&audio));
        fifo_loss(&audio, &video).with("R² of a line through audio's loss by n, FIFO", line)
    });
    let sqf = mean(at(c.ours, "sqf", 20), |x| loss(x, "audio"));
    Claim {
        id: "sqf.fig6.fifo.audio",
        printed,
        ours: Column::of([("audio lost at n = 20, SQF, %", in_percent(sqf))]),
        paper: "Under FIFO audio loss grows about linearly from 1 % at n = 1 to more than 25 % at n = 20; video loses slightly less.".into(),
        said: format!("audio {}; video {}", row(&audio, share), row(&video, share)),
        ideal: "0".into(),
        why: "How hard TCP presses on a drop-tail buffer of 50 packets depends on the kernel: today's cubic has an initial window of 10, SACK, tail-loss probes and proportional rate reduction; the paper's Linux of 2010 had few of them.".into(),
        setup: TESTBED,
        from: &["testbed/fifo/", "testbed/sqf/", "changed/fifo/"],
        tables: changed::fifo(c.ours),
        ..Claim::default()
    }
}

/// Fig. 6 under FIFO, at its ends.
fn fifo_loss(audio: &Figures, video: &Figures) -> Column {
    let end = |f: &Figures, n: u32| f.iter().find(|x| x.0 == n).map_or(only(f64::NAN), |x| x.1);
    let [first, last] = [1, 20].map(|n| end(audio, n));
    Column::of([
        ("audio lost at n = 1, FIFO, %", in_percent(first)),
        ("audio lost at n = 20, FIFO, %", in_percent(last)),
        (
            "video's loss by audio's at n = 20, FIFO",
            only(end(video, 20).mean / last.mean),
        ),
    ])
}

/// R² of the straight line of least squares.
fn straight(figures: &Figures) -> f64 {
    let points = || figures.iter().map(|(n, x)| (f64::from(*n), x.mean));
    let count = figures.len() as f64;
    let of = |f: fn((f64, f64)) -> f64| points().map(f).sum::<f64>() / count;
    let (x, y) = (of(|p| p.0), of(|p| p.1));
    let xy = of(|p| p.0 * p.1) - x * y;
    let squares = [of(|p| p.0 * p.0) - x * x, of(|p| p.1 * p.1) - y * y];
    xy * xy / (squares[0] * squares[1])
}

/// Fig. 6 under FQ.
fn fq_loss(audio: &Figures, video: &Figures) -> Column {
    let beyond: Figures = video.iter().copied().filter(|v| v.0 > 1).collect();
    // Of the video's 5.21 Mbit/s on the wire a share of C/(n+1) lets through.
    let due = |n: u32| 1.0 - (10.0 / f64::from(n + 1) / VIDEO).min(1.0);
    let off = largest(beyond.iter().map(|(n, x)| (x.mean - due(*n)).abs()));
    Column::of([
        ("audio lost at the worst n, FQ, %", in_percent(worst(audio))),
        (
            "video's loss less what C/(n+1) leaves out, worst n > 1, FQ, points",
            only(off * 100.0),
        ),
        (
            "video lost at the least n > 1, FQ, %",
            in_percent(least(&beyond)),
        ),
    ])
}

fn fig6_fq(c: &Columns<'_>) -> Claim {
    let of = |r: &Results| ["audio", "video"].map(|stream| testbed(r, "fq", |x| loss(x, stream)));
    let [audio, video] = of(c.ours);
    let sqf = testbed(c.ours, "sqf", |x| loss(x, "video"));
    Claim {
        id: "sqf.fig6.fq",
        printed: c.printed(|r| {
            let [audio, video] = of(r);
            fq_loss(&audio, &video)
        }),
        ours: Column::of([("video lost at the worst n, SQF, %", in_percent(worst(&sqf)))]),
        paper: "Under FQ audio loss is low; video loss is high as soon as n > 1, its share being C/(n+1).".into(),
        said: format!("audio at most {}; video {}", share(&worst(&audio)), row(&video, share)),
        ideal: "0; with shares of C/(n+1) the video loses 65 % at n = 5 and 91 % at n = 20".into(),
        why: String::new(),
        setup: TESTBED,
        from: &["testbed/fq/", "testbed/sqf/"],
        ..Claim::default()
    }
}

/// Columns of Fig. 7: as printed, then ours.
fn of_jitter(r: &Results) -> [Column; 2] {
    let mut columns = [Column::default(), Column::default()];
    for stream in ["audio", "video"] {
        let [fifo, fq, sqf] = jitters(r, stream);
        let [theirs, ours] = columns;
        let theirs = theirs.with(
            format!("{stream}'s jitter under FQ, the least step from n to the next, factor"),
            only(least_step(&of_table(&fq))),
        );
        columns = with_jitter([theirs, ours], stream, &sqf, &[&fifo, &fq]);
    }
    columns
}

/// A stream's jitter under FIFO, FQ and SQF.
fn jitters(r: &Results, stream: &'static str) -> [Figures; 3] {
    ["fifo", "fq", "sqf"].map(|d| testbed(r, d, |x| jitter(x, stream)))
}

fn fig7_jitter(c: &Columns<'_>) -> Claim {
    let r = c.ours;
    let said = ["audio", "video"].map(|stream| {
        let [fifo, fq, sqf] = jitters(r, stream);
        format!(
            "{stream}: FQ {}; FIFO {}; SQF {} to {} ms over all n",
            row(&fq, ms),
            row(&fifo, ms),
            plain(&least(&sqf)),
            plain(&worst(&sqf)),
        )
    });
    let [_, ours] = of_jitter(r);
    Claim {
        id: "sqf.fig7.jitter",
        printed: c.printed(|r| {
            let [theirs, _] = of_jitter(r);
            theirs
        }),
        ours,
        paper: "Under FQ jitter grows with n for both streams; under SQF it does not depend on n and is the least of the three.".into(),
        said: said.join(". "),
        ideal: "SQF does not preempt: a packet waits up to one 1538 B packet, 1.23 ms, for every n".into(),
        why: "Mean absolute difference of the one-way delays of consecutive packets (RFC 3393); the paper does not say which statistic it shows.".into(),
        setup: TESTBED,
        from: &["testbed/", "changed/fq/"],
        charts: charts::fig7(r),
        tables: changed::jitters(r),
        ..Claim::default()
    }
}

/// A stream's figures under SQF, beside those of the others at the same n.
fn with_jitter(
    columns: [Column; 2],
    stream: &str,
    sqf: &Figures,
    others: &[&Figures],
) -> [Column; 2] {
    let lowest = |n: u32| {
        let of = |f: &&Figures| f.iter().find(|x| x.0 == n).map(|x| x.1.mean);
        smallest(others.iter().filter_map(of))
    };
    let shared = sqf
        .iter()
        .filter(|x| others.iter().all(|f| f.iter().any(|y| y.0 == x.0)));
    let above = largest(shared.map(|(n, x)| x.mean / lowest(*n)));
    let spread = format!("{stream}'s jitter under SQF, largest less least over n, ms");
    let [theirs, ours] =
        columns.map(|column| column.with(spread.clone(), only(worst(sqf).mean - least(sqf).mean)));
    [
        theirs.with(
            format!("{stream}'s jitter under SQF by the least of the others, worst n"),
            only(above),
        ),
        ours.with(
            format!("{stream}'s jitter under SQF, worst n, ms"),
            worst(sqf),
        ),
    ]
}

/// Jitter of the audio at n = 20, then of the video over n = 5 to 20: under PFQ, then FQ.
fn of_pfq(r: &Results) -> [[Estimate; 2]; 2] {
    let audio = ["pfq", "fq"].map(|d| mean(at(r, d, 20), |x| jitter(x, "audio")));
    // The video's depends on how the downloads fall into step: a mean over n tells more than one n.
    let several = &TABLE[1..];
    let video = ["pfq", "fq"].map(|d| {
        let runs = several.iter().map(|n| at(r, d, *n).len()).min();
        Estimate::of((0..runs.unwrap_or(0)).map(|run| {
            let each = several.iter().map(|n| jitter(&at(r, d, *n)[run], "video"));
            each.sum::<f64>() / several.len() as f64
        }))
    });
    [audio, video]
}

fn pfq(c: &Columns<'_>) -> Claim {
    let lost = |r: &Results| mean(at(r, "pfq", 20), |x| loss(x, "video"));
    let [audio, video] = of_pfq(c.ours);
    let printed = c.printed(|r| {
        let by_fq = |[pfq, fq]: [Estimate; 2]| only(pfq.mean / fq.mean);
        let [audio, video] = of_pfq(r).map(by_fq);
        Column::of([
            ("audio's jitter at n = 20, PFQ by FQ", audio),
            ("video's jitter over n = 5 to 20, PFQ by FQ", video),
            ("video lost at n = 20, PFQ, %", in_percent(lost(r))),
        ])
    });
    let sqf = |stream: &'static str| mean(at(c.ours, "sqf", 20), |x| jitter(x, stream));
    Claim {
        id: "sqf.pfq",
        printed,
        ours: Column::of(
            ["audio", "video"]
                .map(|stream| (format!("{stream}'s jitter at n = 20, SQF, ms"), sqf(stream))),
        ),
        paper: "PFQ limits the jitter of the audio, not of a video above its fair share.".into(),
        said: format!(
            "audio {} against {} under FQ at n = 20; video {} against {} on average over n = 5 to 20, and it loses {} at n = 20",
            ms(&audio[0]),
            ms(&audio[1]),
            ms(&video[0]),
            ms(&video[1]),
            share(&lost(c.ours))
        ),
        ideal: "audio about 0.4 ms, as under SQF".into(),
        why: "The paper says this without a measurement.".into(),
        setup: TESTBED,
        from: &["testbed/pfq/", "testbed/fq/", "testbed/sqf/"],
        ..Claim::default()
    }
}

/// The video on the wire, Mbit/s.
const VIDEO: f64 = 5.3;

/// Table I of the paper: data bandwidth in Mbit/s and Jain's index at [`TABLE`].
const PAPER: [(&str, [f64; 5], [f64; 5]); 3] = [
    (
        "fifo",
        [4.1, 4.4, 4.8, 5.1, 5.6],
        [0.95, 0.91, 0.95, 0.95, 0.99],
    ),
    (
        "fq",
        [4.1, 7.5, 8.5, 8.9, 9.1],
        [0.99, 0.99, 0.95, 0.99, 0.99],
    ),
    (
        "sqf",
        [4.1, 4.1, 4.1, 4.1, 4.1],
        [0.95, 0.90, 0.91, 0.95, 0.95],
    ),
];

/// Table I, as printed.
fn of_table1(r: &Results) -> Column {
    let mut column = Column::default();
    let mut fair = Vec::new();
    for (d, ..) in PAPER {
        for n in TABLE {
            let name = format!("{}, n = {n}, Mbit/s", d.to_uppercase());
            column = column.with(name, mean(at(r, d, n), data));
            fair.push(mean(at(r, d, n), fairness).mean);
        }
    }
    column
        .and(sqf_rates(r))
        .with("the least Jain's index", only(smallest(fair)))
}

fn table1(c: &Columns<'_>) -> Claim {
    let r = c.ours;
    let mut said: Vec<String> = (PAPER.iter())
        .map(|(d, ..)| {
            let rates = row(&testbed(r, d, data), plain);
            format!("{} {rates}", d.to_uppercase())
        })
        .collect();
    let least_fair = least(&testbed(r, "sqf", fairness));
    let ours = sqf_rates(r).with("the least Jain's index, SQF", least_fair);
    let shown = |name: &str| ours.figure(name).map_or_else(String::new, |x| plain(&x));
    said.push(format!(
        "SQF within {} % of its mean over all n, utilisation {} % or more, Jain {} or more",
        shown("SQF, farthest from its mean over n, %"),
        shown("SQF, the line used at least, %"),
        shown("the least Jain's index, SQF"),
    ));
    Claim {
        id: "sqf.table1",
        printed: c.printed(of_table1),
        ours,
        paper: "Data bandwidth in Mbit/s at n = 1, 5, 10, 15, 20: FIFO 4.1 to 5.6, FQ 4.1 to 9.1, SQF 4.1 throughout; Jain's index 0.90 to 0.99; utilisation under SQF about 92 %.".into(),
        said: said.join("; "),
        ideal: "SQF: 4.36 Mbit/s of TCP payload beside the streams' 5.37 Mbit/s on the wire; Jain 1".into(),
        why: "With one download Jain's index is 1 by its definition; the paper prints 0.95 and 0.99.".into(),
        setup: TESTBED,
        from: &["testbed/", "changed/fq/"],
        charts: vec![charts::table_chart(r)],
        tables: [vec![charts::table_one(r)], changed::one_download(r)].concat(),
        ..Claim::default()
    }
}

/// Table I under SQF: how flat, how full, how much.
fn sqf_rates(r: &Results) -> Column {
    let sqf = testbed(r, "sqf", data);
    let used = testbed(r, "sqf", |x| {
        bottleneck(x).map_or(f64::NAN, |q| q.utilisation)
    });
    let all = sqf.iter().map(|x| x.1.mean).sum::<f64>() / sqf.len() as f64;
    let off = largest(sqf.iter().map(|x| (x.1.mean / all - 1.0).abs()));
    Column::of([
        ("SQF, farthest from its mean over n, %", only(off * 100.0)),
        ("SQF, the line used at least, %", in_percent(least(&used))),
        ("SQF, mean over n, Mbit/s", only(all)),
    ])
}

fn users(c: &Columns<'_>) -> Claim {
    let total = |report: &Report, user: &str| -> f64 {
        let of = |kind: &str| group(report, &format!("{user}-{kind}")).goodput_bps / 1e6;
        of("download") + of("video") + of("audio")
    };
    let of = |runs: &[Report]| ["alice", "bob"].map(|user| mean(runs, |x| total(x, user)));
    let most = |r: &Results| {
        mean(&r[runs::users("hier")], |x| {
            let streams = ["alice-video", "alice-audio", "bob-video", "bob-audio"];
            largest(streams.map(|s| loss(x, s)))
        })
    };
    let [alice, bob] = of(&c.ours[runs::users("hier")]);
    let flat = of(&c.ours[runs::users("sqf")]);
    let [printed, ours] = c.both(|r| {
        let parts = mean(&r[runs::users("hier")], |x| {
            total(x, "alice") / total(x, "bob")
        });
        Column::of([
            (
                "rate of the user with 2 downloads by that of the one with 16",
                parts,
            ),
            ("the worst of their streams loses, %", in_percent(most(r))),
        ])
    });
    Claim {
        id: "sqf.future.hierarchy",
        printed,
        ours,
        paper: "Planned as future work: FQ between users and SQF inside each gives users equal shares and protects each one's streams within its share.".into(),
        said: format!(
            "alice with 2 downloads gets {} Mbit/s, bob with 16 gets {}; their streams of 2.5 Mbit/s lose {} at most. Under SQF alone: {} and {} Mbit/s",
            plain(&alice), plain(&bob), share(&most(c.ours)), plain(&flat[0]), plain(&flat[1])
        ),
        ideal: "equal shares, no loss".into(),
        why: String::new(),
        setup: "two users behind one 10 Mbit/s line with 100 packets of buffer, 2 and 16 downloads, each with a 2.5 Mbit/s video and audio",
        from: &["users/"],
        ..Claim::default()
    }
}

#[cfg(test)]
mod tests;
