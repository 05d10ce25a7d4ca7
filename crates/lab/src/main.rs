// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `makeway-lab`.

use std::process::ExitCode;

use clap::Parser;
use makeway_lab::Lab;

fn main() -> ExitCode {
    match makeway_lab::run(Lab::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("makeway-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
