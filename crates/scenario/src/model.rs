// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checked scenario: what a file means once it has been read.
//!
//! A value of these types can be run: names resolve, rates are not zero, traces are read.

mod source;

use std::collections::BTreeMap;

use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::loss::Loss;
use makeway_core::sched::{Env, Limits, Spec};
use makeway_core::ticket::{Codec, TicketRate, Tsw};
use makeway_core::units::{Bytes, Duration, Rate};

pub use crate::opportunities::Opportunities;
pub use source::{
    Captured, Class, Frame, Jitter, Jittered, Keyframes, Media, Pace, Preset, Scene, Source, Tcp,
    Traffic,
};

/// One experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// One line, for tables and pages.
    pub title: String,
    /// How long traffic runs, warm-up included.
    pub duration: Duration,
    /// Start of the measured interval, counted from the start of traffic.
    pub warmup: Duration,
    /// Seed of every random stream.
    pub seed: u64,
    /// Tickets on packets.
    pub tags: Tags,
    /// Hosts and routers; indices into this are [`Link::ends`], [`Flow::from`] and [`Flow::to`].
    pub nodes: Vec<Node>,
    /// Point-to-point links.
    pub links: Vec<Link>,
    /// Radio channels.
    pub wlans: Vec<Wlan>,
    /// Traffic, expanded: `count = 10` in the file is ten flows here.
    pub flows: Vec<Flow>,
    /// Settings of the command line that changed the file: dotted key, value.
    pub set: BTreeMap<String, String>,
}

impl Scenario {
    /// Number of ports, by which packets leave nodes: both ends of each link, then the stations of each channel.
    pub fn ports(&self) -> usize {
        self.first_port(self.wlans.len())
    }

    /// Names of the nodes of each flow's sender and receiver.
    pub fn ends(&self) -> Vec<[&str; 2]> {
        let name = |node: usize| self.nodes[node].name.as_str();
        let flows = self.flows.iter();
        flows.map(|flow| [flow.from, flow.to].map(name)).collect()
    }

    /// The port of the first station of a channel.
    pub fn first_port(&self, wlan: usize) -> usize {
        let before = self.wlans[..wlan].iter().map(|wlan| wlan.stations.len());
        2 * self.links.len() + before.sum::<usize>()
    }
}

/// Tickets on packets, the same all over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Code of tags.
    pub codec: Codec,
    /// Window of the estimates of rates of sources and of links that relabel.
    pub window: Duration,
    /// Whether sources and links are held to the tickets that they are issued.
    pub policing: bool,
    /// Whether a source of TCP that hears of nothing counts the time.
    pub silence: bool,
    /// Whether tickets are issued to receivers, and come to senders on acknowledgements.
    pub by_receiver: bool,
}

impl Default for Tags {
    /// The paper's 60 s without policing; eight bits, but logarithmic, and silence counts.
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            window: Tsw::WINDOW,
            policing: false,
            silence: true,
            by_receiver: false,
        }
    }
}

/// A host or router. A node forwards when it has more than one link or radio.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name in the file.
    pub name: String,
}

/// A full-duplex link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name: `a-b` unless the file gives one.
    pub name: String,
    /// Indices of the nodes at both ends.
    pub ends: [usize; 2],
    /// Egress of `ends[0]`, then of `ends[1]`.
    pub egress: [Egress; 2],
}

/// Stations that share a radio channel by the DCF of IEEE 802.11.
#[derive(Clone, Debug, PartialEq)]
pub struct Wlan {
    /// Its name in the file.
    pub name: String,
    /// Indices of the nodes, 2 to [`Wlan::MOST_STATIONS`].
    pub stations: Vec<usize>,
    /// Place in `stations` of the one that all others talk through. `None`: the network is ad hoc, and AODV
    /// finds the ways over its stations.
    pub access_point: Option<usize>,
    /// How bits become a signal.
    pub standard: Standard,
    /// Rate of data frames; one of the standard's.
    pub rate: Rate,
    /// Frames longer than this, with their 36 B of headers, ask by RTS first. `None`: none does.
    pub rts: Option<Bytes>,
    /// Probability that a data frame on the air is not understood, each try by itself.
    pub loss: f64,
    /// Tries of a frame that needs no RTS, 1 to 255 (dot11ShortRetryLimit).
    pub retry_limit: u32,
    /// Queue of each station.
    pub queue: Queue,
    /// Whether the stations' queues are reported.
    pub measure: bool,
    /// Where stations are, in m. `None`: all understand one another, equally loud.
    pub places: Option<Vec<[f64; 2]>>,
    /// How far a frame is understood, in m.
    pub range: f64,
    /// How far it keeps others silent, in m.
    pub sense: f64,
    /// When stations are switched off, for good: places in `stations`.
    pub off: Vec<(usize, Duration)>,
    /// Power of a radio.
    pub power: Power,
}

impl Wlan {
    /// Stations of a channel at most; chosen by us.
    pub const MOST_STATIONS: usize = 128;
}

/// Versions of IEEE 802.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// 1 to 11 Mbit/s.
    B {
        /// 96 us before each frame instead of 192 us.
        short_preamble: bool,
    },
    /// 6 to 54 Mbit/s.
    A,
}

/// Power of a radio, in W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// While it sends.
    pub send: f64,
    /// While it hears something.
    pub receive: f64,
    /// Otherwise.
    pub idle: f64,
}

impl Default for Power {
    /// Chosen by us: about what cards of 802.11b took.
    fn default() -> Self {
        Self {
            send: 1.3,
            receive: 0.9,
            idle: 0.74,
        }
    }
}

/// One direction of a link: queue, shaper, then impairments.
#[derive(Clone, Debug, PartialEq)]
pub struct Egress {
    /// Rate on the wire; `None`: not limited.
    pub rate: Option<Rate>,
    /// How the rate changes; with a rate only.
    pub changes: Changes,
    /// Queued packets leave at multiples of this only, as from a token bucket that a coarse timer wakes; with a rate only.
    /// `None`: at any time.
    pub tick: Option<Duration>,
    /// Bytes of a packet on the wire.
    pub framing: Framing,
    /// The discipline and its limits; only with a rate does it ever hold a packet for long.
    pub queue: Queue,
    /// Tickets that the far end issues for what is sent here, or with receivers for the data whose acknowledgements are; `None`: tags stay as they are.
    pub tickets: Option<Issue>,
    /// Propagation delay.
    pub delay: Duration,
    /// Standard deviation of Gaussian extra delay; order is kept.
    pub jitter: Duration,
    /// Random loss.
    pub loss: Loss,
    /// Reported by name: its backlog, drops, sojourn time. At least the bottlenecks.
    pub measure: bool,
}

impl Egress {
    /// The mean rate in bit/s from `from` to `to`, after the start of traffic; zero where it is not
    /// limited, or where there is no time between.
    pub fn mean_bps(&self, from: Duration, to: Duration) -> f64 {
        let (mut bits, mut at, mut rate) = (0.0, Duration::ZERO, self.rate.unwrap_or_default());
        let mut until = |until: Duration, rate: Rate| {
            let [start, end] = [at, until].map(|t| t.clamp(from, to.max(from)).as_secs_f64());
            // 1 bit/s stands for an outage.
            let bps = rate.bps() as f64;
            bits += if bps > 1.0 { bps } else { 0.0 } * (end - start);
            at = until;
        };
        for (next, after) in (0..).map_while(|n| self.changes.nth(n)) {
            if next >= to {
                break;
            }
            until(next, rate);
            rate = after;
        }
        until(to.max(from), rate);
        let seconds = to.as_secs_f64() - from.as_secs_f64();
        if seconds > 0.0 { bits / seconds } else { 0.0 }
    }

    /// Environment of the discipline in a world with this number of flows, and of users, of which there are no more than can be
    /// told apart; but for their weights.
    pub fn env(&self, tags: &Tags, flows: u32, seed: u64) -> Env {
        Env {
            rate: self.rate,
            framing: self.framing,
            codec: tags.codec,
            seed,
            ..self.queue.env(flows)
        }
    }
}

impl Queue {
    /// Error of other worlds about [`Queue::qdisc`].
    pub const NOT_HERE: &'static str =
        "`qdisc` is one of Linux's own: leave it out, or run it with --world vm";

    fn env(&self, flows: u32) -> Env {
        Env::new(Limits {
            flows,
            ..self.limits
        })
    }
}

/// The rates that a link takes, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// When, from the start of traffic, and to what; each later than the one before it. The least is
    /// 1 bit/s, which stands for an outage.
    pub steps: Vec<(Duration, Rate)>,
    /// Period after which they come again; later than the last of them. `None`: its rate stays.
    pub every: Option<Duration>,
    /// Times of a trace at which the link sends, where they are kept; the steps are their rates then.
    pub opportunities: Option<Opportunities>,
}

impl Changes {
    /// Error of other worlds about [`Changes::opportunities`].
    pub const NOT_HERE: &'static str = "opportunities of a trace are of the world sim: leave `changes.exact` out, or run it with --world sim";

    /// The `n`th change from 0, all rounds counted.
    pub fn nth(&self, n: u64) -> Option<(Duration, Rate)> {
        let in_round = self.steps.len() as u64;
        let round = n.checked_div(in_round)?;
        let (at, rate) = self.steps[(n % in_round) as usize];
        match (round, self.every) {
            (0, _) => Some((at, rate)),
            (_, Some(every)) => Some((at + every * round, rate)),
            (_, None) => None,
        }
    }
}

/// Tickets that a link is issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// At the start of traffic.
    pub rate: TicketRate,
    /// When it changes and to what, each later than the one before.
    pub steps: Vec<(Duration, TicketRate)>,
}

/// A discipline with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The discipline with its parameters.
    pub spec: Spec,
    /// The most that it may hold; a world has its own number of flows.
    pub limits: Limits,
    /// Flow key.
    pub flows: Identity,
    /// User key, where the discipline has any: `src-host`, `dst-host`.
    pub users: Identity,
    /// Weights of users by node name; 1 where none is given.
    pub weights: BTreeMap<String, u32>,
    /// A qdisc of Linux instead of the discipline, in the words of tc: its kind, then its options. Of the world vm only.
    pub qdisc: Option<Vec<String>>,
}

/// One flow of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its own name: `download-3`.
    pub name: String,
    /// The name of its group in the file: `download`.
    pub group: String,
    /// Where the group was written: `call.toml:12`.
    pub place: String,
    /// Index of the sending node.
    pub from: usize,
    /// Index of the receiving node.
    pub to: usize,
    /// When it starts, from the start of traffic.
    pub start: Duration,
    /// When it stops; `None`: with the scenario.
    pub stop: Option<Duration>,
    /// Whether all flows of its group and sender have one source port.
    pub shared_port: bool,
    /// Its share, written on its packets; `None`: nothing is.
    pub share: Option<Share>,
    /// Its traffic.
    pub source: Source,
    /// Whether it is a call, whose quality is reported.
    pub voice: Option<Voice>,
}

/// A call in G.711.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voice {
    /// From the mouth until a packet is sent: what fills it, and the encoder.
    pub encoder_delay: Duration,
}

/// Share of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Tickets, for `tred`.
    Tickets(TicketRate),
    /// A service profile, for `rio`.
    Profile(Rate),
}
