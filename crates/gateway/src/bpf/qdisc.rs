// SPDX-License-Identifier: MIT OR Apache-2.0
//! One qdisc: its object, its maps, its pins.

mod change;

use std::fs;
use std::io;
use std::path::Path;

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapMut, MapType, ObjectBuilder, OpenMapMut,
};
use makeway_core::random::Rng;
use makeway_core::units::Rate;

use super::config::{Config, slot};
use super::layout::{self, Counters, FlowEntry, JudgedFlow, Key, Keys, Pool, Sojourns, identity};
use super::params::Params;
use super::weights::user_hash;
use super::{BpfError, is_supported, program};
use crate::datapath::Traffic;
use crate::limit::MOST_WEIGHTS;
use crate::rules::Direction;

/// The key of an array with one value.
const ONLY: [u8; 4] = [0; 4];

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
        let stamps = config.stamps;
        let keys = Keys {
            multipliers: std::array::from_fn(|_| random.next_u64()),
            // Hashes in stamps are of the same seed.
            seed: stamps.map_or(config.seed, |stamps| stamps.seed),
            flows_by: identity(config.identity),
            users_by: identity(config.users),
            word: stamps.map_or(0, |stamps| stamps.word),
            near: stamps.map_or(0, |stamps| identity(stamps.near)),
            unused: 0,
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
            prepare(&mut map, kind, config, &values, &keys).map_err(refused)?;
            params.prepare(&mut map).map_err(refused)?;
        }
        let mut object = open.load().map_err(refused)?;
        let mut link = None;
        let mut maps = Vec::new();
        for mut map in object.maps_mut() {
            params.fill(&map).map_err(refused)?;
            fill_weights(&map, config, &keys).map_err(refused)?;
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
const KEPT: [(&str, &str); 13] = [
    (".data.config", "config"),
    (".data.ncq", "ncq"),
    (".data.red", "red"),
    (".data.tred", "tred"),
    (".bss.counters", "counters"),
    (".bss.pool", "pool"),
    (".bss.shaper", "shaper"),
    (".bss.sojourns", "sojourns"),
    (".rodata.keys", "keys"),
    ("flows", "flows"),
    ("names", "names"),
    ("slots", "slots"),
    ("weights", "weights"),
];

fn name(map: &impl MapCore) -> Option<String> {
    kept(map.name().to_str()?).map(String::from)
}

/// The name that a map is pinned by; `None` for one that is not.
fn kept(section: &str) -> Option<&'static str> {
    let kept = KEPT.into_iter().find(|(own, _)| *own == section)?;
    Some(kept.1)
}

/// Sizes a map and writes what is in it before the programs run.
fn prepare(
    map: &mut OpenMapMut<'_>,
    kind: &str,
    config: &Config,
    values: &layout::Config,
    keys: &Keys,
) -> libbpf_rs::Result<()> {
    // One packet more than the limit can be, and nobody.
    let slots = config.room() + 2;
    let known = config.flows();
    let flows = known + 1;
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
        "weights" => map.set_max_entries(MOST_WEIGHTS)?,
        ".data.config" => write(map, 0, bytes_of(values)),
        ".rodata.sizes" => {
            write(map, 0, &(chains - 1).to_ne_bytes());
            write(map, 4, &(keys.seed as u32).to_ne_bytes());
            write(map, 8, &known.to_ne_bytes());
            write(map, 12, &slot(values).to_ne_bytes());
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

/// Before a qdisc has packets: the weights of its users, if it is that map.
fn fill_weights(map: &MapMut<'_>, config: &Config, keys: &Keys) -> libbpf_rs::Result<()> {
    if map.name() != "weights" {
        return Ok(());
    }
    for &(address, weight) in &config.weights {
        let hash = user_hash(keys.seed, config.users, address);
        map.update(&hash.to_ne_bytes(), &weight.to_ne_bytes(), MapFlags::ANY)?;
    }
    Ok(())
}

pub(super) fn write(map: &mut OpenMapMut<'_>, at: usize, bytes: &[u8]) {
    let value = map.initial_value_mut();
    if let Some(part) = value.and_then(|value| value.get_mut(at..at + bytes.len())) {
        part.copy_from_slice(bytes);
    }
}
