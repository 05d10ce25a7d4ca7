// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of the world `sim`: the files that `makeway run` is asked for.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use makeway_scenario::Scenario;
use makeway_scenario::wire::PORTS;
use makeway_sim::trace::{Recorder, Taps};

#[derive(Args)]
pub struct Traces {
    /// Writes the packets of a link as pcapng, for Wireshark; with :NODE only that node's egress. May be
    /// repeated. Only with --world sim.
    #[arg(long, value_name = "LINK[:NODE]=FILE")]
    pcap: Vec<String>,
    /// Writes packet events as text of ns-2: on all links, on one, or of one node's
    /// egress. May be repeated. Only with --world sim.
    #[arg(long, value_name = "[LINK[:NODE]=]FILE")]
    trace: Vec<String>,
}

impl Traces {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.pcap.is_empty() && self.trace.is_empty()
    }

    /// Opens the files.
    ///
    /// # Errors
    /// A link is not in the scenario, or a file cannot be written.
    pub fn open(&self, scenario: &Scenario) -> anyhow::Result<Option<Recorder>> {
        if self.is_empty() {
            return Ok(None);
        }
        ensure!(
            self.pcap.is_empty() || scenario.flows.len() <= PORTS,
            "a capture distinguishes at most {PORTS} flows by their ports: this scenario has {} flows",
            scenario.flows.len()
        );
        let mut recorder = Recorder::new(scenario);
        let mut files: Vec<PathBuf> = Vec::new();
        for text in &self.pcap {
            let (place, file) = text
                .split_once('=')
                .filter(|(_, file)| !file.is_empty())
                .with_context(|| {
                    format!("--pcap {text}: write a link and a file, like `line=line.pcapng`")
                })?;
            let taps = Taps::find(scenario, place).with_context(|| format!("--pcap {text}"))?;
            let out = create(Path::new(file), &mut files)?;
            recorder.pcapng(scenario, &taps, file, Box::new(out))?;
        }
        for text in &self.trace {
            let (taps, file) = match text.split_once('=') {
                Some((place, file)) => (
                    Taps::find(scenario, place).with_context(|| format!("--trace {text}"))?,
                    file,
                ),
                None => (Taps::everywhere(scenario), text.as_str()),
            };
            let out = create(Path::new(file), &mut files)?;
            recorder.ns2(scenario, &taps, file, Box::new(out));
        }
        Ok(Some(recorder))
    }
}

/// A file for one trace.
fn create(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<BufWriter<File>> {
    if files.iter().any(|other| other == path) {
        bail!(
            "two traces would write {}: name a separate file for each",
            path.display()
        );
    }
    files.push(path.to_owned());
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 18, file))
}
