// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans, stores, and the runs of a worker elsewhere.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use makeway_sim::Options;
use makeway_store::part::{Part, Reader, Status};
use makeway_store::plan::{Axis, Detail, Job, Shard, Source};
use makeway_store::query::{self, Found};
use makeway_store::sweep::{How, Summary};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{StoreError, guarded, store as refused};
use crate::signals::Signals;
use crate::table::Table;

/// A sweep whose points have been read and checked.
#[pyclass(frozen, module = "makeway._makeway")]
pub struct Plan {
    inner: makeway_store::plan::Plan,
}

impl Plan {
    pub fn new(
        source: Source,
        axes: Vec<Axis>,
        replications: u64,
        first: u64,
        keep: &str,
    ) -> PyResult<Self> {
        let detail: Detail = keep
            .parse()
            .map_err(|error: String| PyValueError::new_err(error))?;
        let inner = makeway_store::plan::Plan::new(source, axes, replications);
        let inner = inner.and_then(|plan| plan.with_first(first));
        Ok(Self {
            inner: inner.map_err(refused)?.keeping(detail),
        })
    }
}

#[pymethods]
impl Plan {
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let inner = makeway_store::plan::Plan::from_json(text).map_err(refused)?;
        Ok(Self { inner })
    }

    fn json(&self) -> String {
        self.inner.json()
    }

    #[getter]
    fn id(&self) -> String {
        self.inner.id()
    }

    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    #[getter]
    fn axes(&self) -> Vec<(String, Vec<String>)> {
        let axes = self.inner.axes.iter();
        axes.map(|axis| (axis.key.clone(), axis.values.clone()))
            .collect()
    }

    #[getter]
    fn replications(&self) -> u64 {
        self.inner.replications
    }

    #[getter]
    fn first(&self) -> u64 {
        self.inner.first
    }

    #[getter]
    fn keep(&self) -> &'static str {
        self.inner.detail.name()
    }

    #[getter]
    fn points(&self) -> usize {
        self.inner.points()
    }

    #[getter]
    fn runs(&self) -> u64 {
        self.inner.runs()
    }
}

/// Point and replication.
type Pair = (usize, u64);

/// Runs that nobody has taken yet.
#[pyclass(frozen, module = "makeway._makeway")]
pub struct Queue {
    inner: Mutex<makeway_store::queue::Queue>,
}

#[pymethods]
impl Queue {
    #[new]
    fn new(jobs: Vec<Pair>) -> Self {
        let jobs = jobs
            .into_iter()
            .map(|(point, replication)| Job { point, replication });
        Self {
            inner: Mutex::new(makeway_store::queue::Queue::new(jobs.collect())),
        }
    }

    fn __len__(&self) -> usize {
        lock(&self.inner).len()
    }

    fn chunk(&self, seconds: f64) -> Vec<Pair> {
        let jobs = lock(&self.inner).chunk(Duration::from_secs_f64(seconds.max(0.0)));
        jobs.iter()
            .map(|job| (job.point, job.replication))
            .collect()
    }

    fn measure(&self, point: usize, seconds: f64) {
        lock(&self.inner).measure(point, Duration::from_secs_f64(seconds.max(0.0)));
    }

    fn left(&self) -> f64 {
        lock(&self.inner).left().as_secs_f64()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder of finished runs.
#[pyclass(frozen, module = "makeway._makeway")]
pub struct Store {
    inner: Mutex<makeway_store::store::Store>,
}

#[pymethods]
impl Store {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner =
            py.detach(|| guarded(|| makeway_store::store::Store::open(&path).map_err(refused)))?;
        Ok(Self {
            inner: Mutex::new(inner),
        })
    }

    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.locked()?.folder().to_owned())
    }

    #[getter]
    fn damaged(&self) -> PyResult<Vec<String>> {
        Ok(self.locked()?.damaged().to_vec())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.locked()?.len())
    }

    fn scan(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| guarded(|| self.locked()?.scan().map_err(refused)))
    }

    fn begin(&self, py: Python<'_>, plans: Vec<Py<Plan>>) -> PyResult<()> {
        let plans = inner(&plans);
        py.detach(|| guarded(|| self.locked()?.begin(&plans).map_err(refused)))
    }

    fn last(&self) -> PyResult<Plan> {
        let inner = self.locked()?.last().map_err(refused)?;
        Ok(Plan { inner })
    }

    /// Runs that each plan lacks; one that several plans have is missing in the first.
    fn missing(&self, plans: Vec<Py<Plan>>, shard: &str, again: bool) -> PyResult<Vec<Vec<Pair>>> {
        let shard = parse(shard)?;
        let of_each = self.locked()?.missing_of_each(&inner(&plans), shard, again);
        let pair = |job: &Job| (job.point, job.replication);
        Ok(of_each
            .iter()
            .map(|jobs| jobs.iter().map(pair).collect())
            .collect())
    }

    fn commit(
        &self,
        py: Python<'_>,
        runs: &[u8],
        figures: &[u8],
        reports: Option<&[u8]>,
    ) -> PyResult<()> {
        let part = Part {
            runs: runs.to_vec().into(),
            figures: figures.to_vec().into(),
            reports: reports.map(|reports| reports.to_vec().into()),
        };
        py.detach(|| guarded(|| self.locked()?.commit(&part).map_err(refused)))
    }

    /// Makes the missing runs of plans on threads; `progress` is called with what [`counts`] gives.
    fn run<'py>(
        &self,
        py: Python<'py>,
        plans: Vec<Py<Plan>>,
        workers: Option<usize>,
        shard: &str,
        again: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut how = How {
            shard: parse(shard)?,
            again,
            ..How::default()
        };
        how.workers = workers.unwrap_or(how.workers);
        let plans = inner(&plans);
        let summary = py.detach(|| {
            let mut signals = Signals::new();
            let result = guarded(|| {
                let mut store = self.locked()?;
                let go_on = |summary: &Summary| {
                    signals.go_on(|py| match &progress {
                        Some(progress) => progress.call1(py, (counts(py, summary)?,)).map(drop),
                        None => Ok(()),
                    })
                };
                makeway_store::sweep::run_all(&mut store, &plans, &how, go_on).map_err(refused)
            });
            // Ctrl-C is why the sweep ended, not another error.
            signals.result().and(result)
        })?;
        counts(py, &summary)
    }

    fn figures(&self, py: Python<'_>, plan: &Plan, values: Values) -> PyResult<Table> {
        self.query(py, plan, &values, |found| Ok(found.figures()))
    }

    fn estimates(
        &self,
        py: Python<'_>,
        plan: &Plan,
        by: Vec<String>,
        values: Values,
    ) -> PyResult<Table> {
        self.query(py, plan, &values, |found| found.estimates(&by))
    }

    fn differences(
        &self,
        py: Python<'_>,
        plan: &Plan,
        key: &str,
        base: &str,
        values: Values,
    ) -> PyResult<Table> {
        self.query(py, plan, &values, |found| found.differences(key, base))
    }

    fn reports(&self, py: Python<'_>, plan: &Plan) -> PyResult<Table> {
        py.detach(|| {
            guarded(|| {
                query::reports(&mut *self.locked()?, &plan.inner)
                    .map(Table::from)
                    .map_err(refused)
            })
        })
    }

    fn runs(&self, py: Python<'_>, plan: &Plan) -> PyResult<Table> {
        py.detach(|| {
            guarded(|| {
                query::runs(&*self.locked()?, &plan.inner)
                    .map(Table::from)
                    .map_err(refused)
            })
        })
    }
}

type Result<T> = std::result::Result<T, makeway_store::StoreError>;

/// Keys, and the values to which a query is limited.
type Values = Vec<(String, Vec<String>)>;

impl Store {
    /// An error instead of a wait: the one that holds it may be waiting for the interpreter's lock.
    fn locked(&self) -> PyResult<MutexGuard<'_, makeway_store::store::Store>> {
        match self.inner.try_lock() {
            Ok(store) => Ok(store),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(StoreError::new_err(
                "the store is in use by a sweep or a query of this process: wait for its end, or open the folder a second time",
            )),
        }
    }

    fn query(
        &self,
        py: Python<'_>,
        plan: &Plan,
        values: &[(String, Vec<String>)],
        ask: impl FnOnce(&Found<'_>) -> Result<makeway_store::table::Table> + Send,
    ) -> PyResult<Table> {
        py.detach(|| {
            guarded(|| {
                let found = Found::of_values(&*self.locked()?, &plan.inner, values);
                let found = found.map_err(refused)?;
                ask(&found).map(Table::from).map_err(refused)
            })
        })
    }
}

fn inner(plans: &[Py<Plan>]) -> Vec<&makeway_store::plan::Plan> {
    plans.iter().map(|plan| &plan.get().inner).collect()
}

fn parse(shard: &str) -> PyResult<Shard> {
    shard
        .parse()
        .map_err(|error: String| StoreError::new_err(error))
}

fn counts<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("runs", summary.runs)?;
    counts.set_item("kept", summary.kept)?;
    counts.set_item("made", summary.made)?;
    counts.set_item("failed", summary.failed)?;
    counts.set_item("busy_s", summary.busy.as_secs_f64())?;
    counts.set_item("cpu_s", summary.cpu.as_secs_f64())?;
    counts.set_item("elapsed_s", summary.elapsed.as_secs_f64())?;
    counts.set_item("workers", summary.workers)?;
    Ok(counts)
}

/// Files of a part: runs, figures, reports.
type Files<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
);

/// Makes jobs of plans, which are JSON, one after the other: the files of a part; for each plan the processor time of each run, by its
/// point, and the time of all runs by the clock, in seconds; and how many failed. For workers in other processes and on other machines,
/// whose simulator must be that of the plans.
#[pyfunction]
#[allow(clippy::type_complexity)] // a tuple of Python's
pub fn run_chunk<'py>(
    py: Python<'py>,
    work: Vec<(String, Vec<Pair>)>,
) -> PyResult<(Files<'py>, Vec<Vec<(usize, f64)>>, f64, u64)> {
    let mut times = Vec::with_capacity(work.len());
    let (mut busy, mut failed) = (0.0, 0);
    let part = py.detach(|| {
        let mut signals = Signals::new();
        let options = Options {
            stop: Arc::default(),
            ..Options::default()
        };
        let part = guarded(|| {
            let mut runs = Vec::new();
            for (json, jobs) in work {
                let plan = makeway_store::plan::Plan::from_json(&json).map_err(refused)?;
                let mut reader = Reader::new(&plan);
                let mut of_plan = Vec::with_capacity(jobs.len());
                for (point, replication) in jobs {
                    if !signals.go_on(|_| Ok(())) {
                        break;
                    }
                    let job = Job { point, replication };
                    if let Some(run) = reader.run(job, &options).map_err(refused)? {
                        of_plan.push((point, run.cpu.as_secs_f64()));
                        busy += run.wall.as_secs_f64();
                        failed += u64::from(run.status != Status::Ok);
                        runs.push(run);
                    }
                }
                times.push(of_plan);
            }
            Part::new(&runs, makeway_store::CODE).map_err(refused)
        })?;
        signals.result().map(|()| part)
    })?;
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    let reports = part.reports.as_deref().map(bytes);
    let files = (bytes(&part.runs), bytes(&part.figures), reports);
    Ok((files, times, busy, failed))
}
