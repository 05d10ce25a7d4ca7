// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets and profiles: `tags` of the scenario, `tickets` of a link, `tickets` and `profile` of a flow.

use makeway_core::ticket::{Codec, Scale, TicketRate, Tsw};
use makeway_core::units::{Duration, Rate};

use crate::context::Context;
use crate::document::{Item, Value};
use crate::error::ScenarioError;
use crate::field::{AT, Field, Values};
use crate::model::{Issue, Share, Tags};
use crate::section::{Section, read};

const RATES: Values = Values::Whole(1, TicketRate::MOST as u64);

#[rustfmt::skip]
pub(crate) const TAGS: &[Field] = &[
    Field::new("bits", Values::Whole(2, 16), "8", "bits of a tag"),
    Field::new("scale", Values::OneOf(&["linear", "logarithmic"]), "logarithmic", "scale of their codes"),
    Field::new("window", Values::Time(Duration::from_millis(1), Tsw::MOST_WINDOW), "60s", "window of the rates of sources and of links that relabel"),
    Field::new("policing", Values::Flag, "false", "sources and links are held to the tickets that they are issued"),
    Field::new("silence", Values::Flag, "true", "a TCP source without news counts the time"),
    Field::new("by", Values::OneOf(&["sender", "receiver"]), "sender", "end of a flow that tickets are issued to"),
];
/// `tickets` of a link.
#[rustfmt::skip]
pub(crate) const ISSUE: &[Field] = &[
    AT,
    Field::needed("rate", RATES, "900", "tickets/s"),
    Field::optional("steps", Values::Other("an array of times and rates: `[[\"300s\", 600]]`"), "constant", "changes of that"),
];
/// Keys of a flow.
#[rustfmt::skip]
pub(crate) const SHARE: &[Field] = &[
    Field::optional("tickets", RATES, "none", "tickets/s issued to it; its packets carry them"),
    Field::optional("profile", Values::Rate(0, 1_000_000_000_000), "none", "instead of tickets: the rate that DiffServ promises it, metered over 1 s; its packets say whether they are in or out"),
];

/// Code of tags, the same all over the network.
pub(crate) fn tags(top: &Section<'_>) -> Result<Tags, ScenarioError> {
    let Some(s) = top.inner("tags")? else {
        return Ok(Tags::default());
    };
    let scale = match s.choice("scale")? {
        "linear" => Scale::Linear,
        _ => Scale::Logarithmic,
    };
    let codec = Codec::new(s.value("bits")?, scale);
    Ok(Tags {
        codec: codec.map_err(|error| s.at("bits").error(error.to_string()))?,
        window: s.value("window")?,
        policing: s.value("policing")?,
        silence: s.value("silence")?,
        by_receiver: s.choice("by")? == "receiver",
    })
}

/// Tickets of a flow.
pub(crate) fn share(s: &Section<'_>) -> Result<Option<Share>, ScenarioError> {
    let tickets = s.read("tickets")?.and_then(TicketRate::new);
    let profile: Option<Rate> = s.read("profile")?;
    match (tickets, profile) {
        (Some(_), Some(_)) => Err(s.at("profile").error(format!(
            "`{}` has tickets and a profile: a packet carries one of them, so keep one",
            s.path
        ))),
        (tickets, profile) => Ok(tickets.map(Share::Tickets).or(profile.map(Share::Profile))),
    }
}

/// Tickets issued to one end of a link.
pub(crate) fn issue(s: &Section<'_>, _: &Context<'_>) -> Result<Issue, ScenarioError> {
    let rate = TicketRate::new(s.value("rate")?);
    Ok(Issue {
        // The range of the field allows no other.
        rate: rate.ok_or_else(|| s.at("rate").error("no tickets"))?,
        steps: match s.given("steps")? {
            Some(item) => steps(item, &s.name("steps"))?,
            None => Vec::new(),
        },
    })
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
        let rate = TicketRate::new(read(rate, name)?).ok_or_else(|| wrong(rate))?;
        if steps.last().is_some_and(|(last, _)| *last >= at) {
            return Err(wrong(pair));
        }
        steps.push((at, rate));
    }
    Ok(steps)
}
