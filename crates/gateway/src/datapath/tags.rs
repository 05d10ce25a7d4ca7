// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags of packets on their way through a queue: read and written as they come, traded or taken off as they leave.
//!
//! Source: M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, "Probabilistic Packet Scheduling: Achieving
//! Proportional Share Bandwidth Allocation", Princeton TR-632-01, 2001, sections 2.3, 2.5 and 2.8.
//!
//! Departure from the paper: its source counts acknowledged packets in `AvgRate`. An edge does not hear of those on
//! its way out, and asking for the other direction would bring each packet here twice. It counts what it sends for the
//! first time: a segment of TCP whose sequence numbers it has seen all does not count. Over a window of the estimate
//! the two are the same but for what is under way; what TCP does not carry counts always, as section 4 has it. A source
//! that repeats itself to look like one of which little gets through is believed for as many bytes as it sends new.

use std::fmt;
use std::net::IpAddr;

use makeway_core::flow::{FlowKey, FlowTable, Identity, Sequence, set_tag, tag};
use makeway_core::packet::{Handle, Packet, Tag};
use makeway_core::ticket::{Codec, Relabeller, Tagger, TicketRate, Tsw};
use makeway_core::units::{Bytes, Duration, Instant};

use super::message::Queued;
use super::stats::TagStats;

/// Handling of tags. Nothing is written on packets unless this says so.
#[derive(Clone, Debug)]
pub struct TagConfig {
    /// Code of tags: the same all over the domain.
    pub codec: Codec,
    /// TSW's window; 1 ms to an hour.
    pub window: Duration,
    /// Whether sources and link are held to the tickets that they were issued where tags cannot say it (section 2.8).
    pub policing: bool,
    /// Whether a source's time without packets counts for its rate.
    pub silence: bool,
    /// Tickets of arrivals; the first rule that fits counts, and where none does, tags stay.
    pub rules: Vec<Rule>,
    /// Tickets of departures.
    pub leaving: Leaving,
}

/// Tickets of some packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Source of the packets; `None`: any.
    pub from: Option<IpAddr>,
    /// Source or destination port of the packets; `None`: any.
    pub port: Option<u16>,
    /// Their tickets.
    pub share: Share,
}

/// Tickets of the packets that a rule fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The tickets that the packets came with.
    Keep,
    /// None.
    Nothing,
    /// All of them share these.
    Together(TicketRate),
    /// Each source has these.
    Each(TicketRate, Identity),
}

/// Tickets behind the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaving {
    /// They stay.
    #[default]
    Keep,
    /// They are what the discipline made of them (`harvest`, labels of `csfq`).
    AsScheduled,
    /// They are traded for those that the next hop issues (section 2.5).
    Relabel(TicketRate),
    /// They are taken off, where the domain ends: identification 0, as Linux sends atomic datagrams, and label 0.
    Strip,
}

impl Default for TagConfig {
    /// The paper's window, no policing; nothing is written.
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            window: Tsw::WINDOW,
            policing: false,
            silence: true,
            rules: Vec::new(),
            leaving: Leaving::Keep,
        }
    }
}

impl TagConfig {
    /// Whether packets may leave with other tags than they came with.
    pub fn writes(&self) -> bool {
        let mut rules = self.rules.iter();
        self.leaving != Leaving::Keep || rules.any(|rule| rule.share != Share::Keep)
    }

    fn tagger(&self, rate: TicketRate) -> Tagger {
        let tagger = Tagger::new(rate, self.window, self.policing, self.codec);
        match self.silence {
            true => tagger,
            false => tagger.by_acknowledgements(),
        }
    }
}

/// For people: `packets from 10.0.0.7 share 600 tickets/s, all other carry none; tags are taken off`.
impl fmt::Display for TagConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(Rule::to_string);
        let leaving = match self.leaving {
            Leaving::Keep => None,
            Leaving::AsScheduled => Some("tags are the discipline's".into()),
            Leaving::Relabel(rate) => Some(format!("tickets are traded for {rate}")),
            Leaving::Strip => Some("tags are taken off".into()),
        };
        let all: Vec<_> = rules.chain(leaving).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.port) {
            (None, None) => f.write_str("all other packets")?,
            (Some(from), None) => write!(f, "packets from {from}")?,
            (None, Some(port)) => write!(f, "packets of port {port}")?,
            (Some(from), Some(port)) => write!(f, "packets of port {port} from {from}")?,
        }
        match self.share {
            Share::Keep => f.write_str(" keep their tickets"),
            Share::Nothing => f.write_str(" carry no tickets"),
            Share::Together(rate) => write!(f, " share {rate}"),
            Share::Each(rate, by) => write!(f, " have {rate} by {by}"),
        }
    }
}

/// The tags of one queue.
pub(super) struct Tags {
    config: TagConfig,
    read_by: Codec,
    /// Taggers of the rules whose packets share their tickets.
    together: Vec<Option<Tagger>>,
    /// By 5-tuple: the rule that fits, and the bytes sent.
    connections: FlowTable<FlowKey>,
    states: Vec<Connection>,
    /// By the key of a source of [`Share::Each`].
    sources: FlowTable<FlowKey>,
    taggers: Vec<Tagger>,
    relabeller: Option<Relabeller>,
    held: Vec<Slot>,
    free: Vec<u32>,
    stats: TagStats,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    rule: Option<usize>,
    /// Behind the newest sequence number that was sent.
    newest: Option<u32>,
    /// Bytes that may be sent again without counting.
    again: Bytes,
}

/// The most that a connection may repeat at a time: more than is under way on most access links.
const AGAIN: Bytes = Bytes::new(1 << 17);

impl Connection {
    const fn new(rule: Option<usize>) -> Self {
        Self {
            rule,
            newest: None,
            again: Bytes::ZERO,
        }
    }

    /// Whether a packet of `len` with these sequence numbers counts as one that gets through.
    fn counts(&mut self, numbers: Option<Sequence>, len: Bytes) -> bool {
        let Some(numbers) = numbers else {
            return true;
        };
        let is_beyond = |seen| numbers.is_beyond(seen);
        if numbers.opens || self.newest.is_none_or(is_beyond) {
            self.newest = Some(numbers.end);
            self.again = (self.again + len).min(AGAIN);
            return true;
        }
        let is_believed = self.again >= len;
        if is_believed {
            self.again -= len;
        }
        !is_believed
    }
}

/// A packet that waits, and may leave as another.
#[derive(Debug, Default)]
struct Slot {
    id: u32,
    /// To be written; `None`: it stays as it came.
    writes: Option<Tag>,
    /// As it came; empty if it was not copied whole.
    bytes: Vec<u8>,
}

impl Tags {
    /// For up to `flows` sources and connections at a time; those silent for longest are forgotten.
    pub fn new(config: &TagConfig, flows: u32, seed: u64) -> Self {
        let together = |rule: &Rule| match rule.share {
            Share::Together(rate) => Some(config.tagger(rate)),
            _ => None,
        };
        let relabeller = match config.leaving {
            Leaving::Relabel(rate) => {
                let TagConfig {
                    codec,
                    window,
                    policing,
                    ..
                } = *config;
                Some(Relabeller::new(rate, window, policing, codec))
            }
            _ => None,
        };
        // Nobody asks them where nothing is tagged.
        let flows = if config.rules.is_empty() { 1 } else { flows };
        Self {
            together: config.rules.iter().map(together).collect(),
            connections: FlowTable::new(flows, seed),
            states: Vec::new(),
            sources: FlowTable::new(flows, seed),
            taggers: Vec::new(),
            relabeller,
            held: Vec::new(),
            free: Vec::new(),
            stats: TagStats::default(),
            read_by: config.codec,
            config: config.clone(),
        }
    }

    /// From now on the next hop issues `rate`, if the link relabels.
    pub fn issue(&mut self, rate: TicketRate) {
        if let Some(relabeller) = &mut self.relabeller {
            relabeller.issue(rate);
        }
    }

    /// From now on what packets come with is read by `codec`.
    pub fn read_by(&mut self, codec: Codec) {
        self.read_by = codec;
    }

    /// Whether packets leave with what the discipline makes of their tags.
    /// Whether verdicts may change packets.
    pub fn writes_any(&self) -> bool {
        self.config.writes()
    }

    pub fn writes_as_scheduled(&self) -> bool {
        self.config.leaving == Leaving::AsScheduled
    }

    pub fn stats(&self) -> TagStats {
        self.stats
    }

    /// A packet of `len` on the wire has come: the name to hold it by, and the tag that counts here. `asked`: whether
    /// the discipline wants to know.
    pub fn arrive(
        &mut self,
        now: Instant,
        queued: &Queued<'_>,
        len: Bytes,
        asked: bool,
    ) -> (Handle, Tag) {
        if !asked && !self.config.writes() {
            return (Handle(queued.id), Tag(0));
        }
        let carried = tag(queued.headers);
        let mut counts = match carried {
            // Nobody of this domain wrote it.
            Some(tag) if tag > self.read_by.most() => {
                self.stats.foreign += 1;
                Tag(0)
            }
            tag => tag.unwrap_or_default(),
        };
        if !self.config.writes() {
            self.stats.unable += u64::from(carried.is_none());
            self.count_in(counts);
            return (Handle(queued.id), counts);
        }
        let is_whole = queued.headers.len() == queued.len as usize;
        let can_carry = carried.is_some() && is_whole;
        self.stats.unable += u64::from(!can_carry);
        // A source that cannot say its share has none.
        let writes = match can_carry {
            true => self.share(now, queued.headers, len),
            false => None,
        };
        counts = writes.unwrap_or(counts);
        self.count_in(counts);
        let index = self.free.pop().unwrap_or_else(|| {
            self.held.push(Slot::default());
            (self.held.len() - 1) as u32
        });
        let slot = &mut self.held[index as usize];
        (slot.id, slot.writes) = (queued.id, writes);
        slot.bytes.clear();
        if can_carry {
            slot.bytes.extend_from_slice(queued.headers);
        }
        (Handle(index), counts)
    }

    fn count_in(&mut self, tag: Tag) {
        self.stats.with_tickets += u64::from(tag != Tag(0));
    }

    /// Tag of a packet by the rules; `None`: the one it came with.
    fn share(&mut self, now: Instant, headers: &[u8], len: Bytes) -> Option<Tag> {
        if self.config.rules.is_empty() {
            return None;
        }
        let key = FlowKey::from_ip(Identity::FiveTuple, headers);
        let held = self.connections.hold(&key)?;
        self.connections.release(held.id);
        let index = held.id.0 as usize;
        if held.is_new {
            let rule = self.config.rules.iter().position(|rule| rule.fits(&key));
            let state = Connection::new(rule);
            match self.states.get_mut(index) {
                Some(old) => *old = state,
                None => self.states.push(state),
            }
        }
        let state = &mut self.states[index];
        let rule = state.rule?;
        let gets_through = state.counts(Sequence::from_ip(headers), len);
        let tagger = match self.config.rules[rule].share {
            Share::Keep => return None,
            Share::Nothing => return Some(Tag(0)),
            Share::Together(_) => self.together[rule].as_mut()?,
            Share::Each(rate, by) => {
                let held = self.sources.hold(&FlowKey::from_ip(by, headers))?;
                self.sources.release(held.id);
                let index = held.id.0 as usize;
                if held.is_new {
                    let tagger = self.config.tagger(rate);
                    match self.taggers.get_mut(index) {
                        Some(old) => *old = tagger,
                        None => self.taggers.push(tagger),
                    }
                }
                &mut self.taggers[index]
            }
        };
        if gets_through {
            tagger.on_through(now, len);
        }
        Some(tagger.tag(now, len))
    }

    /// The link sends a packet.
    pub fn leave(&mut self, now: Instant, packet: &Packet) {
        let writes = match self.config.leaving {
            Leaving::Keep => return,
            Leaving::AsScheduled => packet.tag(),
            Leaving::Strip => Tag(0),
            Leaving::Relabel(_) => match &mut self.relabeller {
                Some(relabeller) => relabeller.relabel(now, packet.tag(), packet.len()),
                None => return,
            },
        };
        self.held[packet.handle.0 as usize].writes = Some(writes);
    }

    /// The kernel's name for a packet that is dropped.
    pub fn forget(&mut self, handle: u32) -> u32 {
        if !self.config.writes() {
            return handle;
        }
        self.free.push(handle);
        self.held[handle as usize].id
    }

    /// The kernel's name for a packet that goes on, and what is to take its place.
    pub fn release(&mut self, handle: u32) -> (u32, Option<&[u8]>) {
        if !self.config.writes() {
            return (handle, None);
        }
        self.free.push(handle);
        let slot = &mut self.held[handle as usize];
        let bytes = &mut slot.bytes;
        let has_changed = slot.writes.is_some_and(|new| set_tag(bytes, new));
        self.stats.written += u64::from(has_changed);
        (slot.id, has_changed.then_some(&slot.bytes[..]))
    }
}

impl Rule {
    fn fits(&self, key: &FlowKey) -> bool {
        self.from.is_none_or(|from| key.src() == Some(from))
            && self
                .port
                .is_none_or(|port| key.sport() == port || key.dport() == port)
    }
}

#[cfg(test)]
mod tests;
