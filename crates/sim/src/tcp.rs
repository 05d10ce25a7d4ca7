// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP as two state machines that are told the time, the segments and the acknowledgements.
//!
//! Data flows one way, from a [`Sender`] to a [`Receiver`]; there is no handshake and no end of the
//! connection. Both allocate when they are made, and later only where more gaps are open at once than
//! ever before, within a bound. How to drive them:
//!
//! 1. [`Sender::send`] gives the sender bytes; then [`Sender::poll_transmit`] until it returns nothing.
//! 2. A segment that arrives goes to [`Receiver::on_segment`], and what that returns back to
//!    [`Sender::on_ack`], after which the sender is polled again.
//! 3. At [`Sender::next_timeout`] call [`Sender::on_timeout`], and poll; the same for the receiver.
//!    These times move with every segment: early calls are harmless, so a world may keep one event
//!    for each and ask again when it comes.
//!
//! | subject | source | in |
//! | --- | --- | --- |
//! | slow start, congestion avoidance, fast retransmit, Reno | RFC 5681 | `congestion`, `sender` |
//! | NewReno's partial acknowledgements and `recover` | RFC 6582 | `sender::loss` |
//! | recovery by selective acknowledgements | RFC 6675, RFC 2018 | `scoreboard`, `sender::loss` |
//! | losses by the order of sending, tail loss probes | RFC 8985 | `rack`, `sender::loss`, `sender::timer` |
//! | proportional rate reduction | RFC 6937 | `prr` |
//! | CUBIC | RFC 9438 | `congestion::cubic` |
//! | HyStart | Ha, Rhee 2011, as in Linux | `congestion::hystart` |
//! | retransmission timer, timestamps | RFC 6298, RFC 7323 | `makeway_core::rate::rto` |
//! | limited transmit | RFC 3042 | `sender` |
//! | congestion marks | RFC 3168 | `sender::acks`, `receiver` |
//! | delayed acknowledgements | RFC 5681 §4.2 | `receiver` |
//!
//! Not modelled: connection set-up and end, Nagle's algorithm, zero windows (the receiving
//! application reads at once), reneging receivers, and of Linux the undoing of needless steps
//! (F-RTO, Eifel, duplicate selective acknowledgements) and pacing.

mod config;
mod congestion;
mod prr;
mod rack;
mod ranges;
mod receiver;
mod scoreboard;
mod segment;
mod sender;

pub use config::{Config, DelayedAck, Halved, LimitedTransmit, Recovery, Variant};
pub use receiver::Receiver;
pub use segment::{Ack, SackBlocks, Segment};
pub use sender::{Sender, Stats};
