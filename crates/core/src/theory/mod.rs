//! The papers' closed forms, one file a paper, and what they stand on.

pub mod bianchi;
pub mod ncq;
pub mod poisson;
pub mod sqf;
