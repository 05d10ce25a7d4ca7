// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of receivers and queues: online, mergeable, no allocation per sample.
//!
//! - [`Sequence`]: loss by sequence number, through reordering and duplicates;
//! - [`Ipdv`]: delay variation between consecutive packets (RFC 3393);
//! - [`Histogram`]: delays and sojourn times, with a stated relative error;
//! - [`Moments`]: mean, variance, confidence interval;
//! - [`jain`]: Jain's fairness index;
//! - [`asi`]: whether who sends little waits little; [`energy_potential`]: energy that was well spent;
//! - [`r_factor`], [`mos`]: how a call sounds.
//!
//! Values are `f64` here: nothing of this decides about a packet.

mod asi;
mod energy;
mod histogram;
mod ipdv;
mod jain;
mod moments;
mod sequence;
mod voice;

pub use asi::{Service, asi, asi_as_printed};
pub use energy::{EnergyWeights, energy_potential};
pub use histogram::Histogram;
pub use ipdv::Ipdv;
pub use jain::jain;
pub use moments::Moments;
pub use sequence::{Arrival, Sequence, Unwrap};
pub use voice::{mos, r_factor, r_factor_ncq};
