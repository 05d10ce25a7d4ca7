// SPDX-License-Identifier: MIT OR Apache-2.0
//! An interface that the kernel shapes: its qdiscs, the ifb device of what comes, and what was there before.
//!
//! Nothing of it needs a process. The qdiscs and their maps are pinned below [`PINS`]; a record, a file of JSON, says what
//! belongs to the interface and what it had before, so that whoever comes later can ask, change and restore.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use makeway_core::units::Rate;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::netlink::{self, Found, ROOT};
use super::{BpfError, Config, Qdisc, stats};
use crate::control::interface::Interface;
use crate::control::protocol::DirectionStatus;
use crate::rules::Direction;

/// The file system in which the kernel keeps what is pinned.
const PINS: &str = "/sys/fs/bpf/makeway";
/// What our kinds begin with; a number follows.
const KIND: &str = "makeway";
/// Kinds that are made again as they were: without classes, and told with everything that makes them.
const RESTORABLE: [&str; 15] = [
    "bfifo",
    "cake",
    "codel",
    "fq",
    "fq_codel",
    "fq_pie",
    "hhf",
    "mq",
    "netem",
    "noqueue",
    "pfifo",
    "pfifo_fast",
    "pie",
    "sfq",
    "tbf",
];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    interface: String,
    index: u32,
    namespace: u64,
    /// In ns of CLOCK_MONOTONIC.
    started: u64,
    /// The qdiscs of the interface before the first of ours.
    before: Vec<Found>,
    made_clsact: bool,
    directions: Vec<Half>,
}

/// A direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Half {
    /// Without what was counted.
    status: DirectionStatus,
    /// The device that has the qdisc.
    index: u32,
}

impl Half {
    fn is_ingress(&self) -> bool {
        self.status.direction == Direction::Ingress.name()
    }
}

/// An interface that the kernel shapes, with or without this process.
#[derive(Debug)]
pub struct Shaped {
    record: Record,
    file: PathBuf,
    qdiscs: Vec<Qdisc>,
}

impl Shaped {
    /// Shapes an interface in the network namespace `namespace`, the calling thread's. What was shaped there before is
    /// replaced: at no moment there is no qdisc of ours. `file` is where the record goes.
    ///
    /// # Errors
    /// If the kernel cannot, this process may not, or the interface has something that could not be restored. Then it is
    /// as it was.
    pub fn start(
        interface: &Interface,
        namespace: u64,
        file: &Path,
        directions: Vec<(Direction, DirectionStatus, Config)>,
    ) -> Result<Self, BpfError> {
        check_pins()?;
        let system = |what: &'static str| move |source| BpfError::System { what, source };
        if let Some(gone) = Self::open(file)?.filter(|old| old.record.index != interface.index) {
            // Of an interface that had the name before.
            gone.end();
        }
        let old = Record::read(file);
        let before = match &old {
            Some(old) => old.before.clone(),
            None => {
                let now = netlink::qdiscs(interface.index);
                now.map_err(system("the interface's qdiscs"))?
            }
        };
        let before: Vec<Found> = before.into_iter().filter(|one| !one.is_ours()).collect();
        let egress = |direction: &Direction| *direction == Direction::Egress;
        if directions.iter().any(|(direction, ..)| egress(direction))
            && let Some(one) = before.iter().find(|one| !one.is_restorable())
        {
            return Err(BpfError::NotRestorable {
                interface: interface.name.clone(),
                kind: one.kind.clone(),
            });
        }
        let mut shaped = Self {
            record: Record {
                interface: interface.name.clone(),
                index: interface.index,
                namespace,
                started: now(),
                before,
                made_clsact: old.as_ref().is_some_and(|old| old.made_clsact),
                directions: Vec::new(),
            },
            file: file.into(),
            qdiscs: Vec::new(),
        };
        let had_ingress = old.is_some_and(|old| old.directions.iter().any(Half::is_ingress));
        let mut first = interface.index;
        for (direction, mut status, config) in directions {
            let qdisc = shaped.load(&mut first, &config)?;
            status.device = match direction {
                Direction::Egress => interface.name.clone(),
                Direction::Ingress => ifb(interface.index),
            };
            status.qdisc = qdisc.kind().into();
            let index = interface.index;
            shaped.record.directions.push(Half { status, index });
            shaped.qdiscs.push(qdisc);
        }
        // From here on whoever comes later finds what is to be undone.
        shaped.record.write(file)?;
        let attached = shaped.attach(had_ingress);
        // One that cannot be asked is none.
        if let Err(error) = attached.and_then(|()| shaped.directions()) {
            shaped.end();
            return Err(error);
        }
        shaped.forget_others();
        Ok(shaped)
    }

    /// The one whose record is `file`; `None` if there is none.
    ///
    /// # Errors
    /// If what is pinned is not there any more, or another user's.
    pub fn open(file: &Path) -> Result<Option<Self>, BpfError> {
        let Some(record) = Record::read(file) else {
            return Ok(None);
        };
        let pins = record.pins();
        let open = |half: &Half| {
            let kind = &half.status.qdisc;
            Qdisc::open(kind, &pins.join(kind))
        };
        let qdiscs: Result<_, BpfError> = record.directions.iter().map(open).collect();
        Ok(Some(Self {
            qdiscs: qdiscs?,
            record,
            file: file.into(),
        }))
    }

    /// Each direction that is shaped, with what was counted so far, egress first.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn directions(&self) -> Result<Vec<DirectionStatus>, BpfError> {
        let now = now();
        let halves = self.record.directions.iter().zip(&self.qdiscs);
        let each = halves.map(|(half, qdisc)| {
            let mut status = half.status.clone();
            let discipline = std::mem::take(&mut status.stats.discipline);
            status.stats = stats::stats(qdisc, now)?;
            status.stats.discipline = discipline;
            status.stats.seconds = now.saturating_sub(self.record.started) as f64 / 1e9;
            Ok(status)
        });
        each.collect()
    }

    /// Whether a direction is shaped.
    pub fn shapes(&self, direction: Direction) -> bool {
        let mut halves = self.record.directions.iter();
        halves.any(|half| half.status.direction == direction.name())
    }

    /// Changes the rate of a direction.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_rate(&self, direction: Direction, rate: Rate) -> Result<(), BpfError> {
        let halves = self.record.directions.iter().zip(&self.qdiscs);
        for (half, qdisc) in halves {
            if half.status.direction == direction.name() {
                qdisc.set_rate(Some(rate))?;
            }
        }
        Ok(())
    }

    /// Takes everything away and restores what was there; says what could not be done. What waits is lost, and is in the
    /// last counters as `reset`.
    pub fn end(self) -> (Vec<DirectionStatus>, Vec<String>) {
        let mut failed = Vec::new();
        let mut undo = |what: &str, done: io::Result<()>| {
            if let Err(error) = done {
                failed.push(format!("{what}: {error}"));
            }
        };
        let index = self.record.index;
        let here = Interface::find(&self.record.interface).is_ok_and(|now| now.index == index);
        if here && self.shapes(Direction::Egress) {
            undo("restoring the qdisc", restore(index, &self.record.before));
        }
        if self.shapes(Direction::Ingress) {
            if here {
                // Not there if the start was cut short.
                let _ = netlink::stop_redirecting(index);
                if self.record.made_clsact && netlink::has_filters(index).is_ok_and(|any| !any) {
                    undo("removing clsact", netlink::delete_clsact(index));
                }
            }
            if let Ok(ifb) = Interface::find(&ifb(index)) {
                undo("removing the ifb device", netlink::delete_link(ifb.index));
            }
        }
        let last = self.directions().unwrap_or_default();
        undo("removing the pins", remove(&self.record.pins()));
        undo("removing the record", fs::remove_file(&self.file));
        (last, failed)
    }

    /// Loads under the next kind that is free, and pins it.
    fn load(&self, first: &mut u32, config: &Config) -> Result<Qdisc, BpfError> {
        const MOST_TRIES: u32 = 1000;
        let mut tries = 0;
        loop {
            let kind = format!("{KIND}{first}");
            *first += 1;
            tries += 1;
            if fs::exists(self.record.pins().join(&kind)).unwrap_or(false) {
                continue;
            }
            match Qdisc::load(&kind, config) {
                Err(error) if error.is_taken() && tries < MOST_TRIES => {}
                Err(error) => {
                    self.unload();
                    return Err(error);
                }
                Ok(mut qdisc) => {
                    let pinned = qdisc.pin(&self.record.pins().join(&kind));
                    pinned.inspect_err(|_| self.unload())?;
                    return Ok(qdisc);
                }
            }
        }
    }

    /// Of a start that failed before anything was attached.
    fn unload(&self) {
        for qdisc in &self.qdiscs {
            let _ = remove(&self.record.pins().join(qdisc.kind()));
        }
        // It stays if another's pins are in it.
        let _ = fs::remove_dir(self.record.pins());
    }

    fn attach(&mut self, had_ingress: bool) -> Result<(), BpfError> {
        let system = |what: &'static str| move |source| BpfError::System { what, source };
        let index = self.record.index;
        for n in 0..self.qdiscs.len() {
            let half = &mut self.record.directions[n];
            if half.is_ingress() {
                let name = &half.status.device;
                if Interface::find(name).is_err() {
                    netlink::add_ifb(name).map_err(system(
                        "making an ifb device (the kernel needs CONFIG_IFB: `modprobe ifb numifbs=0`)",
                    ))?;
                }
                half.index = Interface::find(name)
                    .map_err(|error| system("the ifb device")(io::Error::other(error)))?
                    .index;
            }
            let qdisc = Found::new(self.qdiscs[n].kind(), ROOT);
            netlink::attach(half.index, &qdisc).map_err(system("putting the qdisc in place"))?;
            if half.is_ingress() {
                let to = half.index;
                match netlink::add_clsact(index) {
                    Ok(()) => self.record.made_clsact = true,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(system("adding clsact")(error)),
                }
                netlink::redirect(index, to).map_err(system(
                    "redirecting what comes to the ifb device (the kernel needs CONFIG_NET_CLS_MATCHALL and CONFIG_NET_ACT_MIRRED)",
                ))?;
            }
        }
        if had_ingress && !self.shapes(Direction::Ingress) {
            let _ = netlink::stop_redirecting(index);
            if let Ok(ifb) = Interface::find(&ifb(index)) {
                let _ = netlink::delete_link(ifb.index);
            }
        }
        self.record.write(&self.file)
    }

    /// Gives up the kinds that ours replaced.
    fn forget_others(&self) {
        let pins = self.record.pins();
        let entries = fs::read_dir(&pins).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            if !self.qdiscs.iter().any(|qdisc| *qdisc.kind() == *name) {
                // An old name costs nothing but memory.
                let _ = remove(&entry.path());
            }
        }
    }
}

impl Record {
    /// `None` if there is none, or none of this version.
    fn read(file: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
    }

    fn write(&self, file: &Path) -> Result<(), BpfError> {
        let write = || {
            // A reader finds the old one or the new one.
            let new = file.with_extension("new");
            fs::write(&new, serde_json::to_vec(self)?)?;
            fs::rename(&new, file)
        };
        let what = "the record of what was there before";
        write().map_err(|source| BpfError::System { what, source })
    }

    /// The folder of the interface. The file system takes no dots.
    fn pins(&self) -> PathBuf {
        let name = self.interface.replace('.', "_");
        Path::new(PINS).join(format!("{name}-{}@{}", self.index, self.namespace))
    }
}

impl Found {
    fn is_ours(&self) -> bool {
        let number = self.kind.strip_prefix(KIND);
        number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    }

    fn is_restorable(&self) -> bool {
        // What the kernel made by itself it makes again; clsact and ingress stay in place.
        let by_kernel = self.handle == 0;
        let aside = ["clsact", "ingress"].contains(&self.kind.as_str());
        by_kernel || aside || RESTORABLE.contains(&self.kind.as_str())
    }
}

/// Puts back what was at the root, and below it, if what is there is ours.
fn restore(index: u32, before: &[Found]) -> io::Result<()> {
    let now = netlink::qdiscs(index)?;
    if !now
        .first()
        .is_some_and(|root| root.is_root() && root.is_ours())
    {
        return Ok(());
    }
    // What the kernel made by itself it makes again; clsact and ingress are not below the root.
    let made = |one: &&Found| one.handle != 0 && (one.is_root() || one.parent >> 16 != 0xffff);
    let made: Vec<&Found> = before.iter().filter(made).collect();
    match made.first() {
        // Children are listed behind their parents.
        Some(first) if first.is_root() => made
            .into_iter()
            .try_for_each(|one| netlink::attach(index, one)),
        _ => netlink::detach(index, ROOT),
    }
}

/// The ifb device of the interface with this number.
fn ifb(index: u32) -> String {
    format!("mwifb{index}")
}

/// Without what is not there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn check_pins() -> Result<(), BpfError> {
    /// `BPF_FS_MAGIC` of <linux/magic.h>.
    const BPF_FS: u32 = 0xcafe_4a11;
    let root = Path::new(PINS).parent().unwrap_or(Path::new("/"));
    let found = rustix::fs::statfs(root);
    match found.is_ok_and(|found| found.f_type as u32 == BPF_FS) {
        true => Ok(()),
        false => Err(BpfError::NoBpfFs),
    }
}

fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: &str, handle: u32) -> Found {
        let mut found = Found::new(kind, ROOT);
        found.handle = handle;
        found
    }

    #[test]
    fn ours_are_known_by_their_kind() {
        assert!(found("makeway2", 0x8001_0000).is_ours());
        assert!(!found("makeway_other", 0).is_ours());
        assert!(!found("fq", 0).is_ours());
    }

    #[test]
    fn what_has_classes_is_not_replaced_unless_the_kernel_made_it() {
        assert!(!found("htb", 0x1_0000).is_restorable());
        assert!(found("mq", 0).is_restorable());
        assert!(found("fq_codel", 0x1_0000).is_restorable());
        let mut clsact = found("clsact", 0xffff_0000);
        clsact.parent = 0xffff_fff1;
        assert!(clsact.is_restorable());
    }
}
