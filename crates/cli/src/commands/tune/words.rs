// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of a link as text.

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use makeway_core::framing::{Cells, Framing};
use makeway_gateway::control::interface::{Interface, toml_key};
use makeway_gateway::control::protocol::Status;
use makeway_line::{Latency, Load, Measured, Phase, Proposal, Stage, on_the_wire};

/// Rates of a link on the wire, as makeway counts them.
pub struct Line {
    pub upload_bps: f64,
    pub download_bps: f64,
    /// Bytes of the link beside each IP packet.
    overhead: i32,
}

impl Line {
    /// Rates by the framing that makeway has there, or the device's own header.
    pub fn of(
        measured: &Measured,
        interface: &Interface,
        status: Option<&Status>,
        is_v6: bool,
    ) -> Self {
        let device = Framing {
            overhead: interface.link_header() as i32,
            mpu: 0,
            cells: Cells::None,
        };
        let running = status.and_then(|status| status.directions.first());
        let framing = running.map_or(device, |one| one.framing);
        let wire = |load: &Load| on_the_wire(load.payload_bps, interface.mtu, is_v6, framing);
        Self {
            upload_bps: wire(&measured.upload),
            download_bps: wire(&measured.download),
            overhead: framing.overhead,
        }
    }
}

pub fn stage(stage: Stage) -> String {
    let seconds = stage.duration.as_secs();
    match stage.phase {
        Phase::Idle => format!("  idle, {seconds} s"),
        Phase::Download => format!("  download, {seconds} s"),
        Phase::Upload => format!("  upload, {seconds} s"),
    }
}

fn mbit(bps: f64) -> String {
    format!("{:.2} Mbit/s", bps / 1e6)
}

pub fn table(measured: &Measured) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "", "payload", "median", "90th pct", "largest", "lost", "RPM", "added", "grade",
    ]);
    let latency = |one: &Latency| {
        [
            format!("{:.1} ms", one.p50_ms),
            format!("{:.1} ms", one.p90_ms),
            format!("{:.1} ms", one.max_ms),
            one.lost.to_string(),
            format!("{:.0}", one.rpm),
        ]
    };
    let row = |name: &str, payload: String, one: &Latency, end: [String; 2]| {
        let mut cells = vec![name.to_owned(), payload];
        cells.extend(latency(one));
        cells.extend(end);
        cells
    };
    table.add_row(row(
        "idle",
        String::new(),
        &measured.idle,
        Default::default(),
    ));
    for (name, load) in [
        ("download", &measured.download),
        ("upload", &measured.upload),
    ] {
        let end = [format!("{:.1} ms", load.added_ms), load.letter.to_string()];
        table.add_row(row(name, mbit(load.payload_bps), &load.latency, end));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

pub fn proposal(line: &Line, proposal: Proposal) -> String {
    format!(
        "The link carries {} up and {} down, with {} bytes of the link for each packet.\nProposed: {} up (95 %), {} down (90 %).",
        mbit(line.upload_bps),
        mbit(line.download_bps),
        line.overhead,
        proposal.upload,
        proposal.download,
    )
}

pub fn file(interface: &str, proposal: Proposal) -> String {
    format!(
        "For good, write into /etc/makeway/makeway.toml:\n[interface.{}]\nupload = \"{}\"\ndownload = \"{}\"",
        toml_key(interface),
        proposal.upload,
        proposal.download,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::units::Rate;
    use makeway_scenario::service::parse;

    #[test]
    fn the_lines_for_the_file_name_the_interface_also_one_with_a_dot() {
        let [upload, download] = [7_600_000, 36_000_000].map(Rate::from_bps);
        for name in ["wan0", "eth0.7", "a\"b\\c", "if@7"] {
            let said = file(name, Proposal { upload, download });
            let (_, lines) = said.split_once('\n').unwrap();
            let read = parse(lines, "makeway.toml").unwrap_or_else(|error| panic!("{error}"));
            let [one] = &read.interfaces[..] else {
                panic!("{lines}");
            };
            assert_eq!((one.name.as_str(), one.upload), (name, Some(upload)));
        }
    }
}
