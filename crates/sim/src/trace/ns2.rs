// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of text as ns-2 writes them (The ns Manual, chapter "Trace and Monitoring Support", section
//! "Trace file format"), for the scripts that read those:
//!
//! ```text
//! event time from to type size flags flow source.port destination.port seq id
//! + 0.006300640 2 3 tcp 1500 ------- 0 0.10000 3.10000 1448 17
//! ```
//!
//! | column | here |
//! | --- | --- |
//! | event | `+` comes to the queue, `-` begins to be sent, `r` comes to the far end, `d` is dropped |
//! | from, to, source, destination | places of the nodes in the scenario, from 0 |
//! | type | `tcp`, `ack`, or the kind of the flow |
//! | size | bytes from the IP header on |
//! | flags | `C` congestion echoed, `A` window reduced, `E` marked, `N` understands marks: first, fourth, fifth, seventh, as ns-2 has them |
//! | flow | its place in the scenario, from 0 |
//! | seq | of TCP an offset in bytes, where ns-2 counts segments; else the packet's number |
//! | id | of the packet, the same on every link |

use std::fmt::Write as _;
use std::io::{self, Write};

use makeway_core::packet::Ecn;
use makeway_core::units::Instant;
use makeway_scenario::model::Scenario;

use super::{Seen, Sink, What};
use crate::arena::Body;
use crate::port::port_number;

/// A file of lines.
pub(super) struct Ns2 {
    out: Box<dyn Write + Send>,
    /// By port: from which node, to which.
    ends: Vec<[usize; 2]>,
    /// By flow, for packets of its sender.
    kinds: Vec<&'static str>,
    line: String,
}

impl Ns2 {
    pub(super) fn new(scenario: &Scenario, out: Box<dyn Write + Send>) -> Self {
        let mut ends = vec![[0; 2]; 2 * scenario.links.len()];
        for (index, link) in scenario.links.iter().enumerate() {
            for end in 0..2 {
                let port = port_number(index, end) as usize;
                ends[port] = [link.ends[end], link.ends[1 - end]];
            }
        }
        Self {
            out,
            ends,
            kinds: scenario.flows.iter().map(|f| f.source.kind()).collect(),
            line: String::new(),
        }
    }
}

impl Sink for Ns2 {
    fn note(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let event = match seen.what {
            What::Queued => '+',
            What::Sent => '-',
            What::Received => 'r',
            What::Dropped(_) => 'd',
        };
        let number = seen.flow.number;
        let ecn = seen.packet.ecn;
        let (kind, [echoes, reduced], seq) = match seen.packet.body {
            Body::Segment(segment) => ("tcp", [false, segment.cwr], segment.seq),
            Body::Ack(ack) => ("ack", [ack.ece, false], ack.ack),
            Body::Datagram { seq, .. } => (self.kinds[number as usize], [false; 2], seq),
            Body::Media(packet) => (self.kinds[number as usize], [false; 2], packet.sequence),
            Body::Feedback(_) => ("feedback", [false; 2], 0),
        };
        let flag = |set, letter| if set { letter } else { '-' };
        let (c, a) = (flag(echoes, 'C'), flag(reduced, 'A'));
        let (e, n) = (
            flag(ecn == Ecn::Marked, 'E'),
            flag(ecn != Ecn::NotCapable, 'N'),
        );
        let back = usize::from(seen.packet.body.is_back());
        let (source, destination) = (seen.flow.nodes[back], seen.flow.nodes[1 - back]);
        let [from, to] = self.ends[seen.port as usize];
        let (ns, port, size, id) = (
            seen.now.as_nanos(),
            seen.flow.port,
            seen.packet.len,
            seen.label.id,
        );
        let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
        self.line.clear();
        // To a String: it cannot fail.
        let _ = writeln!(
            self.line,
            "{event} {s}.{ns:09} {from} {to} {kind} {size} {c}--{a}{e}-{n} {number} {source}.{port} {destination}.{port} {seq} {id}"
        );
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(&mut self, _now: Instant) -> io::Result<()> {
        self.out.flush()
    }
}
