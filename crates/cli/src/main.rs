// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `makeway`.

use std::process::ExitCode;

use clap::Parser;
use makeway::Makeway;

fn main() -> ExitCode {
    match makeway::run(Makeway::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("makeway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
