// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as tables for a terminal of 80 to 100 columns.

use comfy_table::{
    Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle,
};

use crate::model::{Quantiles, Report};
use crate::summary::{self, Group, millis, percent, rate};

/// One run: its groups, then its queues.
pub fn run(report: &Report) -> String {
    let mut flows = table(&[
        "flows",
        "",
        "goodput",
        "Jain",
        "lost",
        "delay p50",
        "p99",
        "IPDV p99",
    ]);
    for g in summary::groups(report) {
        let mut row = vec![
            Cell::new(&g.name),
            right(g.flows.to_string()),
            right(rate(g.goodput_bps)),
            right(index(&g)),
        ];
        match &g.datagrams {
            Some(d) => row.extend([
                right(percent(d.loss)),
                right(millis(d.delay_ms.p50)),
                right(millis(d.delay_ms.p99)),
                right(millis(d.ipdv_ms.p99)),
            ]),
            None => row.extend(["", "", "", ""].map(Cell::new)),
        }
        flows.add_row(row);
    }
    let mut queues = table(&[
        "queue",
        "",
        "rate",
        "used",
        "in",
        "out",
        "dropped",
        "sojourn p50",
        "p99",
    ]);
    for q in &report.queues {
        let sojourn = |of: fn(&Quantiles) -> f64| {
            let ms = q.sojourn_ms.as_ref().map(of);
            ms.map_or_else(|| "-".into(), millis)
        };
        queues.add_row(vec![
            Cell::new(&q.name),
            Cell::new(&q.discipline),
            right(if q.rate_bps == 0 {
                "-".into()
            } else {
                rate(q.rate_bps as f64)
            }),
            right(if q.rate_bps == 0 {
                "-".into()
            } else {
                percent(q.utilisation)
            }),
            right(q.packets_in.to_string()),
            right(q.packets_out.to_string()),
            right(q.dropped().to_string()),
            right(sojourn(|s| s.p50)),
            right(sojourn(|s| s.p99)),
        ]);
    }
    let mut text = format!("{}, in the world {}\n\n{flows}", report.title, report.world);
    if let Some(classes) = classes(report) {
        text.push_str(&format!("\n\n{classes}"));
    }
    text.push_str(&format!("\n\n{queues}"));
    for group in summary::groups(report) {
        if let Some(tasks) = &group.tasks {
            text.push_str(&format!("\n\n{}", summary::tasks(&group.name, tasks)));
        }
        if let Some(voice) = summary::voice(&group) {
            text.push_str(&format!("\n\n{voice}"));
        }
    }
    if let Some(asi) = summary::satisfaction(report) {
        text.push_str(&format!("\n\n{asi}"));
    }
    for radios in summary::radios(report) {
        text.push_str(&format!("\n\n{radios}"));
    }
    let marks: u64 = report.queues.iter().map(|q| q.marks).sum();
    if marks > 0 {
        text.push_str(&format!("\n\n{marks} packets were marked (ECN)."));
    }
    for queue in report.queues.iter().filter(|q| q.favoured > 0) {
        text.push_str(&format!(
            "\n\n{}: {} packets went first, {} left behind a later one of their flow.",
            queue.name, queue.favoured, queue.reordered
        ));
    }
    if !report.complete {
        text.push_str("\n\nThe run was cut short: these are the figures until then.");
    }
    if let Some(stall) = summary::stall(report) {
        text.push_str(&format!(
            "\n\nThis run was {stall}: these are the figures nevertheless."
        ));
    }
    for warning in &report.warnings {
        text.push_str(&format!("\n\n{warning}"));
    }
    text
}

/// Outcomes of each class of datagrams at the senders.
fn classes(report: &Report) -> Option<Table> {
    let mut classes = table(&[
        "class",
        "made",
        "on time",
        "expired",
        "evicted",
        "delay p50",
        "p99",
        "shown",
        "frozen",
    ]);
    for group in summary::groups(report) {
        for class in &group.classes {
            classes.add_row(vec![
                Cell::new(format!("{} {}", group.name, class.name)),
                right(class.offered),
                right(class.on_time_share().map(percent).unwrap_or_default()),
                right(class.expired),
                right(class.evicted),
                right(millis(class.delay_ms.p50)),
                right(millis(class.delay_ms.p99)),
                right(class.shown_share().map(percent).unwrap_or_default()),
                right(
                    class
                        .freezes
                        .map(|f| format!("{:.1} s", f.seconds))
                        .unwrap_or_default(),
                ),
            ]);
        }
    }
    (!classes.is_empty()).then_some(classes)
}

/// Several runs of one scenario side by side: a row for each run.
pub fn compare(reports: &[Report]) -> String {
    let streams: Vec<String> = reports.first().map_or_else(Vec::new, |first| {
        summary::groups(first)
            .into_iter()
            .filter(|g| g.datagrams.is_some())
            .map(|g| g.name)
            .collect()
    });
    let mut header = vec!["".to_owned()];
    for name in &streams {
        header.extend([format!("{name} lost"), format!("{name} p99")]);
    }
    header.extend(["downloads", "Jain", "link used"].map(str::to_owned));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table(&header);
    for report in reports {
        let mut row = vec![Cell::new(summary::label(report)).add_attribute(Attribute::Bold)];
        if report.stalled_ms().is_some() {
            row.push(right("not measured"));
            table.add_row(row);
            continue;
        }
        for name in &streams {
            let stream = summary::group(report, name).datagrams.unwrap_or_default();
            row.extend([
                right(percent(stream.loss)),
                right(millis(stream.delay_ms.p99)),
            ]);
        }
        let bulk: Vec<Group> = summary::groups(report)
            .into_iter()
            .filter(|g| g.kind == "bulk")
            .collect();
        let used = summary::bottleneck(report).map_or(0.0, |q| q.utilisation);
        row.extend([
            right(rate(bulk.iter().map(|g| g.goodput_bps).sum())),
            right(bulk.first().map(index).unwrap_or_default()),
            right(percent(used)),
        ]);
        table.add_row(row);
    }
    table.to_string()
}

fn index(group: &Group) -> String {
    group.jain.map(|j| format!("{j:.2}")).unwrap_or_default()
}

/// A table in the project's style, for other commands too.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(
            header
                .iter()
                .map(|h| Cell::new(h).add_attribute(Attribute::Bold)),
        );
    table
}

/// A cell of a number.
pub fn right(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClassReport, Freezes, MediaReport};
    use crate::sample;

    #[test]
    fn a_run_shows_groups_and_queues() {
        let text = run(&sample::report("fifo", 0.21));
        for part in [
            "download",
            "4.00 Mbit/s",
            "1.00",
            "21 %",
            "router -> client",
            "60 ms",
            "200",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("cut short"));
    }

    #[test]
    fn a_run_shows_what_became_of_each_class() {
        let mut report = sample::report("fifo", 0.0);
        assert!(!run(&report).contains("on time"));
        report.flows[2].media = Some(MediaReport {
            classes: vec![ClassReport {
                name: "audio".into(),
                offered: 200,
                on_time: 150,
                expired: 33,
                evicted: 17,
                freezes: Some(Freezes {
                    made: 50,
                    frames: 47,
                    ..Freezes::default()
                }),
                ..ClassReport::default()
            }],
            ..Default::default()
        });
        let text = run(&report);
        for part in ["video audio", "75 %", "33", "17", "94 %"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_comparison_has_a_row_for_each_discipline() {
        let text = compare(&[sample::report("fifo", 0.21), sample::report("sqf", 0.0)]);
        let row = |name: &str| {
            text.lines()
                .find(|l| l.contains(name))
                .map(str::to_owned)
                .unwrap_or_default()
        };
        assert!(
            row("FIFO").contains("21 %") && row("SQF").contains("0 %"),
            "{text}"
        );
    }

    #[test]
    fn a_run_cut_short_says_so() {
        let mut report = sample::report("sqf", 0.0);
        report.complete = false;
        assert!(run(&report).contains("cut short"));
    }
}
