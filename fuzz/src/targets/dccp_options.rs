// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are options, and each is written as it was read.

use makeway_transport::dccp::option::{Opt, loss_event_rate, options};

pub fn run(input: &[u8]) {
    let mut written = Vec::new();
    for (_, option) in options(input) {
        match option {
            Opt::LooseMandatory => continue,
            Opt::LossIntervals(intervals) => {
                let p = loss_event_rate(intervals);
                assert!(p.is_none_or(|p| p > 0.0 && p <= 1.0), "{p:?}");
            }
            _ => {}
        }
        written.clear();
        option.write(&mut written);
        assert_eq!(options(&written).collect::<Vec<_>>(), [(false, option)]);
    }
}
