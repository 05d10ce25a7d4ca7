// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::model::{Frame, Jitter, Jittered, Pace};

fn trace() -> Arc<[Frame]> {
    // 25 frames a second; each fifth is ten packets, the others two.
    (0..50)
        .map(|n| Frame {
            at: Duration::from_millis(40 * n),
            bytes: Bytes::new(if n % 5 == 0 { 10_000 } else { 2_000 }),
            kind: 'P',
        })
        .collect()
}

fn rtp(pace: Pace, deviation: Duration) -> Vec<Departure> {
    jittering(pace, deviation, Jittered::Delay)
}

fn jittering(pace: Pace, deviation: Duration, of: Jittered) -> Vec<Departure> {
    let source = Source::Rtp {
        trace: "trace".into(),
        frames: trace(),
        period: Duration::from_secs(2),
        payload: Bytes::new(1000),
        pace,
        jitter: Jitter { deviation, of },
    };
    departures(&source, 1, 0).unwrap().take(900).collect()
}

fn gaps(packets: &[Departure]) -> Vec<u64> {
    packets.windows(2).map(|w| w[1].at - w[0].at).collect()
}

#[test]
fn slices_are_sent_at_an_even_rate() {
    // 18 packets in each 200 ms.
    let packets = rtp(Pace::Slice(Duration::from_millis(200)), Duration::ZERO);
    for gap in gaps(&packets) {
        assert!(gap.abs_diff(200_000_000 / 18) < 2, "{gap} ns");
    }
}

#[test]
fn the_short_packet_of_a_frame_has_the_same_spacing() {
    // Frames of 1000 and 100 bytes: 10 packets in each 200 ms.
    let frame = |n: u64| Frame {
        at: Duration::from_millis(40 * n),
        bytes: Bytes::new(1_100),
        kind: 'P',
    };
    let frames = (0_u64..5).map(frame).collect();
    let slice = Pace::Slice(Duration::from_millis(200));
    let packets: Vec<_> = Paced::new(frames, Duration::from_millis(200), 1000, slice)
        .take(10)
        .collect();
    assert!(packets.iter().any(|p| p.payload == 100));
    assert!(gaps(&packets).iter().all(|&gap| gap == 20_000_000));
}

#[test]
fn bursts_leave_with_their_frame() {
    let packets = rtp(Pace::Burst, Duration::ZERO);
    assert!(packets[..10].iter().all(|p| p.at == 0));
    assert_eq!(packets[10].at, 40_000_000);
    assert!(packets[9].marker && !packets[8].marker);
}

#[test]
fn a_frame_is_spread_until_the_next() {
    let packets = rtp(Pace::Frame, Duration::ZERO);
    assert!(gaps(&packets[..10]).iter().all(|&gap| gap == 4_000_000));
}

#[test]
fn the_trace_repeats_after_its_length() {
    let packets = rtp(Pace::Burst, Duration::ZERO);
    // 180 packets in two seconds.
    assert_eq!(packets[180].at, 2_000_000_000);
    assert!(packets.iter().enumerate().all(|(n, p)| p.seq == n as u64));
}

#[test]
fn source_jitter_has_its_deviation_and_leaves_in_order_of_time() {
    let plain = rtp(Pace::Frame, Duration::ZERO);
    let packets = rtp(Pace::Frame, Duration::from_millis(5));
    assert!(packets.is_sorted_by_key(|p| p.at));
    assert!(!packets.is_sorted_by_key(|p| p.seq));
    let known = packets.iter().filter(|p| p.seq < 900);
    let delays: Vec<f64> = known
        .map(|p| (p.at - plain[p.seq as usize].at) as f64 / 1e6)
        .collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / delays.len() as f64;
    assert!((mean - 20.0).abs() < 0.6, "{mean} ms");
    assert!(
        (variance.sqrt() - 5.0).abs() < 0.5,
        "{} ms",
        variance.sqrt()
    );
}

#[test]
fn packets_that_may_not_overtake_leave_in_bunches() {
    let packets = jittering(Pace::Frame, Duration::from_millis(20), Jittered::Order);
    assert!(packets.is_sorted_by_key(|p| (p.at, p.seq)));
    let together = gaps(&packets).iter().filter(|gap| **gap == 0).count();
    assert!(together > 400, "{together} of 900");
    // On average they leave when the latest before them does, at most some deviations late.
    let plain = rtp(Pace::Frame, Duration::ZERO);
    let late = packets.iter().zip(&plain).map(|(p, plain)| p.at - plain.at);
    let mean = late.sum::<u64>() as f64 / 900e6;
    assert!((80.0..140.0).contains(&mean), "{mean} ms");
}

/// Packets 4 or 20 ms apart with a deviation of 2 ms; those that are negative count as none, 0.02 ms more on average for 4 ms.
#[test]
fn gaussian_gaps_have_the_planned_mean_and_their_deviation() {
    let plain = rtp(Pace::Frame, Duration::ZERO);
    let packets = jittering(Pace::Frame, Duration::from_millis(2), Jittered::Gap);
    assert!(packets.is_sorted_by_key(|p| (p.at, p.seq)));
    let pairs = gaps(&packets).into_iter().zip(gaps(&plain));
    let off: Vec<f64> = pairs
        .map(|(gap, plain)| (gap as f64 - plain as f64) / 1e6)
        .collect();
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    let variance = off.iter().map(|off| (off - mean).powi(2)).sum::<f64>() / off.len() as f64;
    assert!(mean.abs() < 0.25, "{mean} ms");
    assert!(
        (variance.sqrt() - 2.0).abs() < 0.2,
        "{} ms",
        variance.sqrt()
    );
}

fn replayed(packets: &[(u64, u64)], period: Option<Duration>) -> Vec<(u64, u64, u64)> {
    let packet = |&(ms, bytes): &(u64, u64)| Captured {
        at: Duration::from_millis(ms),
        bytes: Bytes::new(bytes),
    };
    let source = Source::Pcap {
        file: "capture.pcapng".into(),
        packets: packets.iter().map(packet).collect(),
        period,
    };
    let all = departures(&source, 1, 0).unwrap().take(9);
    all.map(|p| (p.at / 1_000_000, p.seq, p.payload + HEADERS))
        .collect()
}

#[test]
fn a_capture_keeps_its_times_and_lengths() {
    let sent = replayed(&[(0, 1500), (0, 300), (7, 60)], None);
    assert_eq!(sent, [(0, 0, 1500), (0, 1, 300), (7, 2, 60)]);
    assert_eq!(replayed(&[], None), []);
}

#[test]
fn short_packets_of_a_capture_are_padded_and_long_ones_cut() {
    let sent = replayed(&[(0, 0), (1, 52), (2, 3010), (3, 3000)], None);
    let lengths: Vec<_> = sent.iter().map(|(at, _, length)| (*at, *length)).collect();
    assert_eq!(
        lengths,
        [
            (0, 60),
            (1, 60),
            (2, 1500),
            (2, 1500),
            (2, 60),
            (3, 1500),
            (3, 1500)
        ]
    );
}

#[test]
fn a_capture_repeats_after_its_period() {
    let sent = replayed(&[(0, 100), (4, 1700)], Some(Duration::from_millis(10)));
    let times: Vec<_> = sent.iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [0, 4, 4, 10, 14, 14, 20, 24, 24]);
    assert!(sent.iter().enumerate().all(|(n, p)| p.1 == n as u64));
}

#[test]
fn poisson_and_cbr_keep_the_rate_of_ip_packets() {
    let (rate, payload) = (Rate::from_bps(1_000_000), Bytes::new(210));
    // 250 bytes each 2 ms.
    let cbr = Source::Cbr {
        rate,
        payload,
        jitter: Jitter::default(),
    };
    assert_eq!(
        departures(&cbr, 1, 0).unwrap().nth(500).unwrap().at,
        1_000_000_000
    );
    for exponential in [false, true] {
        let poisson = Source::Poisson {
            rate,
            payload,
            exponential,
        };
        let packets: Vec<_> = departures(&poisson, 1, 0).unwrap().take(20_000).collect();
        let end = packets[19_999].at as f64 / 1e9;
        assert!((end - 40.0).abs() < 1.0, "{end} s");
        let bytes: u64 = packets.iter().map(|p| p.payload + HEADERS).sum();
        // The least packet of 64 B lifts a mean of 250 B by 7.
        let mean = bytes as f64 / 20_000.0 - if exponential { 7.3 } else { 0.0 };
        assert!((mean - 250.0).abs() < 5.0, "{mean} B");
    }
}

#[test]
fn flows_are_independent_of_each_other() {
    // Arrivals of 100 flows in each ms: of a Poisson process the variance is the mean, known to 2.2 %
    // from 4000 of them.
    let source = Source::Poisson {
        rate: Rate::from_bps(200_000),
        payload: Bytes::new(210),
        exponential: false,
    };
    for seed in 1..=3 {
        let mut arrivals = vec![0.0f64; 4000];
        for flow in 0..100 {
            let times = departures(&source, seed, flow).unwrap();
            for at in times.map(|p| p.at / 1_000_000).take_while(|ms| *ms < 4000) {
                arrivals[at as usize] += 1.0;
            }
        }
        let mean = arrivals.iter().sum::<f64>() / 4000.0;
        let variance = arrivals.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 3999.0;
        assert!((variance / mean - 1.0).abs() < 0.09, "{variance} {mean}");
    }
}

#[test]
fn on_and_off_times_have_their_means() {
    // 1 Mbit/s in packets of 250 B, 100 ms on and 300 ms off: a quarter of the time, bursts of 50.
    for shape in [None, Some(2.5)] {
        let source = Source::OnOff {
            rate: Rate::from_bps(1_000_000),
            payload: Bytes::new(210),
            on: Duration::from_millis(100),
            off: Duration::from_millis(300),
            shape,
        };
        let packets: Vec<_> = departures(&source, 3, 0).unwrap().take(500_000).collect();
        let seconds = packets[499_999].at as f64 / 1e9;
        let rate = 500_000.0 * 2000.0 / seconds;
        assert!((rate / 250_000.0 - 1.0).abs() < 0.05, "{shape:?} {rate}");
        let bursts = gaps(&packets)
            .iter()
            .filter(|gap| **gap > 2_100_000)
            .count();
        let mean = 500_000.0 / bursts as f64;
        assert!((mean / 50.0 - 1.0).abs() < 0.05, "{shape:?} {mean}");
    }
}
