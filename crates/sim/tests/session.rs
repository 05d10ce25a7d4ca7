// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that pause: a rate from outside, and a flow as its sender knows it.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;
use std::sync::Arc;

use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_scenario::Scenario;
use makeway_sim::{ControlError, Observation, Options, Session, run};

const CALL: &str = concat!(
    include_str!("session.toml"),
    r#"
[flow.download]
kind = "bulk"
from = "phone"
to = "friend"
start = "11s"
"#
);

const STEP: Duration = Duration::from_millis(100);

fn scenario(set: &[&str]) -> Arc<Scenario> {
    let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
    Arc::new(makeway_scenario::parse(CALL, "call.toml", Path::new("."), &set).unwrap())
}

fn session(set: &[&str], replication: u64) -> Session {
    let options = Options {
        replication,
        ..Options::default()
    };
    Session::new(scenario(set), options).unwrap()
}

/// Intervals of a session with this rate at each step.
fn observe(
    session: &mut Session,
    steps: u64,
    mut rate: impl FnMut(u64) -> u64,
) -> Vec<Observation> {
    let call = session.control("call").unwrap();
    let each = (0..steps).map(|step| {
        session.set_rate(call, Rate::from_bps(rate(step)));
        let until = session.now() + STEP;
        session.run_until(until);
        session.observe(call)
    });
    each.collect()
}

/// Without other traffic on the path of the reports.
const ALONE: &[&str] = &["flow.download.count=0"];
/// Nothing but the call.
const QUIET: &[&str] = &["flow.download.count=0", "flow.other.count=0"];

#[test]
fn a_rate_that_stays_gives_the_figures_of_a_plain_run() {
    for (replication, kbit) in [(0, 500), (1, 500), (3, 1200)] {
        let options = Options {
            replication,
            ..Options::default()
        };
        let fixed = format!("flow.call.rate={kbit}kbit");
        let plain = run(
            &scenario(&[ALONE, &[fixed.as_str()]].concat()),
            &options,
            |_| {},
        )
        .unwrap();
        let mut session = session(ALONE, replication);
        observe(&mut session, 120, |_| kbit * 1000);
        assert_eq!(session.now(), session.end());
        let report = session.finish().unwrap().report;
        assert!(report.complete);
        assert_eq!(report.flows, plain.flows, "{replication}, {kbit}");
        assert_eq!(report.queues[0], plain.queues[0]);
        assert!(report.flows[0].goodput_bps > 400_000.0);
    }
}

#[test]
fn pauses_change_nothing() {
    let end_of = |steps: &[u64]| {
        let mut session = session(&[], 1);
        let call = session.control("call").unwrap();
        session.set_rate(call, Rate::from_bps(700_000));
        for ms in steps {
            session.run_until(Instant::ZERO + Duration::from_millis(*ms));
            session.observe(call);
        }
        let outcome = session.finish().unwrap();
        (outcome.fingerprint, outcome.hops)
    };
    let often: Vec<u64> = (0..12_000).step_by(7).collect();
    assert_eq!(end_of(&[]), end_of(&often));
    // Back, and beyond the end.
    assert_eq!(end_of(&[]), end_of(&[5000, 4000, 5000, 20_000]));
}

/// The path takes 48.288 ms, a report between 0.4 and 1.4 ms at the link and 40 ms.
#[test]
fn an_idle_path_has_no_delay_above_its_base_and_loses_nothing() {
    let mut session = session(QUIET, 0);
    let seen = observe(&mut session, 100, |_| 500_000);
    let last = seen.last().unwrap();
    let base = last.base.unwrap().as_nanos() as i64;
    assert!((base - 48_288_000).abs() < 2_000, "{base}");
    let rtt = last.rtt.unwrap();
    assert!(
        (Duration::from_micros(88_600)..Duration::from_micros(90_000)).contains(&rtt),
        "{rtt}"
    );
    // Reports round times to 1 us.
    let delays = seen.iter().filter_map(|seen| seen.delay);
    assert!(delays.clone().count() > 80);
    assert!(delays.map(|delay| delay.max).max().unwrap() < Duration::from_micros(2));
    let sum = |of: fn(&Observation) -> u64| seen.iter().map(of).sum::<u64>();
    let sent = sum(|seen| seen.sent.packets);
    // 500 kbit/s are 62.5 packets a second.
    assert!(sent.abs_diff(625) <= 1, "{sent}");
    assert_eq!(sum(|seen| seen.lost), 0);
    // In flight, or not yet reported.
    let delivered = sum(|seen| seen.delivered.packets);
    assert!((sent - 15..sent).contains(&delivered), "{delivered}");
    let settled = seen
        .iter()
        .skip(10)
        .filter(|seen| seen.delivered.packets > 0);
    for seen in settled {
        assert!(seen.delivery.bps().abs_diff(500_000) < 20_000, "{seen:?}");
        assert_eq!(seen.rate, Rate::from_bps(500_000));
        assert_eq!(seen.to.saturating_since(seen.from), STEP);
        assert!(seen.backlog.bytes > Bytes::ZERO);
    }
}

/// 2 Mbit/s into 1 Mbit/s: 965 kbit/s of payload arrive, behind a queue of 30 packets, and half is lost.
#[test]
fn a_full_queue_shows_in_delay_and_loss() {
    let mut session = session(QUIET, 0);
    let seen = observe(&mut session, 100, |_| 2_000_000);
    let settled = &seen[30..];
    let sum = |of: fn(&Observation) -> u64| settled.iter().map(of).sum::<u64>();
    let (lost, delivered) = (sum(|seen| seen.lost), sum(|seen| seen.delivered.packets));
    let loss = lost as f64 / (lost + delivered) as f64;
    assert!((loss - 0.517).abs() < 0.02, "{loss}");
    for seen in settled {
        assert!(seen.delivery.bps().abs_diff(965_000) < 20_000, "{seen:?}");
        let delay = seen.delay.unwrap();
        let full = Duration::from_micros(30 * 8288);
        assert!(delay.p50 + Duration::from_millis(20) > full, "{delay:?}");
        assert!(delay.max <= full + Duration::from_millis(9), "{delay:?}");
    }
}

#[test]
fn a_new_rate_counts_at_once_and_a_rate_of_zero_sends_nothing() {
    let mut session = session(QUIET, 0);
    let rates = |step: u64| match step {
        0..10 => 0,
        10..20 => 800_000,
        20..30 => 0,
        // A packet each second, then one each 10 ms.
        30..35 => 8_000,
        _ => 800_000,
    };
    let seen = observe(&mut session, 60, rates);
    let sent = |steps: std::ops::Range<usize>| {
        let packets = seen[steps].iter().map(|seen| seen.sent.packets);
        packets.sum::<u64>()
    };
    assert_eq!(sent(0..10), 0);
    assert!(sent(10..20).abs_diff(100) <= 1, "{}", sent(10..20));
    assert_eq!(sent(20..30), 0);
    assert!(sent(30..35) <= 1);
    // The one that would have left a second later leaves now.
    assert!(seen[35].sent.packets.abs_diff(10) <= 1, "{:?}", seen[35]);
    // The last packets have come, and the path is silent: the rate falls.
    assert!(
        seen[29].delivery < Rate::from_bps(150_000),
        "{:?}",
        seen[29]
    );
}

#[test]
fn a_flow_waits_for_its_start() {
    let mut session = session(&[QUIET, &["flow.call.start=500ms"]].concat(), 2);
    let call = session.control("call").unwrap();
    let start = session.starts(call);
    assert!(
        (500..600).contains(&(start.as_nanos() / 1_000_000)),
        "{start:?}"
    );
    assert_eq!(session.stops(call), session.end());
    let seen = observe(&mut session, 20, |step| 500_000 + step);
    for seen in &seen {
        assert_eq!(seen.sent.packets > 0, seen.to > start, "{seen:?}");
    }
}

#[test]
fn errors_name_a_flow_that_can_be_controlled() {
    let said = |set: &[&str], name: &str| {
        let error = session(set, 0).control(name).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        said(&[], "cal"),
        "there is no flow `cal`: the rate of `call` is set from outside"
    );
    assert_eq!(
        said(&["flow.call.count=2"], "call"),
        "there is no flow `call`: choose call-1, call-2"
    );
    assert!(said(&["flow.call.count=20"], "call").ends_with("call-8 and so on"));
    assert_eq!(
        said(&[], "download"),
        "call.toml:27: flow `download` is of kind bulk, which has no rate to set: the rate of `call` is set from outside"
    );
    let tfrc = said(&["flow.call.rate=tfrc"], "call");
    let ends = "flow `call` has the rate `tfrc`: write `rate = \"external\"`, or set `flow.call.rate=external`";
    assert!(tfrc.ends_with(ends), "{tfrc}");
    let none = session(&["flow.call.rate=tfrc"], 0)
        .control("other")
        .unwrap_err();
    assert!(matches!(none, ControlError::Kind { .. }));
    assert!(
        none.to_string()
            .ends_with("write `rate = \"external\"` in a flow of kind media")
    );
}
