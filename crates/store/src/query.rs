// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of a sweep's runs, and their statistics: those of `makeway run --runs` and `--compare`, over the same values in the same order.

use std::collections::{BTreeMap, HashMap};

use makeway_report::estimate::Estimate;

use crate::error::StoreError;
use crate::plan::{Job, Plan, Shard};
use crate::store::{Store, text};
use crate::table::{Column, Table, Text};

/// Finished runs of a sweep with their figures, in the order of the plan.
pub struct Found<'a> {
    plan: &'a Plan,
    /// Names of groups, queues and figures.
    words: Text,
    runs: Vec<Run>,
}

struct Run {
    job: Job,
    /// Numbers of both words, and the value.
    figures: Vec<(Name, Option<f64>)>,
}

/// Group or queue, and figure.
type Name = (u32, u32);

/// Values of one figure by replication.
type Values = BTreeMap<u64, f64>;

impl<'a> Found<'a> {
    /// Reads the figures of all finished runs of `plan`.
    ///
    /// # Errors
    /// A part is gone or damaged.
    pub fn new(store: &Store, plan: &'a Plan) -> Result<Self, StoreError> {
        Self::of_values(store, plan, &[])
    }

    /// The same of the points at which each of these keys has one of its values: only the parts with their runs are read.
    ///
    /// # Errors
    /// A key is no axis, or does not take a value; as those of [`Found::new`].
    pub fn of_values(
        store: &Store,
        plan: &'a Plan,
        values: &[(String, Vec<String>)],
    ) -> Result<Self, StoreError> {
        // By part and key: points may share a run.
        let mut wanted: BTreeMap<usize, HashMap<String, Vec<usize>>> = BTreeMap::new();
        let (mut runs, mut words) = (Vec::new(), Text::default());
        let points = points(plan, values)?;
        for job in plan.jobs(Shard::ALL).filter(|job| points[job.point]) {
            let key = plan.key(job);
            let Some(entry) = store.entry(&key) else {
                continue;
            };
            if entry.fingerprint.is_some() {
                let keys = wanted.entry(entry.part).or_default();
                keys.entry(key).or_default().push(runs.len());
                runs.push(Run {
                    job,
                    figures: Vec::new(),
                });
            }
        }
        for (part, keys) in wanted {
            let figures = store.figures(part)?;
            let (key, of, figure) = (
                text(&figures, "key")?,
                text(&figures, "of")?,
                text(&figures, "figure")?,
            );
            let Some(Column::Real(values)) = figures.column("value") else {
                return Err(StoreError::Table("no number `value`".into()));
            };
            let runs_of = |key: &String| keys.get(key).map(Vec::as_slice).unwrap_or_default();
            let runs_of: Vec<&[usize]> = key.words().iter().map(runs_of).collect();
            let mut number = |text: &Text| {
                text.words()
                    .iter()
                    .map(|word| words.number(word))
                    .collect::<Vec<u32>>()
            };
            let (ofs, names) = (number(of), number(figure));
            // A run that the part has twice has the same figures twice: by key the first of them, and whether it came again.
            let mut begun: Vec<(Option<Name>, bool)> = vec![(None, false); runs_of.len()];
            let nameless = |row| StoreError::Table(format!("row {row} of figures has no name"));
            for (row, value) in values.iter().enumerate() {
                let place = |ids: &[u32]| ids.get(row).map(|id| *id as usize);
                let (runs_of, at, name) = (|| {
                    let at = place(key.ids())?;
                    let (of, figure) = (place(of.ids())?, place(figure.ids())?);
                    let name: Name = (*ofs.get(of)?, *names.get(figure)?);
                    Some((*runs_of.get(at)?, at, name))
                })()
                .ok_or_else(|| nameless(row))?;
                let (first, again) = &mut begun[at];
                *again |= *first == Some(name);
                if *again {
                    continue;
                }
                first.get_or_insert(name);
                // None of this sweep, if it is of another.
                for run in runs_of {
                    runs[*run].figures.push((name, *value));
                }
            }
        }
        Ok(Self { plan, words, runs })
    }

    /// A row for each figure of each run: the axes, `replication`, `of`, `figure`, `value`.
    pub fn figures(&self) -> Table {
        let rows = || {
            self.runs
                .iter()
                .flat_map(|run| run.figures.iter().map(move |row| (run.job, row)))
        };
        let points: Vec<usize> = rows().map(|(job, _)| job.point).collect();
        let axes: Vec<usize> = (0..self.plan.axes.len()).collect();
        axes_of(self.plan, &axes, &points)
            .with(
                "replication",
                Column::Whole(
                    rows()
                        .map(|(job, _)| Some(job.replication as i64))
                        .collect(),
                ),
            )
            .with(
                "of",
                rows().map(|(_, row)| self.words.word(row.0.0)).collect(),
            )
            .with(
                "figure",
                rows().map(|(_, row)| self.words.word(row.0.1)).collect(),
            )
            .with(
                "value",
                Column::Real(rows().map(|(_, row)| row.1).collect()),
            )
    }

    /// A mean with its 95 % interval for each figure and each combination of the values of the axes `by`. Over the axes that are left out
    /// the figure is averaged within each replication first, since points share their random numbers.
    ///
    /// # Errors
    /// `by` names no axis.
    pub fn estimates(&self, by: &[String]) -> Result<Table, StoreError> {
        let axes: Vec<usize> = by
            .iter()
            .map(|key| axis(self.plan, key))
            .collect::<Result<_, _>>()?;
        let groups = self.groups(&axes);
        let (mut points, mut rows) = (Vec::new(), Rows::default());
        for (point, figures) in &groups {
            for (name, values) in figures {
                points.push(*point);
                rows.push(&self.words, *name, Estimate::of(values.values().copied()));
            }
        }
        Ok(rows.table(axes_of(self.plan, &axes, &points)))
    }

    /// By how much each figure is larger with each other value of `key` than with `base`: the mean of the differences within pairs of runs
    /// with the same random numbers, and its interval; for each combination of the values of the other axes.
    ///
    /// # Errors
    /// `key` is no axis, or does not take the value `base`.
    pub fn differences(&self, key: &str, base: &str) -> Result<Table, StoreError> {
        let axis = axis(self.plan, key)?;
        let base_place = place(self.plan, axis, base)?;
        let axes: Vec<usize> = (0..self.plan.axes.len()).collect();
        let groups = self.groups(&axes);
        let groups: BTreeMap<usize, _> = groups.into_iter().collect();
        let (mut points, mut rows, mut certain) = (Vec::new(), Rows::default(), Vec::new());
        for (point, figures) in &groups {
            let mut places = self.plan.places(*point);
            if places[axis] == base_place {
                continue;
            }
            places[axis] = base_place;
            let Some(of_base) = groups.get(&self.plan.point(&places)) else {
                continue;
            };
            for (name, ours) in figures {
                let Some((_, theirs)) = of_base.iter().find(|(known, _)| known == name) else {
                    continue;
                };
                let pairs = theirs
                    .iter()
                    .filter_map(|(replication, value)| Some(ours.get(replication)? - value));
                let estimate = Estimate::of(pairs);
                points.push(*point);
                certain.push(Some(estimate.certain()));
                rows.push(&self.words, *name, estimate);
            }
        }
        let than = points.iter().map(|_| Some(base)).collect();
        let table = axes_of(self.plan, &axes, &points).with("than", than);
        Ok(rows.table(table).with("certain", Column::Flag(certain)))
    }

    /// Values of each figure for each combination of values of `axes`, by the first of its points; figures in the order of their runs.
    fn groups(&self, axes: &[usize]) -> Vec<(usize, Vec<(Name, Values)>)> {
        /// Sum and number of values by replication.
        type Sums = BTreeMap<u64, (f64, u64)>;
        /// The first point, figures in order, and their places.
        type Group = (usize, Vec<(Name, Sums)>, HashMap<Name, usize>);
        let mut groups: BTreeMap<Vec<usize>, Group> = BTreeMap::new();
        for run in &self.runs {
            let places = self.plan.places(run.job.point);
            let places = axes.iter().map(|axis| places[*axis]).collect();
            let (_, figures, known) = groups
                .entry(places)
                .or_insert_with(|| (run.job.point, Vec::new(), HashMap::new()));
            for (name, value) in &run.figures {
                let place = *known.entry(*name).or_insert_with(|| {
                    figures.push((*name, Sums::new()));
                    figures.len() - 1
                });
                if let Some(value) = value {
                    let (sum, count) = figures[place]
                        .1
                        .entry(run.job.replication)
                        .or_insert((0.0, 0));
                    *sum += value;
                    *count += 1;
                }
            }
        }
        let mean =
            |(replication, (sum, count)): (u64, (f64, u64))| (replication, sum / count as f64);
        let means = |(name, sums): (Name, Sums)| (name, sums.into_iter().map(mean).collect());
        groups
            .into_values()
            .map(|(point, figures, _)| (point, figures.into_iter().map(means).collect()))
            .collect()
    }
}

/// Number of the axis of a key.
fn axis(plan: &Plan, key: &str) -> Result<usize, StoreError> {
    let axes = &plan.axes;
    axes.iter().position(|axis| axis.key == key).ok_or_else(|| {
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
        let keys = if keys.is_empty() {
            "none".into()
        } else {
            keys.join(", ")
        };
        StoreError::refused(format!(
            "the sweep does not change `{key}`: its keys are {keys}"
        ))
    })
}

/// Place of a value among those of an axis.
fn place(plan: &Plan, axis: usize, value: &str) -> Result<usize, StoreError> {
    let axis = &plan.axes[axis];
    let found = axis.values.iter().position(|known| known == value);
    found.ok_or_else(|| {
        let (key, values) = (&axis.key, axis.values.join(", "));
        StoreError::refused(format!(
            "`{key}` does not take the value `{value}` in this sweep: it takes {values}"
        ))
    })
}

/// Whether at each point each of these keys has one of its values.
fn points(plan: &Plan, values: &[(String, Vec<String>)]) -> Result<Vec<bool>, StoreError> {
    let mut points = vec![true; plan.points()];
    for (key, values) in values {
        let axis = axis(plan, key)?;
        let places = values.iter().map(|value| place(plan, axis, value));
        let places: Vec<usize> = places.collect::<Result<_, _>>()?;
        for (point, wanted) in points.iter_mut().enumerate() {
            *wanted &= places.contains(&plan.places(point)[axis]);
        }
    }
    Ok(points)
}

/// Columns of estimates.
#[derive(Default)]
struct Rows {
    of: Text,
    figure: Text,
    mean: Vec<Option<f64>>,
    half_width: Vec<Option<f64>>,
    runs: Vec<Option<i64>>,
}

impl Rows {
    fn push(&mut self, words: &Text, name: Name, estimate: Estimate) {
        self.of.push(words.word(name.0));
        self.figure.push(words.word(name.1));
        self.mean.push((estimate.runs > 0).then_some(estimate.mean));
        self.half_width.push(estimate.half_width);
        self.runs.push(Some(estimate.runs as i64));
    }

    fn table(self, axes: Table) -> Table {
        axes.with("of", Column::Text(self.of))
            .with("figure", Column::Text(self.figure))
            .with("mean", Column::Real(self.mean))
            .with("half_width", Column::Real(self.half_width))
            .with("runs", Column::Whole(self.runs))
    }
}

/// Columns with the values of `axes` at `points`.
fn axes_of(plan: &Plan, axes: &[usize], points: &[usize]) -> Table {
    let mut table = Table::default();
    for axis in axes {
        let axis_values = &plan.axes[*axis].values;
        let values = points
            .iter()
            .map(|point| Some(axis_values[plan.places(*point)[*axis]].as_str()));
        table = table.with(plan.axes[*axis].key.as_str(), Column::typed(values));
    }
    table
}

/// A row for each finished run of `plan`: the axes, then the columns of the store.
///
/// # Errors
/// A part is gone or damaged.
pub fn runs(store: &Store, plan: &Plan) -> Result<Table, StoreError> {
    let mut parts: HashMap<usize, Table> = HashMap::new();
    let mut rows: Vec<(usize, usize, usize)> = Vec::new();
    for job in plan.jobs(Shard::ALL) {
        if let Some(entry) = store.entry(&plan.key(job)) {
            if let std::collections::hash_map::Entry::Vacant(vacant) = parts.entry(entry.part) {
                vacant.insert(store.runs(entry.part)?);
            }
            rows.push((job.point, entry.part, entry.row));
        }
    }
    let points: Vec<usize> = rows.iter().map(|(point, ..)| *point).collect();
    let axes: Vec<usize> = (0..plan.axes.len()).collect();
    let mut table = axes_of(plan, &axes, &points);
    let cells = || rows.iter().map(|(_, part, row)| (&parts[part], *row));
    for name in [
        "replication",
        "seed",
        "status",
        "error",
        "fingerprint",
        "hops",
        "cpu_ns",
        "key",
        "world",
        "code",
        "host",
    ] {
        let texts = cells().map(|(part, row)| match part.column(name) {
            Some(Column::Text(text)) => text.get(row),
            _ => None,
        });
        let whole = cells().map(|(part, row)| match part.column(name) {
            Some(Column::Whole(values)) => values.get(row).copied().flatten(),
            _ => None,
        });
        let column = match name {
            "replication" | "seed" | "hops" | "cpu_ns" => Column::Whole(whole.collect()),
            _ => texts.collect(),
        };
        table = table.with(name, column);
    }
    Ok(table)
}

/// A row for each finished run of `plan` whose report is kept: the axes, `replication`, `report` (JSON).
///
/// # Errors
/// The system's.
pub fn reports(store: &mut Store, plan: &Plan) -> Result<Table, StoreError> {
    let jobs: Vec<Job> = plan.jobs(Shard::ALL).collect();
    let keys: Vec<String> = jobs.iter().map(|job| plan.key(*job)).collect();
    let found = store.reports(&keys, plan.detail)?;
    let rows = jobs.iter().zip(&keys);
    let rows = rows.filter_map(|(job, key)| Some((job, found.get(key)?.as_str())));
    let rows: Vec<(&Job, &str)> = rows.collect();
    let points: Vec<usize> = rows.iter().map(|(job, _)| job.point).collect();
    let axes: Vec<usize> = (0..plan.axes.len()).collect();
    let replications = rows.iter().map(|(job, _)| Some(job.replication as i64));
    Ok(axes_of(plan, &axes, &points)
        .with("replication", Column::Whole(replications.collect()))
        .with("report", rows.iter().map(|(_, text)| Some(*text)).collect()))
}

#[cfg(test)]
mod tests;
