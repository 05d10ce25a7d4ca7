// SPDX-License-Identifier: MIT OR Apache-2.0
mod settled;

use super::*;

/// A time in a window, in ms after its begin.
fn at(window: u64, ms: u64) -> Instant {
    Instant::from_nanos((window << WINDOW_BITS) + ms * 1_000_000)
}

#[test]
fn a_flow_that_came_to_standing_in_a_crowd_has_a_peak_once_there_is_none() {
    let crowd = Link {
        sent: 600_000,
        standing: 500_000,
        contended: true,
        crowded: true,
        ..Link::default()
    };
    let calm = Link {
        contended: false,
        crowded: false,
        ..crowd
    };
    let mut record = Record::default();
    record.begin(at(0, 0));
    for window in 0..5 {
        assert_eq!(record.judge(at(window, 0), crowd), Class::New);
        record.on_arrival(200);
    }
    // Bulk's queue is empty for a moment.
    assert_eq!(record.judge(at(4, 1), calm), Class::Standing);
    record.on_arrival(200);
    record.judge(at(5, 0), calm);
    assert_eq!(record.usual(), 400);
}
