// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every discipline runs in simulated time, told what it needs: none of them is another one in silence.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_core::sched::Discipline;
use makeway_sim::Options;

/// Three hosts flood a link, one of them with a weight, one with tickets and one with a profile; a call of short packets passes.
const SCENARIO: &str = r#"
duration = "10s"
[node.alice]
[node.bob]
[node.carol]
[node.router]
[node.client]
[link.a]
between = ["alice", "router"]
[link.b]
between = ["bob", "router"]
[link.c]
between = ["carol", "router"]
[link.line]
between = ["router", "client"]
rate = "2mbit"
queue = { at = "router", discipline = "fifo", limit = "40 packets", users = "src-host", weights = { alice = 3 }, csfq = { threshold = "2kB" } }
[flow.a]
kind = "poisson"
from = "alice"
to = "client"
rate = "1.5mbit"
[flow.b]
kind = "poisson"
from = "bob"
to = "client"
rate = "1mbit"
tickets = 300
[flow.c]
kind = "poisson"
from = "carol"
to = "client"
rate = "500kbit"
profile = "300kbit"
[flow.call]
kind = "cbr"
from = "carol"
to = "client"
rate = "64kbit"
payload = "80B"
"#;

#[test]
fn every_discipline_is_itself_in_simulated_time() {
    let run = |discipline: Discipline| {
        let set = [format!("link.line.queue.discipline={discipline}")];
        let scenario =
            makeway_scenario::parse(SCENARIO, "users.toml", Path::new(""), &set).unwrap();
        let report = makeway_sim::run(&scenario, &Options::default(), |_| {}).unwrap();
        assert_eq!(report.queues[0].discipline, discipline.name());
        let flows = report.flows.iter();
        let streams = flows.map(|flow| flow.datagrams.clone().unwrap());
        streams
            .map(|s| (s.received, s.delay_ms.mean))
            .collect::<Vec<_>>()
    };
    let all = Discipline::ALL.map(run);
    for (n, one) in all.iter().enumerate() {
        for (m, other) in all.iter().enumerate().skip(n + 1) {
            let [name, as_name] = [n, m].map(|at| Discipline::ALL[at]);
            assert_ne!(one, other, "{name} does what {as_name} does");
        }
    }
}
