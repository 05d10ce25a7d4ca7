// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[interface.NAME.autorate]`: rates that follow the link.

use std::net::IpAddr;

use makeway_core::units::Rate;

use crate::document::Item;
use crate::error::ScenarioError;
use crate::field::{Field, Values};
use crate::section::{Section, text};

/// Most reflectors of a file: with them there are places left for connections and calls.
const MOST_REFLECTORS: usize = 16;

/// Its keys.
#[rustfmt::skip]
pub const AUTORATE: &[Field] = &[
    Field::optional("upload", Values::Other("two rates: `[\"5mbit\", \"40mbit\"]`"), "a fifth of the interface's, and twice", "least and most egress rate"),
    Field::optional("download", Values::Other("two rates: `[\"5mbit\", \"40mbit\"]`"), "a fifth of the interface's, and twice", "least and most ingress rate"),
    Field::optional("reflectors", Values::Other("addresses: `[\"192.0.2.1\"]`"), "none", "hosts to probe by ICMP, with their operators' consent; six are probed at a time, the rest are spares"),
    Field::new("tcp", Values::Flag, "true", "reads the timestamps of TCP connections that pass"),
    Field::new("calls", Values::Flag, "true", "reads the receivers' reports of calls that pass: RTP with TWCC or RFC 8888, not encrypted"),
];

/// Bounds of rates that follow the link, and the sources of its delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autorate {
    /// Least and most egress rate, if the file says so.
    pub upload: Option<(Rate, Rate)>,
    /// Least and most ingress rate, if the file says so.
    pub download: Option<(Rate, Rate)>,
    /// Hosts that are probed.
    pub reflectors: Vec<IpAddr>,
    /// Whether timestamps of TCP are read.
    pub tcp: bool,
    /// Whether reports of calls are read.
    pub calls: bool,
}

/// Reads the section of an interface with these rates.
pub fn read(
    s: &Section<'_>,
    upload: Option<Rate>,
    download: Option<Rate>,
) -> Result<Autorate, ScenarioError> {
    let tcp = s.value::<bool>("tcp")?;
    let calls = s.value::<bool>("calls")?;
    let reflectors = match s.given("reflectors")? {
        // No host is probed unasked.
        None => Vec::new(),
        Some(item) => {
            let one = |item: &Item| {
                let address = text(item).and_then(|text| text.parse().ok());
                address.ok_or_else(|| {
                    item.origin.error(format!(
                        "`{}` should be addresses: write [\"192.0.2.1\", \"2001:db8::1\"]",
                        s.name("reflectors")
                    ))
                })
            };
            item.one_or_more()
                .iter()
                .map(one)
                .collect::<Result<_, _>>()?
        }
    };
    if reflectors.len() > MOST_REFLECTORS {
        return Err(s.at("reflectors").error(format!(
            "`{}` has {} addresses: write {MOST_REFLECTORS} at most",
            s.name("reflectors"),
            reflectors.len()
        )));
    }
    if reflectors.is_empty() && !tcp && !calls {
        return Err(s.origin.error(format!(
            "[{}] has no source of delay: name `reflectors`, or write `tcp = true` or `calls = true`",
            s.path
        )));
    }
    Ok(Autorate {
        upload: range(s, "upload", upload)?,
        download: range(s, "download", download)?,
        reflectors,
        tcp,
        calls,
    })
}

/// Least and most of a rate; the first lies between them.
fn range(
    s: &Section<'_>,
    key: &str,
    first: Option<Rate>,
) -> Result<Option<(Rate, Rate)>, ScenarioError> {
    let Some(item) = s.given(key)? else {
        return Ok(None);
    };
    let wrong = |why: &str| {
        item.origin.error(format!(
            "`{}` {why}: write the least and the most, [\"5mbit\", \"40mbit\"]",
            s.name(key)
        ))
    };
    let Some(first) = first else {
        return Err(wrong(&format!("bounds the {key}, which is not shaped")));
    };
    let rate = |item: &Item| {
        text(item)?
            .parse()
            .ok()
            .filter(|rate: &Rate| rate.bps() >= 1000)
    };
    let (least, most) = match item.one_or_more() {
        [least, most] => match (rate(least), rate(most)) {
            (Some(least), Some(most)) if least <= most => (least, most),
            _ => return Err(wrong("is no range of rates from 1kbit on")),
        },
        _ => return Err(wrong("is not two rates")),
    };
    match (least..=most).contains(&first) {
        true => Ok(Some((least, most))),
        false => Err(wrong(&format!(
            "does not hold {first}, the rate to begin with"
        ))),
    }
}
