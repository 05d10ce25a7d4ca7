// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! - [`model`]: the report as a value;
//! - [`interval`], [`flow`], [`delivery`]: what every world counts;
//! - [`replications`]: many runs of one scenario; [`estimate`]: a mean with its interval;
//! - [`summary`]: a row per group of flows, and a sentence;
//! - [`table`], [`json`], [`html`], [`csv`], [`flent`]: the forms;
//! - [`chart`]: line charts as inline SVG.

pub mod chart;
pub mod csv;
pub mod delivery;
pub mod estimate;
pub mod flent;
pub mod flow;
pub mod html;
pub mod interval;
pub mod json;
pub mod model;
pub mod replications;
#[cfg(test)]
mod sample;
pub mod summary;
pub mod table;
