// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP under random loss, and its timer.

use anyhow::Context;
use makeway_core::units::{Bytes, Duration, Instant};
use makeway_sim::tcp::{Config, DelayedAck, LimitedTransmit, Receiver, Sender, Variant};

use crate::validate::oracle::{Case, Ours, Question, around};

const LOSSY_LINK: &str = include_str!("../loss.toml");

/// PFTK, RFC 6298.
pub fn cases() -> Vec<Case> {
    let each = DelayedAck::Off;
    let second = DelayedAck::EverySecond(Duration::from_millis(40));
    let rates = [
        (1, each, 0.001, 383.8),
        (1, each, 0.01, 112.3),
        (1, each, 0.05, 36.86),
        (2, second, 0.001, 271.4),
        (2, second, 0.01, 79.43),
        (2, second, 0.05, 26.06),
    ];
    let mut cases: Vec<Case> = rates.map(pftk).into();
    cases.push(rfc_6298());
    cases
}

fn pftk((b, delayed_ack, loss, packets): (u32, DelayedAck, f64, f64)) -> Case {
    let question = Question {
        what: format!("NewReno at {loss} loss, 0.1 s, {b} for an ACK"),
        source: "J. Padhye, V. Firoiu, D. Towsley, J. Kurose 1998, eq. (30), T0 = 0.4 s; to 20 %",
        unit: "packet/s",
        expected: around(packets, 0.2),
        known: None,
    };
    Case::one(question, move |bench| {
        // Assumptions of the formula: the window grows for each acknowledgement, T0 is the round trip of
        // 0.1 s and this margin.
        let tcp = Config {
            delayed_ack,
            growth_limit: 1,
            quick_acks: 0,
            whole_segments: false,
            counts_delivered: false,
            limited_transmit: LimitedTransmit::Off,
            min_rto_margin: Duration::from_millis(300),
            ..Config::linux(Variant::NewReno)
        };
        let set = [format!("link.line.loss=[{loss}, 0.0]")];
        let report = bench.run(&bench.scenario(LOSSY_LINK, &set)?, Some(tcp))?;
        Ok(Ours::Value(report.flows[0].goodput_bps / 8.0 / 1448.0))
    })
}

/// SRTT and RTTVAR after each sample, worked out by hand from (2.2) and (2.3).
const ESTIMATES: [(f64, f64, f64); 3] =
    [(1.0, 1.0, 0.5), (1.2, 1.025, 0.425), (0.9, 1.009_375, 0.35)];

fn rfc_6298() -> Case {
    let mut questions = Vec::new();
    for (sample, srtt, rttvar) in ESTIMATES {
        for (what, value) in [("SRTT", srtt), ("RTTVAR", rttvar)] {
            questions.push(Question {
                what: format!("{what} after a round trip of {sample} s"),
                source: "RFC 6298 section 2, by hand; exactly",
                unit: "s",
                expected: Some([value; 2]),
                known: None,
            });
        }
    }
    Case::of(questions, |_| Ok(estimates()?.map(Ours::Value).into()))
}

/// Round trips as a sender sees them. Its timeout is SRTT + 4 RTTVAR.
fn estimates() -> anyhow::Result<[f64; 6]> {
    let config = Config {
        delayed_ack: DelayedAck::Off,
        min_rto: Duration::ZERO,
        min_rto_margin: Duration::ZERO,
        ..Config::linux(Variant::Sack)
    };
    let (mut sender, mut receiver) = (Sender::new(&config), Receiver::new(&config));
    let mut now = Instant::ZERO;
    let mut seen = [0.0; 6];
    for (n, (sample, ..)) in ESTIMATES.into_iter().enumerate() {
        sender.send(Bytes::new(u64::from(config.mss)));
        let segment = sender.poll_transmit(now).context("nothing to send")?;
        let ack = receiver.on_segment(now, &segment, false);
        now += Duration::from_nanos((sample * 1e9f64).round() as u64);
        sender.on_ack(now, &ack.context("no acknowledgement")?);
        let srtt = sender.srtt().context("no estimate")?;
        let margin = sender.rto().as_nanos() - srtt.as_nanos();
        seen[2 * n] = srtt.as_nanos() as f64 / 1e9;
        seen[2 * n + 1] = (margin / 4) as f64 / 1e9;
    }
    Ok(seen)
}
