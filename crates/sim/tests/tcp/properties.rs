// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for any behaviour of the network.

use crate::pipe::{Fate, Pipe};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Config, DelayedAck, LimitedTransmit, Variant};
use proptest::prelude::*;

fn config() -> impl Strategy<Value = Config> {
    let variant = proptest::sample::select(Variant::LOSS_BASED.to_vec());
    (variant, any::<[bool; 5]>(), 1u64..60, 1u32..12, 1u64..2000).prop_map(
        |(variant, [linux, delayed, limited, ecn, times], window, initial, mss)| {
            let base = match linux {
                true => Config::linux(variant),
                false => Config::ns2(variant),
            };
            Config {
                mss: mss as u32,
                window: Bytes::new(window * mss + window % 7),
                initial_window: initial,
                delayed_ack: match delayed {
                    true => DelayedAck::EverySecond(Duration::from_millis(40)),
                    false => DelayedAck::Off,
                },
                limited_transmit: match limited {
                    true => LimitedTransmit::New,
                    false => LimitedTransmit::Off,
                },
                timestamps: times,
                ecn,
                ..base
            }
        },
    )
}

fn fate(loss: u32) -> impl Strategy<Value = Fate> {
    (0..100u32, 0..100u32, 0..100u32, 1u64..80).prop_map(move |(lost, late, again, ms)| Fate {
        lost: lost < loss,
        marked: again % 7 == 0,
        late: match late < 10 {
            true => Duration::from_millis(ms),
            false => Duration::ZERO,
        },
        again: (again < 5).then(|| Duration::from_millis(ms)),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Loss, reordering and duplication of both data and acknowledgements for a while, then none.
    #[test]
    fn everything_sent_is_delivered_exactly(
        config in config(),
        thousandths in proptest::collection::vec(1u64..120_000, 1..4),
        data in proptest::collection::vec(fate(20), 400),
        acks in proptest::collection::vec(fate(10), 400),
    ) {
        let sizes = thousandths.iter().map(|n| (n * u64::from(config.mss)).div_ceil(1000));
        let sizes: Vec<_> = sizes.collect();
        let total: u64 = sizes.iter().sum();
        let rate = Rate::from_bps(2_000_000);
        let mut highest = 0;
        let window = config.window.get().max(u64::from(config.mss));
        let mut pipe = Pipe::new(
            &config,
            rate,
            Duration::from_millis(30),
            move |n, segment| {
                // In order, or again what was sent.
                assert!(segment.seq <= highest, "a gap in what is sent");
                assert_eq!(segment.retransmitted, segment.seq < highest);
                highest = highest.max(segment.end());
                data.get(n).copied().unwrap_or_default()
            },
            move |n, _| acks.get(n).copied().unwrap_or_default(),
        );
        let mut given = 0;
        for bytes in sizes {
            pipe.sender.send(Bytes::new(bytes));
            given += bytes;
            let done = pipe.run(pipe.now + Duration::from_secs(100_000));
            prop_assert!(done, "stalled: {:?}", pipe.sender);
            prop_assert_eq!(pipe.receiver.delivered(), Bytes::new(given));
        }
        prop_assert_eq!(pipe.sender.acked(), Bytes::new(total));
        prop_assert_eq!(pipe.sender.in_flight(), Bytes::ZERO);
        prop_assert_eq!(pipe.sender.next_timeout(), None);
        // The unacknowledged bytes at a segment's departure are within the window.
        let mut acked = pipe.acks.iter().peekable();
        let mut una = 0;
        for (at, segment) in &pipe.sent {
            while let Some((_, ack)) = acked.next_if(|(then, _)| then <= at) {
                una = una.max(ack.ack);
            }
            // `una` is what the receiver had acknowledged by then, at least what the sender knew.
            prop_assert!(segment.end() <= una + window);
        }
    }

    #[test]
    fn nothing_is_sent_twice_where_nothing_is_lost(
        config in config(),
        thousandths in 1u64..400_000,
    ) {
        let bytes = (thousandths * u64::from(config.mss)).div_ceil(1000);
        let window = config.window.get().max(u64::from(config.mss));
        let mut pipe = Pipe::lossless(&config,
            Rate::from_bps(20_000_000),
            Duration::from_millis(20));
        pipe.sender.send(Bytes::new(bytes));
        prop_assert!(pipe.run(Instant::ZERO + Duration::from_secs(100_000)));
        let stats = pipe.sender.stats();
        prop_assert_eq!(stats.retransmitted + stats.timeouts + stats.fast_retransmits, 0);
        prop_assert_eq!(stats.sent, bytes.div_ceil(u64::from(config.mss)));
        prop_assert_eq!(pipe.receiver.delivered(), Bytes::new(bytes));
        prop_assert!(pipe.sender.srtt().unwrap() <= Duration::from_millis(200) + window_time(window));
    }
}

fn window_time(window: u64) -> Duration {
    Bytes::new(window) / Rate::from_bps(20_000_000)
}
