// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 2 and 3: rates over time, alone and beside a download. And what loss on the radio does.

use makeway_core::measure::Moments;
use makeway_report::chart::{Chart, Series};
use makeway_report::estimate::Estimate;
use makeway_report::model::{FlowReport, Report};

use super::runs::{self, EXACT_TFRC, FIRST_RTT, LAST_RTT, LATER_RTT, LOSSES, SENDERS, figure};
use super::{downloads, stream};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{NOT_MEASURED, in_percent, mean, only, plain, share, smallest};

/// Full use is this share of ABRC's rate in the end; chosen by us.
const FULL: f64 = 0.9;
/// Averaging time of a change that counts as slow, in s: Fig. 3 changes within tens of seconds.
const SLOW: usize = 10;

/// TFRC of the time alone, with one thing changed (Fig. 2): as cells are named, for the report, its keys, and settings of the scenario. A
/// short buffer drops packets as the rate doubles, and then the rate grows slowly.
pub const STARTS: [(&str, &str, &str, &[&str]); 7] = [
    (
        LAST_RTT,
        "TFRC of RFC 3448, RTT begun at 5 s",
        ", first_rtt = \"5s\"",
        &[],
    ),
    (
        "tfrc-buffer-20",
        "TFRC of RFC 3448, 20 packets at the access point, not 400",
        "",
        &["wlan.cell.queue.limit=20 packets"],
    ),
    (
        "tfrc-buffer-50",
        "TFRC of RFC 3448, 50 packets at the access point",
        "",
        &["wlan.cell.queue.limit=50 packets"],
    ),
    (
        "tfrc-buffer-100",
        "TFRC of RFC 3448, 100 packets at the access point",
        "",
        &["wlan.cell.queue.limit=100 packets"],
    ),
    (
        "tfrc-far",
        "TFRC of RFC 3448, the sender 50 ms away",
        "",
        &["link.ethernet-video.delay=50ms"],
    ),
    (
        "tfrc-no-credit",
        "TFRC of RFC 3448, no credit for unused send times",
        ", credit = false",
        &[],
    ),
    (
        "tfrc-no-damping",
        "TFRC of RFC 3448, the rate does not fall as the RTT rises",
        ", damping = false",
        &[],
    ),
];

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![fig2(r), fig3(r), loss(r)]
}

/// As charts and tables name it.
fn label(sender: &str) -> &'static str {
    match sender {
        "abrc" => "ABRC",
        "printed" => "ABRC as printed",
        "tfrc" => "TFRC of RFC 3448, timer 10 ms",
        FIRST_RTT => "TFRC of RFC 3448, RTT begun at 0.5 s",
        LATER_RTT => "TFRC of RFC 3448, RTT begun at 2 s",
        EXACT_TFRC => "TFRC of RFC 3448, timer exact",
        "numbered" => "ABRC as printed, departures by sequence numbers",
        _ => {
            let start = STARTS.iter().find(|start| start.0 == sender);
            start.map_or("TFRC of RFC 5348", |start| start.1)
        }
    }
}

fn flow<'a>(report: &'a Report, name: &str) -> Option<&'a FlowReport> {
    report.flows.iter().find(|flow| flow.name == name)
}

/// Mbit/s of each second.
fn seconds(report: &Report, name: &str) -> Vec<f64> {
    let series = flow(report, name).map(|flow| &flow.goodput_series_bps[..]);
    series
        .unwrap_or_default()
        .iter()
        .map(|bps| bps / 1e6)
        .collect()
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// After how many seconds a stream has `full` Mbit/s for the first time, over a second; `None`: never.
fn first_full(report: &Report, full: f64) -> Option<usize> {
    let seconds = seconds(report, "stream");
    let first = seconds.iter().position(|rate| *rate >= full);
    first.map(|first| first + 1)
}

/// The same; the whole run if never.
fn until_full(report: &Report, full: f64) -> f64 {
    let never = || seconds(report, "stream").len();
    first_full(report, full).unwrap_or_else(never) as f64
}

/// The same of all runs, for a table: the mean of those that have it, and how many they are.
fn shown_until_full(runs: &[Report], full: f64) -> String {
    let times = runs.iter().filter_map(|run| first_full(run, full));
    let mean = Estimate::of(times.map(|time| time as f64));
    let length = runs.iter().map(|run| seconds(run, "stream").len()).max();
    let never = format!("not within {} s", length.unwrap_or(0));
    match mean.runs {
        _ if full.is_nan() => NOT_MEASURED.into(),
        n if n == runs.len() as u64 => plain(&mean),
        0 => never,
        n => format!(
            "{} in {n} of {} runs, {never} in the others",
            plain(&mean),
            runs.len()
        ),
    }
}

/// Mbit/s over the second half.
fn settled(report: &Report) -> f64 {
    let seconds = seconds(report, "stream");
    average(&seconds[seconds.len() / 2..])
}

/// As the paper says of TFRC, in s.
const LATE: f64 = 20.0;

/// Whether an estimate of the RTT that begins at one of these values makes TFRC's start as late as the paper's.
fn late_start(tfrc: &Estimate, begun: &[(&str, Estimate)]) -> String {
    let more = |time: &Estimate| time.mean - tfrc.mean;
    let meets = |(_, time): &&(&str, Estimate)| time.mean >= LATE && more(time) >= 1.0;
    let effect = match begun.iter().find(meets) {
        _ if begun.iter().any(|(_, time)| more(time).is_nan()) => {
            "whether that is the cause is not known".into()
        }
        Some((rtt, _)) => format!("with {rtt} that alone gives the paper's time"),
        None if begun.iter().any(|(_, time)| more(time) >= 1.0) => {
            "that makes it later, and not as late as the paper has it".into()
        }
        None => "that is not the cause".to_owned(),
    };
    let begun = begun.iter().map(|(rtt, time)| {
        format!(
            "{} s where its estimate of the RTT begins at {rtt}",
            plain(time)
        )
    });
    format!(
        "TFRC of RFC 3448 with a timer of 10 ms has nine tenths after {} s, after {}: {effect}.",
        plain(tfrc),
        begun.collect::<Vec<_>>().join(", after ")
    )
}

fn fig2(r: &Results) -> Claim {
    let capacity = mean(&r[figure("fig2", "abrc")], settled).mean;
    let full = |sender: &str| {
        mean(&r[figure("fig2", sender)], |run| {
            until_full(run, FULL * capacity)
        })
    };
    let late = |sender: &str| mean(&r[figure("fig2", sender)], settled);
    let [abrc, printed, tfrc, today, _] = SENDERS.map(full);
    let begun = [("0.5 s", FIRST_RTT), ("2 s", LATER_RTT), ("5 s", LAST_RTT)];
    let begun = begun.map(|(rtt, sender)| (rtt, full(sender)));
    const ABRC: &str = "ABRC has nine tenths after, s";
    let all = SENDERS.into_iter().take(4);
    let all = all.chain([FIRST_RTT, LATER_RTT, EXACT_TFRC]);
    let all = all.chain(STARTS.map(|(name, ..)| name));
    let rows = all.map(|sender| {
        let shown = shown_until_full(&r[figure("fig2", sender)], FULL * capacity);
        vec![label(sender).to_owned(), shown]
    });
    Claim {
        id: "abrc.fig2",
        printed: Column::of([(ABRC, printed), ("TFRC has nine tenths after, s", tfrc)]),
        ours: Column::of([(ABRC, abrc)]),
        paper: "Alone, TFRC needs more than 20 s until it uses the WLAN in full; ABRC does from the start.".into(),
        said: format!(
            "nine tenths of {capacity:.2} Mbit/s are there after {} s with ABRC ({} s as printed), {} s with TFRC of RFC 3448 and a timer of 10 ms, {} s with that of RFC 5348; in the second half they have {} Mbit/s",
            plain(&abrc),
            plain(&printed),
            plain(&tfrc),
            plain(&today),
            SENDERS[..4].iter().map(|sender| plain(&late(sender))).collect::<Vec<_>>().join(", "),
        ),
        ideal: "at once".into(),
        why: format!(
            "The paper ran its authors' program of that time and does not say what limited it. {} ABRC begins at a rate that is set, 7 Mbit/s here, more than the radio carries: from below, (8) adds five packets a second with each second.",
            late_start(&tfrc, &begun)
        ),
        setup: "802.11b at 11 Mbit/s, the stream alone; goodput in each second",
        from: &["fig2/"],
        tables: vec![Table {
            title: "Fig. 2: nine tenths of ABRC's rate are there after; of TFRC of RFC 3448 one thing changed".into(),
            head: ["sender", "s"].map(String::from).into(),
            rows: rows.collect(),
        }],
        charts: vec![over_time(r, "Fig. 2: alone", "fig2", &["abrc", "tfrc", FIRST_RTT, LATER_RTT], 60, false)],
        ..Claim::default()
    }
}

/// The first run's rates in each second up to `until`.
fn over_time(
    r: &Results,
    title: &str,
    figure: &str,
    senders: &[&str],
    until: usize,
    beside: bool,
) -> Chart {
    let mut series = Vec::new();
    for sender in senders {
        let Some(run) = r[runs::figure(figure, sender)].first() else {
            continue;
        };
        let mut add = |name: &str, flow: &str| {
            let mut seconds = seconds(run, flow);
            seconds.truncate(until);
            series.push(Series::over_time(name, &seconds, 1.0));
        };
        add(label(sender), "stream");
        if beside {
            add("download", "download");
        }
    }
    Chart {
        title: title.into(),
        x: "s".into(),
        y: "Mbit/s".into(),
        series,
        ..Chart::default()
    }
}

/// Standard deviation of the means over [`SLOW`] seconds, of the mean; then that of seconds about those, likewise.
fn swings(report: &Report) -> [f64; 2] {
    let seconds = seconds(report, "stream");
    let measured = seconds.get(30..).unwrap_or_default();
    let means: Vec<f64> = measured.chunks_exact(SLOW).map(average).collect();
    let deviation = |values: &mut dyn Iterator<Item = f64>| {
        let mut moments = Moments::new();
        values.for_each(|value| moments.record(value));
        moments.deviation()
    };
    let rest = measured.chunks_exact(SLOW).zip(&means);
    let mut rest = rest.flat_map(|(chunk, mean)| chunk.iter().map(move |rate| rate - mean));
    let all = average(measured);
    [
        deviation(&mut means.iter().copied()) / all,
        deviation(&mut rest) / all,
    ]
}

fn fig3(r: &Results) -> Claim {
    let runs = |sender: &str| &r[figure("fig3", sender)];
    let of = |sender: &str, figure: &dyn Fn(&Report) -> f64| mean(runs(sender), figure);
    let ratio = |sender: &str| of(sender, &super::ratio);
    let slow = |sender: &str| of(sender, &|run| swings(run)[0]);
    let fast = |sender: &str| of(sender, &|run| swings(run)[1]);
    let overflow = of("tfrc", &|run| {
        let queue = run.queues.iter().find(|queue| queue.name == "ap on cell");
        queue.map_or(f64::NAN, |queue| queue.dropped() as f64)
    });
    let [abrc, printed, tfrc, _, _] = SENDERS.map(ratio);
    const ABRC: &str = "ABRC by the download, k_T = 1";
    let beside = |sender: &str, title: &str| over_time(r, title, "fig3", &[sender], 150, true);
    Claim {
        id: "abrc.fig3",
        printed: Column::of([
            ("TFRC by the download", tfrc),
            ("packets that overflow beside TFRC", overflow),
            (
                "means over 10 s, TFRC's swings by ABRC's",
                only(slow("tfrc").mean / slow("printed").mean),
            ),
            (ABRC, printed),
        ]),
        ours: Column::of([
            (ABRC, abrc),
            ("means over 10 s swing with ABRC, %", in_percent(slow("abrc"))),
        ]),
        paper: "Beside a download that its window limits, TFRC takes more than it until the access point's buffer overflows, falls back, and so on: slow oscillation, and a higher mean than TCP. ABRC with k_T = 1 follows TCP closely and fluctuates in short periods.".into(),
        said: format!(
            "TFRC has {} times the download's rate, and {} packets overflow; ABRC {} times. Means over {SLOW} s swing by {} of the rate with TFRC, {} with ABRC; seconds about them by {} and {}",
            plain(&tfrc),
            plain(&overflow),
            plain(&abrc),
            share(&slow("tfrc")),
            share(&slow("abrc")),
            share(&fast("tfrc")),
            share(&fast("abrc")),
        ),
        ideal: "equal rates without swings".into(),
        why: format!(
            "Swings are standard deviations. As printed, ABRC has {} times the download's rate: the set-up is that of Table 1 with k_T = 1, and the table of abrc.table1 has each change alone.",
            plain(&printed)
        ),
        setup: "802.11b at 11 Mbit/s, the stream beside one download (Reno, window 64 KB), k_T = 1, a buffer of 400 packets",
        from: &["fig3/"],
        charts: vec![
            beside("tfrc", "Fig. 3, left: TFRC"),
            beside("abrc", "Fig. 3, right: ABRC"),
        ],
        ..Claim::default()
    }
}

fn loss(r: &Results) -> Claim {
    let rate = |p: f64, tries: u32, beside: &str, sender: &str| {
        mean(&r[runs::loss(p, tries, beside, sender)], stream)
    };
    // Of what it has without loss, what is lost apart.
    let kept = |p: f64, tries: u32, beside: &str, sender: &str| {
        let arrives = 1.0 - p.powi(tries as i32);
        rate(p, tries, beside, sender).mean / rate(0.0, 7, beside, sender).mean / arrives
    };
    let visible: Vec<(f64, u32)> = LOSSES
        .into_iter()
        .filter(|(p, tries)| *p > 0.0 && *tries == 1)
        .collect();
    let least = |sender: &str| {
        let all = visible
            .iter()
            .flat_map(|(p, tries)| ["alone", "tcp"].map(|beside| kept(*p, *tries, beside, sender)));
        smallest(all)
    };
    let [abrc, printed, tfrc, today, numbered] = SENDERS.map(least);
    const ABRC: &str = "ABRC keeps of its rate, least";
    let rows = LOSSES.into_iter().flat_map(|(p, tries)| {
        ["alone", "tcp"].map(|beside| {
            let rates = SENDERS.map(|sender| plain(&rate(p, tries, beside, sender)));
            let tcp = match beside {
                "tcp" => plain(&mean(&r[runs::loss(p, tries, beside, "abrc")], downloads)),
                _ => String::new(),
            };
            let head = [
                format!("{} %", p * 100.0),
                tries.to_string(),
                if beside == "tcp" {
                    "one download"
                } else {
                    "alone"
                }
                .to_owned(),
            ];
            head.into_iter().chain(rates).chain([tcp]).collect()
        })
    });
    let head = [
        "frames lost",
        "tries",
        "beside",
        "ABRC",
        "ABRC as printed",
        "TFRC of RFC 3448, timer 10 ms",
        "TFRC of RFC 5348",
        "as printed, departures by sequence numbers",
        "the download beside ABRC",
    ];
    Claim {
        id: "abrc.loss",
        printed: Column::of([
            (ABRC, only(printed)),
            ("TFRC keeps of its rate, least", only(tfrc)),
        ]),
        ours: Column::of([(ABRC, only(abrc))]),
        paper: "Random loss on the radio does not lower ABRC's rate, since it does not adapt to loss; it lowers TFRC's.".into(),
        said: format!(
            "with 2 to 10 % of packets lost, ABRC keeps {} of its rate at least, beside what is lost; TFRC of RFC 3448 {}, of RFC 5348 {}. As printed ABRC keeps {}, and {} where departures are counted by sequence numbers",
            plain(&Estimate::of([abrc])),
            plain(&Estimate::of([tfrc])),
            plain(&Estimate::of([today])),
            plain(&Estimate::of([printed])),
            plain(&Estimate::of([numbered])),
        ),
        ideal: "1".into(),
        why: "The radio hides most loss: with seven tries a fifth of the frames can be lost and no packet is missing; so packets are lost here by trying once. (Frames that are sent again take longer than one and a half of the shortest time and do not count for T_UDP, so that with a fifth of them lost ABRC keeps its rate beside a download, and the download alone pays: see the table.) As printed, (8) does not hold with loss: BW counts received packets, so each second a lost share of the packets sent is taken for packets that wait, and the queue runs dry. Counted by sequence numbers, departures from the access point are known in spite of losses behind it, as (8) means it; the default does that.".into(),
        setup: "802.11b at 11 Mbit/s, the stream alone and beside one download (Reno, window 64 KB), k_T = 1",
        from: &["loss/"],
        tables: vec![Table {
            title: "Mbit/s by loss on the radio".into(),
            head: head.map(String::from).into(),
            rows: rows.collect(),
        }],
        ..Claim::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::tests::made_up;

    #[test]
    fn a_run_that_never_has_the_full_rate_has_no_time() {
        let run = |slow: &usize| {
            let mut series = vec![6e6; 30];
            series[..*slow].fill(1e6);
            let stream = FlowReport {
                name: "stream".into(),
                goodput_series_bps: series,
                ..FlowReport::default()
            };
            made_up(30.0, vec![stream], vec![])
        };
        for (slow, said) in [
            (&[4][..], "5.00"),
            (&[30, 30], "not within 30 s"),
            (
                &[4, 30],
                "5.00 in 1 of 2 runs, not within 30 s in the others",
            ),
        ] {
            let runs: Vec<Report> = slow.iter().map(run).collect();
            assert_eq!(shown_until_full(&runs, 5.0), said);
            assert_eq!(shown_until_full(&runs, f64::NAN), NOT_MEASURED);
        }
    }

    #[test]
    fn the_effect_of_the_first_rtt_follows_the_runs() {
        for (tfrc, begun, said) in [
            (
                1.0,
                [4.0, 25.0],
                "with 5 s that alone gives the paper's time",
            ),
            (1.0, [1.0, 6.0], "not as late as the paper has it"),
            (1.0, [1.0, 1.0], "that is not the cause"),
            (25.0, [25.0, 25.0], "that is not the cause"),
            (1.0, [25.0, f64::NAN], "not known"),
        ] {
            let begun = [("0.5 s", only(begun[0])), ("5 s", only(begun[1]))];
            let found = late_start(&only(tfrc), &begun);
            assert!(found.contains(said), "{found}");
        }
    }
}
