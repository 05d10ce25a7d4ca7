// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of a discipline beside `struct config`, in separate sections and maps.

use bytemuck::{Pod, Zeroable, bytes_of};
use libbpf_rs::{MapCore, MapFlags, MapMut, OpenMapMut};
use makeway_core::packet::Tag;
use makeway_core::sched::{Env, NcqParams, RedParams, Spec, TredParams};
use makeway_core::ticket::Codec;

use super::BpfError;
use super::qdisc::write;

/// `struct params` of `bpf/ncq.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Ncq {
    pub(super) threshold: u64,
    pub(super) length: u32,
    pub(super) window: u32,
    pub(super) probabilistic: u32,
    pub(super) control: u32,
    pub(super) keep_order: u32,
    pub(super) push_out: u32,
}

impl Ncq {
    /// Parameters of core in the program's units.
    pub fn new(params: &NcqParams, env: &Env) -> Self {
        Self {
            threshold: params.threshold.scaled(),
            // Below 2^25 bytes.
            length: params.length_on_wire(env.framing).get() as u32,
            window: params.window.unwrap_or(0),
            probabilistic: params.probabilistic.into(),
            control: params.control.into(),
            keep_order: params.keep_order.into(),
            push_out: params.push_out.into(),
        }
    }
}

/// `struct red` of `bpf/red.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Red {
    pub(super) weight: u64,
    pub(super) max_p: u64,
    pub(super) packet_time: u64,
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) unit: u32,
    pub(super) by_bytes: u32,
    pub(super) gentle: u32,
    pub(super) wait: u32,
}

impl Red {
    /// Parameters of core in the program's units.
    pub fn new(params: &RedParams, env: &Env) -> Self {
        Self {
            weight: params.weight.scaled(),
            max_p: params.max_p.scaled(),
            packet_time: params
                .packet_time(env.rate)
                .map_or(0, |time| time.as_nanos()),
            min: params.min,
            max: params.max,
            // A packet is below 2^24 bytes.
            unit: params.unit() as u32,
            by_bytes: params.by_bytes.into(),
            gentle: params.gentle.into(),
            wait: params.wait.into(),
        }
    }
}

/// `struct params` of `bpf/tred.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Tred {
    pub(super) interval: u64,
    pub(super) window: u64,
    pub(super) k: u32,
    pub(super) exponent: u32,
}

impl From<&TredParams> for Tred {
    fn from(params: &TredParams) -> Self {
        Self {
            interval: params.interval.as_nanos(),
            window: params.window.as_nanos(),
            k: params.k,
            exponent: params.exponent,
        }
    }
}

/// The parameters to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    /// Sections, by name.
    sections: Vec<(&'static str, Vec<u8>)>,
    /// Maps that have a size of their own.
    sizes: Vec<(&'static str, u32)>,
    /// Value of each tag, of the map of that name.
    tickets: Vec<u32>,
    /// Units in which the program's state counts.
    units: Vec<u32>,
}

const TICKETS: &str = "tickets";

impl Params {
    /// Parameters of the discipline.
    ///
    /// # Errors
    /// For a variant that the kernel does not have.
    pub fn of(spec: &Spec, env: &Env) -> Result<Self, BpfError> {
        if let Some(key) = spec.not_in_the_kernel() {
            return Err(BpfError::Option(format!("`{key}`")));
        }
        match spec {
            Spec::Ncq(params) => {
                let ncq = Ncq::new(params, env);
                Ok(Self {
                    sections: vec![
                        (".data.ncq", bytes_of(&ncq).to_vec()),
                        (".data.random", bytes_of(&env.seed).to_vec()),
                    ],
                    sizes: vec![("kinds", ncq.window.max(1))],
                    tickets: Vec::new(),
                    units: vec![ncq.window],
                })
            }
            Spec::Tred(params) => {
                let (red, tred) = (Red::new(&params.red, env), Tred::from(params));
                let tickets = tickets(env.codec);
                Ok(Self {
                    sections: vec![
                        (".data.red", bytes_of(&red).to_vec()),
                        (".data.tred", bytes_of(&tred).to_vec()),
                        (".data.random", bytes_of(&env.seed).to_vec()),
                    ],
                    // At most 2^16.
                    sizes: vec![(TICKETS, tickets.len() as u32)],
                    tickets,
                    units: vec![red.by_bytes],
                })
            }
            Spec::Hier(_) => Ok(Self {
                sections: vec![(".data.random", bytes_of(&env.seed).to_vec())],
                ..Self::default()
            }),
            _ => Ok(Self::default()),
        }
    }

    /// Whether a program with the parameters `old` takes these while it runs.
    pub fn go_on(&self, old: &Self) -> bool {
        (&self.sizes, &self.tickets, &self.units) == (&old.sizes, &old.tickets, &old.units)
    }

    /// Sections by name, with their content.
    pub fn sections(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let all = self.sections.iter();
        all.map(|(name, bytes)| (*name, bytes.as_slice()))
    }

    /// Before the programs are loaded: sizes the map, or writes the section, if it is one of these.
    pub fn prepare(&self, map: &mut OpenMapMut<'_>) -> libbpf_rs::Result<()> {
        let name = map.name().to_os_string();
        for (section, bytes) in &self.sections {
            if name == *section {
                write(map, 0, bytes);
            }
        }
        for (sized, entries) in &self.sizes {
            if name == *sized {
                map.set_max_entries(*entries)?;
            }
        }
        Ok(())
    }

    /// Before a qdisc has packets: fills the map, if it is one of these.
    pub fn fill(&self, map: &MapMut<'_>) -> libbpf_rs::Result<()> {
        if map.name() != TICKETS {
            return Ok(());
        }
        for (tag, tickets) in (0u32..).zip(&self.tickets) {
            map.update(&tag.to_ne_bytes(), &tickets.to_ne_bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }
}

/// Value of each tag of `codec`, in steps of 2^-16.
pub fn tickets(codec: Codec) -> Vec<u32> {
    let tags = 0..=codec.most().0;
    tags.map(|tag| codec.decode(Tag(tag)).scaled()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::program;
    use libbpf_rs::ObjectBuilder;
    use makeway_core::sched::{Discipline, Limits};
    use makeway_core::ticket::Scale;
    use makeway_core::units::Bytes;

    fn env() -> Env {
        Env::new(Limits {
            packets: 100,
            bytes: Bytes::new(150_000),
            flows: 102,
        })
    }

    #[test]
    fn what_is_written_fits_the_programs() {
        for discipline in [Discipline::Hier, Discipline::Ncq, Discipline::Tred] {
            let params = Params::of(&discipline.spec(), &env()).unwrap();
            let mut builder = ObjectBuilder::default();
            let mut object = builder.open_memory(program(discipline).unwrap()).unwrap();
            let mut found = 0;
            for map in object.maps_mut() {
                let name = map.name().to_str().unwrap().to_owned();
                for (_, bytes) in params.sections.iter().filter(|(one, _)| *one == name) {
                    assert_eq!(map.initial_value().unwrap().len(), bytes.len(), "{name}");
                    found += 1;
                }
                found += params.sizes.iter().filter(|(one, _)| *one == name).count();
            }
            assert_eq!(found, params.sections.len() + params.sizes.len());
        }
    }

    #[test]
    fn the_program_of_sqf_counts_256_bytes_at_least_and_another_floor_is_refused() {
        let mut spec = Discipline::Sqf.spec();
        assert!(Params::of(&spec, &env()).is_ok());
        spec.set("least_cost", "0B").unwrap();
        let error = Params::of(&spec, &env()).unwrap_err().to_string();
        assert!(error.contains("least_cost"), "{error}");
    }

    #[test]
    fn there_is_an_entry_for_each_tag_and_the_first_says_nothing() {
        let tickets = tickets(Codec::new(4, Scale::Linear).unwrap());
        assert_eq!(tickets.len(), 16);
        // 16 tickets a code, in steps of 2^-16.
        assert_eq!(
            (tickets[0], tickets[1], tickets[15]),
            (0, 16 << 16, 240 << 16)
        );
    }

    #[test]
    fn variants_that_the_kernel_does_not_have_are_refused_by_name() {
        let with = |discipline: Discipline, values: &[(&str, &str)]| {
            let mut spec = discipline.spec();
            let mut set = values.iter().map(|(key, value)| spec.set(key, value));
            set.find_map(Result::err).map_or(Ok(()), Err).unwrap();
            Params::of(&spec, &env())
        };
        let refusal = |discipline, key, value| {
            let params = with(discipline, &[(key, value)]);
            params.unwrap_err().to_string()
        };
        assert!(with(Discipline::Ncq, &[("ncq.window", "1000")]).is_ok());
        assert!(refusal(Discipline::Ncq, "ncq.extra_wait", "0.01").contains("`ncq.extra_wait`"));
        assert!(
            refusal(Discipline::Ncq, "ncq.low_rate.rate", "64kbit").contains("`ncq.low_rate.rate`")
        );
        assert!(refusal(Discipline::Tred, "ecn", "true").contains("`ecn`"));
    }
}
