// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tree to a checked [`Scenario`].

use std::collections::BTreeMap;
use std::path::Path;

use makeway_core::units::Duration;

use crate::context::Context;
use crate::document::{Entry, Table, Value};
use crate::error::{Origin, ScenarioError};
use crate::field::{Field, TIME, Values};
use crate::model::{Flow, Link, Node, Scenario, Wlan};
use crate::section::{Section, shown};
use crate::{flow, link, ticket, wlan};

#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    Field::needed("duration", Values::Time(Duration::from_nanos(1), DAYS), "\"60s\"", "how long traffic runs, warm-up included"),
    Field::new("warmup", TIME, "0s", "left out of every figure of the tables; charts show it"),
    Field::optional("title", Values::Other("one line"), "the file's name", "title of the report"),
    Field::new("seed", Values::Whole(0, i64::MAX as u64), "1", "seed of every random stream"),
    Field::optional("tags", Values::Table(ticket::TAGS), "as below", "tickets on packets, the same all over the network ([tred](disciplines/tred.md))"),
    Field::optional("node", GROUPS, "", ""),
    Field::optional("link", GROUPS, "", ""),
    Field::optional("wlan", GROUPS, "", ""),
    Field::optional("flow", GROUPS, "", ""),
];
const DAYS: Duration = Duration::from_secs(366 * 86_400);
/// Sections of their own.
const GROUPS: Values = Values::Other("sections");

pub(crate) fn scenario(
    root: &Table,
    file: &str,
    folder: &Path,
    set: BTreeMap<String, String>,
) -> Result<Scenario, ScenarioError> {
    let start = Origin::Line {
        file: file.into(),
        line: 1,
    };
    let top = Section::top(&start, root, FIELDS)?;
    let title = match top.string("title")? {
        Some((title, _)) => title.to_owned(),
        None => folder_name(file),
    };
    let duration: Duration = top.value("duration")?;
    let warmup: Duration = top.value("warmup")?;
    if warmup >= duration {
        return Err(top.at("warmup").error(format!(
            "`warmup` of {warmup} leaves nothing to measure of a `duration` of {duration}: make it shorter"
        )));
    }
    let seed = top.value("seed")?;

    let nodes = nodes(&top)?;
    let cx = Context {
        nodes,
        duration,
        folder,
    };
    let tags = ticket::tags(&top)?;
    let links = links(&top, &cx)?;
    let wlans = wlans(&top, &cx)?;
    let mut flows = Vec::new();
    for entry in groups(&top, "flow", "[flow.download]")? {
        flows.extend(flow::read(entry, &cx, &links, &wlans, flows.len())?);
    }
    no_two_of_a_name(&flows)?;
    Ok(Scenario {
        title,
        duration,
        warmup,
        seed,
        tags,
        nodes: cx.nodes,
        links,
        wlans,
        flows,
        set,
    })
}

/// `count` makes names of its own.
fn no_two_of_a_name(flows: &[Flow]) -> Result<(), ScenarioError> {
    let mut known = BTreeMap::new();
    for flow in flows {
        if let Some(other) = known.insert(&flow.name, &flow.group) {
            return Err(ScenarioError {
                place: flow.place.clone(),
                message: format!(
                    "[flow.{other}] and [flow.{}] both make a flow `{}`: rename one",
                    flow.group, flow.name
                ),
            });
        }
    }
    Ok(())
}

fn folder_name(file: &str) -> String {
    let stem = Path::new(file).file_stem();
    stem.map_or_else(|| file.into(), |s| s.to_string_lossy().into_owned())
}

/// The named tables under `kind`, in the order of the file.
fn groups<'a>(
    top: &Section<'a>,
    kind: &str,
    example: &str,
) -> Result<Vec<&'a Entry>, ScenarioError> {
    let Some(entry) = top.get(kind) else {
        return Err(top.origin.error(format!(
            "the scenario has no {kind}: write at least one, like {example}"
        )));
    };
    let Value::Table(t) = &entry.item.value else {
        return Err(entry.item.origin.error(format!(
            "`{kind}` is {}, not a table: write {example}",
            shown(&entry.item.value)
        )));
    };
    for e in &t.entries {
        name(e, kind)?;
    }
    Ok(t.entries.iter().collect())
}

/// Names become namespaces, columns and file names.
fn name(entry: &Entry, kind: &str) -> Result<(), ScenarioError> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !entry.key.is_empty() && entry.key.len() <= 32 && entry.key.chars().all(good) {
        return Ok(());
    }
    Err(entry.origin.error(format!(
        "`{}` cannot name a {kind}: use letters, digits, - and _, 32 at most",
        entry.key
    )))
}

/// A node has only its name.
fn nodes(top: &Section<'_>) -> Result<Vec<Node>, ScenarioError> {
    let mut nodes = Vec::new();
    for entry in groups(top, "node", "[node.client]")? {
        Section::named("node", entry, &[])?;
        nodes.push(Node {
            name: entry.key.clone(),
        });
    }
    Ok(nodes)
}

fn links(top: &Section<'_>, cx: &Context<'_>) -> Result<Vec<Link>, ScenarioError> {
    let mut links: Vec<Link> = Vec::new();
    if top.get("wlan").is_some() && top.get("link").is_none() {
        return Ok(links);
    }
    for entry in groups(top, "link", "[link.line]")? {
        let read = link::read(entry, cx)?;
        let both = |l: &Link| l.ends == read.ends || l.ends == [read.ends[1], read.ends[0]];
        if let Some(other) = links.iter().find(|l| both(l)) {
            let [a, b] = read.ends.map(|i| &cx.nodes[i].name);
            return Err(entry.origin.error(format!(
                "links `{}` and `{}` both join `{a}` and `{b}`: keep one",
                other.name, read.name
            )));
        }
        links.push(read);
    }
    // A scenario where no queue is written out still reports its bottlenecks.
    if !links.iter().flat_map(|l| &l.egress).any(|e| e.measure) {
        for egress in links.iter_mut().flat_map(|l| &mut l.egress) {
            egress.measure = egress.rate.is_some();
        }
    }
    Ok(links)
}

fn wlans(top: &Section<'_>, cx: &Context<'_>) -> Result<Vec<Wlan>, ScenarioError> {
    if top.get("wlan").is_none() {
        return Ok(Vec::new());
    }
    let entries = groups(top, "wlan", "[wlan.home]")?;
    entries.into_iter().map(|e| wlan::read(e, cx)).collect()
}
