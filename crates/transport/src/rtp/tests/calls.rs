// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls to one receiver, one after the other.

use super::*;

const DELAY: Duration = Duration::from_millis(30);

/// Another sender, with streams of these SSRCs, instead of the last.
fn begin(path: &mut Path, ssrcs: [u32; 2], seed: u64) {
    let streams = [AUDIO, VIDEO].into_iter().zip(ssrcs);
    let streams = streams.map(|(stream, ssrc)| Stream { ssrc, ..stream });
    let config = SendingConfig {
        streams: streams.collect(),
        seed,
        ..sending_config()
    };
    let fixed = Fixed::new(Rate::from_bps(20_000_000));
    path.sending = Sending::new(config, fixed, Listening::default(), Fifo).unwrap();
}

/// Media for `ms`, and silence in which the last of it is reported: packets sent, and those reported as arrived.
fn call(path: &mut Path, ms: u64) -> (u64, u64) {
    let quiet = path.ms + ms;
    path.run(quiet, quiet + 300);
    let stats = path.sending.stats();
    assert_eq!(stats.last_rejected, None);
    let sent = stats.streams.iter().map(|s| s.outcomes.sent).sum();
    let arrived = stats.streams.iter().map(|s| s.arrived).sum();
    (sent, arrived)
}

/// Says BYE, which is there 50 ms later.
fn end(path: &mut Path) {
    path.sending.close();
    path.run(0, path.ms + 50);
    assert!(path.receiving.has_ended());
}

/// A call of 150 packets, and one of 4500: TWCC counts from 0 in each.
#[test]
fn a_second_call_is_reported_as_the_first_is() {
    for ms in [1000, 30_000] {
        let mut path = Path::new(FeedbackKind::Twcc, DELAY, |_| false);
        let (sent, arrived) = call(&mut path, ms);
        assert_eq!(arrived, sent);
        end(&mut path);
        begin(&mut path, [1, 2], 9);
        let (sent, arrived) = call(&mut path, 10_000);
        assert!(sent >= 1490, "{sent}");
        assert_eq!(arrived, sent, "after {ms} ms");
    }
}

/// The second call has the SSRCs of the first, as with `makeway send --rtx`, and other RTP numbers.
#[test]
fn a_second_call_may_have_the_ssrcs_of_the_first() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        for seed in 1..=10 {
            let mut path = Path::new(feedback, DELAY, |_| false);
            call(&mut path, 5000);
            end(&mut path);
            begin(&mut path, [AUDIO.ssrc, VIDEO.ssrc], seed);
            let (sent, arrived) = call(&mut path, 2000);
            assert_eq!(arrived, sent, "{feedback:?}, seed {seed}");
            let received = path.receiving.streams().map(|s| s.sequence.received());
            assert_eq!(received.sum::<u64>(), sent, "of the second alone");
        }
    }
}

/// The first sender ends without a word. The second packet of the other shows that its numbers are none of the first.
#[test]
fn a_sender_that_ended_without_bye_leaves_no_numbers_behind() {
    let mut path = Path::new(FeedbackKind::Twcc, DELAY, |_| false);
    call(&mut path, 30_000);
    begin(&mut path, [1, 2], 9);
    let (sent, arrived) = call(&mut path, 10_000);
    assert!(arrived + 1 >= sent, "{arrived} of {sent}");
}

fn packet(number: u16) -> Vec<u8> {
    let builder = rtp_types::RtpPacketBuilder::<&[u8], &[u8]>::new();
    let builder = builder.ssrc(VIDEO.ssrc).payload_type(96);
    let builder = builder.sequence_number(number).payload(&[0; 100]);
    builder.write_vec().unwrap()
}

/// The same for the numbers of a stream: its sender was started again, or somebody has made up a packet.
#[test]
fn numbers_far_behind_count_from_the_second_in_succession_on() {
    for (made_up, then) in [(None, 10_000), (Some(53_000), 33_000)] {
        let mut receiving = Receiving::new(receiving_config(FeedbackKind::Rfc8888));
        let mut out = Vec::new();
        let first = (30_000..33_000).chain(made_up);
        let second: Vec<u16> = (then..then + 100).collect();
        let mut told = Vec::new();
        for (ms, number) in (0..).zip(first.chain(second.iter().copied())) {
            receiving.handle(at_ms(ms), &packet(number), 0);
            // A report each 50 ms, and one of the rest.
            let later = if number == then + 99 { 100 } else { 0 };
            while receiving.poll_transmit(at_ms(ms + later), &mut out) {
                let Ok(report) = ccfb::Ccfb::parse(&out) else {
                    continue;
                };
                for block in report.blocks() {
                    let metrics = (0..).zip(block.metrics());
                    let came = metrics.filter(|(_, m)| *m != ccfb::Metric::Lost);
                    told.extend(came.map(|(n, _)| block.begin.wrapping_add(n)));
                }
            }
        }
        assert!(told.ends_with(&second[1..]), "{then}: {told:?}");
    }
}

#[test]
fn packets_that_bye_has_overtaken_belong_to_the_call_that_ended() {
    let mut path = Path::new(FeedbackKind::Twcc, DELAY, |_| false);
    let (sent, _) = call(&mut path, 1000);
    let now = at_ms(path.ms);
    let frame = Frame {
        stream: 0,
        deadline: now + Duration::from_millis(100),
        payload: Bytes::from_static(b"the last"),
    };
    path.sending.send(now, &frame).unwrap();
    let mut last = Vec::new();
    path.sending.poll_transmit(now, &mut last).unwrap();
    end(&mut path);
    assert!(path.receiving.handle(at_ms(path.ms), &last, 0).is_some());
    let received = path.receiving.streams().map(|s| s.sequence.received());
    assert_eq!(received.sum::<u64>(), sent + 1);
}

/// BYE of the host that media comes from counts, from any of its ports. Others can know the SSRCs too.
#[test]
fn bye_of_another_host_ends_no_call() {
    let config = ReceiverConfig {
        ssrc: 5,
        cname: "receiver@test".into(),
        rtx: Vec::new(),
        feedback: FeedbackKind::Twcc,
        interval: Duration::from_millis(50),
        seed: 2,
    };
    let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), config, |_, _| {}).unwrap();
    let to = receiver.address();
    let from = ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.2:0"];
    let [media, control, other] = from.map(|from| std::net::UdpSocket::bind(from).unwrap());
    let wait = |what: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !what() {
            assert!(std::time::Instant::now() < end, "it takes too long");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let has = |packets: u64| {
        let streams = receiver.streams();
        streams.iter().map(|s| s.sequence.received()).sum::<u64>() == packets
    };
    let mut bye = vec![0x81, 203, 0, 1];
    bye.extend(VIDEO.ssrc.to_be_bytes());
    media.send_to(&packet(1), to).unwrap();
    wait(&|| has(1));
    other.send_to(&bye, to).unwrap();
    // The second packet is behind it.
    media.send_to(&packet(2), to).unwrap();
    wait(&|| has(2));
    assert!(!receiver.has_ended());
    control.send_to(&bye, to).unwrap();
    wait(&|| receiver.has_ended());
}
