// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of this machine and of interfaces, one by one: the faults that keep makeway from working, each with its repair.
//!
//! A check changes nothing that stays: it takes a packet queue or loads a qdisc to see whether it can, and lets go at once.

mod machine;
mod nat;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use makeway_core::sched::Discipline;
use makeway_core::units::Rate;
use serde::Serialize;

use super::client::{self, AskError};
use super::interface::{self, Interface};
use super::protocol::{Backend, DirectionStatus, Status};
use super::{offloads, privilege};
use crate::bpf;
use crate::datapath::reason;
use crate::rules::{self, Direction};

/// Time over which packets are counted.
const COUNTED: Duration = Duration::from_secs(1);
/// Packets of a device in that time from which on makeway must have seen some: 20, chosen by us. Fewer may be no IP packets.
const SOME: u64 = 20;
/// Qdiscs that delay packets by themselves.
const SHAPERS: [&str; 8] = [
    "cake", "cake_mq", "cbq", "hfsc", "htb", "netem", "plug", "tbf",
];

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing to do.
    Good,
    /// It works, and could work better.
    Warning,
    /// It keeps makeway from working.
    Fault,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name: `privilege`, `qdiscs`, `cake`, `ifb`, `packet-queue`, `rules-tool`, `interface`, `running`, `rules`, `qdisc`, `settings`, `shaper`,
    /// `offloads`, `line-rate`, `losses`, `counters`, `nat`.
    pub check: &'static str,
    /// The interface, for a check of one.
    pub interface: Option<String>,
    /// Result.
    pub state: State,
    /// State of the thing, in a sentence.
    pub found: String,
    /// Repair; empty if none is needed.
    pub repair: String,
}

impl Finding {
    /// A check of the machine with nothing to do.
    pub fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            interface: None,
            state: State::Good,
            found: found.into(),
            repair: String::new(),
        }
    }

    /// One that has something to do.
    pub fn bad(
        check: &'static str,
        state: State,
        found: impl Into<String>,
        repair: impl Into<String>,
    ) -> Self {
        Self {
            state,
            repair: repair.into(),
            ..Self::good(check, found)
        }
    }

    /// An error of ours, which names the fault, then the repair.
    fn of_error(check: &'static str, state: State, error: &impl ToString) -> Self {
        let error = error.to_string();
        let (found, repair) = error.split_once(": ").unwrap_or((&error, ""));
        Self::bad(check, state, found, repair)
    }

    fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.into());
        self
    }
}

/// The settings that an interface should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub interface: String,
    /// Egress rate; `None`: unshaped.
    pub upload: Option<Rate>,
    /// Ingress rate; `None`: unshaped.
    pub download: Option<Rate>,
    /// The discipline; `None`: any.
    pub discipline: Option<Discipline>,
    /// Holder of the packets.
    pub backend: Backend,
    /// Whether the service has it from its file.
    pub in_file: bool,
    /// Whether the service has a file, with this interface or without.
    pub has_file: bool,
    /// Whether its rates follow the link.
    pub autorate: bool,
}

impl Wanted {
    /// An interface on which nothing is asked for.
    pub fn nothing(interface: &str) -> Self {
        Self {
            interface: interface.into(),
            upload: None,
            download: None,
            discipline: None,
            backend: Backend::Auto,
            in_file: false,
            has_file: false,
            autorate: false,
        }
    }

    /// Intention that all stays as it is.
    pub fn of(status: &Status) -> Self {
        let rate = |direction| {
            let mut all = status.directions.iter();
            let one = all.find(|one| one.direction == direction);
            one.and_then(|one| one.stats.rate_bps).map(Rate::from_bps)
        };
        Self {
            interface: status.interface.clone(),
            upload: rate(Direction::Egress),
            download: rate(Direction::Ingress),
            discipline: None,
            backend: status.backend,
            in_file: false,
            has_file: false,
            autorate: status.autorate.is_some(),
        }
    }

    fn rate(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::Egress => self.upload,
            Direction::Ingress => self.download,
        }
    }

    fn start_again(&self) -> String {
        match self.in_file {
            true => "systemctl restart makeway".into(),
            false => format!(
                "makeway down {0}, then makeway up {0} again",
                self.interface
            ),
        }
    }
}

/// Checks the machine, then each interface.
pub fn examine(all: &[Wanted]) -> Vec<Finding> {
    let name = all.first().map_or("wan0", |one| &one.interface);
    if let Err(error) = privilege::check(name) {
        return vec![Finding::of_error("privilege", State::Fault, &error)];
    }
    let mut found = vec![Finding::good("privilege", "CAP_NET_ADMIN is there")];
    found.extend(machine::check(all));
    let begin = Instant::now();
    let before: Vec<_> = all.iter().map(|one| Counted::now(&one.interface)).collect();
    let each: Vec<_> = all.iter().map(check_interface).collect();
    thread::sleep(COUNTED.saturating_sub(begin.elapsed()));
    for ((wanted, before), mut own) in all.iter().zip(before).zip(each) {
        own.extend(counters(wanted, before));
        let name = &wanted.interface;
        found.extend(own.into_iter().map(|one| one.on(name)));
    }
    found
}

fn check_interface(wanted: &Wanted) -> Vec<Finding> {
    let name = &wanted.interface;
    let interface = match Interface::find(name) {
        Ok(interface) => interface,
        Err(error) => return vec![Finding::of_error("interface", State::Fault, &error)],
    };
    let mut found = vec![match interface::is_up(interface.index) {
        Ok(false) => Finding::bad(
            "interface",
            State::Fault,
            format!("{name} is down"),
            format!("ip link set {name} up"),
        ),
        _ => Finding::good("interface", format!("{name} is up, MTU {}", interface.mtu)),
    }];
    found.extend(line_rate(wanted));
    let status = match client::status(name) {
        Ok(status) => status,
        Err(error) => {
            found.push(not_running(wanted, &error));
            found.extend(shaper(&interface, None));
            return found;
        }
    };
    found.push(running(wanted, &status));
    found.extend(way(wanted, &status, &interface));
    found.extend(settings(wanted, &status));
    found.extend(nat::check(wanted, &status));
    found.extend(shaper(&interface, Some(&status)));
    found.extend(offloads_of(&status));
    found.extend(status.directions.iter().filter_map(losses));
    found
}

fn not_running(wanted: &Wanted, error: &AskError) -> Finding {
    let name = &wanted.interface;
    let is_left = |direction| rules::installed(name, direction).unwrap_or(false);
    match error {
        AskError::NotRunning { .. } if Direction::BOTH.into_iter().any(is_left) => Finding::bad(
            "running",
            State::Fault,
            "rules of a makeway are there, and no process: it was killed, or is another user's",
            format!("makeway down {name}"),
        ),
        AskError::NotRunning { .. } if wanted.in_file => Finding::bad(
            "running",
            State::Fault,
            format!("no makeway runs on {name}"),
            "systemctl enable --now makeway; journalctl -u makeway says why it ended",
        ),
        AskError::NotRunning { .. } if wanted.has_file => Finding::bad(
            "running",
            State::Fault,
            format!("no makeway runs on {name}, and the service's file does not name it"),
            format!(
                "write [interface.{}] into the file; `makeway up {name}` shapes it until it ends",
                interface::toml_key(name)
            ),
        ),
        error => Finding::of_error("running", State::Fault, error),
    }
}

fn running(wanted: &Wanted, status: &Status) -> Finding {
    let process = match status.pid {
        0 => "no process".into(),
        pid => format!("process {pid}"),
    };
    if wanted.backend == Backend::Auto && !status.why.is_empty() {
        let found = format!("{process}, packets wait in makeway and not in the kernel");
        return Finding::bad("running", State::Warning, found, &status.why);
    }
    Finding::good("running", format!("{process}, backend {}", status.backend))
}

/// The rules or the qdiscs that lead packets to makeway.
fn way(wanted: &Wanted, status: &Status, interface: &Interface) -> Vec<Finding> {
    let each = status.directions.iter();
    if !status.backend.is_in_the_kernel() {
        return each
            .map(|one| {
                let which = one.direction.name();
                match rules::installed(&status.interface, one.direction) {
                    Ok(false) => Finding::bad(
                        "rules",
                        State::Fault,
                        format!("the {which} rule is gone, as after `nft flush ruleset`: traffic is not shaped"),
                        wanted.start_again(),
                    ),
                    Ok(true) => Finding::good("rules", format!("the {which} rule is there")),
                    Err(error) => Finding::of_error("rules", State::Fault, &error),
                }
            })
            .collect();
    }
    each.map(|one| {
        let index = match one.device == interface.name {
            true => Some(interface.index),
            false => Interface::find(&one.device).ok().map(|device| device.index),
        };
        let root = index.and_then(bpf::root_qdisc);
        match root == Some(one.qdisc.clone()) {
            true => Finding::good("qdisc", format!("{} is on {}", one.qdisc, one.device)),
            false => Finding::bad(
                "qdisc",
                State::Fault,
                format!(
                    "{} has the qdisc {}, and not makeway's {}: traffic is not shaped",
                    one.device,
                    root.unwrap_or_else(|| "none".into()),
                    one.qdisc
                ),
                wanted.start_again(),
            ),
        }
    })
    .collect()
}

/// Rates and discipline, if a file says other ones.
fn settings(wanted: &Wanted, status: &Status) -> Option<Finding> {
    if !wanted.in_file {
        return None;
    }
    let now = Wanted::of(status);
    let shown = |rate: Option<Rate>| rate.map_or("unshaped".into(), |rate| rate.to_string());
    let mut differ = Vec::new();
    // Under autorate the file has the rates to begin with.
    let is_right = |now: Option<Rate>, file: Option<Rate>| match wanted.autorate {
        true => now.is_some() == file.is_some(),
        false => now == file,
    };
    for (what, now, wanted) in [
        ("upload", now.upload, wanted.upload),
        ("download", now.download, wanted.download),
    ] {
        if !is_right(now, wanted) {
            differ.push(format!(
                "{what} is {}, the file has {}",
                shown(now),
                shown(wanted)
            ));
        }
    }
    let discipline = match wanted.backend {
        Backend::Cake => Some(Discipline::Cake),
        _ => wanted.discipline,
    };
    for one in &status.directions {
        if let (Some(now), Some(wanted)) = (one.stats.discipline, discipline)
            && now != wanted
        {
            differ.push(format!(
                "{} is by {now}, the file has {wanted}",
                one.direction.name()
            ));
        }
    }
    Some(match differ.is_empty() {
        true => Finding::good("settings", "as in the file"),
        false => Finding::bad(
            "settings",
            State::Fault,
            differ.join("; "),
            // A change by hand is the file's again after a new start only.
            wanted.start_again(),
        ),
    })
}

/// Another shaper in the way, in front of ours or behind it.
fn shaper(interface: &Interface, status: Option<&Status>) -> Option<Finding> {
    let name = &interface.name;
    let is_ours = status.is_some_and(|status| {
        let mut all = status.directions.iter();
        all.any(|one| one.device == *name)
    });
    let root = bpf::root_qdisc(interface.index).filter(|_| !is_ours);
    let sqm = format!("ifb4{name}");
    if let Some(kind) = root.as_deref().filter(|kind| SHAPERS.contains(kind)) {
        return Some(Finding::bad(
            "shaper",
            State::Fault,
            format!("the root qdisc {kind} of {name} queues by itself"),
            format!(
                "tc qdisc del dev {name} root, and take away what made it (sqm-scripts, wondershaper, tc in a script)"
            ),
        ));
    }
    if interface::names().contains(&sqm) {
        return Some(Finding::bad(
            "shaper",
            State::Fault,
            format!("the device {sqm} is there: sqm-scripts shape the download of {name}"),
            format!("systemctl disable --now sqm@{name}"),
        ));
    }
    root.map(|kind| Finding::good("shaper", format!("no other: the root qdisc is {kind}")))
}

/// A rate above the device's own.
fn line_rate(wanted: &Wanted) -> Option<Finding> {
    let line = interface::speed_bps(&wanted.interface)?;
    for direction in Direction::BOTH {
        let Some(rate) = wanted.rate(direction).filter(|rate| rate.bps() > line) else {
            continue;
        };
        let key = match (direction, wanted.in_file) {
            (Direction::Egress, true) => "upload",
            (Direction::Ingress, true) => "download",
            (Direction::Egress, false) => "--rate",
            (Direction::Ingress, false) => "--down",
        };
        return Some(Finding::bad(
            "line-rate",
            State::Fault,
            format!(
                "{key} is {rate}, the device sends at most {}: the queue is not here",
                Rate::from_bps(line)
            ),
            format!(
                "{key} at 95 % of the slowest link on the path, {} at most; `makeway tune` measures it",
                Rate::from_bps(line / 100 * 95)
            ),
        ));
    }
    Some(Finding::good(
        "line-rate",
        format!(
            "below the device's {}; a slower link behind it is not looked for: `makeway tune`",
            Rate::from_bps(line)
        ),
    ))
}

fn offloads_of(status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    if status.backend.is_in_the_kernel() {
        for warning in &status.warnings {
            found.push(Finding::of_error("offloads", State::Warning, warning));
        }
    } else {
        for table in offloads::flowtables(&status.interface) {
            found.push(Finding::bad(
                "offloads",
                State::Fault,
                format!(
                    "the flowtable {table} of nftables forwards connections past the packet queues"
                ),
                format!(
                    "take {} out of the devices of the flowtable {table}",
                    status.interface
                ),
            ));
        }
    }
    if found.is_empty() {
        found.push(Finding::good("offloads", "none that matters at this rate"));
    }
    found
}

/// Packets that the kernel dropped before makeway read them, if they are more than one in a thousand.
fn losses(one: &DirectionStatus) -> Option<Finding> {
    let of = |reason: &str| one.stats.drops.get(reason).copied().unwrap_or(0);
    let lost = of(reason::KERNEL_QUEUE) + of(reason::KERNEL_SOCKET);
    (lost > one.stats.packets_in / 1000).then(|| {
        Finding::bad(
            "losses",
            State::Warning,
            format!(
                "the kernel dropped {lost} of {} {} packets before makeway read them: this machine does not keep up",
                one.stats.packets_in,
                one.direction.name()
            ),
            "backend = \"bpf\", a lower rate, or less other work on this machine",
        )
    })
}

/// Packets of a device and of the makeway on it.
struct Counted {
    /// Egress, ingress.
    device: [u64; 2],
    seen: [Option<u64>; 2],
}

impl Counted {
    /// `None` if it cannot be counted: no such device, or none runs.
    fn now(name: &str) -> Option<Self> {
        let table = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
        let device = device_packets(&table, name)?;
        let status = client::status(name).ok()?;
        let seen = Direction::BOTH.map(|direction| {
            let mut all = status.directions.iter();
            let one = all.find(|one| one.direction == direction)?;
            // A packet of a backlog counts on the device as it departs.
            Some(match direction {
                Direction::Egress => one.stats.packets_out,
                Direction::Ingress => one.stats.packets_in,
            })
        });
        Some(Self { device, seen })
    }
}

/// Packets sent and received, of `/proc/net/dev`.
fn device_packets(table: &str, name: &str) -> Option<[u64; 2]> {
    let line = table.lines().find_map(|line| {
        let (own, counters) = line.rsplit_once(':')?;
        (own.trim() == name).then_some(counters)
    })?;
    let counters: Vec<u64> = line
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Some([*counters.get(9)?, *counters.get(1)?])
}

/// Packets that the device carried and makeway did not see.
fn counters(wanted: &Wanted, before: Option<Counted>) -> Vec<Finding> {
    let name = &wanted.interface;
    let (Some(before), Some(after)) = (before, Counted::now(name)) else {
        return Vec::new();
    };
    let each = (0..2).filter_map(|n| {
        let seen = after.seen[n]?.checked_sub(before.seen[n]?)?;
        let device = after.device[n].checked_sub(before.device[n])?;
        let way = Direction::BOTH[n].name();
        let counted = format!("{way}: {device} packets on the device, {seen} of them seen by makeway");
        let state = match seen {
            _ if device >= SOME && seen < device / 10 => State::Fault,
            _ if device >= SOME && seen < device / 2 => State::Warning,
            _ => return Some(Finding::good("counters", counted)),
        };
        Some(Finding::bad(
            "counters",
            state,
            counted,
            "name the interface that has the IP packets: the ppp interface over PPPoE, the VLAN's, not the port below; nft list flowtables shows connections that pass it by",
        ))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_device_are_those_of_its_own_line() {
        let table = "Inter-|   Receive                            |  Transmit\n face |bytes    packets errs\n  near: 10 11 0 0 0 0 0 0 20 21 0 0 0 0 0 0\n nearer: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n";
        assert_eq!(device_packets(table, "near"), Some([21, 11]));
        assert_eq!(device_packets(table, "nearer"), Some([4, 2]));
        assert_eq!(device_packets(table, "ear"), None);
    }

    #[test]
    fn an_error_is_a_fault_then_its_repair() {
        let error = rules::RulesError::NoTool;
        let found = Finding::of_error("rules-tool", State::Fault, &error).on("wan0");
        assert_eq!(found.found, "neither nft nor iptables is installed");
        assert_eq!(found.repair, "install the package nftables or iptables");
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(
            (&json["state"], &json["interface"]),
            (&"fault".into(), &"wan0".into())
        );
    }

    #[test]
    fn packets_lost_in_the_kernel_count_from_one_in_a_thousand() {
        let mut one = DirectionStatus::default();
        one.stats.packets_in = 10_000;
        one.stats.drops = [(reason::KERNEL_QUEUE.to_owned(), 10)].into();
        assert_eq!(losses(&one), None);
        one.stats.drops.insert(reason::KERNEL_SOCKET.into(), 1);
        assert!(losses(&one).unwrap().found.contains("11 of 10000 egress"));
    }
}
