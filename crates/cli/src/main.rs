//! The program `makeway`.

mod builtin;
mod commands;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::run(commands::Makeway::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("makeway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
