// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removal of a running makeway's rates for a while.

use makeway_gateway::control::client::{self, AskError};
use makeway_gateway::control::protocol::{Settings, Status};
use makeway_gateway::rules::Direction;

/// Rate that stands for "no limit", which a shaper cannot express: above any link that needs one.
const OPEN_BPS: u64 = 10_000_000_000;

/// Reason why rates stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum LiftError {
    /// The instance could not be asked, or refuses.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Its controller would set them again.
    #[error(
        "{0} has autorate, which sets the rates itself: measure it as it is, or take autorate out of its part of the file"
    )]
    Autorate(String),
}

/// An interface whose makeway limits no rate until this is dropped.
#[derive(Debug)]
pub struct Lifted {
    interface: String,
    before: Settings,
    open: Settings,
}

/// Rates of the directions that an instance shapes.
pub fn rates(status: &Status) -> Settings {
    let of = |direction| {
        let mut all = status.directions.iter();
        all.find(|one| one.direction == direction)
            .and_then(|one| one.stats.rate_bps)
    };
    Settings {
        rate_bps: of(Direction::Egress),
        down_bps: of(Direction::Ingress),
        ..Settings::default()
    }
}

/// Sets the rates of `before` where those of `ours` still are. A rate that has been set since stays, as by the service after a change of
/// its file.
///
/// # Errors
/// No instance runs there, or it refuses.
pub fn put_back(interface: &str, ours: &Settings, before: &Settings) -> Result<(), AskError> {
    let mut back = before.clone();
    // Without an answer all are tried: a rate of a measurement is not to stay.
    if let Ok(now) = client::status(interface).map(|status| rates(&status)) {
        back.rate_bps = back.rate_bps.filter(|_| now.rate_bps == ours.rate_bps);
        back.down_bps = back.down_bps.filter(|_| now.down_bps == ours.down_bps);
    }
    match back == Settings::default() {
        true => Ok(()),
        false => client::set(interface, back).map(drop),
    }
}

impl Lifted {
    /// Removes the rates of the makeway on `interface`.
    ///
    /// # Errors
    /// No instance runs there; it refuses; it has autorate.
    pub fn new(interface: &str) -> Result<Self, LiftError> {
        let status = client::status(interface)?;
        if status.autorate.is_some() {
            return Err(LiftError::Autorate(interface.into()));
        }
        let before = rates(&status);
        let open = Settings {
            rate_bps: before.rate_bps.map(|_| OPEN_BPS),
            down_bps: before.down_bps.map(|_| OPEN_BPS),
            ..Settings::default()
        };
        // `Lifted` is made first: if the change fails half-way, the rates come back.
        let lifted = Self {
            interface: interface.into(),
            before,
            open: open.clone(),
        };
        client::set(interface, open)?;
        Ok(lifted)
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        // An instance that has ended since has no rates.
        let _ = put_back(&self.interface, &self.open, &self.before);
    }
}
