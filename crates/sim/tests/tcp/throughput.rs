// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput under loss against closed forms, over a path of 100 ms that is never full.

use crate::pipe::{Fate, LOST, Pipe, untouched};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Config, DelayedAck, Segment, Variant};

const DELAYED: DelayedAck = DelayedAck::EverySecond(Duration::from_millis(40));

/// Segments sent per second.
fn throughput(
    variant: Variant,
    delayed_ack: DelayedAck,
    seconds: u64,
    lost: impl FnMut(usize, &Segment) -> Fate,
) -> f64 {
    let config = Config {
        window: Bytes::new(10_000_000),
        // The first slow start leads to no more than the windows of later.
        initial_ssthresh: Bytes::new(150 * 1448),
        delayed_ack,
        growth_limit: 1,
        quick_acks: 0,
        whole_segments: false,
        counts_delivered: false,
        min_rto: Duration::from_millis(400),
        min_rto_margin: Duration::ZERO,
        ..Config::linux(variant)
    };
    let rate = Rate::from_bps(10_000_000_000);
    let mut pipe = Pipe::new(&config, rate, Duration::from_millis(50), lost, untouched);
    pipe.sender.send_endless();
    pipe.run(Instant::ZERO + Duration::from_secs(seconds));
    pipe.sent.len() as f64 / seconds as f64
}

/// Loses one in this number, at random.
fn random(one_in: u64) -> impl FnMut(usize, &Segment) -> Fate {
    let mut state = 1u64;
    move |_, _| {
        // D. Knuth's MMIX generator; its high bits are random enough.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match (state >> 33) % one_in {
            0 => LOST,
            _ => Fate::default(),
        }
    }
}

#[test]
fn random_loss_costs_what_the_closed_form_says() {
    // J. Padhye, V. Firoiu, D. Towsley, J. Kurose, "Modeling TCP Throughput", SIGCOMM 1998, eq. (30),
    // R = 0.1 s, T0 = 0.4 s; b = 1 and 2 segments for an acknowledgement. Its model is Reno's, and
    // the later variants do better where many are lost.
    let expected = [
        (DelayedAck::Off, [(1000, 383.8), (100, 112.3), (20, 36.86)]),
        (DELAYED, [(1000, 271.4), (100, 79.43), (20, 26.06)]),
    ];
    for (variant, tolerance, least) in [
        (Variant::Reno, 0.1, 20),
        (Variant::NewReno, 0.1, 100),
        (Variant::Sack, 0.1, 100),
    ] {
        for (ack, rates) in expected {
            for (one_in, rate) in rates.into_iter().filter(|r| r.0 >= least) {
                let seen = throughput(variant, ack, 1000, random(one_in));
                let what = format!("{variant:?} {ack:?} 1/{one_in}: {seen:.1}, not {rate}");
                assert!((seen / rate - 1.0).abs() < tolerance, "{what}");
            }
        }
    }
}

#[test]
fn cubic_has_the_window_that_rfc_9438_says() {
    // Eq. (5): (C (3 + beta) / (4 (1 - beta)))^(1/4) (R / p)^(3/4), with losses evenly apart. It
    // leaves out fast convergence, which takes its share where a loss comes just below W_max.
    let p = 1e-4;
    let window = (0.4f64 * 3.7 / 1.2).powf(0.25) * (0.1f64 / p).powf(0.75);
    let every = |n, _: &Segment| match n % 10_000 {
        9_999 => LOST,
        _ => Fate::default(),
    };
    for ack in [DelayedAck::Off, DELAYED] {
        let seen = throughput(Variant::Cubic, ack, 300, every) * 0.1;
        assert!((seen / window - 1.0).abs() < 0.08, "{seen}, not {window}");
    }
}

#[test]
fn a_bottleneck_with_a_buffer_is_kept_busy() {
    // 10 Mbit/s, 40 ms, and a buffer of their product: what Reno needs to never let it run dry.
    for variant in Variant::LOSS_BASED {
        let (mut out, mut sent_on) = (Instant::ZERO, 0u64);
        let buffer = Duration::from_millis(40);
        let mut pipe = Pipe::new(
            &Config::linux(variant),
            Rate::from_bps(10_000_000_000),
            Duration::from_millis(20),
            |_, segment| {
                let now = segment.sent_at;
                if out.saturating_since(now) > buffer {
                    return LOST;
                }
                out = out.max(now) + Bytes::new(1500) / Rate::from_bps(10_000_000);
                sent_on += 1;
                Fate {
                    late: out.saturating_since(now),
                    ..Fate::default()
                }
            },
            untouched,
        );
        pipe.sender.send_endless();
        pipe.run(Instant::ZERO + Duration::from_secs(60));
        let (stats, delivered) = (pipe.sender.stats(), pipe.receiver.delivered().get());
        drop(pipe);
        let busy = sent_on as f64 * 1.2e-3 / 60.0;
        let useful = delivered as f64 / 1448.0 / sent_on as f64;
        let least = match variant {
            Variant::Tahoe => 0.9,
            _ => 0.98,
        };
        let what = format!("{variant:?}: busy {busy:.3}, useful {useful:.3}, {stats:?}");
        assert!(busy > least && busy <= 1.001 && useful > 0.995, "{what}");
        // In the first slow start, half of a window is lost, and some of what replaces it.
        assert!(stats.timeouts <= 2, "{what}");
    }
}
