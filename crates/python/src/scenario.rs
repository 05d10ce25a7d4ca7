// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario, and a run of it: in simulated time, or read from the report of the program.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use makeway_report::model::{FlowReport, QueueReport, Report};
use makeway_report::{flent, html, json, table};
use makeway_scenario::wire::PORTS;
use makeway_sim::trace::{Recorder, Taps};
use makeway_sim::{Options, Outcome, Progress, Session, run_in_full, run_traced};
use makeway_store::outputs;
use makeway_store::part::figures;
use makeway_store::plan::{Axis, Source, digest};
use makeway_store::table::{Column, Table as Columns};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{RunError, guarded, output, scenario as refused, store as store_error};
use crate::signals::Signals;
use crate::sweep::Plan;
use crate::table::Table;

/// A scenario with its settings, read and checked.
#[pyclass(frozen, module = "makeway._makeway")]
pub struct Scenario {
    source: Source,
    model: Arc<makeway_scenario::Scenario>,
}

impl Scenario {
    fn new(source: Source) -> PyResult<Self> {
        guarded(|| {
            let model = Arc::new(source.read(&[]).map_err(store_error)?);
            Ok(Self { source, model })
        })
    }

    /// Traces of a run: whether as text of ns-2 (otherwise as pcapng), a link or an end of one (empty: all), and the file.
    fn recorder(&self, traces: Vec<(bool, String, PathBuf)>) -> PyResult<Option<Recorder>> {
        if traces.is_empty() {
            return Ok(None);
        }
        let model = &*self.model;
        let mut recorder = Recorder::new(model);
        let found = traces.into_iter().map(|(is_text, place, path)| {
            let taps = match place.as_str() {
                "" => Taps::everywhere(model),
                place => Taps::find(model, place).map_err(refused)?,
            };
            if !is_text && model.flows.len() > PORTS {
                return Err(refused(format!(
                    "a capture distinguishes at most {PORTS} flows by their ports: this scenario has {} flows",
                    model.flows.len()
                )));
            }
            Ok((is_text, taps, path))
        });
        // No file is made or emptied where something of another one is wrong.
        let found = found.collect::<PyResult<Vec<_>>>()?;
        guarded(|| {
            let session = Session::new(Arc::clone(&self.model), Options::default());
            session.map_err(|error| RunError::new_err(error.to_string()))
        })?;
        let paths: Vec<&Path> = found.iter().map(|(_, _, path)| path.as_path()).collect();
        let files = outputs::open(&paths).map_err(output)?;
        for ((is_text, taps, path), out) in found.iter().zip(files) {
            let out = Box::new(BufWriter::with_capacity(1 << 18, out));
            let name = path.display().to_string();
            if *is_text {
                recorder.ns2(model, taps, name, out);
            } else {
                (recorder.pcapng(model, taps, name, out))
                    .map_err(|error| RunError::new_err(error.to_string()))?;
            }
        }
        Ok(Some(recorder))
    }

    /// Its meaning.
    pub fn model(&self) -> Arc<makeway_scenario::Scenario> {
        Arc::clone(&self.model)
    }
}

#[pymethods]
impl Scenario {
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        Self::new(Source::load(&path, &[]).map_err(store_error)?)
    }

    #[staticmethod]
    fn parse(text: String, file: String, folder: PathBuf) -> PyResult<Self> {
        let folder = std::path::absolute(folder)?;
        Self::new(Source {
            file,
            folder,
            text,
            set: Vec::new(),
        })
    }

    /// With more `KEY=VALUE`.
    fn set(&self, settings: Vec<String>) -> PyResult<Self> {
        let mut source = self.source.clone();
        source.set.extend(settings);
        Self::new(source)
    }

    #[getter]
    fn title(&self) -> &str {
        &self.model.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.model.seed
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.model.duration.as_secs_f64()
    }

    #[getter]
    fn settings(&self) -> Vec<String> {
        self.source.set.clone()
    }

    /// Text, name and folder, from which [`Scenario::parse`] and the settings make it again.
    #[getter]
    fn source(&self) -> (&str, &str, &Path) {
        (&self.source.text, &self.source.file, &self.source.folder)
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        makeway_scenario::warnings(&self.model)
    }

    #[getter]
    fn digest(&self) -> String {
        digest(&self.model)
    }

    fn explain(&self) -> String {
        makeway_scenario::explain(&self.model)
    }

    fn run(
        &self,
        py: Python<'_>,
        replication: u64,
        traces: Vec<(bool, String, PathBuf)>,
    ) -> PyResult<Run> {
        let recorder = self.recorder(traces)?;
        py.detach(|| {
            let mut signals = Signals::new();
            let stop = Arc::new(AtomicBool::new(false));
            let options = Options {
                stop: Arc::clone(&stop),
                replication,
                ..Options::default()
            };
            let outcome = guarded(|| {
                let progress = |_: Progress| {
                    if !signals.go_on(|_| Ok(())) {
                        stop.store(true, Ordering::Relaxed);
                    }
                };
                let outcome = match recorder {
                    None => run_in_full(&self.model, &options, progress),
                    Some(recorder) => run_traced(&self.model, &options, recorder, progress),
                };
                outcome.map_err(|error| RunError::new_err(error.to_string()))
            })?;
            signals.result()?;
            Ok(Run::new(outcome, &self.model, replication))
        })
    }

    /// A run of it in another world, from the JSON that the program printed.
    fn read(&self, text: &str, replication: u64) -> PyResult<Run> {
        let report = json::from_json(text);
        let mut report = report.map_err(|error| RunError::new_err(error.to_string()))?;
        // It may have been run from a file of another name, with a seed of its own.
        report.title.clone_from(&self.model.title);
        report.set.clone_from(&self.model.set);
        Ok(Run::of(report, &self.model, replication))
    }

    fn plan(
        &self,
        py: Python<'_>,
        axes: Vec<(String, Vec<String>)>,
        replications: u64,
        first: u64,
        keep: &str,
    ) -> PyResult<Plan> {
        let axes = axes
            .into_iter()
            .map(|(key, values)| Axis { key, values })
            .collect();
        py.detach(|| guarded(|| Plan::new(self.source.clone(), axes, replications, first, keep)))
    }
}

/// A finished run.
#[pyclass(frozen, module = "makeway._makeway")]
pub struct Run {
    report: Report,
    /// Nodes of each flow's sender and receiver.
    ends: Vec<[String; 2]>,
    #[pyo3(get)]
    replication: u64,
    /// None where a run is not the same twice.
    fingerprint: Option<u64>,
    #[pyo3(get)]
    hops: u64,
}

impl Run {
    /// Run of a scenario and of one of its replications.
    pub fn new(outcome: Outcome, scenario: &makeway_scenario::Scenario, replication: u64) -> Self {
        let mut report = outcome.report;
        report.warnings.extend(makeway_scenario::warnings(scenario));
        Self {
            fingerprint: Some(outcome.fingerprint),
            hops: outcome.hops,
            ..Self::of(report, scenario, replication)
        }
    }

    /// Run of a report that has all of its warnings.
    fn of(report: Report, scenario: &makeway_scenario::Scenario, replication: u64) -> Self {
        Self {
            report,
            ends: (scenario.ends().into_iter())
                .map(|ends| ends.map(String::from))
                .collect(),
            replication,
            fingerprint: None,
            hops: 0,
        }
    }
}

#[pymethods]
impl Run {
    /// The same for the same scenario, seed and replication, on every machine; empty in a world where no run is the same twice.
    #[getter]
    fn fingerprint(&self) -> String {
        let digits = self.fingerprint.map(|one| format!("{one:016x}"));
        digits.unwrap_or_default()
    }

    #[getter]
    fn world(&self) -> &str {
        &self.report.world
    }

    #[getter]
    fn title(&self) -> &str {
        &self.report.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.report.seed
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.report.warnings.clone()
    }

    #[getter]
    fn flows(&self) -> Table {
        flows(&self.report.flows).into()
    }

    #[getter]
    fn classes(&self) -> Table {
        classes(&self.report.flows).into()
    }

    #[getter]
    fn queues(&self) -> Table {
        queues(&self.report.queues).into()
    }

    #[getter]
    fn figures(&self) -> Table {
        let figures = figures(&self.report);
        let table = Columns::default()
            .with(
                "of",
                figures.iter().map(|(of, ..)| Some(of.as_str())).collect(),
            )
            .with(
                "figure",
                figures.iter().map(|(_, figure, _)| Some(*figure)).collect(),
            )
            .with(
                "value",
                Column::Real(figures.iter().map(|(.., value)| *value).collect()),
            );
        table.into()
    }

    fn series(&self, figure: Option<&str>) -> Table {
        series(&self.report, figure).into()
    }

    fn json(&self) -> String {
        json::to_json(&self.report)
    }

    fn html(&self) -> String {
        html::run(&self.report)
    }

    /// As a data file of flent of the name `file`.
    fn flent(&self, client: Option<&str>, file: &str) -> PyResult<String> {
        let ends = self.ends.iter();
        let ends: Vec<[&str; 2]> = ends
            .map(|[from, to]| [from.as_str(), to.as_str()])
            .collect();
        flent::to_json(&self.report, &ends, client, file)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn __str__(&self) -> String {
        table::run(&self.report)
    }
}

type Real<T> = fn(&T) -> Option<f64>;
type Whole<T> = fn(&T) -> Option<u64>;

fn flows(flows: &[FlowReport]) -> Columns {
    let text = |word: fn(&FlowReport) -> &str| {
        flows
            .iter()
            .map(|flow| Some(word(flow)))
            .collect::<Column>()
    };
    let mut table = Columns::default()
        .with("name", text(|flow| &flow.name))
        .with("group", text(|flow| &flow.group))
        .with("kind", text(|flow| &flow.kind));
    let whole: [(&str, Whole<FlowReport>); 3] = [
        ("sent", |flow| Some(flow.datagrams.as_ref()?.sent)),
        ("received", |flow| Some(flow.datagrams.as_ref()?.received)),
        ("tasks_done", |flow| Some(flow.tasks.as_ref()?.done)),
    ];
    for (name, number) in whole {
        let values = flows
            .iter()
            .map(|flow| number(flow).and_then(|n| i64::try_from(n).ok()));
        table = table.with(name, Column::Whole(values.collect()));
    }
    let real: [(&str, Real<FlowReport>); 17] = [
        ("goodput_bps", |flow| Some(flow.goodput_bps)),
        ("ip_bps", |flow| flow.ip_bps),
        ("loss", |flow| Some(flow.datagrams.as_ref()?.loss)),
        ("on_time", |flow| Some(flow.datagrams.as_ref()?.on_time)),
        ("delay_mean_ms", |flow| {
            Some(flow.datagrams.as_ref()?.delay_ms.mean)
        }),
        ("delay_p50_ms", |flow| {
            Some(flow.datagrams.as_ref()?.delay_ms.p50)
        }),
        ("delay_p99_ms", |flow| {
            Some(flow.datagrams.as_ref()?.delay_ms.p99)
        }),
        ("delay_max_ms", |flow| {
            Some(flow.datagrams.as_ref()?.delay_ms.max)
        }),
        ("ipdv_mean_ms", |flow| {
            Some(flow.datagrams.as_ref()?.ipdv_ms.mean)
        }),
        ("ipdv_p99_ms", |flow| {
            Some(flow.datagrams.as_ref()?.ipdv_ms.p99)
        }),
        ("queueing_mean_ms", |flow| Some(flow.queueing?.mean_ms)),
        ("queueing_p99_ms", |flow| Some(flow.queueing?.p99_ms)),
        ("task_mean_ms", |flow| {
            Some(
                flow.tasks
                    .filter(|tasks| tasks.done > 0)?
                    .completion_ms
                    .mean,
            )
        }),
        ("task_max_ms", |flow| {
            Some(flow.tasks.filter(|tasks| tasks.done > 0)?.completion_ms.max)
        }),
        ("mouth_to_ear_ms", |flow| Some(flow.voice?.mouth_to_ear_ms)),
        ("r_factor", |flow| Some(flow.voice?.r_factor)),
        ("mos", |flow| Some(flow.voice?.mos)),
    ];
    for (name, number) in real {
        table = table.with(name, Column::Real(flows.iter().map(number).collect()));
    }
    table
}

/// Classes of media flows.
fn classes(flows: &[FlowReport]) -> Columns {
    let media = flows
        .iter()
        .filter_map(|flow| Some((flow, flow.media.as_ref()?)));
    let rows: Vec<_> = media
        .flat_map(|(flow, media)| media.classes.iter().map(move |class| (flow, class)))
        .collect();
    let whole = |number: fn(&makeway_report::model::ClassReport) -> u64| {
        Column::Whole(
            rows.iter()
                .map(|(_, class)| i64::try_from(number(class)).ok())
                .collect(),
        )
    };
    let real = |number: Real<makeway_report::model::ClassReport>| {
        Column::Real(rows.iter().map(|(_, class)| number(class)).collect())
    };
    Columns::default()
        .with(
            "flow",
            rows.iter()
                .map(|(flow, _)| Some(flow.name.as_str()))
                .collect(),
        )
        .with(
            "class",
            rows.iter()
                .map(|(_, class)| Some(class.name.as_str()))
                .collect(),
        )
        .with("offered", whole(|class| class.offered))
        .with("sent", whole(|class| class.sent))
        .with("expired", whole(|class| class.expired))
        .with("evicted", whole(|class| class.evicted))
        .with("too_large", whole(|class| class.too_large))
        .with("received", whole(|class| class.received))
        .with("on_time", real(|class| class.on_time_share()))
        .with("delay_mean_ms", real(|class| Some(class.delay_ms.mean)))
        .with("delay_p99_ms", real(|class| Some(class.delay_ms.p99)))
        .with("shown", real(|class| class.shown_share()))
        .with("freezes", real(|class| Some(class.freezes?.count as f64)))
        .with("frozen_s", real(|class| Some(class.freezes?.seconds)))
}

fn queues(queues: &[QueueReport]) -> Columns {
    let text = |word: fn(&QueueReport) -> &str| {
        queues
            .iter()
            .map(|queue| Some(word(queue)))
            .collect::<Column>()
    };
    let mut table = Columns::default()
        .with("name", text(|queue| &queue.name))
        .with("discipline", text(|queue| &queue.discipline));
    let whole: [(&str, Whole<QueueReport>); 6] = [
        ("rate_bps", |queue| Some(queue.rate_bps)),
        ("packets_in", |queue| Some(queue.packets_in)),
        ("packets_out", |queue| Some(queue.packets_out)),
        ("dropped", |queue| Some(queue.dropped())),
        ("lost", |queue| {
            Some(queue.drops.get("loss").copied().unwrap_or(0))
        }),
        ("marks", |queue| Some(queue.marks)),
    ];
    for (name, number) in whole {
        let values = queues
            .iter()
            .map(|queue| number(queue).and_then(|n| i64::try_from(n).ok()));
        table = table.with(name, Column::Whole(values.collect()));
    }
    let real: [(&str, Real<QueueReport>); 6] = [
        ("throughput_bps", |queue| Some(queue.throughput_bps)),
        ("utilisation", |queue| {
            (queue.rate_bps > 0).then_some(queue.utilisation)
        }),
        ("sojourn_mean_ms", |queue| Some(queue.sojourn_ms?.mean)),
        ("sojourn_p50_ms", |queue| Some(queue.sojourn_ms?.p50)),
        ("sojourn_p99_ms", |queue| Some(queue.sojourn_ms?.p99)),
        ("sojourn_max_ms", |queue| Some(queue.sojourn_ms?.max)),
    ];
    for (name, number) in real {
        table = table.with(name, Column::Real(queues.iter().map(number).collect()));
    }
    table
}

/// A row for each step of each series: `of`, `figure`, `time_s` of the step's begin, `value`.
fn series(report: &Report, wanted: Option<&str>) -> Columns {
    let (mut of, mut figure) = (Vec::new(), Vec::new());
    let (mut time, mut value) = (Vec::new(), Vec::new());
    let mut add = |name: &str, kind: &'static str, values: &[f64], step: f64| {
        if wanted.is_none_or(|wanted| wanted == kind) {
            for (n, one) in values.iter().enumerate() {
                of.push(name.to_owned());
                figure.push(kind);
                time.push(Some(n as f64 * step));
                value.push(Some(*one));
            }
        }
    };
    for flow in &report.flows {
        let step = flow.series_step_s;
        add(&flow.name, "goodput_bps", &flow.goodput_series_bps, step);
        add(&flow.name, "loss", &flow.loss_series, step);
        add(&flow.name, "delay_ms", &flow.delay_series_ms, step);
        add(&flow.name, "tasks", &flow.tasks_series, step);
        add(&flow.name, "rate_bps", &flow.rate_series_bps, step);
    }
    for queue in &report.queues {
        add(
            &queue.name,
            "backlog",
            &queue.backlog_series,
            queue.series_step_s,
        );
    }
    Columns::default()
        .with("of", of.iter().map(|name| Some(name.as_str())).collect())
        .with("figure", figure.iter().copied().map(Some).collect())
        .with("time_s", Column::Real(time))
        .with("value", Column::Real(value))
}
