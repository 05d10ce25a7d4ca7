// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets: the share of a link that a flow should have, carried by its packets.
//!
//! Source: M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, "Probabilistic Packet Scheduling: Achieving
//! Proportional Share Bandwidth Allocation", Princeton TR-632-01, 2001, section 2. The discipline that
//! drops by tickets is [`crate::sched::tred`].
//!
//! | paper | here |
//! | --- | --- |
//! | `OutTktRate`, t/s issued to a source or a link | [`TicketRate`] |
//! | `InTkt`, `OutTkt`, tickets of a packet | [`Tickets`]; as the packet carries them, a [`Tag`](crate::packet::Tag) |
//! | TSW, `WinLength`, `AvgRate` (2.3) | [`Tsw`] |
//! | tagging at the source (2.3), policing there (2.8) | [`Tagger`] |
//! | relabelling at a link by `XRate` (2.5), policing there (2.8) | [`Relabeller`] |
//! | `AckOutTktRate`, `AckInTktRate` (2.7) | a [`Tagger`] of [`ACK`]s at the sink; what [`Tagger::hear`] and [`Relabeller::hear`] make of it |
//! | tag bits (3.9) | [`Codec`] |
//!
//! Beside them the other things that tags say: in or out of a profile ([`Meter`]), a flow's rate ([`label`]).
//!
//! Departure from the paper: tickets are counted for each 1000 bytes on the wire and not for each packet. A
//! packet's tickets are those of its bytes, so that a flow's share is one of the link's bytes for every size of its
//! packets; counted by packets, a flow of 100 B packets would be due a tenth of what its tickets say. For
//! packets of 1000 B, the usual ones of ns-2, the two are the same numbers. Acknowledgements are all counted as if of
//! that length.

mod codec;
mod exponential;
pub mod label;
mod profile;
mod relabel;
mod tagger;
mod tsw;

pub use codec::{Codec, CodecError, Scale};
pub use exponential::Exponential;
pub use profile::{IN, Meter, OUT};
pub use relabel::Relabeller;
pub use tagger::Tagger;
pub use tsw::Tsw;

use crate::units::Bytes;
use core::fmt;

/// Size of an acknowledgement of any length: one packet.
pub const ACK: Bytes = Bytes::new(1000);

/// Tickets for each 1000 bytes of a packet, from 0 to 65535 in steps of 2^-16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tickets(u32);

impl Tickets {
    /// Bits behind the binary point.
    pub const BITS: u32 = 16;
    /// As many as can be said.
    pub const MAX: Self = Self(u32::MAX);

    /// `n` tickets for each 1000 bytes.
    pub const fn new(n: u16) -> Self {
        Self((n as u32) << Self::BITS)
    }

    /// From steps of 2^-16; [`Tickets::MAX`] if that is more than can be said.
    pub fn from_scaled(scaled: u128) -> Self {
        Self(u32::try_from(scaled).unwrap_or(u32::MAX))
    }

    /// In steps of 2^-16.
    pub const fn scaled(self) -> u32 {
        self.0
    }

    /// Tickets of a packet of `len`, in steps of 2^-16 / 1000.
    pub fn of(self, len: Bytes) -> u64 {
        u64::from(self.0).saturating_mul(len.get())
    }

    /// As a float, for reports.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(1u32 << Self::BITS)
    }
}

/// Tickets per second that are issued to a source or to a link: 1 to 1 000 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketRate(u32);

impl TicketRate {
    /// As many as may be issued; chosen by us.
    pub const MOST: u32 = 1_000_000;

    /// `n` tickets per second, if that is from 1 to [`TicketRate::MOST`].
    pub const fn new(n: u32) -> Option<Self> {
        if n >= 1 && n <= Self::MOST {
            Some(Self(n))
        } else {
            None
        }
    }

    /// Tickets per second.
    pub const fn per_second(self) -> u32 {
        self.0
    }

    /// Tickets issued by the rate in the window of `tsw`, in the steps of [`Tickets::of`].
    fn in_window(self, tsw: &Tsw) -> u128 {
        const STEPS: u128 = 1000 << Tickets::BITS;
        u128::from(self.0) * STEPS * u128::from(tsw.window().as_nanos()) / 1_000_000_000
    }
}

/// How many tickets may be written.
#[derive(Clone, Debug)]
enum Due {
    /// Tickets per second: `OutTktRate`.
    Issued(TicketRate),
    /// As many as come back on acknowledgements: `AckInTktRate`.
    Heard(Tsw),
}

impl Due {
    /// In the window of `tsw`, in the steps of [`Tickets::of`].
    fn in_window(&self, tsw: &Tsw) -> u128 {
        match self {
            Self::Issued(rate) => rate.in_window(tsw),
            Self::Heard(heard) => heard.in_window() >> Tsw::BITS,
        }
    }
}

impl fmt::Display for TicketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tickets/s", self.0)
    }
}

/// `tickets × out / rate`, where `out` is in the window of `rate`; as they are while `rate` has seen none.
fn scale(tickets: Tickets, out: u128, rate: &Tsw) -> Tickets {
    // Below 2^(32 + 58 + 16): an hour of a million tickets a second.
    let scaled = (u128::from(tickets.scaled()) * out) << Tsw::BITS;
    match scaled.checked_div(rate.in_window()) {
        Some(scaled) => Tickets::from_scaled(scaled),
        None => tickets,
    }
}
