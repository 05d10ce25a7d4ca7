// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic of a flow.

use std::path::PathBuf;
use std::sync::Arc;

use makeway_core::packet::Ecn;
use makeway_core::rate;
use makeway_core::send::{self, AnyPolicy};
use makeway_core::units::{Bytes, Duration, Rate};

/// Traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A download over TCP.
    Bulk {
        /// `reno`, `cubic`, `bbr` of Linux; `ledbat`, `tahoe`, `newreno`, `sack` where TCP is a model.
        congestion_control: String,
        /// Transfer size in bytes; `None`: unlimited.
        bytes: Option<Bytes>,
        /// When a task is done, the next one begins after an exponential time of this mean. `None`:
        /// there is one.
        think: Option<Duration>,
        /// Tasks begin at multiples of this, whether those before are done or not: an application that writes at a rate of its own.
        every: Option<Duration>,
        /// The rest, where TCP is a model.
        tcp: Tcp,
    },
    /// RTP over UDP, replayed from a trace of frames.
    Rtp {
        /// The trace file, resolved against the scenario's folder.
        trace: PathBuf,
        /// Frames in order, two at least, repeated to the end of the scenario; one for all flows of a group.
        frames: Arc<[Frame]>,
        /// Period after which the trace begins again; later than every [`Frame::at`].
        period: Duration,
        /// Largest RTP payload in bytes.
        payload: Bytes,
        /// How packets are spread.
        pace: Pace,
        /// Chance in the times at which packets leave.
        jitter: Jitter,
    },
    /// Constant bit rate: RTP packets of one size at even spacing.
    Cbr {
        /// Rate of the IP packets.
        rate: Rate,
        /// Payload of a packet.
        payload: Bytes,
        /// As for `Rtp`.
        jitter: Jitter,
    },
    /// Packets of one size with exponential gaps.
    Poisson {
        /// Mean rate of the IP packets.
        rate: Rate,
        /// Payload of a packet; the mean, where sizes are exponential.
        payload: Bytes,
        /// Whether sizes are exponential too.
        exponential: bool,
    },
    /// Packets of one size, evenly while it is on, then none; times are random.
    OnOff {
        /// Rate of the IP packets while it is on.
        rate: Rate,
        /// Payload of a packet.
        payload: Bytes,
        /// Mean time on.
        on: Duration,
        /// Mean time off.
        off: Duration,
        /// Shape of a Pareto distribution of both times, above 1; `None`: exponential.
        shape: Option<f64>,
    },
    /// Packets of one size while something that moves is near.
    Sensor {
        /// Payload of a packet.
        payload: Bytes,
        /// Between two of them, while it is near.
        period: Duration,
        /// When they are sent, after the flow's start.
        pulses: Arc<[Duration]>,
    },
    /// The IP packets of a capture, as UDP packets of the same lengths at the same times.
    Pcap {
        /// The file, resolved against the scenario's folder.
        file: PathBuf,
        /// Its packets by time, one at least, the first at zero.
        packets: Arc<[Captured]>,
        /// Period after which it begins again; `None`: it is played once.
        period: Option<Duration>,
    },
    /// Datagrams with deadlines, through a queue with a policy, at the rate of a controller.
    Media(Arc<Media>),
}

impl Source {
    /// Its name in files and reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::Rtp { .. } => "rtp",
            Self::Cbr { .. } => "cbr",
            Self::Poisson { .. } => "poisson",
            Self::OnOff { .. } => "on-off",
            Self::Sensor { .. } => "sensor",
            Self::Pcap { .. } => "pcap",
            Self::Media(_) => "media",
        }
    }
}

/// Gaussian chance in the times at which packets leave their source (SQF paper, section V.E).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Standard deviation.
    pub deviation: Duration,
    /// Its quantity.
    pub of: Jittered,
}

/// The Gaussian quantity of a source that jitters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jittered {
    /// The delay of each packet, which may overtake others.
    #[default]
    Delay,
    /// The delay of each packet; one that would overtake waits for those before it, so that they leave as a bunch.
    Order,
    /// The time from one packet to the next; where it would be negative they leave together.
    Gap,
}

impl Jittered {
    /// Names in files.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("delay", Self::Delay),
        ("ordered-delay", Self::Order),
        ("gap", Self::Gap),
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        let own = Self::NAMES.iter().find(|(_, other)| *other == self);
        own.map_or("", |(name, _)| name)
    }
}

/// An application that hands datagrams to a sender, and that sender.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// Which datagram leaves next.
    pub policy: AnyPolicy,
    /// When it may leave.
    pub rate: rate::Config,
    /// Queue limit.
    pub queue: send::Config,
    /// From the creation of a datagram until it is of no use any more.
    pub deadline: Duration,
    /// Headers of a packet, from the IP header on.
    pub headers: Bytes,
    /// The sender's timers run out at multiples of this only; `None`: at any time.
    pub tick: Option<Duration>,
    /// ECN field of its packets.
    pub ecn: Ecn,
    /// Whether the sender knows which datagrams are one frame, and drops all of it with one; frames of a trace then come to it as a whole,
    /// with those that they depend on.
    pub whole_frames: bool,
    /// From when to when, after the flow's start, classes with a clock make nothing.
    pub pause: Option<[Duration; 2]>,
    /// Classes of the application, the most important first.
    pub classes: Vec<Class>,
}

/// Datagrams of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// `audio`, `video`, `stream`.
    pub name: &'static str,
    /// Their sizes and times.
    pub traffic: Traffic,
}

/// Traffic of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Datagrams of one size at even times.
    Even {
        /// Size of each.
        payload: Bytes,
        /// From one to the next.
        period: Duration,
    },
    /// Frames of random sizes at even times, each cut in datagrams that are handed over at once.
    Frames {
        /// From one to the next.
        period: Duration,
        /// The largest datagram.
        largest: Bytes,
        /// One after the other, then again; one at least.
        scenes: Vec<Scene>,
        /// Where the encoder follows the sender's target: from the least to the most that it makes.
        follows: Option<[Rate; 2]>,
    },
    /// Frames of an encoder at even times, in the order of coding, each cut in datagrams that are handed over at once. A `P` depends on
    /// the last frame that is no `B`, a `B` on the last two of those, an `I` on none.
    Coded {
        /// From one to the next.
        period: Duration,
        /// The largest datagram.
        largest: Bytes,
        /// Kinds and sizes, repeated after the last; the first is an `I`. It begins at any `I`, by chance.
        frames: Arc<[Frame]>,
        /// As for `Frames`; sizes are scaled.
        follows: Option<[Rate; 2]>,
        /// Frames that are an `I`.
        keyframes: Keyframes,
    },
    /// There is always another datagram.
    Always {
        /// Size of each.
        payload: Bytes,
    },
}

/// Keyframes of an encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keyframes {
    /// The keyframes of the trace alone.
    #[default]
    Trace,
    /// The keyframes of the trace, and one of their mean size after each frame that the sender drops, a second or more after the last.
    OnRefusal,
}

impl Keyframes {
    /// Names in files.
    pub const NAMES: [&'static str; 2] = ["trace", "on-refusal"];
}

impl Traffic {
    /// From a frame, or a datagram that is one, to the next.
    pub fn period(&self) -> Option<Duration> {
        match self {
            Self::Even { period, .. }
            | Self::Frames { period, .. }
            | Self::Coded { period, .. } => Some(*period),
            Self::Always { .. } => None,
        }
    }

    /// Mean rate of the payload, where it is the application's; that of an encoder that follows a target as if it did not.
    pub fn mean_bps(&self) -> Option<f64> {
        match self {
            Self::Even { payload, period } => {
                Some(payload.get() as f64 * 8.0 / period.as_secs_f64())
            }
            Self::Frames { period, scenes, .. } => {
                let seconds: f64 = scenes.iter().map(|scene| scene.length.as_secs_f64()).sum();
                let weighed = scenes
                    .iter()
                    .map(|scene| scene.mean.get() as f64 * scene.length.as_secs_f64());
                Some(weighed.sum::<f64>() / seconds * 8.0 / period.as_secs_f64())
            }
            Self::Coded { period, frames, .. } => {
                let bytes: u64 = frames.iter().map(|frame| frame.bytes.get()).sum();
                Some(bytes as f64 / frames.len() as f64 * 8.0 / period.as_secs_f64())
            }
            Self::Always { .. } => None,
        }
    }
}

/// How large frames are for some time: Gaussian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Mean size of a frame.
    pub mean: Bytes,
    /// Standard deviation.
    pub deviation: Bytes,
    /// How long it lasts.
    pub length: Duration,
}

/// TCP, where it is a model. `None` stands for the preset's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Source of the other values.
    pub preset: Preset,
    /// Payload of a full segment.
    pub mss: Option<Bytes>,
    /// The receiver's window.
    pub window: Option<Bytes>,
    /// Congestion window at the start, in segments.
    pub initial_window: Option<u32>,
    /// How long an acknowledgement waits for a second segment; zero: not at all.
    pub delayed_ack: Option<Duration>,
    /// Least retransmission timeout.
    pub min_rto: Option<Duration>,
    /// Whether it understands marks.
    pub ecn: bool,
}

/// Model of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// A Linux host with its defaults.
    #[default]
    Linux,
    /// One-way TCP of ns-2's validation tests: 1000 B, a window of 20, no delayed acknowledgements.
    Ns2,
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

/// An IP packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// After the first packet of the capture.
    pub at: Duration,
    /// Length of the IP packet.
    pub bytes: Bytes,
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
