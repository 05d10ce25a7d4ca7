// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feedback that cannot be true is counted, changes nothing and never raises the rate.

#[path = "reference/feedback.rs"]
mod reference;

use makeway_core::rate::abrc::AbrcParams;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::gcc::GccParams;
use makeway_core::rate::scream::ScreamParams;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::rate::{AckRanges, Config, Report};
use makeway_core::units::{Duration, Rate};
use proptest::prelude::*;
use reference::{Forgery, Op, Path};

/// Every controller that listens.
fn controllers() -> Vec<Config> {
    vec![
        Config::Tfrc(TfrcParams::default()),
        Config::Ccid2(Ccid2Params::default()),
        Config::Abrc(AbrcParams {
            interval: Duration::from_millis(50),
            ..AbrcParams::default()
        }),
        Config::Scream(ScreamParams::default()),
        Config::Gcc(GccParams::default()),
    ]
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let absurd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e-9, 1.5];
    let arrivals = Report::Arrivals {
        interval: Duration::from_millis(100),
        packets: 10,
        bytes: 10_000,
        shortest: None,
    };
    let loss = Report::LossEvents {
        rate: 0.0,
        received: Rate::from_bps(1_000_000_000),
    };
    let kinds = vec![arrivals, loss, Report::Acks(AckRanges::default())];
    prop_oneof![
        prop_oneof![0u64..3, any::<u64>()].prop_map(Forgery::Ahead),
        (0usize..30).prop_map(Forgery::Again),
        proptest::sample::select(absurd.to_vec()).prop_map(Forgery::Absurd),
        prop_oneof![Just(0u64), 0u64..1_000_000_000, any::<u64>()]
            .prop_map(|ns| Forgery::HeldTooLong(Duration::from_nanos(ns))),
        proptest::sample::select(kinds).prop_map(Forgery::Kind),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1u64..300, prop_oneof![Just(0u64), 5u64..100]).prop_map(|(ms, loss)| Op::Pass {
            by: Duration::from_millis(ms),
            loss
        }),
        forgery().prop_map(Op::Forge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn feedback_that_cannot_be_true_changes_nothing(
        config in proptest::sample::select(controllers()),
        ops in proptest::collection::vec(op(), 1..40),
    ) {
        let mut path = Path::new(config);
        for op in ops {
            path.run(op);
        }
    }

    #[test]
    fn any_feedback_is_believed_or_changes_nothing(
        config in proptest::sample::select(controllers()),
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut path = Path::new(config);
        for op in reference::read(&bytes) {
            path.run(op);
        }
    }
}

#[test]
fn a_receiver_that_tells_the_truth_is_believed() {
    for config in controllers() {
        let mut path = Path::new(config);
        path.run(Op::Pass {
            by: Duration::from_secs(10),
            loss: 50,
        });
        assert!(path.believed() > 100, "{config:?} {}", path.believed());
    }
}
