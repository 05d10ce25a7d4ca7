//! From the tree to a checked [`Scenario`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use makeway_core::units::Duration;

use crate::document::{Entry, Table};
use crate::error::{Origin, ScenarioError, did_you_mean, list};
use crate::model::{Flow, Link, Node, Scenario};
use crate::section::{Section, table};
use crate::{flow, link};

/// What flows and links are read against.
pub(crate) struct Context<'a> {
    pub nodes: Vec<Node>,
    pub duration: Duration,
    /// Where the scenario's file is: traces are named from here.
    pub folder: &'a Path,
}

impl Context<'_> {
    /// The index of the node that `text` names.
    pub fn node(&self, text: &str, name: &str, origin: &Origin) -> Result<usize, ScenarioError> {
        let names = self.nodes.iter().map(|n| n.name.as_str());
        self.nodes
            .iter()
            .position(|n| n.name == text)
            .ok_or_else(|| {
                origin.error(format!(
                    "`{name}`: there is no node `{text}` (nodes: {}){}",
                    list(names.clone()),
                    match did_you_mean(text, names) {
                        hint if hint.is_empty() => format!("; write [node.{text}] to have one"),
                        hint => hint,
                    }
                ))
            })
    }
}

/// What a scenario names is held in memory: hours of frames, not devices or pipes without end.
const LARGEST_FILE: u64 = 64_000_000;

impl Context<'_> {
    /// The text of the file that `key` names, its path, and where it is named.
    pub fn file<'a>(
        &self,
        s: &Section<'a>,
        key: &str,
    ) -> Result<(String, PathBuf, &'a Origin), ScenarioError> {
        let (name, origin) = s.string(key)?.unwrap_or(("", s.origin));
        let path = self.folder.join(name);
        let size = std::fs::metadata(&path).map(|m| if m.is_file() { m.len() } else { u64::MAX });
        if size.is_ok_and(|n| n > LARGEST_FILE) {
            return Err(origin.error(format!(
                "`{}`: {} is no trace: name a file of 64 MB at most",
                s.name(key),
                path.display()
            )));
        }
        let text = std::fs::read_to_string(&path).map_err(|e| {
            origin.error(format!(
                "`{}`: {} cannot be read ({e}): name it from the scenario's own folder",
                s.name(key),
                path.display()
            ))
        })?;
        Ok((text, path, origin))
    }
}

const KEYS: [&str; 7] = [
    "title", "duration", "warmup", "seed", "node", "link", "flow",
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
    let links = links(&top, &cx)?;
    let flows = groups(&top, "flow", "[flow.download]")?
        .into_iter()
        .map(|entry| flow::read(entry, &cx, &links))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    no_two_of_a_name(&flows)?;
    Ok(Scenario {
        title,
        duration,
        warmup,
        seed,
        nodes: cx.nodes,
        links,
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
