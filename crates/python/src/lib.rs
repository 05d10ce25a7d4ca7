// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compiled half of the Python module `makeway`, `makeway._makeway`; `python/makeway` is the other, with the names and types that
//! users see. No code of worlds with a kernel is in it: scenarios run in simulated time.
//!
//! - `scenario`: a scenario and its run; `sweep`: plans, stores, and the runs of a worker;
//! - `table`: tables as Arrow streams; `errors`: exceptions, also of a panic;
//! - `scheduler`, `sender`: a discipline and a sender by themselves;
//! - `gym`: runs that pause while a program sets a rate;
//! - `traces`: packet traces as tables.

use pyo3::prelude::*;

mod errors;
mod gym;
mod scenario;
mod scheduler;
mod sender;
mod signals;
mod sweep;
mod table;
mod traces;

#[pymodule]
mod _makeway {
    #[pymodule_export]
    use super::errors::{RunError, ScenarioError, SimulatorPanic, StoreError, TraceError};
    #[pymodule_export]
    use super::gym::{Episodes, rate_bps};
    #[pymodule_export]
    use super::scenario::{Run, Scenario};
    #[pymodule_export]
    use super::scheduler::Scheduler;
    #[pymodule_export]
    use super::sender::Sender;
    #[pymodule_export]
    use super::sweep::{Plan, Queue, Store, run_chunk};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::traces::{read_capture, read_ns2};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("OBSERVED", super::gym::NAMES.to_vec())?;
        module.add("SIMULATOR", makeway_store::CODE)
    }
}
