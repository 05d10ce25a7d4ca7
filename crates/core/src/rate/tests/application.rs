// SPDX-License-Identifier: MIT OR Apache-2.0
//! Needs of applications: a target that an encoder can follow, a first frame that is in time, even departures, high rates.

use super::link::Link;
use super::*;
use crate::rate::{AnyController, Reporter, Start};
use crate::units::Rate;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn controllers() -> [Config; Config::NAMES.len()] {
    Config::NAMES.map(|name| name.parse().unwrap())
}

/// RTTs of 40 to 120 ms at a loss event rate of 1 %: least and most of rate and target in 20 s, in bit/s.
fn jitter(p: impl Fn(u64) -> f64) -> ([u64; 2], [u64; 2], u64) {
    let mut tfrc = Config::Tfrc(TfrcParams::default()).controller();
    let mut rng = crate::random::Rng::new(3);
    let (mut rates, mut targets) = (Vec::new(), Vec::new());
    for n in 0..10_000 {
        let now = at(4 * n);
        tfrc.on_sent(now, n, 1000);
        let rtt = 10 + u64::from(rng.below(21));
        if n % 20 == 19 && n > 40 {
            let feedback = Feedback {
                highest: n - rtt,
                held: Duration::ZERO,
                report: Report::LossEvents {
                    rate: p(n),
                    received: Rate::from_bps(2_000_000),
                },
            };
            tfrc.on_feedback(now, &feedback).unwrap();
            if n >= 5000 {
                rates.push(tfrc.rate().bps());
                targets.push(tfrc.target_rate().bps());
            }
        }
    }
    let ends = |of: &[u64]| [*of.iter().min().unwrap(), *of.iter().max().unwrap()];
    (ends(&rates), ends(&targets), tfrc.target_rate().bps())
}

#[test]
fn jitter_of_the_rtt_does_not_reach_an_encoder() {
    let (rate, target, _) = jitter(|_| 0.01);
    assert!(rate[1] > rate[0] * 8 / 5, "jitter is in X_inst: {rate:?}");
    assert!(target[1] < target[0] * 5 / 4, "{target:?}");
}

#[test]
fn a_fall_of_the_rate_reaches_an_encoder_within_three_reports() {
    let (_, _, before) = jitter(|_| 0.01);
    let (_, _, after) = jitter(|n| if n >= 9940 { 0.09 } else { 0.01 });
    // X falls to less than a third.
    assert!(after < before / 2, "{before} {after}");
}

#[test]
fn a_controller_that_knows_its_path_begins_at_its_rate() {
    let start = Start {
        rtt: Duration::from_millis(50),
        rate: Rate::from_bps(2_000_000),
    };
    for config in controllers() {
        let config = config.with_largest(1000).with_start(start);
        let mut controller = config.controller();
        assert_eq!(controller.rtt(), Some(start.rtt), "{config}");
        let mut sent = 0;
        // A window lasts for an RTT.
        for ms in 0..50 {
            while controller.next_send().is_some_and(|due| due <= at(ms)) {
                controller.on_sent(at(ms), sent, 1000);
                sent += 1;
            }
        }
        assert!((11..=14).contains(&sent), "{config}: {sent}");
        let unknown = controllers().map(|config| config.controller().rtt());
        assert_eq!(unknown, [None; Config::NAMES.len()]);
    }
    // The first report says what the path is.
    let mut tfrc = Config::Tfrc(TfrcParams::default())
        .with_start(start)
        .controller();
    tfrc.on_sent(at(0), 0, 1000);
    let feedback = Feedback {
        highest: 0,
        held: Duration::ZERO,
        report: Report::LossEvents {
            rate: 0.0,
            received: Rate::from_bps(0),
        },
    };
    tfrc.on_feedback(at(120), &feedback).unwrap();
    assert_eq!(tfrc.rtt(), Some(Duration::from_millis(120)));
    assert_eq!(tfrc.rate().bps(), 2_000_000);
}

/// A queue on the path there counts whole where a controller measures it, and `AnyController` tells it.
#[test]
fn each_controller_has_a_one_way_delay_of_its_own() {
    let start = Start {
        rtt: Duration::from_millis(50),
        rate: Rate::from_bps(2_000_000),
    };
    for config in controllers() {
        let controller = config.with_start(start).controller();
        let half = Some(Duration::from_millis(25));
        assert_eq!(controller.one_way(), half, "{config}");
    }
    for name in ["scream", "gcc"] {
        let config: Config = name.parse().unwrap();
        let mut link = Link::new(2.0, config.controller());
        link.until(10);
        link.others = 0.2;
        link.until(12);
        let any = &link.controller;
        let own = match any {
            AnyController::Scream(it) => it.one_way(),
            AnyController::Gcc(it) => it.one_way(),
            _ => None,
        };
        assert_eq!(any.one_way(), own, "{name}");
        // Of a queue of 200 ms half is in half of the RTT.
        let (own, half) = (own.unwrap(), any.rtt().unwrap() / 2);
        assert!(
            own > half + Duration::from_millis(50),
            "{name}: {own} and {half}"
        );
    }
}

/// After a pause the window of CCID 2 is open, and leaves within an RTT and not at once.
#[test]
fn a_window_does_not_leave_in_one_burst() {
    let mut path = Path::new(Config::Ccid2(Default::default()), Duration::from_millis(50));
    path.lose = Box::new(|sequence| sequence == 200);
    path.run(Duration::from_secs(3));
    let window = path.controller.rate().bps() / 8 / 1000 / 10;
    assert!(window > 20, "{window}");
    path.has_data = Box::new(|_| false);
    path.run(Duration::from_millis(300));
    path.has_data = Box::new(|_| true);
    let before = path.sent;
    path.run(Duration::from_millis(2));
    let burst = path.sent - before;
    path.run(Duration::from_millis(98));
    let all = path.sent - before;
    assert!(burst <= 4, "{burst} of {window} at once");
    assert!(all >= window * 9 / 10, "{all} of {window} in an RTT");
}

/// 20 000 packets in a second, and a report on the first of them.
#[test]
fn a_report_is_believed_at_100_mbit_per_second() {
    for config in controllers() {
        let (mut controller, mut reporter) = (config.controller(), config.reporter());
        let mut now = at(1000);
        for n in 0..20_000 {
            controller.on_sent(now, n, 600);
            now += Duration::from_micros(50);
        }
        reporter.on_arrival(
            at(1400),
            Arrival {
                sequence: 0,
                bytes: 600,
                rtt: None,
                window: None,
                marked: false,
            },
        );
        let feedback = reporter.poll_feedback(at(1400));
        let feedback = feedback.or_else(|| reporter.poll_feedback(at(2400)));
        let result = controller.on_feedback(at(2500), &feedback.expect("it reports"));
        assert_eq!(result, Ok(()), "{config}");
    }
}
