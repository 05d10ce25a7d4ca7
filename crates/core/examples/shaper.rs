// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call and two downloads through 10 Mbit/s for two seconds, under each of three disciplines: the largest sojourn time of
//! the call's packets. `cargo run -p makeway-core --example shaper`
//!
//! The loop is that of every owner of a shaper: packets arrive, others depart when `next_departure` says so. Here time is a
//! number; a router would read a clock and sleep.
use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::sched::{Discipline, Drops, Env, Limits, Scheduler, SpecError, build};
use makeway_core::shaper::Shaper;
use makeway_core::units::{Bytes, Duration, Instant, Rate};

const CALL: FlowId = FlowId(2);

/// Arrivals in order of time: the downloads together send 12 Mbit/s, the call 200 B each 20 ms.
fn arrivals() -> impl Iterator<Item = Packet> {
    let at = |handle: u32, flow, us, len| {
        let now = Instant::ZERO + Duration::from_micros(us);
        Packet::new(now, Handle(handle), flow, UserId(0), Bytes::new(len))
    };
    let mut packets: Vec<_> = (0..2000)
        .map(|n| at(n, FlowId(n % 2), u64::from(n) * 1000, 1500))
        .collect();
    packets.extend((0..100).map(|n| at(2000 + n, CALL, u64::from(n) * 20_000 + 7, 200)));
    packets.sort_by_key(|packet| packet.arrived);
    packets.into_iter()
}

fn main() -> Result<(), SpecError> {
    let limits = Limits {
        packets: 100,
        bytes: Bytes::new(150_000),
        flows: 3,
    };
    for discipline in [Discipline::Fifo, Discipline::Fq, Discipline::Sqf] {
        let queue = build(&discipline.spec(), &Env::new(limits))?;
        let mut link = Shaper::new(Some(Rate::from_bps(10_000_000)), queue);
        let mut drops = Drops::default();
        let (mut longest, mut lost) = (Duration::ZERO, [0; 3]);
        for packet in arrivals() {
            // Departures before the packet arrives.
            while let Some(at) = link.next_departure().filter(|at| *at <= packet.arrived) {
                let departed = link.dequeue(at, &mut drops);
                if let Some(departed) = departed.filter(|departed| departed.flow == CALL) {
                    longest = longest.max(at.saturating_since(departed.arrived));
                }
            }
            link.enqueue(packet.arrived, packet, &mut drops);
            for (dropped, _) in drops.drain() {
                lost[dropped.flow.0 as usize] += 1;
            }
        }
        println!(
            "{discipline:4}  the call waits {longest} at most and loses {} of 100",
            lost[2]
        );
    }
    Ok(())
}
