// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway recv`: receives calls over RTP and prints loss and delay.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use makeway_core::units::Duration;
use makeway_transport::rtp::{FeedbackKind, Received, Receiver, ReceiverConfig};
use serde::Serialize;

use super::{send, session};
use crate::text;

/// Receives calls over RTP: reports to the sender, and prints loss, delay and the share in time.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway recv
  makeway recv 127.0.0.1:5004 --feedback rfc8888 --interval 25ms --once --json
  makeway recv --rtx
      asks makeway send --rtx for lost packets

Delays and lateness are right where both machines' clocks agree, as by NTP.")]
pub struct Recv {
    /// Address to listen at, HOST:PORT.
    #[arg(default_value = "0.0.0.0:5004")]
    at: String,
    /// Format of feedback.
    #[arg(long, value_enum, default_value = "twcc")]
    feedback: Feedback,
    /// The least time between two reports, 1ms to 10s.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = interval)]
    interval: Duration,
    /// Asks for lost packets, and takes those that are sent again (RTX, RFC 4588): from one call of makeway send --rtx at a time.
    #[arg(long)]
    rtx: bool,
    /// Ends at a sender's BYE.
    #[arg(long)]
    once: bool,
    /// Ends after this time. [default: with Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Duration>,
    /// Prints JSON, one object a second, the last of them for all.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Feedback {
    /// Transport-wide, for all streams at once.
    Twcc,
    /// By stream, RFC 8888.
    Rfc8888,
}

#[derive(Serialize)]
struct Report {
    seconds: f64,
    /// Whether it is over.
    last: bool,
    /// Datagrams that were neither RTP nor RTCP.
    refused: u64,
    streams: Vec<StreamReport>,
}

#[derive(Serialize)]
struct StreamReport {
    ssrc: u32,
    payload_type: u8,
    packets: u64,
    bytes: u64,
    /// Since the report before, or in all.
    received_bps: f64,
    lost: u64,
    /// Lost packets that came again by RTX.
    repaired: u64,
    on_time: Option<f64>,
    delay_p50_ms: f64,
    delay_p95_ms: f64,
    ipdv_p95_ms: f64,
}

/// Receives until it is ended. Exit status 1 if it could not start or go on.
pub fn run(args: &Recv) -> anyhow::Result<ExitCode> {
    let at = send::address(&args.at)?;
    let stop = session::stop_on_signals()?;
    let config = ReceiverConfig {
        ssrc: send::rand_ssrc(),
        cname: send::cname(),
        rtx: match args.rtx {
            true => send::rtx::all(),
            false => Vec::new(),
        },
        feedback: match args.feedback {
            Feedback::Twcc => FeedbackKind::Twcc,
            Feedback::Rfc8888 => FeedbackKind::Rfc8888,
        },
        interval: args.interval,
        seed: send::seed(),
    };
    let receiver =
        Receiver::bind(at, config, |_, _| {}).with_context(|| format!("cannot listen at {at}"))?;
    if !args.json {
        text::say!(
            "Listening at {}. Send: makeway send HOST:{}. End: Ctrl-C.",
            receiver.address(),
            receiver.address().port()
        );
    }
    let start = Instant::now();
    let end = args
        .length
        .map(|time| StdDuration::from_nanos(time.as_nanos()));
    let mut second = 1;
    let mut before: Vec<(u32, u64)> = Vec::new();
    while !stop.load(Ordering::Relaxed) && !receiver.has_failed() {
        if args.once && receiver.has_ended() || end.is_some_and(|end| start.elapsed() >= end) {
            break;
        }
        sleep(StdDuration::from_millis(20));
        let seconds = start.elapsed().as_secs_f64();
        if seconds < f64::from(second) {
            continue;
        }
        second += 1;
        let streams = receiver.streams();
        let report = Report {
            seconds,
            last: false,
            refused: receiver.refused(),
            streams: streams.iter().map(|s| stream(s, 1.0, &before)).collect(),
        };
        before = streams.iter().map(|s| (s.ssrc, s.bytes.get())).collect();
        say(&report, args.json);
    }
    let seconds = start.elapsed().as_secs_f64();
    let refused = receiver.refused();
    let streams = receiver.close().context("receiving failed")?;
    let report = Report {
        seconds,
        last: true,
        refused,
        streams: streams.iter().map(|s| stream(s, seconds, &[])).collect(),
    };
    say(&report, args.json);
    Ok(ExitCode::SUCCESS)
}

fn stream(received: &Received, span: f64, before: &[(u32, u64)]) -> StreamReport {
    let before = before.iter().find(|(ssrc, _)| *ssrc == received.ssrc);
    let bytes = received.bytes.get();
    // The counters of a stream begin anew with another call.
    let new = before.and_then(|(_, before)| bytes.checked_sub(*before));
    let new = new.unwrap_or(bytes);
    let share = received.on_time as f64 / received.with_deadline.max(1) as f64;
    StreamReport {
        ssrc: received.ssrc,
        payload_type: received.payload_type,
        packets: received.sequence.received(),
        bytes,
        received_bps: new as f64 * 8.0 / span,
        lost: received.sequence.expected() - received.sequence.received(),
        repaired: received.repaired,
        on_time: (received.with_deadline > 0).then_some(share),
        delay_p50_ms: received.delay.quantile(0.5).as_millis_f64(),
        delay_p95_ms: received.delay.quantile(0.95).as_millis_f64(),
        ipdv_p95_ms: received.ipdv.absolute().quantile(0.95).as_millis_f64(),
    }
}

fn say(report: &Report, json: bool) {
    if json {
        // Numbers alone: it can be written.
        text::say!("{}", serde_json::to_string(report).unwrap_or_default());
        return;
    }
    if report.last {
        let refused = match report.refused {
            0 => String::new(),
            n => format!("; {} datagrams were neither RTP nor RTCP", text::count(n)),
        };
        text::say!("\nIn {}{refused}:", text::span(report.seconds));
    }
    for s in &report.streams {
        let on_time = s.on_time.map_or(String::new(), |share| {
            format!(", {:.1} % on time", share * 100.0)
        });
        let repaired = match s.repaired {
            0 => String::new(),
            n => format!(", {} repaired", text::count(n)),
        };
        let line = format!(
            "{:08x} (type {}): {}, {}, {} lost{repaired}{on_time}, delay {} (p95 {}), IPDV {} (p95)",
            s.ssrc,
            s.payload_type,
            text::packets(s.packets),
            text::rate(s.received_bps),
            text::count(s.lost),
            text::millis(s.delay_p50_ms),
            text::millis(s.delay_p95_ms),
            text::millis(s.ipdv_p95_ms),
        );
        match report.last {
            true => text::say!("{line}"),
            false => text::say!("{:4.0} s  {line}", report.seconds),
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&time) => {
            Ok(time)
        }
        _ => Err(format!(
            "`{text}` is not a time from 1ms to 10s: write 50ms"
        )),
    }
}
