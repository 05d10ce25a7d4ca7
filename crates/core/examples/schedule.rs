// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same packets through two disciplines: `cargo run -p makeway-core --example schedule`
use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::sched::{Discipline, Drops, Env, Limits, SpecError, build};
use makeway_core::units::{Bytes, Instant};

fn main() -> Result<(), SpecError> {
    let (packets, bytes, flows) = (6, Bytes::new(10_000), 2);
    let env = Env::new(Limits {
        packets,
        bytes,
        flows,
    });
    for discipline in [Discipline::Fifo, Discipline::Sqf] {
        let mut queue = build(&discipline.spec(), &env)?;
        let (now, mut drops) = (Instant::ZERO, Drops::default());
        for (n, (flow, len)) in [(0, 1500), (0, 1500), (0, 1500), (1, 200)]
            .into_iter()
            .enumerate()
        {
            let (handle, flow) = (Handle(n as u32), FlowId(flow)); // handle: your own name of the packet
            queue.enqueue(
                now,
                Packet::new(now, handle, flow, UserId(0), Bytes::new(len)),
                &mut drops,
            );
        }
        let order =
            std::iter::from_fn(|| queue.dequeue(now, &mut drops).map(|packet| packet.handle.0));
        println!("{discipline}: {:?}", order.collect::<Vec<_>>());
    }
    Ok(())
}
