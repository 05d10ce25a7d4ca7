// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of an interface's offloads makes a qdisc in the kernel coarser, or leads past it.

use std::path::PathBuf;
use std::process::Command;

use super::interface;
use super::protocol::DirectionStatus;

// linux/ethtool.h
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGRO: u32 = 0x2b;

/// The largest packet that merging makes (`GSO_LEGACY_MAX_SIZE`), in bits.
const MERGED: f64 = 65_536.0 * 8.0;
/// What a packet may take to leave before it is worth a word, in seconds: 5 ms, chosen by us.
const COARSE: f64 = 0.005;

/// Sentences, each with what to do.
pub(super) fn warnings(interface: &str, directions: &[DirectionStatus]) -> Vec<String> {
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
    let nft = Command::new(nft()).args(["list", "flowtables"]).output();
    let flowtables = nft.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    for name in offloaded(&flowtables.unwrap_or_default(), interface) {
        warnings.push(format!(
            "the flowtable {name} of nftables has {interface} and `flags offload`: connections that the hardware forwards go past every queue of the kernel; take the flag away"
        ));
    }
    warnings
}

/// The interfaces that merge packets on their way here, and what to switch off: what comes is merged by the interface
/// itself; what leaves, by those that it came by, or by this one for connections of this machine.
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

/// Where it is: the paths of an ordinary user may lack it.
fn nft() -> PathBuf {
    let places = ["/usr/sbin/nft", "/sbin/nft"].map(PathBuf::from);
    let found = places.into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| "nft".into())
}

/// The flowtables of `nft list flowtables` that hand connections of the interface to hardware.
fn offloaded(listed: &str, interface: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in listed.split("flowtable ").skip(1) {
        let Some((name, body)) = part.split_once('{') else {
            continue;
        };
        let word = |wanted: &str| {
            body.split(|c: char| c.is_whitespace() || ",;{}\"".contains(c))
                .any(|word| word == wanted)
        };
        if word(interface) && body.contains("flags offload") {
            found.push(name.trim().into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flowtable_is_named_if_hardware_forwards_for_the_interface() {
        let listed = "table inet filter {\n\tflowtable fast {\n\t\thook ingress priority filter\n\t\tdevices = { lan0, \"wan0\" }\n\t\tflags offload\n\t}\n\tflowtable slow {\n\t\thook ingress priority filter\n\t\tdevices = { wan0 }\n\t}\n}\n";
        assert_eq!(offloaded(listed, "wan0"), ["fast"]);
        assert_eq!(offloaded(listed, "wan"), [""; 0]);
        assert_eq!(offloaded("", "wan0"), [""; 0]);
    }

    #[test]
    fn a_packet_of_64_kb_is_worth_a_word_at_20_mbit_and_not_at_200() {
        let takes = |rate: f64| MERGED / rate;
        assert!((takes(20e6) - 0.0262).abs() < 1e-4);
        assert!(takes(20e6) > COARSE && takes(200e6) < COARSE);
    }
}
