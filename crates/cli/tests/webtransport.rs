// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make webtransport`: a live video to Chromium by WebTransport, beside TCP downloads over a link that loses packets.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod chromium;

use std::fs;

use chromium::{MAKEWAY, checks_its_arguments, example, folder, measured};

#[test]
fn arguments_are_checked_before_anything_starts() {
    let Some(folder) = folder() else { return };
    checks_its_arguments(
        &folder.join("webtransport.js"),
        &[
            (
                &["--loss", "2"],
                "--loss is `2`: a share from 0 to 0.5, for example 0.01",
            ),
            (
                &["--video", "4"],
                "--video is `4`: a rate from 100kbit to 1gbit, for example 4mbit",
            ),
            (
                &["--senders", "makeway,tcp"],
                "--senders is `makeway,tcp`: makeway, quinn or both",
            ),
            (
                &["--makeway", MAKEWAY, "--server", "/nowhere/webtransport"],
                "no program `/nowhere/webtransport`",
            ),
        ],
    );
}

#[test]
fn a_browser_is_shown_a_live_video_in_time_beside_two_downloads() {
    let Some(folder) = folder() else { return };
    let program = folder.join("webtransport.js");
    let server = example("webtransport");
    let line = "--senders makeway --video 400kbit --seconds 4";
    let line: Vec<&str> = line.split(' ').collect();
    let line = [&["--server", server.to_str().unwrap()], &line[..]].concat();
    let out = measured(&program, &line, |told| {
        let [video] = &told.as_array().unwrap()[..] else {
            panic!("{told}")
        };
        let keys = video.as_object().unwrap().keys();
        let mut keys: Vec<&str> = keys.map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            ["age_p95_ms", "freezes", "kbps", "sender", "shown_200ms"]
        );
        assert_eq!(video["sender"], "makeway");
        assert!(video["shown_200ms"].as_f64() >= Some(0.95), "{video}");
        assert!(video["age_p95_ms"].as_f64() < Some(200.0), "{video}");
        assert!(video["kbps"].as_f64() > Some(300.0), "{video}");
        assert_eq!(video["freezes"], 0, "{video}");
    });
    if let Some(out) = out {
        let picture = fs::read(out.path().join("makeway.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000);
    }
}
