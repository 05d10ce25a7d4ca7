// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a qdisc: those it is loaded with, and those that it takes while it runs.

use std::net::IpAddr;

use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::sched::{DropFrom, Env, FqParams, Limits, Spec};
use makeway_core::ticket::Codec;
use makeway_core::units::Rate;

use super::BpfError;
use super::layout;
use super::params::Params;
use crate::datapath::DatapathConfig;
use crate::limit::MOST_WEIGHTS;

/// `MOST_PACKETS` of `bpf/pool.h`.
const MOST_PACKETS: u32 = 1 << 17;
/// `LIMIT_BYTES` of `bpf/pool.h`.
const MOST_BYTES: u64 = 16 << 20;
/// Packets that the maps of each qdisc have room for at least, so that its limit may rise while it runs.
const ROOM: u32 = 1000;

/// A qdisc to load.
#[derive(Clone, Debug)]
pub struct Config {
    /// The discipline.
    pub spec: Spec,
    /// The most that it may hold: at most 131 072 packets and 16 MiB.
    pub limits: Limits,
    /// The rate on the wire; `None`: not limited.
    pub rate: Option<Rate>,
    /// Bytes of an IP packet on the wire.
    pub framing: Framing,
    /// Flow key.
    pub identity: Identity,
    /// User key, for a discipline with users.
    pub users: Identity,
    /// Weights of users by address, for a discipline with weights; 1 where none is given. At most 1024.
    pub weights: Vec<(IpAddr, u32)>,
    /// Code of tags.
    pub codec: Codec,
    /// Seed of chances and of the tables of flows and users; secret and random where packets come from strangers.
    pub seed: u64,
    /// Stamps of `bpf/nat.bpf.c` that it believes; `None`: none.
    pub stamps: Option<Stamps>,
}

/// Stamps that `bpf/nat.bpf.c` leaves in packets for a qdisc: hashes of the host behind the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// Secret with which one begins; not 0.
    pub(super) word: u64,
    /// Seed of the hashes, and with it of the qdisc's tables of flows and users.
    pub(super) seed: u64,
    /// The key that has the near host alone.
    pub(super) near: Identity,
}

impl Config {
    /// A discipline that is not limited in rate, of IP packets as they are, whose flows are connections and whose users are
    /// destinations.
    pub fn new(spec: Spec, limits: Limits) -> Self {
        Self {
            spec,
            limits,
            rate: None,
            framing: Framing::default(),
            identity: Identity::FiveTuple,
            users: Identity::DstHost,
            weights: Vec::new(),
            codec: Codec::default(),
            seed: 1,
            stamps: None,
        }
    }

    /// The qdisc that does the work of such a datapath.
    ///
    /// # Errors
    /// For what only a datapath in user space has.
    pub fn of(datapath: &DatapathConfig) -> Result<Self, BpfError> {
        if datapath.tags.writes() {
            return Err(BpfError::Option("writing tags on packets".into()));
        }
        Params::of(&datapath.spec, &datapath.env())?;
        let weights = match datapath.spec.needs().weights {
            true => datapath.weights.clone(),
            false => Vec::new(),
        };
        Ok(Self {
            spec: datapath.spec.clone(),
            limits: datapath.limits,
            rate: datapath.rate,
            framing: datapath.framing,
            identity: datapath.identity,
            users: datapath.users,
            weights,
            codec: datapath.tags.codec,
            seed: datapath.seed,
            stamps: None,
        })
    }

    /// Environment of the same discipline in user space, but for its users.
    pub fn env(&self) -> Env {
        Env {
            rate: self.rate,
            framing: self.framing,
            codec: self.codec,
            seed: self.seed,
            ..Env::new(self.limits)
        }
    }

    /// Packets that the maps have room for.
    pub(super) fn room(&self) -> u32 {
        self.limits.packets.max(ROOM)
    }

    /// Flows that the maps have room for.
    pub(super) fn flows(&self) -> u32 {
        self.known().max(self.room() + 1)
    }

    /// Flows that are known under these limits: as many as can hold packets, and one; under `makeway` as many again that hold none.
    fn known(&self) -> u32 {
        let holding = self.limits.packets.saturating_add(1);
        match self.spec {
            Spec::Makeway(_) => {
                let twice = self.limits.packets.saturating_mul(2);
                holding.max(self.limits.flows.max(twice).min(MOST_PACKETS))
            }
            _ => holding,
        }
    }

    /// Whether a qdisc with these settings, whose maps have room for `room` packets and for `flows` flows, takes those of `to` while it
    /// runs. Another order of service, other keys, and parameters that its state counts in take another qdisc.
    ///
    /// # Errors
    /// If no qdisc has them.
    pub(super) fn takes(&self, to: &Self, room: u32, flows: u32) -> Result<bool, BpfError> {
        let (old, new) = (self.layout()?, to.layout()?);
        let params = |config: &Self| Params::of(&config.spec, &config.env());
        let goes_on = params(to)?.go_on(&params(self)?);
        let keys = |config: &Self| (config.identity, config.users, config.codec);
        // Packets that are held were counted by it.
        let same_slot = match to.spec {
            Spec::Makeway(_) => slot(&old) == slot(&new),
            _ => true,
        };
        Ok(self.spec.discipline() == to.spec.discipline()
            && keys(self) == keys(to)
            && to.limits.packets <= room
            && to.known() <= flows
            && goes_on
            && same_slot)
    }

    pub(super) fn layout(&self) -> Result<layout::Config, BpfError> {
        let limits = self.limits;
        let FqParams { quantum, drop_from } = match &self.spec {
            Spec::Fq(params) => params.clone(),
            Spec::Hier(params) => FqParams {
                quantum: params.quantum,
                drop_from: params.drop_from,
            },
            Spec::Makeway(params) => FqParams {
                quantum: params.quantum,
                ..FqParams::default()
            },
            Spec::Sqf(params) => FqParams {
                drop_from: params.drop_from,
                ..FqParams::default()
            },
            _ => FqParams::default(),
        };
        let limit = |what, asked, most| match (1..=most).contains(&asked) {
            true => Ok(asked as u32),
            false => Err(BpfError::Limit { what, asked, most }),
        };
        let mut config = layout::Config {
            rate: self.rate.map_or(0, Rate::bps),
            limit_packets: limit(
                "the limit in packets",
                limits.packets.into(),
                MOST_PACKETS.into(),
            )?,
            limit_bytes: limit("the limit in bytes", limits.bytes.get(), MOST_BYTES)?,
            drop_tail: (drop_from == DropFrom::Tail).into(),
            // At most 1 MiB.
            quantum: quantum.get() as u32,
            weights: match self.weights.len() as u64 {
                0 => 0,
                n => limit("the number of weights", n, MOST_WEIGHTS.into())?.min(1),
            },
            ..layout::Config::default()
        };
        config.set_framing(self.framing);
        Ok(config)
    }
}

/// Size of a packet for the drop of `makeway` beside its bytes, as core has it.
pub(super) fn slot(config: &layout::Config) -> u32 {
    let share = config.limit_bytes / config.limit_packets;
    share.min(config.quantum)
}

#[cfg(test)]
mod tests {
    use makeway_core::sched::Discipline;
    use makeway_core::units::Bytes;

    use super::*;
    use crate::bpf::has_program;

    /// All that is written for the discipline before its program runs.
    fn written(spec: &Spec) -> Result<(layout::Config, Params), BpfError> {
        let limits = Limits {
            packets: 100,
            bytes: Bytes::new(150_000),
            flows: 102,
        };
        let config = Config {
            rate: Some(Rate::from_bps(8_000_000)),
            ..Config::new(spec.clone(), limits)
        };
        Ok((config.layout()?, Params::of(spec, &config.env())?))
    }

    #[test]
    fn every_parameter_reaches_the_program_or_is_refused() {
        let values = [
            "true", "false", "head", "tail", "bytes", "packets", "2", "7", "0.01", "0.02", "3ms",
            "777B", "64kbit",
        ];
        let mut seen = 0;
        for discipline in Discipline::ALL.into_iter().filter(|one| has_program(*one)) {
            let default = discipline.spec();
            let before = written(&default).unwrap();
            let mut keys = Vec::new();
            let mut fields = default.clone();
            fields.fields(&mut |key, _, _| keys.push(key.to_owned()));
            for key in keys {
                let changed = values.iter().find_map(|text| {
                    let mut spec = default.clone();
                    let is_set = spec.set(&key, text).is_ok();
                    (is_set && spec != default).then_some(spec)
                });
                let changed = changed.unwrap_or_else(|| panic!("{discipline}: a value of {key}"));
                match written(&changed) {
                    Ok(after) => assert_ne!(after, before, "{discipline} ignores {key}"),
                    Err(BpfError::Option(_)) => {}
                    Err(error) => panic!("{discipline} {key}: {error}"),
                }
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }

    /// Whether a qdisc of 200 packets takes a change: its maps have room for 1000, and under makeway for the flows of 512.
    fn takes(discipline: Discipline, change: impl Fn(&mut Config)) -> bool {
        let limits = Limits {
            packets: 200,
            bytes: Bytes::new(200 * 1514),
            flows: 1024,
        };
        let from = Config::new(discipline.spec(), limits);
        let mut to = from.clone();
        change(&mut to);
        from.takes(&to, from.room(), from.flows()).unwrap()
    }

    fn packets(packets: u32) -> impl Fn(&mut Config) {
        move |config: &mut Config| {
            config.limits.packets = packets;
            config.limits.bytes = Bytes::new(u64::from(packets) * 1514);
        }
    }

    #[test]
    fn limits_change_while_it_runs_within_the_room_of_the_maps() {
        for discipline in Discipline::ALL.into_iter().filter(|one| has_program(*one)) {
            for most in [1, 100, 512] {
                assert!(takes(discipline, packets(most)), "{discipline} {most}");
            }
            assert!(!takes(discipline, packets(1001)), "{discipline}");
            // Half of the flows that makeway knows hold nothing.
            let is_makeway = discipline == Discipline::Makeway;
            assert_eq!(
                takes(discipline, packets(1000)),
                !is_makeway,
                "{discipline}"
            );
            // The part of the limit in bytes that each packet has is 64 B now.
            let by_bytes = |config: &mut Config| {
                config.limits.bytes = Bytes::new(200 * 64);
            };
            assert_eq!(takes(discipline, by_bytes), !is_makeway, "{discipline}");
        }
        let limits = Limits {
            packets: 5000,
            bytes: Bytes::new(5000 * 1514),
            flows: 1024,
        };
        let large = Config::new(Discipline::Makeway.spec(), limits);
        assert_eq!((large.room(), large.flows()), (5000, 10_000));
    }

    #[test]
    fn a_limit_that_no_qdisc_has_is_refused_while_it_runs_too() {
        let limits = Limits {
            packets: 200,
            bytes: Bytes::new(200 * 1514),
            flows: 1024,
        };
        let from = Config::new(Discipline::Sqf.spec(), limits);
        for (packets, bytes, said) in [
            (0, 1 << 20, "the limit in packets is 0"),
            (200_000, 1 << 20, "holds 1 to 131072"),
            (200, 0, "the limit in bytes is 0"),
            (200, (16 << 20) + 1, "holds 1 to 16777216"),
        ] {
            let mut to = from.clone();
            (to.limits.packets, to.limits.bytes) = (packets, Bytes::new(bytes));
            let error = from.takes(&to, 1000, 1001).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn weights_change_while_it_runs_up_to_as_many_as_the_map_holds() {
        let hosts = |n: u32| {
            move |config: &mut Config| {
                let address = |i: u32| IpAddr::from(i.to_be_bytes());
                config.weights = (0..n).map(|i| (address(i), 2)).collect();
            }
        };
        for discipline in [Discipline::Hier, Discipline::Makeway] {
            assert!(takes(discipline, hosts(1)) && takes(discipline, hosts(1024)));
            let mut config = Config::new(
                discipline.spec(),
                Limits {
                    packets: 200,
                    bytes: Bytes::new(300_000),
                    flows: 1024,
                },
            );
            assert_eq!(config.layout().unwrap().weights, 0);
            hosts(1)(&mut config);
            assert_eq!(config.layout().unwrap().weights, 1);
            hosts(1025)(&mut config);
            let error = config.layout().unwrap_err().to_string();
            let said = "the number of weights is 1025: a qdisc in the kernel holds 1 to 1024";
            assert_eq!(error, said);
        }
    }

    #[test]
    fn parameters_change_while_it_runs_unless_the_state_counts_in_them() {
        let with = |discipline: Discipline, key: &str, value: &str| {
            takes(discipline, |config| config.spec.set(key, value).unwrap())
        };
        for (discipline, key, value, expected) in [
            (Discipline::Fq, "quantum", "3000B", true),
            (Discipline::Fq, "drop_from", "tail", true),
            (Discipline::Makeway, "quantum", "3000B", true),
            // Less than the part of the limit in bytes that each packet has.
            (Discipline::Makeway, "quantum", "500B", false),
            (Discipline::Ncq, "ncq.threshold", "0.2", true),
            (Discipline::Ncq, "ncq.length", "300B", true),
            (Discipline::Ncq, "ncq.window", "300", false),
            (Discipline::Tred, "red.max", "150", true),
            (Discipline::Tred, "tred.k", "2", true),
            (Discipline::Tred, "red.by", "bytes", false),
        ] {
            assert_eq!(with(discipline, key, value), expected, "{key} = {value}");
        }
        let framing = |config: &mut Config| config.framing = Framing::ETHERNET;
        let rate = |config: &mut Config| config.rate = Some(Rate::from_bps(5_000_000));
        let spec = |config: &mut Config| config.spec = Discipline::Fifo.spec();
        let flows = |config: &mut Config| config.identity = Identity::SrcHost;
        let users = |config: &mut Config| config.users = Identity::SrcHost;
        for discipline in [Discipline::Sqf, Discipline::Makeway, Discipline::Tred] {
            assert!(takes(discipline, framing) && takes(discipline, rate));
            assert!(!takes(discipline, spec), "{discipline}");
            assert!(!takes(discipline, flows) && !takes(discipline, users));
        }
    }
}
