// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every discipline does behind a packet queue what it does in core, or is refused with a sentence.

use makeway_core::flow::tag;
use makeway_core::packet::Handle;
use makeway_core::sched::Discipline;

use super::super::TagConfig;
use super::super::message::Verdict;
use super::super::tags::Leaving;
use super::*;

const RATE: Rate = Rate::from_bps(8_000_000);
const PACKETS: u32 = 3000;
/// How far apart they come, of 1000 B each: twice what the link takes.
const EVERY: Duration = Duration::from_micros(500);
/// One of three hosts has a weight.
const HEAVY: [u8; 4] = [10, 0, 0, 2];

/// IPv4, UDP, of host and port, with a tag: a few packets are short.
fn packet(n: u32) -> ([u8; 28], u32) {
    // Neither hosts nor ports nor tags follow each other in step.
    let (host, port, tag) = (1 + n * n % 7 % 3, n % 5, 1 + n * 7 % 200);
    let len = if n.is_multiple_of(11) { 60 } else { 1000 };
    let mut bytes = [0; 28];
    bytes[0] = 0x45;
    bytes[3] = 28;
    bytes[6] = 0x40;
    bytes[4..6].copy_from_slice(&(tag as u16).to_be_bytes());
    bytes[9] = 17;
    bytes[12..16].copy_from_slice(&[10, 0, 0, host as u8]);
    bytes[16..20].copy_from_slice(&[10, 0, 1, 1]);
    bytes[21] = port as u8;
    bytes[25] = 8;
    (bytes, len)
}

fn config(discipline: Discipline) -> DatapathConfig {
    let limits = sched::Limits {
        packets: 60,
        bytes: Bytes::new(40_000),
        flows: 64,
    };
    let spec = discipline.spec();
    DatapathConfig {
        users: Identity::SrcHost,
        weights: vec![(HEAVY.into(), 3)],
        tags: TagConfig {
            leaving: match spec.needs().writes_tags {
                true => Leaving::AsScheduled,
                false => Leaving::Keep,
            },
            ..TagConfig::default()
        },
        seed: 7,
        ..DatapathConfig::new(1, spec, limits, Some(RATE))
    }
}

/// Each packet in the order of its verdict, and whether it was accepted.
fn behind_the_queue(config: &DatapathConfig) -> Vec<(u32, bool)> {
    let mut pipeline = Pipeline::new(Instant::ZERO, config).unwrap();
    let mut verdicts = Verdicts::new(1, 64);
    let mut all = Vec::new();
    for id in 0..PACKETS {
        let now = Instant::ZERO + EVERY * u64::from(id);
        let (headers, len) = packet(id);
        let queued = Queued {
            id,
            ethertype: 0x0800,
            len,
            mark: 0,
            translated: None,
            headers: &headers,
        };
        pipeline.depart(now, 1, &mut verdicts);
        pipeline.arrive(now, &queued, &mut verdicts);
        all.extend(
            verdicts
                .iter()
                .map(|(id, verdict, _)| (id, verdict == Verdict::Accept)),
        );
        verdicts.clear();
    }
    all
}

/// The same of the discipline alone, to which everything is told, whether it asks or not.
fn in_core(config: &DatapathConfig) -> Vec<(u32, bool)> {
    let flows = config.limits.flows.max(config.limits.packets + 2);
    let mut limits = config.limits;
    limits.flows = flows;
    let mut keys: FlowTable<FlowKey> = FlowTable::new(flows, config.seed);
    let mut users: FlowTable<FlowKey, UserId> = FlowTable::new(flows, config.seed);
    users.hold(&FlowKey::OTHER);
    let (heavy, weight) = config.weights[0];
    let heavy = users.hold(&FlowKey::new(config.users, heavy, heavy, 0, 0, 0));
    let env = Env {
        weights: vec![(heavy.unwrap().id, weight)],
        rate: config.rate,
        codec: config.tags.codec,
        seed: config.seed,
        ..Env::new(limits)
    };
    let mut link = Shaper::new(config.rate, sched::build(&config.spec, &env).unwrap());
    let mut drops = Drops::default();
    let mut all = Vec::new();
    for id in 0..PACKETS {
        let now = Instant::ZERO + EVERY * u64::from(id);
        let (headers, len) = packet(id);
        let mut of = |sent: Option<Packet>,
                      drops: &mut Drops,
                      keys: &mut FlowTable<FlowKey>,
                      users: &mut FlowTable<FlowKey, UserId>| {
            let sent = sent.map(|packet| (packet, true));
            let dropped: Vec<_> = drops.drain().map(|(packet, _)| (packet, false)).collect();
            for (packet, accepted) in sent.into_iter().chain(dropped) {
                keys.release(packet.flow);
                users.release(packet.user());
                all.push((packet.handle.0, accepted));
            }
        };
        let sent = link.dequeue(now, &mut drops);
        of(sent, &mut drops, &mut keys, &mut users);
        let flow = keys
            .hold(&FlowKey::from_ip(config.identity, &headers))
            .unwrap()
            .id;
        let user = users
            .hold(&FlowKey::from_ip(config.users, &headers))
            .unwrap()
            .id;
        let tag = tag(&headers).expect("room for a tag");
        let packet = Packet::new(now, Handle(id), flow, user, Bytes::new(len.into())).with_tag(tag);
        link.enqueue(now, packet, &mut drops);
        of(None, &mut drops, &mut keys, &mut users);
        while let Some(sent) = link.dequeue(now, &mut drops) {
            of(Some(sent), &mut drops, &mut keys, &mut users);
        }
        of(None, &mut drops, &mut keys, &mut users);
    }
    all
}

#[test]
fn every_discipline_does_behind_a_queue_what_it_does_in_core() {
    let fifo = in_core(&config(Discipline::Fifo));
    for discipline in Discipline::ALL {
        let config = config(discipline);
        let expected = in_core(&config);
        let found = behind_the_queue(&config);
        // The order of the verdicts of a departure and a drop of one moment does not matter.
        for accepted in [true, false] {
            let [found, expected] = [&found, &expected].map(|all| {
                let of = all.iter().filter(|one| one.1 == accepted);
                of.map(|one| one.0).collect::<Vec<_>>()
            });
            let at = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(
                (at, found.len()),
                (None, expected.len()),
                "{discipline} {accepted}"
            );
        }
        assert_eq!(
            expected == fifo,
            discipline == Discipline::Fifo,
            "{discipline}"
        );
    }
}
