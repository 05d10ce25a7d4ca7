// SPDX-License-Identifier: MIT OR Apache-2.0
//! DCCP (RFC 4340) in user space, with CCID 2 (RFC 4341) and CCID 3 (RFC 4342).
//!
//! Bytes come in and go out, time is an argument: the owner of a socket or an interface drives a [`Connection`]. [`driver`] is a loop
//! that does, over IP by an interface of its own ([`tun`]) or over UDP ([`udp`]).

pub mod ack_vector;
pub mod connection;
pub mod driver;
pub mod feature;
pub mod kernel;
pub mod link;
pub mod option;
mod seq;
pub mod tun;
pub mod udp;
pub mod wire;

pub use connection::{Connection, Ends, Event};
pub use seq::Seq;

use makeway_core::rate;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::TfrcParams;

/// Congestion control of what an end sends (RFC 4340 §10).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Ccid {
    /// CCID 2: as TCP (RFC 4341).
    Two(Ccid2Params),
    /// CCID 3: TFRC (RFC 4342).
    Three(TfrcParams),
}

impl Ccid {
    /// Its number.
    pub const fn number(&self) -> u8 {
        match self {
            Self::Two(_) => 2,
            Self::Three(_) => 3,
        }
    }

    /// The controller.
    pub const fn rate(&self) -> rate::Config {
        match *self {
            Self::Two(params) => rate::Config::Ccid2(params),
            Self::Three(params) => rate::Config::Tfrc(params),
        }
    }
}
