// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as qlog 0.3 (draft-ietf-quic-qlog-main-schema), the latest version that qvis opens, in JSON text sequences (RFC 7464): one
//! record a line. Later drafts have other names for the header and for `recovery:metrics_updated`.

use std::io::{self, Write};
use std::time::{self, SystemTime};

use makeway_core::send::Outcome;
use makeway_core::units::{Duration, Instant};
use makeway_log::Format;
use quinn::Side;
use serde::Serialize;

use super::{Logged, Record, State};

/// In front of each record (RFC 7464 §2.2).
const SEPARATOR: u8 = 0x1e;

/// The event log of a sender as qlog: `FileLog::create(path, sender.qlog())` makes the file, whose name should end with `.sqlog`. Its
/// datagrams are events of the namespace `makeway`, beside `recovery:metrics_updated`.
#[derive(Clone, Copy, Debug)]
pub struct Qlog {
    side: Side,
    /// Zero of the sender's time, since 1970.
    reference: time::Duration,
}

impl Qlog {
    /// A log of one end of a connection, whose sender counts from `zero`.
    pub(crate) fn new(side: Side, zero: time::Instant) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let reference = now.unwrap_or_default().saturating_sub(zero.elapsed());
        Self { side, reference }
    }
}

#[derive(Serialize)]
struct Header {
    qlog_version: &'static str,
    qlog_format: &'static str,
    title: &'static str,
    trace: Trace,
}

#[derive(Serialize)]
struct Trace {
    vantage_point: VantagePoint,
    common_fields: CommonFields,
}

#[derive(Serialize)]
struct VantagePoint {
    name: &'static str,
    #[serde(rename = "type")]
    side: &'static str,
}

#[derive(Serialize)]
struct CommonFields {
    protocol_type: [&'static str; 1],
    time_format: &'static str,
    /// ms since 1970.
    reference_time: f64,
}

/// An event; `time` in ms since the reference time.
#[derive(Serialize)]
struct Line<D> {
    time: f64,
    name: &'static str,
    data: D,
}

/// A datagram; times in ms, the deadline since the reference time.
#[derive(Serialize)]
struct DatagramData {
    id: u64,
    class: u8,
    length: u32,
    deadline: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<bool>,
    /// Reason of a drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
}

/// `recovery:metrics_updated`; times in ms, the window in bytes.
#[derive(Serialize)]
struct Metrics {
    smoothed_rtt: f64,
    min_rtt: f64,
    congestion_window: u64,
}

/// Rate in bit/s, delay in ms.
#[derive(Serialize)]
struct QueueData {
    target_rate: u64,
    datagrams: u32,
    bytes: u64,
    one_way_delay: f64,
}

impl Format for Qlog {
    type Record = Record;

    fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        let side = match self.side {
            Side::Client => "client",
            Side::Server => "server",
        };
        line(
            out,
            &Header {
                qlog_version: "0.3",
                qlog_format: "JSON-SEQ",
                title: "makeway-quinn",
                trace: Trace {
                    vantage_point: VantagePoint {
                        name: "makeway-quinn",
                        side,
                    },
                    common_fields: CommonFields {
                        protocol_type: ["QUIC"],
                        time_format: "relative",
                        reference_time: self.reference.as_secs_f64() * 1e3,
                    },
                },
            },
        )
    }

    fn write(&mut self, out: &mut impl Write, record: &Record) -> io::Result<()> {
        match record {
            Record::Queued(logged) => {
                let data = datagram(logged);
                event(out, logged.queued, "makeway:datagram_queued", data)
            }
            Record::Ended(now, logged, outcome) => ended(out, *now, logged, *outcome),
            Record::State(now, state) => states(out, *now, state),
        }
    }
}

fn ended(
    out: &mut impl Write,
    now: Instant,
    logged: &Logged,
    outcome: Option<Outcome>,
) -> io::Result<()> {
    let data = DatagramData {
        waited: Some(now.saturating_since(logged.queued).as_millis_f64()),
        ..datagram(logged)
    };
    if let Some(Outcome::Sent { late, .. }) = outcome {
        let late = Some(late);
        let data = DatagramData { late, ..data };
        return event(out, now, "makeway:datagram_sent", data);
    }
    let trigger = Some(outcome.map_or("waiting", |outcome| outcome.name()));
    let data = DatagramData { trigger, ..data };
    event(out, now, "makeway:datagram_dropped", data)
}

fn states(out: &mut impl Write, now: Instant, state: &State) -> io::Result<()> {
    let metrics = Metrics {
        smoothed_rtt: state.rtt.as_millis_f64(),
        min_rtt: state.min_rtt.as_millis_f64(),
        congestion_window: state.window,
    };
    event(out, now, "recovery:metrics_updated", metrics)?;
    let queue = QueueData {
        target_rate: state.target.bps(),
        datagrams: state.backlog.packets,
        bytes: state.backlog.bytes.get(),
        one_way_delay: state.one_way.as_millis_f64(),
    };
    event(out, now, "makeway:queue_updated", queue)
}

fn datagram(logged: &Logged) -> DatagramData {
    DatagramData {
        id: logged.id.0,
        class: logged.datagram.class,
        length: logged.datagram.len,
        deadline: since_zero(logged.datagram.deadline).as_millis_f64(),
        frame: logged.frame.map(|frame| frame.0),
        group: logged.datagram.frame,
        waited: None,
        late: None,
        trigger: None,
    }
}

fn event(
    out: &mut impl Write,
    now: Instant,
    name: &'static str,
    data: impl Serialize,
) -> io::Result<()> {
    let time = since_zero(now).as_millis_f64();
    line(out, &Line { time, name, data })
}

fn line(out: &mut impl Write, record: &impl Serialize) -> io::Result<()> {
    out.write_all(&[SEPARATOR])?;
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}

fn since_zero(at: Instant) -> Duration {
    at.saturating_since(Instant::ZERO)
}
