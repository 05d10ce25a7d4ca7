// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ends in this process, over loopback.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use makeway_core::send::Outcome;
use makeway_core::send::fifo::Fifo;
use makeway_core::units::Duration;
use serde_json::Value;

use super::log::FileLog;
use super::*;

/// A connection whose queue of datagrams holds `buffer` bytes, and the end that receives them.
async fn connected(buffer: usize) -> (quinn::Endpoint, Connection, Connection) {
    let mut transport = quinn::TransportConfig::default();
    transport.datagram_send_buffer_size(buffer);
    connected_with(transport).await
}

async fn connected_with(
    transport: quinn::TransportConfig,
) -> (quinn::Endpoint, Connection, Connection) {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = made.signing_key.serialize_der();
    let key = quinn::rustls::pki_types::PrivatePkcs8KeyDer::from(key);
    let certificate = made.cert.der().clone();
    let server = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key.into());
    let server = quinn::Endpoint::server(server.unwrap(), (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(transport.into());
    let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = server.local_addr().unwrap();
    let connecting = endpoint.connect_with(client, address, "localhost").unwrap();
    let accepted = async { server.accept().await.unwrap().await.unwrap() };
    let (connection, accepted) = tokio::join!(connecting, accepted);
    (server, connection.unwrap(), accepted)
}

/// The peer takes datagrams, but an end that takes none itself may not send any (quinn).
#[tokio::test]
async fn an_end_without_datagrams_is_refused() {
    let mut transport = quinn::TransportConfig::default();
    transport.datagram_send_buffer_size(AHEAD);
    transport.datagram_receive_buffer_size(None);
    let (_server, connection, _accepted) = connected_with(transport).await;
    let refused = Sender::new(connection, Config::default(), Fifo).err();
    assert_eq!(refused, Some(SetupError::NoDatagrams));
}

/// Sends datagrams of these lengths, one after the other: their outcomes.
async fn outcomes(sender: &Sender<Fifo>, lengths: &[usize]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for length in lengths {
        let deadline = sender.now() + Duration::from_secs(5);
        let id = sender
            .send(0, deadline, None, vec![0; *length].into())
            .unwrap();
        while let Some(event) = sender.event().await {
            if let Event::Outcome(of, _, outcome) = event
                && of == id
            {
                outcomes.push(outcome);
                break;
            }
        }
    }
    outcomes
}

#[tokio::test]
async fn a_datagram_queued_earlier_shrinks_nothing() {
    let (_server, connection, accepted) = connected(AHEAD).await;
    connection.send_datagram(vec![1; 1000].into()).unwrap();
    let sender = Sender::new(connection, Config::default(), Fifo).unwrap();
    let ended = outcomes(&sender, &[1100, 900]).await;
    assert!(
        matches!(ended[..], [Outcome::Sent { .. }, Outcome::Sent { .. }]),
        "{ended:?}"
    );
    for length in [1000, 1100, 900] {
        assert_eq!(accepted.read_datagram().await.unwrap().len(), length);
    }
}

#[tokio::test]
async fn a_queue_of_quinn_that_is_smaller_than_a_packet_bounds_what_is_sent() {
    let (_server, connection, accepted) = connected(600).await;
    let sender = Sender::new(connection, Config::default(), Fifo).unwrap();
    let ended = outcomes(&sender, &[1100, 500, 1000]).await;
    assert!(
        matches!(
            ended[..],
            [Outcome::TooLarge, Outcome::Sent { .. }, Outcome::TooLarge]
        ),
        "{ended:?}"
    );
    assert_eq!(accepted.read_datagram().await.unwrap().len(), 500);
}

/// The second frame has a datagram that no packet carries, and the third depends on it.
#[tokio::test]
async fn frames_are_sent_as_a_whole_or_not_at_all() {
    let (_server, connection, accepted) = connected(AHEAD).await;
    let sender = Sender::new(connection, Config::default(), Fifo).unwrap();
    let deadline = sender.now() + Duration::from_secs(5);
    let mut last = None;
    for lengths in [&[1000, 500][..], &[100, 9000], &[100]] {
        let depends_on: Vec<FrameId> = last.into_iter().collect();
        let frame = Frame {
            class: 0,
            deadline,
            depends_on: &depends_on,
        };
        let datagrams = lengths.iter().map(|length| vec![0; *length].into());
        let datagrams: Vec<Bytes> = datagrams.collect();
        last = Some(sender.send_frame(&frame, &datagrams).unwrap().0);
    }
    let mut ended = [None; 3];
    while ended.contains(&None)
        && let Some(event) = sender.event().await
    {
        if let Event::Frame(id, outcome) = event {
            ended[id.0 as usize] = Some(outcome);
        }
    }
    let sent = |outcome| matches!(outcome, Some(Outcome::Sent { .. }));
    assert!(sent(ended[0]), "{ended:?}");
    assert_eq!(
        ended[1..],
        [Some(Outcome::TooLarge), Some(Outcome::Orphaned)]
    );
    for length in [1000, 500] {
        assert_eq!(accepted.read_datagram().await.unwrap().len(), length);
    }
    let none = FrameId(9);
    let frame = Frame {
        class: 0,
        deadline,
        depends_on: &[none],
    };
    let refused = sender.send_frame(&frame, &[Bytes::from_static(b"x")]);
    assert_eq!(refused, Err(FrameError::Unknown(none).into()));
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records of a log, each of which is JSON between a separator and the end of its line (RFC 7464 §2.2).
fn records(log: &Memory) -> Vec<Value> {
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let mut records = text.split('\x1e');
    assert_eq!(records.next(), Some(""), "a separator in front of each");
    let read = |record: &str| {
        let end = record.find('\n');
        assert_eq!(end, Some(record.len() - 1), "{record}");
        serde_json::from_str(record).unwrap()
    };
    records.map(read).collect()
}

/// A call with each kind of end: its log.
async fn logged() -> Memory {
    let (_server, connection, _accepted) = connected(AHEAD).await;
    let sender = Sender::new(connection, Config::default(), AnyPolicy::default()).unwrap();
    let file = Memory::default();
    let log = FileLog::over(file.clone(), sender.qlog()).unwrap();
    sender.log_to(log.sink());
    let deadline = sender.now() + Duration::from_secs(5);
    let send_frame = |lengths: &[usize], depends_on: &[FrameId]| {
        let frame = Frame {
            class: 1,
            deadline,
            depends_on,
        };
        let datagrams = lengths.iter().map(|length| vec![0; *length].into());
        let datagrams: Vec<Bytes> = datagrams.collect();
        sender.send_frame(&frame, &datagrams).unwrap().0
    };
    send_frame(&[500; 3], &[]);
    let too_large = send_frame(&[100, 9000], &[]);
    send_frame(&[100], &[too_large]);
    for _ in 0..2 {
        let late = Instant::ZERO;
        sender.send(0, late, Some(7), vec![0; 50].into()).unwrap();
    }
    sender.drained().await;
    // The application reads the outcomes as without a log.
    let mut ends = 0;
    while ends < 8
        && let Some(event) = sender.event().await
    {
        ends += u32::from(matches!(event, Event::Outcome(..)));
    }
    assert_eq!(ends, 8);
    sender.send(0, deadline, None, "it waits".into()).unwrap();
    drop(sender);
    assert_eq!(log.finish().unwrap(), 0);
    file
}

#[tokio::test]
async fn each_datagram_of_a_log_is_queued_and_ends_once() {
    let records = records(&logged().await);
    let (header, events) = records.split_first().unwrap();
    assert_eq!(header["qlog_version"], "0.3");
    assert_eq!(header["qlog_format"], "JSON-SEQ");
    let trace = &header["trace"];
    assert_eq!(trace["vantage_point"]["type"], "client");
    assert_eq!(trace["common_fields"]["time_format"], "relative");
    let since_1970 = trace["common_fields"]["reference_time"].as_f64().unwrap();
    assert!(since_1970 > 1.7e12, "{since_1970}");
    assert!(events.is_sorted_by_key(|event| event["time"].as_f64().unwrap()));
    let mut told = vec![Vec::new(); 9];
    for event in events {
        let (name, data) = (event["name"].as_str().unwrap(), &event["data"]);
        if let Some(what) = name.strip_prefix("makeway:datagram_") {
            let id = data["id"].as_u64().unwrap() as usize;
            told[id].push(data["trigger"].as_str().unwrap_or(what));
            assert!(data["deadline"].is_f64() && data["length"].is_u64());
        }
    }
    let ends = [
        "sent",
        "sent",
        "sent",
        "too-large",
        "too-large",
        "orphaned",
        "expired",
        "expired",
        "waiting",
    ];
    assert_eq!(told, ends.map(|end| vec!["queued", end]));
    let of = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
    let metrics = &of("recovery:metrics_updated")["data"];
    for figure in ["smoothed_rtt", "min_rtt", "congestion_window"] {
        assert!(metrics[figure].as_f64().unwrap() > 0.0, "{metrics}");
    }
    let queue = &of("makeway:queue_updated")["data"];
    assert!(queue["target_rate"].as_u64().unwrap() > 0, "{queue}");
}

#[tokio::test]
async fn the_lines_of_the_documentation_have_the_fields_of_a_log() {
    let records = records(&logged().await);
    let keys = |value: &Value| -> BTreeSet<String> {
        let object = value["data"].as_object().unwrap();
        object.keys().cloned().collect()
    };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/quinn.md");
    let page = std::fs::read_to_string(page).unwrap();
    let lines = page.lines().map(str::trim_start);
    let lines: Vec<&str> = lines
        .filter(|line| line.starts_with("{\"time\":"))
        .collect();
    assert_eq!(lines.len(), 5);
    for line in lines {
        let shown: Value = serde_json::from_str(line).unwrap();
        let mut of = records.iter().filter(|r| r["name"] == shown["name"]);
        assert!(of.any(|record| keys(record) == keys(&shown)), "{line}");
    }
}
