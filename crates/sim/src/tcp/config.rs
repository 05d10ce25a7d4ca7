// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of a connection: the variant, sizes, timers, options.

use makeway_core::units::{Bytes, Duration};

/// How a sender reacts to loss, and how its window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Variant {
    /// Fast retransmit, then slow start from the loss on. V. Jacobson, "Congestion Avoidance and
    /// Control", SIGCOMM 1988.
    Tahoe,
    /// Fast recovery that ends with the first new acknowledgement (RFC 5681 §3.2).
    Reno,
    /// Fast recovery that lasts until the whole window is acknowledged (RFC 6582).
    NewReno,
    /// Reno's window, recovery by selective acknowledgements (RFC 6675).
    Sack,
    /// CUBIC's window (RFC 9438), recovery as [`Variant::Sack`].
    Cubic,
    /// LEDBAT's window (RFC 6817), recovery as [`Variant::Sack`].
    Ledbat,
}

impl Variant {
    /// Congestion controls that only loss slows down.
    pub const LOSS_BASED: [Self; 5] = [
        Self::Tahoe,
        Self::Reno,
        Self::NewReno,
        Self::Sack,
        Self::Cubic,
    ];

    /// Whether the receiver says which segments arrived beyond a gap (RFC 2018).
    pub const fn uses_sack(self) -> bool {
        matches!(self, Self::Sack | Self::Cubic | Self::Ledbat)
    }
}

/// When a receiver acknowledges segments that arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DelayedAck {
    /// Each at once.
    Off,
    /// Every second segment, or a first one after this time (RFC 5681 §4.2: at most 500 ms).
    EverySecond(Duration),
}

/// Segments sent beyond the window on the first two duplicate acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitedTransmit {
    /// Nothing.
    Off,
    /// A segment each that was never sent (RFC 3042).
    New,
    /// A segment each, after a timeout one that was sent before, as ns-2 does; with selective
    /// acknowledgements as [`LimitedTransmit::New`].
    Any,
}

/// Quantity that a sender halves when a loss shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Halved {
    /// Sent and unacknowledged bytes, no more than the window: FlightSize (RFC 5681 eq. (4)).
    Outstanding,
    /// The congestion window, as ns-2 does, whether it is in use or not.
    Window,
    /// Data thought to be in the network still, less the data selectively acknowledged and the data that
    /// is lost: `pipe` of RFC 6675, as ns-3 does.
    Pipe,
}

/// How a sender with selective acknowledgements finds what is lost, and how fast it sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Lost is what three segments have arrived beyond; the window is reduced at once (RFC 6675).
    Sack,
    /// The same, but arrivals reduce the window (RFC 6937), as ns-3 does.
    SackPrr,
    /// Lost is what was sent before something that has arrived, retransmissions too; a probe before the
    /// timer expires (RFC 8985); the window as [`Recovery::SackPrr`]. So Linux does.
    RackPrr,
}

/// Both ends of a connection. A window below one segment counts as one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How the sender reacts to loss.
    pub variant: Variant,
    /// Payload of a full segment, in bytes (SMSS); at least 1.
    pub mss: u32,
    /// Congestion window at the start and after idle time, in segments.
    pub initial_window: u32,
    /// Slow start threshold at the start.
    pub initial_ssthresh: Bytes,
    /// The window that the receiver advertises; at most 4 GiB.
    pub window: Bytes,
    /// Full segments that one acknowledgement may count for in the growth of Reno's window, and of
    /// any window in slow start: L of RFC 3465 §2.2, 1 in RFC 5681 eq. (2).
    pub growth_limit: u32,
    /// Whether the window is counted in whole segments, as Linux does: it grows by one when as many
    /// are acknowledged as it takes, and a reduction leaves no fraction.
    pub whole_segments: bool,
    /// Whether the window grows by data not known to have arrived, and so by what ends a recovery
    /// by selective acknowledgements too (Linux, `tcp_cong_control`); else by what is acknowledged,
    /// outside of those.
    pub counts_delivered: bool,
    /// Use of selective acknowledgements.
    pub recovery: Recovery,
    /// Whether CUBIC, once its Reno-friendly window has reached the window before the loss, lets it grow
    /// as Reno's (RFC 9438 §4.3); Linux does not.
    pub cubic_catches_up: bool,
    /// Whether CUBIC's slow start ends when round trips grow (HyStart).
    pub hystart: bool,
    /// Quantity halved at a loss; after a timeout never the pipe.
    pub halved: Halved,
    /// When the receiver acknowledges.
    pub delayed_ack: DelayedAck,
    /// Acknowledgements that are not delayed at the start of a connection, after a segment that has
    /// arrived before, and after `min_rto` of silence: Linux's quick acknowledgements, of which it has 16
    /// (`TCP_MAX_QUICKACKS`, `tcp_enter_quickack_mode` in `net/ipv4/tcp_input.c`).
    pub quick_acks: u32,
    /// Retransmission timeout before the first measurement.
    pub initial_rto: Duration,
    /// Least retransmission timeout.
    pub min_rto: Duration,
    /// Largest retransmission timeout, backed off included.
    pub max_rto: Duration,
    /// Least distance of the timeout from the smoothed round-trip time: Linux keeps `4 * RTTVAR`
    /// at its least timeout or above; zero in RFC 6298.
    pub min_rto_margin: Duration,
    /// Granularity of the sender's clock, G of RFC 6298; zero for one nanosecond.
    pub tick: Duration,
    /// Whether segments carry timestamps (RFC 7323), so that every acknowledgement measures; without
    /// them one segment is timed at a time, and none that was sent twice (Karn, RFC 6298 §3).
    pub timestamps: bool,
    /// Segments sent on the first two duplicate acknowledgements.
    pub limited_transmit: LimitedTransmit,
    /// Whether marks are echoed, and taken for losses (RFC 3168).
    pub ecn: bool,
}

impl Config {
    /// One-way TCP of ns-2.35 as its validation tests have it: segments of 1000 B (headers are the
    /// caller's affair), a window of 20, half of the window after a loss, an acknowledgement for each segment, a clock of 0.1 s,
    /// timeouts of 1 to 64 s, and a window of 1 to start with.
    ///
    /// The package's own defaults are newer: clock 0.01 s, least timeout 0.2 s, initial window 2,
    /// limited transmit.
    pub const fn ns2(variant: Variant) -> Self {
        Self {
            variant,
            mss: 1000,
            initial_window: 1,
            initial_ssthresh: Bytes::new(20_000),
            window: Bytes::new(20_000),
            growth_limit: 1,
            whole_segments: false,
            counts_delivered: false,
            recovery: Recovery::Sack,
            cubic_catches_up: true,
            hystart: false,
            halved: Halved::Window,
            delayed_ack: DelayedAck::Off,
            quick_acks: 0,
            initial_rto: Duration::from_secs(6),
            min_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(64),
            min_rto_margin: Duration::ZERO,
            tick: Duration::from_millis(100),
            timestamps: false,
            limited_transmit: LimitedTransmit::Off,
            ecn: false,
        }
    }

    /// A Linux host with its defaults on Ethernet: MSS 1448 with timestamps, initial window 10
    /// (RFC 6928), delayed acknowledgements after 40 ms, timeouts of 200 ms to 120 s
    /// (`include/net/tcp.h`), a window of half of `net.ipv4.tcp_rmem`'s 6 MiB.
    pub const fn linux(variant: Variant) -> Self {
        Self {
            variant,
            mss: 1448,
            initial_window: 10,
            initial_ssthresh: Bytes::new(u64::MAX),
            window: Bytes::new(3 << 20),
            // Without selective acknowledgements an acknowledgement says too much at once.
            growth_limit: if variant.uses_sack() { u32::MAX } else { 2 },
            whole_segments: true,
            counts_delivered: true,
            recovery: Recovery::RackPrr,
            cubic_catches_up: false,
            hystart: true,
            halved: Halved::Window,
            delayed_ack: DelayedAck::EverySecond(Duration::from_millis(40)),
            quick_acks: 16,
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(120),
            min_rto_margin: Duration::from_millis(200),
            tick: Duration::ZERO,
            timestamps: true,
            limited_transmit: LimitedTransmit::New,
            ecn: false,
        }
    }

    /// The advertised window in bytes, at least a segment.
    pub(super) fn window_bytes(&self) -> u32 {
        let window = u32::try_from(self.window.get()).unwrap_or(u32::MAX);
        window.max(self.mss)
    }

    /// Separate ranges that a window of full segments can fall into, within bounds chosen by us.
    pub(super) fn most_ranges(&self) -> usize {
        let segments = self.window_bytes() / self.mss.max(1);
        (segments as usize / 2 + 2).clamp(8, 1 << 16)
    }
}
