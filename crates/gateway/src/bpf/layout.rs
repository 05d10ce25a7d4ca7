// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures that the programs and the loader share, each with the names and places of the C. A test compares them, and those of
//! [`params`](super::params), with the programs' BTF.

mod config;

pub use config::Config;

use bytemuck::{Pod, Zeroable};
use makeway_core::flow::Identity;
use makeway_core::packet::DropReason;
use makeway_core::sched::Reason;

use crate::datapath::reason;

/// `struct keys`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Keys {
    pub seed: u64,
    pub flows_by: u32,
    pub users_by: u32,
    pub multipliers: [u64; 11],
    pub word: u64,
    pub near: u32,
    pub unused: u32,
}

/// `struct nat` of `bpf/nat.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Nat {
    pub word: u64,
    pub seed: u64,
}

/// `enum identity` of `bpf/dissect.h`.
pub const fn identity(identity: Identity) -> u32 {
    match identity {
        Identity::FiveTuple => 0,
        Identity::SrcPort => 1,
        Identity::SrcHost => 2,
        Identity::DstHost => 3,
        Identity::HostPair => 4,
    }
}

/// In the order of `enum why` of `bpf/record.h`.
pub const WHY: [Reason; 8] = [
    Reason::Begins,
    Reason::Released,
    Reason::NoQueue,
    Reason::Starved,
    // Its time is `stood` of the record.
    Reason::StandingQueue(0),
    Reason::RespondsToLoss,
    Reason::Grew,
    Reason::Unproven,
];

/// Number of reasons for a drop.
pub(super) const REASONS: usize = DropReason::ALL.len() + 2;

/// `struct counters`. Packets and bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Counters {
    /// Packets that came.
    pub packets_in: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    drops: [u64; REASONS],
    /// The largest packet that came.
    pub largest: u64,
    /// Packets that were given priority (NCQ).
    pub favoured: u64,
    /// Packets that left behind a later one of their flow (NCQ).
    pub reordered: u64,
    /// Packets that came with less than K times the least tickets (TRED).
    pub expected: u64,
}

impl Counters {
    /// Drops by reason; reasons without a drop are left out.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let reasons = DropReason::ALL.into_iter().map(DropReason::name);
        let named = reasons
            .chain([reason::FLOWS, reason::RESET])
            .zip(self.drops);
        named.filter(|&(_, n)| n > 0)
    }
}

/// `struct pool` of `bpf/pool.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Pool {
    pub packets: u32,
    pub bytes: u32,
    free_slot: u32,
    used_slots: u32,
    flows_free: u32,
    /// Entries of flows that were ever used, which are the first.
    pub flows_used: u32,
}

/// `struct flow` of `bpf/pool.h`, without what a discipline adds.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct FlowEntry {
    pub entry_hash: u32,
    entry_chain: u32,
    head: u32,
    tail: u32,
    pub bytes: u32,
    pub packets: u32,
}

/// `struct flow` of `bpf/makeway.bpf.c`, as far as it is for its owner to read. Times in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct JudgedFlow {
    pub entry: FlowEntry,
    cost: u32,
    gap: u32,
    pub bytes_out: u64,
    pub packets_out: u64,
    pub record: Record,
}

/// `struct record` of `bpf/record.h`, as far as its class.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Record {
    since: u64,
    pub entered: u64,
    offence: u64,
    busy: u64,
    pub seen: u64,
    credit: i64,
    beside: u64,
    window: [u32; 13],
    /// Ms for which its queue stood, where that is why.
    pub stood: u32,
    /// The place in [`Class::ALL`](makeway_core::sched::Class::ALL).
    pub class: u8,
    question: u8,
    /// The place in [`WHY`].
    pub why: u8,
    demerits: u8,
    starved: u8,
    grew: u8,
    due: u8,
    silent: u8,
    drowned: u8,
    /// 0 before its first packet.
    pub known: u8,
    hogs: u8,
    large: u8,
    filled: u8,
    tested: u8,
    unused: [u8; 2],
}

/// `struct key` of `bpf/dissect.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Key {
    /// As they lie in the packet; IPv4 has the first four bytes.
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub sport: u32,
    pub dport: u32,
    pub protocol: u32,
    /// 4, 6, or 0.
    pub family: u32,
}

/// `struct sojourns` of `bpf/sojourn.h`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Sojourns {
    /// When it was copied, in ns of CLOCK_MONOTONIC.
    pub at: u64,
    pub sum: u64,
    pub max: u64,
    pub buckets: [u64; 128],
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use libbpf_rs::HasSize;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    use super::super::nat;
    use super::super::params::{Ncq, Red, Tred};
    use super::super::program;
    use super::*;
    use makeway_core::sched::Discipline;

    /// Names and places of fields, and the size of all. [`Pod`] has no gaps, so that a list without one of its fields
    /// leaves a gap that the C does not have.
    type Fields = (Vec<(String, usize)>, usize);

    macro_rules! fields {
        ($of:ident: $($field:ident)*) => {
            (
                vec![$((stringify!($field).to_owned(), offset_of!($of, $field))),*],
                size_of::<$of>(),
            )
        };
    }

    /// Fields of a structure of C, with the fields of its structures.
    fn fields_of_c(btf: &Btf<'_>, one: &Struct<'_>) -> Fields {
        let mut fields = Vec::new();
        for member in one.iter() {
            let name = member.name.unwrap().to_str().unwrap().to_owned();
            let MemberAttr::Normal { offset } = member.attr else {
                panic!("{name} is a bit field");
            };
            let at = offset as usize / 8;
            match btf.type_by_id::<Struct<'_>>(member.ty) {
                None => fields.push((name, at)),
                Some(inner) => {
                    let (inner, _) = fields_of_c(btf, &inner);
                    let inner = inner.into_iter();
                    fields.extend(inner.map(|(field, n)| (format!("{name}_{field}"), at + n)));
                }
            }
        }
        (fields, one.size())
    }

    /// Structures of this discipline's parameters: their names in C.
    fn parameters(discipline: Discipline) -> Vec<(&'static str, Fields)> {
        let red = || fields!(Red: weight max_p packet_time min max unit by_bytes gentle wait);
        match discipline {
            Discipline::Ncq => vec![(
                "params",
                fields!(Ncq: threshold length window probabilistic control keep_order push_out),
            )],
            Discipline::Tred => vec![
                ("params", fields!(Tred: interval window k exponent)),
                ("red", red()),
            ],
            _ => Vec::new(),
        }
    }

    /// `bpf_native/keys.rs` compares the C with the order of [`Identity::ALL`].
    #[test]
    fn identities_are_numbered_in_their_order() {
        assert_eq!(Identity::ALL.map(identity), [0, 1, 2, 3, 4]);
        for one in Identity::ALL {
            assert_eq!(identity(one), one as u32, "{one}");
        }
    }

    #[test]
    fn every_field_stands_where_the_programs_have_it() {
        let mut seen = 0;
        for discipline in Discipline::ALL {
            let Ok(program) = program(discipline) else {
                continue;
            };
            let btf = Btf::from_raw(discipline.name(), program).unwrap().unwrap();
            let of_c = |name: &str| fields_of_c(&btf, &btf.type_by_name(name).unwrap());
            let mut mirrors = parameters(discipline);
            mirrors.extend([
                (
                    "config",
                    fields!(Config: rate limit_packets limit_bytes overhead mpu cells drop_tail quantum weights),
                ),
                ("keys", fields!(Keys: seed flows_by users_by multipliers word near unused)),
                (
                    "counters",
                    fields!(Counters: packets_in bytes_in packets_out bytes_out drops largest favoured reordered expected),
                ),
                (
                    "pool",
                    fields!(Pool: packets bytes free_slot used_slots flows_free flows_used),
                ),
                ("sojourns", fields!(Sojourns: at sum max buckets)),
            ]);
            for (name, fields) in mirrors {
                let (mut theirs, size) = of_c(name);
                for (field, _) in &mut theirs {
                    // `framing` in `config` is flat here.
                    *field = field.trim_start_matches("framing_").to_owned();
                }
                assert_eq!((theirs, size), fields, "{discipline} {name}");
                seen += 1;
            }
            // A discipline's own state follows.
            if discipline == Discipline::Makeway {
                let (theirs, _) = of_c("flow");
                let ours = [
                    ("bytes_out", offset_of!(JudgedFlow, bytes_out)),
                    ("packets_out", offset_of!(JudgedFlow, packets_out)),
                ];
                let record = [
                    ("entered", offset_of!(Record, entered)),
                    ("seen", offset_of!(Record, seen)),
                    ("stood", offset_of!(Record, stood)),
                    ("class", offset_of!(Record, class)),
                    ("why", offset_of!(Record, why)),
                    ("known", offset_of!(Record, known)),
                ]
                .map(|(field, at)| {
                    (
                        format!("record_{field}"),
                        offset_of!(JudgedFlow, record) + at,
                    )
                });
                let ours = ours.map(|(field, at)| (field.to_owned(), at));
                for field in ours.into_iter().chain(record) {
                    assert!(theirs.contains(&field), "{field:?}: {theirs:?}");
                }
                let key = fields!(Key: src dst sport dport protocol family);
                assert_eq!(of_c("key"), key);
            }
            let (flow, size) = fields!(FlowEntry: entry_hash entry_chain head tail bytes packets);
            let (theirs, _) = of_c("flow");
            assert_eq!(theirs[..flow.len()], flow, "{discipline}");
            assert_eq!(theirs[flow.len()].1, size, "{discipline}");
        }
        assert!(seen > 5 * 6, "{seen}");
        let btf = Btf::from_raw("nat", nat::OBJECT).unwrap().unwrap();
        let theirs = fields_of_c(&btf, &btf.type_by_name("nat").unwrap());
        let ours = fields!(Nat: word seed);
        assert_eq!(theirs, ours);
    }
}
