// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discipline beside its reference.

use makeway_core::packet::{FlowId, Handle, Packet, Tag, UserId};
use makeway_core::sched::{Discipline, Drops, Scheduler};
use makeway_core::units::{Bytes, Instant};

use super::{Config, Event, Model, Op};

/// Runs `ops` through `scheduler` and through the reference, and holds both to the contract.
///
/// # Panics
/// Where the scheduler breaks it.
pub fn check(config: &Config, scheduler: Box<dyn Scheduler + Send>, ops: &[Op]) -> Vec<Event> {
    run(config, scheduler, Model::of(config), ops)
}

/// As [`check`], of a discipline that has no reference.
#[allow(dead_code)]
pub fn check_alone(
    config: &Config,
    scheduler: Box<dyn Scheduler + Send>,
    ops: &[Op],
) -> Vec<Event> {
    run(config, scheduler, None, ops)
}

fn run(
    config: &Config,
    mut scheduler: Box<dyn Scheduler + Send>,
    mut model: Option<Model>,
    ops: &[Op],
) -> Vec<Event> {
    let mut drops = Drops::default();
    let mut now = Instant::ZERO;
    let (mut trace, mut last_sent) = (Vec::new(), vec![None; config.limits.flows as usize]);
    let (mut packets, mut bytes) = (0u32, Bytes::ZERO);
    let keeps_order = !config.spec().needs().reorders;
    let mut reordered = 0;
    for (n, op) in ops.iter().enumerate() {
        match *op {
            Op::Enqueue {
                flow,
                user,
                len,
                control,
                tag,
            } => {
                let (handle, len) = (Handle(n as u32), Bytes::new(u64::from(len)));
                let mut pkt = Packet::new(now, handle, FlowId(flow), UserId(user), len);
                pkt = pkt.with_tag(Tag(tag));
                if control {
                    pkt = pkt.with_control();
                }
                scheduler.enqueue(now, pkt, &mut drops);
                let dropped: Vec<Event> = drops.drain().map(|(p, why)| (p, Some(why))).collect();
                if let Some(model) = &mut model {
                    let expected = model.enqueue(now, pkt, &dropped);
                    assert_eq!(dropped, expected, "drops at step {n}");
                }
                packets += 1;
                bytes += pkt.len();
                for (pkt, _) in &dropped {
                    packets -= 1;
                    bytes -= pkt.len();
                }
                trace.extend(dropped);
            }
            Op::Dequeue => {
                let sent = scheduler.dequeue(now, &mut drops);
                let dropped: Vec<Event> = drops.drain().map(|(p, why)| (p, Some(why))).collect();
                if let Some(model) = &mut model {
                    let expected = model.dequeue(now);
                    assert_eq!(
                        (&dropped, sent),
                        (&expected.0, expected.1),
                        "departure at step {n}"
                    );
                }
                // DualPI2 drops what it takes out, the last packet too (RFC 9332, appendix A); no other leaves a link without one.
                let dropped_here = match config.discipline {
                    Discipline::DualPi2 => dropped.len() as u32,
                    _ => 0,
                };
                assert_eq!(
                    sent.is_none(),
                    packets == dropped_here,
                    "work conservation at step {n}"
                );
                for pkt in dropped.iter().map(|(p, _)| p).chain(&sent) {
                    packets -= 1;
                    bytes -= pkt.len();
                }
                trace.extend(dropped);
                if let Some(pkt) = sent {
                    // RFC 4737 §3.3
                    let next_expected = &mut last_sent[pkt.flow.0 as usize];
                    if *next_expected < Some(pkt.handle) {
                        *next_expected = Some(pkt.handle);
                    } else {
                        assert!(!keeps_order, "order in flow at step {n}");
                        reordered += 1;
                    }
                    trace.push((pkt, None));
                }
            }
            Op::Advance(d) => now += d,
        }
        let held = scheduler.backlog();
        assert_eq!(
            (held.packets, held.bytes),
            (packets, bytes),
            "conservation at step {n}"
        );
        assert!(held.packets <= config.limits.packets && held.bytes <= config.limits.bytes);
        let next = scheduler.next_departure();
        assert_eq!(next.is_some(), packets > 0, "next departure at step {n}");
        assert!(next.is_none_or(|t| t <= now), "no packet waits here");
        if model.is_some() {
            let counted = scheduler.counts().reordered;
            assert_eq!(counted, reordered, "reordering at step {n}");
        }
    }
    trace
}
