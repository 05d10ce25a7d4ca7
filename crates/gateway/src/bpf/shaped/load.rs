// SPDX-License-Identifier: MIT OR Apache-2.0
//! Qdiscs that are to be put on devices: loaded and pinned, each with the program that is to be beside it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::bpf::config::Stamps;
use crate::bpf::nat::{self, Nat};
use crate::bpf::record::{self, KIND};
use crate::bpf::{BpfError, Config, Qdisc, is_supported};
use crate::protocol::HostsBy;
use crate::rules::Direction;

/// Loads the qdiscs of one change of an interface.
pub(super) struct Loader<'a> {
    /// Folder of the interface's pins.
    pins: &'a Path,
    /// The next number of a kind to try.
    next: u32,
    /// Programs that know hosts behind address translation, or the reason why there are none; got when first needed.
    nat: Option<Result<Arc<Nat>, String>>,
}

/// A qdisc and the program beside it.
pub(super) struct Loaded {
    pub qdisc: Qdisc,
    pub beside: Beside,
}

/// The program that names hosts behind address translation to a qdisc, where it can be had and a key takes them.
#[derive(Default)]
pub(super) struct Beside {
    program: Option<(Arc<Nat>, Direction)>,
    /// For `DirectionStatus::nat`.
    pub told: Option<HostsBy>,
}

impl<'a> Loader<'a> {
    pub fn new(pins: &'a Path) -> Self {
        Self {
            pins,
            next: record::first_number(),
            nat: None,
        }
    }

    /// Loads the qdisc of a direction under the next kind that is free, and pins it.
    ///
    /// # Errors
    /// If the kernel refuses it; then nothing of it is left. The program beside it can be missing.
    pub fn load(&mut self, config: &Config, direction: Direction) -> Result<Loaded, BpfError> {
        const MOST_TRIES: u32 = 1000;
        if !is_supported() {
            return Err(BpfError::Unsupported);
        }
        let beside = self.beside(config, direction);
        let config = Config {
            stamps: beside.stamps(),
            ..config.clone()
        };
        let mut tries = 0;
        loop {
            let kind = format!("{KIND}{}", self.next);
            self.next += 1;
            tries += 1;
            if fs::exists(self.pins.join(&kind)).unwrap_or(false) {
                continue;
            }
            match Qdisc::load(&kind, &config) {
                Err(error) if error.is_taken() && tries < MOST_TRIES => {}
                Err(error) => return Err(error),
                Ok(mut qdisc) => {
                    qdisc.pin(&self.pins.join(&kind))?;
                    return Ok(Loaded { qdisc, beside });
                }
            }
        }
    }

    fn beside(&mut self, config: &Config, direction: Direction) -> Beside {
        if !nat::names_hosts(config, direction) {
            return Beside::default();
        }
        let got = self.nat.get_or_insert_with(|| {
            let got = Nat::get().map(Arc::new);
            got.map_err(|why| why.to_string())
        });
        match &*got {
            Ok(program) => Beside {
                program: Some((Arc::clone(program), direction)),
                told: Some(HostsBy::Connections),
            },
            Err(why) => Beside {
                program: None,
                told: Some(HostsBy::Packets(why.clone())),
            },
        }
    }
}

impl Beside {
    fn stamps(&self) -> Option<Stamps> {
        let program = self.program.as_ref();
        program.map(|(nat, direction)| nat.stamps(*direction))
    }

    /// Puts the program on a device, pinned in the folder of its qdisc; then, for `DirectionStatus::nat`, whether it is there.
    pub fn attach(&self, index: u32, folder: &Path) -> Option<HostsBy> {
        let attached = match &self.program {
            Some((nat, direction)) => nat.attach(*direction, index, folder),
            None => Ok(()),
        };
        match attached {
            Ok(()) => self.told.clone(),
            Err(why) => Some(HostsBy::Packets(why.to_string())),
        }
    }
}

/// `DirectionStatus::nat` now, where `told` was written down: a process may have been killed before it attached the program.
pub(super) fn told_now(told: Option<HostsBy>, folder: &Path) -> Option<HostsBy> {
    match told {
        Some(HostsBy::Connections) if !nat::is_beside(folder) => {
            Some(HostsBy::Packets("its program is gone".into()))
        }
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_of_as_long_as_its_pin_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let now = |told| told_now(told, folder.path());
        let by_packets = |why: &str| Some(HostsBy::Packets(why.into()));
        let by_connections = Some(HostsBy::Connections);
        let gone = by_packets("its program is gone");
        assert_eq!(now(by_connections.clone()), gone);
        for told in [None, by_packets("nf_conntrack is not loaded")] {
            assert_eq!(now(told.clone()), told);
        }
        fs::write(folder.path().join("nat"), "").unwrap();
        assert_eq!(now(by_connections.clone()), by_connections);
    }
}
