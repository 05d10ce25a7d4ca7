// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of small things, compared: everything is built first and then measured in turn, round after round, so that a machine that changes
//! its speed changes all figures alike. Time is the processor time of the thread: work of others costs us cache and memory bandwidth, but
//! no turns.

use std::fmt::Write;

use serde::Serialize;

use makeway::text;

/// Something to measure.
pub struct Subject {
    pub name: &'static str,
    /// Does at least this number of pieces of work, and returns their number.
    pub work: Box<dyn FnMut(u64) -> u64>,
}

/// ns for each piece of work: the median of all rounds, the least and the tenth of ten.
#[derive(Clone, Copy, Serialize)]
pub struct Cost {
    pub median: f64,
    pub least: f64,
    pub p90: f64,
}

/// Costs of `subjects`, in their order.
pub fn measure(subjects: Vec<Subject>, rounds: u32, work: u64) -> Vec<(&'static str, Cost)> {
    let mut samples = vec![Vec::new(); subjects.len()];
    let mut subjects = subjects;
    for round in 0..=rounds {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            // The subject before this one has filled the cache.
            (subject.work)(work / 2);
            let begun = processor_ns();
            let done = (subject.work)(work);
            let ns = (processor_ns() - begun) as f64 / done as f64;
            // The first round warms up.
            if round > 0 {
                samples.push(ns);
            }
        }
    }
    let costs = samples.into_iter().map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        Cost {
            median: samples[samples.len() / 2],
            least: samples[0],
            p90: samples[samples.len() * 9 / 10],
        }
    });
    subjects.iter().map(|s| s.name).zip(costs).collect()
}

/// Processor time of this thread: the time of a core for it, beside any other load.
pub fn processor_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// A line for each name, a column for each size: `rows` has for each size the same names in the same order.
pub fn print(title: &str, size: &str, rows: &[(&str, u32, Cost)]) {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.1).collect();
    sizes.dedup();
    text::say!("{title}, median (least to p90)");
    let mut heads = format!("{size:>12}");
    for size in &sizes {
        let _ = write!(heads, "{size:>24}");
    }
    text::say!("{heads}");
    for first in rows.iter().take_while(|row| row.1 == sizes[0]) {
        let mut line = format!("{:>12}", first.0);
        for (_, _, cost) in rows.iter().filter(|row| row.0 == first.0) {
            let spread = format!("({:.1} to {:.1})", cost.least, cost.p90);
            let _ = write!(line, "{:>8.1} {spread:<15}", cost.median);
        }
        text::say!("{}", line.trim_end());
    }
    text::say!("");
}
