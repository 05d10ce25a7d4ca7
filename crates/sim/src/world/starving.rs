// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule of `makeway` that recognises a starving stream, beside TCP that loses packets on its path: the class of each flow is read at the
//! queue as the run goes on.

use std::path::Path;

use makeway_core::packet::FlowId;
use makeway_core::sched::{Class, Reason, Standing};
use makeway_report::model::Report;

use super::*;
use crate::build::{Options, build};
use crate::port::port_number;
use crate::run::conclude;
use crate::trace::Off;

/// A video that stands, and then four TCP flows that lose packets before they come to the link, and six downloads that do not.
const SCENARIO: &str = r#"
duration = "40s"
warmup = "10s"
[node.web]
[node.far]
[node.media]
[node.router]
[node.client]
[link.web]
between = ["web", "router"]
rate = "100mbit"
delay = "5ms"
[link.far]
between = ["far", "router"]
rate = "100mbit"
delay = "14ms"
loss = [LOSS, 0.0]
[link.media]
between = ["media", "router"]
rate = "100mbit"
delay = "5ms"
[link.bottleneck]
between = ["router", "client"]
rate = "10mbit"
delay = "1ms"
queue = { at = "router", discipline = "makeway", limit = "100 packets" }
[flow.video]
kind = "rtp"
from = "media"
to = "client"
trace = "traces/mpeg2-5m.csv"
pace = "frame"
[flow.lossy]
kind = "bulk"
from = "far"
to = "client"
count = 4
start = "3s"
stagger = "200ms"
[flow.download]
kind = "bulk"
from = "web"
to = "client"
count = 6
start = "3s"
stagger = "500ms"
"#;
/// Between two looks at the queue.
const LOOK: u64 = 50_000_000;

/// Classes of each flow at the queue, look by look; and the report.
fn run(loss: f64, replication: u64) -> (Vec<Vec<Standing>>, Report) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let text = SCENARIO.replace("LOSS", &loss.to_string());
    let scenario = makeway_scenario::parse(&text, "lossy.toml", folder, &[]).unwrap();
    let options = Options {
        replication,
        ..Options::default()
    };
    let interval = Interval::new(scenario.warmup, scenario.duration);
    let mut world = build(&scenario, interval, &options, Off).unwrap();
    let mut links = scenario.links.iter();
    let link = links.position(|link| link.name == "bottleneck").unwrap();
    let port = port_number(link, 0) as usize;
    let mut seen = vec![Vec::new(); scenario.flows.len()];
    for at in (0..=interval.to()).step_by(LOOK as usize) {
        world.run_until(Instant::from_nanos(at), &options.stop);
        for (number, seen) in (0..).zip(&mut seen) {
            // Each flow has two directions, which are flows at a queue.
            seen.extend(world.ports[port].standing(FlowId(2 * number)));
        }
    }
    let outcome = conclude(&scenario, world, interval, &options, interval.to()).unwrap();
    (seen, outcome.report)
}

/// Criterion from docs/disciplines/makeway.md: the rule is for a stream that sends 8 times what TCP would at its loss, or loses 3/4. TCP that
/// passed all the same has grown, and fallen, by the end of its probation, 4 s: it goes first by this rule for no longer, and never stands by
/// it. The video, which was there first, keeps its standing against flows that do not fit beside it, and the bar of 99 % on time.
#[test]
fn tcp_that_loses_packets_on_its_path_is_not_taken_for_a_starving_stream() {
    for loss in [0.1, 0.2, 0.4] {
        for replication in 1..=5 {
            let (seen, report) = run(loss, replication);
            for (flow, looks) in report.flows.iter().zip(&seen) {
                let by_rule = |look: &&Standing| look.reason == Reason::Starved;
                let stood = looks
                    .iter()
                    .filter(by_rule)
                    .filter(|look| look.class == Class::Standing);
                let s = looks.iter().filter(by_rule).count() as f64 * LOOK as f64 / 1e9;
                let run = format!("loss {loss}, replication {replication}: {}", flow.name);
                match flow.group.as_str() {
                    "lossy" => {
                        assert!(!looks.is_empty(), "{run} sent nothing");
                        assert_eq!(stood.count(), 0, "{run}");
                        assert!(s <= 4.0 + LOOK as f64 / 1e9, "{run}: {s} s");
                    }
                    "video" => {
                        let on_time = flow.datagrams.as_ref().unwrap().on_time;
                        assert!(on_time >= 0.99, "{run}: {on_time} on time");
                        let last = looks.last().unwrap();
                        assert_eq!(last.class, Class::Standing, "{run}: {last:?}");
                    }
                    _ => {}
                }
            }
        }
    }
}
