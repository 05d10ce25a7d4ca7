// SPDX-License-Identifier: MIT OR Apache-2.0
//! Section 4.2: whether it pays to cut packets so that NCQ favours them, closed forms. Fig. 3 to 6.

use std::sync::LazyLock;

use makeway_core::theory::ncq::strategies::{
    Completion, Setting, Traffic, congestive_multimedia, ftp, non_congestive_multimedia,
};
use makeway_report::chart::{Chart, Series};

use super::corrections;
use crate::papers::claim::{Claim, Column};
use crate::papers::figures::{only, smallest};

const STRATEGIES: &str = "section 4.2: 5 MB, 40 B of overhead a packet, one packet in ten its own, the others 1 KB; the paper does not say what a packet costs the server: from its length alone to 1000 B more";

/// Claims of section 4.2, each computed once: a second or more.
pub static CLOSED_FORMS: LazyLock<[Claim; 4]> = LazyLock::new(|| [fig3(), fig4(), fig5(), fig6()]);

/// [`nearest_of_all`].
static NEAREST: LazyLock<Setting> = LazyLock::new(nearest_of_all);

/// With the service time that is nearest to the paper's figures.
fn setting(load: f64, as_printed: bool) -> Setting {
    Setting {
        load,
        as_printed,
        ..*NEAREST
    }
}

type Task = fn(&Setting) -> Completion;

/// The least and the most that a task takes longer, over all service times and both traffics, at a load of 0.6; `n` is
/// 0 without a threshold, 1 with it.
fn range(task: Task, n: usize, as_printed: bool) -> [f64; 2] {
    let values = (0..=50).flat_map(|step| {
        [Traffic::SameShare, Traffic::SameData].map(|traffic| {
            let per_packet = 20.0 * f64::from(step);
            let setting = Setting {
                per_packet,
                traffic,
                ..setting(0.6, as_printed)
            };
            task(&setting).worse()[n]
        })
    });
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], v| {
        [a.min(v), b.max(v)]
    })
}

fn sensitivity(task: Task) -> String {
    let all = [0, 1].map(|n| {
        let [low, high] = range(task, n, false).map(|x| format!("{:.0}", x * 100.0));
        format!("{low} to {high} %")
    });
    format!("{} without a threshold, {} with 5 %", all[0], all[1])
}

fn nearest(task: Task, as_printed: bool) -> String {
    let [all, some] = task(&setting(0.6, as_printed)).worse();
    format!("{:.0} % and {:.0} %", all * 100.0, some * 100.0)
}

fn completion(title: &str, task: Task) -> Chart {
    let line = |name: &str, of: fn(&Completion) -> f64| {
        let at = |n: i32| f64::from(n) / 100.0;
        let points = (5..=90).map(|n| (at(n), of(&task(&setting(at(n), false)))));
        Series::line(name, points.collect())
    };
    Chart {
        title: title.into(),
        x: "utilisation".into(),
        y: "s".into(),
        series: vec![
            line("its own packets", |c| c.whole),
            line("120 B, NCQ without a threshold", |c| c.priority),
            line("120 B, NCQ 5 %", |c| c.threshold),
        ],
        ..Chart::default()
    }
}

/// The paper's six percentages at a load of 0.6: without a threshold, with 5 %.
const SIX: [(Task, [f64; 2]); 3] = [
    (ftp, [2.40, 3.71]),
    (congestive_multimedia, [1.43, 2.53]),
    (non_congestive_multimedia, [-0.21, 0.19]),
];

/// The one cost of a packet, and kind of traffic, that is nearest to all six by the equations as printed: by the sum of
/// squares of relative distances.
fn nearest_of_all() -> Setting {
    let of = |step: u32, traffic| Setting {
        load: 0.6,
        rate: 2e5,
        per_packet: 5.0 * f64::from(step),
        traffic,
        as_printed: true,
    };
    let costs = (0..=200)
        .flat_map(|step| [Traffic::SameShare, Traffic::SameData].map(|traffic| of(step, traffic)));
    let far = |setting: &Setting| -> f64 {
        let of = |(task, paper): &(Task, [f64; 2])| {
            let found = task(setting).worse();
            let far = |n: usize| (found[n] / paper[n] - 1.0).powi(2);
            far(0) + far(1)
        };
        SIX.iter().map(of).sum()
    };
    let nearest = costs.min_by(|a, b| far(a).total_cmp(&far(b)));
    nearest.unwrap_or_else(|| of(0, Traffic::SameData))
}

/// As printed: two of the six at that cost. Ours: the corrected equations, over all costs.
fn columns(task: Task) -> [Column; 2] {
    let [all, some] = task(&NEAREST).worse();
    let [without, with] = [0, 1].map(|n| range(task, n, false));
    let of = |figures: Vec<(&str, f64)>| {
        let figures = figures.into_iter();
        Column::of(figures.map(|(name, x)| (name, only(x * 100.0))))
    };
    [
        of(vec![
            ("longer without a threshold, %", all),
            ("longer with 5 %, %", some),
        ]),
        of(vec![
            (
                "longer without a threshold, the least over costs of a packet, %",
                without[0],
            ),
            (
                "longer without a threshold, the most over costs of a packet, %",
                without[1],
            ),
            (
                "longer with 5 %, the least over costs of a packet, %",
                with[0],
            ),
        ]),
    ]
}

fn unknown() -> String {
    let packets = match NEAREST.traffic {
        Traffic::SameShare => "with a tenth of all packets",
        Traffic::SameData => "with as many packets as the data need",
    };
    format!(
        "The paper does not state its service times. The nearest to its six percentages, by the sum of squares of the relative distances, is a packet that costs as much as {:.0} B more, {packets}",
        NEAREST.per_packet
    )
}

fn fig3() -> Claim {
    let [printed, ours] = columns(ftp);
    Claim {
        id: "ncq.fig3",
        printed,
        ours,
        paper: "A download that cuts its 1 KB packets to 120 B takes 240 % longer without a threshold, 371 % with 5 %, at a load of 0.6.".into(),
        said: format!("{} longer; over all service times {}", nearest(ftp, false), sensitivity(ftp)),
        ideal: "it never pays".into(),
        why: format!(
            "{}: as printed it gives {}. The table has the costs that meet each of the six as printed: those of Fig. 3 and 4 and the 19 % of Fig. 6 have some in common, and the 21 % of Fig. 6 has none with them, so that the nearest cost misses Fig. 3.",
            unknown(),
            nearest(ftp, true)
        ),
        setup: STRATEGIES,
        charts: vec![completion("Fig. 3: 5 MB, from 1 KB to 120 B", ftp)],
        tables: vec![corrections::of_tasks(&NEAREST)],
        ..Claim::default()
    }
}

fn fig4() -> Claim {
    let [printed, ours] = columns(congestive_multimedia);
    Claim {
        id: "ncq.fig4",
        printed,
        ours,
        paper: "One that cuts 500 B to 120 B takes 143 % and 253 % longer.".into(),
        said: format!(
            "{} longer; over all service times {}",
            nearest(congestive_multimedia, false),
            sensitivity(congestive_multimedia)
        ),
        ideal: "it never pays".into(),
        why: format!(
            "{}: as printed it gives {}.",
            unknown(),
            nearest(congestive_multimedia, true)
        ),
        setup: STRATEGIES,
        charts: vec![completion(
            "Fig. 4: 5 MB, from 500 B to 120 B",
            congestive_multimedia,
        )],
        ..Claim::default()
    }
}

/// By how much a packet's delay falls with packets of 120 B at a load of 0.6, in percent: without a threshold, with 5 %.
fn saved(setting: &Setting) -> [f64; 2] {
    let [whole, priority, threshold] = non_congestive_multimedia(setting).delays;
    [priority, threshold].map(|delay| (1.0 - delay / whole) * 100.0)
}

fn fig5() -> Claim {
    const LESS: [&str; 2] = [
        "a packet waits less without a threshold by, %",
        "a packet waits less with 5 % by, %",
    ];
    let printed = saved(&NEAREST);
    // Over all costs of a packet and both traffics, the corrected equations.
    let all = || {
        (0..=50).flat_map(|step| {
            [Traffic::SameShare, Traffic::SameData].map(|traffic| {
                saved(&Setting {
                    per_packet: 20.0 * f64::from(step),
                    traffic,
                    ..setting(0.6, false)
                })
            })
        })
    };
    let least = [0, 1].map(|n| smallest(all().map(|saved| saved[n])));
    let column = |values: [f64; 2]| Column::of(LESS.into_iter().zip(values.map(only)));
    // 21 % sooner and 19 % later with five packets for four.
    let implied = [0.79, 1.19].map(|time| (1.0 - time / 1.25) * 100.0);
    let line = |name: &str, n: usize| {
        let at = |n: i32| f64::from(n) / 100.0;
        let of = |load: f64| non_congestive_multimedia(&setting(load, false)).delays[n] * 1e3;
        Series::line(name, (5..=90).map(|n| (at(n), of(at(n)))).collect())
    };
    Claim {
        id: "ncq.fig5",
        printed: column(printed),
        ours: column(least),
        paper: "For a multimedia application that cuts 140 B to 120 B, both forms of NCQ lower the queuing delay significantly.".into(),
        said: format!(
            "as printed by {:.0} % and {:.0} %; the corrected equations, least over all costs of a packet, by {:.0} % and {:.0} %",
            printed[0], printed[1], least[0], least[1]
        ),
        ideal: "no waiting".into(),
        why: format!(
            "The paper gives no figure; those of Fig. 6 imply {:.0} % and {:.0} %, since the task needs five packets for four: with a threshold \"significantly\" is not what its own Fig. 6 says. With kthresh the right way round and nothing else changed a packet waits less by more than a tenth (table of Fig. 3).",
            implied[0], implied[1]
        ),
        setup: STRATEGIES,
        charts: vec![Chart {
            title: "Fig. 5: delay of a packet".into(),
            x: "utilisation".into(),
            y: "ms".into(),
            series: vec![
                line("140 B", 0),
                line("120 B, NCQ without a threshold", 1),
                line("120 B, NCQ 5 %", 2),
            ],
            ..Chart::default()
        }],
        ..Claim::default()
    }
}

fn loads() -> impl Iterator<Item = f64> {
    (1..100).map(|n| f64::from(n) / 100.0)
}

fn fig6() -> Claim {
    let task: Task = non_congestive_multimedia;
    let [column, ours] = columns(task);
    let sooner_from = loads().find(|load| {
        let setting = Setting {
            load: *load,
            ..*NEAREST
        };
        task(&setting).worse()[0] < 0.0
    });
    let sooner_from = sooner_from.unwrap_or(f64::NAN);
    let [_, printed] = [0, 1].map(|n| range(task, n, true));
    let pays_from = loads().find(|load| task(&setting(*load, false)).worse()[0] < 0.0);
    Claim {
        id: "ncq.fig6",
        printed: column.with("sooner without a threshold from a load of", only(sooner_from)),
        ours,
        paper: "One that cuts 140 B to 120 B is 21 % faster without a threshold and 19 % slower with 5 %; without one it pays from a load of 0.48 on.".into(),
        said: format!(
            "{} longer (less than 0: sooner), without a threshold sooner from {:.2} on; over all service times {}",
            nearest(task, false), pays_from.unwrap_or(f64::NAN), sensitivity(task)
        ),
        ideal: "what it costs others is what it pays".into(),
        why: format!(
            "Without a threshold it is sooner too, by more than in the paper (table of Fig. 3). With 5 % its figure rests on kthresh inverted: as printed the task takes {:.0} to {:.0} % longer for every cost of a packet; the right way round NCQ favours half of its packets, and the sign depends on the service time: the table of Fig. 3 corrects kthresh alone, and all else but kthresh. The simulator shows for Fig. 2 that NCQ does favour half of them.",
            printed[0] * 100.0, printed[1] * 100.0
        ),
        setup: STRATEGIES,
        charts: vec![completion("Fig. 6: 5 MB, from 140 B to 120 B", task)],
        tables: vec![corrections::loads(&NEAREST)],
        ..Claim::default()
    }
}
