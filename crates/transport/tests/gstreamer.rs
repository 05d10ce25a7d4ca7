// SPDX-License-Identifier: MIT OR Apache-2.0
//! A receiver that is not ours: GStreamer's rtpbin takes our streams, and its feedback drives our rate.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant};

use common::{AUDIO, Relay, VIDEO, config, config_with_rtx, tfrc};
use makeway_core::measure::Moments;
use makeway_core::units::Duration;
use makeway_testing::{in_real_time, skip};
use makeway_transport::rtp::{Call, CallStats};

/// A process that is ended with the test.
struct Gstreamer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Gstreamer {
    /// `None`, with a sentence, where it is not installed.
    fn start(arguments: &[&str]) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gstreamer.py");
        // Debian's own Python, not another in the path: python3-gst-1.0 belongs to it.
        let child = Command::new("/usr/bin/python3")
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            skip("/usr/bin/python3 does not start: install the package python3");
            return None;
        };
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let Ok(port) = line.trim().parse() else {
            let _ = child.wait();
            skip(
                "GStreamer's rtpbin or its Python is missing: install the packages gstreamer1.0-tools \
                 gstreamer1.0-plugins-good python3-gst-1.0",
            );
            return None;
        };
        Some(Self {
            input: child.stdin.take(),
            child,
            output,
            port,
        })
    }

    fn answer_to(&mut self, port: u16) {
        writeln!(self.input.as_ref().unwrap(), "127.0.0.1:{port}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn finish(mut self) -> serde_json::Value {
        drop(self.input.take());
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Gstreamer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Audio each 20 ms, and video frames of 4 packets as fast as they leave, for this number of ms: how the call stands then, and its
/// mean rate in the second half.
fn talk(call: &Call, ms: u64) -> (CallStats, f64) {
    let until = Instant::now() + StdDuration::from_millis(ms);
    let mut rates = Moments::new();
    while Instant::now() < until {
        let _ = call.send(0, Duration::from_millis(150), vec![1; 160]);
        for _ in 0..6 {
            let _ = call.send(1, Duration::from_secs(1), vec![2; 4800]);
        }
        sleep(StdDuration::from_millis(20));
        let stats = call.stats();
        if until - Instant::now() < StdDuration::from_millis(ms / 2) {
            rates.record(stats.rate.bps() as f64);
        }
    }
    (call.stats(), rates.mean())
}

#[test]
fn its_rtpbin_receives_our_streams_and_its_feedback_drives_our_rate() {
    in_real_time(it_receives_and_drives);
}

fn it_receives_and_drives() {
    let Some(mut gstreamer) = Gstreamer::start(&[]) else {
        return;
    };
    let there = ([127, 0, 0, 1], gstreamer.port).into();
    let relay = Relay::start(there, StdDuration::from_millis(20));
    gstreamer.answer_to(relay.back);
    let call = Call::connect(relay.address, config(tfrc(), "prio")).unwrap();
    let (_, clear) = talk(&call, 2500);
    relay.lose(50);
    let (stats, lossy) = talk(&call, 6000);
    let lost = relay.lost();
    relay.lose(0);
    let (_, again) = talk(&call, 4000);
    // Packets in flight, and the report on them.
    sleep(StdDuration::from_millis(500));
    let last = call.close().unwrap();
    let found = gstreamer.finish();
    let rtt = stats.rtt.unwrap().as_millis_f64();
    eprintln!(
        "{clear:.0} bit/s clear, {lossy:.0} at 5 %, {again:.0} again; RTT {rtt:.1} ms, by RTCP {:?}; {} reports; {found}",
        last.session.rtcp_rtt, last.session.feedback
    );
    assert_eq!(found["errors"], serde_json::json!([]));
    assert_eq!(
        (last.session.rejected, &last.session.last_rejected),
        (0, &None)
    );
    assert!(last.session.feedback > 50);
    // It received what the relay did not lose, and told us so.
    let mut sent = 0;
    for (ssrc, stream) in [AUDIO, VIDEO].iter().zip(&last.session.streams) {
        let received = &found["received"][ssrc.to_string()];
        let packets = received["packets"].as_u64().unwrap();
        sent += stream.outcomes.sent;
        assert!(
            packets > 500 && packets <= stream.outcomes.sent,
            "{packets}"
        );
        // Its feedback leaves with the end of a frame: of what came after the last, it tells nothing.
        let told = stream.arrived;
        assert!(
            told <= packets + 60 && packets <= told + 60,
            "{told} of {packets}"
        );
    }
    let received: u64 = last.session.streams.iter().map(|s| s.arrived).sum();
    assert!(
        sent - received >= lost && sent - received < lost + 100,
        "{sent} {received} {lost}"
    );
    // 40 ms, and what its reports wait.
    assert!((40.0..90.0).contains(&rtt), "{rtt}");
    let by_rtcp = last.session.rtcp_rtt.unwrap().as_millis_f64();
    assert!((39.0..60.0).contains(&by_rtcp), "{by_rtcp}");
    assert!(lossy < clear * 0.8 && again > lossy * 2.0);
}

#[test]
fn its_rtprtxreceive_takes_what_we_send_again() {
    in_real_time(it_takes_what_we_send_again);
}

/// 5 % loss for 6 s, RTT 40 ms: it asks, and gets the packets that it asked for.
fn it_takes_what_we_send_again() {
    let Some(mut gstreamer) = Gstreamer::start(&["rtx"]) else {
        return;
    };
    let there = ([127, 0, 0, 1], gstreamer.port).into();
    let relay = Relay::start(there, StdDuration::from_millis(20));
    gstreamer.answer_to(relay.back);
    let call = Call::connect(relay.address, config_with_rtx()).unwrap();
    for n in 0..400 {
        // The first and the last second are without loss.
        relay.lose(if (50..350).contains(&n) { 50 } else { 0 });
        call.send(0, Duration::from_millis(500), vec![1; 160]);
        call.send(1, Duration::from_millis(500), vec![2; 4800]);
        sleep(StdDuration::from_millis(20));
    }
    sleep(StdDuration::from_millis(500));
    let last = call.close().unwrap();
    let found = gstreamer.finish();
    let (stats, video) = (last.session.rtx, &last.session.streams[1]);
    eprintln!("{stats:?}; {found}");
    assert_eq!(found["errors"], serde_json::json!([]));
    assert_eq!(last.session.last_rejected, None);
    let count = |name: &str| found["rtx"][name].as_u64().unwrap();
    // Each packet that came was one that it had asked for.
    let [came, matched] = ["num-rtx-packets", "num-rtx-assoc-packets"].map(count);
    assert!(stats.requests.sent >= 30, "{stats:?}");
    assert!(came * 10 > stats.requests.sent * 8, "{came}");
    assert!(matched * 10 >= came * 9, "{matched} of {came}");
    // 5 % of the video were lost in three quarters of the time, and less than a third of them for good.
    let received = found["received"][VIDEO.to_string()]["packets"].as_u64();
    let missing = video.outcomes.sent - received.unwrap();
    assert!(missing * 3 < relay.lost(), "{missing} of {}", relay.lost());
}
