// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of section IV, which are closed forms.

use std::sync::LazyLock;

use super::charts;
use super::figures::line;
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::only;

/// Claims that need no run; their charts take a while.
pub static CLOSED_FORMS: LazyLock<[Claim; 3]> =
    LazyLock::new(|| [fig3_probability(), fig3_fair_share(), fig4_time()]);

fn fig3_probability() -> Claim {
    let p = |mbit: f64| line(20).deprioritised(mbit * 100.0, 600.0);
    let below: f64 = line(20).safe_rate(600.0, 0.05) / 100.0;
    Claim {
        id: "sqf.fig3.p",
        printed: Column::of([("p within 600 s at 5.9 Mbit/s, n = 20, eq. (2)", only(p(5.9)))]),
        ours: Column::of([(
            "p within 600 s at 5.9 Mbit/s, n = 20, exact",
            only(line(20).hit(590.0, 600.0)),
        )]),
        paper: "With 20 downloads the probability of losing priority within 10 min is close to 0 as long as the video peaks below 6 Mbit/s.".into(),
        said: format!(
            "{:.4} at 5 Mbit/s, {:.4} at 5.5, {:.4} at 6, {:.4} at 6.5; below 5 % up to {below:.2} Mbit/s",
            p(5.0), p(5.5), p(6.0), p(6.5)
        ),
        ideal: "0".into(),
        why: "Equations (1) and (2) as printed, maximised over all k, are not near 0 at 6 Mbit/s. Where the scan over k stops at intervals of 38 or 40 ms, both of the paper's sentences hold, this one and that of Fig. 4: the table changes that alone.".into(),
        setup: "closed form: C = 1000 packet/s of 1250 B, B = 200 packets, T = 600 s, n = 20",
        charts: vec![charts::fig3()],
        tables: vec![stopped()],
        ..Claim::default()
    }
}

/// Fig. 3 and 4 where intervals of eq. (2) are no shorter than some, and exactly.
fn stopped() -> Table {
    const MBIT: [f64; 4] = [5.0, 5.5, 5.9, 6.0];
    let row = |name: String, p: &dyn Fn(f64) -> f64, minutes: &dyn Fn(f64) -> f64| {
        let rates = || MBIT.iter().map(|mbit| mbit * 100.0);
        let p = rates().map(|rate| format!("{:.4}", p(rate)));
        let minutes = rates().map(|rate| format!("{:.1}", minutes(rate)));
        [name].into_iter().chain(p).chain(minutes).collect()
    };
    let line = line(20);
    let mut rows: Vec<Vec<String>> = [0, 20, 36, 38, 40, 42]
        .map(|ms| {
            let shortest = f64::from(ms) / 1e3;
            let name = match ms {
                0 => "eq. (2), all k".into(),
                ms => format!("intervals of {ms} ms and more"),
            };
            row(
                name,
                &|rate| line.deprioritised_from(rate, 600.0, shortest),
                &|rate| line.prioritised_time_from(rate, shortest) / 60.0,
            )
        })
        .into();
    rows.push(row(
        "exact, M/D/1".into(),
        &|rate| line.hit(rate, 600.0),
        &|rate| line.hitting_time(rate) / 60.0,
    ));
    let p = MBIT.map(|mbit| format!("p at {mbit} Mbit/s"));
    let minutes = MBIT.map(|mbit| format!("min at {mbit}"));
    Table {
        title: "Probability within 600 s, and the mean time, with 20 downloads".into(),
        head: [String::new()]
            .into_iter()
            .chain(p)
            .chain(minutes)
            .collect(),
        rows,
    }
}

fn fig3_fair_share() -> Claim {
    let kbit = line(20).fair_share() * 10.0;
    let column = Column::of([("limit under FQ, n = 20, kbit/s", only(kbit))]);
    Claim {
        id: "sqf.fig3.fq",
        printed: column.clone(),
        ours: column,
        paper: "Under FQ the limit is C/(n+1): 480 kbit/s with 20 downloads on 10 Mbit/s.".into(),
        said: format!("{kbit:.1} kbit/s"),
        ideal: "476.2 kbit/s".into(),
        why: "The paper rounds.".into(),
        setup: "closed form",
        ..Claim::default()
    }
}

fn fig4_time() -> Claim {
    let minutes = |mbit: f64| line(20).prioritised_time(mbit * 100.0) / 60.0;
    Claim {
        id: "sqf.fig4.tbar",
        printed: Column::of([(
            "mean time at 5.9 Mbit/s, n = 20, min, eq. (2)",
            only(minutes(5.9)),
        )]),
        ours: Column::of([(
            "mean time at 5.9 Mbit/s, n = 20, min, exact",
            only(line(20).hitting_time(590.0) / 60.0),
        )]),
        paper: "With 20 downloads the mean time of prioritisation is over 180 min below 6 Mbit/s."
            .into(),
        said: format!(
            "{:.0} min at 5 Mbit/s, {:.0} at 5.5, {:.1} at 6",
            minutes(5.0),
            minutes(5.5),
            minutes(6.0)
        ),
        ideal: "without end".into(),
        why: "As for Fig. 3: the equations as printed give 180 min at about 5.1 Mbit/s, not at 6; the table there shows where they give more."
            .into(),
        setup: "closed form: C = 1000 packet/s of 1250 B, B = 200 packets, n = 20",
        charts: vec![charts::fig4()],
        ..Claim::default()
    }
}
