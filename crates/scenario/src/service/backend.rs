// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that a backend does not have: an interface that asks for one is refused with its file, instead of failing at its start.

use makeway_core::flow::Identity;
use makeway_core::sched::Discipline;
use makeway_core::units::Bytes;

use super::Shaped;
use crate::error::list;

/// The most that a BPF qdisc holds.
const MOST_PACKETS: u64 = 1 << 17;
const MOST_BYTES: u64 = 16 << 20;
const MOST_WEIGHTS: usize = 1024;
/// The length of a packet by which a limit in packets gives the one in bytes, and the reverse.
const PACKET: (u64, u64) = (1500, 64);

/// A setting that the backend does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The key that asks for it.
    pub key: &'static str,
    /// The fault, and the allowed values.
    pub why: String,
}

/// The first setting that the interface's backend does not have; `auto` has all.
pub fn missing(interface: &Shaped) -> Option<Missing> {
    match interface.backend.as_str() {
        "bpf" => missing_in_bpf(interface),
        "cake" => missing_in_cake(interface),
        _ => None,
    }
}

fn missing_in_bpf(interface: &Shaped) -> Option<Missing> {
    let missing = |key, why: String| {
        let why = format!("{why}, or `backend = \"nfqueue\"`");
        Some(Missing { key, why })
    };
    let discipline = interface.discipline;
    if !discipline.is_in_the_kernel() {
        let all = Discipline::ALL.into_iter();
        let all = all.filter(|one| one.is_in_the_kernel());
        return missing(
            "discipline",
            format!(
                "`backend = \"bpf\"` does not have {discipline}: choose among {}",
                list(all.map(Discipline::name))
            ),
        );
    }
    if let Some(name) = variant(interface) {
        return missing(
            "parameters",
            format!("`backend = \"bpf\"` does not have `{name}`: leave it out"),
        );
    }
    let weights = interface.weights.len();
    if weights > MOST_WEIGHTS {
        return missing(
            "weights",
            format!(
                "a queue of `backend = \"bpf\"` has room for {MOST_WEIGHTS} weights, and these are {weights}: leave some out"
            ),
        );
    }
    if let Some((text, most)) = too_long(interface) {
        return missing(
            "limit",
            format!(
                "a queue of `backend = \"bpf\"` cannot hold \"{text}\": write at most \"{most}\""
            ),
        );
    }
    None
}

/// The parameter of a variant that only user space has.
fn variant(interface: &Shaped) -> Option<&'static str> {
    let mut spec = interface.discipline.spec();
    for (key, value) in &interface.parameters {
        // They were accepted when the file was read.
        let _ = spec.set(key, value);
    }
    spec.not_in_the_kernel()
}

/// A limit beyond the maps of a qdisc, and the largest one. A limit in packets is one in bytes too, of full packets; the device's own header
/// makes them longer still.
fn too_long(interface: &Shaped) -> Option<(&str, String)> {
    let text = interface.limit.as_deref()?;
    let packets = text.strip_suffix("packets").or(text.strip_suffix("packet"));
    match packets {
        Some(packets) => {
            let full = interface.framing.unwrap_or_default();
            let full = full.wire(Bytes::new(PACKET.0)).get();
            let most = MOST_PACKETS.min(MOST_BYTES / full);
            let asked: u64 = packets.trim().parse().ok()?;
            (asked > most).then(|| (text, format!("{most} packets")))
        }
        None => {
            let most = (MOST_PACKETS * PACKET.1).min(MOST_BYTES);
            let asked: Bytes = text.parse().ok()?;
            (asked.get() > most).then(|| (text, format!("{}kB", most / 1000)))
        }
    }
}

fn missing_in_cake(interface: &Shaped) -> Option<Missing> {
    let missing = |key, why: &str| {
        let why = format!("{why}, or `backend = \"nfqueue\"`");
        Some(Missing { key, why })
    };
    if interface.discipline != Discipline::Cake {
        let why = format!(
            "{} is not in the kernel's cake: leave it out, or write `backend = \"auto\"`",
            interface.discipline
        );
        return missing("discipline", &why);
    }
    if !interface.parameters.is_empty() {
        let why = "parameters are not in the kernel's cake: leave them out";
        return missing("parameters", why);
    }
    if !interface.weights.is_empty() {
        let why = "`backend = \"cake\"` gives each host the same share: leave them out";
        return missing("weights", why);
    }
    if interface.limit.is_some() {
        let why = "a limit is not in the kernel's cake, which bounds its memory by the rate: leave it out";
        return missing("limit", why);
    }
    if interface.flows == Identity::SrcPort {
        let why = "`backend = \"cake\"` does not have src-port: choose among 5-tuple, src-host, dst-host and host-pair";
        return missing("flows", why);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn a_setting_that_the_backend_does_not_have_is_refused_with_its_line_and_those_that_it_has() {
        let with = |keys: &str| {
            let text = format!("[interface.wan0]\nupload = \"20mbit\"\n{keys}");
            parse(&text, "makeway.toml")
        };
        for (keys, line, said) in [
            (
                "backend = \"cake\"\ndiscipline = \"fq\"\n",
                ":4",
                "`interface.wan0.discipline`",
            ),
            (
                "backend = \"bpf\"\ndiscipline = \"fq-codel\"\n",
                ":4",
                "choose among fifo, fq, sqf, hier, ncq, tred and makeway",
            ),
            (
                "backend = \"bpf\"\nlimit = \"900000 packets\"\n",
                ":4",
                "write at most \"11184 packets\"",
            ),
            (
                "limit = \"9MB\"\nbackend = \"bpf\"\n",
                ":3",
                "write at most \"8388kB\"",
            ),
            (
                "backend = \"bpf\"\ndiscipline = \"ncq\"\nparameters = { \"ncq.window\" = 1000, \"ncq.extra_wait\" = 0.01 }\n",
                ":5",
                "`ncq.extra_wait`",
            ),
            (
                "backend = \"bpf\"\ndiscipline = \"tred\"\nparameters = { \"ecn\" = true }\n",
                ":5",
                "`ecn`",
            ),
            (
                "backend = \"cake\"\nlimit = \"100 packets\"\n",
                ":4",
                "`interface.wan0.limit`",
            ),
            (
                "backend = \"cake\"\ndiscipline = \"cake\"\nflows = \"src-port\"\n",
                ":5",
                "5-tuple, src-host",
            ),
        ] {
            let error = with(keys).unwrap_err();
            assert!(error.to_string().contains(said), "{error}\n{keys}");
            assert!(error.place.ends_with(line), "{error}\n{keys}");
        }
        for keys in [
            "backend = \"bpf\"\nlimit = \"11184 packets\"\n",
            "backend = \"bpf\"\nweights = { \"10.0.0.1\" = 2 }\n",
            "backend = \"bpf\"\ndiscipline = \"ncq\"\nparameters = { \"ncq.window\" = 1000 }\n",
            "backend = \"cake\"\ndiscipline = \"cake\"\nflows = \"host-pair\"\n",
            "backend = \"nfqueue\"\ndiscipline = \"hier\"\nweights = { \"10.0.0.1\" = 2 }\nlimit = \"9MB\"\n",
            "discipline = \"fq-codel\"\nlimit = \"900000 packets\"\n",
        ] {
            with(keys).unwrap_or_else(|error| panic!("{error}\n{keys}"));
        }
        let weights = |n: u32| {
            let one = |i| format!("\"10.0.{}.{}\" = 2", i / 256, i % 256);
            let all: Vec<_> = (0..n).map(one).collect();
            format!("backend = \"bpf\"\nweights = {{ {} }}\n", all.join(", "))
        };
        assert!(with(&weights(1024)).is_ok());
        let error = with(&weights(1025)).unwrap_err();
        assert!(
            error.to_string().contains("room for 1024 weights"),
            "{error}"
        );
        assert!(error.place.ends_with(":4"), "{error}");
    }
}
