//! The papers' closed forms, one file a paper.

pub mod poisson;
pub mod sqf;
