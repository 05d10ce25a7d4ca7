// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tree to a checked [`Scenario`].

use std::collections::BTreeMap;
use std::path::Path;

use makeway_core::units::Duration;

use crate::context::Context;
use crate::document::{Entry, Table};
use crate::error::{Origin, ScenarioError};
use crate::model::{Flow, Link, Node, Scenario, Wlan};
use crate::section::{Section, table};
use crate::{flow, link, ticket, wlan};

const KEYS: [&str; 9] = [
    "title", "duration", "warmup", "seed", "tags", "node", "link", "wlan", "flow",
];

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
    let top = Section::new("", &start, root, &KEYS)?;
    let title = match top.string("title")? {
        Some((title, _)) => title.to_owned(),
        None => folder_name(file),
    };
    top.need("duration", "\"60s\"")?;
    let duration: Duration = top.read("duration")?.unwrap_or_default();
    let warmup: Duration = top.read("warmup")?.unwrap_or_default();
    if duration == Duration::ZERO {
        return Err(top
            .at("duration")
            .error("`duration` is zero: write a time like \"60s\""));
    }
    if warmup >= duration {
        return Err(top.at("warmup").error(format!(
            "`warmup` of {warmup} leaves nothing to measure of a `duration` of {duration}: make it shorter"
        )));
    }
    let seed = top.integer("seed", 0..=i64::MAX as u64)?.unwrap_or(1);

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
    let t = table(&entry.item, kind, example)?;
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

fn nodes(top: &Section<'_>) -> Result<Vec<Node>, ScenarioError> {
    let mut nodes = Vec::new();
    for entry in groups(top, "node", "[node.client]")? {
        let path = format!("node.{}", entry.key);
        let t = table(&entry.item, &path, &format!("[{path}]"))?;
        if let Some(key) = t.entries.first() {
            return Err(key.origin.error(format!(
                "there is no key `{}` in [{path}]: a node has only its name",
                key.key
            )));
        }
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
