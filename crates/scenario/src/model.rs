//! The checked scenario: what a file means once it has been read.
//!
//! A value of these types can be run: names resolve, rates are not zero, traces are read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use makeway_core::framing::Framing;
use makeway_core::units::{Bytes, Duration, Rate};

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
    /// Hosts and routers; indices into this are [`Link::ends`], [`Flow::from`] and [`Flow::to`].
    pub nodes: Vec<Node>,
    /// Point-to-point links.
    pub links: Vec<Link>,
    /// Traffic, expanded: `count = 10` in the file is ten flows here.
    pub flows: Vec<Flow>,
    /// Settings of the command line that changed the file: dotted key, value.
    pub set: BTreeMap<String, String>,
}

/// A host or router. A node forwards when it has more than one link.
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

/// One direction of a link: queue, shaper, then impairments.
#[derive(Clone, Debug, PartialEq)]
pub struct Egress {
    /// Rate on the wire; `None`: not limited.
    pub rate: Option<Rate>,
    /// What a packet costs on the wire.
    pub framing: Framing,
    /// The discipline and its limits; only with a rate does it ever hold a packet for long.
    pub queue: Queue,
    /// Propagation delay.
    pub delay: Duration,
    /// Standard deviation of Gaussian extra delay; order is kept.
    pub jitter: Duration,
    /// Bernoulli loss probability, 0 to 1.
    pub loss: f64,
    /// Reported by name: its backlog, drops, sojourn time. At least the bottlenecks.
    pub measure: bool,
}

/// A discipline with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Name as `makeway up --discipline` takes it: `fq-codel`, say.
    pub discipline: String,
    /// Limit in packets.
    pub packets: u32,
    /// Limit in bytes.
    pub bytes: Bytes,
    /// Name of the flow identity: 5-tuple, src-port, src-host, dst-host, host-pair.
    pub flows: String,
    /// Name of the user identity of `hier`: src-host, dst-host.
    pub users: String,
    /// Weights of users by node name; 1 where none is given.
    pub weights: BTreeMap<String, u32>,
}

/// One flow of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its own name: `download-3`.
    pub name: String,
    /// The name of its group in the file: `download`.
    pub group: String,
    /// Index of the sending node.
    pub from: usize,
    /// Index of the receiving node.
    pub to: usize,
    /// When it starts, from the start of traffic.
    pub start: Duration,
    /// When it stops; `None`: with the scenario.
    pub stop: Option<Duration>,
    /// What it sends.
    pub source: Source,
}

/// What a flow sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A continuous download over the kernel's TCP.
    Bulk {
        /// `reno`, `cubic`, `bbr`.
        congestion_control: String,
        /// Ends after so many bytes; `None`: never.
        bytes: Option<Bytes>,
    },
    /// RTP over UDP, replayed from a trace of frames.
    Rtp {
        /// The trace file, resolved against the scenario's folder.
        trace: PathBuf,
        /// Frames in order, two at least, repeated to the end of the scenario; one for all flows of a group.
        frames: Arc<[Frame]>,
        /// After so much time the trace begins again; later than every [`Frame::at`].
        period: Duration,
        /// Largest RTP payload in bytes.
        payload: Bytes,
        /// How packets are spread.
        pace: Pace,
        /// Standard deviation of the Gaussian delay of each packet at the source (paper section V.E).
        jitter: Duration,
    },
    /// Constant bit rate: RTP packets of one size at even spacing.
    Cbr {
        /// Rate of the IP packets.
        rate: Rate,
        /// Payload of a packet.
        payload: Bytes,
        /// As for `Rtp`.
        jitter: Duration,
    },
    /// Packets of one size with exponential gaps.
    Poisson {
        /// Mean rate of the IP packets.
        rate: Rate,
        /// Payload of a packet.
        payload: Bytes,
    },
}

impl Source {
    /// Its name in files and reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::Rtp { .. } => "rtp",
            Self::Cbr { .. } => "cbr",
            Self::Poisson { .. } => "poisson",
        }
    }
}

/// A coded frame of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Decoding time, from the start of the trace.
    pub at: Duration,
    /// Coded size.
    pub bytes: Bytes,
    /// `I`, `P`, `B` for video, `A` for audio.
    pub kind: char,
}

/// How the packets of a stream are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At an even rate inside slices of this length (VLC's way: 200 ms).
    Slice(Duration),
    /// Evenly over the interval until the next frame.
    Frame,
    /// A frame at once, as fast as the socket takes it.
    Burst,
}
