// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worlds of the gauntlet: simulated time, namespaces with the kernel's TCP, and a guest with the kernel's own qdiscs.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use makeway::parallel::cores;
use makeway::session::{Session, stop_on_signals};
use makeway::vm::{self, Job};
use makeway_core::sched::Discipline;
use makeway_netns::{Backend, LATEST_MS};
use makeway_report::model::Report;
use makeway_report::summary;
use makeway_scenario::Scenario;
use makeway_store::plan::Detail;

use super::ideal;
use super::sample::Sample;
use super::{Course, Gauntlet};
use crate::experiment::kept::{self, Wanted};
use crate::experiment::{World, each_in_guests};

/// Time for which a run in real time is made again while the machine stalls, as a multiple of the run's.
const PATIENCE: u32 = 3;

/// Why `course` cannot run in `world` under `discipline`.
pub fn refusal(world: World, course: &Course, discipline: Discipline) -> Option<String> {
    if discipline == Discipline::Prio {
        let here = match world {
            World::Sim => ideal::put_first(&mut course.scenario.clone()),
            World::Netns | World::Vm => Err("the ideal runs in `sim` only".into()),
        };
        return here.err();
    }
    let backend = match world {
        World::Sim => return None,
        World::Netns => Backend::Nfqueue,
        World::Vm => Backend::Kernel,
    };
    let (scenario, _) = course.with(discipline);
    let too_fast = || match world {
        World::Vm if !Path::new("/dev/kvm").exists() => vm::too_fast(&scenario),
        _ => None,
    };
    match makeway_netns::check(&scenario, backend) {
        Err(refusal) => Some(refusal.to_string()),
        Ok(()) => too_fast(),
    }
}

/// Runs of each cell, case by case, in each the disciplines in their order.
pub type Samples = Vec<Vec<Sample>>;

/// Makes all runs. `None`: a signal stopped it.
///
/// # Errors
/// A run failed, or the world is not to be had here.
pub fn samples(args: &Gauntlet, courses: &[Course]) -> anyhow::Result<Option<Samples>> {
    let runs = Runs { args, courses };
    match args.world {
        World::Sim => runs.simulated(),
        World::Netns => runs.in_real_time(),
        World::Vm => runs.in_guests(),
    }
}

/// Each cell's runs one after the other are numbered from 0.
struct Runs<'a> {
    args: &'a Gauntlet,
    courses: &'a [Course],
}

impl<'a> Runs<'a> {
    fn cells(&self) -> usize {
        self.courses.len() * self.args.disciplines.len()
    }

    fn count(&self) -> usize {
        self.cells() * self.args.runs as usize
    }

    /// The case, the discipline and the replication of a run.
    fn at(&self, number: usize) -> (&'a Course, Discipline, u64) {
        let (cell, run) = self.cell_and_run(number);
        let (course, discipline) = self.cell(cell);
        (course, discipline, self.args.first + run as u64)
    }

    /// The case and the discipline of a cell.
    fn cell(&self, cell: usize) -> (&'a Course, Discipline) {
        let disciplines = &self.args.disciplines;
        let course = &self.courses[cell / disciplines.len()];
        (course, disciplines[cell % disciplines.len()])
    }

    /// Cell of a run, and number of the run in it.
    fn cell_and_run(&self, number: usize) -> (usize, usize) {
        let runs = self.args.runs as usize;
        (number / runs, number % runs)
    }

    fn empty(&self) -> Samples {
        vec![Vec::with_capacity(self.args.runs as usize); self.cells()]
    }

    fn jobs(&self) -> usize {
        self.args.jobs.map_or_else(cores, |jobs| jobs as usize)
    }

    fn simulated(&self) -> anyhow::Result<Option<Samples>> {
        let stop = stop_on_signals()?;
        let wanted = (0..self.count()).map(|number| {
            let (cell, run) = self.cell_and_run(number);
            Wanted {
                cell,
                replication: self.args.first + run as u64,
                detail: Detail::Report,
            }
        });
        let wanted: Vec<Wanted> = wanted.collect();
        let scenario = |cell: usize| -> Cow<'_, Scenario> {
            let (course, discipline) = self.cell(cell);
            Cow::Owned(course.with(discipline).0)
        };
        let name = |cell: usize| {
            let (course, discipline) = self.cell(cell);
            format!("case {}, {discipline}", course.name)
        };
        let runs = kept::Runs {
            store: self.args.store.as_deref(),
            scenario: &scenario,
            name: &name,
            wanted: &wanted,
            jobs: self.jobs(),
        };
        let mut samples = self.empty();
        let all = runs.reports(&stop, |number, report| {
            samples[self.cell_and_run(number).0].push(Sample::of(&report));
        })?;
        Ok(all.then_some(samples))
    }

    /// One at a time. A run during which the machine stalled is made again; one that stalled to the end is said, and counts.
    fn in_real_time(&self) -> anyhow::Result<Option<Samples>> {
        let session = Session::start()?;
        let mut samples = self.empty();
        for number in 0..self.count() {
            let (course, discipline, replication) = self.at(number);
            let (mut scenario, _) = course.with(discipline);
            scenario.seed = replication;
            let label = format!("{} {discipline} {replication}", course.name);
            let patience = Duration::from_secs_f64(scenario.duration.as_secs_f64()) * PATIENCE;
            let outcome = session.run_calmly(&scenario, &[], &label, LATEST_MS, patience)?;
            if !outcome.report.complete {
                return Ok(None);
            }
            if let Some(stall) = summary::stall(&outcome.report) {
                eprintln!("{label}: {stall}");
            }
            samples[self.cell_and_run(number).0].push(Sample::of(&outcome.report));
        }
        Ok(Some(samples))
    }

    /// Each guest makes its share of the runs, one after the other.
    fn in_guests(&self) -> anyhow::Result<Option<Samples>> {
        let stop = stop_on_signals()?;
        let found = Mutex::new(vec![None; self.count()]);
        let job = |number: usize| {
            let (course, discipline, replication) = self.at(number);
            Job {
                file: course.file.clone(),
                set: course.settings(discipline, replication),
            }
        };
        let took = |number: usize, report: Report, bar: &ProgressBar| {
            let (course, discipline, replication) = self.at(number);
            for warning in &report.warnings {
                bar.suspend(|| {
                    eprintln!("{} {discipline} {replication}: {warning}", course.name);
                });
            }
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found[number] = Some(Sample::of(&report));
            Ok(())
        };
        if !each_in_guests(self.count(), self.jobs(), &stop, job, took)? {
            return Ok(None);
        }
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut samples = self.empty();
        for (number, sample) in found.into_iter().enumerate() {
            samples[self.cell_and_run(number).0].extend(sample);
        }
        Ok(Some(samples))
    }
}
