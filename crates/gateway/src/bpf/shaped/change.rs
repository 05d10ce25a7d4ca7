// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of an interface that the kernel shapes, of all its directions or of none: in the maps of its qdiscs where they take
//! them, else by other qdiscs.
//!
//! Another qdisc is loaded beside the one that runs, and takes over with its counters once that one holds no packet any more: until then, for
//! [`PATIENCE`] at most, it limits no rate. A packet that comes in the moment in which the kernel exchanges the two is lost: in dev_deactivate
//! (net/sched/sch_generic.c) the device has a qdisc that drops, for any exchange at the root.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use makeway_core::units::Rate;

use super::load::{Loaded, Loader};
use super::{Held, Shaped};
use crate::bpf::netlink::{self, Found, ROOT};
use crate::bpf::pins::remove;
use crate::bpf::record::Half;
use crate::bpf::{BpfError, Cake, Config, Qdisc, program, stats};
use crate::datapath::DatapathConfig;
use crate::rules::Direction;

/// For how long a qdisc that is replaced may let its packets go. It sees within 100 ms that its rate is gone.
const PATIENCE: Duration = Duration::from_millis(250);

/// A change of a direction: the settings that it has, and those that it is to have.
#[derive(Debug)]
enum How {
    Maps(Box<[Config; 2]>),
    Another(Box<[Config; 2]>),
    Cake([Cake; 2]),
}

/// A change that was made, to be taken back if another one fails.
enum Done<'a> {
    Written(&'a How),
    /// The qdisc that was replaced, and its rate.
    Replaced(Held, Option<Rate>),
}

impl Shaped {
    /// Settings of each direction, egress first.
    ///
    /// # Errors
    /// If the kernel does not say, or an older version started it.
    pub(crate) fn configs(&self) -> Result<Vec<(Direction, DatapathConfig)>, BpfError> {
        let rates = self.traffic()?.into_iter().map(|traffic| traffic.rate);
        let halves = self.record.directions.iter().zip(rates);
        let configs = halves.map(|(half, rate)| {
            let rate = Some(rate).filter(|rate| *rate > Rate::from_bps(0));
            let config = half.config(rate);
            let unknown = || BpfError::NoSettings(self.record.interface.clone());
            Ok((half.status.direction, config.ok_or_else(unknown)?))
        });
        configs.collect()
    }

    /// Changes the settings of the directions to these, which are in the order of [`Shaped::configs`]. `alive` is called some times a second
    /// while another qdisc is loaded.
    ///
    /// # Errors
    /// If one of them cannot be, or the kernel refuses; then all is as it was.
    pub(crate) fn set(
        &mut self,
        new: &[(Direction, DatapathConfig)],
        alive: &mut dyn FnMut(),
    ) -> Result<(), BpfError> {
        let now = self.configs()?;
        let changes = now.iter().zip(new).enumerate();
        let hows = changes.map(|(n, (now, new))| self.how(n, now, new));
        // Everything that can be refused is, before anything changes; and programs are loaded.
        let hows = hows.collect::<Result<Vec<_>, BpfError>>()?;
        let others = self.load_others(&hows, alive)?;
        let before = self.record.clone();
        let mut done = Vec::new();
        let changed = self.make(&hows, others, new, &mut done);
        match changed {
            Ok(()) => self.forget_others(),
            Err(_) => {
                // The first error is the one to tell.
                for (n, one) in done.into_iter().enumerate().rev() {
                    let _ = self.take_back(n, one);
                }
                self.record = before;
                let _ = self.record.write(&self.file);
                self.forget_others();
            }
        }
        changed
    }

    fn how(
        &self,
        n: usize,
        (direction, now): &(Direction, DatapathConfig),
        (_, new): &(Direction, DatapathConfig),
    ) -> Result<How, BpfError> {
        let qdisc = match &self.qdiscs[n] {
            Held::Cake if now.limits != new.limits => {
                return Err(BpfError::NotInCake("a limit".into()));
            }
            Held::Cake => {
                let [from, to] = [now, new].map(|config| Cake::of(config, *direction));
                return Ok(How::Cake([from?, to?]));
            }
            Held::Bpf(qdisc) => qdisc,
        };
        let (from, to) = (Config::of(now)?, Config::of(new)?);
        program(to.spec.discipline())?;
        let is_taken = qdisc.takes(&from, &to)?;
        let is_in_place = self.is_in_place(n, qdisc)?;
        let both = Box::new([from, to]);
        Ok(match is_taken && is_in_place {
            true => How::Maps(both),
            false => How::Another(both),
        })
    }

    /// Whether the device of a direction has its qdisc; not if a change was killed before it was written down.
    fn is_in_place(&self, n: usize, qdisc: &Qdisc) -> Result<bool, BpfError> {
        let half = &self.record.directions[n];
        let what = "the qdiscs of the device";
        let all = netlink::qdiscs(half.index);
        let all = all.map_err(|source| BpfError::System { what, source })?;
        match all.into_iter().find(Found::is_root) {
            Some(root) if root.kind != qdisc.kind() && !root.is_ours() => Err(BpfError::Replaced {
                interface: self.record.interface.clone(),
                device: half.status.device.clone(),
                kind: root.kind,
            }),
            root => Ok(root.is_none_or(|root| root.kind == qdisc.kind())),
        }
    }

    /// A qdisc of each direction that takes another one, on a thread: the verifier takes a slow processor some seconds.
    fn load_others(
        &self,
        hows: &[How],
        alive: &mut dyn FnMut(),
    ) -> Result<Vec<Option<Loaded>>, BpfError> {
        if !hows.iter().any(|how| matches!(how, How::Another(_))) {
            return Ok(hows.iter().map(|_| None).collect());
        }
        let (pins, halves) = (self.record.pins(), &self.record.directions);
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("load".into());
            let loading = builder.spawn_scoped(scope, || load_all(&pins, halves, hows));
            let loading = loading.map_err(|source| BpfError::System {
                what: "a thread to load another qdisc",
                source,
            })?;
            while !loading.is_finished() {
                alive();
                thread::sleep(Duration::from_millis(50));
            }
            let loaded = loading.join();
            loaded.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Makes all changes; those that are made are in `done`, in the order of the directions.
    fn make<'a>(
        &mut self,
        hows: &'a [How],
        others: Vec<Option<Loaded>>,
        new: &[(Direction, DatapathConfig)],
        done: &mut Vec<Done<'a>>,
    ) -> Result<(), BpfError> {
        for (n, (how, other)) in hows.iter().zip(others).enumerate() {
            done.push(match (how, other) {
                (How::Another(both), Some(other)) => {
                    let rate = both[0].rate;
                    Done::Replaced(self.exchange(n, other, rate)?, rate)
                }
                _ => {
                    self.write(n, how, false)?;
                    Done::Written(how)
                }
            });
            let (_, config) = &new[n];
            let status = &mut self.record.directions[n].status;
            status.describe(config);
            status.stats.discipline = Some(config.spec.discipline());
            // If this process is killed before, a later one finds the old settings here, and on the device another qdisc of ours.
            self.record.write(&self.file)?;
        }
        Ok(())
    }

    /// Puts `new` on the device of a direction instead of its qdisc, which has had `rate`; the old one.
    fn exchange(&mut self, n: usize, new: Loaded, rate: Option<Rate>) -> Result<Held, BpfError> {
        let Held::Bpf(old) = &self.qdiscs[n] else {
            return Err(BpfError::NotInCake("another discipline".into()));
        };
        let Loaded { qdisc: new, beside } = new;
        // If this process is killed while packets leave without a rate, a later one finds it here.
        self.record.directions[n].status.stats.rate_bps = rate.map(Rate::bps);
        self.record.write(&self.file)?;
        let index = self.record.directions[n].index;
        let folder = self.record.pins().join(new.kind());
        let put = drain(old).and_then(|()| {
            // The one that is replaced believes no stamp of this program, unless both have the same.
            let nat = beside.attach(index, &folder);
            let what = "putting the other qdisc in place";
            let attached = netlink::attach(index, &Found::new(new.kind(), ROOT));
            attached.map_err(|source| BpfError::System { what, source })?;
            Ok(nat)
        });
        let nat = put.inspect_err(|_| {
            // The first error is the one to tell.
            let _ = old.set_rate(rate);
        })?;
        // Its last counters: those of packets that it did not let go in time, too.
        let status = &mut self.record.directions[n].status;
        if let Ok(last) = stats::stats(old, super::now()) {
            status.stats = stats::counters(stats::after(last, &status.stats));
        }
        status.qdisc = new.kind().into();
        status.nat = nat;
        Ok(std::mem::replace(&mut self.qdiscs[n], Held::Bpf(new)))
    }

    fn take_back(&mut self, n: usize, done: Done<'_>) -> Result<(), BpfError> {
        match done {
            Done::Written(how) => self.write(n, how, true),
            Done::Replaced(old, rate) => {
                let index = self.record.directions[n].index;
                let rated = match &old {
                    Held::Bpf(old) => old.set_rate(rate),
                    Held::Cake => Ok(()),
                };
                let attached = netlink::attach(index, &Found::new(old.kind(), ROOT));
                self.qdiscs[n] = old;
                let what = "putting the former qdisc back";
                rated.and(attached.map_err(|source| BpfError::System { what, source }))
            }
        }
    }

    /// Writes a change to maps or to cake, or takes it back.
    fn write(&self, n: usize, how: &How, back: bool) -> Result<(), BpfError> {
        match (how, &self.qdiscs[n]) {
            (How::Maps(both), Held::Bpf(qdisc)) => {
                let [from, to] = &**both;
                match back {
                    false => qdisc.set(from, to),
                    true => qdisc.set(to, from),
                }
            }
            (How::Cake([from, to]), Held::Cake) => {
                let cake = if back { from } else { to };
                let changed = netlink::change(self.record.directions[n].index, &cake.qdisc());
                let what = "the settings of cake";
                changed.map_err(|source| BpfError::System { what, source })
            }
            // Each is of its own kind of qdisc.
            _ => Ok(()),
        }
    }

    /// Lets the packets of a direction go, before its qdisc is replaced.
    pub(super) fn let_go(&self, direction: Direction) {
        for (half, held) in self.record.directions.iter().zip(&self.qdiscs) {
            if let Held::Bpf(qdisc) = held
                && half.status.direction == direction
            {
                // One that cannot be asked has none, or loses them.
                let _ = drain(qdisc);
            }
        }
    }
}

/// Loads the qdisc of each change that takes another one; if one cannot be loaded, none stays.
fn load_all(pins: &Path, halves: &[Half], hows: &[How]) -> Result<Vec<Option<Loaded>>, BpfError> {
    let mut loader = Loader::new(pins);
    let mut all: Vec<Option<Loaded>> = Vec::new();
    for (half, how) in halves.iter().zip(hows) {
        let other = match how {
            How::Another(both) => Some(loader.load(&both[1], half.status.direction)),
            How::Maps(_) | How::Cake(_) => None,
        };
        match other.transpose() {
            Ok(other) => all.push(other),
            Err(error) => {
                for one in all.iter().flatten() {
                    let _ = remove(&pins.join(one.qdisc.kind()));
                }
                return Err(error);
            }
        }
    }
    Ok(all)
}

/// Takes the rate away and waits until no packet is held, no longer than [`PATIENCE`].
fn drain(qdisc: &Qdisc) -> Result<(), BpfError> {
    qdisc.set_rate(None)?;
    let end = Instant::now() + PATIENCE;
    while qdisc.held()? > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
