// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts as a table, as JSON, as Markdown and as a page with the papers' figures.

use std::fmt::Write;

use makeway_netns::lateness;
use makeway_report::html as report_html;
use maud::{Markup, html};
use serde::Serialize;

use super::claim::{Claim, Table, Verdict};
use super::figures::NOT_MEASURED;
use super::grid::{Cell, Results};
use super::paper::{Paper, World};

/// A paper that was run again.
pub struct Section<'a> {
    pub paper: &'a Paper,
    pub world: World,
    pub full: bool,
    pub cells: &'a [Cell],
    pub results: &'a Results,
    pub claims: &'a [Claim],
}

/// A claim with where its figures come from.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    claim: &'a Claim,
    /// `theory`, `netns`, `sim`.
    world: &'static str,
    /// Commands that run its cells again, from the root of the source.
    commands: Vec<String>,
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

    fn length(&self) -> &'static str {
        match self.full {
            true => self.paper.full,
            false => self.paper.shortened,
        }
    }

    /// Lateness of the machine in the runs, or their number where time is simulated.
    fn calm(&self) -> String {
        let all = || self.results.runs();
        if self.world == World::Sim {
            let least = all().map(<[_]>::len).min().unwrap_or(0);
            let most = all().map(<[_]>::len).max().unwrap_or(0);
            let runs = match (least, most) {
                (_, 0 | 1) => return "In simulated time, one run of each.".into(),
                (least, most) if least == most => most.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            return format!(
                "In simulated time: each figure is the mean of {runs} replications, with the half-width of its 95 % interval; verdicts go by the means."
            );
        }
        let worst = all().flatten().map(lateness).fold(0.0, f64::max);
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
                "In a guest with Linux {} ({}); its processors were idle for {} of the time, and its senders {worst:.2} ms late at worst.",
                about("kernel"),
                about("accelerator"),
                about("processors idle")
            );
        }
        format!(
            "A run is repeated, twice at most, if the sender ever left a packet more than 2.5 ms late; the worst of those shown was {worst:.1} ms late."
        )
    }
}

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
        "{} statements: {} reproduced, {} closer to the ideal, {} differ{}.",
        claims.len(),
        of(Verdict::Reproduced),
        of(Verdict::CloserToIdeal),
        of(Verdict::Differs),
        match of(Verdict::NotMeasured) {
            0 => String::new(),
            n => format!(", {n} {NOT_MEASURED}"),
        }
    )
}

/// All claims of all papers.
///
/// # Errors
/// None that plain values have.
pub fn json(sections: &[Section<'_>]) -> serde_json::Result<String> {
    let judged: Vec<Judged<'_>> = sections.iter().flat_map(Section::judged).collect();
    Ok(serde_json::to_string_pretty(&judged)? + "\n")
}

/// `docs/reproduction/ID.md`.
pub fn markdown(section: &Section<'_>) -> String {
    let paper = section.paper;
    let mut out = format!(
        "# {}\n\n{}. Made by `makeway-lab papers {}`. {} {} {}\n\nTerms and verdicts: [Reading a verdict](../reproduction.md#reading-a-verdict).\n",
        paper.title,
        paper.source,
        paper.id,
        count(section.claims),
        section.length(),
        section.calm()
    );
    for Judged {
        claim: c, world, ..
    } in section.judged()
    {
        let _ = write!(
            out,
            "\n## {}: {}\n\n- **Paper:** {}\n- **Ours** ({world}): {}\n- **Ideal:** {}\n",
            c.id,
            c.verdict.name(),
            c.paper,
            c.ours,
            c.ideal
        );
        if !c.why.is_empty() {
            let _ = writeln!(out, "- **Why:** {}", c.why);
        }
        let _ = writeln!(out, "- **Set-up:** {}", c.setup);
        c.tables.iter().for_each(|t| write_table(&mut out, t));
    }
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
        ]
    };
    let head = match sections {
        [only] => means(only).into(),
        _ => vec![],
    };
    let body = html! {
        @for section in sections {
            @if sections.len() > 1 {
                h2 { (section.paper.title) }
                @for sentence in means(section) { p.means { (sentence) } }
            }
            section.claims { @for judged in section.judged() { (verdict(&judged)) } }
        }
    };
    report_html::page(title, &head, body)
}

fn verdict(judged: &Judged<'_>) -> Markup {
    let c = judged.claim;
    let class = match c.verdict {
        Verdict::Reproduced => "good",
        Verdict::CloserToIdeal => "fair",
        Verdict::Differs | Verdict::NotMeasured => "bad",
    };
    html! {
        article class=(class) id=(c.id) {
            h2 { (c.id) }
            p.verdict { (c.verdict.name()) }
            dl.claim {
                dt { "paper" } dd { (c.paper) }
                dt { "ours" } dd { (c.ours) }
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
