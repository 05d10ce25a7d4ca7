// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finished runs and the files that hold some of them: a part. `runs` has a row for each run, `figures` one for each figure of each run.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use makeway_report::model::Report;
use makeway_report::replications;
use makeway_scenario::Scenario;
use makeway_sim::{Options, run_in_full};
use rustix::time::{ClockId, clock_gettime};

use crate::error::StoreError;
use crate::file;
use crate::plan::{Job, Plan};
use crate::table::{Column, Table};

/// The note of a `runs` file that has the hash of its `figures` file.
const FIGURES: &str = "makeway.figures";

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
    /// From 1.
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
    /// Group or queue, figure, value.
    pub figures: Vec<(String, &'static str, Option<f64>)>,
}

impl Finished {
    fn of<E: ToString>(
        plan: &Plan,
        job: Job,
        scenario: &Scenario,
        work: impl FnOnce(&Scenario) -> Result<makeway_sim::Outcome, E>,
    ) -> Option<Self> {
        let began = cpu();
        let outcome = catch_unwind(AssertUnwindSafe(|| work(scenario)));
        let mut run = Self {
            key: plan.key(job),
            title: scenario.title.clone(),
            settings: plan.settings_json(scenario),
            seed: scenario.seed,
            replication: job.replication,
            status: Status::Ok,
            error: None,
            fingerprint: None,
            hops: 0,
            cpu: cpu().saturating_sub(began),
            figures: Vec::new(),
        };
        match outcome {
            Ok(Ok(outcome)) if !outcome.report.complete => return None,
            Ok(Ok(outcome)) => {
                run.fingerprint = Some(outcome.fingerprint);
                run.hops = outcome.hops;
                run.figures = figures(&outcome.report);
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
        let work = |scenario: &Scenario| run_in_full(scenario, &options, |_| {});
        let run = Finished::of(self.plan, job, &scenario, work);
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

/// The two files of some runs, before they are in a store. A worker returns it, and the driver commits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `runs/NAME.parquet`.
    pub runs: Bytes,
    /// `figures/NAME.parquet`.
    pub figures: Bytes,
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
            .with("host", runs.iter().map(|_| Some(host.as_str())).collect());
        let runs = file::write(&table, &[(FIGURES, &hash(&figures))])?;
        Ok(Self {
            runs: runs.into(),
            figures: figures.into(),
        })
    }

    /// The name of its files: the hash of the one that names the hash of the other.
    pub fn name(&self) -> String {
        hash(&self.runs)
    }

    /// Both tables.
    ///
    /// # Errors
    /// The two do not belong together, or one is damaged.
    pub fn tables(&self) -> Result<[Table; 2], StoreError> {
        let (runs, notes) = file::read(self.runs.clone())?;
        let named = notes.iter().find(|(key, _)| key == FIGURES);
        if named.is_none_or(|(_, name)| *name != hash(&self.figures)) {
            return Err(StoreError::Table(
                "the figures are not those of the runs".into(),
            ));
        }
        let (figures, _) = file::read(self.figures.clone())?;
        Ok([runs, figures])
    }
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

    #[test]
    fn a_run_that_panics_is_finished_and_has_no_figures() {
        let plan = plan();
        let scenario = plan.scenario(0).unwrap();
        let work = |_: &Scenario| -> Result<makeway_sim::Outcome, String> { panic!("a bug") };
        let run = Finished::of(&plan, JOB, &scenario, work).unwrap();
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
        let run = Finished::of(&plan, JOB, &scenario, work).unwrap();
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
        };
        assert!(mixed.tables().is_err());
        let [runs, figures] = one.tables().unwrap();
        assert_eq!(runs.len(), 1);
        assert!(figures.len() > 10, "{}", figures.len());
    }
}
