// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own `cake` (tc-cake(8)), for kernels without BPF qdiscs: its options and counters in the form of <linux/pkt_sched.h>.

use makeway_core::flow::Identity;
use makeway_core::framing::{Cells, Framing};
use makeway_core::sched::Discipline;
use makeway_core::units::Rate;

use super::BpfError;
use super::netlink::{Counted, Found};
use crate::datapath::{DatapathConfig, Sojourn, Stats};
use crate::rules::Direction;

/// Its name in tc.
pub(super) const KIND: &str = "cake";
/// By which one of ours is known: "MW".
pub(super) const HANDLE: u32 = 0x4d57_0000;

// Options, `TCA_CAKE_*`.
const BASE_RATE64: u16 = 2;
const DIFFSERV_MODE: u16 = 3;
const ATM: u16 = 4;
const FLOW_MODE: u16 = 5;
const OVERHEAD: u16 = 6;
const NAT: u16 = 11;
const MPU: u16 = 14;
const INGRESS: u16 = 15;
/// `CAKE_DIFFSERV_BESTEFFORT`: marks of strangers give no priority.
const BEST_EFFORT: u32 = 3;

// Counters, `TCA_CAKE_STATS_*` and `TCA_CAKE_TIN_STATS_*`.
const MEMORY_LIMIT: u16 = 3;
const TIN_STATS: u16 = 10;
const PEAK_DELAY_US: u16 = 18;
const AVG_DELAY_US: u16 = 19;

/// Settings of one.
#[derive(Clone, Debug)]
pub struct Cake {
    rate: Option<Rate>,
    framing: Framing,
    flow_mode: u32,
    is_ingress: bool,
}

impl Cake {
    /// Configuration for a datapath of the discipline `cake`.
    ///
    /// # Errors
    /// For what it has not.
    pub fn of(datapath: &DatapathConfig, direction: Direction) -> Result<Self, BpfError> {
        let option = |what: String| Err(BpfError::NotInCake(what));
        let discipline = datapath.spec.discipline();
        if discipline != Discipline::Cake {
            return option(format!("the discipline {discipline}"));
        }
        if datapath.spec != discipline.on_a_link() {
            return option("a parameter of a discipline".into());
        }
        if !datapath.weights.is_empty() {
            return option("a weight".into());
        }
        if datapath.tags.writes() {
            return option("writing tags on packets".into());
        }
        // `CAKE_FLOW_*`.
        let flow_mode = match (datapath.identity, datapath.users) {
            (Identity::FiveTuple, Identity::SrcHost) => 5,
            (Identity::FiveTuple, Identity::DstHost) => 6,
            (Identity::FiveTuple, _) => 7,
            (Identity::SrcHost, _) => 1,
            (Identity::DstHost, _) => 2,
            (Identity::HostPair, _) => 3,
            (other, _) => return option(format!("flows by {other}")),
        };
        Ok(Self {
            rate: datapath.rate,
            framing: datapath.framing,
            flow_mode,
            is_ingress: direction == Direction::Ingress,
        })
    }

    /// The qdisc, for the root of a device.
    pub(super) fn qdisc(&self) -> Found {
        let cells: u32 = match self.framing.cells {
            Cells::None => 0,
            Cells::Atm => 1,
            Cells::Ptm => 2,
        };
        let mut options = rate(self.rate);
        for (kind, value) in [
            (DIFFSERV_MODE, BEST_EFFORT),
            (ATM, cells),
            (FLOW_MODE, self.flow_mode),
            (OVERHEAD, self.framing.overhead.cast_unsigned()),
            (MPU, self.framing.mpu),
            // Hosts behind NAT are those that conntrack knows.
            (NAT, 1),
            (INGRESS, u32::from(self.is_ingress)),
        ] {
            push(&mut options, kind, &value.to_ne_bytes());
        }
        Found::with(KIND, HANDLE, options)
    }
}

/// The same with another rate and nothing else.
pub(super) fn with_rate(new: Rate) -> Found {
    Found::with(KIND, HANDLE, rate(Some(new)))
}

/// In bytes per second; 0: not limited.
fn rate(rate: Option<Rate>) -> Vec<u8> {
    let bytes = rate.map_or(0, |rate| rate.bps() / 8);
    let mut options = Vec::new();
    push(&mut options, BASE_RATE64, &bytes.to_ne_bytes());
    options
}

fn push(attributes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = 4 + value.len() as u16;
    attributes.extend(length.to_ne_bytes());
    attributes.extend(kind.to_ne_bytes());
    attributes.extend(value);
    attributes.resize(attributes.len().next_multiple_of(4), 0);
}

/// Attributes of a nest: numbers and values. One that does not fit ends them.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let number = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let length = usize::from(number(0)?);
        // Without the flags of a nest and of the order of bytes.
        let kind = number(2)? & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn find(nest: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(nest)
        .find(|(own, _)| *own == kind)
        .map(|(_, value)| value)
}

fn whole(nest: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_ne_bytes(find(nest, kind)?.try_into().ok()?))
}

/// Its counters. Delays are cake's own: moving averages of the mean and of the largest.
pub(super) fn stats(counted: &Counted) -> Stats {
    let rate = find(&counted.options, BASE_RATE64).and_then(|value| value.try_into().ok());
    let rate = rate.map_or(0, u64::from_ne_bytes) * 8;
    let tins = find(&counted.application, TIN_STATS).unwrap_or(&[]);
    let tin = attributes(tins).next().map_or(&[][..], |(_, tin)| tin);
    let delay = |kind| f64::from(whole(tin, kind).unwrap_or(0)) / 1e3;
    let (mean, peak) = (delay(AVG_DELAY_US), delay(PEAK_DELAY_US));
    let dropped = u64::from(counted.drops);
    let drops = Some((KIND.to_owned(), dropped)).filter(|_| dropped > 0);
    Stats {
        discipline: Some(Discipline::Cake),
        rate_bps: Some(rate).filter(|rate| *rate > 0),
        packets_in: counted.packets + dropped + u64::from(counted.backlog_packets),
        packets_out: counted.packets,
        bytes_in: counted.bytes + u64::from(counted.backlog_bytes),
        bytes_out: counted.bytes,
        drops: drops.into_iter().collect(),
        backlog_packets: counted.backlog_packets.into(),
        backlog_bytes: counted.backlog_bytes.into(),
        sojourn_recent: Sojourn {
            mean_ms: mean,
            p50_ms: mean,
            p99_ms: peak,
            max_ms: peak,
        },
        ..Stats::default()
    }
}

/// Most bytes that it holds, by its own count of memory.
pub(super) fn limit(counted: &Counted) -> Option<u32> {
    whole(&counted.application, MEMORY_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::sched::Limits;
    use makeway_core::units::Bytes;

    #[test]
    fn attributes_are_read_as_they_are_written_and_a_cut_one_ends_them() {
        let mut nest = Vec::new();
        push(&mut nest, 5, &7u32.to_ne_bytes());
        push(&mut nest, 0x8000 | 10, &[1, 2, 3, 4, 5]);
        push(&mut nest, 6, &9u32.to_ne_bytes());
        assert_eq!((whole(&nest, 5), whole(&nest, 6)), (Some(7), Some(9)));
        assert_eq!(find(&nest, 10), Some(&[1, 2, 3, 4, 5][..]));
        for end in 0..nest.len() {
            assert!(attributes(&nest[..end]).count() < 3);
        }
        // A length of less than its own header.
        assert_eq!(attributes(&[2, 0, 5, 0, 0, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn it_replaces_no_other_discipline() {
        let limits = Limits {
            packets: 100,
            bytes: Bytes::new(150_000),
            flows: 64,
        };
        let rate = Some(Rate::from_bps(20_000_000));
        for discipline in Discipline::ALL {
            let datapath = DatapathConfig::new(0, discipline.on_a_link(), limits, rate);
            match Cake::of(&datapath, Direction::Egress) {
                Ok(_) => assert_eq!(discipline, Discipline::Cake),
                Err(error) => {
                    let said = format!("the discipline {discipline} is not in the kernel's cake");
                    assert!(error.to_string().starts_with(&said), "{error}");
                }
            }
        }
    }

    #[test]
    fn counters_are_those_of_the_first_tin() {
        let (mut tin, mut tins, mut application) = (Vec::new(), Vec::new(), Vec::new());
        push(&mut tin, AVG_DELAY_US, &1_500u32.to_ne_bytes());
        push(&mut tin, PEAK_DELAY_US, &9_000u32.to_ne_bytes());
        push(&mut tins, 1, &tin);
        push(&mut application, MEMORY_LIMIT, &4_000_000u32.to_ne_bytes());
        push(&mut application, TIN_STATS, &tins);
        let counted = Counted {
            options: rate(Some(Rate::from_bps(20_000_000))),
            bytes: 1_000,
            packets: 10,
            drops: 2,
            backlog_packets: 3,
            backlog_bytes: 300,
            application,
        };
        let stats = stats(&counted);
        assert_eq!((stats.rate_bps, stats.packets_in), (Some(20_000_000), 15));
        assert_eq!(
            (stats.sojourn_recent.p50_ms, stats.sojourn_recent.p99_ms),
            (1.5, 9.0)
        );
        assert_eq!((limit(&counted), stats.dropped()), (Some(4_000_000), 2));
    }
}
