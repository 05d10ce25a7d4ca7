// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value known from elsewhere, the way to ours, and the verdict on both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use makeway_core::measure::Moments;
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::Options;
use makeway_sim::tcp::Config;
use serde::Serialize;

/// A value that somebody else knows.
pub struct Question {
    /// One line.
    pub what: String,
    /// Source of the value.
    pub source: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// From, to: a value with a tolerance, a spread, or what several agree on. `None`: another run of
    /// ours says.
    pub expected: Option<[f64; 2]>,
    /// Where it is known to differ, and how far.
    pub known: Option<Known>,
}

/// A difference that is explained.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The heading in docs/validation.md.
    pub section: &'static str,
    /// How far beyond the range was accepted, in the unit of the row.
    pub beyond: f64,
}

/// Our value.
pub enum Ours {
    /// A value, to lie in the range.
    Value(f64),
    /// Independent runs: the range must meet the 95 % interval of their mean.
    Runs(Moments),
    /// Beside what was found for the range.
    Beside([f64; 2], f64),
    /// Nothing, since something is not here, and how to get it.
    NotHere(&'static str),
}

/// The work: an answer for each question.
pub type Answer = Box<dyn Fn(&Bench) -> anyhow::Result<Vec<Ours>> + Send + Sync>;

/// Questions, and the work that answers all of them.
pub struct Case {
    /// In the order of the answers.
    pub questions: Vec<Question>,
    /// It runs in real time, so nothing else runs beside it.
    pub alone: bool,
    /// Does it.
    pub answer: Answer,
}

impl Case {
    /// Case of one question.
    pub fn one(
        question: Question,
        answer: impl Fn(&Bench) -> anyhow::Result<Ours> + Send + Sync + 'static,
    ) -> Self {
        Self::of(vec![question], move |bench| Ok(vec![answer(bench)?]))
    }

    /// Case of several questions.
    pub fn of(
        questions: Vec<Question>,
        answer: impl Fn(&Bench) -> anyhow::Result<Vec<Ours>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            questions,
            alone: false,
            answer: Box::new(answer),
        }
    }
}

/// `value` give or take `share` of it.
pub fn around(value: f64, share: f64) -> Option<[f64; 2]> {
    Some([value * (1.0 - share), value * (1.0 + share)])
}

/// Where scenarios are run.
pub struct Bench {
    /// Set, it ends every run.
    pub stop: Arc<AtomicBool>,
}

/// A signal ended a run.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

impl Bench {
    /// Reads a scenario that the program carries.
    ///
    /// # Errors
    /// A mistake in it.
    pub fn scenario(&self, text: &str, set: &[String]) -> anyhow::Result<Scenario> {
        Ok(makeway_scenario::parse(
            text,
            "validate",
            Path::new("."),
            set,
        )?)
    }

    /// Runs it in simulated time, every download by `tcp` if that is given.
    ///
    /// # Errors
    /// [`Stopped`], or what this world cannot do.
    pub fn run(&self, scenario: &Scenario, tcp: Option<Config>) -> anyhow::Result<Report> {
        self.replication(scenario, tcp, 0)
    }

    fn replication(
        &self,
        scenario: &Scenario,
        tcp: Option<Config>,
        replication: u64,
    ) -> anyhow::Result<Report> {
        let options = Options {
            stop: Arc::clone(&self.stop),
            tcp,
            replication,
        };
        let report = makeway_sim::run(scenario, &options, |_| {})?;
        if !report.complete {
            return Err(Stopped.into());
        }
        Ok(report)
    }

    /// This number of replications of it: the value that `measure` gives for each.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn replicate(
        &self,
        scenario: &Scenario,
        runs: u64,
        measure: impl Fn(&Report) -> f64,
    ) -> anyhow::Result<Moments> {
        let mut moments = Moments::new();
        for replication in 1..=runs {
            moments.record(measure(&self.replication(scenario, None, replication)?));
        }
        Ok(moments)
    }
}

/// Verdict on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Ours is theirs.
    #[serde(rename = "holds")]
    Holds,
    /// It is not, by no more than what docs/validation.md explains.
    #[serde(rename = "differs")]
    Differs,
    /// It is not.
    #[serde(rename = "missed")]
    Missed,
    /// A tool that it needs is missing here.
    #[serde(rename = "not here")]
    NotHere,
}

impl Verdict {
    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Differs => "differs",
            Self::Missed => "missed",
            Self::NotHere => "not here",
        }
    }
}

/// A line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    pub what: String,
    pub source: &'static str,
    pub unit: &'static str,
    pub expected: Option<[f64; 2]>,
    pub ours: Option<f64>,
    /// Half of the 95 % interval of ours, where it is a mean of several runs.
    pub interval: Option<f64>,
    pub verdict: Verdict,
    /// The heading in docs/validation.md, or what to do.
    pub why: &'static str,
}

impl Row {
    /// Judges.
    pub fn new(question: &Question, ours: &Ours) -> Self {
        let mut row = Self {
            what: question.what.clone(),
            source: question.source,
            unit: question.unit,
            expected: question.expected,
            ours: None,
            interval: None,
            verdict: Verdict::NotHere,
            why: "",
        };
        let (value, half) = match ours {
            Ours::NotHere(how) => {
                row.why = how;
                return row;
            }
            Ours::Value(value) => (*value, 0.0),
            Ours::Runs(runs) => {
                row.interval = runs.interval95();
                (runs.mean(), row.interval.unwrap_or_default())
            }
            Ours::Beside(expected, value) => {
                row.expected = Some(*expected);
                (*value, 0.0)
            }
        };
        row.ours = Some(value);
        let [from, to] = row.expected.unwrap_or([value; 2]);
        // Below the range, or above it; not a number where something was not measured, which is missed.
        let beyond = (from - (value + half)).max(value - half - to);
        row.verdict = match question.known {
            _ if beyond <= 0.0 => Verdict::Holds,
            Some(known) if beyond <= known.beyond => {
                row.why = known.section;
                Verdict::Differs
            }
            Some(_) => {
                row.why = "it is farther off than what docs/validation.md explains";
                Verdict::Missed
            }
            None => Verdict::Missed,
        };
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: [f64; 2], known: Option<f64>, ours: &Ours) -> Verdict {
        let question = Question {
            what: String::new(),
            source: "",
            unit: "",
            expected: Some(expected),
            known: known.map(|beyond| Known {
                section: "why",
                beyond,
            }),
        };
        Row::new(&question, ours).verdict
    }

    #[test]
    fn a_value_is_held_against_its_range_and_a_mean_against_its_interval() {
        let mut runs = Moments::new();
        [1.0, 2.0, 3.0].into_iter().for_each(|x| runs.record(x));
        // 2 give or take 2.484.
        let runs = Ours::Runs(runs);
        assert_eq!(verdict([4.4, 4.4], None, &runs), Verdict::Holds);
        assert_eq!(verdict([4.5, 4.6], None, &runs), Verdict::Missed);
        let value = Ours::Value(2.0);
        assert_eq!(verdict([2.0, 3.0], None, &value), Verdict::Holds);
        assert_eq!(verdict([2.1, 3.0], Some(0.2), &value), Verdict::Differs);
        let beside = Ours::Beside([5.0, 6.0], 2.0);
        assert_eq!(verdict([0.0, 9.0], None, &beside), Verdict::Missed);
        for nothing in [f64::NAN, -f64::NAN].map(Ours::Value) {
            assert_eq!(verdict([2.0, 3.0], None, &nothing), Verdict::Missed);
            assert_eq!(verdict([2.0, 3.0], Some(9.0), &nothing), Verdict::Missed);
        }
        let not_here = Ours::NotHere("install it");
        assert_eq!(verdict([0.0, 9.0], None, &not_here), Verdict::NotHere);
    }
    #[test]
    fn a_known_difference_is_accepted_as_far_as_it_was_and_no_farther() {
        let verdict = |value: f64| verdict([2.0, 3.0], Some(0.5), &Ours::Value(value));
        assert_eq!(verdict(2.5), Verdict::Holds);
        assert_eq!([1.5, 3.5].map(verdict), [Verdict::Differs; 2]);
        assert_eq!([1.4, 3.6].map(verdict), [Verdict::Missed; 2]);
    }
}
