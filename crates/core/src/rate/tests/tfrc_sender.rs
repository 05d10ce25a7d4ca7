// SPDX-License-Identifier: MIT OR Apache-2.0
//! TFRC's sender, rule by rule: names are the RFC's sections.

use super::*;
use crate::rate::tfrc::{Revision, SegmentSize, Tfrc};

pub fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Packets of 1000 bytes, no damping, no credit: rates as the equations have them.
fn plain(revision: Revision) -> TfrcParams {
    TfrcParams {
        revision,
        largest: 1000,
        damping: false,
        credit: false,
        ..TfrcParams::default()
    }
}

/// A sender, and what it has sent.
struct Sender {
    tfrc: Tfrc,
    sent: u64,
}

impl Sender {
    fn new(params: TfrcParams) -> Self {
        Self {
            tfrc: Tfrc::new(params),
            sent: 0,
        }
    }

    /// Packets at `first`, `first + step`, ... before `end`, in ms.
    fn send(&mut self, first: u64, end: u64, step: u64) {
        for ms in (first..end).step_by(step as usize) {
            self.send_at(at(ms), 1000);
        }
    }

    fn send_at(&mut self, now: Instant, bytes: u32) {
        self.tfrc.on_sent(now, self.sent, bytes);
        self.sent += 1;
    }

    /// Feedback on the last packet of `back` packets ago, at `ms`; `received` in bytes per second.
    fn hears(&mut self, ms: u64, back: u64, p: f64, received: f64) {
        let feedback = Feedback {
            highest: self.sent - 1 - back,
            held: Duration::ZERO,
            report: Report::LossEvents {
                rate: p,
                received: Rate::from_bps((received * 8.0) as u64),
            },
        };
        self.tfrc.on_feedback(at(ms), &feedback).unwrap();
    }

    /// X in bytes per second.
    fn x(&self) -> f64 {
        self.tfrc.rate().bps() as f64 / 8.0
    }

    fn is(&self, bytes_per_second: f64) {
        let x = self.x();
        assert!(
            (x / bytes_per_second - 1.0).abs() < 1e-3,
            "{x} B/s, expected {bytes_per_second}"
        );
    }
}

/// One packet answered after 100 ms, then ten more, 10 ms apart, of which the last is answered at 300 ms.
fn started(params: TfrcParams) -> Sender {
    let mut sender = Sender::new(params);
    sender.send(0, 1, 1);
    sender.hears(100, 0, 0.0, 0.0);
    sender.send(110, 201, 10);
    sender
}

#[test]
fn rfc_5348_4_2_initial_rate() {
    for (mss, window) in [
        (500, 2000.0),
        (1095, 4380.0),
        (1460, 4380.0),
        (2190, 4380.0),
        (3000, 6000.0),
    ] {
        let mut sender = Sender::new(TfrcParams {
            largest: mss,
            ..TfrcParams::default()
        });
        sender.send_at(at(0), mss);
        sender.hears(100, 0, 0.0, 0.0);
        sender.is(window / 0.1);
    }
}

#[test]
fn rfc_3448_4_3_one_packet_per_rtt_at_first() {
    let mut sender = Sender::new(plain(Revision::Rfc3448));
    sender.send(0, 1, 1);
    sender.hears(100, 0, 0.0, 0.0);
    sender.is(10_000.0);
}

/// One packet in a second, and the nofeedback timer after 2 s, for any size of the first packet.
#[test]
fn rfc_5348_4_2_before_the_first_rtt() {
    for bytes in [100, 1000] {
        let mut sender = Sender::new(plain(Revision::Rfc5348));
        assert!(sender.tfrc.next_send().unwrap() <= at(5));
        sender.send_at(at(5), bytes);
        assert_eq!(sender.tfrc.next_send(), Some(at(1005)));
        assert_eq!(sender.tfrc.next_timeout(), Some(at(2005)));
    }
}

/// A start rate is one of bytes, also where the first packet is one of two bytes: 4 Mbit/s for 9 packets of 1400 B are 25 ms.
#[test]
fn rfc_5348_4_1_a_short_first_packet_does_not_make_others_leave_at_once() {
    let start = crate::rate::Start {
        rtt: Duration::from_millis(20),
        rate: Rate::from_bps(4_000_000),
    };
    let mut sender = Sender::new(TfrcParams {
        start: Some(start),
        ..TfrcParams::default()
    });
    sender.send_at(at(0), 2);
    for _ in 0..10 {
        let next = sender.tfrc.next_send().unwrap();
        sender.send_at(next, 1400);
        if sender.sent == 11 {
            assert!((at(15)..at(26)).contains(&next), "{next:?}");
        }
    }
}

/// A receiver that never answers: halved at 2 s and then after each 2 s / X, to a packet in 64 s.
#[test]
fn rfc_5348_4_4_a_receiver_that_never_answers_stops_the_sender() {
    let mut sender = Sender::new(plain(Revision::Rfc5348));
    let mut halved = Vec::new();
    while halved.len() < 8 {
        let (send, timer) = (sender.tfrc.next_send().unwrap(), sender.tfrc.next_timeout());
        if timer.is_none_or(|timer| send <= timer) {
            sender.send_at(send, 1000);
        } else {
            sender.tfrc.on_timeout(timer.unwrap());
            halved.push((
                timer.unwrap().as_nanos() / 1_000_000_000,
                1000.0 / sender.x(),
            ));
        }
    }
    let expected = [
        (2, 2.0),
        (6, 4.0),
        (14, 8.0),
        (30, 16.0),
        (62, 32.0),
        (126, 64.0),
        (254, 64.0),
        (382, 64.0),
    ];
    for ((time, seconds), (expected_time, expected_seconds)) in halved.iter().zip(expected) {
        assert_eq!(*time, expected_time);
        assert!((seconds - expected_seconds).abs() < 0.1, "{seconds}");
    }
    assert!(sender.sent < 20, "{}", sender.sent);
}

/// R = 0.9 R + 0.1 R_sample.
#[test]
fn rfc_5348_4_3_rtt() {
    let mut sender = started(plain(Revision::Rfc5348));
    assert_eq!(sender.tfrc.rtt(), Some(Duration::from_millis(100)));
    sender.hears(400, 0, 0.0, 10_000.0);
    let rtt = sender.tfrc.rtt().unwrap().as_secs_f64();
    assert!((rtt - 0.11).abs() < 1e-6, "{rtt}");
}

/// The time that the receiver held the packet does not count.
#[test]
fn rfc_5348_4_3_t_delay() {
    let mut sender = Sender::new(plain(Revision::Rfc5348));
    sender.send(0, 1, 1);
    let report = Report::LossEvents {
        rate: 0.0,
        received: Rate::from_bps(0),
    };
    let feedback = Feedback {
        highest: 0,
        held: Duration::from_millis(30),
        report,
    };
    sender.tfrc.on_feedback(at(100), &feedback).unwrap();
    assert_eq!(sender.tfrc.rtt(), Some(Duration::from_millis(70)));
}

/// Doubled once in an RTT: twice the initial 40 kB/s, and no more within the RTT.
#[test]
fn rfc_5348_4_3_slow_start() {
    let mut sender = started(plain(Revision::Rfc5348));
    sender.is(40_000.0);
    sender.hears(210, 5, 0.0, 100_000.0);
    sender.is(80_000.0);
    sender.hears(250, 0, 0.0, 100_000.0);
    sender.is(80_000.0);
}

/// Slow start goes to twice the receive rate, but not below the initial rate.
#[test]
fn rfc_5348_4_3_slow_start_follows_the_receive_rate() {
    for (received, x) in [(30_000.0, 60_000.0), (1000.0, 40_000.0)] {
        let mut sender = started(plain(Revision::Rfc5348));
        sender.hears(300, 0, 0.0, received);
        sender.is(x);
    }
}

/// After a loss the equation: s = 1000, R = 0.1, p = 0.01: 112.3 packet/s; or twice the receive rate, or a packet in 64 s.
#[test]
fn rfc_5348_4_3_congestion_avoidance() {
    for revision in [Revision::Rfc3448, Revision::Rfc4342, Revision::Rfc5348] {
        let cases = [
            (0.1, 40_000.0, 17_701.0),
            (0.1, 6000.0, 12_000.0),
            (1.0, 6000.0, 41.0),
            (1.0, 0.0, 15.625),
        ];
        for (p, received, x) in cases {
            let mut sender = started(plain(revision));
            sender.hears(300, 0, p, received);
            // All data of the interval were sent as soon as they might: not limited by them.
            sender.is(x);
        }
    }
}

/// A sender of 10 packets in an RTT that may send many more. RFC 3448 allows twice what is received; RFC 5348 what was received before.
#[test]
fn rfc_5348_4_3_a_data_limited_sender_keeps_its_rate() {
    for (revision, x) in [
        (Revision::Rfc3448, 20_000.0),
        (Revision::Rfc4342, 20_000.0),
        (Revision::Rfc5348, 80_000.0),
    ] {
        let mut sender = Sender::new(TfrcParams {
            credit: true,
            ..plain(revision)
        });
        sender.send(0, 1, 1);
        sender.hears(100, 0, 0.0, 0.0);
        // As fast as it may, then one packet in 100 ms.
        for ms in 101..1001 {
            while sender.tfrc.next_send().unwrap() <= at(ms) {
                sender.send_at(at(ms), 1000);
            }
            if ms % 100 == 0 && ms > 500 {
                sender.hears(ms, 3, if ms == 1000 { 0.001 } else { 0.0 }, 40_000.0);
            }
        }
        for ms in (1010..5000).step_by(100) {
            sender.send_at(at(ms), 1000);
            sender.hears(ms + 99, 0, 0.001, 10_000.0);
        }
        sender.is(x);
    }
}

/// A loss event in a data-limited interval: the stored 40 kB/s are halved, what is received counts 0.85, and X is the larger.
#[test]
fn rfc_5348_4_3_a_loss_in_a_data_limited_interval() {
    for (received, x) in [(10_000.0, 20_000.0), (30_000.0, 25_500.0)] {
        let mut sender = Sender::new(TfrcParams {
            credit: true,
            ..plain(Revision::Rfc5348)
        });
        sender.send(0, 1, 1);
        sender.hears(100, 0, 0.0, 0.0);
        sender.send(110, 400, 1);
        sender.hears(400, 100, 0.001, 40_000.0);
        sender.is(80_000.0);
        sender.send(30_000, 30_001, 1);
        sender.hears(30_100, 0, 0.002, received);
        sender.is(x);
    }
}

/// Without feedback the rate is halved where X_recv limits it, and where the equation does.
#[test]
fn rfc_5348_4_4_halved_without_feedback() {
    for (p, received, x) in [
        (0.001, 10_000.0, 20_000.0),
        (0.1, 40_000.0, 17_701.0),
        (0.0, 30_000.0, 60_000.0),
    ] {
        for revision in [Revision::Rfc3448, Revision::Rfc5348] {
            let mut sender = started(plain(revision));
            sender.hears(300, 0, p, received);
            sender.is(if revision == Revision::Rfc3448 && p == 0.0 {
                20_000.0
            } else {
                x
            });
            let x = sender.x();
            sender.send(310, 320, 1);
            let due = sender.tfrc.next_timeout().unwrap();
            assert_eq!(due, at(700));
            sender.tfrc.on_timeout(due);
            if revision == Revision::Rfc3448 && p == 0.0 {
                // X_recv is halved, to 15 kB/s, and min(2 X, 2 X_recv) is more than X: one more lets it down.
                sender.is(30_000.0);
                continue;
            }
            sender.is(x / 2.0);
        }
    }
}

/// A pause does not lower the rate below the initial one, 40 kB/s (RFC 5348), nor below two packets in an RTT (RFC 3448).
#[test]
fn rfc_5348_4_4_an_idle_sender_keeps_the_initial_rate() {
    for (revision, faster_restart, x) in [
        (Revision::Rfc3448, false, 40_000.0),
        (Revision::Rfc4342, false, 40_000.0),
        (Revision::Rfc5348, false, 40_000.0),
        (Revision::Rfc5348, true, 80_000.0),
    ] {
        let mut sender = Sender::new(TfrcParams {
            faster_restart,
            ..plain(revision)
        });
        sender.send(0, 1, 1);
        sender.hears(100, 0, 0.0, 0.0);
        for i in 0..5 {
            sender.send(110 + 200 * i, 200 + 200 * i, 1);
            sender.hears(
                299 + 200 * i,
                0,
                if i == 4 { 0.0001 } else { 0.0 },
                320_000.0,
            );
        }
        for _ in 0..30 {
            let due = sender.tfrc.next_timeout().unwrap();
            sender.tfrc.on_timeout(due);
        }
        let (low, high) = (x / 2.0, x);
        assert!(
            (low..=high * 1.001).contains(&sender.x()),
            "{revision:?}: {}",
            sender.x()
        );
    }
}

/// A sample of 200 ms after 100 ms: X times (0.9 sqrt(0.1) + 0.1 sqrt(0.2)) / sqrt(0.2).
#[test]
fn rfc_5348_4_5_a_longer_rtt_lowers_the_rate() {
    let mut sender = started(TfrcParams {
        damping: true,
        ..plain(Revision::Rfc5348)
    });
    sender.hears(400, 0, 0.1, 100_000.0);
    let x = equation::throughput(1000.0, 0.11, 0.1);
    sender.is(x * (0.9 * 0.1_f64.sqrt() + 0.1 * 0.2_f64.sqrt()) / 0.2_f64.sqrt());
}

/// After a pause no more than an RTT's worth: 4 packets at 40 kB/s; without credit 1.
#[test]
fn rfc_5348_4_6_bursts_are_an_rtt_at_most() {
    for (credit, packets) in [(true, 4), (false, 1)] {
        let mut sender = Sender::new(TfrcParams {
            credit,
            granularity: Duration::ZERO,
            ..plain(Revision::Rfc5348)
        });
        sender.send(0, 1, 1);
        sender.hears(100, 0, 0.0, 0.0);
        sender.send(110, 111, 1);
        let before = sender.sent;
        while sender.tfrc.next_send().unwrap() <= at(300) {
            sender.send_at(at(300), 1000);
        }
        assert_eq!(sender.sent - before, packets);
    }
}

/// t_delta = min(t_ipi, t_gran, R) / 2: a packet each 25 ms may leave 12.5, 5 or 0.5 ms early.
#[test]
fn rfc_5348_8_3_a_packet_may_leave_early() {
    for (granularity, early) in [(1000, 12_500), (10, 5000), (1, 500)] {
        let granularity = Duration::from_millis(granularity);
        let mut sender = Sender::new(TfrcParams {
            granularity,
            ..plain(Revision::Rfc5348)
        });
        sender.send(0, 1, 1);
        sender.hears(100, 0, 0.0, 0.0);
        sender.send(200, 201, 1);
        assert_eq!(
            sender.tfrc.next_send(),
            Some(at(225) - Duration::from_micros(early))
        );
    }
}

/// A packet each half a second; then 0.9 of it and 0.1 of the sample. Without a report the rate halves, as it does without such an RTT.
#[test]
fn an_estimate_that_begins_with_an_rtt_is_averaged_from_it() {
    let params = TfrcParams {
        first_rtt: Some(Duration::from_millis(500)),
        granularity: Duration::ZERO,
        ..plain(Revision::Rfc3448)
    };
    let rtt = |sender: &Sender| sender.tfrc.rtt().unwrap().as_secs_f64();
    let mut sender = Sender::new(params);
    sender.send(0, 1, 1);
    sender.is(2000.0);
    assert_eq!(sender.tfrc.next_send(), Some(at(500)));
    sender.hears(100, 0, 0.0, 0.0);
    assert!((rtt(&sender) - 0.46).abs() < 1e-6);
    let mut none = Sender::new(TfrcParams {
        first_rtt: None,
        ..params
    });
    none.send(0, 1, 1);
    none.hears(100, 0, 0.0, 0.0);
    assert!((rtt(&none) - 0.1).abs() < 1e-6);
    let mut silent = Sender::new(params);
    silent.send(0, 1, 1);
    let timeout = silent.tfrc.next_timeout().unwrap();
    silent.tfrc.on_timeout(timeout);
    silent.is(1000.0);
}

/// RFC 4342 §5.3: with the largest size for s, packets of 200 bytes count as 1000, and so does what is received of them.
#[test]
fn rfc_4342_5_3_each_packet_counts_as_one() {
    let mut small = Sender::new(TfrcParams {
        segment: SegmentSize::Largest,
        ..plain(Revision::Rfc5348)
    });
    let mut large = Sender::new(plain(Revision::Rfc5348));
    for (sender, bytes) in [(&mut small, 200), (&mut large, 1000)] {
        sender.send_at(at(0), bytes);
        sender.hears(100, 0, 0.0, 0.0);
        for ms in (110..200).step_by(10) {
            sender.send_at(at(ms), bytes);
        }
        sender.hears(300, 0, 0.01, 20.0 * f64::from(bytes));
    }
    assert_eq!(small.tfrc.next_send(), large.tfrc.next_send());
    assert!((small.x() * 5.0 / large.x() - 1.0).abs() < 1e-3);
}

/// One feedback packet can say what it will: at most twice as fast, from the initial rate up; and X_inst at most twice X.
#[test]
fn one_feedback_packet_doubles_the_rate_at_most() {
    let mut sender = started(plain(Revision::Rfc5348));
    sender.hears(300, 0, 1e-300, 200_000.0);
    sender.is(80_000.0);
    let mut sender = started(TfrcParams {
        damping: true,
        ..plain(Revision::Rfc5348)
    });
    let (held, report) = (
        Duration::from_millis(99),
        Report::LossEvents {
            rate: 1e-300,
            received: Rate::from_bps(1_600_000),
        },
    );
    sender
        .tfrc
        .on_feedback(
            at(300),
            &Feedback {
                highest: 10,
                held,
                report,
            },
        )
        .unwrap();
    // The RTT counts as 50 ms, half of what the report took.
    let sqmean = 0.9 * 0.1_f64.sqrt() + 0.1 * 0.05_f64.sqrt();
    sender.is(2.0 * 4000.0 / 0.095 * sqmean / 0.05_f64.sqrt());
}

/// X allows packets, each as one of s. Where they become shorter than the mean of those before, as when video ends and audio goes
/// on, what is received of them counts as s too: a sender that sends all that it may is not held back by it.
#[test]
fn rfc_5348_4_1_shorter_packets_are_as_many() {
    let mut path = Path::new(
        Config::Tfrc(TfrcParams::default()),
        Duration::from_millis(50),
    );
    path.lose = Box::new(|sequence| sequence % 50 == 49);
    path.run(Duration::from_secs(20));
    let mut sent_in_5_s = |bytes| {
        let before = path.sent;
        path.bytes = bytes;
        path.run(Duration::from_secs(5));
        path.sent - before
    };
    let (long, short) = (sent_in_5_s(1000), sent_in_5_s(160));
    assert!(short.abs_diff(long) <= long / 20, "{long}, then {short}");
}
