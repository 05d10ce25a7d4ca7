//! The scenario file: nodes, links, disciplines, flows, what to measure.
//!
//! [`model`] is what a file means; a world runs nothing else.

pub mod model;
