// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call of two processes, `makeway send` and `makeway recv`: frames leave at once, and the sender stands still once.

use std::io::Write;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use makeway_netns::topology::node_address;
use rustix::process::{Signal, kill_process};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::bottleneck::{self, Bottleneck, CLIENT, Process};

const PORT: u16 = 5004;
/// As the scenario of `makeway demo`.
const VIDEO: &str = include_str!("../../../../scenarios/traces/mpeg2-5m.csv");
const AUDIO: &str = include_str!("../../../../scenarios/traces/audio-64k.csv");
/// Pacing far above the bottleneck: frames as an encoder gives them.
const RATE: &str = "100mbit";

/// A running call.
pub struct Call {
    send: Process,
    recv: Process,
    stalled: JoinHandle<()>,
    _traces: [NamedTempFile; 2],
}

/// Figures of both streams together.
#[derive(Serialize)]
pub struct Figures {
    /// Packets within 150 ms, of those that were made.
    pub on_time: f64,
    /// Packets that were sent and did not arrive, of those that were sent.
    pub lost: f64,
    /// One-way delay of the video.
    pub delay_p50_ms: f64,
    pub delay_p95_ms: f64,
}

#[derive(Deserialize)]
struct Sent {
    streams: Vec<SentStream>,
}

#[derive(Deserialize)]
struct SentStream {
    packets: u64,
    sent: u64,
}

#[derive(Deserialize)]
struct Got {
    streams: Vec<GotStream>,
}

#[derive(Deserialize)]
struct GotStream {
    payload_type: u8,
    packets: u64,
    on_time: Option<f64>,
    delay_p50_ms: f64,
    delay_p95_ms: f64,
}

impl Call {
    /// For `time`; in its middle the sender stands still for `stall`.
    pub fn start(bottleneck: &Bottleneck, time: Duration, stall: Duration) -> anyhow::Result<Self> {
        let traces = [trace(AUDIO)?, trace(VIDEO)?];
        let [audio, video] = [0, 1].map(|n| traces[n].path().display().to_string());
        let to = node_address(CLIENT);
        let seconds = time.as_secs();
        let until = seconds + 3;
        let recv = bottleneck::start(
            bottleneck.client(),
            &format!("recv {to}:{PORT} --once --for {until}s --json"),
        )?;
        // Until it listens.
        thread::sleep(Duration::from_millis(200));
        let send = bottleneck::start(
            bottleneck.server(),
            &format!(
                "send {to}:{PORT} --trace {audio} --trace {video} --rate {RATE} --policy fifo --queue 2000 --deadline 150ms --for {seconds}s --json"
            ),
        )?;
        let id = send.id();
        let stalled = thread::spawn(move || {
            thread::sleep(time / 2);
            if !stall.is_zero() && kill_process(id, Signal::STOP).is_ok() {
                thread::sleep(stall);
                let _ = kill_process(id, Signal::CONT);
            }
        });
        Ok(Self {
            send,
            recv,
            stalled,
            _traces: traces,
        })
    }

    /// Waits for its end.
    pub fn end(self) -> anyhow::Result<Figures> {
        let _ = self.stalled.join();
        let sent: Sent = last(&self.send.output().context("the call's sender")?)?;
        let got: Got = last(&self.recv.output().context("the call's receiver")?)?;
        let of = |of: fn(&SentStream) -> u64| sent.streams.iter().map(of).sum::<u64>();
        let [made, sent] = [of(|one| one.packets), of(|one| one.sent)].map(|n| n.max(1) as f64);
        let on_time = got
            .streams
            .iter()
            .map(|one| one.on_time.unwrap_or(0.0) * one.packets as f64);
        let arrived: u64 = got.streams.iter().map(|one| one.packets).sum();
        let video = got.streams.iter().find(|one| one.payload_type == 96);
        Ok(Figures {
            on_time: on_time.sum::<f64>() / made,
            lost: 1.0 - arrived as f64 / sent,
            delay_p50_ms: video.map_or(0.0, |one| one.delay_p50_ms),
            delay_p95_ms: video.map_or(0.0, |one| one.delay_p95_ms),
        })
    }
}

fn trace(text: &str) -> anyhow::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// The last object is of the whole call.
fn last<'a, T: Deserialize<'a>>(said: &'a str) -> anyhow::Result<T> {
    let line = said.lines().next_back().context("nothing was reported")?;
    Ok(serde_json::from_str(line)?)
}
