// SPDX-License-Identifier: MIT OR Apache-2.0
mod asked;
mod settled;

use super::*;

/// A time in a window, in ms after its begin.
fn at(window: u64, ms: u64) -> Instant {
    Instant::from_nanos((window << WINDOW_BITS) + ms * 1_000_000)
}

/// A flow of which the first packet comes at the beginning.
fn known() -> (Record, Past) {
    let (mut record, mut past) = <(Record, Past)>::default();
    record.begin(at(0, 0), &mut past);
    (record, past)
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
    let (mut record, mut past) = known();
    for window in 0..5 {
        assert_eq!(record.judge(at(window, 0), crowd, &mut past), Class::New);
        record.on_arrival(200);
    }
    // Bulk's queue is empty for a moment.
    assert_eq!(record.judge(at(4, 1), calm, &mut past), Class::Standing);
    record.on_arrival(200);
    record.judge(at(5, 0), calm, &mut past);
    assert_eq!(past.usual(), 400);
}

/// The class of a bulk flow after three windows of 100 packets, none of which is lost, and by `grown` of which its queue grows.
fn in_a_deep_buffer(grown: u32) -> Class {
    let link = Link {
        sent: 600_000,
        contended: true,
        ..Link::default()
    };
    let (mut record, mut past) = known();
    record.class = Class::Bulk;
    for window in 0..3 {
        assert_eq!(record.judge(at(window, 0), link, &mut past), Class::Bulk);
        for _ in 0..100 {
            record.on_arrival(1500);
        }
        record.packets += grown;
    }
    record.judge(at(3, 0), link, &mut past)
}

#[test]
fn a_flow_starves_also_if_a_deep_buffer_keeps_what_a_shallow_one_drops() {
    assert_eq!(in_a_deep_buffer(24), Class::Bulk);
    assert_eq!(in_a_deep_buffer(25), Class::Probation);
}

/// The class of a bulk flow after `windows` windows of 40 packets, `lost` of which are lost, and the others wait for `wait` ms.
fn beside_one_download(windows: u64, lost: u32, wait: u64) -> Class {
    let link = Link {
        sent: 100_000,
        contended: true,
        ..Link::default()
    };
    let (mut record, mut past) = known();
    (record.class, record.demerits) = (Class::Bulk, DEMERITS + 1);
    for window in 0..windows {
        assert_eq!(record.judge(at(window, 0), link, &mut past), Class::Bulk);
        for _ in 0..40 {
            record.on_arrival(1250);
        }
        past.on_loss(at(window, 1), lost);
        record.on_departure(at(window, 2), Duration::from_millis(wait), Duration::ZERO);
    }
    record.judge(at(windows, 0), link, &mut past)
}

#[test]
fn a_flow_starves_also_by_a_fifth_that_is_lost_for_eight_windows_if_tcp_would_be_slower() {
    // The first window follows none.
    assert_eq!(beside_one_download(8, 8, 50), Class::Bulk);
    assert_eq!(beside_one_download(9, 8, 50), Class::Probation);
    assert_eq!(beside_one_download(9, 7, 50), Class::Bulk);
    assert_eq!(beside_one_download(9, 8, 0), Class::Bulk);
}
