// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts from made-up figures, part by part: those of a world where the paper and the ideal are right, then one of them spoilt.

use makeway_report::model::{
    DatagramReport, FlowReport, Quantiles, QueueingReport, TasksReport, VoiceReport,
};

use super::*;
use crate::papers::claim::Verdict;
use crate::papers::criteria::Side;
use crate::papers::tests::{
    all_are, every_figure_but_closed_forms_is_refused, every_figure_is_refused_when_it_is_wrong,
    judged, made_up,
};

/// The statements of one part.
fn part(claims: fn(&Results) -> Vec<Claim>) -> Paper {
    Paper { claims, ..NCQ }
}

/// By these results each statement of a part is reproduced, and none is with a figure spoilt.
fn follow_their_runs(claims: fn(&Results) -> Vec<Claim>, perfect: &Results) {
    let paper = part(claims);
    all_are(
        Verdict::Reproduced,
        &judged(&paper, World::Sim, perfect),
        &[],
    );
    every_figure_is_refused_when_it_is_wrong(&paper, World::Sim, perfect);
}

/// Four replications that are alike, so that intervals have no width.
fn results(cells: Vec<Cell>, report: impl Fn(&str) -> Report) -> Results {
    let each = cells.into_iter().map(|cell| {
        let runs = cell.runs.unwrap_or(4).min(4);
        let reports = vec![report(cell.key.path()); runs];
        (cell.key, reports)
    });
    each.collect()
}

/// Queue of a cell: of [`QUEUES`], [`PLAIN`] or [`causes::FREE`].
fn queue(path: &str) -> &str {
    let all = [&QUEUES[..], &PLAIN, &causes::FREE].concat();
    let is_queue = |part: &&str| all.contains(part);
    path.split('/').find(is_queue).unwrap()
}

fn is_ncq(path: &str) -> bool {
    queue(path) != "fifo"
}

fn flow(group: &str, kind: &str, kbit: f64) -> FlowReport {
    FlowReport {
        name: group.into(),
        group: group.into(),
        kind: kind.into(),
        goodput_bps: kbit * 1e3,
        ..FlowReport::default()
    }
}

/// A flow whose packets wait 10 or 50 ms of 100 at most.
fn waiting(flow: FlowReport, mean_ms: f64) -> FlowReport {
    FlowReport {
        queueing: Some(QueueingReport {
            mean_ms,
            max_ms: 100.0,
            ..QueueingReport::default()
        }),
        ..flow
    }
}

fn datagrams(flow: FlowReport, loss: f64, delay_ms: f64) -> FlowReport {
    let delay_ms = Quantiles {
        mean: delay_ms,
        ..Quantiles::default()
    };
    FlowReport {
        datagrams: Some(DatagramReport {
            sent: 1000,
            received: (1000.0 * (1.0 - loss)) as u64,
            loss,
            delay_ms,
            ..DatagramReport::default()
        }),
        ..flow
    }
}

/// R by the paper's scale, a point above the report's.
fn voice(flow: FlowReport, r: f64) -> FlowReport {
    FlowReport {
        voice: Some(VoiceReport {
            mouth_to_ear_ms: 50.0,
            r_factor: r - 1.0,
            mos: 3.0,
        }),
        ..flow
    }
}

fn with_index(asi: f64, flows: Vec<FlowReport>) -> Report {
    Report {
        asi: Some(asi),
        ..made_up(120.0, flows, vec![])
    }
}

#[test]
fn fig_2_follows_its_runs() {
    let report = |path: &str| {
        let parts: Vec<&str> = path.split('/').collect();
        let load: f64 = parts[3].parse().unwrap();
        let gain = match parts[2] {
            "fifo" => 0.0,
            "1" => 0.6,
            threshold => 0.2 + 2.0 * threshold.parse::<f64>().unwrap() + load / 500.0,
        };
        let flows = [("short", 10.0 * (1.0 - gain)), ("long", 20.0)]
            .map(|(name, delay)| datagrams(flow(name, "poisson", 100.0), 0.0, delay));
        made_up(1990.0, flows.into(), vec![])
    };
    let perfect = results(theory::cells(), report);
    let paper = part(theory::claims);
    let claims = judged(&paper, World::Sim, &perfect);
    let fig2 = claims.iter().find(|claim| claim.id == "ncq.fig2").unwrap();
    assert_eq!(
        fig2.ours.verdict,
        Verdict::Reproduced,
        "{}",
        fig2.ours.value
    );
    let closed = [
        ("ncq.fig1", Side::Printed),
        ("ncq.fig1", Side::Ours),
        ("ncq.fig2", Side::Printed),
    ];
    every_figure_but_closed_forms_is_refused(&paper, World::Sim, &perfect, &closed);
}

/// A task of that many kbit/s in its time.
fn task(group: &str, kbit: f64, seconds: f64) -> FlowReport {
    let completion_ms = Quantiles {
        mean: seconds * 1e3,
        ..Quantiles::default()
    };
    FlowReport {
        tasks: Some(TasksReport {
            done: 1,
            completion_ms,
        }),
        ..flow(group, "bulk", kbit * seconds / 300.0)
    }
}

/// With DropTail 7 tasks are done at 30.5 s and all after 60, with NCQ 10 and after 35.
fn tasks(path: &str) -> Report {
    let gain = if path.starts_with("ftp/20/") {
        9.5
    } else {
        9.6
    };
    let (short, long, early, last) = match is_ncq(path) {
        true => (task("short", 100.0 * gain, 5.0), 108.0, 9, 35.0),
        false => (task("short", 100.0, 20.0), 100.0, 6, 60.0),
    };
    let mut flows = vec![short];
    flows.extend((0..early).map(|_| task("long", long, 25.0)));
    flows.push(task("long", long, last));
    made_up(300.0, flows, vec![])
}

#[test]
fn statements_on_tasks_follow_their_runs() {
    let perfect = results(ftp::cells(), tasks);
    follow_their_runs(ftp::claims, &perfect);
}

#[test]
fn fig_8_explains_itself_by_its_runs() {
    let why = |keep: &str| {
        let perfect = results(ftp::cells(), |path| match path.split_once("choice/keep/") {
            Some(("", "0.05")) => tasks(keep),
            _ => tasks(path),
        });
        ftp::claims(&perfect)[0].why.clone()
    };
    let [ncq, fifo] = ["ftp/10/1MB/0.05/80", "ftp/10/1MB/fifo/80"].map(why);
    assert!(ncq.contains("carries 0 %:"), "{ncq}");
    assert!(fifo.contains("carries 100 %:"), "{fifo}");
    assert!(fifo.contains("keep least with keep, 1"), "{fifo}");
}

#[test]
fn statements_on_sensors_follow_their_runs() {
    let perfect = results(sensors::cells(), |path| {
        let (index, kbit, loss, wait) = match is_ncq(path) {
            true => (0.6, 19.0, 0.005, 50.0),
            false => (0.5, 10.0, 0.5, 10.0),
        };
        let download = waiting(flow("download", "bulk", 1000.0), 20.0);
        let sensor = datagrams(flow("sensor", "sensor", kbit), loss, 40.0);
        with_index(index, vec![download, waiting(sensor, wait)])
    });
    follow_their_runs(sensors::claims, &perfect);
}

#[test]
fn statements_on_a_call_follow_their_runs() {
    let cells = voip::cells().into_iter();
    let cells = cells.filter(|cell| cell.key.path().starts_with("voip/"));
    let perfect = results(cells.collect(), |path| {
        let (index, kbit, r, loss) = match is_ncq(path) {
            true => (0.6, 60.0, 75.0, 0.0),
            false => (0.5, 50.0, 55.0, 0.1),
        };
        let downloads = match queue(path) {
            "0.05" | "plain-0.05" => 990.0,
            _ => 1000.0,
        };
        let call = voice(datagrams(flow("call", "on-off", kbit), loss, 40.0), r);
        let download = flow("download", "bulk", downloads);
        with_index(index, vec![waiting(download, 20.0), waiting(call, 10.0)])
    });
    follow_their_runs(voip::claims, &perfect);
}

/// They are ours alone: the kernel's runs have no queue as printed.
#[test]
fn statements_on_a_call_beside_the_kernels_tcp_follow_their_runs() {
    let perfect = results(voip::kernel_cells(), |path| {
        let (kbit, r) = if is_ncq(path) {
            (60.0, 75.0)
        } else {
            (50.0, 55.0)
        };
        let call = voice(datagrams(flow("call", "on-off", kbit), 0.0, 40.0), r);
        made_up(60.0, vec![flow("download", "bulk", 1000.0), call], vec![])
    });
    let paper = part(voip::kernel_claims);
    let ours = [Verdict::NotMeasured, Verdict::Reproduced];
    let but = ["ncq.fig16", "ncq.fig17"].map(|id| (id, ours));
    let claims = judged(&paper, World::Netns, &perfect);
    all_are(Verdict::Reproduced, &claims, &but);
    every_figure_is_refused_when_it_is_wrong(&paper, World::Netns, &perfect);
}

/// With four routers calls more than double in 38 % of the runs; with three R rises by up to half in 88 %, by more in 4 %, and the index
/// in 86 %. Where favoured packets push others out, R rises in 94 %.
#[test]
fn statements_on_some_routers_follow_their_runs() {
    let perfect = results(incremental::cells(), |path| {
        let parts: Vec<&str> = path.split('/').collect();
        let run: u32 = parts[2].parse().unwrap();
        let (kbit, loss) = match parts[1] {
            "4" if run <= 19 => (25.0, 0.005),
            "4" => (15.0, 0.005),
            _ => (10.0, 0.3),
        };
        let some = match parts[0] {
            "incremental" => 45,
            _ => 44,
        };
        let r = match parts[1] {
            "3" if run <= 2 => 85.0,
            "3" if run <= 2 + some => 60.0,
            _ => 50.0,
        };
        let index = if parts[1] == "3" && run <= 43 {
            0.6
        } else {
            0.5
        };
        let call = voice(datagrams(flow("call", "on-off", kbit), loss, 40.0), r);
        with_index(index, vec![flow("download", "bulk", 1000.0), call])
    });
    follow_their_runs(incremental::claims, &perfect);
}

#[test]
fn statements_of_section_6_follow_their_runs() {
    let perfect = results(variants::cells(), |path| {
        let variant = path.strip_prefix("variants/").unwrap();
        let calls = match variant {
            "probabilistic" => [75.0, 70.0],
            "outcome" => [80.0, 80.0],
            _ => [80.0, 60.0],
        };
        let (kbit, page) = match variant {
            "acks" => (1200.0, 1.0),
            _ => (1000.0, 2.0),
        };
        let lost = match variant {
            "one-call-low-rate" => 0.1,
            _ => 0.2,
        };
        let mut flows = vec![
            flow("download", "bulk", kbit),
            flow("upload", "bulk", 1000.0),
            task("page", 100.0, page),
            datagrams(flow("beacon", "poisson", 8.0), lost, 40.0),
        ];
        flows.extend(calls.map(|r| voice(datagrams(flow("call", "cbr", 96.0), 0.0, 40.0), r)));
        made_up(115.0, flows, vec![])
    });
    let paper = part(variants::claims);
    let claims = judged(&paper, World::Sim, &perfect);
    let planned = claims.iter().map(|claim| {
        let verdicts = [Verdict::NotMeasurable, Verdict::Reproduced];
        (claim.id, verdicts)
    });
    let planned: Vec<_> = planned.collect();
    all_are(Verdict::Reproduced, &claims, &planned);
    every_figure_is_refused_when_it_is_wrong(&paper, World::Sim, &perfect);
}
