// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars that verdicts go by: data of `criteria/ID.toml`, written before the runs and hashed into the report.
//!
//! A claim measures figures by name for each of its two columns; a criterion bounds them. A figure that is bounded and was
//! not measured leaves its column unjudged.

mod bar;

use std::iter;

use anyhow::{Context, bail, ensure};
use makeway_report::estimate::{Estimate, Unit};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::claim::{Claim, Column, Verdict};
use super::figures::NOT_MEASURED;
use crate::experiment::World;
use bar::{Bar, Found, Interval};

/// Criteria of each paper, as text.
const FILES: [(&str, &str); 6] = [
    ("sqf", include_str!("../../criteria/sqf.toml")),
    ("ncq", include_str!("../../criteria/ncq.toml")),
    ("pps", include_str!("../../criteria/pps.toml")),
    ("sbpn", include_str!("../../criteria/sbpn.toml")),
    ("abrc", include_str!("../../criteria/abrc.toml")),
    ("rfc8867", include_str!("../../criteria/rfc8867.toml")),
];
/// A line for each version of each file: `DATE ID SHA-256 CHANGE`.
const HISTORY: &str = include_str!("../../criteria/history.txt");

/// All criteria of a paper.
#[derive(Debug)]
pub struct Criteria {
    id: &'static str,
    /// SHA-256 of the file, in hexadecimal.
    pub hash: String,
    list: Vec<Criterion>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Criterion>,
}

/// Criterion of one claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// `abrc.table1`.
    pub id: String,
    /// The world it holds for; without one, those that have none of their own.
    world: Option<String>,
    /// Section, figure or table of the paper.
    pub source: String,
    interval: Interval,
    /// Why a column has no verdict, and cannot have one.
    #[serde(default)]
    not_measurable: Without,
    /// All must hold.
    pub check: Vec<Check>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Without {
    printed: Option<String>,
    ours: Option<String>,
}

/// Bounds of one figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name, with its unit.
    pub figure: String,
    printed: Option<Bar>,
    ours: Option<Bar>,
    interval: Option<Interval>,
}

/// A column of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The paper's algorithm, parameters and set-up, against the paper's figure.
    Printed,
    /// This project's defaults, against the ideal.
    Ours,
}

impl Side {
    /// Both, in the order of the report.
    pub const BOTH: [Self; 2] = [Self::Printed, Self::Ours];
}

impl Check {
    /// The bar of a column, if it has one.
    pub fn bar(&self, side: Side) -> Option<&Bar> {
        match side {
            Side::Printed => self.printed.as_ref(),
            Side::Ours => self.ours.as_ref(),
        }
    }
}

impl Criterion {
    /// Interval of a check: its own, or the claim's.
    pub fn interval(&self, check: &Check) -> Interval {
        check.interval.unwrap_or(self.interval)
    }

    fn without(&self, side: Side) -> Option<&str> {
        match side {
            Side::Printed => self.not_measurable.printed.as_deref(),
            Side::Ours => self.not_measurable.ours.as_deref(),
        }
    }

    /// Whether the column has a verdict.
    pub fn judges(&self, side: Side) -> bool {
        self.without(side).is_none()
    }

    fn checked(&self) -> anyhow::Result<()> {
        for check in &self.check {
            let bars = Side::BOTH.map(|side| check.bar(side));
            ensure!(
                bars.iter().flatten().all(|bar| bar.checked()),
                "{}: `{}`: a bar is `at_least`, `at_most`, or a `value` with `within` or `by`",
                self.id,
                check.figure
            );
            ensure!(
                bars.iter().any(Option::is_some),
                "{}: `{}` has no bar",
                self.id,
                check.figure
            );
        }
        for side in Side::BOTH {
            let has = self.check.iter().any(|check| check.bar(side).is_some());
            ensure!(
                has == self.judges(side),
                "{}: the column {side:?} has bars or a reason why it is not measurable, and not both",
                self.id
            );
        }
        Ok(())
    }

    /// The whole of it in words.
    pub fn says(&self) -> String {
        let of = |side: Side| {
            let bars = self.check.iter().filter_map(|check| {
                let bar = check.bar(side)?;
                let whole = match self.interval(check) {
                    Interval::Whole => " with its whole interval",
                    Interval::Mean => "",
                };
                Some(format!("{}: {}{whole}", check.figure, bar.says()))
            });
            let bars: Vec<String> = bars.collect();
            match self.without(side) {
                Some(reason) => format!("not measurable: {reason}"),
                None => bars.join("; "),
            }
        };
        format!(
            "{}. As printed: {}. Ours: {}.",
            self.source,
            of(Side::Printed),
            of(Side::Ours)
        )
    }

    /// Figures of a column that are not within their bars.
    #[cfg(test)]
    pub fn refuses(&self, side: Side, column: &Column) -> impl Iterator<Item = &str> {
        let fails = move |check: &&Check| {
            let found = check.bar(side).zip(column.figure(&check.figure));
            found.is_some_and(|(bar, x)| bar.holds(self.interval(check), &x) == Found::Fails)
        };
        self.check
            .iter()
            .filter(fails)
            .map(|check| check.figure.as_str())
    }

    /// The column with its verdict and its figures. A part that fails decides: what is missing beside it cannot change that.
    pub fn judge(&self, side: Side, mut column: Column) -> Column {
        if let Some(reason) = self.without(side) {
            column.verdict = Verdict::NotMeasurable;
            column.value = reason.to_owned();
            return column;
        }
        let mut worst = Found::Holds;
        let mut said = Vec::new();
        for check in &self.check {
            let Some(bar) = check.bar(side) else { continue };
            let figure = column.figure(&check.figure);
            let found = figure.map_or(Found::Missing, |x| bar.holds(self.interval(check), &x));
            worst = match (worst, found) {
                (Found::Fails, _) | (_, Found::Fails) => Found::Fails,
                (Found::Missing, _) | (_, Found::Missing) => Found::Missing,
                _ => Found::Holds,
            };
            let value = match figure {
                Some(x) if !x.mean.is_nan() => shown(&x, bar, self.interval(check)),
                _ => NOT_MEASURED.to_owned(),
            };
            let but = match found {
                Found::Fails => format!(" (bar: {})", bar.says()),
                Found::Missing if value != NOT_MEASURED => {
                    " in one run, which has no interval".into()
                }
                Found::Holds | Found::Missing => String::new(),
            };
            said.push(format!("{}: {value}{but}", check.figure));
        }
        column.verdict = match worst {
            Found::Holds => Verdict::Reproduced,
            Found::Fails => Verdict::Differs,
            Found::Missing => Verdict::NotMeasured,
        };
        column.value = said.join("; ");
        column
    }
}

/// As it is written; small figures keep a digit. With more digits where a reader of the rounded figure would find another verdict.
fn shown(x: &Estimate, bar: &Bar, interval: Interval) -> String {
    let plain = match x.half_width {
        None if x.mean != 0.0 && x.mean.abs() < 0.01 => format!("{:.1e}", x.mean),
        _ => Unit::Index.show(x),
    };
    let exact = |digits: usize| match x.half_width {
        Some(half) => format!("{:.digits$} ± {half:.digits$}", x.mean),
        None => format!("{:.digits$}", x.mean),
    };
    let is_told = |text: &String| bar.holds(interval, &read(text)) == bar.holds(interval, x);
    iter::once(plain.clone())
        .chain((3..9).map(exact))
        .find(is_told)
        .unwrap_or(plain)
}

/// A figure as it is written.
fn read(text: &str) -> Estimate {
    let number = |text: &str| text.parse().unwrap_or(f64::NAN);
    let (mean, half) = match text.split_once(" ± ") {
        Some((mean, half)) => (mean, Some(number(half))),
        None => (text, None),
    };
    Estimate {
        mean: number(mean),
        half_width: half,
        runs: 0,
    }
}

impl Criteria {
    /// Criteria of a paper.
    ///
    /// # Errors
    /// There are none, or their file is wrong.
    pub fn of(paper: &str) -> anyhow::Result<Self> {
        let file = FILES.iter().find(|(id, _)| *id == paper);
        let (id, text) = *file.with_context(|| format!("{paper} has no criteria"))?;
        let read: File = toml::from_str(text).with_context(|| format!("criteria/{id}.toml"))?;
        for criterion in &read.claim {
            criterion
                .checked()
                .with_context(|| format!("criteria/{id}.toml"))?;
        }
        let digest = Sha256::digest(text);
        Ok(Self {
            id,
            hash: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            list: read.claim,
        })
    }

    /// Criterion of one claim in a world.
    pub fn get(&self, id: &str, world: World) -> Option<&Criterion> {
        let named = |of: Option<&str>| {
            let mut list = self.list.iter();
            list.find(|criterion| criterion.id == id && criterion.world.as_deref() == of)
        };
        named(Some(world.name())).or_else(|| named(None))
    }

    /// All of them.
    #[cfg(test)]
    pub fn all(&self) -> &[Criterion] {
        &self.list
    }

    /// The claims with both of their verdicts.
    ///
    /// # Errors
    /// One has no criterion.
    pub fn judge(&self, world: World, claims: Vec<Claim>) -> anyhow::Result<Vec<Claim>> {
        let judge = |mut claim: Claim| {
            let Some(criterion) = self.get(claim.id, world) else {
                bail!("{} has no criterion in criteria/{}.toml", claim.id, self.id);
            };
            claim.criterion = criterion.says();
            claim.printed = criterion.judge(Side::Printed, claim.printed);
            claim.ours = criterion.judge(Side::Ours, claim.ours);
            Ok(claim)
        };
        claims.into_iter().map(judge).collect()
    }

    /// Versions of the file: date, hash, what changed.
    pub fn history(&self) -> impl Iterator<Item = [&'static str; 3]> {
        let id = self.id;
        HISTORY.lines().filter_map(move |line| {
            let mut words = line.splitn(4, ' ');
            let (date, of) = (words.next()?, words.next()?);
            let (hash, change) = (words.next()?, words.next()?);
            (of == id).then_some([date, hash, change])
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn all() -> impl Iterator<Item = Criteria> {
        FILES.iter().map(|(id, _)| Criteria::of(id).unwrap())
    }

    fn estimate(mean: f64, half: f64) -> Estimate {
        Estimate {
            mean,
            half_width: Some(half),
            runs: 10,
        }
    }

    /// A value within the bar, and those without it: a little, on each side that it has.
    fn inside_and_outside(bar: &Bar) -> (f64, Vec<f64>) {
        let [low, high] = bar.bounds();
        let little = match high - low {
            width if width.is_finite() => width / 100.0,
            _ => [low, high]
                .into_iter()
                .filter(|x| x.is_finite())
                .fold(0.01, |a, x| f64::max(a, x.abs() / 100.0)),
        };
        let inside = match (low.is_finite(), high.is_finite()) {
            (true, true) => (low + high) / 2.0,
            (true, false) => low + little,
            _ => high - little,
        };
        let outside = [low - little, high + little];
        (
            inside,
            outside.into_iter().filter(|x| x.is_finite()).collect(),
        )
    }

    /// Figures that hold for a column.
    fn right(criterion: &Criterion, side: Side) -> Column {
        let bars = criterion
            .check
            .iter()
            .filter_map(|check| Some((check, check.bar(side)?)));
        Column::of(bars.map(|(check, bar)| {
            let (inside, outside) = inside_and_outside(bar);
            let room = outside
                .iter()
                .map(|x| (x - inside).abs())
                .fold(f64::INFINITY, f64::min);
            (check.figure.clone(), estimate(inside, room / 10.0))
        }))
    }

    fn verdict(criterion: &Criterion, side: Side, column: Column) -> Verdict {
        criterion.judge(side, column).verdict
    }

    /// Driven by the table: every figure of every claim in both columns.
    #[test]
    fn right_figures_are_accepted_and_each_wrong_or_missing_one_is_refused() {
        let mut refused = 0;
        for criteria in all() {
            for criterion in criteria.all() {
                for side in Side::BOTH
                    .into_iter()
                    .filter(|side| criterion.judges(*side))
                {
                    let name = format!("{} {side:?}", criterion.id);
                    let right = right(criterion, side);
                    assert_eq!(
                        verdict(criterion, side, right.clone()),
                        Verdict::Reproduced,
                        "{name}"
                    );
                    assert_eq!(
                        verdict(criterion, side, Column::default()),
                        Verdict::NotMeasured,
                        "{name}"
                    );
                    for check in &criterion.check {
                        let Some(bar) = check.bar(side) else { continue };
                        let name = format!("{name}: {}", check.figure);
                        let with = |x: Estimate| {
                            let column = right.clone().with(check.figure.clone(), x);
                            verdict(criterion, side, column)
                        };
                        let (inside, outside) = inside_and_outside(bar);
                        assert!(!outside.is_empty(), "{name} bounds nothing");
                        for wrong in outside {
                            assert_eq!(
                                with(estimate(wrong, 0.0)),
                                Verdict::Differs,
                                "{name} = {wrong}"
                            );
                            refused += 1;
                        }
                        assert_eq!(
                            with(estimate(f64::NAN, 0.0)),
                            Verdict::NotMeasured,
                            "{name}"
                        );
                        // An interval that reaches beyond the bar, and one run without an interval.
                        let wide = with(estimate(inside, 1e9));
                        let one = with(Estimate::of([inside]));
                        match criterion.interval(check) {
                            Interval::Mean => {
                                assert_eq!([wide, one], [Verdict::Reproduced; 2], "{name}")
                            }
                            Interval::Whole => assert_eq!(
                                [wide, one],
                                [Verdict::Differs, Verdict::NotMeasured],
                                "{name}"
                            ),
                        }
                    }
                }
            }
        }
        assert!(refused > 300, "{refused}");
    }

    #[test]
    fn a_part_that_fails_goes_before_one_that_is_missing_and_both_are_said() {
        let text = "id = \"a.b\"\nsource = \"Fig. 1\"\ninterval = \"mean\"\ncheck = [\n  { figure = \"x\", printed = { at_most = 1 }, ours = { at_most = 1 } },\n  { figure = \"y\", printed = { at_most = 1 }, ours = { at_most = 1 } },\n]";
        let criterion: Criterion = toml::from_str(text).unwrap();
        let judged = |x, y| {
            let column = Column::of([("x", Estimate::of([x])), ("y", Estimate::of([y]))]);
            let column = criterion.judge(Side::Ours, column);
            (column.verdict, column.value)
        };
        for (x, y, said) in [
            (2.0, f64::NAN, "x: 2 (bar: at most 1); y: not measured"),
            (f64::NAN, 2.0, "x: not measured; y: 2 (bar: at most 1)"),
        ] {
            assert_eq!(judged(x, y), (Verdict::Differs, said.to_owned()));
        }
        let missing = "x: 0.5; y: not measured".to_owned();
        assert_eq!(judged(0.5, f64::NAN), (Verdict::NotMeasured, missing));
    }

    #[test]
    fn a_figure_has_the_digits_that_show_its_verdict() {
        let bar = |text: &str| toml::from_str::<Bar>(text).unwrap();
        let (mean, whole) = (Interval::Mean, Interval::Whole);
        for (x, is, interval, said) in [
            (Estimate::of([0.998]), "at_least = 1", mean, "0.998"),
            (Estimate::of([0.99996]), "at_least = 1", mean, "0.99996"),
            (Estimate::of([0.98]), "at_least = 1", mean, "0.98"),
            (
                estimate(0.12, 0.01),
                "at_least = 0.1",
                whole,
                "0.120 ± 0.010",
            ),
            (
                estimate(-0.0002, 0.004),
                "at_least = 0",
                mean,
                "-0.0002 ± 0.0040",
            ),
            (estimate(10.04, 0.3), "at_most = 10", mean, "10.04 ± 0.30"),
            (
                estimate(10.004, 0.3),
                "at_most = 10",
                mean,
                "10.004 ± 0.300",
            ),
        ] {
            assert_eq!(shown(&x, &bar(is), interval), said);
        }
    }

    #[test]
    fn a_changed_criterion_has_a_line_in_the_history() {
        for criteria in all() {
            let last = criteria.history().last();
            let last = last.map(|[_, hash, _]| hash);
            let asked = format!(
                "criteria/history.txt lacks: DATE {} {} CHANGE",
                criteria.id, criteria.hash
            );
            assert_eq!(last, Some(criteria.hash.as_str()), "{asked}");
        }
    }

    /// Sources of a module, its tests aside.
    fn sources(module: &Path) -> String {
        let mut text = fs::read_to_string(module.with_extension("rs")).unwrap_or_default();
        let Ok(folder) = fs::read_dir(module) else {
            return text;
        };
        for entry in folder {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
                text += &sources(&path.with_extension(""));
            }
        }
        text
    }

    /// The other half: a claim without a criterion is an error.
    #[test]
    fn every_criterion_is_that_of_a_claim() {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/papers");
        for criteria in all() {
            let text = sources(&papers.join(criteria.id));
            for criterion in criteria.all() {
                let id = format!("\"{}\"", criterion.id);
                assert!(text.contains(&id), "no claim has {id}");
            }
        }
    }

    #[test]
    fn no_claim_is_listed_twice_and_no_figure_twice_in_one() {
        for criteria in all() {
            let mut seen = std::collections::BTreeSet::new();
            for criterion in criteria.all() {
                assert!(
                    seen.insert((criterion.id.clone(), criterion.world.clone())),
                    "{}",
                    criterion.id
                );
                let figures: std::collections::BTreeSet<_> =
                    criterion.check.iter().map(|check| &check.figure).collect();
                assert_eq!(figures.len(), criterion.check.len(), "{}", criterion.id);
            }
        }
    }

    #[test]
    fn a_bar_that_means_two_things_or_nothing_is_an_error() {
        let of = |bars: &str| {
            let text = format!(
                "id = \"a.b\"\nsource = \"Fig. 1\"\ninterval = \"mean\"\ncheck = [{{ figure = \"x\", {bars} }}]"
            );
            let criterion: Criterion = toml::from_str(&text).unwrap();
            criterion.checked().map_err(|error| error.to_string())
        };
        let bar = "{ at_least = 1 }";
        assert_eq!(of(&format!("printed = {bar}, ours = {bar}")), Ok(()));
        for wrong in [
            "{}",
            "{ value = 1 }",
            "{ within = 0.1 }",
            "{ value = 1, within = 0.1, by = 0.1 }",
            "{ at_least = 1, value = 1 }",
        ] {
            let error = of(&format!("printed = {wrong}, ours = {bar}")).unwrap_err();
            assert!(error.contains("a bar is"), "{wrong}: {error}");
        }
        assert!(
            of(&format!("ours = {bar}"))
                .unwrap_err()
                .contains("Printed")
        );
    }

    #[test]
    fn a_world_of_its_own_goes_before_the_general_one() {
        let criteria = Criteria::of("ncq").unwrap();
        let figures = |world| criteria.get("ncq.fig16", world).unwrap().check.len();
        assert_eq!([World::Sim, World::Netns].map(figures), [4, 2]);
        assert!(criteria.get("ncq.fig99", World::Sim).is_none());
    }
}
