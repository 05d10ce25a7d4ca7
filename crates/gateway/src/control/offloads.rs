// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offloads of an interface that make a qdisc in the kernel coarser, or lead past it.

use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::interface;
use super::protocol::{Backend, DirectionStatus};
use crate::tool;

// linux/ethtool.h
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGRO: u32 = 0x2b;

/// The largest packet that merging makes (`GSO_LEGACY_MAX_SIZE`), in bits.
const MERGED: f64 = 65_536.0 * 8.0;
/// Time of a packet on the link above which a warning is given, in seconds: 5 ms, chosen by us.
const COARSE: f64 = 0.005;

/// How long a status request waits for them.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long nft may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Lifetime of cached warnings: `makeway watch` asks four times a second.
const FRESH: Duration = Duration::from_secs(10);

/// The warnings of an interface. They are looked for on a thread of their own: a driver or a tool may hang.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    latest: Vec<String>,
    /// When the looking began.
    since: Option<Instant>,
    looking: Option<Receiver<Vec<String>>>,
}

impl Warnings {
    /// Sentences, each with what to do; those of before where it takes too long.
    pub fn of(
        &mut self,
        interface: &str,
        backend: Backend,
        directions: &[DirectionStatus],
    ) -> Vec<String> {
        self.look(|| {
            let interface = interface.to_owned();
            // cake splits merged packets by itself.
            let directions = match backend {
                Backend::Cake => Vec::new(),
                _ => directions.to_vec(),
            };
            move || warnings(&interface, &directions)
        })
    }

    fn look<F>(&mut self, make: impl FnOnce() -> F) -> Vec<String>
    where
        F: FnOnce() -> Vec<String> + Send + 'static,
    {
        let is_fresh = self.since.is_some_and(|since| since.elapsed() < FRESH);
        if self.looking.is_none() && !is_fresh {
            let (found, looking) = mpsc::channel();
            let look = make();
            let thread = thread::Builder::new().name("warnings".into());
            // Without a thread there is nothing to warn of this time.
            let _ = thread.spawn(move || found.send(look()));
            self.since = Some(Instant::now());
            self.looking = Some(looking);
            self.take(PATIENCE);
        }
        self.take(Duration::ZERO);
        self.latest.clone()
    }

    fn take(&mut self, wait: Duration) {
        let Some(looking) = &self.looking else {
            return;
        };
        match looking.recv_timeout(wait) {
            Ok(found) => {
                self.latest = found;
                self.looking = None;
            }
            Err(RecvTimeoutError::Disconnected) => self.looking = None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn warnings(interface: &str, directions: &[DirectionStatus]) -> Vec<String> {
    let mut warnings = Vec::new();
    for one in directions {
        let Some(rate) = one
            .stats
            .rate_bps
            .filter(|rate| MERGED / *rate as f64 > COARSE)
        else {
            continue;
        };
        let ingress = one.device != interface;
        let merging = merging(interface, ingress);
        if !merging.is_empty() {
            let commands: Vec<_> = merging
                .iter()
                .map(|(name, what)| format!("`ethtool -K {name} {what}`"))
                .collect();
            warnings.push(format!(
                "a packet that offloads merged, of up to 64 kB, takes {:.0} ms at the rate of the {}, and nothing goes between its parts: {}",
                MERGED / rate as f64 * 1e3,
                if ingress { "download" } else { "upload" },
                commands.join(", ")
            ));
        }
    }
    for name in offloaded(&listed(), interface) {
        warnings.push(format!(
            "the flowtable {name} of nftables has {interface} and `flags offload`: connections that the hardware forwards go past every queue of the kernel: take the flag away"
        ));
    }
    warnings
}

/// All flowtables with their devices, as nft lists them.
fn listed() -> String {
    let listed = tool::find("nft").and_then(|nft| {
        let mut list = Command::new(nft);
        tool::run(list.args(["list", "flowtables"]), b"", LIMIT).ok()
    });
    listed.map_or_else(String::new, |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

/// The flowtables that forward connections of the interface, in software or in hardware.
pub(super) fn flowtables(interface: &str) -> Vec<String> {
    of_interface(&listed(), interface, "")
}

/// The interfaces that merge packets on their way here, and what to switch off: what comes is merged by the interface
/// itself; egress, by those that it came by, or by this one for connections of this machine.
fn merging(interface: &str, ingress: bool) -> Vec<(String, &'static str)> {
    let Ok(socket) = interface::socket() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in interface::names() {
        // Ours, or without packets of others.
        if name == "lo" || name.starts_with("mwifb") {
            continue;
        }
        let (setting, what) = match (name == interface, ingress) {
            (false, true) => continue,
            (true, false) => (ETHTOOL_GTSO, "tso off gso off"),
            _ => (ETHTOOL_GGRO, "gro off"),
        };
        if interface::ethtool(&socket, &name, setting).is_ok_and(|value| value != 0) {
            found.push((name, what));
        }
    }
    found
}

/// The flowtables of `nft list flowtables` that hand connections of the interface to hardware.
fn offloaded(listed: &str, interface: &str) -> Vec<String> {
    of_interface(listed, interface, "flags offload")
}

/// The flowtables with the interface and these words.
fn of_interface(listed: &str, interface: &str, words: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in listed.split("flowtable ").skip(1) {
        let Some((name, body)) = part.split_once('{') else {
            continue;
        };
        let word = |wanted: &str| {
            body.split(|c: char| c.is_whitespace() || ",;{}\"".contains(c))
                .any(|word| word == wanted)
        };
        if word(interface) && body.contains(words) {
            found.push(name.trim().into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use makeway_testing::{PATIENT, in_real_time_within_or};
    use makeway_vm::again;

    use super::*;

    #[test]
    fn a_flowtable_is_named_if_hardware_forwards_for_the_interface() {
        let listed = "table inet filter {\n\tflowtable fast {\n\t\thook ingress priority filter\n\t\tdevices = { lan0, \"wan0\" }\n\t\tflags offload\n\t}\n\tflowtable slow {\n\t\thook ingress priority filter\n\t\tdevices = { wan0 }\n\t}\n}\n";
        assert_eq!(offloaded(listed, "wan0"), ["fast"]);
        assert_eq!(offloaded(listed, "wan"), [""; 0]);
        assert_eq!(offloaded("", "wan0"), [""; 0]);
        assert_eq!(of_interface(listed, "wan0", ""), ["fast", "slow"]);
    }

    #[test]
    fn a_driver_that_hangs_holds_up_nobody_twice_and_is_asked_once() {
        let this =
            "control::offloads::tests::a_driver_that_hangs_holds_up_nobody_twice_and_is_asked_once";
        in_real_time_within_or(PATIENT, a_driver_that_hangs, || {
            again(&format!("--exact {this}"), &[])
        });
    }

    fn a_driver_that_hangs() {
        let mut warnings = Warnings::default();
        let (go, hang) = mpsc::channel::<()>();
        let begin = Instant::now();
        let said = warnings.look(|| {
            move || {
                let _ = hang.recv();
                vec!["late".into()]
            }
        });
        assert!(said.is_empty());
        assert!(begin.elapsed() < LIMIT);
        let again = || -> fn() -> Vec<String> { panic!("asked again") };
        let begin = Instant::now();
        for _ in 0..100 {
            assert!(warnings.look(again).is_empty());
        }
        assert!(begin.elapsed() < PATIENCE);
        drop(go);
        while warnings.look(again) != ["late"] {
            assert!(begin.elapsed() < FRESH);
        }
    }

    #[test]
    fn a_packet_of_64_kb_is_worth_a_word_at_20_mbit_and_not_at_200() {
        let takes = |rate: f64| MERGED / rate;
        assert!((takes(20e6) - 0.0262).abs() < 1e-4);
        assert!(takes(20e6) > COARSE && takes(200e6) < COARSE);
    }
}
