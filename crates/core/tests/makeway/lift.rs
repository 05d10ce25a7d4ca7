// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lift of a bulk flow's target, on a link.

use makeway_core::packet::FlowId;
use makeway_core::sched::Class;

use super::link::*;

/// Its window and a queue of 20 ms do not fill the path after a drop: with that target it has 1.69 Mbit/s.
#[test]
fn a_download_over_a_long_path_keeps_the_link_busy() {
    let mut link = Link::new(200, &[(0, 2_000_000)]);
    // It is bulk before it begins.
    let flood = Source::Stream {
        burst: 10,
        len: LEN,
        period: 20 * MS,
        from: 0,
        to: 400 * MS,
    };
    let flood = link.flow(0, flood);
    let download = Source::Download {
        rtt: 200 * MS,
        from: 2 * SECOND,
        packets: u32::MAX,
    };
    let download = link.flow(0, download);
    link.flows[download].id = link.flows[flood].id;
    link.run(42 * SECOND);
    let standing = link.scheduler.standing(FlowId(link.flows[download].id));
    let standing = standing.unwrap();
    let since = standing.since.as_nanos();
    assert!(
        standing.class == Class::Bulk && since < SECOND,
        "{standing:?}"
    );
    let rate = link.goodput(download, 12 * SECOND, 42 * SECOND) / 1e6;
    assert!(rate > 1.85, "{rate} Mbit/s");
}
