// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzz targets: parsers and protocols that take bytes of strangers, with invariants for any bytes. A failure is a panic.
//!
//! `make fuzz` runs each for some seconds, guided by coverage, from its corpus in `corpus/`; the tests of this crate replay the corpora, and change them at random.
//! A new target is a file in `targets/`, a line below, and a folder of inputs to begin with.

#![allow(clippy::unwrap_used, missing_docs)] // As in tests.

macro_rules! targets {
    ($($name:ident)*) => {
        mod targets {
            $(pub mod $name;)*
        }

        /// Names, and what each does with an input.
        pub const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), targets::$name::run)),*];
    };
}

targets! {
    calls
    capture
    changes
    control
    dccp_connection
    dccp_features
    dccp_options
    dccp_wire
    dissect
    feedback
    flow_key
    nfqueue
    ns2
    operations
    record
    rtp
    scenario
    sender
    stdin_frames
    tag
    trace
}
