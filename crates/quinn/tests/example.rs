// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of docs/quinn.md, between two ends of quinn: over loopback, and over a way that is too narrow for it.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.
#![allow(dead_code)] // The example's `main`.

#[path = "../examples/qlog.rs"]
mod qlog;
#[path = "quic/relay.rs"]
mod relay;

use std::path::Path;
use std::time::Duration;

use makeway_core::send::Stats;
use makeway_core::units::Rate;
use makeway_testing::in_real_time_or;
use makeway_vm::again;
use qlog::deadlines::{AUDIO, Encoder, VIDEO, call, connect, receiver};
use qlog::logged;
use relay::{Way, relay};
use serde_json::Value;

/// Less than a call needs.
const NARROW: Way = Way {
    rate: Some(Rate::from_bps(600_000)),
    queue: 6_000,
    delay: Duration::from_millis(20),
};

/// A call of `length`: its encoder, the outcomes, datagrams received of both classes, and packets lost by the network.
async fn ended(
    length: Duration,
    range: (u64, u64),
    forth: Option<Way>,
) -> (Encoder, Stats, [u64; 2], u64) {
    let (address, certificate, received) = receiver().unwrap();
    let address = forth.map_or(address, |forth| {
        let back = Way {
            rate: None,
            ..forth
        };
        relay(address, forth, back).unwrap()
    });
    let (endpoint, connection) = connect(address, certificate).await.unwrap();
    let mut encoder = Encoder::new(length, range);
    let stats = call(connection.clone(), &mut encoder).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lost = connection.stats().path.lost_packets;
    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    (encoder, stats, received.await.unwrap(), lost)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(test)
}

#[test]
fn the_program_of_the_documentation_is_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/quinn.md")).unwrap();
    let example = std::fs::read_to_string(root.join("examples/deadlines.rs")).unwrap();
    let blocks: Vec<&str> = page
        .split("```rust\n")
        .skip(1)
        .map(|from| from.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(
            example.contains(block),
            "not in examples/deadlines.rs:\n{block}"
        );
        assert!(
            block.lines().count() <= 33,
            "{} lines",
            block.lines().count()
        );
    }
}

/// Its deadlines are 200 ms away.
#[test]
fn where_there_is_room_all_of_it_arrives() {
    let test = "where_there_is_room_all_of_it_arrives";
    in_real_time_or(|| run(with_room()), || again(test, &[]));
}

async fn with_room() {
    let (encoder, stats, received, _) =
        ended(Duration::from_secs(1), (500_000, 500_000), None).await;
    assert_eq!(encoder.keyframes, 1);
    assert_eq!(received[usize::from(AUDIO)], 50);
    // Video of 25 pictures of 2500 B in three datagrams, the first of 7500 B in seven.
    assert_eq!(received[usize::from(VIDEO)], 24 * 3 + 7);
    for class in [AUDIO, VIDEO] {
        assert_eq!(stats.class(class).sent, received[usize::from(class)]);
    }
}

/// 1.3 Mbit/s where 0.6 fit: pictures that would be late are dropped whole, and the encoder hears of it.
#[test]
fn under_overload_what_cannot_arrive_in_time_is_not_sent() {
    let test = "under_overload_what_cannot_arrive_in_time_is_not_sent";
    in_real_time_or(|| run(overload()), || again(test, &[]));
}

async fn overload() {
    let (encoder, stats, received, lost) =
        ended(Duration::from_secs(4), (1_300_000, 1_300_000), Some(NARROW)).await;
    let [audio, video] = [AUDIO, VIDEO].map(|class| stats.class(class));
    eprintln!(
        "{} keyframes; audio {audio:?}; video {video:?}; received {received:?}, {lost} packets lost",
        encoder.keyframes
    );
    // Each datagram has one outcome.
    assert_eq!(audio.sent + audio.expired + audio.evicted, 200, "{audio:?}");
    assert!(video.expired + video.orphaned > video.sent, "{video:?}");
    assert_eq!((video.evicted, video.too_large), (0, 0));
    // Audio goes first; what quinn was given arrives, or the path lost it.
    assert!(audio.sent >= 190, "{audio:?}");
    for (sent, received) in [(audio.sent, received[0]), (video.sent, received[1])] {
        assert!(
            received <= sent && sent - received <= lost * 4,
            "{received} of {sent}, {lost} lost"
        );
    }
    // Each picture that was dropped is followed by a keyframe, so that there is something to see.
    assert!(encoder.keyframes > 10, "{}", encoder.keyframes);
}

/// Over a path that is too narrow, so that some are dropped.
#[test]
fn the_log_has_every_datagram_that_the_figures_count() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("call.sqlog");
    let (stats, left_out) = run(async {
        let (address, certificate, _received) = receiver().unwrap();
        let back = Way {
            rate: None,
            ..NARROW
        };
        let address = relay(address, NARROW, back).unwrap();
        let (_endpoint, connection) = connect(address, certificate).await.unwrap();
        let ended = logged(connection, &file, Duration::from_secs(2));
        ended.await.unwrap()
    });
    assert_eq!(left_out, 0);
    let text = std::fs::read_to_string(&file).unwrap();
    let records = text.split('\x1e').skip(1);
    let records: Vec<Value> = records
        .map(|record| serde_json::from_str(record).unwrap())
        .collect();
    let count = |class: u8, name: &str| {
        let of = records
            .iter()
            .filter(|event| event["data"]["class"] == class);
        of.filter(|event| event["name"] == name).count() as u64
    };
    // Of video 2 s of 25 pictures of 5000 B in five datagrams, the first of 15000 B in 14.
    for (class, all) in [(AUDIO, 100), (VIDEO, 49 * 5 + 14)] {
        let of = stats.class(class);
        let dropped = of.expired + of.evicted + of.too_large + of.orphaned;
        assert_eq!(count(class, "makeway:datagram_queued"), all);
        assert_eq!(count(class, "makeway:datagram_sent"), of.sent);
        assert_eq!(count(class, "makeway:datagram_dropped"), dropped);
        assert_eq!(all, of.sent + dropped);
    }
    assert!(count(VIDEO, "makeway:datagram_dropped") > 0);
    let is_metric = |event: &&Value| event["name"] == "recovery:metrics_updated";
    assert!(records.iter().filter(is_metric).count() >= 2);
}
