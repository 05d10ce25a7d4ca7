// SPDX-License-Identifier: MIT OR Apache-2.0
//! Radio channels and sensors.

use super::*;

/// A router, two stations and a server: the example of `[wlan.NAME]` in short.
const RADIO: &str = r#"
duration = "20s"
[node]
ap = {}
phone = {}
laptop = {}
[wlan.home]
stations = ["ap", "phone", "laptop"]
access_point = "ap"
places = [[0, 0], [30, 0], [0, 40.5]]
rate = "5.5mbit"
off = { phone = "10s" }
[flow.call]
kind = "cbr"
from = "phone"
to = "laptop"
rate = "80kbit"
"#;

#[test]
fn a_radio_channel_reads_and_flows_go_over_it() {
    let s = read(RADIO, &[]).unwrap();
    let home = &s.wlans[0];
    assert_eq!(
        (&home.stations[..], home.access_point),
        (&[0, 1, 2][..], Some(0))
    );
    assert_eq!(home.rate, Rate::from_bps(5_500_000));
    assert_eq!(home.places.as_ref().unwrap()[2], [0.0, 40.5]);
    assert_eq!((home.range, home.sense), (250.0, 550.0));
    assert_eq!(home.off, [(1, Duration::from_secs(10))]);
    assert!(!home.measure && s.links.is_empty());
    assert_eq!((home.loss, home.retry_limit), (0.0, 7));
    let words = explain(&s);
    assert!(
        words.contains("through `ap`, 802.11b at 5.5mbit"),
        "{words}"
    );
    let lossy = |loss: &str| {
        read(
            RADIO,
            &[&format!("wlan.home.loss={loss}"), "wlan.home.retry_limit=4"],
        )
    };
    let words = explain(&lossy("0.05").unwrap());
    assert!(
        words.contains("loses 5 % of data frames, each tried 4 times"),
        "{words}"
    );
    let error = lossy("1.5").unwrap_err().to_string();
    assert!(
        error.contains("`wlan.home.loss` is 1.5: write a number from 0 to 1"),
        "{error}"
    );
    // Over the access point; without one, straight on, for AODV to find the way.
    let ways = |s: &Scenario| routes::routes(s)[1][2].map(|hop| (hop.port, hop.to));
    assert_eq!(ways(&s), Some((1, 0)));
    let ad_hoc = read(&RADIO.replace("access_point", "#"), &[]).unwrap();
    assert_eq!(ways(&ad_hoc), Some((1, 2)));
    assert!(explain(&ad_hoc).contains("ad hoc by AODV"));
}

/// The stations of [`RADIO`] as sensors of something that passes the first of them.
fn sensors(change: [&str; 2]) -> Result<Scenario, ScenarioError> {
    let (text, _) = RADIO.split_once("[flow.call]").unwrap();
    let flow = r#"[flow.sensor]
kind = "sensor"
from = ["phone", "laptop"]
to = "ap"
period = "100ms"
phenomenon = { path = [[0, 0], [90, 0]], speed = 10, reach = 20 }
"#;
    assert!(flow.contains(change[0]), "{change:?}");
    read(
        &format!("{text}{}", flow.replacen(change[0], change[1], 1)),
        &[],
    )
}

#[test]
fn a_sensor_sends_while_it_notices() {
    let s = sensors(["", ""]).unwrap();
    let names: Vec<(&str, usize)> = s.flows.iter().map(|f| (f.name.as_str(), f.from)).collect();
    assert_eq!(names, [("sensor-1", 1), ("sensor-2", 2)]);
    // Out and back in 18 s, at 10 m/s: within 20 m of [30, 0] from 1 to 5 s, and from 13 to 17 s.
    let Source::Sensor {
        pulses, payload, ..
    } = &s.flows[0].source
    else {
        panic!("{:?}", s.flows[0].source)
    };
    let ms = |n: usize| pulses[n].as_nanos() / 1_000_000;
    assert_eq!((pulses.len(), payload.get()), (82 + 10, 24));
    assert_eq!(
        [0, 40, 41, 81, 82].map(ms),
        [1000, 5000, 13_000, 17_000, 19_000]
    );
    // Never within 40.5 m of the other.
    assert!(matches!(&s.flows[1].source, Source::Sensor { pulses, .. } if pulses.is_empty()));
    let told = [
        ["\"phone\", \"laptop\"", ""],
        ["path = [[0, 0], [90, 0]]", "path = []"],
        ["reach = 20", "reach = 0"],
        [", reach = 20", ""],
        ["speed = 10", "speed = -1"],
        ["\"100ms\"", "\"0ms\""],
        ["period = \"100ms\"", ""],
    ]
    .map(|change| sensors(change).unwrap_err().to_string());
    insta::assert_snapshot!(told.join("\n"));
    let nowhere = RADIO
        .replace("places", "#")
        .replace("kind = \"cbr\"", "kind = \"sensor\"");
    let nowhere = nowhere.replace(
        "rate = \"80kbit\"",
        "period = \"1s\"\nphenomenon = { path = [[0, 0]], reach = 20 }",
    );
    let error = read(&nowhere, &[]).unwrap_err().to_string();
    assert!(
        error.contains("`phone` has no place: name a station of a [wlan.NAME]"),
        "{error}"
    );
}

#[test]
fn errors_of_a_radio_channel_say_where_what_and_what_would_be_right() {
    let wrong = [
        (
            "stations = [\"ap\", \"phone\", \"laptop\"]",
            "stations = [\"ap\"]",
        ),
        ("\"phone\", \"laptop\"]", "\"phone\", \"phone\"]"),
        ("access_point = \"ap\"", "access_point = \"pa\""),
        (
            "stations = [\"ap\", \"phone\", \"laptop\"]",
            "stations = [\"phone\", \"laptop\"]",
        ),
        ("[[0, 0], [30, 0], [0, 40.5]]", "[[0, 0], [30, 0]]"),
        ("[[0, 0], [30, 0], [0, 40.5]]", "[[0, 0], [30, 0], [0]]"),
        ("5.5mbit", "6mbit"),
        (
            "rate = \"5.5mbit\"",
            "standard = \"802.11a\"\npreamble = \"short\"",
        ),
        ("rate = \"5.5mbit\"", "range = 300\nsense = 200"),
        ("phone = \"10s\"", "phne = \"10s\""),
        ("rate = \"5.5mbit\"", "power = { send = -1 }"),
        (
            "rate = \"5.5mbit\"",
            "queue = { at = \"ap\", discipline = \"fifo\" }",
        ),
    ];
    let told = wrong.map(|(from, to)| {
        assert!(RADIO.contains(from), "{from}");
        let text = RADIO.replacen(from, to, 1);
        read(&text, &[]).unwrap_err().to_string()
    });
    insta::assert_snapshot!(told.join("\n"));
}
