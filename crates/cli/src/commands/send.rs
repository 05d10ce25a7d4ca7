// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway send`: a call over RTP.

mod plot;
pub mod rtx;
mod source;

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::BufReader;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration as StdDuration;

use anyhow::{Context, bail};
use clap::Args;
use makeway_core::measure::Histogram;
use makeway_core::rate::{Config, ParseConfigError, Start};
use makeway_core::send::{self, AnyPolicy};
use makeway_core::units::{Bytes, Duration};
use makeway_transport::rtp::{
    self, Call, CallConfig, CallStats, Csv, Ecn, FileLog, Record, RtxConfig,
};
use serde::Serialize;

use super::session;
use crate::text;
pub use source::rand_ssrc;
use source::{Next, Source};

const EXAMPLES: &str = "\
Examples:
  makeway recv 0.0.0.0:5004
  makeway send 192.168.1.7:5004
      a call like Ekiga's, at the rate of TFRC, the best packet first
  makeway send 192.168.1.7:5004 --trace audio-64k.csv --trace mpeg2-5m.csv --rate 3mbit --policy fifo
      two traces at a constant rate, in order of arrival
  encoder | makeway send 192.168.1.7:5004 --stdin --deadline 150ms
  makeway recv 0.0.0.0:5004 --rtx
  makeway send 192.168.1.7:5004 --rtx
      lost packets are sent again if they would still be in time
  makeway send 192.168.1.7:5004 --for 30s --log call.csv --plot call.html
      an event log of each packet from its creation to the receiver's report, and of the rate, with its charts as a
      page; columns in docs/rtp.md

Frames of --stdin, one behind the other, numbers in network byte order:
  1 byte   stream: 0 audio, 1 video
  2 bytes  deadline in ms; 0 is that of --deadline
  4 bytes  length, 1 to 4000000
  then the bytes of the frame

Any receiver of RTP that sends feedback by TWCC or RFC 8888 on the same port works: makeway recv, GStreamer's
rtpbin. Payload types are 111 (audio) and 96 (video). See docs/rtp.md.";

/// Sends a call over RTP: packets in the order of a policy, at the rate of a congestion controller.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Send {
    /// Address of the receiver, HOST:PORT.
    to: String,
    /// A trace of frames, CSV as in scenarios/traces, repeated. May be given several times: each is a stream, the first the most
    /// important. [default: a model of Ekiga]
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Frames from standard input, in the form below.
    #[arg(long, conflicts_with = "trace")]
    stdin: bool,
    #[arg(long, default_value = "sbpn2", help = policies())]
    policy: AnyPolicy,
    #[arg(long, default_value = "tfrc", value_parser = rate, help = rates())]
    rate: Config,
    /// Rate and round-trip time that the path is known to have, as of an earlier call: the rate controller begins with them, so that the
    /// first frame leaves in time.
    #[arg(long, value_name = "RATE,RTT", value_parser = start)]
    start: Option<Start>,
    /// Queue limit in packets, 1 to 100000.
    #[arg(long, value_name = "PACKETS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    queue: u32,
    /// Time from a frame's creation to its deadline, 1ms to 40s.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = deadline)]
    deadline: Duration,
    /// Sends lost packets again (RTX, RFC 4588) that the receiver asks for and that would still be in time. The receiver needs it too: makeway
    /// recv --rtx, which takes one such call at a time; at most 8 streams.
    #[arg(long)]
    rtx: bool,
    /// Ends after this time. [default: with Ctrl-C, or the end of standard input]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Duration>,
    /// Writes an event log to this file, CSV: packets created, sent, dropped, acknowledged and lost; rate, target and queue. An existing
    /// file is overwritten.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Writes a page at the end, HTML, from the event log: charts of rate, target, queue, drops by reason and RTT over time.
    #[arg(long, value_name = "FILE", requires = "log")]
    plot: Option<PathBuf>,
    /// Prints JSON, one object a second, the last of them for the whole call.
    #[arg(long)]
    json: bool,
}

/// For `--help`: the policies.
fn policies() -> String {
    let names = AnyPolicy::all().map(|policy| policy.name());
    format!("Order of service: {}", names.join(", "))
}

/// For `--help`: the controllers.
fn rates() -> String {
    format!(
        "Rate: {}, or a constant one like 2mbit. ABRC needs a receiver that reports by TWCC",
        Config::NAMES.join(", ")
    )
}

/// State of a call.
#[derive(Serialize)]
struct Report {
    seconds: f64,
    /// Whether the call is over.
    last: bool,
    /// Allowed rate of payload.
    rate_bps: u64,
    /// Payload rate since the last report, or of the whole call.
    sent_bps: f64,
    rtt_ms: Option<f64>,
    rtcp_rtt_ms: Option<f64>,
    waiting_packets: usize,
    feedback: u64,
    rejected: u64,
    rejected_last: Option<String>,
    pacing_p99_ms: f64,
    streams: Vec<StreamReport>,
    /// With `--rtx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtx: Option<RtxReport>,
}

/// Retransmission: packets that the receiver asked for, sent again, not sent again since they would have been late, and reported as arrived.
#[derive(Serialize)]
struct RtxReport {
    asked: u64,
    sent: u64,
    late: u64,
    arrived: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct StreamReport {
    name: &'static str,
    packets: u64,
    sent: u64,
    late: u64,
    expired: u64,
    evicted: u64,
    arrived: u64,
    bytes: u64,
    waited_p95_ms: f64,
}

/// Sends until it is ended. Exit status 1 if it could not start or go on.
pub fn run(args: &Send) -> anyhow::Result<ExitCode> {
    let to = address(&args.to)?;
    let (mut source, names) = match (args.stdin, &args.trace[..]) {
        (true, _) => Source::input(),
        (_, []) => Source::ekiga(seed()),
        (_, files) => Source::traces(files)?,
    };
    let packets = u64::from(args.queue);
    let mut streams = source::streams(&names);
    let rtx = match args.rtx {
        true => rtx::agree(&mut streams)?,
        false => Vec::new(),
    };
    let config = CallConfig {
        streams,
        queue: send::Config {
            packets: args.queue,
            bytes: Bytes::new(packets * u64::from(send::Config::default().largest)),
            ..send::Config::default()
        },
        policy: args.policy,
        rate: controller(args)?,
        cname: cname(),
        rtx: RtxConfig {
            streams: rtx,
            ..RtxConfig::default()
        },
        seed: seed(),
        ecn: Ecn::default(),
    };
    let stop = session::stop_on_signals()?;
    if args.plot.is_some() && args.plot == args.log {
        bail!("`--log` and `--plot` are the same file: give two, like call.csv and call.html");
    }
    let mut log = args.log.as_deref().map(EventLog::create).transpose()?;
    if let Some(path) = &args.plot {
        File::create(path).with_context(|| unwritable(path))?;
    }
    let mut call = Call::connect(to, config)?;
    if let Some(log) = &log {
        call.log_to(log.file.sink());
    }
    let end = args.length.map_or(u64::MAX, Duration::as_nanos);
    let mut second = 1;
    let mut before = 0;
    let mut next = None;
    let ended_by = loop {
        let now = call.elapsed().as_nanos();
        while call.try_event().is_some() {}
        if stop.load(Ordering::Relaxed) || now >= end || call.has_failed() {
            break Ok(());
        }
        if now >= second * 1_000_000_000 {
            let report = report(
                &call.stats(),
                &names,
                now,
                (second - 1) * 1_000_000_000,
                before,
                false,
                args.rtx,
            );
            before = report.streams.iter().map(|stream| stream.bytes).sum();
            say(&report, args.json);
            if let Some(ended) = log.take_if(|log| log.file.has_failed()) {
                ended.finish();
            }
            second = now / 1_000_000_000 + 1;
        }
        // Short enough for Ctrl-C and for the second.
        let patience = (second * 1_000_000_000)
            .min(end)
            .saturating_sub(now)
            .min(50_000_000);
        if next.is_none() {
            match source.next(StdDuration::from_nanos(patience)) {
                Ok(Next::Unit(unit)) => next = Some(unit),
                Ok(Next::Wait) => continue,
                Ok(Next::End) => {
                    drain(&call, args.deadline);
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        }
        let Some(unit) = next.take() else { continue };
        let now = call.elapsed().as_nanos();
        if unit.at > now {
            std::thread::sleep(StdDuration::from_nanos((unit.at - now).min(patience)));
            next = Some(unit);
            continue;
        }
        let deadline = unit.deadline.unwrap_or(args.deadline);
        call.send(unit.stream, deadline, unit.payload);
    };
    let length = call.elapsed().as_nanos();
    let last = call.close();
    if let Some(log) = log {
        log.finish();
    }
    let last = last.with_context(|| format!("the call to {to} failed"))?;
    ended_by?;
    say(
        &report(&last, &names, length, 0, 0, true, args.rtx),
        args.json,
    );
    if let (Some(log), Some(to)) = (&args.log, &args.plot)
        && let Err(why) = draw(log, to, &args.to)
    {
        eprintln!("makeway: {why:#}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The file of `--log`.
struct EventLog<'a> {
    path: &'a Path,
    file: FileLog<Record>,
}

impl<'a> EventLog<'a> {
    fn create(path: &'a Path) -> anyhow::Result<Self> {
        let file = FileLog::create(path, Csv).with_context(|| {
            let path = path.display();
            format!("{path}: the event log cannot be written; `--log` takes a file, like call.csv")
        })?;
        Ok(Self { path, file })
    }

    /// A log that is not complete is told on standard error, and is no error of the call.
    fn finish(self) {
        let path = self.path.display();
        match self.file.finish() {
            Ok(0) => {}
            Ok(left_out) => eprintln!(
                "makeway: {path}: the event log lacks {left_out} events, which came faster than the disk took them"
            ),
            Err(why) => eprintln!("makeway: {path}: the event log ended early: {why}"),
        }
    }
}

fn unwritable(page: &Path) -> String {
    let page = page.display();
    format!("{page}: the page cannot be written; `--plot` takes a file, like call.html")
}

/// Writes the page of an event log.
fn draw(log: &Path, page: &Path, to: &str) -> anyhow::Result<()> {
    let named = || format!("{}: the event log cannot be read", log.display());
    let rows = BufReader::new(File::open(log).with_context(named)?);
    let drawn = plot::page(&format!("A call to {to}"), rows).with_context(named)?;
    let drawn = drawn.with_context(|| format!("{}: it is no event log", log.display()))?;
    std::fs::write(page, drawn).with_context(|| unwritable(page))
}

/// The backlog may leave, as long as it can be in time.
fn drain(call: &Call, deadline: Duration) {
    let end = call.elapsed() + deadline;
    while call.stats().backlog.packets > 0 && call.elapsed() < end && !call.has_failed() {
        std::thread::sleep(StdDuration::from_millis(5));
    }
}

fn report(
    stats: &CallStats,
    names: &[&'static str],
    now: u64,
    since: u64,
    before: u64,
    last: bool,
    has_rtx: bool,
) -> Report {
    let ms = |time: Option<Duration>| time.map(Duration::as_millis_f64);
    let p = |of: &Histogram, q| of.quantile(q).as_millis_f64();
    let streams: Vec<_> = names
        .iter()
        .zip(&stats.session.streams)
        .map(|(name, stream)| StreamReport {
            name,
            packets: stream.packets,
            sent: stream.outcomes.sent,
            late: stream.outcomes.late,
            expired: stream.outcomes.expired,
            evicted: stream.outcomes.evicted + stream.outcomes.too_large + stream.outcomes.orphaned,
            arrived: stream.arrived,
            bytes: stream.bytes.get(),
            waited_p95_ms: p(&stream.waited, 0.95),
        })
        .collect();
    let bytes: u64 = streams.iter().map(|stream| stream.bytes).sum();
    let span = (now - since) as f64 / 1e9;
    let rtx = stats.session.rtx;
    Report {
        seconds: now as f64 / 1e9,
        last,
        rate_bps: stats.rate.bps(),
        sent_bps: (bytes - before) as f64 * 8.0 / span.max(1e-3),
        rtt_ms: ms(stats.rtt),
        rtcp_rtt_ms: ms(stats.session.rtcp_rtt),
        waiting_packets: stats.backlog.packets as usize,
        feedback: stats.session.feedback,
        rejected: stats.session.rejected,
        rejected_last: stats
            .session
            .last_rejected
            .as_ref()
            .map(ToString::to_string),
        pacing_p99_ms: p(&stats.pacing, 0.99),
        streams,
        rtx: has_rtx.then(|| RtxReport {
            asked: rtx.requests.asked,
            sent: rtx.requests.sent,
            late: rtx.requests.late,
            arrived: rtx.arrived,
            bytes: rtx.bytes.get(),
        }),
    }
}

fn say(report: &Report, json: bool) {
    if json {
        // Numbers and names alone: it can be written.
        text::say!("{}", serde_json::to_string(report).unwrap_or_default());
        return;
    }
    let rtt = report.rtt_ms.map_or("no RTT yet".into(), |ms| {
        format!("RTT {}", text::millis(ms))
    });
    let may = text::rate(report.rate_bps as f64);
    let sent = text::rate(report.sent_bps);
    let streams = report.streams.iter().map(|s| {
        let lost = s.expired + s.evicted;
        format!(
            "{} {} sent, {} dropped",
            s.name,
            text::count(s.sent),
            text::count(lost)
        )
    });
    let streams = streams.collect::<Vec<_>>().join("; ");
    if !report.last {
        text::say!(
            "{:4.0} s  {sent} of {may}, {rtt}; {streams}",
            report.seconds
        );
        return;
    }
    text::say!(
        "\nIn {}, {sent}; at the end {may}, {rtt}.",
        text::span(report.seconds)
    );
    for s in &report.streams {
        text::say!(
            "{}: {} made, {} sent ({}, {} of them late), {} expired, {} evicted; {} reported as arrived; waited {} (p95)",
            s.name,
            text::packets(s.packets),
            text::count(s.sent),
            text::size(s.bytes),
            text::count(s.late),
            text::count(s.expired),
            text::count(s.evicted),
            text::count(s.arrived),
            text::millis(s.waited_p95_ms),
        );
    }
    if let Some(rtx) = &report.rtx {
        text::say!(
            "RTX: {} asked for, {} sent again ({}), {} too late for it; {} reported as arrived",
            text::packets(rtx.asked),
            text::count(rtx.sent),
            text::size(rtx.bytes),
            text::count(rtx.late),
            text::count(rtx.arrived),
        );
    }
    let why = report.rejected_last.as_ref();
    let why = why.map_or(String::new(), |why| format!(" (the last {why})"));
    text::say!(
        "{} reports of the receiver, {} rejected{why}; packets left {} after their time (p99).",
        text::count(report.feedback),
        text::count(report.rejected),
        text::millis(report.pacing_p99_ms),
    );
}

/// `HOST:PORT`.
pub fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let mut found = text
        .to_socket_addrs()
        .with_context(|| format!("`{text}` is not HOST:PORT: write 192.168.1.7:5004"))?;
    match found.next() {
        Some(address) => Ok(address),
        None => bail!("`{text}` resolves to no address: write HOST:PORT, like 192.168.1.7:5004"),
    }
}

/// Random, from the system.
pub fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// RFC 3550 §6.5.1: `user@host`; the user may be left out.
pub fn cname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.unwrap_or_default();
    let mut name = format!("makeway@{}", name.trim());
    name.truncate(255);
    name
}

fn rate(text: &str) -> Result<Config, ParseConfigError> {
    match text {
        "tfrc" => Ok(Config::Tfrc(rtp::tfrc())),
        other => other.parse(),
    }
}

/// Rate controller with what is known of the path.
fn controller(args: &Send) -> anyhow::Result<Config> {
    match (args.rate, args.start) {
        (Config::Fixed(_) | Config::External(_), Some(_)) => {
            bail!("`--start` is of a rate that changes: leave it out, or write `--rate tfrc`")
        }
        (rate, Some(start)) => Ok(rate.with_start(start)),
        (rate, None) => Ok(rate),
    }
}

/// `RATE,RTT`.
fn start(text: &str) -> Result<Start, String> {
    use makeway_core::units::Rate;

    let wrong = || {
        format!("`{text}` is not RATE,RTT of 1kbit to 1000gbit and 100us to 10s: write 2mbit,50ms")
    };
    let (rate, rtt) = text.split_once(',').ok_or_else(wrong)?;
    let rate: Rate = rate.parse().map_err(|_| wrong())?;
    let rtt: Duration = rtt.parse().map_err(|_| wrong())?;
    let rates = Rate::from_bps(1_000)..=Rate::from_bps(1_000_000_000_000);
    let times = Duration::from_micros(100)..=Duration::from_secs(10);
    match rates.contains(&rate) && times.contains(&rtt) {
        true => Ok(Start { rtt, rate }),
        false => Err(wrong()),
    }
}

fn deadline(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if (Duration::from_millis(1)..=Duration::from_secs(40)).contains(&time) => {
            Ok(time)
        }
        _ => Err(format!(
            "`{text}` is not a time from 1ms to 40s: write 200ms"
        )),
    }
}
