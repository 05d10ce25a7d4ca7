// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration changes while packets are held.

use bytemuck::pod_read_unaligned;
use makeway_core::framing::Cells;

use super::*;

/// `FLOWS` of `enum reason`, behind core's: no place for a flow or a packet.
const FLOWS_FULL: u64 = REASONS.len() as u64;

impl Link {
    /// Its configuration, as the loader has it.
    pub fn config(&self) -> Config {
        let limits = self.env.limits;
        let (quantum, drop_from) = match &self.spec {
            Spec::Fq(fq) => (fq.quantum, fq.drop_from),
            Spec::Hier(hier) => (hier.quantum, hier.drop_from),
            Spec::Makeway(makeway) => (makeway.quantum, DropFrom::Head),
            Spec::Sqf(sqf) => (FqParams::default().quantum, sqf.drop_from),
            _ => (FqParams::default().quantum, DropFrom::Head),
        };
        let mut config = Config {
            rate: self.rate.map_or(0, Rate::bps),
            limit_packets: limits.packets,
            limit_bytes: limits.bytes.get() as u32,
            drop_tail: (drop_from == DropFrom::Tail).into(),
            quantum: quantum.get() as u32,
            weights: 1,
            ..Config::default()
        };
        config.set_framing(self.framing);
        config
    }
}

/// The configuration that `op` writes.
pub fn config(op: &Op) -> Config {
    pod_read_unaligned(&op.bytes[..size_of::<Config>()])
}

/// Configurations of all operations that write one.
pub fn all(ops: &[Op]) -> impl Iterator<Item = Config> {
    ops.iter().filter(|op| op.what == CONFIGURE).map(config)
}

pub fn framing_of(config: &Config) -> Framing {
    Framing {
        overhead: config.overhead,
        mpu: config.mpu,
        cells: [Cells::None, Cells::Atm, Cells::Ptm][config.cells as usize],
    }
}

/// `ops` in as many parts as there are changes, and one; each of them is made between two.
fn changed(link: &Link, ops: Vec<Op>, changes: &[impl Fn(&mut Config)]) -> Vec<Op> {
    let mut config = link.config();
    let part = ops.len() / (changes.len() + 1) + 1;
    let mut changes = changes.iter();
    let mut all = Vec::with_capacity(ops.len() + changes.len());
    for (n, op) in ops.into_iter().enumerate() {
        if n > 0
            && n % part == 0
            && let Some(change) = changes.next()
        {
            change(&mut config);
            let mut bytes = [0; 64];
            bytes[..size_of::<Config>()].copy_from_slice(bytes_of(&config));
            all.push(Op {
                what: CONFIGURE,
                now: op.now,
                bytes,
                ..Op::zeroed()
            });
        }
        if op.what == SET_RATE {
            config.rate = op.rate;
        }
        all.push(op);
    }
    all
}

/// A packet costs what it has on the wire by the framing at its arrival, here as in core.
pub fn framings(
    native: &Native,
    link: &Link,
    ops: Vec<Op>,
    framings: &[Framing],
) -> Result<(), TestCaseError> {
    let changes: Vec<_> = framings
        .iter()
        .map(|framing| move |config: &mut Config| config.set_framing(*framing))
        .collect();
    check_ops(native, link, changed(link, ops, &changes))
}

/// `ops` in as many parts as there are weights, and one; each of them is given to its host between two.
pub fn weighed(ops: Vec<Op>, weights: &[(u8, u32)]) -> Vec<Op> {
    let part = ops.len() / (weights.len() + 1) + 1;
    let mut weights = weights.iter();
    let mut all = Vec::with_capacity(ops.len() + weights.len());
    for (n, op) in ops.into_iter().enumerate() {
        if n > 0
            && n % part == 0
            && let Some(&(host, weight)) = weights.next()
        {
            all.push(weight_of(op.now, host, weight));
        }
        all.push(op);
    }
    all
}

fn weight_of(now: u64, host: u8, weight: u32) -> Op {
    Op {
        what: WEIGH,
        now,
        packet: host.into(),
        len: weight,
        ..Op::zeroed()
    }
}

/// Core gives it from the next turn on; the program looks a weight up as a packet of the user comes or goes.
#[test]
fn a_user_of_hier_has_its_new_share_a_turn_later() {
    let macros = [
        "DISCIPLINE=\"../hier.bpf.c\"",
        "OPS=hier",
        "HAS_USERS",
        "HAS_NODES",
        "HAS_RANDOM",
    ];
    let hier = Native::compile("drive-weighed", "drive.c", &macros.map(String::from));
    let limits = Limits {
        packets: 200,
        bytes: Bytes::new(1 << 20),
        flows: FLOWS,
    };
    let link = Link {
        spec: Spec::Hier(HierParams {
            quantum: Bytes::new(1000),
            ..HierParams::default()
        }),
        env: Env {
            users: USERS,
            ..Env::new(limits)
        },
        rate: None,
        framing: Framing::default(),
        weights: [0; HOSTS],
        flows_by: FIVE_TUPLE,
    };
    let arrivals = (0..160).map(|n| {
        let host = (n % 2) as u8;
        Op {
            now: 1,
            what: ENQUEUE,
            packet: n,
            hash: u32::from(host) + 1,
            flow: host.into(),
            len: 1000,
            bytes: headers(4, 1000, None, host),
            ..Op::zeroed()
        }
    });
    let departures = |n| {
        let one = Op {
            now: 2,
            what: DEQUEUE,
            ..Op::zeroed()
        };
        std::iter::repeat_n(one, n)
    };
    let ops: Vec<Op> = arrivals
        .chain(departures(20))
        .chain([weight_of(2, 1, 3)])
        .chain(departures(40))
        .chain([weight_of(2, 1, 1)])
        .chain(departures(40))
        .collect();
    let events = hier.drive(&link, &ops);
    let left = events.iter().filter(|event| event.told == LEFT);
    let left: Vec<u32> = left.map(|event| event.packet % 2).collect();
    let of_one = |part: &[u32]| part.iter().sum::<u32>();
    assert_eq!((left.len(), of_one(&left[..20])), (100, 10));
    assert!((27..=31).contains(&of_one(&left[20..60])), "{left:?}");
    assert!((19..=23).contains(&of_one(&left[60..])), "{left:?}");
}

/// Limits of which the others are multiples, and the factors: the part of the limit in bytes that is each packet's stays.
#[derive(Clone, Debug)]
pub struct Limited {
    packets: u32,
    bytes: u32,
    factors: Vec<u32>,
}

pub fn limits() -> impl Strategy<Value = Limited> {
    // Tight in bytes, or in packets: in so few that `tred` does not drop before. The most is `LIMIT_BYTES`.
    let packets = prop_oneof![1u32..6, 1u32..60];
    let part = prop_oneof![64u32..300, 300u32..5000, Just(35_000u32)];
    (packets, part, vec(1u32..9, 2..6)).prop_map(|(packets, part, factors)| Limited {
        packets,
        bytes: packets * part,
        factors,
    })
}

/// A limit that rises or falls is kept from the next packet on that comes, and none is refused for want of a place.
pub fn limited(
    native: &Native,
    mut link: Link,
    ops: Vec<Op>,
    Limited {
        packets,
        bytes,
        factors,
    }: &Limited,
) -> Result<(), TestCaseError> {
    link.env.limits.packets = packets * factors[0];
    link.env.limits.bytes = Bytes::new((bytes * factors[0]).into());
    let changes: Vec<_> = factors[1..]
        .iter()
        .map(|factor| {
            move |config: &mut Config| {
                config.limit_packets = packets * factor;
                config.limit_bytes = bytes * factor;
            }
        })
        .collect();
    let mut ops = changed(&link, ops, &changes);
    ops.push(Op {
        what: RESET,
        now: u64::MAX >> 2,
        ..Op::zeroed()
    });
    let events = native.drive(&link, &ops);
    let each = events.split_inclusive(|event| event.told == BUSY);
    let each: Vec<&[Event]> = each.collect();
    prop_assert_eq!(each.len(), ops.len());
    let drops_longest = link.spec.needs().drops_longest;
    let mut config = link.config();
    let (mut came, mut gone) = (Vec::new(), Vec::new());
    let mut before = 0;
    for (op, events) in ops.iter().zip(&each) {
        let held = events.iter().find(|event| event.told == HELD).unwrap();
        match op.what {
            CONFIGURE => config = change::config(op),
            ENQUEUE => {
                came.push(op.packet);
                let fits = held.packet <= config.limit_packets
                    && held.value <= u64::from(config.limit_bytes);
                // One that does not drop for a packet refuses it, until enough have left; one that is refused for another reason
                // drops none.
                let is_it = |event: &Event| (event.told, event.packet) == (DROPPED, op.packet);
                let is_refused = events.iter().any(is_it);
                let keeps = (is_refused || !drops_longest) && held.packet <= before;
                prop_assert!(fits || keeps, "{:?} {:?}", held, config);
            }
            _ => {}
        }
        before = held.packet;
        for event in *events {
            match event.told {
                DROPPED => prop_assert_ne!(event.value, FLOWS_FULL, "{:?}", event),
                LEFT | FREED => {}
                _ => continue,
            }
            gone.push(event.packet);
        }
    }
    gone.sort_unstable();
    prop_assert_eq!(gone, came, "each packet goes once");
    Ok(())
}
