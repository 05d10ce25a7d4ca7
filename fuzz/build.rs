// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the dissector of `bpf/` for this machine's processor, instrumented where libFuzzer will ask for coverage.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=../bpf");
    let mut native = cc::Build::new();
    native.std("gnu11").warnings_into_errors(true);
    for flag in [
        "-Wno-unknown-pragmas",
        "-Wno-unused-function",
        "-Wno-unused-parameter",
    ] {
        native.flag(flag);
    }
    // A fault of the kinds that C leaves undefined ends the program.
    native.flags(["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]);
    if env::var_os("CARGO_FEATURE_LIBFUZZER").is_some() {
        native.flag_if_supported("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    native.include("../bpf/native").file("native/dissect.c");
    println!("cargo:rerun-if-changed=native/dissect.c");
    native.compile("dissect");
}
