// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts and tables of its statements.

use makeway_report::chart::Chart;
use makeway_report::estimate::Estimate;

use super::runs::{
    Axis, CHOICES, Gain, LOSS_30, LOSS_80, LOSS_CHOICES, LOSS_EVICT, LOSS_POLICIES, LOSS_PRINTED,
    POLICIES, Sweep, on_time, received,
};
use super::{at_loss, points};
use crate::experiment::Results;
use crate::papers::claim::Table;
use crate::papers::figures::{Figures, in_percent, plain, with_intervals};

/// Gains over the unmodified queue rate by rate, where an expired packet leaves its send time to the next, and where it uses it.
pub fn signs(r: &Results) -> Table {
    let columns = [
        ("sbpn1", LOSS_80),
        ("sbpn1", LOSS_PRINTED),
        ("sbpn2", LOSS_80),
        ("sbpn2", LOSS_PRINTED),
    ];
    let gains = columns.map(|(policy, sweep)| {
        ["audio", "video"].map(|class| sweep.gain(r, policy, (&LOSS_80, "fifo"), on_time(class)))
    });
    let rows = LOSS_80.points.iter().enumerate().map(|(n, x)| {
        let of = |gains: &[Figures; 2]| {
            let [audio, video] = [&gains[0], &gains[1]].map(|figures| points(figures[n].1.mean));
            format!("{audio}, {video}")
        };
        [at_loss(*x)]
            .into_iter()
            .chain(gains.iter().map(of))
            .collect()
    });
    let head = [
        "loss",
        "SBPN1",
        "SBPN1 as printed",
        "SBPN2",
        "SBPN2 as printed",
    ];
    Table {
        title: "Audio and video on time less those of the unmodified queue, in % of the datagrams, RTT 80 ms; as printed an expired packet uses its send time".into(),
        head: head.map(str::to_owned).into(),
        rows: rows.collect(),
    }
}

/// The means over all rates of loss, with one thing changed.
pub fn changed(r: &Results) -> Table {
    let row = |name: &str, sweep: &Sweep, unmodified: &Sweep| {
        let gain = |policy, other: (&Sweep, &str), class| {
            plain(&in_percent(sweep.whole_gain(
                r,
                policy,
                other,
                on_time(class),
            )))
        };
        let of = |policy, other| {
            ["audio", "video"]
                .map(|class| gain(policy, other, class))
                .join(", ")
        };
        vec![
            name.to_owned(),
            of("sbpn1", (unmodified, "fifo")),
            of("sbpn2", (unmodified, "fifo")),
            of("sbpn2", (sweep, "sbpn1")),
        ]
    };
    let own = |name, sweep| row(name, sweep, sweep);
    let first = [
        own("nothing", &LOSS_80),
        row(
            "an expired packet uses its send time (as printed)",
            &LOSS_PRINTED,
            &LOSS_80,
        ),
        own("RTT 30 ms", &LOSS_30),
        row(
            "audio replaces video in a full queue",
            &LOSS_EVICT,
            &LOSS_80,
        ),
    ];
    let choices = LOSS_CHOICES
        .iter()
        .map(|choice| own(choice.name, &choice.sweep));
    let head = [
        "changed",
        "SBPN1 less unmodified",
        "SBPN2 less unmodified",
        "SBPN2 less SBPN1",
    ];
    Table {
        title: "Audio and video on time over all rates of loss, in points of the datagrams, with one thing changed; 30 runs in the first four rows and with RFC 3448, 10 in the others".into(),
        head: head.map(str::to_owned).into(),
        rows: first.into_iter().chain(choices).collect(),
    }
}

/// Other policies under loss: the kernel's priority discards nothing, late last sends what is late behind all else.
pub fn other_policies(r: &Results) -> Table {
    let row = |policy: &str, sweep: &Sweep| {
        let gain = |class| {
            let gain = sweep.whole_gain(r, policy, (&LOSS_80, "fifo"), on_time(class));
            plain(&in_percent(gain))
        };
        vec![label(policy).to_owned(), gain("audio"), gain("video")]
    };
    let own = ["sbpn1", "sbpn2"].map(|policy| row(policy, &LOSS_80));
    let others = POLICIES.map(|policy| row(policy, &LOSS_POLICIES));
    Table {
        title: "Audio and video on time over all rates of loss less those of the unmodified queue, in points of the datagrams, by policy".into(),
        head: ["policy", "audio", "video"].map(str::to_owned).into(),
        rows: own.into_iter().chain(others).collect(),
    }
}

pub fn label(policy: &str) -> &'static str {
    match policy {
        "fifo" => "unmodified",
        "sbpn1" => "SBPN1",
        "sbpn2" => "SBPN2",
        "prio" => "the kernel's priority",
        "weighted" => "weighted score",
        "when-full" => "discard when full",
        _ => "late last",
    }
}

/// On-time shares of both classes.
pub fn chart(r: &Results, sweep: &Sweep, title: &str, policies: &[&str]) -> Chart {
    let series = policies.iter().flat_map(|policy| {
        ["audio", "video"].map(|class| {
            let figures = sweep.figures(r, policy, on_time(class));
            with_intervals(format!("{}, {class}", label(policy)), &figures, 100.0)
        })
    });
    Chart {
        title: title.into(),
        x: match sweep.x {
            Axis::Loss => "loss in tenths of a percent".into(),
            Axis::Rate | Axis::Line => "rate limit, kbit/s".into(),
        },
        y: "% on time".into(),
        series: series.collect(),
        ..Chart::default()
    }
}

/// On time and received by loss.
pub fn by_loss(r: &Results, sweep: &Sweep, title: &str) -> Table {
    let columns = ["fifo", "sbpn1", "sbpn2"].into_iter().flat_map(|policy| {
        ["audio", "video"].map(|class| {
            (
                policy,
                class,
                sweep.figures(r, policy, on_time(class)),
                sweep.figures(r, policy, received(class)),
            )
        })
    });
    let columns: Vec<_> = columns.collect();
    let head = columns
        .iter()
        .map(|(policy, class, ..)| format!("{} {class}", label(policy)));
    let points = columns[0].2.iter().map(|(x, _)| *x).enumerate();
    Table {
        title: format!("On time, and received, in % of the datagrams, {title}"),
        head: std::iter::once("loss".into()).chain(head).collect(),
        rows: points
            .map(|(n, x)| {
                let cells = columns.iter().map(|(_, _, on_time, received)| {
                    format!(
                        "{:.1}, {:.1}",
                        on_time[n].1.mean * 100.0,
                        received[n].1.mean * 100.0
                    )
                });
                std::iter::once(at_loss(x)).chain(cells).collect()
            })
            .collect(),
    }
}

pub fn by_rate(gains: &[Gain], title: &str) -> Table {
    let with_half = |x: &Estimate| match x.half_width {
        Some(half) => format!("{} ± {:.1}", points(x.mean), half * 100.0),
        None => points(x.mean),
    };
    Table {
        title: format!(
            "SBPN2 against the unmodified queue where it is congested, {title}, in % of the datagrams"
        ),
        head: ["kbit/s", "audio on time, unmodified", "audio", "video"]
            .map(str::to_owned)
            .into(),
        rows: gains
            .iter()
            .map(|gain| {
                vec![
                    gain.kbit.to_string(),
                    format!("{:.1}", gain.fifo.mean * 100.0),
                    with_half(&gain.audio),
                    with_half(&gain.video),
                ]
            })
            .collect(),
    }
}

/// The mean over 600, 800, 1000 and 1200 kbit/s with one choice changed.
pub fn choices(r: &Results) -> Table {
    Table {
        title: "One choice changed, the mean over 600, 800, 1000 and 1200 kbit/s, in % of the datagrams".into(),
        head: ["choice", "unmodified: audio on time", "video", "SBPN2: audio", "video"].map(str::to_owned).into(),
        rows: CHOICES
            .iter()
            .map(|choice| {
                let [audio, video] = choice.unmodified(r).map(|x| format!("{:.1}", x * 100.0));
                let [more_audio, more_video] = choice.gains(r, "sbpn2").map(points);
                vec![choice.name.into(), audio, video, more_audio, more_video]
            })
            .collect(),
    }
}

/// Other policies, as [`choices`].
pub fn policies(r: &Results) -> Table {
    let all = std::iter::once("sbpn2").chain(POLICIES);
    Table {
        title: "Other policies against the unmodified queue, likewise".into(),
        head: ["policy", "audio", "video"].map(str::to_owned).into(),
        rows: all
            .map(|policy| {
                let [audio, video] = CHOICES[0].gains(r, policy).map(points);
                vec![label(policy).into(), audio, video]
            })
            .collect(),
    }
}
