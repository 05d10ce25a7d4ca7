// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call beside downloads over a link of 20 Mbit/s: the 99 % quantile of its one-way delay under two disciplines, for each number of
//! downloads. `cargo run -p makeway-sim --example disciplines`
use std::error::Error;
use std::path::Path;

use makeway_sim::{Options, run};

const CALL: &str = r#"
duration = "20s"
warmup = "4s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "20mbit"
delay = "10ms"
queue = { at = "server", discipline = "fifo", limit = "200 packets" }
[flow.download]
kind = "bulk"
from = "server"
to = "client"
[flow.call]
kind = "cbr"
from = "server"
to = "client"
rate = "64kbit"
payload = "160B"
"#;

/// In ms.
fn delay_p99(discipline: &str, downloads: u32) -> Result<f64, Box<dyn Error>> {
    let set = [
        format!("link.line.queue.discipline={discipline}"),
        format!("flow.download.count={downloads}"),
    ];
    let scenario = makeway_scenario::parse(CALL, "call.toml", Path::new(""), &set)?;
    let report = run(&scenario, &Options::default(), |_| {})?;
    let mut calls = report.flows.iter().filter(|flow| flow.group == "call");
    let call = calls.next().and_then(|flow| flow.datagrams.as_ref());
    Ok(call.ok_or("no call in the report")?.delay_ms.p99)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("downloads   fifo  makeway");
    for downloads in [1, 4, 16] {
        let [fifo, makeway] = ["fifo", "makeway"].map(|name| delay_p99(name, downloads));
        println!("{downloads:9}  {:.1} ms  {:.1} ms", fifo?, makeway?);
    }
    Ok(())
}
