// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over scenarios in simulated time, and a store of their runs.
//!
//! - [`plan`]: a scenario, the values that its keys take, replications, and the key of each run;
//! - [`listing`]: the same as a file of `makeway run --sweep`;
//! - [`sweep`]: makes the runs that a store lacks, on threads of this process; [`queue`]: in which order;
//! - [`part`]: finished runs and their files, which a worker elsewhere can make; [`keeper`]: until they are on the disk;
//! - [`store`]: a folder of parts, written and scanned so that a crash costs one part at most;
//! - [`query`]: figures, estimates and differences of a sweep;
//! - [`table`]: what these are returned as; `file`: the same as Parquet;
//! - [`outputs`]: files that are opened together, for traces of a run.

#[cfg(test)]
mod code;
mod error;
mod file;
pub mod keeper;
pub mod listing;
pub mod outputs;
pub mod part;
pub mod plan;
pub mod query;
pub mod queue;
#[cfg(test)]
mod sample;
pub mod store;
pub mod sweep;
pub mod table;

pub use error::StoreError;

/// Fingerprint of the simulator's code: the sources of its crates, and the versions of those that they use.
pub const CODE: &str = env!("MAKEWAY_SIMULATOR");
