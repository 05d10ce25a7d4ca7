// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any datagrams to both sides of a call: none panics. Their effect on the rate is a property test of
//! `crates/transport/src/rtp`.
//!
//! Each datagram has a length byte, one that says to whom and how long after the last, and its bytes.

use bytes::Bytes;
use makeway_core::rate::Config;
use makeway_core::send::fifo::Fifo;
use makeway_core::units::{Duration, Instant};
use makeway_transport::rtp::{
    FeedbackKind, Frame, NtpEpoch, Receiving, ReceivingConfig, Rtx, RtxConfig, Sending, SendingConfig, Stream, tfrc,
};

pub fn run(input: &[u8]) {
    let ntp = NtpEpoch::since_unix(std::time::Duration::ZERO);
    let stream = Stream { ssrc: 1, payload_type: 96, clock_rate: 90_000, class: 0 };
    let rtx = Rtx { ssrc: 3, payload_type: 97, media_ssrc: 1, media_payload_type: 96 };
    let config = SendingConfig {
        streams: vec![stream],
        queue: Default::default(),
        cname: "fuzz@fuzz".into(),
        rtx: RtxConfig { streams: vec![rtx], ..RtxConfig::default() },
        ntp,
        seed: 1,
    };
    let rate = Config::Tfrc(tfrc());
    let mut now = Instant::ZERO;
    let (controller, reporter) = (rate.controller(), rate.reporter());
    let mut sending = Sending::new(config, controller, reporter, Fifo).expect("a good configuration");
    let feedback = if input.len().is_multiple_of(2) { FeedbackKind::Twcc } else { FeedbackKind::Rfc8888 };
    let mut receiving = Receiving::new(ReceivingConfig {
        ssrc: 2,
        cname: "fuzz@fuzz".into(),
        rtx: vec![rtx],
        feedback,
        interval: Duration::from_millis(50),
        ntp,
        seed: 2,
    });
    let (mut rest, mut out) = (input, Vec::new());
    while let [len, how, after @ ..] = rest {
        now += Duration::from_millis(u64::from(how & 63));
        let payload = Bytes::from_static(&[0; 1000]);
        sending.send(now, &Frame { stream: 0, deadline: now + Duration::from_millis(200), payload });
        while sending.poll_transmit(now, &mut out).is_some() {
            receiving.handle(now, &out, 0);
        }
        let (datagram, after) = after.split_at((*len as usize).min(after.len()));
        match how >> 6 {
            0 => sending.handle(now, datagram),
            1 => drop(receiving.handle(now, datagram, 0)),
            // A true report, some bits of which are changed.
            _ => {
                if receiving.poll_transmit(now, &mut out) {
                    for (byte, change) in out.iter_mut().zip(datagram) {
                        *byte ^= change;
                    }
                    sending.handle(now, &out);
                }
            }
        }
        sending.handle_timeout(now);
        rest = after;
    }
}
