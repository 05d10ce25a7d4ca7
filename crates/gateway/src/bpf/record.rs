// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of an interface that the kernel shapes: a file of JSON that says what belongs to the interface and what it had
//! before. Names in it become paths, so none is believed that this program would not have written.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use makeway_core::sched::Limits;
use makeway_core::ticket::{Codec, Scale};
use makeway_core::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

use super::netlink::Found;
use super::{BpfError, cake};
use crate::datapath::{DatapathConfig, TagConfig};
use crate::folder;
use crate::limit::FLOWS;
use crate::place::Place;
use crate::protocol::DirectionStatus;
use crate::rules::Direction;

/// The file system in which the kernel keeps what is pinned.
pub(super) const PINS: &str = "/sys/fs/bpf/makeway";
/// Bytes of the longest record.
const LONGEST: u64 = 1 << 20;
/// The form of [`Record`]. Fields may be added without a new one, if they may also be missing.
pub(super) const VERSION: u32 = 1;
/// Begin of our kinds; a number follows.
pub(super) const KIND: &str = "makeway";

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`]; 0 in those that have none.
    #[serde(default)]
    pub(super) version: u32,
    pub(super) interface: String,
    pub(super) index: u32,
    pub(super) namespace: u64,
    /// In ns of CLOCK_MONOTONIC.
    pub(super) started: u64,
    /// The qdiscs of the interface before the first of ours.
    pub(super) before: Vec<Found>,
    pub(super) made_clsact: bool,
    /// Whether somebody began to restore what was there before.
    #[serde(default)]
    pub(super) ending: bool,
    pub(super) directions: Vec<Half>,
}

/// A direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Half {
    /// With the counters of the qdiscs that the present one has replaced, and no others; its rate, while that is taken away so that
    /// packets leave.
    pub(super) status: DirectionStatus,
    /// The device that has the qdisc; the interface's own for an ifb device that was not made yet.
    pub(super) index: u32,
    /// Code of tags; `None` of a version that wrote no weights and no parameters down either.
    #[serde(default)]
    pub(super) code: Option<Code>,
}

/// A [`Codec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Code {
    bits: u32,
    is_linear: bool,
}

impl From<Codec> for Code {
    fn from(codec: Codec) -> Self {
        // The largest code is 2^bits - 1.
        let bits = (u32::from(codec.most().0) + 1).ilog2();
        let is_linear = Codec::new(bits, Scale::Linear) == Ok(codec);
        Self { bits, is_linear }
    }
}

impl Code {
    fn codec(self) -> Option<Codec> {
        let scale = match self.is_linear {
            true => Scale::Linear,
            false => Scale::Logarithmic,
        };
        Codec::new(self.bits, scale).ok()
    }
}

impl Half {
    /// Its settings, at `rate`, or without one at that from before its packets were let go; `None` if not all of them are written down.
    pub(super) fn config(&self, rate: Option<Rate>) -> Option<DatapathConfig> {
        let codec = self.code?.codec()?;
        let status = &self.status;
        let rate = rate.or(status.stats.rate_bps.map(Rate::from_bps));
        let mut spec = status.stats.discipline?.on_a_link();
        for (key, value) in &status.parameters {
            spec.set(key, value).ok()?;
        }
        let limits = Limits {
            packets: status.limit_packets,
            bytes: Bytes::new(status.limit_bytes),
            flows: FLOWS,
        };
        let weights = status.weights.iter();
        Some(DatapathConfig {
            framing: status.framing,
            identity: status.flows_by,
            users: status.users_by,
            weights: weights
                .map(|(address, weight)| (*address, *weight))
                .collect(),
            tags: TagConfig {
                codec,
                ..TagConfig::default()
            },
            // Of another qdisc: one that runs has its own.
            seed: RandomState::new().hash_one(self.index),
            ..DatapathConfig::new(0, spec, limits, rate)
        })
    }

    pub(super) fn is_ingress(&self) -> bool {
        self.status.direction == Direction::Ingress
    }
}

impl Record {
    /// `None` if there is none.
    ///
    /// # Errors
    /// For one that somebody else may have written, and as [`Self::parse`].
    pub(super) fn read(place: &Place) -> Result<Option<Self>, BpfError> {
        let file = place.record();
        let bad = |why: String| BpfError::Record {
            interface: place.interface.clone(),
            file: file.display().to_string(),
            why,
        };
        let bytes = folder::read(&file, LONGEST).map_err(|error| bad(error.to_string()))?;
        bytes
            .map(|bytes| Self::parse(&bytes, &place.interface, place.namespace).map_err(bad))
            .transpose()
    }

    /// The record of `interface` in the network namespace of that inode.
    ///
    /// # Errors
    /// For a record of another interface, or of a form that this version does not know.
    pub fn parse(bytes: &[u8], interface: &str, namespace: u64) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if record.version > VERSION {
            return Err("a newer makeway wrote it".into());
        }
        // Its fields become paths and numbers of devices.
        let of_place = record.interface == interface && record.namespace == namespace;
        let is_name = |name: &str| !name.contains('/') && (1..16).contains(&name.len());
        let kinds = record.directions.iter().map(|half| &half.status.qdisc);
        if !of_place
            || !is_name(&record.interface)
            || !kinds
                .into_iter()
                .all(|kind| is_ours(kind) || kind == cake::KIND)
        {
            return Err("it is not of this interface".into());
        }
        Ok(record)
    }

    /// Content of its file.
    ///
    /// # Errors
    /// None that is known: each field has a form in JSON.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(io::Error::from)
    }

    pub(super) fn write(&self, file: &Path) -> Result<(), BpfError> {
        let what = "the record of the state before";
        let written = self
            .to_bytes()
            .and_then(|bytes| folder::write(file, &bytes));
        written.map_err(|source| BpfError::System { what, source })
    }

    /// The folder of the interface's pins. The file system takes no dots.
    pub fn pins(&self) -> PathBuf {
        let name = self.interface.replace('.', "_");
        Path::new(PINS).join(format!("{name}-{}@{}", self.index, self.namespace))
    }

    /// The folders of its qdiscs, egress first.
    pub fn qdiscs(&self) -> impl Iterator<Item = PathBuf> {
        let kinds = self.directions.iter().map(|half| &half.status.qdisc);
        kinds.map(|kind| self.pins().join(kind))
    }
}

/// Whether it is a kind of our naming.
pub(super) fn is_ours(kind: &str) -> bool {
    let number = kind.strip_prefix(KIND);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Where the search for a free number of a qdisc's kind begins. All namespaces see the kind, and the first to attach it, a user of a user
/// namespace too, has its maps: its number cannot be guessed. Eight digits: a kind has 15 bytes at most.
pub(super) fn first_number() -> u32 {
    const RANGE: std::ops::Range<u64> = 10_000_000..99_000_000;
    let random = RandomState::new().hash_one(0) % (RANGE.end - RANGE.start);
    (RANGE.start + random) as u32
}

#[cfg(test)]
mod tests {
    use makeway_core::flow::Identity;
    use makeway_core::framing::Framing;
    use makeway_core::sched::Discipline;

    use super::super::Shaped;
    use super::*;

    #[test]
    fn the_kind_of_a_qdisc_cannot_be_guessed_and_is_a_kind_of_ours() {
        let kinds: Vec<_> = (0..8)
            .map(|_| format!("{KIND}{}", first_number()))
            .collect();
        assert!(kinds.iter().all(|kind| kind.len() == 15 && is_ours(kind)));
        let different: std::collections::HashSet<_> = kinds.iter().collect();
        assert!(different.len() > 6, "{kinds:?}");
    }

    /// A record of version 0.1.0, before records had a version.
    const OLD: &str = r#"{"interface":"wan0.7","index":3,"namespace":4026531840,"started":5,"before":[{"kind":"fq_codel","handle":7798784,"parent":4294967295,"options":[8,0,1,0]}],"made_clsact":true,"directions":[{"status":{"direction":"egress","queue":0,"device":"wan0.7","qdisc":"makeway3","flows_by":"5-tuple","users_by":"src-host","limit_packets":200,"limit_bytes":302800,"overhead":14,"mpu":0,"cells":"none","tags_by":"","discipline":"sqf","rate_bps":null,"seconds":0.0,"cpu_seconds":0.0,"packets_in":0,"bytes_in":0,"largest_bytes":0,"packets_out":0,"bytes_out":0,"drops":{},"backlog_packets":0,"backlog_bytes":0,"delayed_packets":0,"verdicts_refused":0,"favoured":0,"reordered":0,"expected":0,"tags":{"with_tickets":0,"foreign":0,"unable":0,"written":0},"sojourn":{"mean_ms":0.0,"p50_ms":0.0,"p99_ms":0.0,"max_ms":0.0},"sojourn_recent":{"mean_ms":0.0,"p50_ms":0.0,"p99_ms":0.0,"max_ms":0.0},"flows_seen":0,"flows":[]},"index":3}]}"#;

    fn place(folder: &Path) -> Place {
        Place {
            folder: folder.into(),
            interface: "wan0.7".into(),
            namespace: 4_026_531_840,
        }
    }

    #[test]
    fn a_record_of_an_older_version_is_read_and_one_of_a_newer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        assert!(Record::read(&place).unwrap().is_none());
        folder::write(&place.record(), OLD.as_bytes()).unwrap();
        let old = Record::read(&place).unwrap().unwrap();
        assert_eq!((old.version, old.index, old.directions.len()), (0, 3, 1));
        assert!(old.made_clsact && old.before[0].is_restorable());
        assert_eq!(old.directions[0].status.nat, None);
        // One that had fewer counters.
        let less = OLD.replace(r#""favoured":0,"reordered":0,"expected":0,"#, "");
        folder::write(&place.record(), less.as_bytes()).unwrap();
        assert_eq!(Record::read(&place).unwrap().unwrap().directions.len(), 1);
        old.write(&place.record()).unwrap();
        assert!(Record::read(&place).unwrap().is_some());
        let newer = Record { version: 2, ..old };
        newer.write(&place.record()).unwrap();
        let error = Record::read(&place).unwrap_err().to_string();
        assert!(error.contains("newer"), "{error}");
    }

    #[test]
    fn a_record_has_the_settings_from_which_the_qdisc_is_made_again() {
        let mut spec = Discipline::Ncq.spec();
        spec.set("ncq.threshold", "0.03").unwrap();
        let limits = Limits {
            packets: 77,
            bytes: Bytes::new(100_000),
            flows: FLOWS,
        };
        let rate = Some(Rate::from_bps(5_000_000));
        let codec = Codec::new(12, Scale::Linear).unwrap();
        let config = DatapathConfig {
            framing: Framing::ETHERNET,
            identity: Identity::SrcPort,
            users: Identity::DstHost,
            weights: vec![("10.0.0.1".parse().unwrap(), 3)],
            tags: TagConfig {
                codec,
                ..TagConfig::default()
            },
            ..DatapathConfig::new(0, spec, limits, rate)
        };
        let mut half = Half {
            status: DirectionStatus::default(),
            index: 3,
            code: Some(codec.into()),
        };
        half.status.describe(&config);
        half.status.stats.discipline = Some(Discipline::Ncq);
        let written = serde_json::to_vec(&half).unwrap();
        let mut half: Half = serde_json::from_slice(&written).unwrap();
        let read = half.config(rate).unwrap();
        assert_eq!((&read.spec, read.limits), (&config.spec, limits));
        assert_eq!((read.rate, read.framing), (rate, config.framing));
        assert_eq!((read.identity, read.users), (config.identity, config.users));
        assert_eq!((read.weights, read.tags.codec), (config.weights, codec));
        assert_ne!(read.seed, half.config(rate).unwrap().seed);
        assert_eq!(Code::from(Codec::default()).codec(), Some(Codec::default()));
        // One whose process was killed while it let packets go.
        half.status.stats.rate_bps = Some(5_000_000);
        assert_eq!(half.config(None).unwrap().rate, rate);
        let faster = Some(Rate::from_bps(6_000_000));
        assert_eq!(half.config(faster).unwrap().rate, faster);
        // An older version's.
        let old = Record::parse(OLD.as_bytes(), "wan0.7", 4_026_531_840).unwrap();
        assert!(old.directions[0].config(rate).is_none());
    }

    #[test]
    fn a_record_that_says_nothing_is_an_error_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        for bad in ["", "{}", "{\"interface\":", "[1]"] {
            folder::write(&place.record(), bad.as_bytes()).unwrap();
            let error = Shaped::open(&place).unwrap_err().to_string();
            for part in ["wan0.7", "tc qdisc del dev wan0.7 root", "rm "] {
                assert!(error.contains(part), "{bad}: {error}");
            }
        }
    }

    #[test]
    fn a_record_that_leads_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        for (from, to) in [
            ("\"qdisc\":\"makeway3\"", "\"qdisc\":\"/etc\""),
            ("\"qdisc\":\"makeway3\"", "\"qdisc\":\"../../../../etc\""),
            ("\"qdisc\":\"makeway3\"", "\"qdisc\":\"makeway\""),
            ("\"interface\":\"wan0.7\"", "\"interface\":\"/etc\""),
            ("4026531840", "4026531841"),
        ] {
            let forged = OLD.replacen(from, to, 1);
            assert_ne!(forged, OLD);
            folder::write(&place.record(), forged.as_bytes()).unwrap();
            let refused = Record::read(&place);
            assert!(matches!(refused, Err(BpfError::Record { .. })), "{to}");
        }
    }
}
