// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users behind a router that masquerades, in namespaces of a guest: Debian's kernels tell the packet queue of connections, which not
//! every kernel does.

use makeway_core::flow::Identity;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::datapath::{Datapath, DatapathConfig};
use makeway_gateway::rules::{Direction, Rules};
use makeway_testing::{CLOCK, skip};

use crate::masqueraded::{Net, RATE, Version, are_equal};

#[test]
fn hosts_behind_a_router_that_masquerades_have_equal_shares_both_ways() {
    let test = "translated::hosts_behind_a_router_that_masquerades_have_equal_shares_both_ways";
    if std::env::var_os(CLOCK).is_none_or(|clock| clock != "counted") {
        if let Err(why) = makeway_vm::again(&format!("--exact {test} --nocapture"), &[]) {
            skip(why);
        }
        return;
    }
    let net = Net::new(&[Version::V4]);
    net.masquerade();
    let limits = Limits {
        packets: 200,
        bytes: Bytes::new(400_000),
        flows: 256,
    };
    let mut running = Vec::new();
    for (direction, users) in [
        (Direction::Egress, Identity::SrcHost),
        (Direction::Ingress, Identity::DstHost),
    ] {
        let rate = Some(Rate::from_bps(RATE));
        let datapath = Datapath::spawn(DatapathConfig {
            any_queue: true,
            users,
            ..DatapathConfig::new(5, Discipline::Makeway.spec(), limits, rate)
        })
        .unwrap();
        let rules = Rules::install("near", direction, datapath.queue_num()).unwrap();
        running.push((rules, datapath));
    }
    are_equal(&net.transfers(Version::V4).shares());
    drop(running);
}
