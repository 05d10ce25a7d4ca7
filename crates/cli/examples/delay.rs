// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays packets in both directions of an interface, on kernels without netem: `delay INTERFACE MILLISECONDS`. It says `ready`,
//! and ends with its standard input. The browser's call (browser/) runs it in a namespace; the rules stay with the interface.

use std::error::Error;
use std::io::{Read, stdin};

use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Duration};
use makeway_gateway::datapath::{Datapath, DatapathConfig, Impairments};
use makeway_gateway::rules::{Direction, Rules};

/// Nothing is dropped here: the bottleneck is elsewhere.
const LIMITS: Limits = Limits {
    packets: 10_000,
    bytes: Bytes::new(20_000_000),
    flows: 1024,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [interface, delay] = &arguments[..] else {
        return Err("write INTERFACE MILLISECONDS, for example wan0 10".into());
    };
    let delay: f64 = delay.parse()?;
    if !(0.0..=1000.0).contains(&delay) {
        return Err(format!("{delay} ms: a delay is 0 to 1000 ms, for example 10").into());
    }
    let mut running = Vec::new();
    for direction in Direction::BOTH {
        let config = DatapathConfig {
            any_queue: true,
            impairments: Impairments {
                delay: Duration::from_nanos((delay * 1e6) as u64),
                ..Impairments::default()
            },
            ..DatapathConfig::new(0, Discipline::Fifo.spec(), LIMITS, None)
        };
        let datapath = Datapath::spawn(config)?;
        Rules::install(interface, direction, datapath.queue_num())?.forget();
        running.push(datapath);
    }
    println!("ready");
    stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
