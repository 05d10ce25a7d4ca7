// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate and responsiveness of an access link: latency while it is idle, then under a download and under an upload, each with the rate that
//! arrives.
//!
//! Responsiveness under working conditions (draft-ietf-ippm-responsiveness), against a server of the operator's own ([`serve`]) behind the
//! link. Load: some TCP connections at once in one direction. Probe: a new connection, whose handshake is a round trip, and a request of
//! some bytes on it, another one; a sample is the mean of both. The draft's probes on the connections of the load take HTTP/2 and
//! are not made: they tell what a download does to itself.
//!
//! A download is counted as it is read here. An upload is counted as the server has read it, and says so ten times a second: a count before
//! the link would have the bytes that the link drops.
//!
//! - [`measure()`]: the client;
//! - [`serve`]: the server, and `request` the one line of a client's request;
//! - [`Lifted`]: the interface without makeway's rates for the time of a measurement;
//! - [`address`] and [`token`] of the server;
//! - `result`: figures, letter, rates that are proposed.

mod client;
mod lifted;
mod peer;
mod request;
mod result;
mod server;
mod socket;

pub use client::{LineError, Plan, Stage, measure};
pub use lifted::{LiftError, Lifted, put_back, rates};
pub use peer::{address, token};
pub use result::{Latency, Letter, Load, Measured, Phase, Probe, Proposal, on_the_wire, propose};
pub use server::{Bounds, secret, serve};
