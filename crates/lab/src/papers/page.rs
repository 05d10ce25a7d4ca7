// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts as a table, as JSON, as Markdown and as a page with the papers' figures.

use std::collections::BTreeSet;
use std::fmt::Write;

use makeway_netns::lateness;
use makeway_report::html as report_html;
use maud::{Markup, html};
use serde::Serialize;

use super::claim::{Claim, Column, Table, Verdict};
use super::criteria::{Criteria, Side};
use super::paper::Paper;
use crate::bench::machine;
use crate::experiment::{Cell, Results, World};

/// A paper that was run again.
pub struct Section<'a> {
    pub paper: &'a Paper,
    pub world: World,
    pub full: bool,
    pub cells: &'a [Cell],
    pub results: &'a Results,
    pub claims: &'a [Claim],
    pub criteria: &'a Criteria,
    /// Date of the report, `2026-11-23`.
    pub date: &'a str,
}

/// A claim with where its figures come from.
struct Judged<'a> {
    claim: &'a Claim,
    /// `theory`, `netns`, `sim`.
    world: &'static str,
    /// Commands that run its cells again, from the root of the source.
    commands: Vec<String>,
}

/// A claim as scripts read it.
#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    world: &'a str,
    criterion: &'a str,
    paper: &'a str,
    printed: Judgement<'a>,
    ours: Judgement<'a>,
    why: &'a str,
}

/// One of its two columns.
#[derive(Serialize)]
struct Judgement<'a> {
    verdict: Verdict,
    value: &'a str,
}

impl<'a> From<&'a Column> for Judgement<'a> {
    fn from(column: &'a Column) -> Self {
        Self {
            verdict: column.verdict,
            value: &column.value,
        }
    }
}

impl Section<'_> {
    fn judged(&self) -> impl Iterator<Item = Judged<'_>> {
        self.claims.iter().map(|claim| Judged {
            claim,
            world: match claim.from {
                [] => "theory",
                _ => self.world.name(),
            },
            commands: self.commands(claim),
        })
    }

    fn commands(&self, claim: &Claim) -> Vec<String> {
        let is_from = |cell: &&Cell| {
            claim
                .from
                .iter()
                .any(|from| cell.key.path().starts_with(from))
        };
        let world = match self.world {
            World::Netns => "",
            World::Sim => " --world sim",
            World::Vm => " --world vm",
        };
        let command = |cell: &Cell| {
            let runs = self.results.get(&cell.key).map_or(0, <[_]>::len);
            let runs = match runs {
                0 | 1 => String::new(),
                runs => format!(" --runs {runs}"),
            };
            format!("{}{world}{runs}", cell.command())
        };
        self.cells.iter().filter(is_from).map(command).collect()
    }

    /// Command that makes the report, but for the number of replications.
    fn made_by(&self) -> String {
        let world = match self.paper.is_first(self.world) {
            true => String::new(),
            false => format!(" --world {}", self.world.name()),
        };
        let full = if self.full { " --full" } else { "" };
        format!("makeway-lab papers {}{world}{full}", self.paper.id)
    }

    /// Title of the paper, with the world if it is not the first.
    fn title(&self) -> String {
        match self.paper.is_first(self.world) {
            true => self.paper.title.into(),
            false => format!("{}: world {}", self.paper.title, self.world.name()),
        }
    }

    /// Anchor of a claim, which the page may have once for each world.
    fn anchor(&self, claim: &Claim) -> String {
        match self.paper.is_first(self.world) {
            true => claim.id.into(),
            false => format!("{}-{}", claim.id, self.world.name()),
        }
    }

    fn length(&self) -> &'static str {
        match self.full {
            true => self.paper.full,
            false => self.paper.shortened,
        }
    }

    /// Commit, date, seeds and machine of the runs, and the criteria.
    fn provenance(&self) -> String {
        let seeds: BTreeSet<u64> = self.results.runs().flatten().map(|run| run.seed).collect();
        let seeds = match (seeds.first(), seeds.last()) {
            (Some(first), Some(last)) if first == last => format!("seed {first}"),
            (Some(first), Some(last)) => format!("seeds {first} to {last}"),
            _ => "no seed".into(),
        };
        let runs = self.results.runs().map(<[_]>::len).sum::<usize>();
        let last = self.criteria.history().last();
        let [since, _, change] = last.unwrap_or(["", "", "not in the history"]);
        let versions = self.criteria.history().count();
        format!(
            "Reported on {} by commit {}; {runs} runs, {seeds} and replications from 1 on; {}. Criteria: version {versions} of {since} ({change}), SHA-256 {}.",
            self.date,
            env!("MAKEWAY_COMMIT"),
            machine(),
            &self.criteria.hash[..16]
        )
    }

    /// Lateness of the machine in the runs, or their number where time is simulated.
    fn calm(&self) -> String {
        let all = || self.results.runs();
        if all().next().is_none() {
            return "No run is finished.".into();
        }
        if self.world == World::Sim {
            let least = all().map(<[_]>::len).min().unwrap_or(0);
            let most = all().map(<[_]>::len).max().unwrap_or(0);
            let runs = match (least, most) {
                (_, 0 | 1) => return "In simulated time, one run of each.".into(),
                (least, most) if least == most => most.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            return format!(
                "In simulated time: each figure is the mean of {runs} replications, with the half-width of its 95 % interval."
            );
        }
        let worst = all().flatten().filter_map(lateness).reduce(f64::max);
        let worst = match worst {
            Some(ms) => format!("{ms:.1} ms late"),
            None => "late by a time that was not recorded".into(),
        };
        if self.world == World::Vm {
            let about = |key| {
                let mut said: Vec<&str> = (all().flatten())
                    .filter_map(|report| report.environment.get(key))
                    .map(String::as_str)
                    .collect();
                said.sort();
                said.dedup();
                said.join(", ")
            };
            return format!(
                "In a guest with Linux {} ({}); its processors were idle for {} of the time, and its senders were at worst {worst}.",
                about("kernel"),
                about("accelerator"),
                about("processors idle")
            );
        }
        format!(
            "A run is repeated, twice at most, if the sender ever left a packet more than 2.5 ms late; the worst of those shown was {worst}."
        )
    }
}

/// A line for each claim.
pub fn table(claims: &[Claim]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<26} {:<16} ours", "", "as printed");
    for c in claims {
        let [printed, ours] = [&c.printed, &c.ours].map(|column| column.verdict.name());
        let _ = writeln!(out, "{:<26} {printed:<16} {ours}", c.id);
        let _ = writeln!(out, "  paper:      {}", c.paper);
        let _ = writeln!(out, "  as printed: {}", c.printed.value);
        let _ = writeln!(out, "  ours:       {}", c.ours.value);
    }
    let _ = writeln!(out, "{}", count(claims));
    out
}

/// Verdicts of both columns, counted.
fn count(claims: &[Claim]) -> String {
    let of = |side: Side| {
        let of = |verdict: Verdict| {
            let column = |claim: &&Claim| match side {
                Side::Printed => claim.printed.verdict == verdict,
                Side::Ours => claim.ours.verdict == verdict,
            };
            match claims.iter().filter(column).count() {
                0 => None,
                n if n > 1 && verdict == Verdict::Differs => Some(format!("{n} differ")),
                n => Some(format!("{n} {}", verdict.name())),
            }
        };
        Verdict::ALL
            .into_iter()
            .filter_map(of)
            .collect::<Vec<_>>()
            .join(", ")
    };
    format!(
        "{} statements. As printed: {}. Ours: {}.",
        claims.len(),
        of(Side::Printed),
        of(Side::Ours)
    )
}

/// All claims of all papers.
///
/// # Errors
/// None that plain values have.
pub fn json(sections: &[Section<'_>]) -> serde_json::Result<String> {
    let judged = sections.iter().flat_map(Section::judged);
    let entries = judged.map(|Judged { claim, world, .. }| Entry {
        id: claim.id,
        world,
        criterion: &claim.criterion,
        paper: &claim.paper,
        printed: (&claim.printed).into(),
        ours: (&claim.ours).into(),
        why: &claim.why,
    });
    Ok(serde_json::to_string_pretty(&entries.collect::<Vec<_>>())? + "\n")
}

/// A report, as in docs/reproduction.
pub fn markdown(section: &Section<'_>) -> String {
    let paper = section.paper;
    let mut out = format!(
        "# {}\n\n{}. Made by `{}`. {} {} {}\n{}\n\nTerms and verdicts: [Reading a verdict](../reproduction.md#reading-a-verdict).\n",
        section.title(),
        paper.source,
        section.made_by(),
        count(section.claims),
        section.length(),
        section.calm(),
        section.provenance()
    );
    for Judged {
        claim: c, world, ..
    } in section.judged()
    {
        let _ = write!(
            out,
            "\n## {}\n\n- **Paper** ({}): {}\n- **As printed** ({world}): {}: {}\n- **Ours** ({world}): {}: {}\n- **Ideal:** {}\n",
            c.id,
            source(c),
            c.paper,
            c.printed.verdict.name(),
            c.printed.value,
            c.ours.verdict.name(),
            c.ours.value,
            c.ideal
        );
        if !c.said.is_empty() {
            let _ = writeln!(out, "- **Measured:** {}", c.said);
        }
        if !c.why.is_empty() {
            let _ = writeln!(out, "- **Why:** {}", c.why);
        }
        let _ = writeln!(out, "- **Set-up:** {}", c.setup);
        c.tables.iter().for_each(|t| write_table(&mut out, t));
    }
    out
}

/// Section or figure, with which a criterion begins.
fn source(claim: &Claim) -> &str {
    let end = claim.criterion.find(". As printed: ");
    &claim.criterion[..end.unwrap_or_default()]
}

/// Tables alone, in Markdown.
pub fn tables(title: &str, sentence: &str, tables: &[Table]) -> String {
    let mut out = format!("# {title}\n\n{sentence}\n");
    tables.iter().for_each(|table| write_table(&mut out, table));
    out
}

fn write_table(out: &mut String, table: &Table) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); table.head.len()];
    let _ = write!(
        out,
        "\n{}:\n\n{}{}",
        table.title,
        line(&table.head),
        line(&rule)
    );
    table.rows.iter().for_each(|row| out.push_str(&line(row)));
}

/// The page: for each paper its verdicts, each with the paper's figure in its own axes.
pub fn html(sections: &[Section<'_>]) -> String {
    let title = match sections {
        [only] => only.paper.title,
        _ => "Papers, run again",
    };
    let means = |s: &Section<'_>| {
        [
            format!("{}.", s.paper.source),
            count(s.claims),
            s.length().into(),
            s.calm(),
            s.provenance(),
        ]
    };
    let head = match sections {
        [only] => means(only).into(),
        _ => vec![],
    };
    let body = html! {
        @for section in sections {
            @if sections.len() > 1 {
                h2 { (section.title()) }
                @for sentence in means(section) { p.means { (sentence) } }
            }
            section.claims { @for judged in section.judged() { (verdict(section, &judged)) } }
        }
    };
    report_html::page(title, &head, body)
}

fn verdict(section: &Section<'_>, judged: &Judged<'_>) -> Markup {
    let c = judged.claim;
    let class = match (c.printed.verdict, c.ours.verdict) {
        (Verdict::Reproduced, Verdict::Reproduced) => "good",
        (Verdict::Reproduced, _) | (_, Verdict::Reproduced) => "fair",
        _ => "bad",
    };
    html! {
        article class=(class) id=(section.anchor(c)) {
            h2 { (c.id) }
            p.verdict { "as printed " (c.printed.verdict.name()) ", ours " (c.ours.verdict.name()) }
            dl.claim {
                dt { "paper" } dd { (c.paper) }
                dt { "as printed" } dd { (c.printed.value) }
                dt { "ours" } dd { (c.ours.value) }
                @if !c.said.is_empty() { dt { "measured" } dd { (c.said) } }
                dt { "criterion" } dd { (c.criterion) }
                dt { "ideal" } dd { (c.ideal) }
                @if !c.why.is_empty() { dt { "why" } dd { (c.why) } }
                dt { "set-up" } dd { (c.setup) " (" (judged.world) ")" }
                @if !judged.commands.is_empty() {
                    dt { "made by" }
                    dd { details {
                        summary { (judged.commands.len()) " set-ups" }
                        @for command in &judged.commands { p { code { (command) } } }
                    } }
                }
            }
            @if !c.charts.is_empty() { div.charts { @for chart in &c.charts { (chart.figure()) } } }
            @for table in &c.tables { (figures(table)) }
        }
    }
}

fn figures(table: &Table) -> Markup {
    html! {
        h3 { (table.title) }
        div.scroll { table {
            thead { tr { @for cell in &table.head { th { (cell) } } } }
            tbody { @for row in &table.rows { tr { @for cell in row { td { (cell) } } } } }
        } }
    }
}
