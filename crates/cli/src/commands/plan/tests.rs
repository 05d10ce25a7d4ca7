// SPDX-License-Identifier: MIT OR Apache-2.0
//! The closed forms of the papers, and the words of the answer.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    plan: Plan,
}

fn plan(line: &str) -> Plan {
    try_plan(line).unwrap()
}

fn try_plan(line: &str) -> Result<Plan, clap::Error> {
    CommandLine::try_parse_from(["plan"].into_iter().chain(line.split_whitespace()))
        .map(|line| line.plan)
}

/// The setting of the paper's Fig. 3.
const PAPER: &str = "--rate 10mbit --downloads 20 --video 5mbit";

#[test]
fn the_answer_for_the_papers_link_is_the_papers() {
    let text = plan(PAPER).text().unwrap();
    // Eq. (2) gives 0.03998, the mean time is 245 min, C/(n+1) is 476 kbit/s.
    for said in [
        "is 4 %",
        "for 4.08 h",
        "gets 476 kbit/s",
        "needs 10.5 times",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let own: Vec<_> = text.lines().filter(|l| l.contains("<- yours")).collect();
    assert!(own.len() == 1 && own[0].trim().starts_with("20 "), "{text}");
}

#[test]
fn makeway_promises_a_delay_as_long_as_the_videos_have_room() {
    let value = plan(PAPER).value();
    let makeway = &value["makeway"];
    assert_eq!(makeway["frame_bytes"], 62_500);
    let own = &makeway["own_downloads"];
    // 500 kbit of a frame and 44.608 of bulk, at 120/133 of the link.
    assert_eq!(own["room_bps"], 9_022_556.0);
    let delay = own["delay_s"].as_f64().unwrap();
    assert!((delay - 0.060_361).abs() < 1e-6, "{delay}");
    assert_eq!(own["download_bps"], 250_000.0);
    assert_eq!(makeway["downloads_of_others"]["room_bps"], 6_250_000.0);

    let larger = plan("--rate 10mbit --downloads 5 --video 7mbit");
    let value = larger.value();
    let others = &value["makeway"]["downloads_of_others"];
    assert_eq!(
        (&others["fits"], &others["delay_s"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(others["download_bps"], 1_666_667.0);
    let text = larger.text().unwrap();
    assert!(text.contains("no lasting priority"), "{text}");
}

#[test]
fn a_frame_that_does_not_fit_the_buffer_is_told() {
    let fits = |downloads: u32, frame: &str| {
        let line = format!("{PAPER} --buffer 100 --frame {frame}");
        let line = line.replace("--downloads 20", &format!("--downloads {downloads}"));
        plan(&line)
            .text()
            .unwrap()
            .contains("This holds for frames")
    };
    // 64 queues of 125 000 B / 164, and beside 20 downloads three quarters of the buffer.
    assert!(fits(100, "48500B"));
    assert!(!fits(100, "49kB"));
    assert!(fits(20, "93500B"));
    assert!(!fits(20, "94kB"));
}

#[test]
fn a_frame_that_takes_longer_than_a_queue_may_last_is_told() {
    let long = "--rate 10mbit --downloads 2 --video 5mbit --frame 400kB --buffer 1000";
    let own = &plan(long).value()["makeway"]["own_downloads"];
    assert_eq!(
        (&own["fits"], &own["in_time"]),
        (&json!(true), &json!(false))
    );
    let text = plan(long).text().unwrap();
    assert!(text.contains("longer than 250 ms are dropped"), "{text}");
    assert!(!plan(PAPER).text().unwrap().contains("dropped"));
}

#[test]
fn a_video_of_the_largest_rate_is_just_within_the_risk() {
    let largest = plan(PAPER).answer(20).largest;
    let at = |bps: f64| {
        let video = Rate::from_bps(bps as u64);
        let plan = Plan {
            video,
            ..plan(PAPER)
        };
        plan.answer(20).risk
    };
    assert!(
        at(largest) <= 0.01 && at(largest * 1.001) > 0.01,
        "{largest}"
    );
}

#[test]
fn streams_count_as_one_of_their_sum() {
    let three = plan("--rate 10mbit --downloads 20 --video 2mbit --streams 3").answer(20);
    let one = plan("--rate 10mbit --downloads 20 --video 6mbit").answer(20);
    assert_eq!(three.risk, one.risk);
    assert!((three.largest * 3.0 - one.largest).abs() < 1.0);
    // Under FQ each of the 23 flows has its share.
    assert!((three.fair_share - 10e6 / 23.0).abs() < 1.0);
}

#[test]
fn a_video_under_the_fair_share_needs_no_sqf() {
    let text = plan("--rate 10mbit --downloads 3 --video 2mbit")
        .text()
        .unwrap();
    assert!(text.contains("enough for this video"), "{text}");
}

#[test]
fn the_users_own_number_of_downloads_is_a_row_of_its_own() {
    let rows: Vec<_> = plan("--rate 10mbit --downloads 7 --video 2mbit")
        .answers()
        .iter()
        .map(|a| a.downloads)
        .collect();
    assert_eq!(rows, [1, 2, 5, 7, 10, 20, 50]);
}

#[test]
fn a_video_above_the_link_is_refused_whatever_the_scheduler() {
    for line in [
        "--rate 10mbit --downloads 20 --video 10mbit",
        "--rate 10mbit --downloads 20 --video 4mbit --streams 3",
    ] {
        let error = plan(line).check().unwrap_err().to_string();
        assert!(error.contains("no scheduler can help"), "{error}");
    }
}

#[test]
fn nothing_is_refused_with_what_would_be_right() {
    for (zero, right) in [
        ("--rate 0mbit --downloads 2 --video 1mbit", "10mbit"),
        ("--rate 1mbit --downloads 2 --video 0mbit", "5mbit"),
        (
            "--rate 2mbit --downloads 2 --video 1mbit --packet 0B",
            "1250B",
        ),
        (
            "--rate 2mbit --downloads 2 --video 1mbit --duration 0s",
            "10min",
        ),
    ] {
        let error = plan(zero).check().unwrap_err().to_string();
        assert!(error.contains(right), "{error}");
    }
    for line in [
        "--rate 10 --downloads 2 --video 1mbit",
        "--rate 10mbit --downloads 0 --video 1mbit",
        "--rate 10mbit --downloads 2 --video 1mbit --buffer 0",
        "--rate 10mbit --downloads 2 --video fast",
    ] {
        assert!(try_plan(line).is_err(), "{line}");
    }
}

#[test]
fn json_holds_the_numbers_of_the_text() {
    let value = plan(PAPER).value();
    assert_eq!(value["version"], 1);
    assert_eq!(value["yours"]["fq"]["fair_share_bps"], 476_190.0);
    let risk = value["yours"]["sqf"]["risk"].as_f64().unwrap();
    assert!((risk - 0.03998).abs() < 1e-5, "{risk}");
    assert_eq!(value["table"].as_array().unwrap().len(), 6);
}

#[test]
fn quantities_print_as_people_say_them() {
    assert_eq!(rate(476_190.0), "476 kbit/s");
    assert_eq!(rate(5e6), "5 Mbit/s");
    assert_eq!(rate(999_900.0), "1 Mbit/s");
    assert_eq!(span(14_704.0), "4.08 h");
    assert_eq!(span(f64::INFINITY), "over 1000 years");
    assert_eq!(percent(0.0), "under 0.0001 %");
    assert_eq!(percent(6.2e-5), "0.0062 %");
    assert_eq!(percent(0.453), "45.3 %");
    assert_eq!(percent(1.0), "over 99.9 %");
}
