// SPDX-License-Identifier: MIT OR Apache-2.0
//! A radio channel that several stations share by the distributed coordination function of IEEE
//! 802.11 (IEEE 802.11-2020 clause 10.3): carrier sense, random backoff, acknowledgements.
//!
//! - [`Config`]: times, rates, limits; [`Reach`]: stations that hear each other;
//! - `station`: the rules that one station follows;
//! - [`Medium`]: frames on the air, and stations that receive them.
//!
//! Sans-IO: the owner asks [`Medium::next`], calls [`Medium::advance`], and takes [`Event`]s.
//!
//! Signals take no time from place to place (1.8 us over 550 m, a tenth of a slot), so stations whose
//! backoff ends in the same nanosecond collide, and all others hear the first. Not modelled:
//! fragments, beacons, association, power saving, choice of rates, the point and hybrid coordination
//! functions, the early end of a reservation that an RTS made and nobody used.

mod config;
mod medium;
mod reach;
mod station;

pub use config::{Config, Phy};
pub use medium::{Event, Medium};
pub use reach::Reach;
pub use station::{Airtime, BROADCAST, Counts, Frame};
