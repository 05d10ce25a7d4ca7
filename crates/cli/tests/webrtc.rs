// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make webrtc`: a live video to Chromium by WebRTC, from a sender on str0m, beside TCP downloads over a link that loses packets.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod chromium;

use std::fs;

use chromium::{MAKEWAY, checks_its_arguments, example, folder, measured};

#[test]
fn arguments_are_checked_before_anything_starts() {
    let Some(folder) = folder() else { return };
    checks_its_arguments(
        &folder.join("webrtc.js"),
        &[
            (
                &["--senders", "makeway,quinn"],
                "--senders is `makeway,quinn`: makeway, str0m or both",
            ),
            (
                &["--makeway", MAKEWAY, "--server", "/nowhere/webrtc"],
                "no program `/nowhere/webrtc`",
            ),
        ],
    );
}

/// Bars written before the first run: of 25 frames in a second 22 are decoded, no freeze, and as many frames as by str0m's own queue, less 5 %.
#[test]
fn a_browser_decodes_as_much_from_str0m_with_our_queue_as_with_its_own() {
    let Some(folder) = folder() else { return };
    let server = example("webrtc");
    let line = "--video 400kbit --seconds 6";
    let line: Vec<&str> = line.split(' ').collect();
    let line = [&["--server", server.to_str().unwrap()], &line[..]].concat();
    let out = measured(&folder.join("webrtc.js"), &line, |told| {
        println!("{told:#}");
        let [ours, other] = &told.as_array().unwrap()[..] else {
            panic!("{told}")
        };
        assert_eq!(
            (&ours["sender"], &other["sender"]),
            (&"makeway".into(), &"str0m".into())
        );
        let decoded = |of: &serde_json::Value| of["decoded_fps"].as_f64().unwrap();
        assert!(decoded(ours) >= 22.0, "{told}");
        assert!(decoded(ours) >= 0.95 * decoded(other), "{told}");
        assert_eq!(ours["freezes"], 0, "{told}");
        assert!(ours["kbps"].as_f64() > Some(300.0), "{told}");
    });
    if let Some(out) = out {
        let picture = fs::read(out.path().join("makeway.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000);
    }
}
