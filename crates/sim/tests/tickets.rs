//! Tickets from end to end: whose they are, who obeys them and who does not (sections 2.7, 2.8, 3.9, 4 of the PPS paper).

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_sim::{Options, run};

const ONE_HOP: &str = include_str!("../../../scenarios/papers/pps/one-hop.toml");
const BOTTLENECKS: &str = include_str!("../../../scenarios/papers/pps/bottlenecks.toml");
const MULTI_HOP: &str = include_str!("../../../scenarios/papers/pps/multi-hop.toml");

/// Mbit/s on the wire of each flow.
fn rates(text: &str, set: &[&str]) -> Vec<f64> {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = makeway_scenario::parse(text, "test.toml", Path::new("."), &set).unwrap();
    let report = run(&scenario, &Options::default(), |_| {}).unwrap();
    let flows = report.flows.iter();
    flows.map(|flow| flow.ip_bps.unwrap() / 1e6).collect()
}

/// The largest relative distance of a rate from its share of all, when shares go with `tickets`.
fn farthest(rates: &[f64], tickets: &[f64]) -> f64 {
    let of_ticket = rates.iter().sum::<f64>() / tickets.iter().sum::<f64>();
    let far = |(rate, tickets): (&f64, &f64)| (rate / (of_ticket * tickets) - 1.0).abs();
    rates.iter().zip(tickets).map(far).fold(0.0, f64::max)
}

const HUNDREDS: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

/// Fig. 3: Fig. 2 the other way round, from S6 to S0, S1 and S2.
const MIRRORED: [&str; 7] = [
    "flow.A.from=s6",
    "flow.A.to=s0",
    "flow.B.from=s6",
    "flow.B.to=s1",
    "flow.C.from=s6",
    "flow.C.to=s2",
    "link.line.queue.at=s6",
];

/// Fig. 9 the other way round.
const MIRRORED_BOTTLENECKS: [&str; 10] = [
    "flow.A.from=s8",
    "flow.A.to=s0",
    "flow.B.from=s7",
    "flow.B.to=s1",
    "flow.C.from=s8",
    "flow.C.to=s2",
    "link.x.queue.at=s5",
    "link.y.queue.at=s5",
    "link.q.queue.at=s7",
    "link.r.queue.at=s8",
];

#[test]
fn receivers_share_as_senders_do() {
    let receiver = rates(ONE_HOP, &["tags.by=receiver"]);
    let far = farthest(&receiver, &HUNDREDS);
    assert!(far < 0.08, "{far}: {receiver:?}");
    let all: f64 = receiver.iter().sum();
    assert!(all > 0.98 * 1.5, "{all}");
}

#[test]
fn currencies_of_receivers_are_traded_on_the_way_back() {
    let own = [MIRRORED.as_slice(), &["tags.by=receiver"]].concat();
    let receiver = rates(MULTI_HOP, &own);
    assert!(farthest(&receiver, &[2.0, 1.0, 1.0]) < 0.08, "{receiver:?}");
    // The same links and tickets, issued to senders, who have no link of their own on this way: 1000 each.
    let sender = rates(MULTI_HOP, &MIRRORED);
    assert!(farthest(&sender, &[1.0, 1.0, 1.0]) < 0.05, "{sender:?}");
}

#[test]
fn data_goes_on_with_what_acknowledgements_brought() {
    // The three scenarios of Fig. 9, and what is due in Mbit/s.
    for (q, r, due) in [
        (1, 10, [4.0 / 3.0, 2.0 / 3.0, 1.0]),
        (10, 1, [2.0 / 3.0, 4.0 / 3.0, 1.0 / 3.0]),
        (1, 1, [2.0 / 3.0, 1.0, 1.0 / 3.0]),
    ] {
        let set = [
            format!("link.q.rate={q}mbit"),
            format!("link.r.rate={r}mbit"),
            "tags.by=receiver".into(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let rates = rates(BOTTLENECKS, &[&MIRRORED_BOTTLENECKS, &set[..]].concat());
        for (rate, due) in rates.iter().zip(due) {
            assert!((rate / due - 1.0).abs() < 0.08, "{q} {r}: {rates:?}");
        }
    }
}
