// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world netns: scenarios over real kernel TCP in network namespaces.
//!
//! - [`run`]: a scenario in, a report out;
//! - [`namespace`]: namespaces by file descriptor, user namespaces;
//! - [`topology`], [`network`]: addresses, veth pairs and routes;
//! - [`media`]: a real clip instead of a trace.

mod bulk;
pub mod clip;
mod clock;
mod datagram;
mod egress;
pub mod namespace;
pub mod network;
pub mod offload;
mod options;
mod qdisc;
mod results;
mod run;
mod sender;
mod steer;
mod tags;
pub mod topology;

pub use datagram::Content;
pub use egress::QueueError;
pub use makeway_report::interval::Progress;
pub use namespace::{UserNamespaceError, enter_user_namespace};
pub use qdisc::kinds;
pub use results::{LATEST_MS, STALL_MS, lateness};
pub use run::{
    Arrivals, Backend, Options, Outcome, RunError, check, run, run_in_full, run_steered,
};
pub use steer::Ports;
