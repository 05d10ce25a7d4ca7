// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finished runs and the files that hold some of them: a part. `runs` has a row for each run, `figures` one for each figure of each run,
//! `reports` one for each run of which the report is kept.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use bytes::Bytes;
use makeway_report::model::Report;
use makeway_report::replications;
use makeway_scenario::Scenario;
use makeway_sim::{Options, run_in_full};
use rustix::time::{ClockId, clock_gettime};

use crate::error::StoreError;
use crate::file;
use crate::plan::{Detail, Job, Plan};
use crate::table::{Column, Table};

/// The note of a `runs` file that has the hash of its `figures` file.
const FIGURES: &str = "makeway.figures";
/// The same of its `reports` file, where it has one.
const REPORTS: &str = "makeway.reports";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has figures.
    Ok,
    /// The simulator refused the scenario.
    Error,
    /// A bug of the simulator.
    Panic,
}

impl Status {
    /// As the table has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Panic => "panic",
        }
    }
}

/// A finished run.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Key of the run.
    pub key: String,
    /// The scenario's title.
    pub title: String,
    /// Settings beside the file's, as a JSON object.
    pub settings: String,
    /// Seed of the scenario.
    pub seed: u64,
    /// Number of the replication.
    pub replication: u64,
    /// How it ended.
    pub status: Status,
    /// Why it has no figures.
    pub error: Option<String>,
    /// Fingerprint of its events; none of a run that failed.
    pub fingerprint: Option<u64>,
    /// Packets that came to the far end of a link.
    pub hops: u64,
    /// Processor time of the run.
    pub cpu: Duration,
    /// Its time by the clock, which the part does not have.
    pub wall: Duration,
    /// Group or queue, figure, value.
    pub figures: Vec<(String, &'static str, Option<f64>)>,
    /// The report as JSON, where more than figures is kept.
    pub report: Option<(Detail, String)>,
}

impl Finished {
    fn of<E: ToString>(
        scenario: &Scenario,
        key: String,
        replication: u64,
        detail: Detail,
        work: impl FnOnce(&Scenario) -> Result<makeway_sim::Outcome, E>,
    ) -> Option<Self> {
        let (began, since) = (cpu(), Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| work(scenario)));
        let mut run = Self {
            key,
            title: scenario.title.clone(),
            settings: serde_json::to_string(&scenario.set).expect("it holds only text"),
            seed: scenario.seed,
            replication,
            status: Status::Ok,
            error: None,
            fingerprint: None,
            hops: 0,
            cpu: cpu().saturating_sub(began),
            wall: since.elapsed(),
            figures: Vec::new(),
            report: None,
        };
        match outcome {
            Ok(Ok(outcome)) if !outcome.report.complete => return None,
            Ok(Ok(outcome)) => {
                run.fingerprint = Some(outcome.fingerprint);
                run.hops = outcome.hops;
                run.figures = figures(&outcome.report);
                run.report = kept(outcome.report, detail).map(|text| (detail, text));
            }
            Ok(Err(error)) => {
                run.status = Status::Error;
                run.error = Some(error.to_string());
            }
            Err(panic) => {
                run.status = Status::Panic;
                run.error = Some(words(&*panic));
            }
        }
        Some(run)
    }

    /// How much of it is kept.
    pub fn detail(&self) -> Detail {
        let report = self.report.as_ref();
        report.map_or(Detail::Figures, |(detail, _)| *detail)
    }
}

/// The report as JSON, as far as it is kept.
fn kept(report: Report, detail: Detail) -> Option<String> {
    let report = match detail {
        Detail::Figures => return None,
        Detail::Report => report.without_series(),
        Detail::Series => report,
    };
    Some(serde_json::to_string(&report).expect("a report holds only plain values"))
}

/// Makes a run of a scenario under this key, the replication of `options`. One that panics is finished, and has no figures.
/// `None`: `options.stop` ended it early.
pub fn make(
    scenario: &Scenario,
    key: String,
    detail: Detail,
    options: &Options,
) -> Option<Finished> {
    let work = |scenario: &Scenario| {
        #[cfg(test)]
        assert!(scenario.seed != crate::sample::PANICS, "a bug");
        run_in_full(scenario, options, |_| {})
    };
    Finished::of(scenario, key, options.replication, detail, work)
}

/// Makes runs of a plan. The scenario of the last one stays, since runs of a point often come one after the other.
pub struct Reader<'p> {
    plan: &'p Plan,
    last: Option<(usize, Scenario)>,
}

impl<'p> Reader<'p> {
    /// Reader of `plan`; nothing is read yet.
    pub fn new(plan: &'p Plan) -> Self {
        Self { plan, last: None }
    }

    /// Makes a run. One that panics is finished, and has no figures. `None`: `options.stop` ended it early.
    ///
    /// # Errors
    /// This process cannot read the scenario as it was planned.
    pub fn run(&mut self, job: Job, options: &Options) -> Result<Option<Finished>, StoreError> {
        let scenario = match self.last.take() {
            Some((point, scenario)) if point == job.point => scenario,
            _ => self.plan.scenario(job.point)?,
        };
        let options = Options {
            replication: job.replication,
            ..options.clone()
        };
        let run = make(&scenario, self.plan.key(job), self.plan.detail, &options);
        self.last = Some((job.point, scenario));
        Ok(run)
    }
}

/// Figures of a run as `makeway run --runs` has them.
pub fn figures(report: &Report) -> Vec<(String, &'static str, Option<f64>)> {
    let figures = replications::figures(report).into_iter();
    figures
        .map(|(of, figure, value)| (of, figure.key(), value))
        .collect()
}

/// The message of a panic.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".into())
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The files of some runs, before they are in a store. A worker returns it, and the driver commits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `runs/NAME.parquet`.
    pub runs: Bytes,
    /// `figures/NAME.parquet`.
    pub figures: Bytes,
    /// `reports/NAME.parquet`, where a report is kept.
    pub reports: Option<Bytes>,
}

impl Part {
    /// Part with `runs`, in their order.
    ///
    /// # Errors
    /// None that is known.
    pub fn new(runs: &[Finished], code: &str) -> Result<Self, StoreError> {
        let rows = || {
            runs.iter()
                .flat_map(|run| run.figures.iter().map(move |row| (run, row)))
        };
        let figures = Table::default()
            .with(
                "key",
                rows().map(|(run, _)| Some(run.key.as_str())).collect(),
            )
            .with("of", rows().map(|(_, row)| Some(row.0.as_str())).collect())
            .with("figure", rows().map(|(_, row)| Some(row.1)).collect())
            .with(
                "value",
                Column::Real(rows().map(|(_, row)| row.2).collect()),
            );
        let figures = file::write(&figures, &[])?;
        let reports = reports_of(runs)?;
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let fingerprint = |run: &Finished| Some(format!("{:016x}", run.fingerprint?));
        let fingerprints: Vec<Option<String>> = runs.iter().map(fingerprint).collect();
        let text = |word: fn(&Finished) -> Option<&str>| runs.iter().map(word).collect::<Column>();
        let whole = |number: fn(&Finished) -> u64| {
            Column::Whole(
                runs.iter()
                    .map(|run| i64::try_from(number(run)).ok())
                    .collect(),
            )
        };
        let table = Table::default()
            .with("key", text(|run| Some(&run.key)))
            .with("title", text(|run| Some(&run.title)))
            .with("settings", text(|run| Some(&run.settings)))
            .with("seed", whole(|run| run.seed))
            .with("replication", whole(|run| run.replication))
            .with("world", text(|_| Some("sim")))
            .with("status", text(|run| Some(run.status.name())))
            .with("error", text(|run| run.error.as_deref()))
            .with(
                "fingerprint",
                fingerprints.iter().map(Option::as_deref).collect(),
            )
            .with("hops", whole(|run| run.hops))
            .with("cpu_ns", whole(|run| run.cpu.as_nanos() as u64))
            .with("code", runs.iter().map(|_| Some(code)).collect())
            .with("host", runs.iter().map(|_| Some(host.as_str())).collect())
            .with("detail", text(|run| Some(run.detail().name())));
        let of_reports = reports.as_ref().map(|reports| hash(reports));
        let mut notes = vec![(FIGURES, hash(&figures))];
        notes.extend(of_reports.map(|hash| (REPORTS, hash)));
        let notes: Vec<(&str, &str)> = notes.iter().map(|(name, hash)| (*name, &**hash)).collect();
        let runs = file::write(&table, &notes)?;
        Ok(Self {
            runs: runs.into(),
            figures: figures.into(),
            reports,
        })
    }

    /// The name of its files: the hash of that of the runs, which names the hashes of the others.
    pub fn name(&self) -> String {
        hash(&self.runs)
    }

    /// The tables of runs and figures.
    ///
    /// # Errors
    /// The files do not belong together, or one of the two is damaged.
    pub fn tables(&self) -> Result<[Table; 2], StoreError> {
        Ok([self.runs(&|_| true)?, self.figures()?])
    }

    /// The table of figures.
    ///
    /// # Errors
    /// As [`Part::tables`].
    pub(crate) fn figures(&self) -> Result<Table, StoreError> {
        self.runs(&|_| false)?;
        Ok(file::read(self.figures.clone())?.0)
    }

    /// The table of runs with those columns that are `wanted`. Of the figures only the hash is looked at: that of the runs names it, and
    /// nothing is committed that cannot be read.
    ///
    /// # Errors
    /// The files do not belong together, or that of the runs is damaged.
    pub(crate) fn runs(&self, wanted: &dyn Fn(&str) -> bool) -> Result<Table, StoreError> {
        let (runs, notes) = file::read_columns(self.runs.clone(), wanted)?;
        belongs(&notes, FIGURES, &self.figures)?;
        if let Some(reports) = &self.reports {
            belongs(&notes, REPORTS, reports)?;
        }
        Ok(runs)
    }
}

/// The table of the reports that belong to this file of runs.
///
/// # Errors
/// They do not, or one is damaged.
pub(crate) fn reports(runs: Bytes, reports: Bytes) -> Result<Table, StoreError> {
    let (_, notes) = file::read_columns(runs, &|_| false)?;
    belongs(&notes, REPORTS, &reports)?;
    Ok(file::read(reports)?.0)
}

fn belongs(notes: &[(String, String)], note: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let named = notes.iter().find(|(key, _)| key == note);
    match named {
        Some((_, name)) if *name == hash(bytes) => Ok(()),
        _ => {
            let kind = note.trim_start_matches("makeway.");
            Err(StoreError::Table(format!(
                "the {kind} are not those of the runs"
            )))
        }
    }
}

/// The file of reports, if one is kept.
fn reports_of(runs: &[Finished]) -> Result<Option<Bytes>, StoreError> {
    let reported = runs.iter().filter_map(|run| {
        let (detail, text) = run.report.as_ref()?;
        Some((run.key.as_str(), detail.name(), text.as_str()))
    });
    let reported: Vec<(&str, &str, &str)> = reported.collect();
    if reported.is_empty() {
        return Ok(None);
    }
    let table = Table::default()
        .with("key", reported.iter().map(|row| Some(row.0)).collect())
        .with("detail", reported.iter().map(|row| Some(row.1)).collect())
        .with("report", reported.iter().map(|row| Some(row.2)).collect());
    Ok(Some(file::write(&table, &[])?.into()))
}

/// 32 hexadecimal digits of a hash.
pub(crate) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::source;

    fn plan() -> Plan {
        Plan::new(source(), Vec::new(), 2).unwrap()
    }

    const JOB: Job = Job {
        point: 0,
        replication: 1,
    };

    fn finished<E: ToString>(
        scenario: &Scenario,
        work: impl FnOnce(&Scenario) -> Result<makeway_sim::Outcome, E>,
    ) -> Option<Finished> {
        Finished::of(scenario, "key".into(), 1, Detail::Report, work)
    }

    #[test]
    fn a_run_that_panics_is_finished_and_has_no_figures() {
        let plan = plan();
        let scenario = plan.scenario(0).unwrap();
        let work = |_: &Scenario| -> Result<makeway_sim::Outcome, String> { panic!("a bug") };
        let run = finished(&scenario, work).unwrap();
        assert_eq!(
            (run.status, run.error.as_deref()),
            (Status::Panic, Some("a bug"))
        );
        assert!(run.figures.is_empty());
        let part = Part::new(&[run], crate::CODE).unwrap();
        let [runs, figures] = part.tables().unwrap();
        assert_eq!((runs.len(), figures.len()), (1, 0));
    }

    #[test]
    fn a_run_that_is_refused_says_why_and_one_that_is_stopped_is_none() {
        let plan = plan();
        let scenario = plan.scenario(0).unwrap();
        let work = |_: &Scenario| Err::<makeway_sim::Outcome, _>("no way");
        let run = finished(&scenario, work).unwrap();
        assert_eq!(
            (run.status, run.error.as_deref()),
            (Status::Error, Some("no way"))
        );
        let options = Options::default();
        options
            .stop
            .store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(Reader::new(&plan).run(JOB, &options).unwrap(), None);
    }

    #[test]
    fn a_part_names_its_figures() {
        let plan = plan();
        let run = |replication| {
            let job = Job {
                point: 0,
                replication,
            };
            Reader::new(&plan)
                .run(job, &Options::default())
                .unwrap()
                .unwrap()
        };
        let [one, two] = [1, 2].map(|n| Part::new(&[run(n)], crate::CODE).unwrap());
        assert_ne!(one.name(), two.name());
        let mixed = Part {
            runs: one.runs.clone(),
            figures: two.figures.clone(),
            reports: None,
        };
        assert!(mixed.tables().is_err());
        let [runs, figures] = one.tables().unwrap();
        assert_eq!(runs.len(), 1);
        assert!(figures.len() > 10, "{}", figures.len());
    }

    #[test]
    fn a_report_is_kept_as_far_as_the_plan_says() {
        let run = |detail| {
            let plan = plan().keeping(detail);
            let run = Reader::new(&plan).run(JOB, &Options::default());
            run.unwrap().unwrap()
        };
        let [figures, report, series] = [Detail::Figures, Detail::Report, Detail::Series].map(run);
        let scenario = plan().scenario(0).unwrap();
        let options = Options {
            replication: 1,
            ..Options::default()
        };
        let whole = makeway_sim::run(&scenario, &options, |_| {}).unwrap();
        let read = |run: &Finished| {
            let (_, text) = run.report.as_ref().unwrap();
            makeway_report::json::from_json(text).unwrap()
        };
        assert_eq!(figures.report, None);
        assert_eq!(read(&series), whole);
        assert_ne!(read(&report), whole);
        assert_eq!(read(&report), whole.without_series());
        assert_eq!(figures.figures, series.figures);
        let part = Part::new(&[figures, report.clone()], crate::CODE).unwrap();
        let table = reports(part.runs.clone(), part.reports.clone().unwrap()).unwrap();
        assert_eq!(table.len(), 1);
        let other = Part::new(&[report, series], crate::CODE).unwrap();
        let mixed = Part {
            reports: other.reports.clone(),
            ..part
        };
        assert!(mixed.tables().is_err());
        assert!(reports(mixed.runs, other.reports.unwrap()).is_err());
    }
}
