// SPDX-License-Identifier: MIT OR Apache-2.0
//! One running gateway for each interface: started, seen, changed and stopped from other processes.
//!
//! - [`Instance`]: the running one, with its lock, its socket and the holder of its packets, see [`Backend`];
//! - [`client`]: finds instances, asks them, and cleans up after one that was killed;
//! - [`doctor`]: finds the faults that keep it from working;
//! - [`privilege`]: capabilities, checked before anything is changed.

pub mod client;
pub mod doctor;
mod engine;
mod instance;
mod offloads;
pub mod privilege;
mod server;
mod settings;
mod watchdog;

pub use crate::folder::secret;
use crate::place;
pub use crate::place::PlaceError;
pub use crate::protocol::{Backend, ParseBackendError};
pub use crate::{interface, protocol};
pub use instance::{Ending, Instance, Outcome, UpConfig, UpError};
