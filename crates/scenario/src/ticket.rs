// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets and profiles: `tags` of the scenario, `tickets` of a link, `tickets` and `profile` of a flow.

use makeway_core::ticket::{Codec, Scale, TicketRate, Tsw};
use makeway_core::units::{Duration, Rate};

use crate::context::Context;
use crate::document::{Item, Value};
use crate::error::ScenarioError;
use crate::model::{Issue, Share, Tags};
use crate::section::{Section, read, table};

const TAGS_KEYS: [&str; 6] = ["bits", "scale", "window", "policing", "silence", "by"];
const ISSUE_KEYS: [&str; 3] = ["at", "rate", "steps"];
const RATES: std::ops::RangeInclusive<u64> = 1..=TicketRate::MOST as u64;

/// Code of tags, the same all over the network.
pub(crate) fn tags(top: &Section<'_>) -> Result<Tags, ScenarioError> {
    let mut tags = Tags::default();
    let Some(entry) = top.get("tags") else {
        return Ok(tags);
    };
    let t = table(&entry.item, "tags", "{ bits = 8, scale = \"logarithmic\" }")?;
    let s = Section::new("tags", &entry.item.origin, t, &TAGS_KEYS)?;
    let bits = s.integer("bits", 2..=16)?.unwrap_or(8);
    let scale = match s.choice("scale", &["linear", "logarithmic"])?.as_deref() {
        Some("linear") => Scale::Linear,
        _ => Scale::Logarithmic,
    };
    tags.codec =
        Codec::new(bits as u32, scale).map_err(|error| s.at("bits").error(error.to_string()))?;
    if let Some(window) = s.read::<Duration>("window")? {
        if !(Duration::from_millis(1)..=Tsw::MOST_WINDOW).contains(&window) {
            return Err(s.at("window").error(format!(
                "`tags.window` is {window}: write a time from 1ms to 1h, like \"60s\""
            )));
        }
        tags.window = window;
    }
    tags.policing = s.boolean("policing")?.unwrap_or(tags.policing);
    tags.silence = s.boolean("silence")?.unwrap_or(tags.silence);
    tags.by_receiver = s.choice("by", &["sender", "receiver"])?.as_deref() == Some("receiver");
    Ok(tags)
}

/// Tickets of a flow.
pub(crate) fn share(s: &Section<'_>) -> Result<Option<Share>, ScenarioError> {
    let tickets = s.integer("tickets", RATES)?.and_then(ticket_rate);
    let profile: Option<Rate> = s.read("profile")?;
    match (tickets, profile) {
        (Some(_), Some(_)) => Err(s.at("profile").error(format!(
            "`{}` has tickets and a profile: a packet carries one of them, so keep one",
            s.path
        ))),
        (tickets, profile) => Ok(tickets.map(Share::Tickets).or(profile.map(Share::Profile))),
    }
}

fn ticket_rate(n: u64) -> Option<TicketRate> {
    TicketRate::new(u32::try_from(n).ok()?)
}

/// Tickets issued to one end of a link.
pub(crate) fn issue(
    s: &Section<'_>,
    item: &Item,
    ends: [usize; 2],
    cx: &Context<'_>,
) -> Result<(usize, Issue), ScenarioError> {
    let name = s.name("tickets");
    let names = ends.map(|i| cx.nodes[i].name.as_str());
    let example = format!("{{ at = \"{}\", rate = 900 }}", names[0]);
    let t = table(item, &name, &example)?;
    let i = Section::new(name, &item.origin, t, &ISSUE_KEYS)?;
    let end = i.end("at", names)?;
    i.need("rate", "900")?;
    let rate = i.integer("rate", RATES)?.and_then(ticket_rate);
    // Nothing else gets so far.
    let Some(rate) = rate else {
        return Err(i
            .at("rate")
            .error(format!("`{}` is no rate", i.name("rate"))));
    };
    let steps = match i.get("steps") {
        Some(entry) => steps(&entry.item, &i.name("steps"))?,
        None => Vec::new(),
    };
    Ok((end, Issue { rate, steps }))
}

fn steps(item: &Item, name: &str) -> Result<Vec<(Duration, TicketRate)>, ScenarioError> {
    let wrong = |item: &Item| {
        item.origin.error(format!(
            "`{name}` should be pairs of a time and tickets per second, 1 to {}, each later than the one before, like [[\"300s\", 600]]",
            TicketRate::MOST
        ))
    };
    let Value::Array(items) = &item.value else {
        return Err(wrong(item));
    };
    let mut steps: Vec<(Duration, TicketRate)> = Vec::new();
    for pair in items {
        let Value::Array(parts) = &pair.value else {
            return Err(wrong(pair));
        };
        let [at, rate] = &parts[..] else {
            return Err(wrong(pair));
        };
        let at = read(at, name)?;
        let rate = ticket_rate(read(rate, name)?).ok_or_else(|| wrong(rate))?;
        if steps.last().is_some_and(|(last, _)| *last >= at) {
            return Err(wrong(pair));
        }
        steps.push((at, rate));
    }
    Ok(steps)
}
