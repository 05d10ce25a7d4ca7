//! Any bytes take a tag or stay as they are: `cargo +nightly fuzz run tag`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use makeway_core::flow::{set_tag, tag};
use makeway_core::packet::Tag;

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (new, before) = (Tag(input.0), input.1);
    let mut after = before.clone();
    let can = set_tag(&mut after, new);
    assert_eq!(can, tag(&before).is_some());
    assert_eq!(tag(&after), can.then_some(new));
    assert!(can || after == before);
});
