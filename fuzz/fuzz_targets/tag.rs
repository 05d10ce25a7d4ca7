//! Any bytes take a tag or stay as they are: `cargo +nightly fuzz run tag`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use makeway_core::flow::{set_tag, tag};
use makeway_core::packet::Tag;

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (new, before) = (Tag(input.0), input.1);
    let mut after = before.clone();
    let has_changed = set_tag(&mut after, new);
    assert_eq!(has_changed, after != before);
    assert_eq!(tag(&after), tag(&before).map(|_| new));
});
