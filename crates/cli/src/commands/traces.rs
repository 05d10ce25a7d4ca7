// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of the world `sim`: the files that `makeway run` is asked for.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use makeway_scenario::Scenario;
use makeway_scenario::wire::PORTS;
use makeway_sim::trace::{Recorder, Taps};
use makeway_sim::{Options, Session};
use makeway_store::outputs;

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

    /// The traces of a run of `scenario`, checked; no file is touched.
    ///
    /// # Errors
    /// A link is not in the scenario, or the world sim refuses the scenario.
    pub fn find(&self, scenario: &Scenario) -> anyhow::Result<Wanted<'_>> {
        let mut wanted = Wanted::default();
        if self.is_empty() {
            return Ok(wanted);
        }
        ensure!(
            self.pcap.is_empty() || scenario.flows.len() <= PORTS,
            "a capture distinguishes at most {PORTS} flows by their ports: this scenario has {} flows",
            scenario.flows.len()
        );
        for text in &self.pcap {
            let (place, file) = text
                .split_once('=')
                .filter(|(_, file)| !file.is_empty())
                .with_context(|| {
                    format!("--pcap {text}: write a link and a file, like `line=line.pcapng`")
                })?;
            let taps = Taps::find(scenario, place).with_context(|| format!("--pcap {text}"))?;
            wanted.pcap.push((taps, file));
        }
        for text in &self.trace {
            wanted.text.push(match text.split_once('=') {
                Some((place, file)) => (
                    Taps::find(scenario, place).with_context(|| format!("--trace {text}"))?,
                    file,
                ),
                None => (Taps::everywhere(scenario), text.as_str()),
            });
        }
        // A scenario that the world sim refuses costs no older trace.
        Session::new(Arc::new(scenario.clone()), Options::default())?;
        Ok(wanted)
    }
}

/// Places, and the files of their packets.
#[derive(Default)]
pub struct Wanted<'a> {
    pcap: Vec<(Taps, &'a str)>,
    text: Vec<(Taps, &'a str)>,
}

impl Wanted<'_> {
    /// Opens the files: all or none.
    ///
    /// # Errors
    /// A file cannot be written, or is there twice.
    pub fn open(&self, scenario: &Scenario) -> anyhow::Result<Option<Recorder>> {
        let all = self.pcap.iter().chain(&self.text);
        let paths: Vec<&Path> = all.map(|(_, file)| Path::new(*file)).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let files = outputs::open(&paths)?.into_iter();
        let mut files = files.map(|file| Box::new(BufWriter::with_capacity(1 << 18, file)));
        let mut recorder = Recorder::new(scenario);
        for ((taps, name), file) in self.pcap.iter().zip(&mut files) {
            recorder.pcapng(scenario, taps, *name, file)?;
        }
        for ((taps, name), file) in self.text.iter().zip(&mut files) {
            recorder.ns2(scenario, taps, *name, file);
        }
        Ok(Some(recorder))
    }
}
