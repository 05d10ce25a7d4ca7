// SPDX-License-Identifier: MIT OR Apache-2.0
//! One self-contained HTML page: no script, nothing loaded from elsewhere, light and dark.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::{Chart, Series};
use crate::model::{FlowReport, QueueReport, Report};
use crate::summary::{self, millis, percent, rate};

const STYLE: &str = include_str!("style.css");

/// Units of a run's figures.
const UNITS: &str = "Goodput is payload that arrived; as IP counts headers and retransmissions too; queues count the wire, framing included.";

/// A page: title, the sentences that say what it means, and a body.
pub fn page(title: &str, means: &[String], body: Markup) -> String {
    page_with_units(title, means, body, UNITS)
}

/// The same with a sentence on the units of its figures.
pub fn page_with_units(title: &str, means: &[String], body: Markup, units: &str) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.brand { "makeway" }
                    h1 { (title) }
                    @for sentence in means { p.means { (sentence) } }
                }
                main { (body) }
                footer { "Made by makeway " (env!("CARGO_PKG_VERSION")) ". " (units) }
            }
        }
    }
    .into_string()
}

/// The page of one run.
pub fn run(report: &Report) -> String {
    let mut means = summary::sentences(std::slice::from_ref(report));
    if !report.complete {
        means.push("The run was cut short: these are the figures until then.".into());
    }
    means.extend(report.warnings.iter().cloned());
    let body = html! {
        section { h2 { "Flows" } (group_table(report)) }
        section.charts {
            (goodput(report).figure())
            @if streams(report).next().is_some() {
                (per_stream(report, "Loss over time", "% of packets", |f| f.loss_series.iter().map(|l| l * 100.0).collect()).figure())
                (per_stream(report, "Largest one-way delay", "ms", |f| f.delay_series_ms.clone()).figure())
            }
            @if has_rates(report) {
                (per_stream(report, "Rate allowed by the controller", "kbit/s", |f| f.rate_series_bps.iter().map(|b| b / 1e3).collect()).figure())
            }
            @if has_tasks(report) { (tasks(std::slice::from_ref(report)).figure()) }
            (backlog(std::slice::from_ref(report)).figure())
        }
        section { h2 { "Queues" } (queue_table(&report.queues)) }
        (environment(report))
    };
    page(&report.title, &means, body)
}

/// Runs of one scenario side by side, with `more` behind them.
pub fn compare(title: &str, means: &[String], reports: &[Report], more: Markup) -> String {
    let names: Vec<String> = reports
        .first()
        .map_or_else(Vec::new, |r| streams(r).map(|f| f.name.clone()).collect());
    let body = html! {
        section.cards { @for report in reports { (card(report)) } }
        (more)
        section.charts {
            @for name in &names {
                (over_time(reports, &format!("Loss of {name}"), "% of packets", |r| {
                    flow(r, name).map(|f| (f.loss_series.iter().map(|l| l * 100.0).collect(), f.series_step_s))
                }).figure())
                (over_time(reports, &format!("Largest one-way delay of {name}"), "ms", |r| {
                    flow(r, name).map(|f| (f.delay_series_ms.clone(), f.series_step_s))
                }).figure())
            }
            (over_time(reports, "Goodput of all downloads", "Mbit/s", |r| Some(bulk_series(r))).figure())
            @if reports.iter().any(has_tasks) { (tasks(reports).figure()) }
            (backlog(reports).figure())
        }
        section {
            h2 { "Figures" }
            @for report in reports {
                h3 { (summary::label(report)) }
                @match summary::stall(report) {
                    Some(stall) => p { (stall) },
                    None => (group_table(report)),
                }
            }
        }
        @if let Some(report) = reports.first() { (environment(report)) }
    };
    page(title, means, body)
}

fn streams(report: &Report) -> impl Iterator<Item = &FlowReport> {
    report.flows.iter().filter(|f| f.datagrams.is_some())
}

fn flow<'a>(report: &'a Report, name: &str) -> Option<&'a FlowReport> {
    report.flows.iter().find(|f| f.name == name)
}

/// A discipline at a glance: what became of each stream and of the downloads.
fn card(report: &Report) -> Markup {
    let groups = summary::groups(report);
    let worst = groups
        .iter()
        .filter_map(summary::missed)
        .fold(0.0, f64::max);
    let bulk: f64 = groups
        .iter()
        .filter(|g| g.kind == "bulk")
        .map(|g| g.goodput_bps)
        .sum();
    if let Some(stall) = summary::stall(report) {
        return html! {
            article class="unknown" {
                h2 { (summary::label(report)) }
                p.verdict { (stall) }
            }
        };
    }
    html! {
        article class=(match summary::quality(worst) { "stays clean" => "good", "flickers" => "fair", _ => "bad" }) {
            h2 { (summary::label(report)) }
            p.verdict { "the call " (summary::quality(worst)) }
            dl {
                @for group in &groups {
                    @if let Some(d) = &group.datagrams {
                        dt { (group.name) " lost" } dd { (percent(d.loss)) }
                        dt { (group.name) " delay, p99" } dd { (millis(d.delay_ms.p99)) }
                    }
                    @for class in &group.classes {
                        dt { (group.name) " " (class.name) " on time" } dd { (class.on_time_share().map(percent).unwrap_or_default()) }
                    }
                    @if let Some(call) = &group.voice { dt { (group.name) " MOS" } dd { (format!("{:.2}", call.mos)) } }
                }
                dt { "downloads" } dd { (rate(bulk)) }
            }
        }
    }
}

fn group_table(report: &Report) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "group" } th { "flows" } th { "goodput" } th { "as IP" } th { "Jain" } th { "lost" }
                th { "delay p50" } th { "delay p99" } th { "IPDV mean" } th { "IPDV p99" }
            } }
            tbody {
                @for g in summary::groups(report) {
                    tr {
                        td { (g.name) } td { (g.flows) } td { (rate(g.goodput_bps)) }
                        td { @if let Some(ip) = g.ip_bps { (rate(ip)) } }
                        td { @if let Some(j) = g.jain { (format!("{j:.3}")) } }
                        @match &g.datagrams {
                            Some(d) => {
                                td { (percent(d.loss)) } td { (millis(d.delay_ms.p50)) } td { (millis(d.delay_ms.p99)) }
                                td { (millis(d.ipdv_ms.mean)) } td { (millis(d.ipdv_ms.p99)) }
                            }
                            None => { td {} td {} td {} td {} td {} }
                        }
                    }
                }
            }
        } }
        (class_table(report))
        @for g in summary::groups(report) {
            @if let Some(tasks) = &g.tasks { p { (summary::tasks(&g.name, tasks)) } }
            @if let Some(voice) = summary::voice(&g) { p { (voice) } }
        }
        @if let Some(asi) = summary::satisfaction(report) { p { (asi) } }
        @for radios in summary::radios(report) { p { (radios) } }
    }
}

/// Outcomes of each class of datagrams at the senders.
fn class_table(report: &Report) -> Markup {
    let groups = summary::groups(report);
    html! {
        @if groups.iter().any(|g| !g.classes.is_empty()) { div.scroll { table {
            thead { tr {
                th { "class" } th { "made" } th { "sent" } th { "expired" } th { "evicted" } th { "too large" } th { "received" } th { "on time" }
                th { "delay p50" } th { "delay p99" } th { "frames made" } th { "frames shown" } th { "freezes" } th { "frozen" }
            } }
            tbody {
                @for g in &groups { @for class in &g.classes {
                    tr {
                        td { (g.name) " " (class.name) } td { (class.offered) } td { (class.sent) } td { (class.expired) }
                        td { (class.evicted) } td { (class.too_large) } td { (class.received) } td { (class.on_time_share().map(percent).unwrap_or_default()) }
                        td { (millis(class.delay_ms.p50)) } td { (millis(class.delay_ms.p99)) }
                        @match class.freezes {
                            Some(f) => { td { (f.made) } td { (f.frames) } td { (f.count) } td { (format!("{:.1} s", f.seconds)) } }
                            None => { td {} td {} td {} td {} }
                        }
                    }
                } }
            }
        } } }
    }
}

fn queue_table(queues: &[QueueReport]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "queue" } th { "discipline" } th { "rate on the wire" } th { "used" } th { "packets in" } th { "out" }
                th { "dropped" } th { "marked" } th { "favoured" } th { "reordered" } th { "sojourn p50" } th { "p99" }
            } }
            tbody {
                @for q in queues {
                    tr {
                        td { (q.name) } td { (q.discipline) }
                        td { @if q.rate_bps > 0 { (rate(q.rate_bps as f64)) } @else { "not limited" } }
                        td { @if q.rate_bps > 0 { (percent(q.utilisation)) } }
                        td { (q.packets_in) } td { (q.packets_out) }
                        td {
                            @for (reason, n) in q.drops.iter().filter(|(_, n)| **n > 0) { (n) " " (reason) " " }
                        }
                        td { @if q.marks > 0 { (q.marks) } }
                        td { @if q.favoured > 0 { (q.favoured) } } td { @if q.reordered > 0 { (q.reordered) } }
                        @for ms in [q.sojourn_ms.map(|s| s.p50), q.sojourn_ms.map(|s| s.p99)] {
                            td { @if let Some(ms) = ms { (millis(ms)) } }
                        }
                    }
                }
            }
        } }
    }
}

fn goodput(report: &Report) -> Chart {
    let mut series = Vec::new();
    let (bulk, step) = bulk_series(report);
    if !bulk.is_empty() {
        series.push(Series::over_time("downloads, together", &bulk, step));
    }
    series.extend(streams(report).map(|f| {
        let mbit: Vec<f64> = f.goodput_series_bps.iter().map(|b| b / 1e6).collect();
        Series::over_time(&f.name, &mbit, f.series_step_s)
    }));
    Chart {
        title: "Goodput".into(),
        x: "s".into(),
        y: "Mbit/s".into(),
        series,
        ..Chart::default()
    }
}

/// Goodput of all bulk flows together in Mbit/s, and the length of a step in seconds.
fn bulk_series(report: &Report) -> (Vec<f64>, f64) {
    let (bps, step) = summed(report, |f| &f.goodput_series_bps);
    (bps.into_iter().map(|bps| bps / 1e6).collect(), step)
}

/// A series of all bulk flows together, and the length of a step in seconds.
fn summed(report: &Report, of: impl Fn(&FlowReport) -> &[f64]) -> (Vec<f64>, f64) {
    let mut sum: Vec<f64> = Vec::new();
    let mut step = 1.0;
    for f in report.flows.iter().filter(|f| f.kind == "bulk") {
        step = f.series_step_s;
        sum.resize(sum.len().max(of(f).len()), 0.0);
        for (total, value) in sum.iter_mut().zip(of(f)) {
            *total += value;
        }
    }
    (sum, step)
}

fn has_rates(report: &Report) -> bool {
    report.flows.iter().any(|f| !f.rate_series_bps.is_empty())
}

fn has_tasks(report: &Report) -> bool {
    report.flows.iter().any(|f| f.tasks.is_some())
}

fn tasks(reports: &[Report]) -> Chart {
    over_time(reports, "Tasks done", "tasks", |r| {
        Some(summed(r, |f| &f.tasks_series))
    })
}

fn per_stream(
    report: &Report,
    title: &str,
    unit: &str,
    values: impl Fn(&FlowReport) -> Vec<f64>,
) -> Chart {
    let series = streams(report)
        .map(|f| Series::over_time(&f.name, &values(f), f.series_step_s))
        .collect();
    Chart {
        title: title.into(),
        x: "s".into(),
        y: unit.into(),
        series,
        ..Chart::default()
    }
}

fn over_time(
    reports: &[Report],
    title: &str,
    unit: &str,
    values: impl Fn(&Report) -> Option<(Vec<f64>, f64)>,
) -> Chart {
    let measured = reports.iter().filter(|r| r.stalled_ms().is_none());
    let series = measured
        .filter_map(|r| values(r).map(|(v, step)| Series::over_time(summary::label(r), &v, step)))
        .collect();
    Chart {
        title: title.into(),
        x: "s".into(),
        y: unit.into(),
        series,
        ..Chart::default()
    }
}

fn backlog(reports: &[Report]) -> Chart {
    over_time(reports, "Backlog at the bottleneck", "packets", |r| {
        summary::bottleneck(r).map(|q| (q.backlog_series.clone(), q.series_step_s))
    })
}

fn environment(report: &Report) -> Markup {
    html! {
        section.environment {
            h2 { "Where these figures come from" }
            dl {
                dt { "world" } dd { (report.world) }
                dt { "measured" } dd { (format!("{:.0} s", report.seconds)) ", seed " (report.seed) }
                @for (name, value) in report.set.iter().chain(&report.environment) { dt { (name) } dd { (value) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_page_loads_nothing_from_elsewhere() {
        let text = run(&sample::report("sqf", 0.0));
        let links = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("http") && !links.contains("<script") && !links.contains("<link"));
        assert!(text.contains("the call stays clean"), "{text}");
    }

    #[test]
    fn text_from_a_scenario_is_escaped() {
        let mut report = sample::report("sqf", 0.0);
        report.title = "<b>bold</b>".into();
        assert!(!run(&report).contains("<b>bold"));
    }

    #[test]
    fn a_comparison_has_a_card_for_each_run() {
        let reports = [sample::report("fifo", 0.21), sample::report("sqf", 0.0)];
        let text = compare("Call", &summary::sentences(&reports), &reports, html! {});
        assert_eq!(text.matches("<article").count(), 2);
        assert!(text.contains("class=\"bad\"") && text.contains("class=\"good\""));
    }

    #[test]
    fn a_run_on_a_machine_that_stalled_has_no_figures_beside_others() {
        let mut reports = [sample::report("fifo", 0.21), sample::report("sqf", 0.6)];
        reports[1].lateness = Some(crate::model::Lateness::new(35.0, 1.0, 10.0));
        let text = compare("Call", &summary::sentences(&reports), &reports, html! {});
        assert_eq!(text.matches("<article").count(), 2);
        assert_eq!(text.matches("this machine stalled by 35.0 ms").count(), 3);
        assert!(!text.contains("60 %"), "{text}");
    }
}
