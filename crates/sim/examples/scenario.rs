// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a scenario in simulated time and prints its report; settings of the file can be changed:
//! `cargo run -p makeway-sim --example scenario -- scenarios/call-and-downloads.toml link.line.queue.discipline=fq`
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments
        .next()
        .ok_or("usage: scenario FILE [KEY=VALUE ...]")?;
    let settings: Vec<String> = arguments.collect();
    let scenario = makeway_scenario::load(Path::new(&file), &settings)?;
    let report = makeway_sim::run(&scenario, &Default::default(), |_| {})?;
    print!("{}", makeway_report::table::run(&report));
    Ok(())
}
