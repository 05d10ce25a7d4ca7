// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls from our sender to our receiver over loopback.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod common;

use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant};

use common::{Relay, VIDEO, VIDEO_AGAIN, config, config_with_rtx, tfrc};
use makeway_core::rate::Config;
use makeway_core::rate::gcc::GccParams;
use makeway_core::send::{Event, Outcome};
use makeway_core::units::{Duration, Rate};
use makeway_testing::in_real_time_or;
use makeway_transport::rtp::{Call, CallStats, FeedbackKind, Receiver, ReceiverConfig, Rtx};
use makeway_vm::again;

const BOTH: [FeedbackKind; 2] = [FeedbackKind::Twcc, FeedbackKind::Rfc8888];

fn receiver(feedback: FeedbackKind) -> Receiver {
    repairing(feedback, Vec::new())
}

fn repairing(feedback: FeedbackKind, rtx: Vec<Rtx>) -> Receiver {
    let config = ReceiverConfig {
        ssrc: 77,
        cname: "receiver@loopback".into(),
        rtx,
        feedback,
        interval: Duration::from_millis(50),
        seed: 2,
    };
    Receiver::bind("127.0.0.1:0".parse().unwrap(), config, |_, _| {}).unwrap()
}

/// More than the rate can carry, for this number of ms.
fn send_much(call: &Call, ms: u64) {
    let until = Instant::now() + StdDuration::from_millis(ms);
    while Instant::now() < until {
        for _ in 0..20 {
            call.send(1, Duration::from_secs(1), vec![1; 1200]).unwrap();
        }
        sleep(StdDuration::from_millis(2));
    }
}

#[test]
fn what_arrives_is_what_was_sent_in_both_kinds_of_feedback() {
    for feedback in BOTH {
        in_real_time_or(
            || what_arrives_is_what_was_sent(feedback),
            || again("what_arrives", &[]),
        );
    }
}

fn what_arrives_is_what_was_sent(feedback: FeedbackKind) {
    let receiver = receiver(feedback);
    let rate = Config::Fixed(Rate::from_bps(5_000_000));
    let mut call = Call::connect(receiver.address(), config(rate, "sbpn2")).unwrap();
    for n in 0..50 {
        call.send(0, Duration::from_millis(200), vec![0; 80])
            .unwrap();
        if n % 2 == 0 {
            call.send(1, Duration::from_millis(200), vec![0; 3000])
                .unwrap();
        }
        sleep(StdDuration::from_millis(10));
    }
    sleep(StdDuration::from_millis(300));
    let mut sent = 0;
    while let Some(event) = call.try_event() {
        sent += u64::from(matches!(event, Event::Outcome(_, _, Outcome::Sent { .. })));
    }
    let stats = call.close().unwrap();
    assert_eq!((sent, stats.missed_events), (125, 0));
    assert_eq!(
        (stats.session.rejected, &stats.session.last_rejected),
        (0, &None)
    );
    let end = Instant::now() + StdDuration::from_secs(10);
    while !receiver.has_ended() && Instant::now() < end {
        sleep(StdDuration::from_millis(10));
    }
    assert!(receiver.has_ended());
    let received = receiver.close().unwrap();
    for (stream, received) in stats.session.streams.iter().zip(&received) {
        let got = received.sequence.received();
        assert_eq!((stream.outcomes.sent, stream.arrived), (got, got));
        assert_eq!(received.on_time, got);
        assert_eq!(stream.bytes, received.bytes);
    }
    assert_eq!(received.len(), 2);
}

#[test]
fn packets_that_the_path_lost_come_again() {
    in_real_time_or(lost_packets_come_again, || {
        again("packets_that_the_path", &[])
    });
}

/// 5 % loss, RTT 40 ms, 500 ms until the deadline.
fn lost_packets_come_again() {
    let receiver = repairing(FeedbackKind::Rfc8888, vec![VIDEO_AGAIN]);
    let relay = Relay::start(receiver.address(), StdDuration::from_millis(20));
    let call = Call::connect(relay.address, config_with_rtx()).unwrap();
    for n in 0..150 {
        // The first and the last packets come: nothing tells of loss before or behind them.
        relay.lose(if (10..140).contains(&n) { 50 } else { 0 });
        call.send(1, Duration::from_millis(500), vec![0; 4800])
            .unwrap();
        sleep(StdDuration::from_millis(20));
    }
    sleep(StdDuration::from_millis(500));
    let stats = call.close().unwrap();
    let received = receiver.close().unwrap();
    let video = received.iter().find(|stream| stream.ssrc == VIDEO).unwrap();
    let sent = stats.session.streams[1].outcomes.sent;
    let by_path = video.sequence.received();
    eprintln!(
        "{sent} sent, {by_path} by the path, {} again; {:?}",
        video.repaired, stats.session.rtx
    );
    assert_eq!(stats.session.last_rejected, None);
    assert!(relay.lost() > 10 && sent - by_path > 10);
    assert!(sent - by_path - video.repaired <= 1);
}

/// The throughput of RFC 5348 §3.1 in bit/s for packets of 1200 bytes.
fn equation(rtt: f64, p: f64) -> f64 {
    let f = (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    8.0 * 1200.0 / (rtt * f)
}

#[test]
fn tfrc_falls_under_loss_to_the_rate_of_its_equation_and_rises_without() {
    // Both at once: they wait most of the time.
    std::thread::scope(|scope| {
        for feedback in BOTH {
            let here = move || tfrc_follows_loss(feedback);
            scope.spawn(move || in_real_time_or(here, || again("tfrc_falls", &[])));
        }
    });
}

fn tfrc_follows_loss(feedback: FeedbackKind) {
    let receiver = receiver(feedback);
    let relay = Relay::start(receiver.address(), StdDuration::from_millis(20));
    let call = Call::connect(relay.address, config(tfrc(), "fifo")).unwrap();
    let rate = |stats: &CallStats| stats.rate.bps() as f64;
    send_much(&call, 1500);
    let clear = call.stats();
    relay.lose(50);
    send_much(&call, 6000);
    let lossy = call.stats();
    relay.lose(0);
    send_much(&call, 4000);
    let again = call.close().unwrap();
    assert_eq!(again.session.last_rejected, None, "{feedback:?}");
    let rtt = lossy.rtt.unwrap().as_secs_f64();
    eprintln!(
        "{feedback:?}: {} clear, {} at 5 % (equation {:.0}), {} again; RTT {:.1} ms, {} reports",
        clear.rate,
        lossy.rate,
        equation(rtt, 0.05),
        again.rate,
        rtt * 1e3,
        again.session.feedback
    );
    assert!((0.040..0.080).contains(&rtt), "{rtt}");
    assert!(rate(&clear) > 2.0 * rate(&lossy) && rate(&again) > 1.5 * rate(&lossy));
    let expected = equation(rtt, 0.05);
    assert!((0.4..2.5).contains(&(rate(&lossy) / expected)));
    let received = receiver.close().unwrap();
    let sent = again.session.streams[1].outcomes.sent;
    let got = received[0].sequence.received();
    // Packets in flight at the end may have arrived or not.
    assert!(
        sent - got >= relay.lost() && sent - got <= relay.lost() + 200,
        "{sent} {got}"
    );
    assert!(relay.lost() > 20);
}

#[test]
fn a_receiver_that_does_not_answer_stops_the_sender() {
    in_real_time_or(a_sender_without_an_answer_stops, || {
        again("a_receiver_that", &[])
    });
}

fn a_sender_without_an_answer_stops() {
    // A port at which nobody reads: what comes is not answered.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let call = Call::connect(silent.local_addr().unwrap(), config(tfrc(), "fifo")).unwrap();
    send_much(&call, 5000);
    let stats = call.close().unwrap();
    // RFC 5348 §4.2: one packet a second before feedback, halved each 2 s without.
    assert!(
        (2..=5).contains(&stats.session.streams[1].outcomes.sent),
        "{stats:?}"
    );
    assert!(stats.rate.bps() <= 8 * 1200);
}

#[test]
fn a_call_follows_the_applications_estimates() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap();
    let none = Config::External(Rate::from_bps(0));
    let call = Call::connect(to, config(none, "fifo")).unwrap();
    call.send(0, Duration::from_secs(60), vec![0; 80]).unwrap();
    assert_eq!(
        (call.stats().rate.bps(), call.stats().backlog.packets),
        (0, 1)
    );
    assert!(call.set_estimate(Rate::from_bps(1_000_000), None));
    let end = Instant::now() + StdDuration::from_secs(10);
    while call.stats().backlog.packets > 0 && Instant::now() < end {
        sleep(StdDuration::from_millis(1));
    }
    let stats = call.close().unwrap();
    assert_eq!(stats.session.streams[0].outcomes.sent, 1);
    assert_eq!(stats.rate, Rate::from_bps(1_000_000));

    let call = Call::connect(to, config(tfrc(), "fifo")).unwrap();
    assert!(!call.set_estimate(Rate::from_bps(1_000_000), None));
}

#[test]
fn a_call_or_a_receiver_that_cannot_be_is_refused() {
    let to = "127.0.0.1:9".parse().unwrap();
    let refused = |config| Call::connect(to, config).map(drop).unwrap_err().to_string();
    // A part, where hundredths are asked for.
    let gcc = GccParams {
        pacing: 2,
        ..GccParams::default()
    };
    let said = refused(config(Config::Gcc(gcc), "fifo"));
    assert!(said.contains("`pacing` is 0.02"), "{said}");
    let mut still = config(tfrc(), "fifo");
    still.streams[0].clock_rate = 0;
    assert!(refused(still).contains("ticks per second"));
    let config = ReceiverConfig {
        ssrc: 77,
        cname: "x".repeat(256),
        rtx: Vec::new(),
        feedback: FeedbackKind::Twcc,
        interval: Duration::from_millis(50),
        seed: 2,
    };
    let at = "127.0.0.1:0".parse().unwrap();
    let error = Receiver::bind(at, config, |_, _| {}).map(drop).unwrap_err();
    assert!(error.to_string().contains("256 bytes"), "{error}");
}
