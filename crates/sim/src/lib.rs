//! The world `sim`: virtual time, simulated packets. No clock, no I/O, no thread, no global.
//!
//! - [`tcp`]: senders and receivers of TCP, as state machines.

pub mod tcp;
