//! Pure packet scheduling: no clock, no I/O, no thread, no global.
//!
//! - [`units`]: instants, durations, bytes and rates as integers;
//! - [`packet`]: a packet as a scheduler sees it;
//! - [`framing`]: what a packet costs on the wire;
//! - [`sched`]: the disciplines, one file each.

pub mod framing;
pub mod packet;
pub mod sched;
pub mod units;
