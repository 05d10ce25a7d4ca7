// SPDX-License-Identifier: MIT OR Apache-2.0
//! `changes` of a link: the rates that it takes one after the other.
//!
//! Written as steps, or in a file: CSV with the columns `time_s,mbit`, or a trace of Mahimahi ([`Opportunities`]).

use makeway_core::units::{Duration, Rate};

use crate::context::Context;
use crate::document::{Item, Value};
use crate::error::ScenarioError;
use crate::field::{AT, FILE, Field, TIME, Values};
use crate::model::Changes;
use crate::opportunities::Opportunities;
use crate::section::{Section, read};

#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    AT,
    Field::optional("steps", Values::Other("an array of times and rates: `[[\"40s\", \"2.5mbit\"]]`"), "none", "rates from the start of traffic on; `\"0bit\"` is an outage, after which the rest of a packet is sent"),
    Field::optional("file", FILE, "none", "instead of `steps`: a CSV with the columns `time_s,mbit`, or a trace of Mahimahi"),
    Field::new("exact", Values::Flag, "false", "of a trace of Mahimahi: 1500 B on the wire leave at each of its times, instead of a rate for each tenth of a second. World `sim`"),
    Field::optional("every", TIME, "once", "time after which they repeat"),
];
const HEADER: &str = "time_s,mbit";
/// The rate that stands for an outage: what is left of a packet goes when the link is back.
pub(crate) const OUTAGE: Rate = Rate::from_bps(1);
/// Chosen by us: a day of changes each 10 ms.
const MOST_STEPS: usize = 10_000_000;

/// Changes at one end.
pub(crate) fn read_at(c: &Section<'_>, cx: &Context<'_>) -> Result<Changes, ScenarioError> {
    let every: Option<Duration> = c.read("every")?;
    let exact: bool = c.value("exact")?;
    let mut changes = match (c.given("steps")?, c.given("file")?) {
        (Some(steps), None) if !exact => Changes {
            steps: steps_of(steps, &c.name("steps"))?,
            ..Changes::default()
        },
        (Some(_), None) => {
            return Err(c.at("exact").error(format!(
                "`{}` is of a trace of Mahimahi: write `file = \"trace.txt\"`, or leave `exact` out",
                c.name("exact")
            )));
        }
        (None, Some(_)) => from_file(c, cx, exact)?,
        _ => {
            return Err(c.origin.error(format!(
                "`{}` needs either `steps` or `file`: write `steps = [[\"40s\", \"2.5mbit\"]]`",
                c.path
            )));
        }
    };
    let last = changes.steps.last().map_or(Duration::ZERO, |step| step.0);
    if let Some(every) = every {
        if exact {
            return Err(c.at("every").error(format!(
                "`{}`: a trace of Mahimahi begins again after its last line: leave `every` out",
                c.name("every")
            )));
        }
        if every <= last {
            return Err(c.at("every").error(format!(
                "`{}` is {every}, not later than the last change at {last}: make it longer",
                c.name("every")
            )));
        }
        changes.every = Some(every);
    }
    Ok(changes)
}

fn steps_of(item: &Item, name: &str) -> Result<Vec<(Duration, Rate)>, ScenarioError> {
    let wrong = |item: &Item| {
        item.origin.error(format!(
            "`{name}` should be pairs of a time and a rate, like [[\"40s\", \"2.5mbit\"], [\"60s\", \"600kbit\"]]"
        ))
    };
    let Value::Array(items) = &item.value else {
        return Err(wrong(item));
    };
    let mut steps: Vec<(Duration, Rate)> = Vec::with_capacity(items.len());
    for pair in items {
        let (at, rate) = match &pair.value {
            Value::Array(pair) => match &pair[..] {
                [at, rate] => (read(at, name)?, read::<Rate>(rate, name)?),
                _ => return Err(wrong(item)),
            },
            _ => return Err(wrong(pair)),
        };
        if steps.last().is_some_and(|(last, _)| *last >= at) {
            return Err(pair
                .origin
                .error(format!("`{name}`: {at} is not later than the step before")));
        }
        steps.push((at, rate.max(OUTAGE)));
    }
    match steps.is_empty() {
        true => Err(wrong(item)),
        false => Ok(steps),
    }
}

fn from_file(c: &Section<'_>, cx: &Context<'_>, exact: bool) -> Result<Changes, ScenarioError> {
    let (text, path, origin) = cx.file(c, "file")?;
    let changes = match exact {
        true => opportunities(&text).map(|trace| Changes {
            opportunities: Some(trace.clone()),
            ..trace.rates()
        }),
        false => parse(&text),
    };
    changes.map_err(|(line, message)| {
        origin.error(format!(
            "`{}`: {}:{line}: {message}",
            c.name("file"),
            path.display()
        ))
    })
}

/// Lines with their numbers from 1, but for empty ones and comments.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A trace of Mahimahi. On error: the line, from 1, and what is wrong.
pub(crate) fn opportunities(text: &str) -> Result<Opportunities, (usize, String)> {
    Opportunities::read(lines(text))
}

/// On error: the line, from 1, and what is wrong.
pub(crate) fn parse(text: &str) -> Result<Changes, (usize, String)> {
    let mut lines = lines(text).peekable();
    match lines.peek() {
        None => Err((1, format!("the file is empty: begin with `{HEADER}`"))),
        Some((_, HEADER)) => csv(lines.skip(1)),
        Some((_, line)) if line.bytes().all(|c| c.is_ascii_digit()) => {
            Opportunities::read(lines).map(|trace| trace.rates())
        }
        Some((n, line)) => Err((
            *n,
            format!(
                "`{line}` should be the header `{HEADER}`, or a trace of Mahimahi: a time in ms on each line"
            ),
        )),
    }
}

fn csv<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Changes, (usize, String)> {
    let mut changes = Changes::default();
    let mut end = 1;
    for (n, line) in lines {
        end = n;
        let number = |text: &str, most: f64| {
            let number: Option<f64> = text.trim().parse().ok();
            number.filter(|x| (0.0..=most).contains(x))
        };
        let pair = line
            .split_once(',')
            .and_then(|(at, rate)| Some((number(at, 1e6)?, number(rate, 1e6)?)));
        let Some((at, mbit)) = pair else {
            return Err((
                n,
                format!("`{line}` should be a time in s and a rate in Mbit/s"),
            ));
        };
        let at = Duration::from_nanos((at * 1e9).round() as u64);
        if changes.steps.last().is_some_and(|(last, _)| *last >= at) {
            return Err((n, "a change must be later than the one before it".into()));
        }
        if changes.steps.len() == MOST_STEPS {
            return Err((n, format!("there are more than {MOST_STEPS} changes")));
        }
        let rate = Rate::from_bps((mbit * 1e6).round() as u64);
        changes.steps.push((at, rate.max(OUTAGE)));
    }
    match changes.steps.is_empty() {
        true => Err((end, "there is no change".into())),
        false => Ok(changes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(bps: u64) -> Rate {
        Rate::from_bps(bps * 1_000_000)
    }

    #[test]
    fn a_table_of_rates_reads_and_zero_is_an_outage() {
        let changes = parse("# lte\ntime_s,mbit\n0,5\n0.5,0\n2,7\n").unwrap();
        let at = Duration::from_millis;
        let steps = [(at(0), mbit(5)), (at(500), OUTAGE), (at(2000), mbit(7))];
        assert_eq!(changes.steps, steps);
        assert_eq!(changes.nth(3), None);
    }

    #[test]
    fn a_trace_of_mahimahi_becomes_rates_that_repeat() {
        // Ten opportunities in the first 100 ms, none in the second, five in the 5 ms that are left:
        // 1.2, 0, 12 Mbit/s.
        let times = (1..=10).map(|n| n * 10).chain((1..=5).map(|n| 200 + n));
        let text: String = times.map(|ms| format!("{ms}\n")).collect();
        let changes = parse(&text).unwrap();
        let rates: Vec<u64> = changes.steps.iter().map(|(_, rate)| rate.bps()).collect();
        assert_eq!(rates, [1_200_000, 1, 12_000_000]);
        let (at, rate) = changes.nth(5).unwrap();
        assert_eq!((at, rate.bps()), (Duration::from_millis(405), 12_000_000));
        // The least of traces: a packet each millisecond.
        let changes = parse("1\n").unwrap();
        assert_eq!(changes.steps, [(Duration::ZERO, mbit(12))]);
        assert_eq!(changes.every, None);
    }

    #[test]
    fn an_outage_of_a_trace_of_mahimahi_is_one_step_however_long() {
        let changes = parse("1\n999999999\n").unwrap();
        let at = Duration::from_millis;
        let rate = |bps| Rate::from_bps(bps);
        let steps = [(0, 120_000), (100, 1), (999_999_900, 121_212)];
        assert_eq!(changes.steps.len(), 3);
        assert_eq!(changes.steps, steps.map(|(ms, bps)| (at(ms), rate(bps))));
        assert_eq!(changes.every, Some(at(999_999_999)));
        // The millionth second alone: a line of ten bytes.
        assert_eq!(parse("1000000000\n").unwrap().steps.len(), 2);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line) in [
            ("", 1),
            ("rate\n", 1),
            ("time_s,mbit\n", 1),
            ("time_s,mbit\n0,5\n\n0,6\n", 4),
            ("time_s,mbit\n0,-5\n", 2),
            ("time_s,mbit\n0;5\n", 2),
            ("5\n3\n", 2),
            ("0\n0\n", 2),
            ("5\n99999999999999\n", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
    }
}
