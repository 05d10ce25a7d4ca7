// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `makeway` as a library: its subcommands, and the runner of scenarios, for `makeway-lab` too.

#![warn(clippy::print_stdout)] // `text::say!` tolerates a closed pipe.

pub mod builtin;
mod commands;
pub mod text;

pub use commands::{Makeway, dccp, parallel, recv, run, send, session, up, vm};
