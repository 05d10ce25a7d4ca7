// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces the qdiscs where makeway was built without them: there is never one.

use std::convert::Infallible;

use makeway_core::sched::Discipline;
use makeway_core::units::Rate;

use crate::datapath::DatapathConfig;
use crate::datapath::Traffic;
use crate::interface::Interface;
use crate::place::Place;
use crate::protocol::{Backend, DirectionStatus};
use crate::rules::Direction;

/// Why there is no qdisc.
#[derive(Debug, thiserror::Error)]
#[error("this makeway was built without qdiscs (--no-default-features): use --backend nfqueue")]
pub struct BpfError;

/// Whether a discipline is there as a BPF qdisc: none is.
pub fn has_program(_: Discipline) -> bool {
    false
}

pub(crate) fn try_one(_: Discipline) -> Result<(), BpfError> {
    Err(BpfError)
}

pub(crate) fn root_qdisc(_: u32) -> Option<String> {
    None
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn pin_nat() -> Result<String, BpfError> {
    Err(BpfError)
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn unpin_nat() -> Result<String, BpfError> {
    Err(BpfError)
}

/// Has no value.
#[derive(Debug)]
pub struct Plan(Infallible);

impl Plan {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn of(_: Backend, _: Direction, _: &DatapathConfig) -> Result<Self, BpfError> {
        Err(BpfError)
    }
}

/// Has no value.
#[derive(Debug)]
pub struct Shaped(Infallible);

#[allow(missing_docs)]
impl Shaped {
    pub(crate) fn start(
        _: &Interface,
        _: &Place,
        _: Vec<(Direction, DirectionStatus, Plan)>,
    ) -> Result<Self, BpfError> {
        Err(BpfError)
    }

    pub(crate) fn open(_: &Place) -> Result<Option<Self>, BpfError> {
        Ok(None)
    }

    pub(crate) fn sweep(_: &Place) -> Result<(), BpfError> {
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0 {}
    }

    pub fn directions(&self) -> Result<Vec<DirectionStatus>, BpfError> {
        match self.0 {}
    }

    pub(crate) fn traffic(&self) -> Result<Vec<Traffic>, BpfError> {
        match self.0 {}
    }

    pub fn backend(&self) -> Backend {
        match self.0 {}
    }

    pub fn shapes(&self, _: Direction) -> bool {
        match self.0 {}
    }

    pub fn set_rate(&self, _: Direction, _: Rate) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub(crate) fn configs(&self) -> Result<Vec<(Direction, DatapathConfig)>, BpfError> {
        match self.0 {}
    }

    pub(crate) fn set(
        &mut self,
        _: &[(Direction, DatapathConfig)],
        _: &mut dyn FnMut(),
    ) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn end(self) -> (Vec<DirectionStatus>, Vec<String>) {
        match self.0 {}
    }
}
