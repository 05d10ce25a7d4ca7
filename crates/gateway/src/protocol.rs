// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages on the socket: one line of JSON asks, one answers, then the connection ends.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use makeway_core::flow::Identity;
use makeway_core::framing::{Cells, Framing};
use makeway_core::sched::Discipline;
use makeway_core::units::Rate;
use serde::{Deserialize, Serialize};

use crate::autorate::status::Autorated;
use crate::datapath::{DatapathConfig, Stats, chosen};
use crate::limit::Limit;
use crate::rules::Direction;
use crate::text;

/// Version of [`Status`] and of requests. An instance of version 1 leaves out settings that it does not know and answers as if all were done,
/// so a client asks for its version first ([`Settings::version`]). From version 2 on it refuses them; so fields of both may be added without a
/// new one.
pub const VERSION: u32 = 2;

/// Holder of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The kernel where it can, else this process.
    #[default]
    Auto,
    /// Qdiscs in the kernel, which go on when this process dies.
    Bpf,
    /// The kernel's own `cake`, which goes on when this process dies.
    Cake,
    /// Packet queues that this process serves.
    Nfqueue,
}

impl Backend {
    /// Whether the kernel holds the packets, in a qdisc.
    pub fn is_in_the_kernel(self) -> bool {
        matches!(self, Self::Bpf | Self::Cake)
    }
}

/// A name that is no backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown backend `{0}`: choose auto, bpf, cake or nfqueue")]
pub struct ParseBackendError(String);

impl FromStr for Backend {
    type Err = ParseBackendError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            "bpf" => Ok(Self::Bpf),
            "cake" => Ok(Self::Cake),
            "nfqueue" => Ok(Self::Nfqueue),
            _ => Err(ParseBackendError(name.into())),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Bpf => "bpf",
            Self::Cake => "cake",
            Self::Nfqueue => "nfqueue",
        })
    }
}

/// A question to a running instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Counters so far.
    Status,
    /// Changes what runs.
    Set(Settings),
    /// Ends it.
    Stop,
}

/// A change; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Rate of the egress direction in bit/s.
    pub rate_bps: Option<u64>,
    /// Rate of the ingress direction in bit/s.
    pub down_bps: Option<u64>,
    /// Discipline of all directions.
    #[serde(with = "text::or_empty")]
    pub discipline: Option<Discipline>,
    /// Tickets per second that the next hop issues for the egress direction.
    pub tickets: Option<u32>,
    /// Queue limit of all directions.
    pub limit: Option<Limit>,
    /// Bytes that the link adds to each packet, -64 to 256.
    pub overhead: Option<i32>,
    /// Least bytes of a packet on the link, 0 to 256.
    pub mpu: Option<u32>,
    /// Cells that carry packets.
    #[serde(with = "text::or_empty")]
    pub cells: Option<Cells>,
    /// Weights of users by address, 1 to 65 536; those of others stay.
    pub weights: BTreeMap<IpAddr, u32>,
    /// Parameters of the discipline by their keys, an empty value for the default; others stay, unless the discipline is another one.
    pub parameters: BTreeMap<String, String>,
}

impl Settings {
    /// The first version whose instances know, or refuse, all that it changes.
    pub fn version(&self) -> u32 {
        let of_the_first = Self {
            rate_bps: self.rate_bps,
            down_bps: self.down_bps,
            discipline: self.discipline,
            tickets: self.tickets,
            ..Self::default()
        };
        match *self == of_the_first {
            true => 1,
            false => 2,
        }
    }

    /// Whether it changes rates alone.
    pub fn is_of_rates(&self) -> bool {
        *self
            == Self {
                rate_bps: self.rate_bps,
                down_bps: self.down_bps,
                ..Self::default()
            }
    }

    /// The rates that are to change, if `shapes` says that their directions are there.
    ///
    /// # Errors
    /// Why not, in a sentence.
    pub fn rates(
        &self,
        interface: &str,
        shapes: impl Fn(Direction) -> bool,
    ) -> Result<Vec<(Direction, Rate)>, String> {
        let rates = [
            (Direction::Egress, self.rate_bps, "upload", "rate"),
            (Direction::Ingress, self.down_bps, "download", "down"),
        ];
        let mut changes = Vec::new();
        for (direction, rate, what, key) in rates {
            match rate {
                None => {}
                Some(0) => {
                    return Err(format!(
                        "{key}=0 would let nothing through: give a rate like 20mbit"
                    ));
                }
                Some(_) if !shapes(direction) => {
                    return Err(format!(
                        "makeway on {interface} does not shape the {what}: start it again with --{key}"
                    ));
                }
                Some(bps) => changes.push((direction, Rate::from_bps(bps))),
            }
        }
        Ok(changes)
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Status`], and to [`Request::Set`] after the change.
    Status(Status),
    /// To [`Request::Stop`], when the rules are gone and the last packet has left.
    Stopped(Status),
    /// It was not done, and why: one sentence.
    Error(String),
}

/// A running instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The interface.
    pub interface: String,
    /// Inode of its network namespace, as `readlink /proc/PID/ns/net` shows it.
    pub namespace: u64,
    /// The process; 0 where the kernel does it without one.
    pub pid: u32,
    /// Holder of the packets: `bpf`, qdiscs in the kernel; `nfqueue`, this process.
    pub backend: Backend,
    /// Why it is `nfqueue` where that was not asked for; else empty.
    pub why: String,
    /// Warnings: reasons for a worse result, and remedies.
    pub warnings: Vec<String>,
    /// The tool that made the rules; empty where there are none.
    pub rules: String,
    /// Each direction that is shaped, egress first.
    pub directions: Vec<DirectionStatus>,
    /// The controller of the rates, where there is one.
    pub autorate: Option<Autorated>,
}

/// One direction of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionStatus {
    /// `egress` or `ingress`.
    pub direction: Direction,
    /// Number of the kernel's packet queue, with `nfqueue`.
    pub queue: u16,
    /// The device that has the qdisc, with `bpf`: the interface, or the ifb device of its ingress.
    pub device: String,
    /// Name of the qdisc in `tc qdisc show`, with `bpf`.
    pub qdisc: String,
    /// Flow key: `5-tuple`, `src-port`, ...
    #[serde(with = "text")]
    pub flows_by: Identity,
    /// User key, for a discipline with users.
    #[serde(with = "text")]
    pub users_by: Identity,
    /// Source of the addresses of users, with `bpf` and a key that address translation changes: `connections`, or `packets: ` and the
    /// reason. Else empty.
    #[serde(with = "text::or_empty")]
    pub nat: Option<HostsBy>,
    /// Most packets held.
    pub limit_packets: u32,
    /// Most bytes held.
    pub limit_bytes: u64,
    /// `overhead`, `mpu` and `cells`.
    #[serde(flatten, with = "FramingFields")]
    pub framing: Framing,
    /// Handling of tickets, in words; empty where nothing is written on packets.
    pub tags_by: String,
    /// Weights of users, where they are not 1.
    pub weights: BTreeMap<IpAddr, u32>,
    /// Parameters of the discipline that are not those of `makeway up` without `--param`, by their keys.
    pub parameters: BTreeMap<String, String>,
    /// Everything that was counted; of the flows, the 1024 with the largest backlogs.
    #[serde(flatten)]
    pub stats: Stats,
}

/// Source of addresses that address translation may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostsBy {
    /// Connections, which know the hosts behind the router.
    Connections,
    /// Packets, for this reason, a part of a sentence.
    Packets(String),
}

/// Begin of the text of [`HostsBy::Packets`].
const BY_PACKETS: &str = "packets: ";

/// A text that is no source of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no source of addresses: write `connections`, or `packets: ` and the reason")]
pub struct ParseHostsByError(String);

impl FromStr for HostsBy {
    type Err = ParseHostsByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix(BY_PACKETS)) {
            ("connections", _) => Ok(Self::Connections),
            (_, Some(why)) => Ok(Self::Packets(why.into())),
            (_, None) => Err(ParseHostsByError(text.into())),
        }
    }
}

impl fmt::Display for HostsBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections => f.write_str("connections"),
            Self::Packets(why) => write!(f, "{BY_PACKETS}{why}"),
        }
    }
}

/// Folder of the kernel's module that tracks connections.
pub(crate) const CONNTRACK: &str = "/sys/module/nf_conntrack";
/// The reason on a machine that tracks no connections.
pub(crate) const NO_CONNECTIONS: &str = "nf_conntrack is not loaded";

impl DirectionStatus {
    /// The reason why a host behind address translation is known by the router's address, if it could be a user.
    pub fn by_outer_address(&self) -> Option<&str> {
        match &self.nat {
            Some(HostsBy::Packets(why)) => Some(why),
            Some(HostsBy::Connections) | None => None,
        }
    }

    /// Writes down the settings of `config`, but for its discipline and its rate.
    pub(crate) fn describe(&mut self, config: &DatapathConfig) {
        self.flows_by = config.identity;
        self.users_by = config.users;
        self.limit_packets = config.limits.packets;
        self.limit_bytes = config.limits.bytes.get();
        self.framing = config.framing;
        self.tags_by = config.tags.to_string();
        self.weights = config.weights.iter().copied().collect();
        self.parameters = chosen(&config.spec);
    }
}

/// [`Framing`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Framing")]
struct FramingFields {
    /// Bytes added to each packet.
    overhead: i32,
    /// Smallest packet, overhead included, in bytes.
    mpu: u32,
    #[serde(with = "CellsName")]
    cells: Cells,
}

/// [`Cells`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Cells", rename_all = "lowercase")]
enum CellsName {
    None,
    Atm,
    Ptm,
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::sched::Class;

    #[test]
    fn a_request_reads_back_as_it_is_written() {
        let rate = Settings {
            rate_bps: Some(30_000_000),
            ..Settings::default()
        };
        let all = Settings {
            discipline: Some(Discipline::Hier),
            limit: Some(Limit {
                packets: Some(60),
                bytes: None,
            }),
            overhead: Some(-4),
            mpu: Some(64),
            cells: Some(Cells::Ptm),
            weights: [
                ("10.0.0.1".parse().unwrap(), 2),
                ("2001:db8::1".parse().unwrap(), 1),
            ]
            .into(),
            parameters: [("quantum".into(), String::new())].into(),
            ..rate.clone()
        };
        assert!(rate.is_of_rates() && !all.is_of_rates());
        for request in [
            Request::Status,
            Request::Set(rate),
            Request::Set(all),
            Request::Stop,
        ] {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        // As one of an older version asks.
        let old = r#"{"set":{"rate_bps":5,"down_bps":null,"discipline":"fq","tickets":null}}"#;
        let Request::Set(old) = serde_json::from_str(old).unwrap() else {
            panic!("{old}");
        };
        assert_eq!(
            (old.rate_bps, old.discipline),
            (Some(5), Some(Discipline::Fq))
        );
        assert_eq!((old.limit, old.weights.len()), (None, 0));
        let newer = r#"{"set":{"rate_bps":5,"colour":"red"}}"#;
        let error = serde_json::from_str::<Request>(newer).unwrap_err();
        assert!(error.to_string().contains("colour"), "{error}");
    }

    #[test]
    fn an_answer_reads_back_as_it_is_written() {
        let status = Status {
            version: VERSION,
            interface: "wan0".into(),
            directions: vec![DirectionStatus::default()],
            ..Status::default()
        };
        let answer = Answer::Status(status);
        let line = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), answer);
    }

    #[test]
    fn json_has_names_and_units_and_reads_back_as_types() {
        let json = serde_json::json!({
            "backend": "bpf",
            "directions": [{
                "direction": "ingress",
                "discipline": "fq-codel",
                "rate_bps": 50_000_000,
                "flows_by": "5-tuple",
                "users_by": "dst-host",
                "nat": "packets: loading needs CAP_SYS_ADMIN",
                "overhead": 14,
                "mpu": 64,
                "cells": "ptm",
                "weights": { "10.0.0.1": 3, "2001:db8::1": 2 },
                "parameters": { "quantum": "3000B" },
                "flows": [
                    { "flow": "a", "standing": "probation", "since_s": 1.5 },
                    { "flow": "b", "standing": "", "reason": "" },
                ],
            }],
        });
        let status: Status = serde_json::from_value(json.clone()).unwrap();
        let one = &status.directions[0];
        assert_eq!(status.backend, Backend::Bpf);
        assert_eq!(one.direction, Direction::Ingress);
        assert_eq!(one.stats.discipline, Some(Discipline::FqCoDel));
        assert_eq!(one.users_by, Identity::DstHost);
        let why = "loading needs CAP_SYS_ADMIN";
        assert_eq!(one.nat, Some(HostsBy::Packets(why.into())));
        assert_eq!(one.by_outer_address(), Some(why));
        assert_eq!(one.framing.cells, Cells::Ptm);
        assert_eq!(one.weights[&IpAddr::from([10, 0, 0, 1])], 3);
        assert_eq!(one.parameters["quantum"], "3000B");
        let classes = [0, 1].map(|n| one.stats.flows[n].standing);
        assert_eq!(classes, [Some(Class::Probation), None]);
        let written = serde_json::to_value(&status).unwrap();
        assert!(contains(&written, &json), "{written:#}");
        for (known, strange) in [("fq-codel", "sfq"), ("packets: ", "guesses: ")] {
            let strange = json.to_string().replace(known, strange);
            assert!(serde_json::from_str::<Status>(&strange).is_err());
        }
    }

    /// Whether `all` has the values of `part` under their keys.
    fn contains(all: &serde_json::Value, part: &serde_json::Value) -> bool {
        use serde_json::Value::{Array, Object};
        match (all, part) {
            (Object(all), Object(part)) => part
                .iter()
                .all(|(key, part)| all.get(key).is_some_and(|all| contains(all, part))),
            (Array(all), Array(part)) => {
                all.len() == part.len() && all.iter().zip(part).all(|(a, b)| contains(a, b))
            }
            _ => all == part,
        }
    }
}
