// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp` of a download: what TCP is like where it is a model.

use crate::error::ScenarioError;
use crate::field::{Field, TIME, Values};
use crate::model::{Preset, Tcp};
use crate::section::Section;

#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    Field::new("preset", Values::OneOf(&["linux", "ns2"]), "linux", "`linux`: a Linux host on Ethernet; `ns2`: one-way TCP of ns-2's validation tests, without delayed acknowledgements"),
    Field::optional("mss", Values::Size(1, 65_000), "`1448B`; of ns2 `1000B`", "payload of a full segment; headers are 40 B, and 12 B of timestamps for `linux`"),
    Field::optional("window", Values::Size(1, 1 << 30), "`3MiB`; of ns2 `20kB`", "the receiver's window"),
    Field::optional("initial_window", Values::Whole(1, 10_000), "10; of ns2 1", "initial window in segments"),
    Field::optional("delayed_ack", TIME, "`40ms`; of ns2 `0ms`", "time that an acknowledgement waits for a second segment; `0ms`: not at all"),
    Field::optional("min_rto", TIME, "`200ms`; of ns2 `1s`", "least retransmission timeout"),
    Field::new("ecn", Values::Flag, "false", "it understands marks"),
];

pub(crate) fn read(s: &Section<'_>) -> Result<Tcp, ScenarioError> {
    let Some(s) = s.inner("tcp")? else {
        return Ok(Tcp::default());
    };
    Ok(Tcp {
        preset: match s.choice("preset")? {
            "ns2" => Preset::Ns2,
            _ => Preset::Linux,
        },
        mss: s.read("mss")?,
        window: s.read("window")?,
        initial_window: s.read("initial_window")?,
        delayed_ack: s.read("delayed_ack")?,
        min_rto: s.read("min_rto")?,
        ecn: s.value("ecn")?,
    })
}
