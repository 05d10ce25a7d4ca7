// SPDX-License-Identifier: MIT OR Apache-2.0
//! The papers' closed forms, one file a paper, and their foundations.

pub mod bianchi;
pub mod ncq;
pub mod poisson;
pub mod sqf;
