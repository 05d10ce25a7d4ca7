//! The program `makeway`.

#![warn(clippy::print_stdout)] // `text::say!` does not mind a reader that goes away.

mod builtin;
mod commands;
mod text;

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
