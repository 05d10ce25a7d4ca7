// SPDX-License-Identifier: MIT OR Apache-2.0
//! The papers' closed forms, one file a paper, their foundations, and the promises of `makeway`.

pub mod bianchi;
pub mod makeway;
pub mod ncq;
pub mod poisson;
pub mod sqf;
