// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feedback that cannot be true: an error, no change, and no higher rate, for every controller.

use super::*;
use crate::rate::abrc::AbrcParams;
use crate::rate::ccid2::Ccid2Params;
use crate::rate::gcc::GccParams;
use crate::rate::packets::{PacketArrival, PacketReport};
use crate::rate::scream::ScreamParams;
use proptest::prelude::*;

fn configs() -> [Config; 8] {
    [
        Config::Tfrc(TfrcParams::default()),
        Config::Tfrc(TfrcParams::rfc3448()),
        Config::Tfrc(TfrcParams::linux()),
        Config::Tfrc(TfrcParams {
            faster_restart: true,
            ..TfrcParams::default()
        }),
        Config::Ccid2(Ccid2Params::default()),
        Config::Abrc(AbrcParams {
            interval: Duration::from_millis(200),
            ..AbrcParams::default()
        }),
        Config::Scream(ScreamParams::default()),
        Config::Gcc(GccParams::default()),
    ]
}

/// All that a caller can see.
fn seen(path: &Path) -> String {
    format!("{:?}", path.controller)
}

/// A path after four seconds of which one packet in 50 was lost, and its last feedback.
fn running(config: Config) -> (Path, Feedback) {
    let mut path = Path::new(config, Duration::from_millis(40));
    path.lose = Box::new(|sequence| sequence % 50 == 49);
    path.run(Duration::from_secs(4));
    let (_, feedback) = *path.feedback.last().expect("four seconds bring feedback");
    (path, feedback)
}

#[test]
fn what_cannot_be_true_is_an_error_and_changes_nothing() {
    for config in configs() {
        let (mut path, last) = running(config);
        let before = seen(&path);
        let fresh = Feedback {
            highest: path.sent - 1,
            held: Duration::ZERO,
            ..last
        };
        let mut lies = vec![
            (last, "the same again"),
            (
                Feedback {
                    highest: path.sent,
                    ..last
                },
                "not sent",
            ),
            (
                Feedback {
                    highest: u64::MAX,
                    ..last
                },
                "not sent, by far",
            ),
            (Feedback { highest: 0, ..last }, "long ago"),
            (
                Feedback {
                    held: Duration::from_secs(1000),
                    ..fresh
                },
                "held for long",
            ),
            (
                Feedback {
                    held: Duration::from_nanos(u64::MAX),
                    ..fresh
                },
                "held for ever",
            ),
        ];
        let reports: Vec<Report> = match last.report {
            Report::Packets(report) => {
                let with = |at, packets: &[(u64, i32)]| {
                    let mut report = PacketReport::new(at);
                    for (back, before_us) in packets {
                        let back = (*back).min(u64::from(u16::MAX)) as u16;
                        report.push(PacketArrival {
                            back,
                            before_us: *before_us,
                            marked: false,
                        });
                    }
                    Report::Packets(report)
                };
                vec![
                    with(report.at, &[]),
                    with(report.at, &[(1, 0)]),
                    with(report.at, &[(0, 5)]),
                    with(report.at, &[(0, 0), (fresh.highest + 1, 5)]),
                    with(Instant::from_nanos(u64::MAX), &[(0, 0)]),
                    Report::Acks(AckRanges::default()),
                ]
            }
            Report::LossEvents { rate, received } => {
                let rates = [f64::NAN, f64::INFINITY, -0.1, 1.000001, -f64::NAN];
                let absurd = Report::LossEvents {
                    rate,
                    received: Rate::from_bps(u64::MAX),
                };
                let rates = rates.map(|rate| Report::LossEvents { rate, received });
                rates
                    .into_iter()
                    .chain([absurd, Report::Acks(AckRanges::default())])
                    .collect()
            }
            Report::Acks(_) => [
                vec![],
                vec![(9, 3)],
                vec![(0, u64::MAX)],
                vec![(5, fresh.highest), (0, 7)],
                vec![(0, 3)],
            ]
            .into_iter()
            .map(|ranges| {
                let mut acks = AckRanges::default();
                for (first, last) in ranges {
                    assert!(acks.push(first, last));
                }
                Report::Acks(acks)
            })
            .collect(),
            Report::Arrivals {
                interval,
                packets,
                bytes,
                shortest,
            } => vec![
                Report::Arrivals {
                    interval,
                    packets: u32::MAX,
                    bytes,
                    shortest,
                },
                Report::Arrivals {
                    interval,
                    packets,
                    bytes: u64::MAX,
                    shortest,
                },
                Report::Arrivals {
                    interval: Duration::ZERO,
                    packets,
                    bytes,
                    shortest,
                },
                Report::Arrivals {
                    interval: Duration::from_nanos(1),
                    packets,
                    bytes,
                    shortest,
                },
                Report::Arrivals {
                    interval,
                    packets,
                    bytes,
                    shortest: Some(Duration::ZERO),
                },
                Report::Arrivals {
                    interval,
                    packets,
                    bytes,
                    shortest: Some(interval * 2),
                },
                Report::LossEvents {
                    rate: 0.0,
                    received: Rate::from_bps(0),
                },
            ],
        };
        lies.extend(
            reports
                .into_iter()
                .map(|report| (Feedback { report, ..fresh }, "report")),
        );
        for (lie, what) in lies {
            // A packet that is away for no time at all would have an RTT of zero.
            let now = path.now + Duration::from_millis(10);
            assert!(
                path.controller.on_feedback(now, &lie).is_err(),
                "{config:?}: {what}: {lie:?}"
            );
            assert_eq!(seen(&path), before, "{config:?}: {what}");
        }
        let sent_now = Feedback {
            highest: path.sent - 1,
            held: Duration::from_secs(1),
            ..last
        };
        assert!(
            path.controller.on_feedback(path.now, &sent_now).is_err(),
            "{config:?}: RTT 0"
        );
        assert_eq!(seen(&path), before, "{config:?}: RTT 0");
    }
}

#[test]
fn abrc_makes_no_rate_of_how_long_a_packet_was_held() {
    let (path, last) = running(configs()[5]);
    let rate = |held| {
        let mut controller = path.controller.clone();
        let claimed = Feedback {
            highest: path.sent - 1,
            held: Duration::from_millis(held),
            ..last
        };
        let now = path.now + Duration::from_millis(100);
        controller.on_feedback(now, &claimed).map(|()| controller)
    };
    let (at_once, held) = (rate(0).unwrap(), rate(99).unwrap());
    assert_eq!(at_once.rate(), held.rate());
    assert_ne!(at_once.rtt(), held.rtt());
    assert_ne!(at_once.rate(), path.controller.rate());
}

/// Feedback as a stranger might make it up, with numbers near to those that are true and far from them.
fn lie() -> impl Strategy<Value = (i64, u64, Report)> {
    let rate = prop_oneof![
        Just(f64::NAN),
        Just(0.0),
        Just(1e-300),
        0.0..1.0_f64,
        -1.0..2.0_f64
    ];
    let bps = prop_oneof![Just(0), 0..10_000_000u64, any::<u64>()];
    let range = (0..3000u64, 0..3000u64);
    let report = prop_oneof![
        (rate, bps).prop_map(|(rate, bps)| Report::LossEvents {
            rate,
            received: Rate::from_bps(bps)
        }),
        proptest::collection::vec(range, 0..4).prop_map(|ranges| {
            let mut acks = AckRanges::default();
            for (first, last) in ranges {
                acks.push(first, last);
            }
            Report::Acks(acks)
        }),
        (
            any::<u64>(),
            0..1000u32,
            any::<u64>(),
            proptest::option::of(any::<u64>())
        )
            .prop_map(|(interval, packets, bytes, shortest)| {
                Report::Arrivals {
                    interval: Duration::from_nanos(interval >> (interval % 64)),
                    packets,
                    bytes: bytes >> (bytes % 64),
                    shortest: shortest.map(|s| Duration::from_nanos(s >> (s % 64))),
                }
            }),
        (
            any::<u64>(),
            proptest::collection::vec((0..90u16, any::<i32>(), any::<bool>()), 0..70)
        )
            .prop_map(|(at, packets)| {
                let mut report = PacketReport::new(Instant::from_nanos(at >> (at % 64)));
                for (back, us, marked) in packets {
                    let before_us = if back == 0 {
                        0
                    } else {
                        us >> (us.unsigned_abs() % 32)
                    };
                    report.push(PacketArrival {
                        back,
                        before_us,
                        marked,
                    });
                }
                Report::Packets(report)
            }),
    ];
    let held = any::<u64>().prop_map(|held| held >> (held % 64));
    (-50..5i64, held, report)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Any feedback: no panic; an error changes nothing; possible feedback raises TFRC's rate as one feedback packet may, CCID 2's
    /// window by a packet, ABRC's rate to what it asks of one interval.
    #[test]
    fn nothing_that_is_made_up_raises_the_rate_beyond_bounds(which in 0usize..8, lies in proptest::collection::vec(lie(), 1..40)) {
        let mut config = configs()[which];
        let mut raise = 2;
        if let Config::Tfrc(params) = &mut config {
            params.damping = false;
            raise = if params.faster_restart { 4 } else { 2 };
        }
        let (mut path, _) = running(config);
        for (ahead, held, report) in lies {
            path.run(Duration::from_millis(20));
            let lie = Feedback {
                highest: path.sent.saturating_add_signed(ahead - 1),
                held: Duration::from_nanos(held),
                report,
            };
            let before = seen(&path);
            let rate = path.controller.rate().bps();
            let now = path.now + Duration::from_nanos(1);
            let result = path.controller.on_feedback(now, &lie);
            let after = path.controller.rate().bps();
            if result.is_err() {
                prop_assert_eq!(seen(&path), before);
                continue;
            }
            // Packets of 1000 bytes. TFRC starts at 4200 bytes in an RTT of 80 ms, which one lie makes a tenth less; ABRC asks for
            // the bytes sent, and 1000 packets, in 200 ms at most.
            let bound = match config {
                Config::Abrc(_) => (1000 + path.sent) * 8000 * 5,
                _ => raise * rate.max(4200 * 8 * 1000 / 80 * 10 / 9) + 1000,
            };
            prop_assert!(after <= bound, "{} after {}", after, rate);
            // The rest is of another history.
            break;
        }
    }

    /// Any claim of how long a receiver held packets: TFRC counts RTTs of no less than half of their length, so its rate
    /// is at most twice that with an honest receiver.
    #[test]
    fn a_receiver_that_lies_about_time_at_most_doubles_the_rate(
        which in 0usize..4,
        delay in 1u64..100,
        each in 20u64..200,
        claims in proptest::collection::vec((0u64..300, 0u64..100), 1..40),
    ) {
        let config = configs()[which];
        let highest = |claims| {
            let rate = |path: &Path| path.controller.rate().bps();
            claimed(config, delay, each, claims, rate).into_iter().max().unwrap_or(0)
        };
        let (honest, lying) = (highest(Vec::new()), highest(claims));
        let ratio = lying as f64 / honest as f64;
        prop_assert!(ratio <= 2.02, "{config:?}: {lying} is {ratio} times {honest}");
    }

    /// The same of CCID 2, whose rate is a window in an RTT: the RTT is no less than half of its length, and the window
    /// no larger than its law makes it between two losses, for any claims. (A ratio of windows would compare two paths whose
    /// losses meet the window at different sizes.)
    #[test]
    fn a_receiver_that_lies_about_time_does_not_enlarge_a_window(
        delay in 1u64..100,
        each in 20u64..200,
        claims in proptest::collection::vec((0u64..300, 0u64..100), 1..40),
    ) {
        let config = Config::Ccid2(Ccid2Params::default());
        let seen = claimed(config, delay, each, claims, |path| match &path.controller {
            AnyController::Ccid2(controller) => (controller.window(), controller.rtt()),
            other => unreachable!("{other:?}"),
        });
        // A window of `w` grows once for `w` acknowledged packets. From one halving to the next no more are acknowledged than
        // are sent from one lost packet to the next, and a window.
        let most = (2..).find(|&w| (w / 2..w).sum::<u64>() > each + w).unwrap_or_default();
        for (window, rtt) in seen {
            prop_assert!(u64::from(window) <= most, "a window of {window} with a loss in {each} packets: {most}");
            prop_assert!(rtt >= Some(Duration::from_micros(990 * delay)), "an RTT of {rtt:?} for {} ms", 2 * delay);
        }
    }
}

/// Values of `see` every 10 ms for 8 s after 4 s on a path of `delay` milliseconds in each direction that loses one packet in
/// `each`. In those 8 s the receiver claims to have held packets for the percentages of an RTT in `claims`, in turn, and says the
/// truth where the second number is below 20.
fn claimed<T>(
    config: Config,
    delay: u64,
    each: u64,
    claims: Vec<(u64, u64)>,
    see: impl Fn(&Path) -> T,
) -> Vec<T> {
    let mut path = Path::new(config, Duration::from_millis(delay));
    path.lose = Box::new(move |sequence| sequence % each == each - 1);
    path.run(Duration::from_secs(4));
    let mut claims = claims.into_iter().cycle();
    path.claim = Box::new(move |held| {
        let (percent, honest) = claims.next().unwrap_or_default();
        let more = Duration::from_micros(2 * delay * 10 * percent);
        if honest < 20 { held } else { held + more }
    });
    let step = |_| {
        path.run(Duration::from_millis(10));
        see(&path)
    };
    (0..800).map(step).collect()
}
