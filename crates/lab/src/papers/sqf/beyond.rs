// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements of the paper beside its measurements: audio and video over TCP, a program's source port as the flow, and buffers of 50 to
//! 200 packets. In the world sim.

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::{bottleneck, group};

use super::columns::Columns;
use super::figures::loss;
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{
    Figures, highest, in_percent, least, lowest, mean, ms, paired, percent, plain, share, worst,
};

const TCP: &str = "papers/sqf/tcp.toml";
const UPLOAD: &str = "papers/sqf/upload.toml";
const TESTBED: &str = "papers/sqf/testbed.toml";
/// Downloads beside streams over TCP.
const DOWNLOADS: [u32; 5] = [1, 5, 10, 15, 20];
const DISCIPLINES: [&str; 3] = ["fifo", "fq", "sqf"];
/// How the video writes: packet by packet, or a frame at once.
const WRITES: [(&str, &str, &str); 2] = [("packets", "1250B", "2ms"), ("frames", "25kB", "40ms")];
/// Written by the video and the audio, in bit/s.
const WRITTEN: [(&str, f64); 2] = [("video", 5e6), ("audio", 64e3)];
/// Packets.
const BUFFERS: [u32; 4] = [50, 100, 150, 200];
/// Downloads beside them.
const FILLED: [u32; 3] = [1, 10, 20];
const KEYS: [&str; 2] = ["5-tuple", "src-port"];
/// Instead of SQF, by source port.
const INSTEAD: [&str; 2] = ["fq", "makeway"];

pub fn cells(seconds: u64) -> Vec<Cell> {
    let cell = |key: Key, file, set: Vec<String>| Cell {
        set,
        ..Cell::new(key, file, seconds)
    };
    let mut cells = Vec::new();
    for discipline in DISCIPLINES {
        for (name, bytes, every) in WRITES {
            for n in DOWNLOADS {
                let set = vec![
                    format!("link.line.queue.discipline={discipline}"),
                    format!("flow.download.count={n}"),
                    format!("flow.video.bytes={bytes}"),
                    format!("flow.video.every={every}"),
                ];
                cells.push(cell(tcp(discipline, name, n), TCP, set));
            }
        }
    }
    for key in KEYS {
        let set = vec![format!("link.line.queue.flows={key}")];
        cells.push(cell(upload(key), UPLOAD, set));
    }
    for discipline in INSTEAD {
        let set = vec![
            format!("link.line.queue.flows={}", KEYS[1]),
            format!("link.line.queue.discipline={discipline}"),
        ];
        cells.push(cell(swarm(discipline), UPLOAD, set));
    }
    for packets in BUFFERS {
        for n in FILLED {
            let set = vec![
                format!("link.line.queue.limit={packets} packets"),
                format!("flow.download.count={n}"),
            ];
            cells.push(cell(buffer(packets, n), TESTBED, set));
        }
    }
    cells
}

fn tcp(discipline: &str, writes: &str, n: u32) -> Key {
    Key::new(format!("tcp/{discipline}/{writes}/{n}"))
}

fn upload(key: &str) -> Key {
    Key::new(format!("upload/{key}"))
}

/// By source port, under one of [`INSTEAD`].
fn swarm(discipline: &str) -> Key {
    Key::new(format!("swarm/{discipline}"))
}

fn buffer(packets: u32, n: u32) -> Key {
    Key::new(format!("buffer/{packets}/{n}"))
}

/// Claims that the runs decide.
pub fn claims(c: &Columns<'_>) -> Vec<Claim> {
    match c.ours.has(&upload(KEYS[0])) {
        true => vec![over_tcp(c), source_port(c), buffers(c)],
        false => Vec::new(),
    }
}

/// A stream's rate by what it writes.
fn carried(report: &Report, stream: &str, written: f64) -> f64 {
    group(report, stream).goodput_bps / written
}

/// Time that 99 % of what a stream writes takes, ms.
fn late(report: &Report, stream: &str) -> f64 {
    let tasks = group(report, stream).tasks;
    tasks.map_or(f64::NAN, |tasks| tasks.completion_ms.p99)
}

fn by_downloads(
    r: &Results,
    discipline: &str,
    writes: &str,
    figure: impl Fn(&Report) -> f64,
) -> Figures {
    let each = |n: &u32| (*n, mean(&r[tcp(discipline, writes, *n)], &figure));
    DOWNLOADS.iter().map(each).collect()
}

fn over_tcp(c: &Columns<'_>) -> Claim {
    let of = |r: &Results, stream: &'static str, written: f64| {
        let rate = by_downloads(r, "sqf", "packets", |x| carried(x, stream, written));
        let time = by_downloads(r, "sqf", "packets", |x| late(x, stream));
        [
            (
                format!("{stream}'s rate by what it writes, least n, %"),
                in_percent(least(&rate)),
            ),
            (
                format!("99 % of {stream}'s writes arrive within, worst n, ms"),
                worst(&time),
            ),
        ]
    };
    let [printed, ours] = c.both(|r| {
        let figures = WRITTEN.map(|(stream, written)| of(r, stream, written));
        Column::of(figures.into_iter().flatten())
    });
    Claim {
        id: "sqf.tcp",
        printed,
        ours,
        paper: "SQF applies equally to audio and video over TCP, whose congestion control stays inactive where no packets queue.".into(),
        ideal: "what is written arrives at once".into(),
        why: "Judged where the video writes packet by packet, as regulated sources do; one that writes each frame at once is in the table.".into(),
        setup: "testbed of section V, the video a connection that writes 1250 B each 2 ms, the audio one that writes 160 B each 20 ms, n downloads beside them",
        from: &["tcp/"],
        tables: vec![tcp_table(c.ours)],
        ..Claim::default()
    }
}

fn tcp_table(r: &Results) -> Table {
    let row = |discipline: &'static str, writes: &'static str| {
        let cell = move |n: &u32| {
            let runs = &r[tcp(discipline, writes, *n)];
            let rate = mean(runs, |x| carried(x, "video", WRITTEN[0].1));
            let time = mean(runs, |x| late(x, "video"));
            format!("{}, {}", percent(rate.mean), ms(&time))
        };
        let head = format!("{}, {writes}", discipline.to_uppercase());
        [head]
            .into_iter()
            .chain(DOWNLOADS.iter().map(cell))
            .collect()
    };
    let rows = DISCIPLINES
        .iter()
        .flat_map(|discipline| WRITES.map(|(writes, ..)| row(discipline, writes)));
    let head = DOWNLOADS.map(|n| format!("n = {n}"));
    Table {
        title:
            "Video over TCP: its rate by what it writes, and the time that 99 % of its writes take"
                .into(),
        head: [String::from("writes")].into_iter().chain(head).collect(),
        rows: rows.collect(),
    }
}

/// The swarm's part of the two uploads' rate.
fn part(report: &Report) -> f64 {
    let [swarm, other] = ["swarm", "upload"].map(|name| group(report, name).goodput_bps);
    swarm / (swarm + other)
}

fn source_port(c: &Columns<'_>) -> Claim {
    let lost = |r: &Results, key: &str| mean(&r[upload(key)], |x| loss(x, "video"));
    let [apart, together] = KEYS.map(|key| mean(&c.ours[upload(key)], part));
    let instead = INSTEAD.map(|discipline| {
        let runs = &c.ours[swarm(discipline)];
        format!(
            "with {discipline} {}, and the video loses {}",
            share(&mean(runs, part)),
            share(&mean(runs, |x| loss(x, "video")))
        )
    });
    let [printed, ours] = c.both(|r| {
        let [apart, together] = KEYS.map(|key| &r[upload(key)]);
        let gain = paired(apart, together, |x| loss(x, "video"), |a, b| a - b);
        Column::of([
            ("video lost by source port, %", in_percent(lost(r, KEYS[1]))),
            (
                "video lost by 5-tuple more than by source port, points",
                in_percent(gain),
            ),
            (
                "the swarm's part of both uploads by source port, %",
                in_percent(mean(together, part)),
            ),
        ])
    });
    Claim {
        id: "sqf.source-port",
        printed,
        ours,
        paper: "On the way up the source port may be the flow, so that all packets of one program are one flow with all their destinations.".into(),
        said: format!(
            "video lost by 5-tuple {}, by source port {}; the swarm has {} and {} of both uploads' rate",
            percent(lost(c.ours, KEYS[0]).mean),
            percent(lost(c.ours, KEYS[1]).mean),
            percent(apart.mean),
            percent(together.mean)
        ),
        ideal: "no loss, half of the rate each".into(),
        why: format!(
            "SQF serves the shorter queue first, and the program's twenty connections have one queue, the longer one. The swarm's part of both uploads' rate with another discipline, nothing else changed: {}.",
            instead.join("; ")
        ),
        setup: "twenty uploads of one program, another upload, and a 5 Mbit/s video that peaks at 7.0 Mbit/s on a link of 10 Mbit/s and 50 packets",
        from: &["upload/", "swarm/"],
        ..Claim::default()
    }
}

fn used(report: &Report) -> f64 {
    bottleneck(report).map_or(f64::NAN, |queue| queue.utilisation)
}

fn buffers(c: &Columns<'_>) -> Claim {
    let r = c.ours;
    let all = |r: &Results, figure: &dyn Fn(&Report) -> f64| -> Vec<Estimate> {
        let each = BUFFERS
            .iter()
            .flat_map(|packets| FILLED.map(|n| mean(&r[buffer(*packets, n)], figure)));
        each.collect()
    };
    let [printed, ours] = c.both(|r| {
        let lost = ["video", "audio"].map(|stream| all(r, &|x| loss(x, stream)));
        Column::of([
            (
                "the line used at least, %",
                in_percent(lowest(all(r, &used))),
            ),
            (
                "the streams lose at most, %",
                in_percent(highest(lost.into_iter().flatten())),
            ),
        ])
    });
    let rows = BUFFERS.iter().flat_map(|packets| {
        FILLED.map(|n| {
            let runs = &r[buffer(*packets, n)];
            let figures = [
                percent(mean(runs, used).mean),
                plain(&mean(runs, super::data)),
                percent(mean(runs, |x| loss(x, "video")).mean),
                percent(mean(runs, |x| loss(x, "audio")).mean),
            ];
            [packets.to_string(), n.to_string()]
                .into_iter()
                .chain(figures)
                .collect()
        })
    });
    let head = [
        "packets",
        "n",
        "line used",
        "data, Mbit/s",
        "video lost",
        "audio lost",
    ];
    Claim {
        id: "sqf.buffer",
        printed,
        ours,
        paper: "The buffer is sized for an efficient use of the link by TCP alone, typically 50 to 200 packets.".into(),
        ideal: "the line in use throughout, no loss".into(),
        setup: "testbed of section V under SQF, with 50 to 200 packets of buffer",
        from: &["buffer/"],
        tables: vec![Table {
            title: "Buffers under SQF".into(),
            head: head.map(String::from).into(),
            rows: rows.collect(),
        }],
        ..Claim::default()
    }
}
