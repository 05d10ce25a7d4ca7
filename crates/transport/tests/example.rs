// SPDX-License-Identifier: MIT OR Apache-2.0
//! The example of a call, as a program of its own, against our receiver.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::{Path, PathBuf};
use std::process::Command;

use makeway_core::units::Duration;
use makeway_testing::{CLOCK, in_real_time_or};
use makeway_transport::rtp::{FeedbackKind, Receiver, ReceiverConfig};
use makeway_vm::again;

/// The example, built; in a guest it is in the path.
fn built() -> PathBuf {
    if std::env::var_os(CLOCK).is_some_and(|clock| clock == "counted") {
        return "call".into();
    }
    // `scripts/test` has built it with the tests, and holds cargo's lock for its lints.
    if std::env::var_os("MAKEWAY_SKIPS").is_none() {
        // With the workspace's features, as tests are built: nothing is compiled twice.
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--workspace"])
            .args(["--example", "call"])
            // With it, cargo would build `ring` anew, while other programs link it.
            .env_remove("CARGO_MANIFEST_DIR")
            .status();
        assert!(built.unwrap().success());
    }
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(2).unwrap().join("examples/call")
}

#[test]
fn the_example_sends_audio_and_video_and_reads_what_became_of_them() {
    let program = built();
    let test = "--exact the_example_sends_audio_and_video_and_reads_what_became_of_them";
    in_real_time_or(|| it_sends_and_reads(&program), || again(test, &[&program]));
}

fn it_sends_and_reads(program: &Path) {
    let config = ReceiverConfig {
        ssrc: 5,
        cname: "receiver@example".into(),
        rtx: Vec::new(),
        feedback: FeedbackKind::Rfc8888,
        interval: Duration::from_millis(50),
        seed: 1,
    };
    let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), config, |_, _| {}).unwrap();
    let ended = Command::new(program)
        .arg(receiver.address().to_string())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(said.contains("the encoder may make "), "{said}");
    let received = receiver.close().unwrap();
    let summary: Vec<_> = said.lines().filter(|l| l.contains(" arrived")).collect();
    assert_eq!(summary.len(), 2, "{said}");
    for (line, received) in summary.iter().zip(&received) {
        let sent: u64 = line.split(' ').next().unwrap().parse().unwrap();
        assert!(
            sent >= 400 && sent == received.sequence.received(),
            "{line}: {sent}"
        );
    }
}
