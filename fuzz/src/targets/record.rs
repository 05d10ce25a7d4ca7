// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are the record of an interface, or a sentence says why not. One that is believed leads to no folder but those of its
//! interface, and is written and read again as it was.

use std::path::{Component, Path};

use makeway_gateway::bpf::record::Record;

const NAMESPACE: u64 = 4_026_531_840;

pub fn run(input: &[u8]) {
    for interface in ["wan0.7", "..", "a/b"] {
        let Ok(record) = Record::parse(input, interface, NAMESPACE) else {
            continue;
        };
        assert!(!interface.contains('/'));
        let pins = record.pins();
        assert!(pins.parent() == Some(Path::new("/sys/fs/bpf/makeway")), "{pins:?}");
        for folder in record.qdiscs().chain([pins.clone()]) {
            assert!(folder.components().skip(1).all(|part| matches!(part, Component::Normal(_))), "{folder:?}");
            assert!(folder == pins || folder.parent() == Some(&pins), "{folder:?}");
        }
        let bytes = record.to_bytes().unwrap();
        assert_eq!(Record::parse(&bytes, interface, NAMESPACE).as_ref(), Ok(&record));
    }
}
