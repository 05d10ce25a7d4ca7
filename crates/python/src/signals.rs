// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C during work without the interpreter's lock.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Asks the interpreter for signals, ten times a second at most.
pub struct Signals {
    next: Instant,
    error: Option<PyErr>,
}

const EVERY: Duration = Duration::from_millis(100);

impl Signals {
    /// The first question comes after a tenth of a second, so a short run asks nothing.
    pub fn new() -> Self {
        Self {
            next: Instant::now() + EVERY,
            error: None,
        }
    }

    /// Whether the work may go on; `also` is called with the lock, where it is time.
    pub fn go_on(&mut self, also: impl FnOnce(Python<'_>) -> PyResult<()>) -> bool {
        if self.error.is_none() && Instant::now() >= self.next {
            self.next = Instant::now() + EVERY;
            self.error = Python::attach(|py| py.check_signals().and_then(|()| also(py))).err();
        }
        self.error.is_none()
    }

    /// `KeyboardInterrupt`, if it came.
    pub fn result(self) -> PyResult<()> {
        self.error.map_or(Ok(()), Err)
    }
}
