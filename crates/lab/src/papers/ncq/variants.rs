// SPDX-License-Identifier: MIT OR Apache-2.0
//! Section 6: what the paper leaves open, tried.

use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::{kbit, r_factor};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{in_percent, largest, mean, ms, paired, plain, share, smallest};

const FILE: &str = "papers/ncq/variants.toml";
const SETUP: &str = "dumbbell of Fig. 8 with both ways full: 20 downloads, 20 uploads, pages of 20 kB, five calls without pauses, a beacon of one 1000 B packet a second; threshold 5 %";
const RUNS: usize = 10;

/// Twice the beacon's rate; its packets and a half.
const LOW_RATE: &str = "link.line.queue.ncq.low_rate={ rate = \"16kbit\", burst = \"2500B\" }";

/// ns-2's TCP of 2001: an initial window of one, timeouts of a second.
const OF_2001: [&str; 3] = [
    "flow.download.tcp={ preset = \"ns2\" }",
    "flow.upload.tcp={ preset = \"ns2\" }",
    "flow.page.tcp={ preset = \"ns2\" }",
];

/// Changes of each.
const VARIANTS: [(&str, &[&str]); 11] = [
    ("fifo", &["link.line.queue.discipline=fifo"]),
    ("ncq", &[]),
    ("probabilistic", &["link.line.queue.ncq.probabilistic=true"]),
    (
        "step",
        &["flow.call.jitter=0ms", "link.line.queue.ncq.threshold=0.02"],
    ),
    (
        "outcome",
        &[
            "link.line.queue.ncq.window=5000",
            "link.line.queue.ncq.extra_wait=0.05",
        ],
    ),
    (
        "acks",
        &[
            "link.line.queue.ncq.control=true",
            "link.line.queue.1.ncq.threshold=1",
        ],
    ),
    ("acks-5", &["link.line.queue.ncq.control=true"]),
    ("low-rate", &[LOW_RATE]),
    ("one-call", &["flow.call.count=1"]),
    ("one-call-low-rate", &["flow.call.count=1", LOW_RATE]),
    ("tcp-2001", &OF_2001),
];

pub fn cells() -> Vec<Cell> {
    let cell = |(name, set): (&str, &[&str])| Cell {
        set: set.iter().map(|set| (*set).to_owned()).collect(),
        runs: Some(RUNS),
        ..Cell::new(key(name), FILE, 120)
    };
    VARIANTS.map(cell).into()
}

fn loss(report: &Report, name: &str) -> f64 {
    group(report, name).datagrams.map_or(f64::NAN, |d| d.loss)
}

/// The difference of the R-factors of the best call and of the worst.
fn spread(report: &Report) -> f64 {
    let calls = || report.flows.iter().filter_map(|flow| flow.voice);
    let [best, worst] = [
        largest(calls().map(|voice| voice.r_factor)),
        smallest(calls().map(|voice| voice.r_factor)),
    ];
    best - worst
}

/// How long a page takes, s.
fn page(report: &Report) -> f64 {
    group(report, "page")
        .tasks
        .map_or(f64::NAN, |tasks| tasks.completion_ms.mean / 1e3)
}

pub fn key(name: &str) -> Key {
    Key::new(format!("variants/{name}"))
}

fn runs<'a>(r: &'a Results, name: &str) -> &'a [Report] {
    &r[key(name)]
}

/// A figure with a variant, in that of the paper's NCQ.
fn part(r: &Results, name: &str, figure: impl Fn(&Report) -> f64) -> Estimate {
    paired(runs(r, name), runs(r, "ncq"), figure, |a, b| a / b)
}

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![probabilistic(r), outcome(r), acks(r), low_rate(r)]
}

fn probabilistic(r: &Results) -> Claim {
    let of = |name: &str| mean(runs(r, name), spread);
    let apart = paired(runs(r, "ncq"), runs(r, "probabilistic"), spread, |a, b| {
        a - b
    });
    Claim {
        id: "ncq.future.probabilistic",
        ours: Column::of([(
            "R of the best call less that of the worst, less by chance than by counters",
            apart,
        )]),
        paper: "Planned: priority by chance above the threshold, which is fair among non-congestive flows.".into(),
        said: format!(
            "R-factor of the best call less that of the worst: {} with the paper's counters, {} by chance; less by {} in pairs",
            plain(&of("ncq")), plain(&of("probabilistic")), plain(&apart)
        ),
        ideal: "0".into(),
        why: "The counters favour the packet that arrives when one more is allowed, and calls are periodic: their phases decide. A random choice does not depend on phases.".into(),
        setup: SETUP,
        from: &["variants/ncq", "variants/probabilistic"],
        tables: vec![overview(r)],
        ..Claim::default()
    }
}

fn outcome(r: &Results) -> Claim {
    let calls = |name: &str| mean(runs(r, name), r_factor);
    let downloads = part(r, "outcome", |x| kbit(x, "download"));
    Claim {
        id: "ncq.future.outcome",
        ours: Column::of([
            (
                "R of the calls, more than with 5 %",
                paired(runs(r, "outcome"), runs(r, "ncq"), r_factor, |a, b| a - b),
            ),
            ("goodput of the downloads by that with 5 %", downloads),
        ]),
        paper: "Planned: a threshold that follows what it does.".into(),
        said: format!(
            "told that others may wait 5 % longer: R-factor of the calls {} ({} with 5 %), downloads {} of their rate before",
            plain(&calls("outcome")),
            plain(&calls("ncq")),
            plain(&downloads)
        ),
        ideal: "as much priority as costs no more than was said".into(),
        why: "The threshold settles where the bytes that overtook make the others wait 5 % longer; short packets are cheap, so that is a large share of the packets. Why the downloads gain as well has not been looked into.".into(),
        setup: SETUP,
        from: &["variants/ncq", "variants/outcome"],
        ..Claim::default()
    }
}

fn acks(r: &Results) -> Claim {
    let ratio = |name: &str, group: &str| part(r, name, |x| kbit(x, group));
    let drops = |name: &str| {
        mean(runs(r, name), |x| {
            x.queues.iter().map(|queue| queue.dropped() as f64).sum()
        })
    };
    Claim {
        id: "ncq.future.acks",
        ours: Column::of([
            (
                "goodput of the downloads by that before",
                ratio("acks", "download"),
            ),
            ("time of a page by that before", part(r, "acks", page)),
        ]),
        paper: "Asked: acknowledgements and control packets favoured raise the sending rate and help short flows; how far it changes congestion control is open.".into(),
        said: format!(
            "all acknowledgements first: downloads {} of their rate before, uploads {}, pages take {} of the time; packets dropped: {} for {}. Within 5 %: downloads {}",
            plain(&ratio("acks", "download")), plain(&ratio("acks", "upload")), plain(&part(r, "acks", page)),
            Unit::Packets.show(&drops("acks")), Unit::Packets.show(&drops("ncq")), plain(&ratio("acks-5", "download"))
        ),
        ideal: "both ways full".into(),
        why: "With both ways full, acknowledgements wait behind the other way's data; in front of it they come back sooner, both ways carry more, and fewer packets are dropped, not more: congestion control answers every loss as before.".into(),
        setup: SETUP,
        from: &["variants/ncq", "variants/acks"],
        ..Claim::default()
    }
}

fn low_rate(r: &Results) -> Claim {
    let lost = |name: &str| mean(runs(r, name), |x| loss(x, "beacon"));
    let quality = |name: &str| plain(&mean(runs(r, name), r_factor));
    let less = paired(
        runs(r, "one-call"),
        runs(r, "one-call-low-rate"),
        |x| loss(x, "beacon"),
        |without, with| without - with,
    );
    Claim {
        id: "ncq.future.low-rate",
        ours: Column::of([(
            "the beacon loses less beside one call by, points",
            in_percent(less),
        )]),
        paper: "Planned: non-congestive traffic of few long packets found too.".into(),
        said: format!(
            "beside one call the beacon loses {}, {} with the paper's classifier; beside five {} and {}; R of five calls {} and {}",
            share(&lost("one-call-low-rate")), share(&lost("one-call")),
            share(&lost("low-rate")), share(&lost("ncq")), quality("low-rate"), quality("ncq")
        ),
        ideal: "no loss".into(),
        why: "A bucket of 2500 B that drains at 16 kbit/s recognises the beacon. Five calls are beyond the threshold already, so that it has to share what they leave; one is not. Downloads that wait for a timeout look slow too and take some of it.".into(),
        setup: SETUP,
        from: &["variants/ncq", "variants/low-rate", "variants/one-call"],
        ..Claim::default()
    }
}

/// All variants beside each other.
fn overview(r: &Results) -> Table {
    let delay = |x: &Report| {
        group(x, "call")
            .datagrams
            .map_or(f64::NAN, |d| d.delay_ms.mean)
    };
    let head = [
        "variant",
        "downloads, kbit/s each",
        "uploads",
        "pages, s",
        "calls, R",
        "calls' delay",
        "beacon, lost",
    ];
    let row = |name: &str| {
        let runs = runs(r, name);
        vec![
            name.to_owned(),
            plain(&mean(runs, |x| kbit(x, "download"))),
            plain(&mean(runs, |x| kbit(x, "upload"))),
            plain(&mean(runs, page)),
            plain(&mean(runs, r_factor)),
            ms(&mean(runs, delay)),
            share(&mean(runs, |x| loss(x, "beacon"))),
        ]
    };
    Table {
        title: "Variants of section 6".into(),
        head: head.map(str::to_owned).into(),
        rows: VARIANTS.map(|(name, _)| row(name)).into(),
    }
}

#[cfg(test)]
mod tests {
    use makeway::builtin;
    use makeway_core::units::Duration;
    use makeway_scenario::model::{Preset, Source, Tcp};

    use super::*;

    /// TCP of the downloads of a scenario.
    fn tcp(file: &str, set: &[String]) -> Vec<Tcp> {
        let scenario = builtin::load(file, set).unwrap();
        let of = |source: &Source| match source {
            Source::Bulk { tcp, .. } => Some(*tcp),
            _ => None,
        };
        let flows = scenario.flows.iter();
        flows.filter_map(|flow| of(&flow.source)).collect()
    }

    /// The paper is of 2009.
    #[test]
    fn every_scenario_has_the_tcp_of_the_papers_year_and_a_variant_that_of_2001() {
        let year = |tcp: &Tcp| match (tcp.initial_window, tcp.min_rto) {
            (Some(2), Some(rto)) if rto == Duration::from_millis(200) => 2009,
            (None, None) => 2001,
            other => panic!("{other:?}"),
        };
        let files = builtin::FILES.iter().map(|(file, _)| *file);
        let mut flows = 0;
        for file in files.filter(|file| file.starts_with("papers/ncq/")) {
            for tcp in tcp(file, &[]) {
                assert_eq!((tcp.preset, year(&tcp)), (Preset::Ns2, 2009), "{file}");
                flows += 1;
            }
        }
        assert!(flows > 10, "{flows}");
        let cells = cells();
        let old = cells.iter().find(|cell| cell.key == key("tcp-2001"));
        let years = tcp(FILE, &old.unwrap().settings());
        assert!(years.iter().all(|tcp| year(tcp) == 2001));
    }
}
