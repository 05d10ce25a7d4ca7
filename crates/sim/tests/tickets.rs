// SPDX-License-Identifier: MIT OR Apache-2.0
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

/// `flows` downloads with 1 to `flows` times 100 tickets over `hops` links that are each issued as much as all.
fn chain(flows: usize, hops: usize) -> (String, Vec<f64>) {
    let mut text = String::from("title = \"chain\"\nduration = \"600s\"\n[node.n0]\n");
    let all = 50 * flows * (flows + 1);
    for hop in 1..=hops {
        text += &format!(
            "[node.n{hop}]\n[link.l{hop}]\nbetween = [\"n{}\", \"n{hop}\"]\nrate = \"10mbit\"\nframing = \"ip\"\ndelay = \"{}us\"\ntickets = {{ at = \"n{}\", rate = {all} }}\n",
            hop - 1,
            3000 / hops,
            hop - 1
        );
    }
    // A sixth of a megabit for each flow on average.
    text += &format!(
        "[node.sink]\n[link.line]\nbetween = [\"n{hops}\", \"sink\"]\nrate = \"{}bit\"\nframing = \"ip\"\ndelay = \"10ms\"\nqueue = {{ at = \"n{hops}\", discipline = \"tred\", limit = \"100 packets\" }}\n",
        flows * 166_667
    );
    for n in 1..=flows {
        text += &format!(
            "[flow.f{n}]\nkind = \"bulk\"\nfrom = \"n0\"\nto = \"sink\"\ncongestion_control = \"newreno\"\ntcp = {{ preset = \"ns2\", mss = \"960B\" }}\ntickets = {}\n",
            100 * n
        );
    }
    (text, (1..=flows).map(|n| n as f64).collect())
}

/// The mean relative distance of rates from their shares.
fn mean_distance(rates: &[f64], tickets: &[f64]) -> f64 {
    let of_ticket = rates.iter().sum::<f64>() / tickets.iter().sum::<f64>();
    let far = |(rate, tickets): (&f64, &f64)| (rate / (of_ticket * tickets) - 1.0).abs();
    rates.iter().zip(tickets).map(far).sum::<f64>() / rates.len() as f64
}

/// For this number of bits.
fn with_bits(text: &str, due: &[f64], bits: u32, scale: &str) -> f64 {
    let set = [format!("tags.bits={bits}"), format!("tags.scale={scale}")];
    mean_distance(&rates(text, &[&set[0], &set[1]]), due)
}

#[test]
fn more_bits_tell_shares_finer_until_there_are_enough() {
    let (text, due) = chain(9, 1);
    for (scale, few, enough) in [("linear", 4, 8), ("logarithmic", 2, 6)] {
        let [few, some, enough, all] =
            [few, few + 1, enough, 16].map(|bits| with_bits(&text, &due, bits, scale));
        assert!(
            few > 0.1 && some < few && enough < 0.03,
            "{scale}: {few} {some} {enough}"
        );
        assert!((enough - all).abs() < 0.01, "{scale}: {enough} {all}");
    }
    // Where linear codes are still coarse for the poor.
    let [linear, logarithmic] =
        ["linear", "logarithmic"].map(|scale| with_bits(&text, &due, 6, scale));
    assert!(linear > 2.0 * logarithmic, "{linear} {logarithmic}");
}

#[test]
fn bits_that_do_for_one_hop_and_few_flows_do_for_many() {
    for (flows, hops) in [(3, 1), (18, 1), (9, 3), (9, 6)] {
        let (text, due) = chain(flows, hops);
        let far = with_bits(&text, &due, 8, "logarithmic");
        assert!(far < 0.03, "{flows} flows, {hops} hops: {far}");
    }
}

/// Three downloads that are due the same share of 1.2 Mbit/s, each over an access link of its own.
const THREE: &str = r#"
title = "three downloads of 400 tickets/s"
duration = "300s"
warmup = "60s"
[node.a]
[node.b]
[node.c]
[node.router]
[node.sink]
[link.a]
between = ["a", "router"]
rate = "10mbit"
framing = "ip"
delay = "3ms"
tickets = { at = "a", rate = 400 }
[link.b]
between = ["b", "router"]
rate = "10mbit"
framing = "ip"
delay = "3ms"
tickets = { at = "b", rate = 400 }
[link.c]
between = ["c", "router"]
rate = "10mbit"
framing = "ip"
delay = "3ms"
tickets = { at = "c", rate = 400 }
[link.line]
between = ["router", "sink"]
rate = "1.2mbit"
framing = "ip"
delay = "10ms"
queue = { at = "router", discipline = "tred", limit = "100 packets" }
[flow.A]
kind = "bulk"
from = "a"
to = "sink"
congestion_control = "newreno"
tcp = { preset = "ns2", mss = "960B" }
tickets = 400
[flow.B]
kind = "bulk"
from = "b"
to = "sink"
congestion_control = "newreno"
tcp = { preset = "ns2", mss = "960B" }
tickets = 400
[flow.C]
kind = "bulk"
from = "c"
to = "sink"
congestion_control = "newreno"
tcp = { preset = "ns2", mss = "960B" }
tickets = 400
"#;

/// [`THREE`] without the lines that begin with one of `lines`.
fn three_without(lines: &[&str]) -> String {
    let keep = |line: &&str| !lines.iter().any(|begin| line.starts_with(begin));
    let kept: Vec<&str> = THREE.lines().filter(keep).collect();
    kept.join("\n")
}

/// A sends at 5 Mbit/s regardless of loss, with these tickets.
fn flooded(tickets: &str) -> String {
    let download = "kind = \"bulk\"\nfrom = \"a\"\nto = \"sink\"\ncongestion_control = \"newreno\"\ntcp = { preset = \"ns2\", mss = \"960B\" }\ntickets = 400\n";
    assert!(THREE.contains(download));
    let flood =
        "kind = \"cbr\"\nfrom = \"a\"\nto = \"sink\"\nrate = \"5mbit\"\npayload = \"960B\"\n";
    let text = three_without(&["tickets = {"]);
    text.replace(download, &format!("{flood}{tickets}\n"))
}

#[test]
fn who_lies_about_its_tickets_gains_as_many_shares_and_nothing_where_its_link_is_policed() {
    let free = three_without(&["tickets = {"]);
    for (tickets, of_liar) in [(800, 0.6), (4000, 1.0)] {
        let lie = format!("flow.A.tickets={tickets}");
        let rates_free = rates(&free, &[&lie]);
        assert!(
            (rates_free[0] / of_liar - 1.0).abs() < 0.05,
            "{rates_free:?}"
        );
        // Those that are honest share the rest evenly.
        assert!(
            farthest(&rates_free[1..], &[1.0; 2]) < 0.05,
            "{rates_free:?}"
        );
    }
    // Every code the largest: the others are left with 14 kbit/s of 400.
    let most = "flow.A.tickets=1000000";
    let rates_free = rates(&free, &[most]);
    assert!(
        rates_free[0] > 1.1 && rates_free[1] > 0.01,
        "{rates_free:?}"
    );
    // The router trades what comes over a link for what it issued to it.
    let traded = rates(THREE, &["flow.A.tickets=4000"]);
    assert!(farthest(&traded, &[1.0; 3]) < 0.1, "{traded:?}");
    for lie in ["flow.A.tickets=800", "flow.A.tickets=4000", most] {
        let policed = rates(THREE, &[lie, "tags.policing=true"]);
        assert!(farthest(&policed, &[1.0; 3]) < 0.05, "{lie}: {policed:?}");
    }
}

#[test]
fn without_tickets_nothing_is_had_beside_others_and_without_anybodys_it_is_red() {
    let rates_of = rates(&flooded(""), &[]);
    assert!(rates_of[0] < 0.01, "{rates_of:?}");
    assert!(farthest(&rates_of[1..], &[1.0; 2]) < 0.05, "{rates_of:?}");
    let nobodys = three_without(&["tickets ="]);
    let red = rates(&nobodys, &["link.line.queue.discipline=red"]);
    assert_eq!(rates(&nobodys, &[]), red);
}

#[test]
fn who_does_not_slow_down_takes_all_from_tred_and_its_share_from_harvest() {
    // 0.64 tickets on each of 625 packets a second: it is the least, so that it is what is expected, and the average
    // queue goes where all are dropped.
    let flood = flooded("tickets = 400");
    let tred = rates(&flood, &[]);
    assert!(tred[0] > 1.1, "{tred:?}");
    // Tags of less than a ticket, or the flood has one on each packet.
    let set = [
        "link.line.queue.discipline=harvest",
        "tags.scale=linear",
        "tags.bits=16",
    ];
    let harvest = rates(&flood, &set);
    assert!(farthest(&harvest, &[1.0; 3]) < 0.06, "{harvest:?}");
}
