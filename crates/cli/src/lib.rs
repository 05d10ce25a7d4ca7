//! The program `makeway` as a library: its subcommands, and what runs scenarios, for `makeway-lab` too.

#![warn(clippy::print_stdout)] // `text::say!` does not mind a reader that goes away.

pub mod builtin;
mod commands;
pub mod text;

pub use commands::{Makeway, dccp, parallel, run, session, vm};
