// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP-friendly rate control: the rate of TCP at the same loss event rate and RTT, without its halvings.
//!
//! Source: S. Floyd, M. Handley, J. Padhye, J. Widmer, "TCP Friendly Rate Control (TFRC): Protocol Specification", RFC 5348,
//! 2008; before it RFC 3448, 2003. With DCCP it is CCID 3 (RFC 4342).
//!
//! - [`equation`]: the throughput equation, §3.1;
//! - [`sender`](Tfrc): §4;
//! - `faster_restart`: a draft's variant;
//! - `losses`, [`history`]: §5;
//! - [`receiver`](TfrcReceiver): §6;
//! - [`window`]: CCID 3's window counter.

pub mod equation;
mod faster_restart;
pub mod history;
mod losses;
mod params;
mod receiver;
mod sender;
pub mod window;

pub use params::{Revision, SegmentSize, TfrcParams};
pub use receiver::TfrcReceiver;
pub use sender::Tfrc;
