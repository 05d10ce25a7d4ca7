// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole disciplines: the same operations through the C and through core give the same departures and drops, in the
//! same order and for the same reasons, and leave the same backlog and the same link.

mod drawn;
#[path = "../../../../bpf/native/drive.rs"]
mod drive;

use std::sync::LazyLock;

use bytemuck::{Zeroable, bytes_of, cast_slice};
use drawn::*;
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
            weights,
            flows_by,
            ..
        } = link;
        let limits = env.limits;
        let limit_packets = change::all(ops).map(|config| config.limit_packets);
        let slots = limit_packets.fold(limits.packets, u32::max) + 2;
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
        // A flow of `makeway` is known while it holds nothing.
        let flows = match spec {
            Spec::Makeway(_) => slots.max(limits.flows + 1),
            _ => slots,
        };
        let setup = Setup {
            config: link.config(),
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
    let (mut rate, mut framing) = (link.rate, link.framing);
    let mut drops = Drops::default();
    let mut dropped = 0;
    let mut events = Vec::new();
    let mut flows = FlowTable::<u32>::new(link.env.limits.flows, 1);
    let release = |now: Instant, shaper: &Shaper, flows: &mut FlowTable<u32>, packet: &Packet| {
        let class = shaper.standing(packet.flow).map(|standing| standing.class);
        if flows.release(packet.flow)
            && let Some(class) = class.filter(|class| class.goes_first())
        {
            flows.keep(packet.flow, now + class.remembered());
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
                if held.is_new {
                    shaper.forget(held.id);
                }
                came = Some(held.id);
                let packet = packet(link, framing, op, held.id, &mut users);
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
            CONFIGURE => framing = change::framing_of(&change::config(op)),
            WEIGH => assert!(shaper.set_weight(UserId(op.packet), op.len)),
            _ => unreachable!("core has no other"),
        }
        for (packet, reason) in drops.drain() {
            let reason = REASONS.iter().position(|one| *one == reason).unwrap();
            tell(DROPPED, packet.handle.0, reason as u64);
            dropped += 1;
            release(now, &shaper, &mut flows, &packet);
        }
        let judged = came.and_then(|flow| shaper.standing(flow));
        for (told, packet, value) in judged.map(makeway::told).into_iter().flatten() {
            tell(told, packet, value);
        }
        if let Some(packet) = left {
            tell(LEFT, packet.handle.0, 0);
            release(now, &shaper, &mut flows, &packet);
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
fn packet(
    link: &Link,
    framing: Framing,
    op: &Op,
    flow: FlowId,
    users: &mut Vec<FlowKey>,
) -> Packet {
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
    let packet = Packet::new(now, handle, flow, user, wire(framing, op));
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

                #[test]
                fn counts_by_the_framing_of_the_moment(
                    link in link($discipline),
                    operations in operations(),
                    framings in vec(framing(), 1..5),
                ) {
                    change::framings(&NATIVE, &link, ops(&operations), &framings)?;
                }

                #[test]
                fn keeps_the_limits_of_the_moment(
                    link in link($discipline),
                    operations in operations(),
                    limits in change::limits(),
                ) {
                    change::limited(&NATIVE, link, ops(&operations), &limits)?;
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
mod change;
mod makeway;
mod translated;
