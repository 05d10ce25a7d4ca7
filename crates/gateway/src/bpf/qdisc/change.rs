// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of a qdisc while it runs: writes to its maps, from the next packet on.

use bytemuck::bytes_of;
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use makeway_core::units::Rate;

use super::{Config, ONLY, Qdisc, kept};
use crate::bpf::BpfError;
use crate::bpf::layout::{self, Keys, Pool};
use crate::bpf::params::Params;
use crate::bpf::weights::user_hash;

impl Qdisc {
    /// Changes the rate.
    ///
    /// # Errors
    /// If the kernel refuses; then nothing has changed.
    pub fn set_rate(&self, rate: Option<Rate>) -> Result<(), BpfError> {
        let mut config: layout::Config = self.read("config")?;
        config.rate = rate.map_or(0, Rate::bps);
        self.store("config", &ONLY, bytes_of(&config))
    }

    /// Packets that it holds.
    pub(in crate::bpf) fn held(&self) -> Result<u32, BpfError> {
        let pool: Pool = self.read("pool")?;
        Ok(pool.packets)
    }

    /// Whether [`Qdisc::set`] can change its settings `from` those that it has; if not, they take another qdisc.
    ///
    /// # Errors
    /// If no qdisc has the new ones.
    pub fn takes(&self, from: &Config, to: &Config) -> Result<bool, BpfError> {
        // Beside index 0, and a packet that is there before another goes for it.
        let room = |name: &str, beside| {
            let entries = self.map(name).map_or(0, |map| map.max_entries());
            entries.saturating_sub(beside)
        };
        let can = from.takes(to, room("slots", 2), room("flows", 1))?;
        let params = Params::of(&to.spec, &to.env())?;
        // An older version kept fewer of them.
        let sections = params.sections().map(|(section, _)| section);
        let weighs = (from.weights != to.weights).then_some(["weights", ".rodata.keys"]);
        let mut needed = sections.chain(weighs.into_iter().flatten());
        let is_there = |name: &str| kept(name).is_none_or(|name| self.map(name).is_ok());
        Ok(can && needed.all(is_there))
    }

    /// Changes everything in which `to` differs from its settings now, `from`, if it [takes](Qdisc::takes) that: limits, framing, quantum, the end
    /// from which a full buffer drops, parameters, weights, rate.
    ///
    /// # Errors
    /// If the kernel refuses; then nothing has changed.
    pub fn set(&self, from: &Config, to: &Config) -> Result<(), BpfError> {
        self.write(from, to).inspect_err(|_| {
            // The first error is the one to tell.
            let _ = self.write(to, from);
        })
    }

    fn write(&self, from: &Config, to: &Config) -> Result<(), BpfError> {
        let now: layout::Config = self.read("config")?;
        let params = Params::of(&to.spec, &to.env())?;
        for (section, bytes) in params.sections() {
            // The state of the generator of chances is not one of them.
            if let Some(name) = kept(section) {
                self.store(name, &ONLY, bytes)?;
            }
        }
        // The programs look weights up again when the number is another one.
        let weights = match from.weights == to.weights {
            true => now.weights,
            false => {
                self.write_weights(from, to)?;
                now.weights.wrapping_add(1).max(1)
            }
        };
        let config = layout::Config {
            weights,
            ..to.layout()?
        };
        self.store("config", &ONLY, bytes_of(&config))
    }

    fn write_weights(&self, from: &Config, to: &Config) -> Result<(), BpfError> {
        let keys: Keys = self.read("keys")?;
        let hash = |address| user_hash(keys.seed, to.users, address).to_ne_bytes();
        let map = self.map("weights")?;
        // First those that are gone: the map has room for as many as there may be.
        for &(address, _) in &from.weights {
            if to.weights.iter().any(|(other, _)| *other == address) {
                continue;
            }
            match map.delete(&hash(address)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(self.refused("weights", error));
                }
                _ => {}
            }
        }
        for &(address, weight) in &to.weights {
            self.store("weights", &hash(address), &weight.to_ne_bytes())?;
        }
        Ok(())
    }

    fn store(&self, name: &str, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        let stored = self.map(name)?.update(key, value, MapFlags::ANY);
        stored.map_err(|source| self.refused(name, source))
    }
}

#[cfg(test)]
mod tests {
    use makeway_core::sched::{Discipline, Limits};
    use makeway_core::units::Bytes;

    use super::*;
    use crate::bpf::has_program;

    #[test]
    fn every_parameter_has_a_map_to_write_while_it_runs() {
        let limits = Limits {
            packets: 100,
            bytes: Bytes::new(150_000),
            flows: 102,
        };
        let mut seen = 0;
        for discipline in Discipline::ALL.into_iter().filter(|one| has_program(*one)) {
            let config = Config::new(discipline.spec(), limits);
            let params = Params::of(&config.spec, &config.env()).unwrap();
            for (section, _) in params.sections() {
                // Chances are drawn, and not set.
                assert!(
                    kept(section).is_some() || section == ".data.random",
                    "{section}"
                );
                seen += 1;
            }
        }
        assert!(seen > 5, "{seen}");
    }
}
