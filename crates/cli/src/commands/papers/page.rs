//! The verdicts as a table, as Markdown and as a page with the paper's figures.

use std::fmt::Write;

use makeway_report::chart::{Chart, Series};
use makeway_report::estimate::Estimate;
use makeway_report::html as report_html;
use makeway_report::model::Report;
use maud::{Markup, html};

use super::claim::{Claim, Verdict};
use super::grid::{Results, lateness};
use super::sqf::{self, JITTERED, PAPER, TABLE, data, fairness, jitter, loss, mean, plain, share};

const TITLE: &str = "Self-prioritization of audio and video traffic, run again";
const SOURCE: &str = "T. Bonald, L. Muscariello, N. Ostallo, ICC 2011";
const DISCIPLINES: [&str; 4] = ["fifo", "fq", "pfq", "sqf"];

/// A line for each claim.
pub fn table(claims: &[Claim]) -> String {
    let mut out = String::new();
    for c in claims {
        let _ = writeln!(out, "{:<22} {}", c.id, c.verdict.name());
        let _ = writeln!(out, "  paper: {}", c.paper);
        let _ = writeln!(out, "  ours:  {}", c.ours);
        if c.verdict != Verdict::Reproduced && !c.why.is_empty() {
            let _ = writeln!(out, "  why:   {}", c.why);
        }
    }
    let _ = writeln!(out, "{}", count(claims));
    out
}

fn count(claims: &[Claim]) -> String {
    let of = |v| claims.iter().filter(|c| c.verdict == v).count();
    format!(
        "{} statements: {} reproduced, {} closer to the ideal, {} differ.",
        claims.len(),
        of(Verdict::Reproduced),
        of(Verdict::CloserToIdeal),
        of(Verdict::Differs)
    )
}

fn length(full: bool) -> &'static str {
    if full {
        "Each run measured 10 minutes, as in the paper."
    } else {
        "Each run measured 20 s instead of the paper's 10 minutes (10 s at 100 Mbit/s); --full runs all of it."
    }
}

/// What the machine did to the runs, or how many there are where it does nothing to them.
fn calm(r: &Results) -> String {
    let runs = r.values().map(Vec::len).max().unwrap_or(0);
    if r.values().flatten().any(|report| report.world == "sim") {
        if runs == 1 {
            return "In simulated time, one run of each.".into();
        }
        return format!(
            "In simulated time: each figure is the mean of {runs} replications, with the half-width of its 95 % interval; verdicts go by the means."
        );
    }
    let worst = r.values().flatten().map(lateness).fold(0.0, f64::max);
    format!(
        "A run is repeated, twice at most, if the sender ever left a packet more than 2.5 ms late; the worst of those shown was {worst:.1} ms late."
    )
}

/// `docs/reproduction/sqf.md`.
pub fn markdown(claims: &[Claim], r: &Results, full: bool) -> String {
    let mut out = format!(
        "# {TITLE}\n\n{SOURCE}. Made by `makeway papers sqf`. {} {} {}\n",
        count(claims),
        length(full),
        calm(r)
    );
    for c in claims {
        let _ = write!(
            out,
            "\n## {}: {}\n\n- **Paper:** {}\n- **Ours** ({}): {}\n- **Ideal:** {}\n",
            c.id,
            c.verdict.name(),
            c.paper,
            c.world,
            c.ours,
            c.ideal
        );
        if !c.why.is_empty() {
            let _ = writeln!(out, "- **Why:** {}", c.why);
        }
        let _ = writeln!(out, "- **Set-up:** {}", c.setup);
    }
    let _ = write!(
        out,
        "\n## Table I\n\nData bandwidth in Mbit/s / Jain's index, ours, with the paper's in brackets.\n\n| n |"
    );
    for n in TABLE {
        let _ = write!(out, " {n} |");
    }
    out += "\n| --- | --- | --- | --- | --- | --- |\n";
    for (discipline, shares, jains) in PAPER {
        let _ = write!(out, "| {} |", discipline.to_uppercase());
        for (i, n) in TABLE.iter().enumerate() {
            if let Some(runs) = r.get(&format!("testbed/{discipline}/{n}")) {
                let _ = write!(
                    out,
                    " {} / {} ({} / {}) |",
                    plain(&mean(runs, data)),
                    plain(&mean(runs, fairness)),
                    shares[i],
                    jains[i]
                );
            }
        }
        out += "\n";
    }
    out
}

/// The page: verdicts, then the paper's figures in its own axes.
pub fn html(claims: &[Claim], r: &Results, full: bool) -> String {
    let means = [
        format!("{SOURCE}."),
        count(claims),
        length(full).into(),
        calm(r),
    ];
    let body = html! {
        section.claims { @for c in claims { (verdict(c)) } }
        h2 { "The paper's figures" }
        section.charts {
            (fig3().figure())
            (fig4().figure())
            (by_downloads(r, "Fig. 6a: audio loss", "% of packets", |x| loss(x, "audio") * 100.0).figure())
            (by_downloads(r, "Fig. 6b: video loss", "% of packets", |x| loss(x, "video") * 100.0).figure())
            (by_downloads(r, "Fig. 7a: audio jitter", "mean IPDV, ms", |x| jitter(x, "audio")).figure())
            (by_downloads(r, "Fig. 7b: video jitter", "mean IPDV, ms", |x| jitter(x, "video")).figure())
            (fig8(r).figure())
            (table_chart(r).figure())
        }
        h2 { "Table I" }
        (table_one(r))
    };
    report_html::page(TITLE, &means, body)
}

fn verdict(c: &Claim) -> Markup {
    let class = match c.verdict {
        Verdict::Reproduced => "good",
        Verdict::CloserToIdeal => "fair",
        Verdict::Differs => "bad",
    };
    html! {
        article class=(class) {
            h2 { (c.id) }
            p.verdict { (c.verdict.name()) }
            dl.claim {
                dt { "paper" } dd { (c.paper) }
                dt { "ours" } dd { (c.ours) }
                dt { "ideal" } dd { (c.ideal) }
                @if !c.why.is_empty() { dt { "why" } dd { (c.why) } }
                dt { "set-up" } dd { (c.setup) " (" (c.world) ")" }
            }
        }
    }
}

fn fig3() -> Chart {
    Chart {
        title: "Fig. 3: losing priority within 10 min, 10 Mbit/s, 200 packets".into(),
        x: "video peak rate, Mbit/s".into(),
        y: "probability".into(),
        y_at_least: 1.0,
        series: [5, 10, 20]
            .map(|n| {
                let p = |i: u32| f64::from(i) / 10.0;
                let points =
                    (0..=100).map(|i| (p(i), sqf::line(n).deprioritised(p(i) * 100.0, 600.0)));
                Series::line(format!("n = {n}"), points.collect())
            })
            .into(),
    }
}

fn fig4() -> Chart {
    Chart {
        title: "Fig. 4: mean time of prioritisation, up to 300 min".into(),
        x: "video peak rate, Mbit/s".into(),
        y: "minutes".into(),
        y_at_least: 300.0,
        series: [5, 10, 20]
            .map(|n| {
                let rate = |i: u32| f64::from(i) / 20.0;
                let minutes = |x: f64| sqf::line(n).prioritised_time(x * 100.0) / 60.0;
                let points = (60..=200).map(|i| (rate(i), minutes(rate(i)).min(300.0)));
                Series::line(format!("n = {n}"), points.collect())
            })
            .into(),
    }
}

fn by_downloads(r: &Results, title: &str, unit: &str, figure: impl Fn(&Report) -> f64) -> Chart {
    let series = DISCIPLINES
        .iter()
        .map(|d| {
            let figures = sqf::testbed(r, d, &figure);
            with_intervals(d.to_uppercase(), &figures, 1.0)
        })
        .collect();
    Chart {
        title: title.into(),
        x: "downloads".into(),
        y: unit.into(),
        series,
        ..Chart::default()
    }
}

/// Means, and whiskers where there are several runs.
fn with_intervals(name: String, figures: &[(u32, Estimate)], factor: f64) -> Series {
    let points = figures
        .iter()
        .map(|(x, e)| (f64::from(*x), e.mean * factor));
    let halves = figures
        .iter()
        .map(|f| f.1.half_width.unwrap_or(0.0) * factor);
    Series::marked(name, points.collect()).with_whiskers(halves.collect())
}

fn fig8(r: &Results) -> Chart {
    let series = JITTERED.map(|(mbit, n)| {
        let figures = sqf::jittered(r, mbit, n);
        with_intervals(format!("{mbit} Mbit/s, n = {n}"), &figures, 100.0)
    });
    Chart {
        title: "Fig. 8: video loss under SQF".into(),
        x: "source jitter, standard deviation in ms".into(),
        y: "% of packets".into(),
        series: series.into(),
        ..Chart::default()
    }
}

fn table_chart(r: &Results) -> Chart {
    let mut chart = by_downloads(r, "Table I: data bandwidth", "Mbit/s", data);
    for (d, shares, _) in PAPER {
        let points = TABLE.iter().map(|n| f64::from(*n)).zip(shares).collect();
        chart.series.push(Series::dashed(
            format!("{} in the paper", d.to_uppercase()),
            points,
        ));
    }
    chart
}

fn table_one(r: &Results) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "n" } @for n in TABLE { th { (n) } th { "paper" } }
            } }
            tbody {
                @for (d, shares, jains) in PAPER {
                    tr {
                        td { (d.to_uppercase()) ", Mbit/s / Jain" }
                        @for (i, n) in TABLE.iter().enumerate() {
                            td { @if let Some(x) = r.get(&format!("testbed/{d}/{n}")) { (plain(&mean(x, data))) " / " @if x.len() > 1 { br; } (plain(&mean(x, fairness))) } }
                            td { (format!("{:.1} / {:.2}", shares[i], jains[i])) }
                        }
                    }
                }
                tr {
                    td { "SQF, video lost" }
                    @for n in TABLE {
                        td { @if let Some(x) = r.get(&format!("testbed/sqf/{n}")) { (share(&mean(x, |x| loss(x, "video")))) } }
                        td {}
                    }
                }
            }
        } }
    }
}
