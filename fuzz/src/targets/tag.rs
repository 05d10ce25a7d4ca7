// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes take a tag or stay as they are.

use makeway_core::flow::{set_tag, tag};
use makeway_core::packet::Tag;

pub fn run(input: &[u8]) {
    let Some((new, before)) = input.split_first_chunk::<2>() else {
        return;
    };
    let (new, before) = (Tag(u16::from_be_bytes(*new)), before.to_vec());
    let mut after = before.clone();
    let has_changed = set_tag(&mut after, new);
    assert_eq!(has_changed, after != before);
    assert_eq!(tag(&after), tag(&before).map(|_| new));
}
