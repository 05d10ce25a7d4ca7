// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet events at ports, written as files that other programs read.
//!
//! - [`Recorder`]: is told by the world, and tells each file what concerns it;
//! - `ns2`: a line of text for each event;
//! - `pcapng`: packets with their headers, for Wireshark and its like.
//!
//! A world is compiled with a `Trace` of its own. That of a run without traces, `Off`, says so in a
//! constant, so such a run has no instruction of this. Files are the caller's: this writes to
//! [`Write`], and the caller buffers.

mod ns2;
mod pcapng;

use std::io::{self, Write};
use std::net::Ipv4Addr;

use makeway_core::packet::Handle;
use makeway_core::units::Instant;
use makeway_scenario::model::Scenario;
use makeway_scenario::wire;

use crate::arena::{Body, Transit};
use crate::error::RunError;
use crate::port::port_number;

/// Interface of a world to its traces.
pub(crate) trait Trace {
    /// Whether anybody listens.
    const ON: bool;

    /// A packet is sent by its source, under a handle that is free until then.
    fn created(&mut self, _now: Instant, _handle: Handle) {}

    /// Something happens to a packet at a port.
    fn note(&mut self, _now: Instant, _port: u32, _what: What, _handle: Handle, _packet: &Transit) {
    }

    /// A packet comes to its end.
    fn delivered(&mut self, _handle: Handle, _packet: &Transit) {}

    /// Whether everything could be written so far.
    fn check(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Nothing more will happen.
    fn finish(&mut self) -> Result<(), RunError> {
        Ok(())
    }
}

/// Event of a packet at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It comes to the queue.
    Queued,
    /// Its transmission begins.
    Sent,
    /// It comes to the far end of the link.
    Received,
    /// It is dropped, for this reason.
    Dropped(&'static str),
}

/// No trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Off;

impl Trace for Off {
    const ON: bool = false;
}

/// Why a trace cannot be as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TapsError {
    /// There is no such link.
    #[error("there is no link `{name}` in the scenario (links: {links})")]
    Link {
        /// The request.
        name: String,
        /// Links of the scenario.
        links: String,
    },
    /// The link does not end at that node.
    #[error("link `{link}` joins `{a}` and `{b}`: it has no end at `{node}`")]
    Node {
        /// The link.
        link: String,
        /// The request.
        node: String,
        /// Its first end.
        a: String,
        /// Its other end.
        b: String,
    },
}

/// Where packets are watched: ends of links, each with what it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taps(Vec<(usize, usize)>);

impl Taps {
    /// Both ends of every link.
    pub fn everywhere(scenario: &Scenario) -> Self {
        let links = 0..scenario.links.len();
        Self(links.flat_map(|link| [(link, 0), (link, 1)]).collect())
    }

    /// `LINK`, which is both of its ends, or `LINK:NODE`, which is what the node sends.
    ///
    /// # Errors
    /// The scenario has no such link, or the link no such end.
    pub fn find(scenario: &Scenario, text: &str) -> Result<Self, TapsError> {
        let (name, node) = match text.split_once(':') {
            Some((name, node)) => (name, Some(node)),
            None => (text, None),
        };
        let links = &scenario.links;
        let Some(index) = links.iter().position(|link| link.name == name) else {
            let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            return Err(TapsError::Link {
                name: name.into(),
                links: names.join(", "),
            });
        };
        let names = links[index]
            .ends
            .map(|end| scenario.nodes[end].name.as_str());
        match node {
            None => Ok(Self(vec![(index, 0), (index, 1)])),
            Some(node) => match names.iter().position(|name| *name == node) {
                Some(end) => Ok(Self(vec![(index, end)])),
                None => Err(TapsError::Node {
                    link: name.into(),
                    node: node.into(),
                    a: names[0].into(),
                    b: names[1].into(),
                }),
            },
        }
    }
}

/// Event for a file.
struct Seen<'a> {
    now: Instant,
    port: u32,
    what: What,
    packet: &'a Transit,
    label: Label,
    flow: &'a Ends,
}

/// Context of a packet in a trace.
#[derive(Clone, Copy, Debug)]
struct Label {
    /// Its number among all packets of the run, from 0.
    id: u64,
    /// When its source sent it.
    created: Instant,
    /// Ports that it came to so far.
    hops: u8,
}

/// The two ends of a flow.
#[derive(Clone, Debug)]
struct Ends {
    number: u32,
    /// The sender's node, and the receiver's.
    nodes: [usize; 2],
    /// The sender's address, and the receiver's.
    addresses: [Ipv4Addr; 2],
    port: u16,
    /// Departure time of the acknowledgement that the sender heard last (TS.Recent of RFC 7323); TCP only.
    heard: Option<Instant>,
}

/// A file that is told of some ports.
trait Sink: Send {
    fn note(&mut self, seen: &Seen<'_>) -> io::Result<()>;
    fn finish(&mut self, now: Instant) -> io::Result<()>;
}

/// Writes traces of a run.
pub struct Recorder {
    flows: Vec<Ends>,
    /// By handle.
    labels: Vec<Label>,
    created: u64,
    now: Instant,
    files: Vec<(String, Box<dyn Sink>)>,
    /// For each port the files that are told of it.
    told: Vec<Vec<usize>>,
    /// The first thing that went wrong; nothing is written after it.
    failed: Option<RunError>,
}

impl Recorder {
    /// Recorder of a run of `scenario`, with no file yet.
    pub fn new(scenario: &Scenario) -> Self {
        let flows = scenario.flows.iter().enumerate();
        Self {
            flows: flows
                .map(|(number, flow)| Ends {
                    number: number as u32,
                    nodes: [flow.from, flow.to],
                    addresses: [flow.from, flow.to].map(wire::node_address),
                    port: wire::port(number),
                    heard: None,
                })
                .collect(),
            labels: Vec::new(),
            created: 0,
            now: Instant::ZERO,
            files: Vec::new(),
            told: vec![Vec::new(); scenario.ports()],
            failed: None,
        }
    }

    /// Writes the packets that are sent at `taps` to `out` as pcapng; `name` is for errors.
    ///
    /// # Errors
    /// Its head cannot be written.
    pub fn pcapng(
        &mut self,
        scenario: &Scenario,
        taps: &Taps,
        name: impl Into<String>,
        out: Box<dyn Write + Send>,
    ) -> Result<(), RunError> {
        let name = name.into();
        match pcapng::PcapNg::new(scenario, &taps.0, out) {
            Ok(file) => self.add(name, taps, Box::new(file)),
            Err(error) => return Err(failure(&name, &error)),
        }
        Ok(())
    }

    /// Writes what happens at `taps` to `out` as text of ns-2; `name` is for errors.
    pub fn ns2(
        &mut self,
        scenario: &Scenario,
        taps: &Taps,
        name: impl Into<String>,
        out: Box<dyn Write + Send>,
    ) {
        let file = ns2::Ns2::new(scenario, out);
        self.add(name.into(), taps, Box::new(file));
    }

    fn add(&mut self, name: String, taps: &Taps, sink: Box<dyn Sink>) {
        for (link, end) in &taps.0 {
            self.told[port_number(*link, *end) as usize].push(self.files.len());
        }
        self.files.push((name, sink));
    }

    fn label(&mut self, handle: Handle) -> Option<&mut Label> {
        self.labels.get_mut(handle.0 as usize)
    }
}

fn failure(name: &str, error: &io::Error) -> RunError {
    RunError::Trace {
        name: name.into(),
        why: error.to_string(),
    }
}

impl Trace for Recorder {
    const ON: bool = true;

    fn created(&mut self, now: Instant, handle: Handle) {
        let label = Label {
            id: self.created,
            created: now,
            hops: 0,
        };
        self.created += 1;
        let slot = handle.0 as usize;
        if slot >= self.labels.len() {
            self.labels.resize(slot + 1, label);
        }
        self.labels[slot] = label;
    }

    fn note(&mut self, now: Instant, port: u32, what: What, handle: Handle, packet: &Transit) {
        self.now = now;
        let Some(label) = self.label(handle) else {
            return;
        };
        if what == What::Queued {
            label.hops = label.hops.saturating_add(1);
        }
        let label = *label;
        if self.failed.is_some() {
            return;
        }
        let seen = Seen {
            now,
            port,
            what,
            packet,
            label,
            flow: &self.flows[packet.flow as usize],
        };
        for file in &self.told[port as usize] {
            let (name, sink) = &mut self.files[*file];
            if let Err(error) = sink.note(&seen) {
                self.failed = Some(failure(name, &error));
                return;
            }
        }
    }

    fn delivered(&mut self, handle: Handle, packet: &Transit) {
        if matches!(packet.body, Body::Ack(_)) {
            let left = self.label(handle).map(|label| label.created);
            self.flows[packet.flow as usize].heard = left;
        }
    }

    fn check(&mut self) -> Result<(), RunError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> Result<(), RunError> {
        self.check()?;
        for (name, sink) in &mut self.files {
            sink.finish(self.now)
                .map_err(|error| failure(name, &error))?;
        }
        Ok(())
    }
}
