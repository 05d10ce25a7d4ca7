// SPDX-License-Identifier: MIT OR Apache-2.0
//! TFRC's receiver, rule by rule: names are the RFC's sections.

use super::tfrc_sender::at;
use super::*;
use crate::rate::tfrc::TfrcReceiver;

const RTT: Duration = Duration::from_millis(100);

fn packet(sequence: u64) -> Arrival {
    Arrival {
        sequence,
        bytes: 1000,
        rtt: Some(RTT),
        window: None,
        marked: false,
    }
}

/// Feedback on arrival of these packets, each in its millisecond.
fn reports(receiver: &mut TfrcReceiver, arrivals: &[(u64, Arrival)]) -> Vec<(u64, Feedback)> {
    let mut reports = Vec::new();
    for &(ms, arrival) in arrivals {
        while let Some(due) = receiver.next_timeout().filter(|due| *due < at(ms)) {
            let feedback = receiver.poll_feedback(due);
            reports.extend(feedback.map(|f| (due.as_nanos() / 1_000_000, f)));
        }
        receiver.on_arrival(at(ms), arrival);
        reports.extend(receiver.poll_feedback(at(ms)).map(|f| (ms, f)));
    }
    reports
}

fn p_and_rate(feedback: &Feedback) -> (f64, f64) {
    match feedback.report {
        Report::LossEvents { rate, received } => (rate, received.bps() as f64 / 8.0),
        _ => unreachable!("TFRC's receiver reports loss events"),
    }
}

/// Numbers with a packet each 10 ms, but for those that `lost` says.
fn without(last: u64, lost: impl Fn(u64) -> bool) -> Vec<(u64, Arrival)> {
    (0..=last)
        .filter(|s| !lost(*s))
        .map(|s| (10 * s, packet(s)))
        .collect()
}

#[test]
fn rfc_5348_6_3_the_first_packet_is_reported_at_once() {
    let mut receiver = TfrcReceiver::new(true);
    let reports = reports(&mut receiver, &[(7, packet(0))]);
    assert_eq!(reports.len(), 1);
    assert_eq!(p_and_rate(&reports[0].1), (0.0, 0.0));
    assert_eq!(
        (reports[0].1.highest, reports[0].1.held),
        (0, Duration::ZERO)
    );
    // Nothing has come since.
    assert_eq!(receiver.next_timeout(), None);
}

/// Each RTT, with what came in it: 10 packets in 100 ms, of which the last came 9 ms before.
#[test]
fn rfc_5348_6_2_feedback_each_rtt() {
    let mut receiver = TfrcReceiver::new(true);
    let mut arrivals = vec![(0, packet(0))];
    arrivals.extend((1..40).map(|s| (10 * s + 1, packet(s))));
    let reports = reports(&mut receiver, &arrivals);
    let times: Vec<u64> = reports.iter().map(|r| r.0).collect();
    assert_eq!(times, [0, 100, 200, 300]);
    for (time, feedback) in &reports[1..] {
        assert_eq!(feedback.highest, time / 10 - 1);
        assert_eq!(feedback.held, Duration::from_millis(9));
        let expected = if *time == 100 { 90_000.0 } else { 100_000.0 };
        assert_eq!(p_and_rate(feedback), (0.0, expected));
    }
}

/// A packet in 300 ms: each is reported when it comes, for no feedback was sent when the timer ran out before.
#[test]
fn rfc_5348_6_1_few_packets_are_reported_one_by_one() {
    let mut receiver = TfrcReceiver::new(true);
    let arrivals = [(0, packet(0)), (300, packet(1)), (600, packet(2))];
    let reports = reports(&mut receiver, &arrivals);
    let times: Vec<u64> = reports.iter().map(|r| r.0).collect();
    assert_eq!(times, [0, 300, 600]);
    // One packet in the 300 ms since the last report, which is more than an RTT ago.
    assert!((p_and_rate(&reports[2].1).1 - 1000.0 / 0.3).abs() < 1.0);
}

/// RFC 5348 §6.3: without an RTT in packets, each is reported.
#[test]
fn rfc_5348_6_3_without_an_rtt_each_packet_is_reported() {
    let mut receiver = TfrcReceiver::new(true);
    let bare = |sequence| Arrival {
        rtt: None,
        ..packet(sequence)
    };
    let arrivals = [
        (0, bare(0)),
        (10, bare(1)),
        (20, bare(2)),
        (30, packet(3)),
        (40, packet(4)),
    ];
    let times: Vec<u64> = reports(&mut receiver, &arrivals)
        .iter()
        .map(|r| r.0)
        .collect();
    assert_eq!(times, [0, 10, 20, 30]);
}

/// Packet 25 is lost when the third later one comes, at 280 ms; feedback goes at once.
#[test]
fn rfc_5348_5_1_a_packet_is_lost_when_three_later_ones_came() {
    let mut receiver = TfrcReceiver::new(true);
    let reports = reports(&mut receiver, &without(40, |s| s == 25));
    let (time, first) = reports.iter().find(|(_, f)| p_and_rate(f).0 > 0.0).unwrap();
    assert_eq!((*time, first.highest), (280, 28));
}

/// Two packets early: no loss. Duplicates are not packets.
#[test]
fn rfc_5348_5_1_reordering_and_duplicates() {
    let mut receiver = TfrcReceiver::new(true);
    let order = [0, 1, 3, 4, 2, 2, 5, 5, 7, 7, 7, 7, 6, 8];
    let arrivals: Vec<_> = order
        .iter()
        .zip(0..)
        .map(|(s, ms)| (ms, packet(*s)))
        .collect();
    reports(&mut receiver, &arrivals);
    let feedback = receiver.poll_feedback(at(100)).unwrap();
    // 8 packets in 100 ms after the first report.
    assert_eq!(p_and_rate(&feedback), (0.0, 80_000.0));
}

/// A mark is a loss event as soon as it comes, and one that begins with a hole before it.
#[test]
fn rfc_5348_5_1_marks() {
    let mut receiver = TfrcReceiver::new(true);
    let mut arrivals = without(20, |s| s == 18);
    arrivals[19].1.marked = true;
    assert_eq!(arrivals[19].1.sequence, 20);
    let reports = reports(&mut receiver, &arrivals);
    assert!(p_and_rate(&reports.last().unwrap().1).0 > 0.0);
    let (skip, mut intervals) = receiver.loss_intervals();
    let current = intervals.next().unwrap();
    assert_eq!((skip, current.lossy, current.lossless), (0, 3, 0));
    assert_eq!(intervals.next().map(|i| i.lossless), Some(18));
}

/// Losses within an RTT of the first are one event: 20, 25 and 29 are, 31 is the next. The nominal time of each is its turn.
#[test]
fn rfc_5348_5_2_losses_within_an_rtt_are_one_event() {
    let mut receiver = TfrcReceiver::new(true);
    reports(
        &mut receiver,
        &without(40, |s| [20, 25, 29, 31].contains(&s)),
    );
    let (_, intervals) = receiver.loss_intervals();
    let parts: Vec<_> = intervals.map(|i| (i.lossy, i.lossless)).collect();
    assert_eq!(parts, [(1, 9), (10, 1), (0, 20)]);
}

/// 60 packets lost in a row, 10 ms each: an event begins more than 100 ms after the last began, each 11 packets.
#[test]
fn rfc_5348_5_2_a_long_loss_is_many_events() {
    let mut receiver = TfrcReceiver::new(true);
    reports(&mut receiver, &without(100, |s| (20..80).contains(&s)));
    let (_, intervals) = receiver.loss_intervals();
    let lengths: Vec<f64> = intervals.map(|i| i.length).collect();
    // 20, 31, 42, 53, 64, 75 begin events; 75 to 100 is the current one.
    assert_eq!(lengths[..6], [26.0, 11.0, 11.0, 11.0, 11.0, 11.0]);
}

/// A gap of an hour at an RTT of 100 us, which no receiver should walk through.
#[test]
fn rfc_5348_5_2_a_huge_gap_costs_nothing() {
    let mut receiver = TfrcReceiver::new(true);
    let soon = |sequence| Arrival {
        rtt: Some(Duration::from_micros(100)),
        ..packet(sequence)
    };
    let far = 1 << 61;
    let hour = 3_600_000;
    let arrivals = [
        (0, soon(0)),
        (hour, soon(far)),
        (hour + 1, soon(far + 1)),
        (hour + 2, soon(far + 2)),
        (hour + 3, soon(u64::MAX)),
    ];
    reports(&mut receiver, &arrivals);
    let (_, intervals) = receiver.loss_intervals();
    assert_eq!(intervals.count(), 9);
}

/// The first packet is lost: half a packet per RTT, p = 0.20643 while the current interval is shorter.
#[test]
fn rfc_5348_6_3_1_the_first_packet_is_lost() {
    let mut receiver = TfrcReceiver::new(true);
    let arrivals = [(0, packet(1)), (1000, packet(2)), (2000, packet(3))];
    let reports = reports(&mut receiver, &arrivals);
    // X_recv was a packet in a second, less than half a packet in an RTT of 100 ms.
    let p = p_and_rate(&reports.last().unwrap().1).0;
    assert!((p - 0.20643).abs() < 5e-6, "{p}");
}

/// The first loss at 20 packets in 200 ms: p is that at which the equation gives the largest X_recv, 10 packets in 100 ms.
#[test]
fn rfc_5348_6_3_1_the_first_loss_interval_is_what_the_rate_says() {
    let mut receiver = TfrcReceiver::new(true);
    let reports = reports(&mut receiver, &without(58, |s| s == 55));
    let p = p_and_rate(&reports.last().unwrap().1).0;
    let rate = equation::throughput(1.0, 0.1, p);
    assert!((rate / 100.0 - 1.0).abs() < 1e-6, "{rate} packet/s");
}

/// RFC 4342 §6: with window counters, feedback when they have moved by four.
#[test]
fn rfc_4342_6_feedback_each_four_counters() {
    let mut receiver = TfrcReceiver::new(true);
    let counted = |sequence: u64| Arrival {
        rtt: None,
        window: Some((sequence / 2 % 16) as u8),
        ..packet(sequence)
    };
    let arrivals: Vec<_> = (0..80).map(|s| (10 * s, counted(s))).collect();
    let times: Vec<u64> = reports(&mut receiver, &arrivals)
        .iter()
        .map(|r| r.0)
        .collect();
    assert_eq!(times, [0, 80, 160, 240, 320, 400, 480, 560, 640, 720]);
    // Eight packets in a turn of four counters: R is 80 ms.
    assert_eq!(receiver.rtt(), Some(Duration::from_millis(80)));
}

/// RFC 4342 §10.2: losses are one event unless a packet between them is more than 4 counters beyond the one before the first.
#[test]
fn rfc_4342_10_2_loss_events_by_window_counters() {
    for (second, events) in [(17, 1), (19, 2)] {
        let mut receiver = TfrcReceiver::new(true);
        // Two packets to a counter; packet 10 is lost after one with counter 4, so that packet 18 is the first beyond.
        let counted = |sequence: u64| Arrival {
            rtt: None,
            window: Some((sequence / 2 % 16) as u8),
            ..packet(sequence)
        };
        let arrivals: Vec<_> = (0..40)
            .filter(|s| *s != 10 && *s != second)
            .map(|s| (s, counted(s)))
            .collect();
        reports(&mut receiver, &arrivals);
        let (_, intervals) = receiver.loss_intervals();
        assert_eq!(intervals.count(), events + 1, "loss at 10 and {second}");
    }
}
