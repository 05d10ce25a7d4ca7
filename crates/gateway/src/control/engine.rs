// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holder of the packets of an instance: datapaths of this process, or the kernel.

use makeway_core::sched::Discipline;
use makeway_core::ticket::TicketRate;
use makeway_core::units::Rate;

use super::interface::Interface;
use super::place::Place;
use super::protocol::{Backend, DirectionStatus, Settings};
use super::settings::{applied, check_change, mtu};
use super::watchdog::MOST_MISSED;
use super::{UpConfig, UpError};
use crate::bpf::{BpfError, Plan, Shaped};
use crate::datapath::Traffic;
use crate::datapath::{Change, Datapath, DatapathConfig, DatapathHandle, Leaving};
use crate::rules::{self, Direction, Rules};

/// Most flows that are told of a direction, those with the largest backlogs.
const MOST_FLOWS: usize = 1024;
/// The first number tried for a packet queue: "MW", out of the way of people's own small numbers.
const FIRST_QUEUE: u16 = 0x4d57;

#[derive(Debug)]
pub(super) enum Engine {
    Kernel(Shaped),
    Queues {
        running: Vec<Running>,
        /// Why it is not the kernel; empty if that was not asked for.
        why: String,
    },
}

/// One direction. The rules come first, so that nothing new comes to a datapath that ends.
#[derive(Debug)]
pub(super) struct Running {
    rules: Rules,
    datapath: DatapathHandle,
    direction: Direction,
    /// As it is now.
    config: DatapathConfig,
    /// As it was started: its tables are of that size.
    started: DatapathConfig,
    /// The last sign of life that was seen, and the looks since.
    beat: u64,
    missed: u32,
}

impl Engine {
    /// Cleans up after a killed instance and starts. A qdisc in the kernel is replaced at once.
    pub fn start(config: UpConfig, interface: &Interface, place: &Place) -> Result<Self, UpError> {
        for direction in Direction::BOTH {
            rules::remove(&interface.name, direction)?;
        }
        let why = match config.backend {
            Backend::Nfqueue => String::new(),
            // A discipline that was asked for is never another one: `auto` takes cake for cake alone.
            Backend::Auto if is_cake(&config) => {
                match in_the_kernel(Backend::Cake, &config, interface, place) {
                    Ok(shaped) => return Ok(Self::Kernel(shaped)),
                    Err(error) => error.to_string(),
                }
            }
            backend => match in_the_kernel(backend, &config, interface, place) {
                Ok(shaped) => return Ok(Self::Kernel(shaped)),
                Err(error) if backend != Backend::Auto => return Err(error.into()),
                Err(error) => error.to_string(),
            },
        };
        if let Some(left) = Shaped::open(place)? {
            let (_, failed) = left.end();
            if !failed.is_empty() {
                return Err(UpError::Left {
                    interface: interface.name.clone(),
                    what: failed.join("; "),
                });
            }
        }
        let directions = config.directions.into_iter();
        let running = directions
            .map(|(direction, config)| Running::start(&interface.name, direction, config));
        Ok(Self::Queues {
            running: running.collect::<Result<_, _>>()?,
            why,
        })
    }

    pub fn backend(&self) -> Backend {
        match self {
            Self::Kernel(shaped) => shaped.backend(),
            Self::Queues { .. } => Backend::Nfqueue,
        }
    }

    /// Why it is not the kernel, where it might have been.
    pub fn why(&self) -> String {
        match self {
            Self::Kernel(_) => String::new(),
            Self::Queues { why, .. } => why.clone(),
        }
    }

    /// The tool that made the rules.
    pub fn rules(&self) -> String {
        match self {
            Self::Kernel(_) => String::new(),
            Self::Queues { running, .. } => {
                let first = running.first();
                first.map(|one| one.rules.tool()).unwrap_or_default()
            }
        }
    }

    /// Looks whether it is all at work, as is to be done a few times a second.
    ///
    /// # Errors
    /// The missing part.
    pub fn check(&mut self) -> Result<(), String> {
        match self {
            Self::Kernel(shaped) => shaped.check(),
            Self::Queues { running, .. } => running.iter_mut().try_for_each(Running::check),
        }
    }

    /// Each direction, with its counters so far.
    pub fn directions(&self) -> Result<Vec<DirectionStatus>, String> {
        match self {
            Self::Kernel(shaped) => shaped.directions().map_err(|error| error.to_string()),
            Self::Queues { running, .. } => running.iter().map(Running::status).collect(),
        }
    }

    /// Traffic of each direction so far, at little cost.
    pub fn traffic(&self) -> Result<Vec<Traffic>, String> {
        match self {
            Self::Kernel(shaped) => shaped.traffic().map_err(|error| error.to_string()),
            Self::Queues { running, .. } => {
                let each = running.iter();
                Ok(each
                    .map(|one| one.datapath.traffic(one.direction))
                    .collect())
            }
        }
    }

    /// Changes every direction, or none. `alive` is called some times a second where it takes long.
    pub fn set(
        &mut self,
        interface: &str,
        settings: &Settings,
        alive: &mut dyn FnMut(),
    ) -> Result<(), String> {
        match self {
            Self::Kernel(shaped) => set_in_the_kernel(shaped, interface, settings, alive),
            Self::Queues { running, .. } => set(running, interface, settings),
        }
    }

    /// Ends it: the last counters, and what went wrong.
    pub fn end(self) -> (Vec<DirectionStatus>, Vec<String>) {
        let running = match self {
            Self::Kernel(shaped) => return shaped.end(),
            Self::Queues { running, .. } => running,
        };
        // All rules first: what is let go in one direction draws answers in the other.
        let (rules, rest): (Vec<_>, Vec<_>) = running
            .into_iter()
            .map(|one| (one.rules, (one.direction, one.config, one.datapath)))
            .unzip();
        let (mut directions, mut failed) = (Vec::new(), Vec::new());
        let removed = rules.into_iter().map(Rules::remove);
        failed.extend(removed.filter_map(|done| done.err().map(|error| error.to_string())));
        for (direction, config, datapath) in rest {
            let mut status = describe(direction, &config);
            status.queue = datapath.queue_num();
            match datapath.stop() {
                Ok(stats) => directions.push(DirectionStatus { stats, ..status }),
                Err(error) => failed.push(error.to_string()),
            }
        }
        (directions, failed)
    }
}

fn is_cake(config: &UpConfig) -> bool {
    let mut all = config.directions.iter();
    all.all(|(_, one)| one.spec.discipline() == Discipline::Cake)
}

fn in_the_kernel(
    backend: Backend,
    config: &UpConfig,
    interface: &Interface,
    place: &Place,
) -> Result<Shaped, BpfError> {
    let directions = config.directions.iter().map(|(direction, config)| {
        let mut status = describe(*direction, config);
        status.stats.discipline = Some(config.spec.discipline());
        Ok((*direction, status, Plan::of(backend, *direction, config)?))
    });
    let directions = directions.collect::<Result<_, BpfError>>()?;
    Shaped::start(interface, place, directions)
}

/// Changes what the kernel shapes.
pub(super) fn set_in_the_kernel(
    shaped: &mut Shaped,
    interface: &str,
    settings: &Settings,
    alive: &mut dyn FnMut(),
) -> Result<(), String> {
    if settings.tickets.is_some() {
        return Err(format!(
            "makeway on {interface} trades no tickets: the kernel writes none"
        ));
    }
    let rates = settings.rates(interface, |one| shaped.shapes(one))?;
    if settings.is_of_rates() {
        let mut all = rates.into_iter();
        let set = all.try_for_each(|(direction, rate)| shaped.set_rate(direction, rate));
        return set.map_err(|error| error.to_string());
    }
    let mtu = mtu(settings, interface)?;
    let now = shaped.configs().map_err(|error| error.to_string())?;
    let new = now.into_iter().map(|(direction, now)| {
        let rate = of_direction(&rates, direction);
        Ok((direction, applied(settings, &now, rate, mtu)?))
    });
    let new = new.collect::<Result<Vec<_>, String>>()?;
    shaped.set(&new, alive).map_err(|error| error.to_string())
}

fn of_direction(rates: &[(Direction, Rate)], direction: Direction) -> Option<Rate> {
    let of = rates.iter().find(|(one, _)| *one == direction);
    of.map(|(_, rate)| *rate)
}

fn set(running: &mut [Running], interface: &str, settings: &Settings) -> Result<(), String> {
    let shapes = |direction| running.iter().any(|one| one.direction == direction);
    let rates = settings.rates(interface, shapes)?;
    let tickets = settings.tickets.map(|n| {
        let relabels = |one: &Running| matches!(one.config.tags.leaving, Leaving::Relabel(_));
        match TicketRate::new(n) {
            None => Err(format!("tickets={n} is not from 1 to {}", TicketRate::MOST)),
            Some(_) if !running.iter().any(relabels) => Err(format!(
                "makeway on {interface} trades no tickets: start it again with --tickets"
            )),
            Some(rate) => Ok(rate),
        }
    });
    let tickets = tickets.transpose()?;
    let mtu = mtu(settings, interface)?;
    // All that can be refused is, before anything changes.
    let new = running.iter().map(|one| {
        let rate = of_direction(&rates, one.direction);
        let new = applied(settings, &one.config, rate, mtu)?;
        check_change(&one.started, &one.config, &new).map(|()| new)
    });
    let new = new.collect::<Result<Vec<_>, String>>()?;
    let mut all = running.iter_mut().zip(new);
    all.try_for_each(|(one, new)| one.change(new, tickets))
}

impl Running {
    fn start(
        interface: &str,
        direction: Direction,
        mut config: DatapathConfig,
    ) -> Result<Self, UpError> {
        config.queue_num = FIRST_QUEUE;
        config.any_queue = true;
        let datapath = Datapath::spawn(config.clone())?;
        let rules = Rules::install(interface, direction, datapath.queue_num())?;
        datapath.mark_by(&rules)?;
        Ok(Self {
            rules,
            beat: datapath.beat(),
            missed: 0,
            datapath,
            direction,
            started: config.clone(),
            config,
        })
    }

    /// Settings that were checked.
    fn change(&mut self, new: DatapathConfig, tickets: Option<TicketRate>) -> Result<(), String> {
        let now = &self.config;
        let reframed = now.framing != new.framing && new.spec.needs().framing;
        let change = Change {
            rate: (now.rate != new.rate).then_some(new.rate),
            spec: (reframed || now.spec != new.spec).then(|| new.spec.clone()),
            limits: (now.limits != new.limits).then_some(new.limits),
            framing: (now.framing != new.framing).then_some(new.framing),
            weights: (now.weights != new.weights).then(|| new.weights.clone()),
            tickets,
            ..Change::default()
        };
        let changed = self.datapath.set(change);
        changed.map_err(|error| error.to_string())?;
        self.config = new;
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        if !self.datapath.is_running() {
            return Err("its datapath has ended".into());
        }
        let beat = self.datapath.beat();
        self.missed = if beat == self.beat {
            self.missed + 1
        } else {
            0
        };
        self.beat = beat;
        match self.missed < MOST_MISSED {
            true => Ok(()),
            false => Err(format!(
                "its {} datapath stands still",
                self.direction.name()
            )),
        }
    }

    fn status(&self) -> Result<DirectionStatus, String> {
        let stats = self.datapath.largest(MOST_FLOWS);
        Ok(DirectionStatus {
            queue: self.datapath.queue_num(),
            stats: stats.map_err(|error| error.to_string())?,
            ..describe(self.direction, &self.config)
        })
    }
}

/// The settings, without counters.
fn describe(direction: Direction, config: &DatapathConfig) -> DirectionStatus {
    let mut status = DirectionStatus {
        direction,
        ..DirectionStatus::default()
    };
    status.describe(config);
    status
}
