// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exceptions. A panic of our code becomes one too, and the process goes on.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use makeway_store::outputs::OutputError;
use makeway_store::part::words;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    makeway,
    ScenarioError,
    PyValueError,
    "A scenario or a setting is refused: place, key, allowed values and an example."
);
create_exception!(
    makeway,
    RunError,
    PyRuntimeError,
    "The simulator cannot run the scenario."
);
create_exception!(
    makeway,
    StoreError,
    PyRuntimeError,
    "A sweep, a store or a query is refused."
);
create_exception!(
    makeway,
    TraceError,
    PyValueError,
    "A trace cannot be read: file, line or packet, what is wrong, what would be right."
);
create_exception!(
    makeway,
    SimulatorPanic,
    PyRuntimeError,
    "A bug of makeway: please report it with the scenario."
);

/// Error of a scenario.
pub fn scenario(error: impl ToString) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// Error of a sweep or a store.
pub fn store(error: makeway_store::StoreError) -> PyErr {
    match error {
        makeway_store::StoreError::Scenario(error) => scenario(error),
        makeway_store::StoreError::File { path, error } => file(&path, &error),
        other => StoreError::new_err(other.to_string()),
    }
}

/// Error of files that are opened together.
pub fn output(error: OutputError) -> PyErr {
    match error {
        OutputError::File { path, error } => file(&path, &error),
        OutputError::Same { .. } => PyValueError::new_err(error.to_string()),
    }
}

/// Error of the system about a file.
pub fn file(path: &Path, error: &io::Error) -> PyErr {
    let path = path.display().to_string();
    // OSError picks its subclass by the number: FileNotFoundError, PermissionError.
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path)),
        None => StoreError::new_err(format!("{path}: {error}")),
    }
}

/// Does `work`; a panic is [`SimulatorPanic`].
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panic) => Err(SimulatorPanic::new_err(words(&*panic))),
    }
}
