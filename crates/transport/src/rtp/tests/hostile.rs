// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports that lie, bytes of any kind, paths that lose and reorder.

use super::*;

#[test]
fn reports_that_lie_are_counted_and_change_nothing() {
    let (mut path, report) = twcc();
    let now = at_ms(410);
    let before = path.sending.stats().clone();
    // Bytes 12 and 13 are the first packet's number, 16 to 18 the time.
    let mut ahead = report.clone();
    ahead[12..14].copy_from_slice(&5000_u16.to_be_bytes());
    path.sending.handle(now, &ahead);
    assert_eq!(
        path.sending.stats().last_rejected,
        Some(Rejected::NotSent(5000))
    );
    let mut elsewhen = report.clone();
    elsewhen[16] ^= 1;
    path.sending.handle(now, &elsewhen);
    let wrong_time = |why: &Option<Rejected>| matches!(why, Some(Rejected::WrongTime(_)));
    assert!(wrong_time(&path.sending.stats().last_rejected));
    path.sending.handle(now, &report[..report.len() - 1]);
    let stats = path.sending.stats().clone();
    assert_eq!(stats.rejected, before.rejected + 3);
    assert_eq!(stats.feedback, before.feedback);
    assert_eq!(stats.streams[0].arrived, before.streams[0].arrived);
    // And the true one counts once.
    for _ in 0..2 {
        path.sending.handle(now, &report);
        path.sending.handle_timeout(now);
    }
    let after = path.sending.stats();
    assert_eq!(after.rejected, stats.rejected);
    assert_eq!(after.streams[0].arrived, stats.streams[0].arrived + 1);
}

/// TWCC says 8191 times *not received* in 24 bytes, and a datagram has room for 64 such reports.
#[test]
fn all_reports_of_a_datagram_speak_of_8192_packets_at_most() {
    let fixed = Fixed::new(Rate::from_bps(1_000_000_000));
    let mut sending = Sending::new(sending_config(), fixed, Listening::default(), Fifo).unwrap();
    let mut out = Vec::new();
    for ms in 0..9000 {
        let frame = Frame {
            stream: 0,
            deadline: at_ms(ms + 100),
            payload: Bytes::from_static(b"audio"),
        };
        sending.send(at_ms(ms), &frame).unwrap();
        while sending.poll_transmit(at_ms(ms), &mut out).is_some() {}
        while sending.poll_event().is_some() {}
    }
    let mut report = vec![0x8f, 205, 0, 5];
    report.extend(5_u32.to_be_bytes());
    report.extend(AUDIO.ssrc.to_be_bytes());
    // From packet 0 on, 8191 packets, at 0, the first report; a run of all of them.
    report.extend([0, 0, 0x1f, 0xff, 0, 0, 0, 0, 0x1f, 0xff, 0, 0]);
    let mut rejected = |reports| {
        sending.handle(at_ms(9000), &report.repeat(reports));
        sending.stats().last_rejected
    };
    assert_eq!(rejected(1), None);
    assert_eq!(rejected(2), Some(Rejected::TooLong));
}

proptest! {
    #[test]
    fn any_bytes_can_come_to_either_side(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
        heads in prop::collection::vec((0x80u8..0xa0, 190u8..210), 20),
    ) {
        let (mut path, _) = twcc();
        let mut out = Vec::new();
        for (mut datagram, (first, kind)) in datagrams.into_iter().zip(heads) {
            // Half of them look like RTCP of the right length.
            if datagram.len() >= 4 && datagram[0] < 128 {
                datagram.truncate(datagram.len() / 4 * 4);
                let words = (datagram.len() / 4 - 1) as u16;
                datagram[..2].copy_from_slice(&[first, kind]);
                datagram[2..4].copy_from_slice(&words.to_be_bytes());
            }
            path.sending.handle(at_ms(500), &datagram);
            path.sending.handle_timeout(at_ms(500));
            path.receiving.handle(at_ms(500), &datagram, 0);
        }
        while path.receiving.poll_transmit(at_ms(600), &mut out) {}
        let arrived: u64 = path.sending.stats().streams.iter().map(|s| s.arrived).sum();
        let sent: u64 = path.sending.stats().streams.iter().map(|s| s.outcomes.sent).sum();
        prop_assert!(arrived <= sent + 1);
    }

    #[test]
    fn losses_and_reordering_are_told_as_they_were(seed: u64, rfc8888: bool, loss in 0u32..60) {
        // One stream, through a path that loses, doubles and reorders, in up to three seconds.
        let kind = if rfc8888 { FeedbackKind::Rfc8888 } else { FeedbackKind::Twcc };
        let mut path = Path::new(kind, Duration::ZERO, |_| false);
        let mut rng = Rng::new(seed);
        let (mut out, mut arriving) = (Vec::new(), Vec::new());
        for ms in 0..2000 {
            let now = at_ms(ms);
            if ms < 1000 {
                let frame = Frame { stream: 1, deadline: now, payload: Bytes::from_static(&[0; 100]) };
                path.sending.send(now, &frame);
            }
            while path.sending.poll_transmit(now, &mut out).is_some() {
                for _ in 0..=u64::from(rng.below(10) == 0) {
                    if rng.below(100) >= loss {
                        arriving.push((ms + u64::from(rng.below(300)), out.clone()));
                    }
                }
            }
            arriving.retain(|(at, datagram)| {
                if *at <= ms {
                    path.receiving.handle(now, datagram, 0);
                }
                *at > ms
            });
            while path.receiving.poll_transmit(now, &mut out) {
                path.sending.handle(now, &out);
                path.sending.handle_timeout(now);
            }
        }
        let stats = path.sending.stats();
        prop_assert_eq!(&stats.last_rejected, &None);
        let received = path.receiving.streams().map(|r| r.sequence.received()).sum::<u64>();
        prop_assert_eq!(stats.streams[1].arrived, received);
    }
}

type Call = Sending<AnyController, AnyReporter, Fifo>;

/// A call at TFRC's rate that has lost some packets, the next report of the receiver, to which all has come, and the highest rate until
/// the receiver has reported all that is under way then.
fn steady(kind: FeedbackKind) -> (Call, Instant, Vec<u8>, u64) {
    let rate = Config::Tfrc(tfrc());
    let (controller, reporter) = (rate.controller(), rate.reporter());
    let mut sending = Sending::new(sending_config(), controller, reporter, Fifo).unwrap();
    let mut receiving = Receiving::new(receiving_config(kind));
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut out, mut number) = (Vec::new(), 0);
    let (mut next, mut most) = (None, 0);
    for ms in 0.. {
        let now = at_ms(ms);
        while there.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram): (_, Vec<u8>) = there.pop_front().unwrap();
            receiving.handle(now, &datagram, 0);
        }
        while back.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram): (_, Vec<u8>) = back.pop_front().unwrap();
            if ms > 3000 && datagram[1] == 205 && next.is_none() {
                next = Some((sending.clone(), now, datagram.clone()));
            }
            sending.handle(now, &datagram);
        }
        sending.handle_timeout(now);
        if let Some((call, at, report)) = &next {
            most = most.max(call.rate().bps()).max(sending.rate().bps());
            if now >= *at + Duration::from_millis(100) {
                assert_eq!(sending.stats().rejected, 0);
                return (call.clone(), *at, report.clone(), most);
            }
        }
        let frame = Frame {
            stream: 1,
            deadline: now,
            payload: Bytes::from_static(&[0; 1000]),
        };
        sending.send(now, &frame);
        while sending.poll_transmit(now, &mut out).is_some() {
            number += 1;
            if ms > 2000 || number % 30 != 29 {
                there.push_back((now + Duration::from_millis(25), out.clone()));
            }
        }
        while receiving.poll_transmit(now, &mut out) {
            back.push_back((now + Duration::from_millis(25), out.clone()));
        }
    }
    unreachable!("it reports each 50 ms")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A report may lie about time, which is worth a factor of two (docs/rate.md), and about what arrived. One on packets that cannot
    /// have arrived yet takes up to a tenth off the RTT.
    #[test]
    fn nothing_that_a_receiver_makes_up_raises_the_rate_beyond_twice_that_of_one_that_has_all(
        rfc8888: bool,
        changed in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6), 1..20),
        made_up in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..20),
    ) {
        let (mut attacked, now, report, most) = steady(if rfc8888 { FeedbackKind::Rfc8888 } else { FeedbackKind::Twcc });
        let flipped = changed.iter().map(|bits| {
            let mut bytes = report.clone();
            for (at, bit) in bits {
                bytes[at.index(report.len())] ^= 1 << bit;
            }
            bytes
        });
        // The path's RTT, and half of it, which is the least that lies about time can show.
        let (path, least) = (0.05, 0.025);
        let rtt = |call: &Call| call.rtt().unwrap().as_secs_f64();
        let mut shown = path;
        for datagram in flipped.chain(made_up) {
            let before = rtt(&attacked);
            attacked.handle(now, &datagram);
            attacked.handle_timeout(now);
            let after = rtt(&attacked);
            prop_assert!(after >= 0.9 * before, "{after} s after {before} s");
            if after < 0.9 * before + 0.1 * least || shown < path {
                shown = after.min(shown);
            }
            let (rate, most) = (attacked.rate().bps() as f64, most as f64 * path / shown);
            prop_assert!(rate <= 2.0 * most, "{rate} > 2 {most}");
        }
    }
}
