// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! - [`run`]: a scenario in, a report out; [`Session`]: a run that pauses;
//! - `world`: events; `agenda`: when the next one is; `port`: a queue and its link, which
//!   sends at a rate, or (`opportune`) at the times of a trace; `flow`: two ends;
//! - [`trace`]: what happens to packets, as files that other programs read;
//! - [`tcp`]: senders and receivers of TCP, as state machines;
//! - [`wlan`]: stations that share a radio; [`aodv`]: routes over them.

mod agenda;
pub mod aodv;
mod arena;
mod build;
mod error;
mod flow;
mod opportune;
mod port;
mod run;
mod session;
mod steer;
mod step;
pub mod tcp;
pub mod trace;
pub mod wlan;
mod world;

pub use build::{Options, PHASE};
pub use error::RunError;
pub use makeway_endpoints::observe::{Amount, Delays, Observation};
pub use makeway_report::interval::Progress;
pub use run::{Outcome, run, run_in_full, run_steered, run_traced};
pub use session::{ControlError, Controlled, Session};
pub use steer::Ports;
