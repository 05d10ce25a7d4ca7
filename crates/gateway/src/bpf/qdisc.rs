// SPDX-License-Identifier: MIT OR Apache-2.0
//! One qdisc: its object, its maps, its pins.

use std::fs;
use std::io;
use std::path::Path;

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, ObjectBuilder, OpenMapMut,
};
use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::random::Rng;
use makeway_core::sched::{DropFrom, Env, FqParams, Limits, Spec};
use makeway_core::ticket::Codec;
use makeway_core::units::Rate;

use super::layout::{self, Counters, FlowEntry, JudgedFlow, Key, Keys, Pool, Sojourns, identity};
use super::params::Params;
use super::{BpfError, is_supported, program};
use crate::datapath::DatapathConfig;
use crate::datapath::Traffic;
use crate::rules::Direction;

/// `MOST_PACKETS` of `bpf/pool.h`.
const MOST_PACKETS: u32 = 1 << 17;
/// `LIMIT_BYTES` of `bpf/pool.h`.
const MOST_BYTES: u64 = 16 << 20;
/// The key of an array with one value.
const ONLY: [u8; 4] = [0; 4];

/// A qdisc to load.
#[derive(Clone, Debug)]
pub struct Config {
    /// The discipline.
    pub spec: Spec,
    /// The most that it may hold: at most 131 072 packets and 16 MiB.
    pub limits: Limits,
    /// The rate on the wire; `None`: not limited.
    pub rate: Option<Rate>,
    /// Bytes of an IP packet on the wire.
    pub framing: Framing,
    /// Flow key.
    pub identity: Identity,
    /// User key, for a discipline with users.
    pub users: Identity,
    /// Code of tags.
    pub codec: Codec,
    /// Seed of chances and of the tables of flows and users; secret and random where packets come from strangers.
    pub seed: u64,
}

impl Config {
    /// A discipline that is not limited in rate, of IP packets as they are, whose flows are connections and whose users are
    /// destinations.
    pub fn new(spec: Spec, limits: Limits) -> Self {
        Self {
            spec,
            limits,
            rate: None,
            framing: Framing::default(),
            identity: Identity::FiveTuple,
            users: Identity::DstHost,
            codec: Codec::default(),
            seed: 1,
        }
    }

    /// The qdisc that does the work of such a datapath.
    ///
    /// # Errors
    /// For what only a datapath in user space has.
    pub fn of(datapath: &DatapathConfig) -> Result<Self, BpfError> {
        let option = |what: String| Err(BpfError::Option(what));
        if !datapath.weights.is_empty() {
            return option("--weight".into());
        }
        if datapath.tags.writes() {
            return option("writing tags on packets".into());
        }
        Ok(Self {
            spec: datapath.spec.clone(),
            limits: datapath.limits,
            rate: datapath.rate,
            framing: datapath.framing,
            identity: datapath.identity,
            users: datapath.users,
            codec: datapath.tags.codec,
            seed: datapath.seed,
        })
    }

    /// Environment of the same discipline in user space, but for its users.
    pub fn env(&self) -> Env {
        Env {
            rate: self.rate,
            framing: self.framing,
            codec: self.codec,
            seed: self.seed,
            ..Env::new(self.limits)
        }
    }

    /// Flows that can be known: as many as can hold packets, and one; under `makeway` as many again that hold none.
    fn flows(&self) -> u32 {
        let holding = self.limits.packets + 1;
        match self.spec {
            Spec::Makeway(_) => {
                let twice = self.limits.packets.saturating_mul(2);
                holding.max(self.limits.flows.max(twice).min(MOST_PACKETS))
            }
            _ => holding,
        }
    }

    fn layout(&self) -> Result<layout::Config, BpfError> {
        let limits = self.limits;
        let FqParams { quantum, drop_from } = match &self.spec {
            Spec::Fq(params) => params.clone(),
            Spec::Hier(params) => FqParams {
                quantum: params.quantum,
                drop_from: params.drop_from,
            },
            Spec::Makeway(params) => FqParams {
                quantum: params.quantum,
                ..FqParams::default()
            },
            Spec::Sqf(params) => FqParams {
                drop_from: params.drop_from,
                ..FqParams::default()
            },
            _ => FqParams::default(),
        };
        let limit = |what, asked, most| match (1..=most).contains(&asked) {
            true => Ok(asked as u32),
            false => Err(BpfError::Limit { what, asked, most }),
        };
        let mut config = layout::Config {
            rate: self.rate.map_or(0, Rate::bps),
            limit_packets: limit(
                "the limit in packets",
                limits.packets.into(),
                MOST_PACKETS.into(),
            )?,
            limit_bytes: limit("the limit in bytes", limits.bytes.get(), MOST_BYTES)?,
            drop_tail: (drop_from == DropFrom::Tail).into(),
            // At most 1 MiB.
            quantum: quantum.get() as u32,
            ..layout::Config::default()
        };
        config.set_framing(self.framing);
        Ok(config)
    }
}

/// A kind of qdisc that the kernel knows, for one interface. Dropped, its name is given back unless it was pinned; a qdisc
/// of that kind that is on an interface stays there.
#[derive(Debug)]
pub struct Qdisc {
    kind: String,
    /// `None`: another process loaded it.
    link: Option<Link>,
    maps: Vec<(String, MapHandle)>,
}

/// Everything that a qdisc counts, of one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub config: layout::Config,
    pub counters: Counters,
    pub backlog: Pool,
    /// Since the start, and as of one and of two seconds ago.
    pub sojourns: [Sojourns; 3],
}

impl Qdisc {
    /// Loads the discipline and registers it as `kind`, a name that the kernel does not know yet, of at most 15 letters,
    /// figures, `_` and `.`.
    ///
    /// # Errors
    /// If the kernel has no BPF qdiscs or does not let this process load one, the discipline has no program, or a limit
    /// or an option of it does not fit.
    pub fn load(kind: &str, config: &Config) -> Result<Self, BpfError> {
        let object = program(config.spec.discipline())?;
        let values = config.layout()?;
        let params = Params::of(&config.spec, &config.env())?;
        let mut random = Rng::new(config.seed);
        let keys = Keys {
            multipliers: std::array::from_fn(|_| random.next_u64()),
            seed: config.seed,
            flows_by: identity(config.identity),
            users_by: identity(config.users),
        };
        if !is_supported() {
            return Err(BpfError::Unsupported);
        }
        let discipline = config.spec.discipline();
        let refused = |source: libbpf_rs::Error| match source.kind() {
            ErrorKind::PermissionDenied => BpfError::NotPermitted,
            _ => BpfError::Refused {
                what: format!("loading {discipline} as {kind}"),
                source,
            },
        };
        let mut builder = ObjectBuilder::default();
        let mut open = builder.open_memory(object).map_err(refused)?;
        for mut map in open.maps_mut() {
            prepare(&mut map, kind, &values, &keys, config.flows()).map_err(refused)?;
            params.prepare(&mut map).map_err(refused)?;
        }
        let mut object = open.load().map_err(refused)?;
        let mut link = None;
        let mut maps = Vec::new();
        for mut map in object.maps_mut() {
            params.fill(&map).map_err(refused)?;
            if map.map_type() == MapType::StructOps {
                link = Some(map.attach_struct_ops().map_err(refused)?);
            } else if let Some(name) = name(&map) {
                maps.push((name, MapHandle::try_from(&map).map_err(refused)?));
            }
        }
        let missing = || io::Error::from(io::ErrorKind::InvalidData).into();
        Ok(Self {
            kind: kind.into(),
            link: Some(link.ok_or_else(|| refused(missing()))?),
            maps,
        })
    }

    /// Its name in tc.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Keeps the kind and the maps below `folder`, of a BPF file system, when this process ends.
    ///
    /// # Errors
    /// If it cannot be written there; then nothing is left.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        let pinned = self.try_pin(folder);
        if pinned.is_err() {
            // A missing pin needs no removal.
            let _ = fs::remove_dir_all(folder);
        }
        pinned.map_err(|source| BpfError::Refused {
            what: format!("pinning {} at {}", self.kind, folder.display()),
            source,
        })
    }

    fn try_pin(&mut self, folder: &Path) -> libbpf_rs::Result<()> {
        fs::create_dir_all(folder)?;
        for (name, map) in &mut self.maps {
            map.pin(folder.join(name))?;
        }
        match &mut self.link {
            Some(link) => link.pin(folder.join("link")),
            None => Ok(()),
        }
    }

    /// The one that was pinned below `folder` as `kind`. A missing map cannot be read.
    ///
    /// # Errors
    /// If it is another user's.
    pub fn open(kind: &str, folder: &Path) -> Result<Self, BpfError> {
        let mut maps = Vec::new();
        for (_, name) in KEPT {
            match MapHandle::from_pinned_path(folder.join(name)) {
                Ok(map) => maps.push((name.into(), map)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(BpfError::NotPermitted);
                }
                Err(source) => {
                    return Err(BpfError::Refused {
                        what: format!("{kind} at {}", folder.display()),
                        source,
                    });
                }
            }
        }
        Ok(Self {
            kind: kind.into(),
            link: None,
            maps,
        })
    }

    /// Counters so far.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn counters(&self) -> Result<Counters, BpfError> {
        self.read("counters")
    }

    /// Counters and backlog of one moment.
    pub(super) fn snapshot(&self) -> Result<Snapshot, BpfError> {
        // The kernel counts as we read: what was the same before and after is of one moment.
        const TRIES: u32 = 50;
        let mut tries = 0;
        loop {
            let snapshot = Snapshot {
                config: self.read("config")?,
                counters: self.read("counters")?,
                backlog: self.read("pool")?,
                sojourns: self.read("sojourns")?,
            };
            tries += 1;
            if snapshot.counters == self.counters()? || tries == TRIES {
                return Ok(snapshot);
            }
        }
    }

    /// Traffic so far.
    pub(super) fn traffic(&self, direction: Direction) -> Result<Traffic, BpfError> {
        let config: layout::Config = self.read("config")?;
        let counters = self.counters()?;
        let backlog: Pool = self.read("pool")?;
        Ok(Traffic {
            direction,
            rate: Rate::from_bps(config.rate),
            bytes_in: counters.bytes_in,
            bytes_out: counters.bytes_out,
            backlog: backlog.bytes.into(),
        })
    }

    /// The flows that hold packets, in no order.
    pub(super) fn flows(&self) -> Result<Vec<FlowEntry>, BpfError> {
        let all = self.entries::<FlowEntry>()?;
        let all = all.into_iter().map(|(_, flow)| flow);
        Ok(all.filter(|flow| flow.packets > 0).collect())
    }

    /// The flows that are known to a discipline that judges them, and their places, in no order; `None` if this one does not, or is
    /// of a version that told no names.
    pub(super) fn judged(&self) -> Result<Option<Vec<(u32, JudgedFlow)>>, BpfError> {
        if self.map("names").is_err() {
            return Ok(None);
        }
        let mut all = self.entries::<JudgedFlow>()?;
        all.retain(|(_, flow)| flow.record.known > 0);
        Ok(Some(all))
    }

    /// The key of the flow at `place`.
    pub(super) fn key(&self, place: u32) -> Result<Key, BpfError> {
        let found = self
            .map("names")?
            .lookup(&place.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(|source| self.refused("names", source))?;
        Ok(found.map_or_else(Key::default, |bytes| pod_read_unaligned(&bytes)))
    }

    /// Entries of the map of flows that were ever used, each as far as `T` goes.
    fn entries<T: Pod>(&self) -> Result<Vec<(u32, T)>, BpfError> {
        let used: Pool = self.read("pool")?;
        let map = self.map("flows")?;
        let mut entries = Vec::new();
        for place in 1..=used.flows_used {
            let found = map.lookup(&place.to_ne_bytes(), MapFlags::ANY);
            let found = found.map_err(|source| self.refused("flows", source))?;
            let Some(bytes) = found.as_deref().and_then(|b| b.get(..size_of::<T>())) else {
                break;
            };
            entries.push((place, pod_read_unaligned(bytes)));
        }
        Ok(entries)
    }

    /// Changes the rate, from the next packet on.
    ///
    /// # Errors
    /// If the kernel refuses; then nothing has changed.
    pub fn set_rate(&self, rate: Option<Rate>) -> Result<(), BpfError> {
        let mut config: layout::Config = self.read("config")?;
        config.rate = rate.map_or(0, Rate::bps);
        let map = self.map("config")?;
        let written = map.update(&ONLY, bytes_of(&config), MapFlags::ANY);
        written.map_err(|source| self.refused("config", source))
    }

    fn read<T: Pod>(&self, name: &str) -> Result<T, BpfError> {
        let value = self.map(name)?.lookup(&ONLY, MapFlags::ANY);
        let value = value.map_err(|source| self.refused(name, source))?;
        let value = value
            .as_deref()
            .filter(|value| value.len() == size_of::<T>());
        let missing = || self.refused(name, io::Error::from(io::ErrorKind::InvalidData).into());
        Ok(pod_read_unaligned(value.ok_or_else(missing)?))
    }

    fn map(&self, name: &str) -> Result<&MapHandle, BpfError> {
        let found = self.maps.iter().find(|(one, _)| one == name);
        let missing = || self.refused(name, io::Error::from(io::ErrorKind::NotFound).into());
        found.map(|(_, map)| map).ok_or_else(missing)
    }

    fn refused(&self, map: &str, source: libbpf_rs::Error) -> BpfError {
        BpfError::Refused {
            what: format!("{map} of {}", self.kind),
            source,
        }
    }
}

/// The maps that are read or written while the qdisc runs: their section or own name, and the name that they are pinned by.
const KEPT: [(&str, &str); 8] = [
    (".data.config", "config"),
    (".bss.counters", "counters"),
    (".bss.pool", "pool"),
    (".bss.shaper", "shaper"),
    (".bss.sojourns", "sojourns"),
    ("flows", "flows"),
    ("names", "names"),
    ("slots", "slots"),
];

fn name(map: &impl MapCore) -> Option<String> {
    let name = map.name().to_str()?;
    let kept = KEPT.into_iter().find(|(section, _)| *section == name)?;
    Some(kept.1.into())
}

/// Sizes a map and writes what is in it before the programs run.
fn prepare(
    map: &mut OpenMapMut<'_>,
    kind: &str,
    config: &layout::Config,
    keys: &Keys,
    flows: u32,
) -> libbpf_rs::Result<()> {
    // One packet more than the limit, and nobody.
    let slots = config.limit_packets + 2;
    let known = flows;
    let flows = flows + 1;
    let chains = (2 * flows).next_power_of_two();
    let is_ops = map.map_type() == MapType::StructOps;
    let name = map.name().to_string_lossy().into_owned();
    match name.as_str() {
        "slots" => map.set_max_entries(slots)?,
        "flows" | "names" => map.set_max_entries(flows)?,
        // A flow can leave its user for a new one.
        "users" => map.set_max_entries(flows + 1)?,
        // One of a flow, one of a user.
        "nodes" => map.set_max_entries(2 * slots)?,
        "chains" | "user_chains" => map.set_max_entries(chains)?,
        ".data.config" => write(map, 0, bytes_of(config)),
        ".rodata.sizes" => {
            write(map, 0, &(chains - 1).to_ne_bytes());
            write(map, 4, &(keys.seed as u32).to_ne_bytes());
            write(map, 8, &known.to_ne_bytes());
        }
        ".rodata.keys" => write(map, 0, bytes_of(keys)),
        // `id` is the first member; what is left of it stays zero.
        _ if is_ops => {
            write(map, 0, &[0; 16]);
            write(map, 0, &kind.as_bytes()[..kind.len().min(15)]);
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn write(map: &mut OpenMapMut<'_>, at: usize, bytes: &[u8]) {
    let value = map.initial_value_mut();
    if let Some(part) = value.and_then(|value| value.get_mut(at..at + bytes.len())) {
        part.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use makeway_core::sched::Discipline;
    use makeway_core::units::Bytes;

    use super::*;
    use crate::bpf::has_program;

    /// All that is written for the discipline before its program runs.
    fn written(spec: &Spec) -> Result<(layout::Config, Params), BpfError> {
        let limits = Limits {
            packets: 100,
            bytes: Bytes::new(150_000),
            flows: 102,
        };
        let config = Config {
            rate: Some(Rate::from_bps(8_000_000)),
            ..Config::new(spec.clone(), limits)
        };
        Ok((config.layout()?, Params::of(spec, &config.env())?))
    }

    #[test]
    fn every_parameter_reaches_the_program_or_is_refused() {
        let values = [
            "true", "false", "head", "tail", "bytes", "packets", "2", "7", "0.01", "0.02", "3ms",
            "777B", "64kbit",
        ];
        let mut seen = 0;
        for discipline in Discipline::ALL.into_iter().filter(|one| has_program(*one)) {
            let default = discipline.spec();
            let before = written(&default).unwrap();
            let mut keys = Vec::new();
            let mut fields = default.clone();
            fields.fields(&mut |key, _, _| keys.push(key.to_owned()));
            for key in keys {
                let changed = values.iter().find_map(|text| {
                    let mut spec = default.clone();
                    let is_set = spec.set(&key, text).is_ok();
                    (is_set && spec != default).then_some(spec)
                });
                let changed = changed.unwrap_or_else(|| panic!("{discipline}: a value of {key}"));
                match written(&changed) {
                    Ok(after) => assert_ne!(after, before, "{discipline} ignores {key}"),
                    Err(BpfError::Option(_)) => {}
                    Err(error) => panic!("{discipline} {key}: {error}"),
                }
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
