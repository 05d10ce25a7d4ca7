// SPDX-License-Identifier: MIT OR Apache-2.0
//! One running gateway for each interface: started, seen, changed and stopped from other processes.
//!
//! - [`Instance`]: the running one, with its lock, its socket and what holds its packets, see [`Backend`];
//! - [`client`]: finds instances, asks them, and cleans up after one that was killed;
//! - [`protocol`]: the JSON lines between the two;
//! - [`interface`], [`privilege`]: what is looked at before anything is changed.

pub mod client;
mod engine;
mod instance;
pub mod interface;
mod offloads;
pub(crate) mod place;
pub mod privilege;
pub mod protocol;
mod server;
mod watchdog;

pub use engine::{Backend, ParseBackendError};
pub use instance::{Ending, Instance, Outcome, UpConfig, UpError};
pub use place::PlaceError;
