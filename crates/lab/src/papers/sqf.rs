// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of Bonald, Muscariello, Ostallo, "Self-Prioritization of Audio
//! and Video Traffic", ICC 2011. Every verdict follows from the figures of this run alone; where a
//! set-up is run several times, from their means.
//!
//! - [`runs`]: the experiments;
//! - [`figures`]: what they are judged by;
//! - [`charts`]: the paper's figures;
//! - [`theory`]: the statements that need no run;
//! - [`beyond`]: what the paper says beside its measurements;
//! - [`in_guest`]: what is run and judged in the world vm;
//! - here: each statement, theirs and ours.

mod beyond;
mod charts;
mod figures;
mod in_guest;
mod runs;
mod theory;

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::{bottleneck, group};

use super::claim::{Claim, Column, Table};
use super::figures::{
    Figures, in_percent, largest, least, least_step, mean, ms, only, plain, share, smallest, worst,
};
use super::paper::Paper;
use crate::experiment::{Results, World};
use figures::{at, data, fairness, jitter, jittered, line, loss, of_table, row, testbed};
use runs::{DELTAS, JITTERED, KINDS, SLICED, TABLE, cells};
use theory::CLOSED_FORMS;

/// How it is run again.
pub const SQF: Paper = Paper {
    id: "sqf",
    title: "Self-prioritization of audio and video traffic, run again",
    source: "T. Bonald, L. Muscariello, N. Ostallo, ICC 2011",
    worlds: &[World::Netns, World::Sim, World::Vm],
    shortened: "Each run measured 20 s instead of the paper's 10 minutes (10 s at 100 Mbit/s); --full runs all of it.",
    full: "Each run measured 10 minutes, as in the paper.",
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
    if in_guest::is_of_guest(r) {
        return in_guest::claims(r);
    }
    let of_runs = vec![
        fig3_streams(r),
        fig6_sqf(r),
        fig6_fifo(r),
        fig6_fq(r),
        fig7_jitter(r),
        pfq(r),
        table1(r),
        fig8(r),
        users(r),
    ];
    let closed = CLOSED_FORMS.iter().cloned();
    closed.chain(of_runs).chain(beyond::claims(r)).collect()
}

/// The printed column; runs that are shorter than the paper's are not its set-up.
fn printed(r: &Results, column: Column) -> Column {
    match r.runs().flatten().all(|run| run.seconds >= LONG) {
        true => column,
        false => Column::default(),
    }
}

/// Both columns where the same runs are in both: the discipline is the paper's.
fn both(r: &Results, column: Column) -> [Column; 2] {
    [printed(r, column.clone()), column]
}

fn fig3_streams(r: &Results) -> Claim {
    let video = |x: &Report| loss(x, "video");
    let [three, one] = ["three", "one"].map(|s| mean(&r[runs::streams(s)], video));
    let each = mean(&r[runs::streams("three")], |x| {
        let streams = x.flows.iter().filter_map(|f| f.datagrams.as_ref());
        largest(streams.map(|d| d.loss))
    });
    let p = line(20).deprioritised(600.0, 600.0);
    let [printed, ours] = both(
        r,
        Column::of([
            ("the worst of three streams loses, %", in_percent(each)),
            ("one stream of their sum loses, %", in_percent(one)),
        ]),
    );
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

fn fig6_sqf(r: &Results) -> Claim {
    let (video, audio) = (
        testbed(r, "sqf", |x| loss(x, "video")),
        testbed(r, "sqf", |x| loss(x, "audio")),
    );
    let [printed, ours] = both(r, lost_at_worst(&video, &audio));
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

fn fig6_fifo(r: &Results) -> Claim {
    let (video, audio) = (
        testbed(r, "fifo", |x| loss(x, "video")),
        testbed(r, "fifo", |x| loss(x, "audio")),
    );
    let column = fifo_loss(&audio, &video).with(
        "R² of a line through audio's loss by n, FIFO",
        only(straight(&audio)),
    );
    Claim {
        id: "sqf.fig6.fifo.audio",
        printed: printed(r, column),
        ours: Column::of([("audio lost at n = 20, SQF, %", in_percent(mean(at(r, "sqf", 20), |x| loss(x, "audio"))))]),
        paper: "Under FIFO audio loss grows about linearly from 1 % at n = 1 to more than 25 % at n = 20; video loses slightly less.".into(),
        said: format!("audio {}; video {}", row(&audio, share), row(&video, share)),
        ideal: "0".into(),
        why: "How hard TCP presses on a drop-tail buffer of 50 packets depends on the kernel: today's cubic has an initial window of 10, SACK, tail-loss probes and proportional rate reduction; the paper's Linux of 2010 had few of them.".into(),
        setup: TESTBED,
        from: &["testbed/fifo/", "testbed/sqf/"],
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

fn fig6_fq(r: &Results) -> Claim {
    let (video, audio) = (
        testbed(r, "fq", |x| loss(x, "video")),
        testbed(r, "fq", |x| loss(x, "audio")),
    );
    let sqf = testbed(r, "sqf", |x| loss(x, "video"));
    Claim {
        id: "sqf.fig6.fq",
        printed: printed(r, fq_loss(&audio, &video)),
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

fn fig7_jitter(r: &Results) -> Claim {
    let (mut theirs, mut ours, mut said) = (Column::default(), Column::default(), Vec::new());
    for stream in ["audio", "video"] {
        let figures = |d| testbed(r, d, |x| jitter(x, stream));
        let (fifo, fq, sqf) = (figures("fifo"), figures("fq"), figures("sqf"));
        theirs = theirs.with(
            format!("{stream}'s jitter under FQ, the least step from n to the next, factor"),
            only(least_step(&of_table(&fq))),
        );
        [theirs, ours] = with_jitter([theirs, ours], stream, &sqf, &[&fifo, &fq]);
        said.push(format!(
            "{stream}: FQ {}; FIFO {}; SQF {} to {} ms over all n",
            row(&fq, ms),
            row(&fifo, ms),
            plain(&least(&sqf)),
            plain(&worst(&sqf)),
        ));
    }
    Claim {
        id: "sqf.fig7.jitter",
        printed: printed(r, theirs),
        ours,
        paper: "Under FQ jitter grows with n for both streams; under SQF it does not depend on n and is the least of the three.".into(),
        said: said.join(". "),
        ideal: "SQF does not preempt: a packet waits up to one 1538 B packet, 1.23 ms, for every n".into(),
        why: "Mean absolute difference of the one-way delays of consecutive packets (RFC 3393); the paper does not say which statistic it shows.".into(),
        setup: TESTBED,
        from: &["testbed/"],
        charts: charts::fig7(r),
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

fn pfq(r: &Results) -> Claim {
    let figure = |d: &str, s: &str| mean(at(r, d, 20), |x| jitter(x, s));
    let audio = [figure("pfq", "audio"), figure("fq", "audio")];
    // The video's depends on how the downloads fall into step: a mean over n tells more than one n.
    let several = &TABLE[1..];
    let video = ["pfq", "fq"].map(|d| {
        let runs = several.iter().map(|n| at(r, d, *n).len()).min();
        Estimate::of((0..runs.unwrap_or(0)).map(|run| {
            let each = several.iter().map(|n| jitter(&at(r, d, *n)[run], "video"));
            each.sum::<f64>() / several.len() as f64
        }))
    });
    let lost = mean(at(r, "pfq", 20), |x| loss(x, "video"));
    Claim {
        id: "sqf.pfq",
        printed: printed(
            r,
            Column::of([
                (
                    "audio's jitter at n = 20, PFQ by FQ",
                    only(audio[0].mean / audio[1].mean),
                ),
                (
                    "video's jitter over n = 5 to 20, PFQ by FQ",
                    only(video[0].mean / video[1].mean),
                ),
                ("video lost at n = 20, PFQ, %", in_percent(lost)),
            ]),
        ),
        ours: Column::of(["audio", "video"].map(|stream| {
            (
                format!("{stream}'s jitter at n = 20, SQF, ms"),
                figure("sqf", stream),
            )
        })),
        paper: "PFQ limits the jitter of the audio, not of a video above its fair share.".into(),
        said: format!(
            "audio {} against {} under FQ at n = 20; video {} against {} on average over n = 5 to 20, and it loses {} at n = 20",
            ms(&audio[0]),
            ms(&audio[1]),
            ms(&video[0]),
            ms(&video[1]),
            share(&lost)
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

fn table1(r: &Results) -> Claim {
    let mut theirs = Column::default();
    let mut said = Vec::new();
    let mut fair = Vec::new();
    for (d, ..) in PAPER {
        for n in TABLE {
            let name = format!("{}, n = {n}, Mbit/s", d.to_uppercase());
            theirs = theirs.with(name, mean(at(r, d, n), data));
            fair.push(mean(at(r, d, n), fairness).mean);
        }
        said.push(format!(
            "{} {}",
            d.to_uppercase(),
            row(&testbed(r, d, data), plain)
        ));
    }
    let least_fair = least(&testbed(r, "sqf", fairness));
    theirs = theirs
        .and(sqf_rates(r))
        .with("the least Jain's index", only(smallest(fair)));
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
        printed: printed(r, theirs),
        ours,
        paper: "Data bandwidth in Mbit/s at n = 1, 5, 10, 15, 20: FIFO 4.1 to 5.6, FQ 4.1 to 9.1, SQF 4.1 throughout; Jain's index 0.90 to 0.99; utilisation under SQF about 92 %.".into(),
        said: said.join("; "),
        ideal: "SQF: 4.36 Mbit/s of TCP payload beside the streams' 5.37 Mbit/s on the wire; Jain 1".into(),
        why: "With one download Jain's index is 1 by its definition; the paper prints 0.95 and 0.99.".into(),
        setup: TESTBED,
        from: &["testbed/"],
        charts: vec![charts::table_chart(r)],
        tables: vec![charts::table_one(r)],
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

/// Downloads of Fig. 8 that it is judged by: the middle of the paper's 1 to 20, which does not say how many it had.
const FIG8_N: u32 = 10;
/// Stands for a threshold above all that is tried, ms.
const NONE: u32 = 1000;

/// The smallest delta from which on the video loses more than [`NEGLIGIBLE`]: a loss that a larger
/// delta does not have is not the jitter's.
fn threshold(figures: &[(u32, Estimate)]) -> Option<u32> {
    let loses = |f: &&(u32, Estimate)| f.1.mean > NEGLIGIBLE;
    figures.iter().rev().take_while(loses).last().map(|f| f.0)
}

fn fig8(r: &Results) -> Claim {
    let at = |mbit, n| threshold(&jittered(r, mbit, n)).unwrap_or(NONE);
    // None of those tried: more than the largest.
    let least = |mbit| only(f64::from(at(mbit, FIG8_N)));
    let [printed, ours] = both(
        r,
        Column::of([10, 100].map(|mbit| {
            let name = format!(
                "the least delta from which on video is lost at {mbit} Mbit/s, n = {FIG8_N}, ms"
            );
            (name, least(mbit))
        })),
    );
    let judged = match r[runs::unpaced()].len() {
        1 => "by the middle one of three runs each".to_owned(),
        runs => format!("by the mean of {runs} replications each"),
    };
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
        why: format!(
            "The paper does not say n; judged at n = 10, the middle of its 1 to 20, {judged}. Delayed by more than some packet spacings (2 ms) the stream tends to a Poisson one, so a larger jitter adds little: few downloads never take its priority away, ten do from 2 ms on. The loss behind it is not gradual: a stream whose queue is the longest is served last and is the one that gives packets up. The buffer decides: of 200 packets, those of Fig. 3 and 4, it bears 5 ms (see the table); that downloads are near does not. A video that sends each frame at once, unpaced, loses {} at n = 10 for the same reason. On 100 Mbit/s 0.7 ms of packets are the longest queue, so packets that jitter brings together, or a stall of a millisecond, take the priority away now and then at any delta above zero; there it comes back within seconds, so the loss stays partial and irregular. Its threshold is therefore read as the delta from which on every run loses.",
            share(&mean(&r[runs::unpaced()], |x| loss(x, "video")))
        ),
        setup: "testbed of section V under SQF, each video packet delayed at the source by a Gaussian time of standard deviation delta, packets overtaking each other",
        from: &["jitter/", "jitter-of/", "unpaced"],
        charts: vec![charts::fig8(r)],
        tables: disturbed(r),
        ..Claim::default()
    }
}

/// Fig. 8 with one thing changed.
fn disturbed(r: &Results) -> Vec<Table> {
    let row = |name: &str, of: &dyn Fn(u32) -> Option<Estimate>| {
        let each = DELTAS.map(|delta| of(delta).map_or_else(String::new, |x| share(&x)));
        [name.to_owned()]
            .into_iter()
            .chain(each)
            .collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for mbit in [10, 100] {
        let overtaking = jittered(r, mbit, FIG8_N);
        let of = |delta| overtaking.iter().find(|x| x.0 == delta).map(|x| x.1);
        rows.push(row(&format!("{mbit} Mbit/s, packets overtake"), &of));
        let kinds = KINDS.iter().filter(|kind| kind.3.contains(&mbit));
        for (kind, name, ..) in kinds {
            let of = |delta| {
                let runs = r.get(&runs::disturbance(kind, mbit, delta))?;
                Some(mean(runs, |x| loss(x, "video")))
            };
            if of(0).is_some() {
                rows.push(row(&format!("{mbit} Mbit/s, {name}"), &of));
            }
        }
    }
    let head = DELTAS.map(|delta| format!("{delta} ms"));
    vec![Table {
        title: format!("Video lost by delta with one thing changed, n = {FIG8_N}"),
        head: [String::new()].into_iter().chain(head).collect(),
        rows,
    }]
}

fn users(r: &Results) -> Claim {
    let total = |report: &Report, user: &str| -> f64 {
        let of = |kind: &str| group(report, &format!("{user}-{kind}")).goodput_bps / 1e6;
        of("download") + of("video") + of("audio")
    };
    let of = |runs: &[Report]| ["alice", "bob"].map(|user| mean(runs, |x| total(x, user)));
    let hierarchy = &r[runs::users("hier")];
    let [alice, bob] = of(hierarchy);
    let most = mean(hierarchy, |x| {
        let streams = ["alice-video", "alice-audio", "bob-video", "bob-audio"];
        largest(streams.map(|s| loss(x, s)))
    });
    let flat = of(&r[runs::users("sqf")]);
    let [printed, ours] = both(
        r,
        Column::of([
            (
                "rate of the user with 2 downloads by that of the one with 16",
                mean(hierarchy, |x| total(x, "alice") / total(x, "bob")),
            ),
            ("the worst of their streams loses, %", in_percent(most)),
        ]),
    );
    Claim {
        id: "sqf.future.hierarchy",
        printed,
        ours,
        paper: "Planned as future work: FQ between users and SQF inside each gives users equal shares and protects each one's streams within its share.".into(),
        said: format!(
            "alice with 2 downloads gets {} Mbit/s, bob with 16 gets {}; their streams of 2.5 Mbit/s lose {} at most. Under SQF alone: {} and {} Mbit/s",
            plain(&alice), plain(&bob), share(&most), plain(&flat[0]), plain(&flat[1])
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
