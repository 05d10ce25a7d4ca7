// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole disciplines: the same operations through the C and through core give the same departures and drops, in the
//! same order and for the same reasons, and leave the same backlog and the same link.

#[path = "../../../../bpf/native/drive.rs"]
mod drive;

use std::sync::LazyLock;

use bytemuck::{Zeroable, bytes_of, cast_slice};
use drive::*;
use makeway_core::flow::{FlowKey, FlowTable, Identity, is_control, tag};
use makeway_core::framing::Framing;
use makeway_core::packet::{DropReason, FlowId, Handle, Packet, UserId};
use makeway_core::sched::{
    Discipline, DropFrom, Drops, Env, FqParams, HierParams, Limits, MakewayParams, NcqParams,
    RedParams, Scheduler, Spec, SqfParams, TredParams, build,
};
use makeway_core::shaper::Shaper;
use makeway_core::units::{Bytes, Duration, Fraction, Instant, Rate};
use makeway_gateway::bpf::layout;
use makeway_gateway::bpf::params::{Ncq, Red, Tred, tickets};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Native, framing};

/// As in `bpf/qdisc.h`: a new rate is seen within 100 ms.
const WAKE: u64 = 100_000_000;

/// The order of `enum reason`.
const REASONS: [DropReason; 7] = DropReason::ALL;

/// A discipline on a link.
#[derive(Clone, Debug)]
struct Link {
    spec: Spec,
    env: Env,
    rate: Option<Rate>,
    framing: Framing,
    /// Weights of the hosts 10.0.0.0 and so on, each a user of `hier`; 0 is none.
    weights: [u32; HOSTS],
    /// `enum identity` of flows.
    flows_by: u32,
}

impl Native {
    fn discipline(name: &str) -> Self {
        let mut macros = vec![
            format!("DISCIPLINE=\"../{name}.bpf.c\""),
            format!("OPS={name}"),
        ];
        if name == "ncq" {
            macros.extend(["HAS_KINDS", "HAS_RANDOM", "HAS_PARAMS"].map(String::from));
        }
        if name == "tred" {
            let has = ["HAS_PARAMS", "HAS_RED", "HAS_TICKETS", "HAS_RANDOM"];
            macros.extend(has.map(String::from));
        }
        if name == "hier" {
            macros.extend(["HAS_USERS", "HAS_NODES", "HAS_RANDOM"].map(String::from));
        }
        if name == "makeway" {
            macros.extend(["HAS_USERS", "HAS_RECORD"].map(String::from));
        }
        Self::compile(&format!("drive-{name}"), "drive.c", &macros)
    }

    fn drive(&self, link: &Link, ops: &[Op]) -> Vec<Event> {
        let Link {
            spec,
            env,
            rate,
            framing,
            weights,
            flows_by,
        } = link;
        let limits = env.limits;
        let slots = limits.packets + 2;
        let (mut tags, mut window) = (Vec::new(), None);
        let params = match spec {
            Spec::Ncq(ncq) => {
                window = ncq.window;
                bytes_of(&Ncq::new(ncq, env)).to_vec()
            }
            Spec::Tred(tred) => {
                tags = tickets(env.codec);
                let (own, red) = (Tred::from(tred), Red::new(&tred.red, env));
                [bytes_of(&own), bytes_of(&red), cast_slice(&tags)].concat()
            }
            _ => Vec::new(),
        };
        let (quantum, drop_from) = match spec {
            Spec::Fq(fq) => (fq.quantum, fq.drop_from),
            Spec::Hier(hier) => (hier.quantum, hier.drop_from),
            Spec::Makeway(makeway) => (makeway.quantum, DropFrom::Head),
            Spec::Sqf(sqf) => (FqParams::default().quantum, sqf.drop_from),
            _ => (FqParams::default().quantum, DropFrom::Head),
        };
        // A flow of `makeway` is known while it holds nothing.
        let flows = match spec {
            Spec::Makeway(_) => slots.max(limits.flows + 1),
            _ => slots,
        };
        let mut config = Config {
            rate: rate.map_or(0, Rate::bps),
            limit_packets: limits.packets,
            limit_bytes: limits.bytes.get() as u32,
            drop_tail: (drop_from == DropFrom::Tail).into(),
            quantum: quantum.get() as u32,
            weights: 1,
            ..Config::default()
        };
        config.set_framing(*framing);
        let setup = Setup {
            config,
            slots,
            chains: (2 * flows).next_power_of_two(),
            kinds: window.unwrap_or(1),
            chain_seed: 7,
            random: env.seed,
            params: params.len() as u64,
            weights: *weights,
            flows,
            users: flows + 1,
            flows_by: *flows_by,
            tickets: tags.len() as u32,
        };
        self.run([bytes_of(&setup), &params, cast_slice(ops)].concat())
    }
}

/// The run of core, as those events of the C that core has too.
fn core(link: &Link, ops: &[Op]) -> Vec<Event> {
    let mut shaper = Shaper::new(link.rate, build(&link.spec, &link.env).unwrap());
    let mut rate = link.rate;
    let mut drops = Drops::default();
    let mut dropped = 0;
    let mut events = Vec::new();
    let mut flows = FlowTable::<u32>::new(link.env.limits.flows, 1);
    // Last arrivals, of each flow.
    let mut seen = vec![Instant::ZERO; link.env.limits.flows as usize];
    let release =
        |shaper: &Shaper, flows: &mut FlowTable<u32>, seen: &[Instant], packet: &Packet| {
            let class = shaper.standing(packet.flow).map(|standing| standing.class);
            if flows.release(packet.flow)
                && let Some(class) = class.filter(|class| class.goes_first())
            {
                let until = seen[packet.flow.0 as usize] + class.remembered();
                flows.keep(packet.flow, until);
            }
        };
    let mut users: Vec<FlowKey> = (0..HOSTS as u8)
        .map(|host| user(&headers(0, 40, None, host)))
        .collect();
    for op in ops {
        let mut tell = |told, packet, value| {
            events.push(Event {
                told,
                packet,
                value,
            });
        };
        let now = Instant::from_nanos(op.now);
        let mut left = None;
        let mut came = None;
        match op.what {
            ENQUEUE => {
                let held = flows
                    .hold_at(now, &op.flow)
                    .expect("more flows than packets");
                seen[held.id.0 as usize] = now;
                if held.is_new {
                    shaper.forget(held.id);
                }
                came = Some(held.id);
                let packet = packet(link, op, held.id, &mut users);
                shaper.enqueue(now, packet, &mut drops);
            }
            DEQUEUE => {
                // The kernel's side sees a new rate when there is a packet to send.
                if shaper.backlog().packets > 0 && rate != shaper.rate() {
                    shaper.set_rate(now, rate);
                }
                left = shaper.dequeue(now, &mut drops);
            }
            SET_RATE => rate = (op.rate > 0).then(|| Rate::from_bps(op.rate)),
            _ => unreachable!("core has no other"),
        }
        for (packet, reason) in drops.drain() {
            let reason = REASONS.iter().position(|one| *one == reason).unwrap();
            tell(DROPPED, packet.handle.0, reason as u64);
            dropped += 1;
            release(&shaper, &mut flows, &seen, &packet);
        }
        let judged = came.and_then(|flow| shaper.standing(flow));
        for (told, packet, value) in judged.map(makeway::told).into_iter().flatten() {
            tell(told, packet, value);
        }
        if let Some(packet) = left {
            tell(LEFT, packet.handle.0, 0);
            release(&shaper, &mut flows, &seen, &packet);
        }
        let (held, counts) = (shaper.backlog(), shaper.counts());
        tell(HELD, held.packets, held.bytes.get());
        tell(DROPS, 0, dropped);
        tell(NCQ, counts.favoured as u32, counts.reordered);
        tell(EXPECTED, 0, counts.expected);
        let busy = shaper.rate().map(|_| shaper.busy_until().as_nanos());
        tell(BUSY, 0, busy.unwrap_or(0));
    }
    events
}

/// `users` are those seen, each under its number.
fn packet(link: &Link, op: &Op, flow: FlowId, users: &mut Vec<FlowKey>) -> Packet {
    let (now, handle) = (Instant::from_nanos(op.now), Handle(op.packet));
    let mut bytes = op.bytes.to_vec();
    bytes.resize(op.len as usize, 0);
    let key = user(&bytes);
    let user = users.iter().position(|one| *one == key);
    let user = user.unwrap_or_else(|| {
        users.push(key);
        users.len() - 1
    });
    let user = UserId(user as u32);
    let packet = Packet::new(now, handle, flow, user, wire(link.framing, op));
    // A tag that no code of this network has says nothing.
    let tag = tag(&bytes).filter(|tag| *tag <= link.env.codec.most());
    let packet = packet.with_tag(tag.unwrap_or_default());
    match is_control(&bytes) {
        true => packet.with_control(),
        false => packet,
    }
}

/// Users are distinguished by destination.
fn user(packet: &[u8]) -> FlowKey {
    FlowKey::from_ip(Identity::DstHost, packet)
}

/// A GSO packet costs what its segments cost.
fn wire(framing: Framing, op: &Op) -> Bytes {
    let wire = |len: u32| framing.wire(Bytes::new(len.into())).get();
    if op.gso_segs < 2 {
        return Bytes::new(wire(op.len));
    }
    let last = op.len - (op.gso_segs - 1) * op.gso_size;
    let full = op.headers + op.gso_size;
    Bytes::new(u64::from(op.gso_segs - 1) * wire(full) + wire(last))
}

fn link(discipline: Discipline) -> impl Strategy<Value = Link> {
    // Tight in packets, tight in bytes, or neither; backlogs beyond the window of the order, too.
    let limits = prop_oneof![
        (1u32..60, Just(1u64 << 24)),
        (Just(2000), 1000u64..60_000),
        (Just(2000), 300_000u64..3_000_000),
    ];
    let drop_from = prop_oneof![Just(DropFrom::Head), Just(DropFrom::Tail)];
    let rate = prop_oneof![Just(None), (100_000u64..2_000_000_000).prop_map(Some)];
    let weights = prop_oneof![
        Just([0; HOSTS]),
        any::<[u16; HOSTS]>().prop_map(|all| all.map(u32::from)),
        any::<[u8; HOSTS]>().prop_map(|all| all.map(|one| u32::from(one % 4)))
    ];
    let sharing = (drop_from, 64u64..4000, weights);
    let params = (ncq(), tred());
    (limits, sharing, params, rate, (framing(), any::<u64>())).prop_map(
        move |((packets, bytes), (drop_from, quantum, weights), params, rate, (framing, seed))| {
            let (ncq, tred) = params;
            let bytes = Bytes::new(bytes);
            let limits = Limits {
                packets,
                bytes,
                flows: FLOWS,
            };
            let quantum = Bytes::new(quantum);
            let spec = match discipline {
                Discipline::Fq => Spec::Fq(FqParams { quantum, drop_from }),
                Discipline::Hier => Spec::Hier(HierParams { quantum, drop_from }),
                Discipline::Makeway => Spec::Makeway(MakewayParams { quantum }),
                Discipline::Sqf => Spec::Sqf(SqfParams {
                    drop_from,
                    ..SqfParams::default()
                }),
                Discipline::Ncq => Spec::Ncq(ncq),
                Discipline::Tred => Spec::Tred(tred),
                other => other.spec(),
            };
            let given = weights.iter().zip(0..).filter(|&(&weight, _)| weight > 0);
            let env = Env {
                users: USERS,
                weights: given
                    .map(|(&weight, user)| (UserId(user), weight))
                    .collect(),
                rate: rate.map(Rate::from_bps),
                framing,
                seed,
                ..Env::new(limits)
            };
            Link {
                spec,
                env,
                rate: rate.map(Rate::from_bps),
                framing,
                weights,
                flows_by: FIVE_TUPLE,
            }
        },
    )
}

/// The variants that the C has.
fn ncq() -> impl Strategy<Value = NcqParams> {
    let window = prop_oneof![Just(None), (1u32..300).prop_map(Some)];
    let numbers = (40u64..1000, 1u64..=100, window);
    (numbers, any::<[bool; 4]>()).prop_map(|((length, percent, window), variants)| {
        let [probabilistic, control, keep_order, push_out] = variants;
        NcqParams {
            length: Bytes::new(length),
            threshold: Fraction::ratio(percent, 100),
            window,
            probabilistic,
            control,
            keep_order,
            push_out,
            ..NcqParams::default()
        }
    })
}

/// The variants that the C has.
fn tred() -> impl Strategy<Value = TredParams> {
    let red = (1u32..20, 1u32..30, 1u64..=1000, 1u64..=100);
    let own = (101u32..1000, 1u32..=64, 1u64..2000, 1u64..2000);
    (red, own, any::<[bool; 3]>()).prop_map(|(red, own, variants)| {
        let (min, range, weight, percent) = red;
        let (k, exponent, interval, window) = own;
        let [gentle, wait, by_bytes] = variants;
        TredParams {
            red: RedParams {
                min,
                max: min + range,
                weight: Fraction::ratio(weight, 1000),
                max_p: Fraction::ratio(percent, 100),
                gentle,
                wait,
                by_bytes,
                ..RedParams::default()
            },
            k,
            exponent,
            interval: Duration::from_millis(interval),
            window: Duration::from_millis(window),
            spaced: false,
        }
    })
}

const FIVE_TUPLE: u32 = layout::identity(Identity::FiveTuple);
const SRC_HOST: u32 = layout::identity(Identity::SrcHost);

const FLOWS: u32 = 1000;

/// More than there are packets in a run.
const USERS: u32 = 2048;

#[derive(Clone, Debug)]
enum Do {
    Enqueue {
        flow: u32,
        len: u32,
        kind: u8,
        spoilt: Option<(usize, u8)>,
    },
    EnqueueGso {
        flow: u32,
        headers: u32,
        size: u32,
        segs: u32,
        last: u32,
    },
    Dequeue,
    SetRate(u64),
}

fn operations() -> impl Strategy<Value = Vec<(u64, Do)>> {
    // Few flows with much and many with little.
    let flow = || prop_oneof![0..3u32, 0..FLOWS];
    let len = prop_oneof![40..1500u32, Just(1500u32), 40..130u32];
    let spoilt = prop_oneof![8 => Just(None), 2 => (0usize..60, any::<u8>()).prop_map(Some)];
    let packet = (flow(), len, 0..5u8, spoilt);
    let gso = (flow(), 28..100u32, 1..1448u32, 2..44u32, 0..1448u32);
    let one = prop_oneof![
        12 => packet.prop_map(|(flow, len, kind, spoilt)| Do::Enqueue { flow, len, kind, spoilt }),
        3 => gso.prop_map(|(flow, headers, size, segs, last)| {
            Do::EnqueueGso { flow, headers, size, segs, last: 1 + last % size }
        }),
        12 => Just(Do::Dequeue),
        1 => prop_oneof![9 => 1000u64..2_000_000_000, 1 => Just(0)].prop_map(Do::SetRate),
    ];
    let later = prop_oneof![4 => 0u64..10_000, 4 => 0u64..2_000_000, 1 => 0u64..200_000_000];
    vec((later, one), 1..1500)
}

/// The first bytes of an IP packet of `len` to a host: TCP or UDP on IPv4 or IPv6, some of them acknowledgements.
fn headers(kind: u8, len: u32, spoilt: Option<(usize, u8)>, host: u8) -> [u8; 64] {
    const TCP: u8 = 6;
    const DESTINATION_OPTIONS: u8 = 60;
    let mut bytes = [0; 64];
    let [high, low] = (len as u16).to_be_bytes();
    let tcp = match kind {
        0..=2 => {
            bytes[..10].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, TCP]);
            20
        }
        3 => {
            let [high, low] = (len as u16 - 40).to_be_bytes();
            bytes[..7].copy_from_slice(&[0x60, 0, 0, 0, high, low, DESTINATION_OPTIONS]);
            bytes[40] = TCP;
            48
        }
        _ => {
            bytes[..10].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, 17]);
            20
        }
    };
    match tcp {
        20 => bytes[16..20].copy_from_slice(&[10, 0, 0, host]),
        _ => bytes[39] = host,
    }
    // Tag of the packets of a host: none, three of different value, and one that no code of 8 bits has.
    let [high, low] = [0u16, 20, 28, 200, 300][usize::from(host) % 5].to_be_bytes();
    match kind {
        3 => bytes[2..4].copy_from_slice(&[high, low]),
        // A packet that may be fragmented has no room for one.
        _ => bytes[4..7].copy_from_slice(&[high, low, 0x40]),
    }
    // Options as long as the packet is, if they can be: an acknowledgement.
    let offset = len.saturating_sub(tcp as u32) / 4;
    if kind != 1 && tcp + 12 < bytes.len() {
        bytes[tcp + 12] = (offset.min(15) as u8) << 4;
    }
    if let Some((at, byte)) = spoilt {
        bytes[at] = byte;
    }
    bytes
}

/// `later` is nanoseconds after the operation before. Flows have distinct hashes.
fn ops(operations: &[(u64, Do)]) -> Vec<Op> {
    let mut now = 1_000_000_000;
    let hash = |flow: u32| (flow + 1).wrapping_mul(0x9e37_79b9);
    let host = |flow: u32| (flow % 5) as u8;
    let each = operations.iter().enumerate().map(|(n, (later, what))| {
        now += later;
        let op = Op {
            now,
            packet: n as u32,
            ..Op::zeroed()
        };
        match *what {
            Do::Enqueue {
                flow,
                len,
                kind,
                spoilt,
            } => Op {
                what: ENQUEUE,
                hash: hash(flow),
                flow,
                len,
                bytes: headers(kind, len, spoilt, host(flow)),
                ..op
            },
            Do::EnqueueGso {
                flow,
                headers,
                size,
                segs,
                last,
            } => Op {
                what: ENQUEUE,
                hash: hash(flow),
                flow,
                len: headers + size * (segs - 1) + last,
                bytes: self::headers(4, headers + size * (segs - 1) + last, None, host(flow)),
                headers,
                gso_size: size,
                gso_segs: segs,
                ..op
            },
            Do::Dequeue => Op {
                what: DEQUEUE,
                ..op
            },
            Do::SetRate(rate) => Op {
                what: SET_RATE,
                rate,
                ..op
            },
        }
    });
    each.collect()
}

/// Events of both sides.
fn common(events: &[Event]) -> Vec<Event> {
    let of_core = [
        LEFT, DROPPED, HELD, DROPS, NCQ, BUSY, STANDING, STOOD, EXPECTED,
    ];
    let common = events.iter().filter(|event| of_core.contains(&event.told));
    common.copied().collect()
}

fn check(native: &Native, link: &Link, operations: &[(u64, Do)]) -> Result<(), TestCaseError> {
    check_ops(native, link, ops(operations))
}

fn check_ops(native: &Native, link: &Link, mut ops: Vec<Op>) -> Result<(), TestCaseError> {
    let expected = core(link, &ops);
    let left = expected.iter().rev().find(|event| event.told == HELD);
    let left = left.map_or(0, |held| held.packet);
    ops.push(Op {
        what: RESET,
        now: u64::MAX >> 2,
        ..Op::zeroed()
    });
    let events = native.drive(link, &ops);
    let all = common(&events);
    for (n, (ours, cores)) in all.iter().zip(&expected).enumerate() {
        prop_assert_eq!(ours, cores, "event {}", n);
    }
    // `BUSY` is the last event of an operation.
    let each = events.split_inclusive(|event| event.told == BUSY);
    let each: Vec<&[Event]> = each.collect();
    prop_assert_eq!(each.len(), ops.len());
    for (op, events) in ops.iter().zip(&each) {
        check_calls(op, events)?;
    }
    let freed = each[ops.len() - 1]
        .iter()
        .filter(|event| event.told == FREED);
    prop_assert_eq!(freed.count() as u32, left, "reset frees what is held");
    let held = Event {
        told: HELD,
        packet: 0,
        value: 0,
    };
    prop_assert!(each[ops.len() - 1].contains(&held), "reset leaves nothing");
    Ok(())
}

/// Values for the kernel, which core does not have: an arrival's answer, and when to call again.
fn check_calls(op: &Op, events: &[Event]) -> Result<(), TestCaseError> {
    let find = |told| events.iter().find(|event| event.told == told);
    if let Some(answer) = find(ANSWER) {
        let longest = REASONS
            .iter()
            .position(|one| *one == DropReason::LongestQueue);
        let refused = events.iter().any(|event| {
            (event.told, event.packet) == (DROPPED, op.packet)
                && Some(event.value as usize) != longest
        });
        prop_assert_eq!(
            answer.value,
            u64::from(refused),
            "NET_XMIT_DROP is what is refused"
        );
    }
    if op.what == DEQUEUE {
        let busy = find(BUSY).unwrap().value;
        let waits = find(HELD).unwrap().packet > 0 && find(LEFT).is_none();
        let at = waits.then(|| busy.min(op.now + WAKE));
        prop_assert_eq!(find(WATCHDOG).map(|event| event.value), at);
    }
    Ok(())
}

macro_rules! disciplines {
    ($($name:ident: $discipline:expr,)*) => {$(
        mod $name {
            use super::*;
            static NATIVE: LazyLock<Native> = LazyLock::new(|| Native::discipline(stringify!($name)));

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(48))]
                #[test]
                fn does_what_core_does(link in link($discipline), operations in operations()) {
                    check(&NATIVE, &link, &operations)?;
                }
            }
        }
    )*};
}

disciplines! {
    fifo: Discipline::Fifo,
    sqf: Discipline::Sqf,
    fq: Discipline::Fq,
    hier: Discipline::Hier,
    ncq: Discipline::Ncq,
    tred: Discipline::Tred,
}

mod attack;
mod makeway;
