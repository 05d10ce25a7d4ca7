// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are frames of `makeway send --stdin`, as far as they go; what is read is all of them up to an error.

use makeway_transport::framed;

pub fn run(input: &[u8]) {
    let mut rest = input;
    let mut taken = 0;
    while let Ok(Some(frame)) = framed::read(&mut rest) {
        assert!(frame.stream < 2 && (1..=framed::LONGEST as usize).contains(&frame.payload.len()));
        taken += framed::HEADER + frame.payload.len();
        assert_eq!(taken, input.len() - rest.len());
    }
}
