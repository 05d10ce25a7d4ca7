// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any options to both ends' features, between those that they send each other: no panic, bounded answers, values of their ranges.
//!
//! The first byte says what is wanted. Then each step has a byte for what happens, one for a length, and the options.

use makeway_transport::dccp::Seq;
use makeway_transport::dccp::feature::{self, Features, End};
use makeway_transport::dccp::option::options;

/// Confirms, and a Change for each feature at each end.
const MOST_BYTES: usize = 256 + 2 * 46;

pub fn run(input: &[u8]) {
    let Some((&wants, mut rest)) = input.split_first() else {
        return;
    };
    let mut ends = [false, true].map(Features::new);
    for (n, end) in ends.iter_mut().enumerate() {
        let wants = wants >> (4 * n);
        end.want(feature::CCID, End::Local, 2 + u64::from(wants & 1));
        if wants & 2 > 0 {
            end.want(feature::SEND_ACK_VECTOR, End::Remote, 1);
        }
        if wants & 4 > 0 {
            end.want(feature::SEQUENCE_WINDOW, End::Local, 1000);
        }
        if wants & 8 > 0 {
            end.want(feature::CCID, End::Remote, 3);
        }
    }
    let mut seq = 1;
    while let [what, length, after @ ..] = rest {
        let (given, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        seq += 1;
        let to = usize::from(what & 1);
        let mut bytes = Vec::new();
        if what & 2 > 0 {
            bytes.extend(given);
        } else {
            ends[1 - to].write(Seq::new(seq), what & 4 > 0, &mut bytes);
            ends[1 - to].forget_confirms();
        }
        let ack = (what & 8 > 0).then(|| Seq::new(seq).plus(-i64::from(what >> 4)));
        // A reset ends a connection; here it goes on, as before a Reset comes to the other end.
        let _ = ends[to].receive(Seq::new(seq), ack, options(&bytes));
        for end in &mut ends {
            bytes.clear();
            end.clone().write(Seq::new(seq), true, &mut bytes);
            assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len());
            for place in [End::Local, End::Remote] {
                assert!((2..=3).contains(&end.value(feature::CCID, place)));
                assert!((32..1 << 46).contains(&end.value(feature::SEQUENCE_WINDOW, place)));
                assert!(end.value(feature::ACK_RATIO, place) <= 0xffff);
            }
        }
    }
}
