// SPDX-License-Identifier: MIT OR Apache-2.0
//! New flows.

use super::MBIT10;
use super::aged::stream;
use super::link::*;

/// A packet of a new flow, which is its only one.
#[test]
fn a_new_flow_does_not_wait_for_ever_for_those_in_standing() {
    let mut link = Link::new(200, &MBIT10);
    // 8 Mbit/s, and then all of the link: two packets or three always wait, and none for long.
    let parts = [
        stream(1, LEN, 1500 * MS / 1000, 0, 5 * SECOND),
        stream(1, LEN, 1200 * MS / 1000, 5 * SECOND, u64::MAX),
        stream(3, LEN, SECOND, 5 * SECOND, 5 * SECOND + 1),
    ];
    let parts = parts.map(|source| link.flow(0, source));
    for part in &parts[1..] {
        link.flows[*part].id = link.flows[parts[0]].id;
    }
    let query = stream(1, 100, SECOND, 8 * SECOND, 8 * SECOND + 1);
    let query = link.flow(1, query);
    link.run(12 * SECOND);
    let wait = link.flows[query].came[0].1;
    assert!(wait.is_some_and(|wait| wait < 300 * MS), "{wait:?}");
}
