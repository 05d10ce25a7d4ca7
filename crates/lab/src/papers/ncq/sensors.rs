// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario 2: a grid of sensors reports over AODV to a collector behind the gateway. Fig. 14 and 15.

use makeway_core::measure::{EnergyWeights, energy_potential};
use makeway_report::model::Report;
use makeway_report::summary::{self, group};

use super::index::{Reading, by_waits};
use super::voip::{Sweep, each};
use super::{PLAIN, PUSHING, QUEUES, kbit, queue_on};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{
    self, highest, in_percent, lowest, mean, only, paired, plain, row, share,
};

const FILE: &str = "papers/ncq/sensors.toml";
const SECONDS: u64 = 120;
/// A sensor sends for some seconds at a time.
const RUNS: usize = 10;
/// Queues with another choice: those of the sweep, and 5 % as printed.
const CHOSEN: [&str; 5] = [QUEUES[0], QUEUES[1], QUEUES[2], QUEUES[3], PLAIN[2]];
/// Other choices, at 50 downloads.
const CHOICES: [(&str, &str); 7] = [
    ("a packet each pulse", "flow.sensor.period=10ms"),
    ("rate 2", "link.line.rate=2mbit"),
    ("rate 5", "link.line.rate=5mbit"),
    ("delay 1 ms", "link.line.delay=1ms"),
    ("buffer 30", "link.line.queue.limit=30 packets"),
    ("buffer 100", "link.line.queue.limit=100 packets"),
    ("no pushing out", "link.line.queue.ncq.push_out=false"),
];
/// Choices with which DropTail may lose half of the sensors' packets, without which no queue can double their goodput.
const PRESSED: [(&str, &str); 9] = [
    ("200 downloads", "flow.download.count=200"),
    ("400 downloads", "flow.download.count=400"),
    ("rate 5", "link.line.rate=5mbit"),
    ("rate 2", "link.line.rate=2mbit"),
    ("rate 1", "link.line.rate=1mbit"),
    ("buffer 20", "link.line.queue.limit=20 packets"),
    ("buffer 10", "link.line.queue.limit=10 packets"),
    ("delay 1 ms", "link.line.delay=1ms"),
    ("a packet each 20 ms, not 200", "flow.sensor.period=20ms"),
];
/// Downloads beside them, where a choice has no other number.
const MANY: u32 = 100;
/// Queues with them.
const PRESSING: [&str; 3] = [QUEUES[0], PLAIN[2], PUSHING[2]];
/// Time of a sensor's packet without waiting and without the radio, ms: three links of 5, 20 and 5 ms, and 64 B at 10 Mbit/s.
const EMPTY: f64 = 30.0 + 0.0512;
/// Index of all flows by waits, counted from 0.
const BY_WAITS: Reading = (
    "of all flows, by waits at the router, not above the flow's least; of sensors with those on the radio",
    |report| by_waits(report, EMPTY),
);

const SWEEP: Sweep = Sweep {
    prefix: "sensors/200ms",
    queues: &QUEUES,
    downloads: &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
    setup: "25 sensors 100 m apart and a base station at 802.11b with two-ray ground, AODV; what they notice goes past at 20 m/s and reaches 75 m; packets of 64 B, one each 200 ms while it is noticed; then the dumbbell of Fig. 8; spacing, way, packets, rates and delays chosen by us; downloads without end; radios take 1.3 W, 0.9 W and 0.74 W to send, to hear and idle",
    from: &["sensors/"],
};

fn cell(key: Key, queue: &str, downloads: u32) -> Cell {
    Cell {
        set: vec![
            queue_on("line", queue),
            format!("flow.download.count={downloads}"),
        ],
        runs: Some(RUNS),
        ..Cell::new(key, FILE, SECONDS)
    }
}

pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for queue in SWEEP.queues.iter().chain(&PLAIN) {
        for n in SWEEP.downloads {
            cells.push(cell(SWEEP.key(queue, *n), queue, *n));
        }
    }
    for queue in CHOSEN {
        for (name, set) in CHOICES {
            let mut cell = cell(choice(name, queue), queue, 50);
            cell.set.push(set.into());
            cells.push(cell);
        }
    }
    for queue in PRESSING {
        for (name, set) in PRESSED {
            let mut cell = cell(pressed(name, queue), queue, MANY);
            cell.set.push(set.into());
            cells.push(cell);
        }
    }
    cells
}

fn pressed(name: &str, queue: &str) -> Key {
    Key::new(format!("sensors/pressed/{name}/{queue}"))
}

fn choice(name: &str, queue: &str) -> Key {
    Key::new(format!("sensors/{name}/{queue}"))
}

/// Energy Potential of the sensors with a = b = 1: arrivals, of the packets that they sent, which is all that their channel had to
/// carry.
fn potential(report: &Report) -> f64 {
    let Some(packets) = group(report, "sensor").datagrams else {
        return f64::NAN;
    };
    let [came, sent] = [packets.received, packets.sent].map(|n| n as f64);
    energy_potential(came, sent, sent, EnergyWeights::default()).unwrap_or(f64::NAN)
}

/// The same where the maximum throughput is that of their channel, as the paper has it.
fn potential_of_channel(report: &Report) -> f64 {
    let Some(packets) = group(report, "sensor").datagrams else {
        return f64::NAN;
    };
    // IP packets of 64 B in bit/s, at 11 Mbit/s.
    let rate = |n: u64| n as f64 * 64.0 * 8.0 / SECONDS as f64;
    energy_potential(
        rate(packets.received),
        rate(packets.sent),
        11e6,
        EnergyWeights::default(),
    )
    .unwrap_or(f64::NAN)
}

/// Energy of all radios for each packet that arrived, in J.
fn energy(report: &Report) -> f64 {
    let joules: f64 = report.radios.iter().map(|radio| radio.energy_j).sum();
    let packets = group(report, "sensor").datagrams;
    packets.map_or(f64::NAN, |packets| joules / packets.received as f64)
}

fn satisfaction_of_all(report: &Report) -> f64 {
    report.asi.unwrap_or(f64::NAN)
}

/// Satisfaction index of the sensors alone.
fn satisfaction_of_sensors(report: &Report) -> f64 {
    let sensors = report.flows.iter().filter(|flow| flow.group == "sensor");
    summary::asi(&sensors.cloned().collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Packets of sensors, of all that come to the gateway.
fn part_of_packets(report: &Report) -> f64 {
    let sensors = group(report, "sensor").datagrams.map_or(0, |d| d.sent) as f64;
    let gateway = report.queues.iter().find(|q| q.name == "left -> right");
    // The queue counts the whole run.
    let length = SECONDS as f64 / report.seconds;
    gateway.map_or(f64::NAN, |queue| sensors * length / queue.packets_in as f64)
}

fn fig14(r: &Results) -> Claim {
    let part = |a: f64, b: f64| a / b;
    let gain = |queue: &str| SWEEP.against(r, queue, |x| kbit(x, "sensor"), part);
    let saved = |queue: &str| SWEEP.against(r, queue, potential, |a, b| a - b);
    let cost = |queue: &str| SWEEP.against(r, queue, |x| kbit(x, "download"), part);
    let favoured = &SWEEP.queues[1..];
    let column = |queues: &[&str; 3]| {
        let all = |of: &dyn Fn(&str) -> figures::Figures| {
            let all: Vec<_> = queues.iter().flat_map(|queue| of(queue)).collect();
            lowest(all.into_iter().map(|x| x.1))
        };
        let most = SWEEP.most(r, queues, |x| kbit(x, "sensor"), part);
        let lost = |x: &Report| group(x, "sensor").datagrams.map_or(f64::NAN, |d| d.loss);
        let lost = SWEEP.by_downloads(r, queues[2], lost);
        Column::of([
            ("goodput of the sensors by DropTail's, best run", most[0]),
            ("that best run by chance's best", most[1]),
            (
                "goodput of the sensors by DropTail's, least n and threshold",
                all(&gain),
            ),
            (
                "Energy Potential less DropTail's, least n and threshold",
                all(&saved),
            ),
            (
                "goodput of the downloads by DropTail's, least n and threshold",
                all(&cost),
            ),
            (
                "sensors with 1 % and with 5 % above 20 downloads apart by, %",
                only(apart(r, queues[0], queues[2]) * 100.0),
            ),
            (
                "packets of sensors lost, worst n with 5 %, %",
                in_percent(highest(lost.into_iter().map(|x| x.1))),
            ),
        ])
    };
    let largest = favoured.iter().flat_map(|queue| gain(queue));
    let largest = figures::largest(largest.map(|f| f.1.mean));
    Claim {
        id: "ncq.fig14",
        printed: column(&PLAIN),
        ours: column(&PUSHING),
        paper: "Goodput of the sensors rises by up to 92 %, their Energy Potential rises, goodput of the downloads is not hurt; above 20 downloads the threshold does not matter, since sensors send less than 1 % of the packets.".into(),
        said: format!(
            "goodput of the sensors relative to DropTail, {}; at most {:.0} % more; their Energy Potential (a = b = 1), difference from DropTail, {}; with the channel's 11 Mbit/s for the maximum throughput, in millionths, {}; energy for each packet that came, in J: {}; goodput of the downloads relative to DropTail, {}; above 20 downloads, goodput with 1 % and with 5 % are {} apart at most",
            each(favoured, |queue| row(&gain(queue), plain)),
            100.0 * (largest - 1.0),
            each(favoured, |queue| row(&saved(queue), plain)),
            each(favoured, |queue| {
                let of = |x: &Report| 1e6 * potential_of_channel(x);
                row(&SWEEP.against(r, queue, of, |a, b| a - b), plain)
            }),
            each(&["fifo", "0.05"], |queue| row(&SWEEP.by_downloads(r, queue, energy), plain)),
            each(favoured, |queue| row(&cost(queue), plain)),
            figures::percent(apart(r, "0.01", "0.05"))
        ),
        ideal: "no packet of a sensor lost".into(),
        why: why(r),
        setup: SWEEP.setup,
        from: SWEEP.from,
        tables: vec![best_runs(r)],
        charts: vec![
            SWEEP.chart(r, "Fig. 14a: goodput of a download", "kbit/s", |x| kbit(x, "download")),
            SWEEP.chart(r, "Fig. 14b: goodput of a sensor", "kbit/s", |x| kbit(x, "sensor")),
            SWEEP.chart(r, "Fig. 14c: Energy Potential of the sensors", "EP", potential),
        ],
        ..Claim::default()
    }
}

/// How far the sensors' goodput is between two thresholds where more than 20 downloads are beside them, most.
fn apart(r: &Results, few: &str, many: &str) -> f64 {
    let [few, many] = [few, many].map(|queue| SWEEP.by_downloads(r, queue, |x| kbit(x, "sensor")));
    let apart = (few.iter().zip(&many)).filter(|((n, _), _)| *n > 20);
    figures::largest(apart.map(|((_, a), (_, b))| (a.mean / b.mean - 1.0).abs()))
}

/// Bounds of the gain, and effects of the choices.
fn why(r: &Results) -> String {
    let lost = |queue: &str| {
        let lost = |x: &Report| group(x, "sensor").datagrams.map_or(f64::NAN, |d| d.loss);
        row(&SWEEP.by_downloads(r, queue, lost), share)
    };
    let part = SWEEP.by_downloads(r, "fifo", part_of_packets);
    let choices = CHOICES.iter().filter_map(|(name, _)| {
        let of = |queue: &str| {
            let runs = r.get(&choice(name, queue))?;
            Some(plain(&mean(runs, |x| kbit(x, "sensor"))))
        };
        let all: Option<Vec<String>> = CHOSEN.into_iter().map(of).collect();
        Some(format!("{name}: {}", all?.join(", ")))
    });
    format!(
        "With a = b = 1 the Energy Potential is goodput by maximum throughput: the choice of that changes the scale and not the sign. A sensor can gain the share of its packets that DropTail loses, {}; with 5 %, {}. Sensors send {} of the packets. Goodput of a sensor with other choices, at 50 downloads, in kbit/s under DropTail, 1 %, 3 %, 5 %, and 5 % as printed: {}.",
        lost("fifo"),
        lost("0.05"),
        row(&part, share),
        choices.collect::<Vec<_>>().join("; ")
    )
}

/// Fig. 14 by the choices of [`PRESSED`].
fn best_runs(r: &Results) -> Table {
    let row = |says: &str, [fifo, printed, ours]: [&[Report]; 3]| {
        let lost = |x: &Report| group(x, "sensor").datagrams.map_or(f64::NAN, |d| d.loss);
        let goodput = |x: &Report| kbit(x, "sensor");
        let gains = [printed, ours].map(|ncq| {
            let pairs = ncq.iter().zip(fifo);
            let best = figures::largest(pairs.map(|(ncq, fifo)| goodput(ncq) / goodput(fifo)));
            let gain = paired(ncq, fifo, goodput, |a, b| a / b);
            [plain(&gain), plain(&only(best))]
        });
        let first = [says.to_owned(), share(&mean(fifo, lost))];
        first
            .into_iter()
            .chain(gains.concat())
            .collect::<Vec<String>>()
    };
    let first = row("nothing", PRESSING.map(|queue| SWEEP.runs(r, queue, MANY)));
    let changed =
        PRESSED.map(|(name, _)| row(name, PRESSING.map(|queue| &r[pressed(name, queue)])));
    let head = [
        "changed",
        "packets of sensors lost under DropTail",
        "goodput by DropTail's, 5 % as printed",
        "best run, as printed",
        "goodput by DropTail's, 5 % ours",
        "best run, ours",
    ];
    Table {
        title: "Fig. 14: goodput of the sensors with 100 downloads and one thing changed: rates in Mbit/s, buffers in packets".into(),
        head: head.map(String::from).into(),
        rows: [first].into_iter().chain(changed).collect(),
    }
}

fn fig15(r: &Results) -> Claim {
    let less = |a: f64, b: f64| a - b;
    let system = |queue: &str| SWEEP.against(r, queue, satisfaction_of_all, less);
    let sensors = |queue: &str| SWEEP.against(r, queue, satisfaction_of_sensors, less);
    let favoured = &SWEEP.queues[1..];
    let column = |queues: &[&str]| {
        let all = |figure: fn(&Report) -> f64| {
            lowest(
                queues
                    .iter()
                    .map(|queue| SWEEP.overall(r, queue, figure, less)),
            )
        };
        Column::of([
            (
                "index of all flows less DropTail's, mean over all n, least threshold",
                all(satisfaction_of_all),
            ),
            (
                "index of the sensors less DropTail's, mean over all n, least threshold",
                all(satisfaction_of_sensors),
            ),
        ])
    };
    Claim {
        id: "ncq.fig15",
        printed: column(&PLAIN),
        ours: column(&PUSHING),
        paper: "The Application Satisfaction Index of all flows, and of the sensors, is not lower than DropTail's.".into(),
        said: format!(
            "index of all flows, difference from DropTail, {}; of the sensors, {}",
            each(favoured, |queue| row(&system(queue), plain)),
            each(favoured, |queue| row(&sensors(queue), plain))
        ),
        ideal: "1".into(),
        why: "A flow's delay is counted from its least, on the radio too; sensors of which no packet arrived are left out. The table changes one thing of the index, over the same runs.".into(),
        setup: SWEEP.setup,
        from: SWEEP.from,
        tables: vec![SWEEP.readings(r, BY_WAITS)],
        charts: vec![
            SWEEP.chart(r, "Fig. 15a: satisfaction index of all flows", "ASI", satisfaction_of_all),
            SWEEP.chart(r, "Fig. 15b: satisfaction index of the sensors", "ASI", satisfaction_of_sensors),
        ],
        ..Claim::default()
    }
}

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![fig14(r), fig15(r)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::World;
    use crate::papers::claim::Verdict;
    use crate::papers::criteria::Criteria;
    use makeway::builtin;

    /// Short runs stand for those of all cells, DropTail's for DropTail's, one of NCQ for the others.
    fn verdicts(others: &str) -> Vec<Verdict> {
        let run = |queue: &str| {
            let set = [queue_on("line", queue), "duration=40s".into()];
            let set = [&set[..], &["flow.download.count=20".into()]].concat();
            let scenario = builtin::load(FILE, &set).unwrap();
            makeway_sim::run(&scenario, &makeway_sim::Options::default(), |_| {}).unwrap()
        };
        // Replications that are alike, so that intervals have no width.
        let [fifo, other] = ["fifo", others].map(|queue| vec![run(queue); 4]);
        let results = cells().into_iter().map(|cell| {
            let reports = if cell.key.path().contains("/fifo") {
                &fifo
            } else {
                &other
            };
            (cell.key, reports.clone())
        });
        let claims = claims(&results.collect());
        assert!(claims.iter().all(|claim| !claim.said.contains("NaN")));
        let criteria = Criteria::of("ncq").unwrap();
        let claims = criteria.judge(World::Sim, claims).unwrap();
        claims.iter().map(|claim| claim.ours.verdict).collect()
    }

    #[test]
    fn verdicts_follow_the_runs() {
        assert_eq!(verdicts("0.05")[0], Verdict::Reproduced);
        assert_eq!(verdicts("fifo"), [Verdict::Differs, Verdict::Reproduced]);
    }
}
