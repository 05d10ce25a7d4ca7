// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worlds of the gauntlet: simulated time, namespaces with the kernel's TCP, and a guest with the kernel's own qdiscs.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
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
use makeway_vm::{Accelerator, VmError};

use super::ideal;
use super::sample::Sample;
use super::{Course, Gauntlet};
use crate::experiment::kept::{self, Wanted};
use crate::experiment::{World, each_in_guests};

/// Time for which a run in real time is made again while the machine stalls, as a multiple of the run's.
const PATIENCE: u32 = 3;

/// The arguments without the disciplines that no guest here has, each of which is named with the reason that `lacks` gives.
///
/// # Errors
/// No discipline is left, or there is no such guest here.
pub fn equipped(
    args: &Gauntlet,
    lacks: impl Fn(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Gauntlet> {
    let mut args = args.clone();
    if args.world != World::Vm {
        return Ok(args);
    }
    let mut kept = Vec::new();
    for discipline in args.disciplines {
        let why = match discipline {
            // Not every such kernel has its module, nor every `tc` its options; all have those of the others.
            Discipline::DualPi2 => lacks("dualpi2")?,
            _ => None,
        };
        match why {
            None => kept.push(discipline),
            Some(why) => eprintln!("left out: {discipline}: {why}"),
        }
    }
    ensure!(
        !kept.is_empty(),
        "no discipline is left for the world vm: name others in `--disciplines`, as fq-codel,cake,makeway"
    );
    args.disciplines = kept;
    Ok(args)
}

/// Executor of the instructions of a guest here: `/dev/kvm` may be there, and no guest boot with it.
///
/// # Errors
/// There is no such guest here.
pub fn accelerator() -> Result<Accelerator, VmError> {
    vm::machine().map(|(_, accelerator)| accelerator)
}

/// Whether guests of `world` are translated, which is asked where a course has a link that is too fast for those: the answer may take a
/// boot.
///
/// # Errors
/// There is no such guest here.
pub fn translated(
    world: World,
    courses: &[Course],
    accelerator: impl FnOnce() -> Result<Accelerator, VmError>,
) -> Result<bool, VmError> {
    let is_fast = |course: &Course| vm::too_fast(&course.scenario).is_some();
    Ok(world == World::Vm && courses.iter().any(is_fast) && accelerator()? == Accelerator::Tcg)
}

/// Why `course` cannot run in `world` under `discipline`; guests may be `translated`.
pub fn refusal(
    world: World,
    translated: bool,
    course: &Course,
    discipline: Discipline,
) -> Option<String> {
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
    match makeway_netns::check(&scenario, backend) {
        Err(refusal) => Some(refusal.to_string()),
        Ok(()) if translated => vm::too_fast(&scenario),
        Ok(()) => None,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::super::{CASES, courses, possible};
    use super::*;

    fn gauntlet(line: &str) -> Gauntlet {
        let words = ["makeway-lab", "gauntlet"].into_iter();
        let lab = crate::Lab::try_parse_from(words.chain(line.split(' '))).unwrap();
        let crate::Command::Gauntlet(args) = lab.command else {
            unreachable!();
        };
        args
    }

    #[test]
    fn a_guest_is_given_what_the_simulator_is() {
        let folder = tempfile::tempdir().unwrap();
        let args = gauntlet("--world vm");
        let courses = courses(&args, folder.path()).unwrap();
        let courses = possible(&args, courses, || Ok(Accelerator::Tcg)).unwrap();
        // Not the page, the chunks and the folders, whose tasks are repeated.
        assert!(
            (70..CASES.len()).contains(&courses.len()),
            "{}",
            courses.len()
        );
        for (course, &discipline) in (courses.iter()).zip(args.disciplines.iter().cycle()) {
            let set = course.settings(discipline, 7);
            let told = makeway_scenario::load(&course.file, &set).unwrap();
            let (expected, queues) = course.with(discipline);
            assert!(queues > 0 && told.seed == 7, "{}", course.name);
            assert_eq!(told.links, expected.links, "{} {discipline}", course.name);
        }
    }

    #[test]
    fn dualpi2_runs_in_guests_where_kernel_and_tc_have_it_and_is_left_out_where_not() {
        let names = |line: &str, why: Option<&str>| {
            let lacks = |kind: &str| {
                assert_eq!(kind, "dualpi2");
                Ok(why.map(str::to_owned))
            };
            let args = equipped(&gauntlet(line), lacks)?;
            let names = args.disciplines.iter().map(|one| one.name());
            anyhow::Ok(names.collect::<Vec<_>>().join(","))
        };
        let all = "fifo,fq,fq-codel,cake,dualpi2,sqf,ncq,hier,makeway";
        assert_eq!(names("--world vm", None).unwrap(), all);
        let lacks = Some("Linux 6.17 has no module sch_dualpi2");
        let others = all.replace("dualpi2,", "");
        assert_eq!(names("--world vm", lacks).unwrap(), others);
        let two = "--disciplines dualpi2,makeway";
        assert_eq!(
            names(&format!("--world vm {two}"), lacks).unwrap(),
            "makeway"
        );
        assert!(names("--world vm --disciplines dualpi2", lacks).is_err());
        // Elsewhere it is ours.
        assert_eq!(names(two, lacks).unwrap(), "dualpi2,makeway");
    }

    #[test]
    fn links_above_40_mbit_are_left_out_where_guests_are_translated_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let args = gauntlet("--world vm");
        let kept = |accelerator| {
            let courses = courses(&args, folder.path()).unwrap();
            let kept = possible(&args, courses, || Ok(accelerator)).unwrap();
            let names = kept.into_iter().map(|course| course.name);
            names.collect::<BTreeSet<String>>()
        };
        let [kvm, tcg] = [Accelerator::Kvm, Accelerator::Tcg].map(kept);
        let fast: Vec<&String> = kvm.difference(&tcg).collect();
        let expected = ["g100a", "g100b", "g50a", "g50b", "w100m", "w100mr", "w50m"];
        assert_eq!(fast, expected);
        assert!(tcg.is_subset(&kvm));
    }

    #[test]
    fn no_guest_is_booted_to_know_its_accelerator_where_no_link_is_too_fast() {
        let folder = tempfile::tempdir().unwrap();
        for line in ["--world vm --case n10", "--case w100m"] {
            let args = gauntlet(line);
            let courses = courses(&args, folder.path()).unwrap();
            let kept = possible(&args, courses, || unreachable!("it is asked")).unwrap();
            assert_eq!(kept.len(), 1);
        }
    }
}
