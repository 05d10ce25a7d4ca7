// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a sweep or a store is refused.

use std::io;
use std::path::{Path, PathBuf};

use makeway_scenario::ScenarioError;

/// Why a sweep or a store is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A scenario of the sweep.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The system's.
    #[error("{}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A Parquet file that cannot be read or written.
    #[error("a table is not as this program writes them: {0}")]
    Table(String),
    /// The sweep, or the query, cannot be as it is asked for.
    #[error("{0}")]
    Refused(String),
    /// One run has two results.
    #[error(
        "run {key} has two results, fingerprints {one} and {other}: the same scenario, seed, replication and code gave different events. \
         Report this as a bug, with the store"
    )]
    TwoResults {
        /// Its key.
        key: String,
        /// Fingerprint in the store.
        one: String,
        /// Fingerprint of the other.
        other: String,
    },
    /// Another version of the simulator.
    #[error(
        "this process has the simulator {here}, and the sweep was planned with {planned}: install the same build of makeway on every machine"
    )]
    OtherCode {
        /// Fingerprint in the plan.
        planned: String,
        /// Fingerprint of this process.
        here: String,
    },
    /// A worker reads another scenario.
    #[error(
        "{file}: point {point} reads otherwise here than where the sweep was planned: give every machine the same trace files under {folder}"
    )]
    OtherScenario {
        /// The scenario's name.
        file: String,
        /// Number of the point, from 0.
        point: usize,
        /// Folder from which files are named.
        folder: String,
    },
}

impl StoreError {
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Self::File {
            path: path.into(),
            error,
        }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }
}

impl From<parquet::errors::ParquetError> for StoreError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Table(error.to_string())
    }
}
