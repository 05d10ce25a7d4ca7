//! The papers' closed forms, one file a paper.

pub mod ncq;
pub mod poisson;
pub mod sqf;
