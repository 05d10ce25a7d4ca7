// SPDX-License-Identifier: MIT OR Apache-2.0
//! An interface that the kernel shapes: its qdiscs, the ifb device of its ingress, and its former qdiscs.
//!
//! Nothing of it needs a process. The qdiscs and their maps are pinned below [`PINS`]; a [`Record`] says what belongs to the
//! interface and what it had before, so that a later process can ask, change and restore.

mod change;
mod former;
mod load;

use std::fs;
use std::io;
use std::path::PathBuf;

use makeway_core::ticket::Codec;
use makeway_core::units::Rate;
use rustix::time::{ClockId, clock_gettime};

use super::netlink::{self, Found, ROOT};
use super::pins::{check_pins, remove};
use super::record::{Half, PINS, Record, VERSION};
use super::{BpfError, Cake, Config, Qdisc, cake, stats};
use crate::datapath::Traffic;
use crate::datapath::{DatapathConfig, Stats};
use crate::folder;
use crate::interface::{self, Interface};
use crate::place::Place;
use crate::protocol::{Backend, DirectionStatus};
use crate::rules::Direction;
use former::restore;
use load::{Beside, Loaded, Loader, told_now};

/// An interface that the kernel shapes, with or without this process.
#[derive(Debug)]
pub struct Shaped {
    record: Record,
    file: PathBuf,
    qdiscs: Vec<Held>,
}

/// A qdisc to put on an interface.
#[derive(Clone, Debug)]
pub enum Plan {
    /// One of ours.
    Bpf(Config),
    /// The kernel's own.
    Cake(Cake),
}

impl Plan {
    /// Plan of `backend` for a datapath.
    ///
    /// # Errors
    /// For what it has not.
    pub fn of(
        backend: Backend,
        direction: Direction,
        datapath: &DatapathConfig,
    ) -> Result<Self, BpfError> {
        match backend {
            Backend::Cake => Cake::of(datapath, direction).map(Self::Cake),
            _ => Config::of(datapath).map(Self::Bpf),
        }
    }
}

/// A qdisc that holds packets.
#[derive(Debug)]
enum Held {
    Bpf(Qdisc),
    /// Known by its handle.
    Cake,
}

impl Held {
    fn kind(&self) -> &str {
        match self {
            Self::Bpf(qdisc) => qdisc.kind(),
            Self::Cake => cake::KIND,
        }
    }
}

impl Shaped {
    /// Shapes an interface of the calling thread's network namespace. Former qdiscs of ours are replaced: at no moment
    /// there is no qdisc of ours. The record goes to `place`.
    ///
    /// # Errors
    /// If the kernel cannot, this process may not, or the interface has something that could not be restored. Then it is
    /// as it was.
    pub(crate) fn start(
        interface: &Interface,
        place: &Place,
        directions: Vec<(Direction, DirectionStatus, Plan)>,
    ) -> Result<Self, BpfError> {
        if directions
            .iter()
            .any(|(.., plan)| matches!(plan, Plan::Bpf(_)))
        {
            check_pins()?;
        }
        let file = &place.record();
        let system = |what: &'static str| move |source| BpfError::System { what, source };
        let former = match Self::open(place)? {
            // Of an interface that had the name before.
            Some(gone) if gone.record.index != interface.index => {
                gone.end();
                None
            }
            former => former,
        };
        let old = Record::read(place)?;
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
                version: VERSION,
                interface: interface.name.clone(),
                index: interface.index,
                namespace: place.namespace,
                started: now(),
                // One that a process made and was killed right after is removed too.
                made_clsact: match &old {
                    Some(old) if old.made_clsact => true,
                    _ => !before.iter().any(Found::is_aside),
                },
                before,
                ending: false,
                directions: Vec::new(),
            },
            file: file.into(),
            qdiscs: Vec::new(),
        };
        let had_ingress = old.is_some_and(|old| old.directions.iter().any(Half::is_ingress));
        let pins = shaped.record.pins();
        let mut loader = Loader::new(&pins);
        let mut plans = Vec::new();
        for (direction, mut status, plan) in directions {
            let (qdisc, beside, code) = match &plan {
                Plan::Bpf(config) => {
                    let loaded = loader.load(config, direction);
                    let Loaded { qdisc, beside } = loaded.inspect_err(|_| shaped.unload())?;
                    (Held::Bpf(qdisc), beside, config.codec)
                }
                Plan::Cake(_) => (Held::Cake, Beside::default(), Codec::default()),
            };
            status.nat.clone_from(&beside.told);
            plans.push((plan, beside));
            status.device = match direction {
                Direction::Egress => interface.name.clone(),
                Direction::Ingress => ifb(interface.index),
            };
            status.qdisc = qdisc.kind().into();
            let index = interface.index;
            shaped.record.directions.push(Half {
                status,
                index,
                code: Some(code.into()),
            });
            shaped.qdiscs.push(qdisc);
        }
        // From here on a later process finds the changes to undo.
        shaped.record.write(file)?;
        let attached = shaped.attach(&plans, had_ingress, former.as_ref());
        // One that cannot be asked is none.
        if let Err(error) = attached.and_then(|()| shaped.directions()) {
            shaped.end();
            return Err(error);
        }
        shaped.forget_others();
        Ok(shaped)
    }

    /// The one whose record is at `place`; `None` if there is none.
    ///
    /// # Errors
    /// If the record cannot be read, or what is pinned is not there any more, or another user's.
    pub(crate) fn open(place: &Place) -> Result<Option<Self>, BpfError> {
        let Some(record) = Record::read(place)? else {
            return Ok(None);
        };
        let halves = record.directions.iter().zip(record.qdiscs());
        let open = |(half, pins): (&Half, PathBuf)| match half.status.qdisc.as_str() {
            cake::KIND => Ok(Held::Cake),
            kind => Qdisc::open(kind, &pins).map(Held::Bpf),
        };
        let qdiscs: Result<_, BpfError> = halves.map(open).collect();
        Ok(Some(Self {
            qdiscs: qdiscs?,
            record,
            file: place.record(),
        }))
    }

    /// Removes the pins of one that was killed before it had a record: they hold on to memory, and nothing else is there.
    ///
    /// # Errors
    /// If they are there and stay.
    pub(crate) fn sweep(place: &Place) -> Result<(), BpfError> {
        let name = place.interface.replace('.', "_");
        let of = format!("@{}", place.namespace);
        let is_ours = |folder: &str| {
            let index = folder
                .strip_suffix(&of)
                .and_then(|rest| rest.strip_prefix(&name));
            let index = index.and_then(|rest| rest.strip_prefix('-'));
            index.is_some_and(|index| index.parse::<u32>().is_ok())
        };
        let what = "removing the pins of one that was killed";
        for entry in fs::read_dir(PINS).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_ours) {
                remove(&entry.path()).map_err(|source| BpfError::System { what, source })?;
            }
        }
        Ok(())
    }

    /// Looks whether the ingress of the interface still has a path.
    ///
    /// # Errors
    /// If it has not, until this is ended.
    pub(crate) fn check(&self) -> Result<(), String> {
        for half in self
            .record
            .directions
            .iter()
            .filter(|half| half.is_ingress())
        {
            // A question that fails now can be asked later.
            if interface::is_up(half.index).is_ok_and(|up| !up) {
                return Err(format!("its device {} is gone or down", half.status.device));
            }
        }
        Ok(())
    }

    /// Each direction that is shaped, with its counters so far, egress first.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn directions(&self) -> Result<Vec<DirectionStatus>, BpfError> {
        let now = now();
        let pins = self.record.pins();
        let halves = self.record.directions.iter().zip(&self.qdiscs);
        let each = halves.map(|(half, qdisc)| {
            let mut status = half.status.clone();
            status.nat = told_now(status.nat.take(), &pins.join(&status.qdisc));
            let stats = match qdisc {
                Held::Bpf(qdisc) => Stats {
                    discipline: status.stats.discipline,
                    ..stats::after(stats::stats(qdisc, now)?, &status.stats)
                },
                Held::Cake => {
                    let system = |source| BpfError::System {
                        what: "the counters of cake",
                        source,
                    };
                    let counted = netlink::counted(half.index, cake::KIND, cake::HANDLE);
                    // One that somebody took away has no counters.
                    let counted = counted.map_err(system)?.unwrap_or_default();
                    status.limit_packets = 0;
                    status.limit_bytes = cake::limit(&counted).unwrap_or(0).into();
                    cake::stats(&counted)
                }
            };
            status.stats = Stats {
                seconds: now.saturating_sub(self.record.started) as f64 / 1e9,
                ..stats
            };
            Ok(status)
        });
        each.collect()
    }

    /// Traffic of each direction so far.
    pub(crate) fn traffic(&self) -> Result<Vec<Traffic>, BpfError> {
        let halves = self.record.directions.iter().zip(&self.qdiscs);
        let each = halves.map(|(half, qdisc)| {
            let direction = half.status.direction;
            match qdisc {
                Held::Bpf(qdisc) => {
                    let traffic = qdisc.traffic(direction)?;
                    let before = &half.status.stats;
                    Ok(Traffic {
                        bytes_in: traffic.bytes_in.saturating_add(before.bytes_in),
                        bytes_out: traffic.bytes_out.saturating_add(before.bytes_out),
                        ..traffic
                    })
                }
                Held::Cake => {
                    let what = "the counters of cake";
                    let counted = netlink::counted(half.index, cake::KIND, cake::HANDLE);
                    let counted = counted.map_err(|source| BpfError::System { what, source })?;
                    let stats = cake::stats(&counted.unwrap_or_default());
                    Ok(Traffic {
                        direction,
                        rate: Rate::from_bps(stats.rate_bps.unwrap_or(1)),
                        bytes_in: stats.bytes_in,
                        bytes_out: stats.bytes_out,
                        backlog: stats.backlog_bytes,
                    })
                }
            }
        });
        each.collect()
    }

    /// `bpf` or `cake`.
    pub fn backend(&self) -> Backend {
        match self.qdiscs.iter().any(|one| matches!(one, Held::Cake)) {
            true => Backend::Cake,
            false => Backend::Bpf,
        }
    }

    /// Whether a direction is shaped.
    pub fn shapes(&self, direction: Direction) -> bool {
        let mut halves = self.record.directions.iter();
        halves.any(|half| half.status.direction == direction)
    }

    /// Changes the rate of a direction.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_rate(&self, direction: Direction, rate: Rate) -> Result<(), BpfError> {
        let halves = self.record.directions.iter().zip(&self.qdiscs);
        for (half, qdisc) in halves {
            if half.status.direction != direction {
                continue;
            }
            match qdisc {
                Held::Bpf(qdisc) => qdisc.set_rate(Some(rate))?,
                Held::Cake => {
                    let what = "the rate of cake";
                    netlink::change(half.index, &cake::with_rate(rate))
                        .map_err(|source| BpfError::System { what, source })?;
                }
            }
        }
        Ok(())
    }

    /// Takes everything away and restores what was there; says what could not be done, and keeps what it takes to try again.
    /// The backlog is lost, and is in the last counters as `reset`.
    ///
    /// The interface is known by its number: it may have another name by now. One that is gone, or in another namespace, has
    /// lost its qdiscs and filters on the way.
    pub fn end(mut self) -> (Vec<DirectionStatus>, Vec<String>) {
        let mut failed = Vec::new();
        let mut undo = |what: &str, done: io::Result<()>| {
            if let Err(error) = done {
                failed.push(format!("{what}: {error}"));
            }
        };
        let index = self.record.index;
        // Counters of cake go with it; those of our maps stay, and count the backlog that is lost.
        let of_cake = match self.backend() {
            Backend::Cake => self.directions().ok(),
            _ => None,
        };
        if self.shapes(Direction::Egress) {
            let resumed = std::mem::replace(&mut self.record.ending, true);
            // Without it only a second one that is killed here is worse off.
            let _ = self.record.write(&self.file);
            undo(
                "restoring the qdisc",
                restore(index, &self.record.before, resumed),
            );
        }
        if self.shapes(Direction::Ingress) {
            undo("letting go what comes", self.let_go_what_comes());
            undo("removing clsact", self.remove_clsact());
        }
        let last = of_cake.or_else(|| self.directions().ok());
        let last = last.unwrap_or_default();
        if failed.is_empty() {
            let mut undo = |what: &str, done: io::Result<()>| {
                failed.extend(done.err().map(|error| format!("{what}: {error}")));
            };
            undo("removing the pins", remove(&self.record.pins()));
            undo("removing the record", folder::discard(&self.file));
        }
        (last, failed)
    }

    /// No longer redirects what comes; the ifb device goes only then: to a device that is not there, nothing comes through.
    fn let_go_what_comes(&self) -> io::Result<()> {
        netlink::stop_redirecting(self.record.index)?;
        let halves = self.record.directions.iter();
        let made = halves.filter(|half| half.is_ingress() && half.index != self.record.index);
        let mut devices: Vec<u32> = made.map(|half| half.index).collect();
        if let Ok(named) = Interface::find(&ifb(self.record.index)) {
            devices.push(named.index);
        }
        devices.dedup();
        devices
            .into_iter()
            .try_for_each(|device| gone_is_fine(netlink::delete_link(device)))
    }

    /// Removes the clsact that was made for arrivals, unless another program has filters there by now.
    fn remove_clsact(&self) -> io::Result<()> {
        let index = self.record.index;
        match self.record.made_clsact && netlink::has_filters(index).is_ok_and(|any| !any) {
            true => gone_is_fine(netlink::delete_clsact(index)),
            false => Ok(()),
        }
    }

    /// Unloads the programs of a start that failed before anything was attached.
    fn unload(&self) {
        for qdisc in &self.qdiscs {
            let _ = remove(&self.record.pins().join(qdisc.kind()));
        }
        // It stays if another's pins are in it.
        let _ = fs::remove_dir(self.record.pins());
    }

    /// `former` is that of a process that was killed, whose packets leave first.
    fn attach(
        &mut self,
        plans: &[(Plan, Beside)],
        had_ingress: bool,
        former: Option<&Self>,
    ) -> Result<(), BpfError> {
        let system = |what: &'static str| move |source| BpfError::System { what, source };
        let index = self.record.index;
        let pins = self.record.pins();
        for (n, (plan, beside)) in plans.iter().enumerate() {
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
            let qdisc = match plan {
                Plan::Bpf(_) => Found::new(self.qdiscs[n].kind(), ROOT),
                Plan::Cake(cake) => cake.qdisc(),
            };
            if let Some(former) = former {
                former.let_go(half.status.direction);
            }
            // First, so that the qdisc's first packet has its user; one that is replaced believes no stamp of this program.
            half.status.nat = beside.attach(half.index, &pins.join(&half.status.qdisc));
            netlink::attach(half.index, &qdisc).map_err(|error| {
                match (plan, error.kind()) {
                    // No such kind, and no such module.
                    (Plan::Cake(_), io::ErrorKind::NotFound) => BpfError::NoCake,
                    _ => system("putting the qdisc in place")(error),
                }
            })?;
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
            self.let_go_what_comes()
                .map_err(system("letting go what comes"))?;
            // One that stays costs next to nothing.
            let _ = self.remove_clsact();
        }
        self.record.write(&self.file)
    }

    /// Removes the pins of the kinds that ours replaced.
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

/// A missing object needs no removal.
fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENODEV | libc::ENOENT | libc::EINVAL)
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// The ifb device of the interface with this number.
fn ifb(index: u32) -> String {
    format!("mwifb{index}")
}

fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
