// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are a capture, pcap or pcapng, or one line that says why not.

use makeway_core::flow::{FlowKey, Identity};
use makeway_core::units::{Bytes, Duration};
use makeway_scenario::files;

pub fn run(input: &[u8]) {
    match files::capture(input) {
        Ok(packets) => {
            assert_eq!(packets[0].at, Duration::ZERO);
            assert!(packets.is_sorted_by_key(|packet| packet.at));
            assert!(packets.iter().all(|packet| packet.bytes <= Bytes::new(1_000_000)));
        }
        Err(error) => assert!(!error.contains('\n'), "{error}"),
    }
    // Packets one by one, as a table has them.
    let mut packets = 0;
    let records = files::records(input, |record| {
        packets += 1;
        assert!(record.length <= 1_000_000 && !record.ip.is_empty());
        FlowKey::from_ip(Identity::FiveTuple, record.ip);
        Ok(())
    });
    assert!(records.is_err() || records >= Ok(packets));
}
