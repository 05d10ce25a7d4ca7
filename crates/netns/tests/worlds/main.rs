// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole runs in namespaces: as root, or in a user namespace of the test's own.

#![allow(clippy::unwrap_used)] // a test may panic

mod made;

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time;

use made::{bulk, call, cbr, egress, flow, scenario, video};
use makeway_core::loss::Loss;
use makeway_core::rate;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::sched::Discipline;
use makeway_core::ticket::TicketRate;
use makeway_core::units::{Bytes, Duration, Rate};
use makeway_netns::{Backend, Options, STALL_MS, run};
use makeway_report::model::{ClassReport, Report};
use makeway_scenario::model::{Changes, Issue, Pace, Scenario, Share, Source, Tcp};
use makeway_testing::{in_real_time_or, skip};
use makeway_vm::again;

macro_rules! checks {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn())),*] };
}

/// Tests that keep real time.
const TIMED: &[(&str, fn())] = checks! {
    delay_is_the_sum_of_the_links
    a_bulk_transfer_gets_the_rate
    segments_and_windows_are_those_of_the_scenario
    a_queue_with_deadlines_does_as_in_simulated_time
    feedback_drives_a_sender
    a_sender_whose_time_is_over_leaves_the_processor
    configured_loss_is_measured_loss
    bursts_show_in_delay_variation
    sqf_protects_what_fifo_breaks
    a_stop_gives_a_partial_report
    two_runs_go_side_by_side
    a_rate_changes_when_it_should
    tickets_divide_a_link
    a_qdisc_queues_in_the_place_of_a_datapath
};

/// Tests that fail on no machine for its stalls: refusals, and one that makes the stall.
const UNTIMED: &[(&str, fn())] = checks! {
    unknown_congestion_control_gets_a_list
    a_stall_is_noticed_and_ends_a_run_that_must_be_calm
    what_only_a_model_can_do_is_refused
};

/// All checks one after the other on the main thread: only a lone thread may enter a user
/// namespace, and runs that share the machine's cores would disturb each other's timing.
fn main() {
    if let Err(error) = makeway_netns::enter_user_namespace() {
        return skip(error);
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let (all, mut passed) = (time::Instant::now(), 0);
    let untimed = UNTIMED.iter().map(|check| (check, false));
    let checks = TIMED.iter().map(|check| (check, true)).chain(untimed);
    for ((name, check), is_timed) in checks {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            let began = time::Instant::now();
            let was_made = match is_timed {
                true => in_real_time_or(check, || again(name, &[])).is_some(),
                false => {
                    check();
                    true
                }
            };
            assert_nothing_left();
            let seconds = began.elapsed().as_secs_f64();
            let word = if was_made { "ok" } else { "skipped" };
            passed += 1;
            println!("test {name} ... {word} ({seconds:.1} s)");
        }
    }
    let seconds = all.elapsed().as_secs_f64();
    // As the harness says it.
    println!(
        "\ntest result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; {} filtered out; finished in {seconds:.2}s",
        TIMED.len() + UNTIMED.len() - passed
    );
}

fn report(scenario: &Scenario) -> Report {
    let report = run(scenario, Options::default(), |_| {}).unwrap();
    assert!(report.complete);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    for queue in &report.queues {
        let dropped: u64 = queue.drops.values().sum();
        assert_eq!(queue.packets_in, queue.packets_out + dropped, "{queue:?}");
    }
    report
}

fn loss(report: &Report, flow: usize) -> f64 {
    report.flows[flow].datagrams.as_ref().unwrap().loss
}

fn delay_is_the_sum_of_the_links() {
    let mut scenario = scenario(egress(None, 20), 3);
    scenario.links[0].egress[0] = egress(None, 15);
    scenario.flows.push(flow("probe", cbr("64kbit", 160)));
    let delay = report(&scenario).flows[0]
        .datagrams
        .clone()
        .unwrap()
        .delay_ms;
    assert!((35.0..36.0).contains(&delay.p50), "{delay:?}");
}

fn a_bulk_transfer_gets_the_rate() {
    let mut scenario = scenario(egress(Some("10mbit"), 2), 5);
    scenario.flows.push(flow("download", bulk("cubic")));
    let report = report(&scenario);
    // 1448 bytes of payload in 1538 on the wire.
    let most = 10e6 * 1448.0 / 1538.0;
    let got = report.flows[0].goodput_bps;
    assert!((got / most - 1.0).abs() < 0.02, "{got} of {most}");
    let queue = &report.queues[0];
    assert!((queue.utilisation - 1.0).abs() < 0.01, "{queue:?}");
}

fn segments_and_windows_are_those_of_the_scenario() {
    let goodput = |line, back, tcp| {
        let mut scenario = scenario(line, 5);
        scenario.links[1].egress[1] = egress(None, back);
        let mut source = bulk("reno");
        if let Source::Bulk { tcp: of, .. } = &mut source {
            *of = tcp;
        }
        scenario.flows.push(flow("download", source));
        report(&scenario).flows[0].goodput_bps
    };
    let [small, window] = [467, 65_535].map(|bytes| Some(Bytes::new(bytes)));
    let got = goodput(
        egress(Some("10mbit"), 2),
        0,
        Tcp {
            mss: small,
            ..Tcp::default()
        },
    );
    // 52 B of headers and timestamps, and Ethernet's 38 B.
    let most = 10e6 * 467.0 / 557.0;
    assert!((got / most - 1.0).abs() < 0.02, "{got} of {most}");

    let got = goodput(
        egress(None, 50),
        50,
        Tcp {
            window,
            ..Tcp::default()
        },
    );
    // 45 whole segments fit the window, each 100 ms.
    let most = 45.0 * 1448.0 * 8.0 / 0.1;
    assert!((0.95..1.01).contains(&(got / most)), "{got} of {most}");
}

fn classes(report: &Report) -> [ClassReport; 2] {
    let media = report.flows[0].media.clone().unwrap();
    media.classes.try_into().unwrap()
}

/// At a constant rate, all events follow from the scenario: the queue drops the same datagrams.
fn a_queue_with_deadlines_does_as_in_simulated_time() {
    let mut scenario = scenario(egress(Some("10mbit"), 40), 6);
    let rate = rate::Config::Fixed(Rate::from_bps(300_000));
    let mut call = call(rate, "sbpn2");
    if let Source::Media(media) = &mut call {
        // Silence at the end, so that nothing waits when the time is over.
        Arc::make_mut(media).pause = Some([5700, 6000].map(Duration::from_millis));
    }
    scenario.flows.push(flow("call", call));
    let real = classes(&report(&scenario));
    let options = makeway_sim::Options::default();
    let model = classes(&makeway_sim::run(&scenario, &options, |_| {}).unwrap());
    for (real, model) in real.iter().zip(&model) {
        assert_eq!(real.offered, model.offered);
        for (real, model) in [
            (real.sent, model.sent),
            (real.expired, model.expired),
            (real.on_time, model.on_time),
        ] {
            assert!(real.abs_diff(model) <= 2 + model / 50, "{real} {model}");
        }
        let [real, model] = [real, model].map(|class| class.delay_ms.mean);
        assert!((real - model).abs() < 3.0, "{real} ms, {model} ms");
    }
    assert!(real[1].expired > 20, "{real:?}");
    assert_eq!(real[0].on_time, real[0].offered);
}

/// Without feedback TFRC sends a packet in 64 s at last; with it, all that is made.
fn feedback_drives_a_sender() {
    let mut scenario = scenario(egress(Some("10mbit"), 40), 6);
    scenario.links[1].egress[1] = egress(None, 40);
    let rate = rate::Config::Tfrc(TfrcParams::default());
    scenario.flows.push(flow("call", call(rate, "fifo")));
    let report = report(&scenario);
    for class in classes(&report) {
        assert_eq!(class.on_time, class.offered, "{class:?}");
        assert!((40.0..60.0).contains(&class.delay_ms.p50), "{class:?}");
    }
    // 80 ms of round trip: more than the datagrams there are.
    let rate = report.flows[0].rate_series_bps.last().unwrap();
    assert!(*rate > 400_000.0, "{rate}");
}

/// Its threads run before all others: they may not wait by looking at the clock.
fn a_sender_whose_time_is_over_leaves_the_processor() {
    let mut scenario = scenario(egress(None, 1000), 2);
    let rate = rate::Config::Fixed(Rate::from_bps(300_000));
    for n in 0..2 {
        let mut call = flow(&format!("call-{n}"), call(rate, "sbpn2"));
        call.stop = Some(Duration::from_millis(1500));
        scenario.flows.push(call);
    }
    let cpu = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
    };
    let before = cpu();
    report(&scenario);
    // A run of 2 s, and more than 1 s until what is under way has come.
    let used = cpu() - before;
    assert!(used < 1.0, "{used} s");
}

fn a_rate_changes_when_it_should() {
    let mut line = egress(Some("8mbit"), 2);
    let at = Duration::from_millis;
    line.changes = Changes {
        steps: vec![
            (at(2000), Rate::from_bps(2_000_000)),
            (at(3500), Rate::from_bps(6_000_000)),
        ],
        ..Changes::default()
    };
    let mut scenario = scenario(line, 5);
    scenario.flows.push(flow("download", bulk("cubic")));
    let series = &report(&scenario).flows[0].goodput_series_bps;
    // Steps of 100 ms, of which the first three after a change drain what is under way.
    for (from, to, mbit) in [(13, 20, 8.0), (23, 35, 2.0), (42, 50, 6.0)] {
        let mean = series[from..to].iter().sum::<f64>() / (to - from) as f64;
        let most = mbit * 1e6 * 1448.0 / 1538.0;
        assert!((mean / most - 1.0).abs() < 0.08, "{mean} of {most}");
    }
}

/// The kernel's FIFO, at a rate that changes: payload, bytes on the wire and drops fit together.
fn a_qdisc_queues_in_the_place_of_a_datapath() {
    let qdiscs = || Options {
        backend: Backend::Kernel,
        ..Options::default()
    };
    let mut line = egress(Some("8mbit"), 0);
    line.changes.steps = vec![(Duration::from_secs(3), Rate::from_bps(2_000_000))];
    line.queue.qdisc = Some(["pfifo", "limit", "50"].map(String::from).to_vec());
    let mut scenario = scenario(line, 5);
    scenario.flows.push(flow("download", bulk("cubic")));
    let report = match run(&scenario, qdiscs(), |_| {}) {
        Err(error) if error.to_string().contains("os error 2") => {
            return skip(format_args!("no tc: {error}"));
        }
        report => report.unwrap(),
    };
    let (payload, queue) = (&report.flows[0].goodput_series_bps, &report.queues[0]);
    for (from, to, mbit) in [(10, 29, 8.0), (34, 50, 2.0)] {
        let mean = payload[from..to].iter().sum::<f64>() / (to - from) as f64;
        let most = mbit * 1e6 * 1448.0 / 1538.0;
        assert!((mean / most - 1.0).abs() < 0.05, "{mean} of {most}");
    }
    assert_eq!(queue.discipline, "pfifo");
    assert!((queue.utilisation - 1.0).abs() < 0.03, "{queue:?}");
    let held = queue.packets_in - queue.packets_out - queue.dropped();
    assert!(queue.dropped() > 0 && held <= 50, "{queue:?}");
    let most = queue.backlog_series.iter().copied().fold(0.0, f64::max);
    assert!((40.0..=50.0).contains(&most), "{queue:?}");
    assert_eq!(queue.sojourn_ms, None);

    // 500 B of RTP are 540 B of IP and 578 B on the wire.
    scenario.flows[0] = flow("probe", cbr("1mbit", 500));
    let report = run(&scenario, qdiscs(), |_| {}).unwrap();
    let (probe, queue) = (
        report.flows[0].datagrams.as_ref().unwrap(),
        &report.queues[0],
    );
    let wire = queue.throughput_bps / (probe.received as f64 * 8.0 / report.seconds);
    assert!((wire / 578.0 - 1.0).abs() < 0.005, "{wire} B");

    let queue = &mut scenario.links[1].egress[0].queue;
    queue.qdisc = None;
    queue.spec = Discipline::Harvest.spec();
    let error = run(&scenario, qdiscs(), |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("`line`") && error.contains("qdisc = "),
        "{error}"
    );
    let queue = &mut scenario.links[1].egress[0].queue;
    queue.qdisc = Some(vec!["no_such".into()]);
    let error = run(&scenario, qdiscs(), |_| {}).unwrap_err().to_string();
    assert!(error.contains("no_such"), "{error}");
    let error = run(&scenario, Options::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("--world vm"), "{error}");
}

/// Two downloads of one host, by tickets; and the same without them.
fn tickets_divide_a_link() {
    let parts = |shares: [Option<Share>; 2]| {
        let mut line = egress(Some("4mbit"), 10);
        line.queue.spec = Discipline::Tred.spec();
        line.queue.spec.set("tred.window", "2s").unwrap();
        line.queue.limits.packets = 100;
        // A link before it trades what came for others: that changes nothing between the two.
        let mut scenario = scenario(line, 12);
        scenario.links[0].egress[0].tickets = Some(Issue {
            rate: issued(9000),
            steps: Vec::new(),
        });
        scenario.tags.window = Duration::from_secs(2);
        for (name, share) in ["poor", "rich"].into_iter().zip(shares) {
            let mut flow = flow(name, bulk("cubic"));
            flow.share = share;
            scenario.flows.push(flow);
        }
        let report = report(&scenario);
        ["poor", "rich"].map(|name| {
            let flow = report.flows.iter().find(|flow| flow.name == name);
            flow.unwrap().goodput_bps
        })
    };
    let tickets = |n| Some(Share::Tickets(issued(n)));
    let [poor, rich] = parts([tickets(2000), tickets(10_000)]);
    assert!((2.5..10.0).contains(&(rich / poor)), "{poor} {rich}");
    // One that has none gets what is left while the queue is short.
    let [none, some] = parts([None, tickets(10_000)]);
    assert!(some > 2.0 * none, "{none} {some}");
}

fn issued(n: u32) -> TicketRate {
    TicketRate::new(n).unwrap()
}

fn what_only_a_model_can_do_is_refused() {
    let mut scenario = scenario(egress(Some("8mbit"), 2), 2);
    let mut modelled = bulk("cubic");
    if let Source::Bulk { tcp, .. } = &mut modelled {
        tcp.initial_window = Some(20);
    }
    scenario.flows.push(flow("download", modelled));
    let error = run(&scenario, Options::default(), |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("download") && text.contains("of `tcp` out"),
        "{text}"
    );

    scenario.flows[0].source = bulk("cubic");
    scenario.flows[0].share = Some(Share::Profile("1mbit".parse().unwrap()));
    let error = run(&scenario, Options::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("leave `profile` out"), "{error}");
    scenario.flows[0].share = Some(Share::Tickets(issued(5)));
    scenario.tags.by_receiver = true;
    let error = run(&scenario, Options::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("leave `tags.by` out"), "{error}");
}

fn configured_loss_is_measured_loss() {
    let mut line = egress(None, 1);
    line.loss = Loss::bernoulli(0.05);
    let mut scenario = scenario(line, 5);
    // 2000 packets of 250 bytes a second for four seconds.
    scenario.flows.push(flow("probe", cbr("4mbit", 210)));
    let report = report(&scenario);
    let sent = report.flows[0].datagrams.as_ref().unwrap().sent;
    // A sender that is late catches up at 10/9 of its rate at most; how much of it does not matter here.
    assert!((1_000..=8_889).contains(&sent), "{sent}");
    // Four standard deviations of the binomial of the sent packets: of 8000 packets 0.0098.
    let loss = loss(&report, 0);
    let bound = 4.0 * (0.05 * 0.95 / sent as f64).sqrt();
    assert!((loss - 0.05).abs() < bound, "{loss} of {sent}");
}

fn bursts_show_in_delay_variation() {
    let ipdv = |pace| {
        let mut scenario = scenario(egress(Some("10mbit"), 0), 4);
        scenario.flows.push(flow("video", video(pace)));
        let report = report(&scenario);
        assert_eq!(loss(&report, 0), 0.0);
        report.flows[0].datagrams.clone().unwrap().ipdv_ms.mean
    };
    let paced = ipdv(Pace::Slice(Duration::from_millis(200)));
    let burst = ipdv(Pace::Burst);
    // In a burst each packet waits 1.1 ms longer than the one before it.
    assert!(burst > 0.9 && paced < 0.4, "{burst} ms, {paced} ms");
}

fn sqf_protects_what_fifo_breaks() {
    let suffered = |discipline: &str| {
        let mut line = egress(Some("10mbit"), 1);
        line.queue.spec = discipline.parse::<Discipline>().unwrap().spec();
        let mut scenario = scenario(line, 5);
        let pace = Pace::Slice(Duration::from_millis(200));
        scenario.flows.push(flow("video", video(pace)));
        let downloads = (0..5).map(|n| flow(&format!("download-{n}"), bulk("cubic")));
        scenario.flows.extend(downloads);
        let stream = report(&scenario).flows[0].datagrams.clone().unwrap();
        (stream.loss, stream.delay_ms.p50)
    };
    // Four seconds of five downloads lose about 1 % under FIFO, and fill its 61 ms.
    let (lost, delay) = suffered("fifo");
    assert!(lost > 0.002 && delay > 20.0, "fifo: {lost}, {delay} ms");
    let (lost, delay) = suffered("sqf");
    assert!(lost <= 0.001 && delay < 5.0, "sqf: {lost}, {delay} ms");
}

fn unknown_congestion_control_gets_a_list() {
    let mut scenario = scenario(egress(None, 0), 2);
    scenario.flows.push(flow("download", bulk("tahoe")));
    let error = run(&scenario, Options::default(), |_| {}).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("`tahoe`") && error.contains("reno"),
        "{error}"
    );
}

fn a_stop_gives_a_partial_report() {
    let mut scenario = scenario(egress(Some("10mbit"), 1), 60);
    scenario.flows.push(flow("probe", cbr("1mbit", 500)));
    scenario.flows.push(flow("download", bulk("cubic")));
    let options = Options::default();
    let stop = Arc::clone(&options.stop);
    let report = run(&scenario, options, |progress| {
        if progress.elapsed >= Duration::from_secs(2) {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(!report.complete);
    assert!((0.9..1.5).contains(&report.seconds), "{}", report.seconds);
    let goodput = report.flows[1].goodput_bps;
    assert!((6e6..10e6).contains(&goodput), "{goodput}");
}

/// The whole process stops for 60 ms, as when the host takes the processors away.
fn a_stall_is_noticed_and_ends_a_run_that_must_be_calm() {
    let mut scenario = scenario(egress(Some("10mbit"), 5), 20);
    scenario.flows.push(flow("probe", cbr("1mbit", 500)));
    scenario.flows.push(flow("download", bulk("cubic")));
    let options = Options {
        only_calm: true,
        ..Options::default()
    };
    let stops = format!(
        "kill -STOP {0}; sleep 0.06; kill -CONT {0}",
        std::process::id()
    );
    let once = || {
        let mut stopping = None;
        let report = run(&scenario, options.clone(), |progress| {
            // Once there is traffic: on a busy machine the links alone may take a second.
            if progress.elapsed >= Duration::from_secs(1) && stopping.is_none() {
                stopping = Some(Command::new("sh").args(["-c", &stops]).spawn().unwrap());
            }
        });
        if let Some(mut stopping) = stopping {
            assert!(stopping.wait().unwrap().success());
        }
        report.unwrap()
    };
    // A stall of the machine's own, which is shorter, may end a run before ours comes.
    let is_ours = |report: &Report| {
        let late = report.lateness.unwrap();
        report.complete || late.senders_ms > 40.0 && late.queues_ms > 40.0
    };
    let report = (0..10).map(|_| once()).find(is_ours);
    let report = report.expect("none of ten runs was ended by a stall of 40 ms");
    let late = report.lateness.unwrap();
    assert!(!late.measured && late.limit_ms == STALL_MS, "{late:?}");
    assert!(!report.complete && report.seconds < 19.0, "{report:?}");
    assert!(report.stalled_ms() > Some(40.0));
}

fn two_runs_go_side_by_side() {
    let one = |rate: &str| {
        let mut scenario = scenario(egress(Some(rate), 0), 3);
        scenario.flows.push(flow("download", bulk("cubic")));
        let rate: Rate = rate.parse().unwrap();
        report(&scenario).flows[0].goodput_bps / rate.bps() as f64
    };
    let shares = std::thread::scope(|scope| {
        let runs = ["5mbit", "10mbit"].map(|rate| scope.spawn(move || one(rate)));
        runs.map(|run| run.join().unwrap())
    });
    // 1448 of 1538 bytes again.
    assert!(
        shares.iter().all(|share| (share - 0.9415).abs() < 0.02),
        "{shares:?}"
    );
}

/// No thread, and no namespace held.
fn assert_nothing_left() {
    // A thread that was joined may stand in the list for a moment yet.
    let end = time::Instant::now() + time::Duration::from_secs(10);
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    while threads() > 1 && time::Instant::now() < end {
        std::thread::sleep(time::Duration::from_millis(1));
    }
    assert_eq!(threads(), 1);
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = open.filter_map(|fd| fs::read_link(fd.path()).ok());
    let held: Vec<_> = targets
        .filter(|to| to.to_string_lossy().starts_with("net:"))
        .collect();
    assert!(held.is_empty(), "{held:?}");
}
