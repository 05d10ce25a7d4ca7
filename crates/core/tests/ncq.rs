// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flood of short packets at NCQ (section 4.2 of the paper): its gain, and the others' share.

#![allow(clippy::unwrap_used)] // helpers of tests

use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::random::Rng;
use makeway_core::sched::{
    Counts, Discipline, Drops, Env, Limits, NcqParams, Scheduler, Spec, build,
};
use makeway_core::shaper::Shaper;
use makeway_core::units::{Bytes, Duration, Fraction, Instant, Rate};
use proptest::prelude::*;

/// The victim's packets of 1000 B, then the attacker's.
const VICTIM: u32 = 0;
const ATTACKER: u32 = 1;

const LINE: Rate = Rate::from_bps(10_000_000);
const HELD: u32 = 100;

/// Service of one flow in ten seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    packets: u64,
    bytes: u64,
    /// Sum and largest of the sojourn times.
    waited: Duration,
    longest: Duration,
}

impl Service {
    fn mean_ms(&self) -> f64 {
        self.waited.as_millis_f64() / self.packets as f64
    }
}

/// Packets of `len` bytes; from one to the next is up to twice `every` ns, uniformly: flows in step with a full buffer
/// lock each other out.
#[derive(Clone, Copy)]
struct Source {
    every: u64,
    len: u64,
}

/// Both flows through 10 Mbit/s for ten seconds.
fn served(spec: &Spec, victim: Source, attacker: Source) -> ([Service; 2], Counts) {
    let mut line = Shaper::new(Some(LINE), build(spec, &env()).unwrap());
    let mut drops = Drops::default();
    let mut services = [Service::default(); 2];
    let mut next = [0; 2];
    let mut rng = Rng::new(1);
    while next.into_iter().min() < Some(10_000_000_000) {
        let flow = usize::from(next[1] < next[0]);
        let source = [victim, attacker][flow];
        let at = Instant::from_nanos(next[flow]);
        while let Some(when) = line.next_departure().filter(|when| *when <= at) {
            let Some(sent) = line.dequeue(when, &mut drops) else {
                break;
            };
            let service = &mut services[sent.flow.0 as usize];
            let waited = when.saturating_since(sent.arrived);
            service.packets += 1;
            service.bytes += sent.len().get();
            service.waited += waited;
            service.longest = service.longest.max(waited);
        }
        let (id, len) = (FlowId(flow as u32), Bytes::new(source.len));
        let packet = Packet::new(at, Handle(0), id, UserId(0), len);
        line.enqueue(at, packet, &mut drops);
        drops.drain().for_each(drop);
        next[flow] += u64::from(rng.below(2 * source.every as u32 + 1));
    }
    (services, line.counts())
}

fn env() -> Env {
    Env::new(Limits {
        packets: HELD,
        bytes: Bytes::new(1_000_000),
        flows: 2,
    })
}

fn ncq(change: impl FnOnce(&mut NcqParams)) -> Spec {
    let mut params = NcqParams::default();
    change(&mut params);
    Spec::Ncq(params)
}

fn fifo() -> Spec {
    Discipline::Fifo.spec()
}

/// As fast as the link.
fn whole_line(len: u64) -> Source {
    let every = (Bytes::new(len) / LINE).as_nanos();
    Source { every, len }
}

#[test]
fn who_splits_its_packets_is_served_no_more_and_waits_less_by_the_threshold_at_most() {
    // Section 4.2.1: 1000 B with 40 of them headers, or 120 B with 40.
    let goodput = |spec: &Spec, len: u64| {
        let (services, counts) = served(spec, whole_line(1000), whole_line(len));
        (
            services,
            services[ATTACKER as usize].packets * (len - 40),
            counts,
        )
    };
    let ncq = ncq(|params| params.window = Some(1000));
    let (_, whole, _) = goodput(&ncq, 1000);
    let ([victim, attacker], split, counts) = goodput(&ncq, 120);
    let ([_, in_fifo], split_in_fifo, _) = goodput(&fifo(), 120);
    // Two thirds of what it sends are left to it, so that it loses by splitting ...
    assert!(split * 100 < whole * 80, "{split} of {whole}");
    // ... as it does without priority, within 1 %.
    assert!(
        split.abs_diff(split_in_fifo) * 100 <= split_in_fifo,
        "{split} {split_in_fifo}"
    );
    // Its gain: 5 % of all packets go first, and its packets wait less by that share on average.
    let all = victim.packets + attacker.packets;
    assert!(
        counts.favoured <= all.div_ceil(20) + 5,
        "{counts:?} of {all}"
    );
    let gain = 1.0 - attacker.mean_ms() / in_fifo.mean_ms();
    assert!((0.0..0.08).contains(&gain), "{gain}");
    // 50 of 1000, 100 held: 99 + 50 * 1099 / 950.
    let most = most_before(1000, 5);
    assert_eq!(most, 156);
    assert!(
        victim.longest <= Bytes::new(1000 * most) / LINE,
        "{victim:?}"
    );
}

#[test]
fn a_flood_takes_no_more_of_a_slow_victim_than_it_does_in_order_of_arrival() {
    // A tenth of the link, and short packets of three times its rate.
    let victim = Source {
        every: 8_000_000,
        len: 1000,
    };
    let flood = Source {
        every: 32_000 / 2,
        len: 60,
    };
    let of = |spec: &Spec| served(spec, victim, flood).0[VICTIM as usize];
    let without = of(&fifo()).bytes;
    for probabilistic in [false, true] {
        for window in [None, Some(1000)] {
            let with = of(&ncq(|params| {
                params.window = window;
                params.probabilistic = probabilistic;
            }));
            // The same share of arrivals is refused.
            let lost = without.saturating_sub(with.bytes);
            assert!(
                lost * 20 <= without,
                "{probabilistic} {window:?}: {with:?} of {without}"
            );
        }
    }
}

/// How many packets go before an unfavoured one that was taken in, at most: those in the buffer, and with `c` of any
/// `n` favoured those that overtake it, `F <= c (F + B - 1) / n + c`.
fn most_before(window: u64, per_cent: u64) -> u64 {
    let c = (per_cent * window).div_ceil(100);
    let held = u64::from(HELD) - 1;
    held + c * (held + window) / (window - c)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For any arrivals, an unfavoured packet that was taken in is sent after a bounded number of others.
    #[test]
    fn nobody_waits_for_more_than_the_bound(
        window in 20u32..400,
        per_cent in 1u64..50,
        runs in proptest::collection::vec((0u32..4, 1u32..300), 1..30),
    ) {
        let spec = ncq(|params| {
            params.window = Some(window);
            params.threshold = Fraction::ratio(per_cent, 100);
        });
        let mut ncq = build(&spec, &env()).unwrap();
        let mut drops = Drops::default();
        let (mut sent, mut seen) = (0u64, 0u64);
        // How many had been sent when each packet came.
        let mut came = Vec::new();
        for (kind, n) in runs {
            for i in 0..n {
                // Short, long, both in turn; one leaves for each that comes, or for every other.
                let len = if kind == 0 || (kind == 2 && i % 2 == 0) { 60 } else { 1000 };
                let handle = Handle(came.len() as u32);
                came.push(sent);
                let packet = Packet::new(Instant::ZERO, handle, FlowId(0), UserId(0), Bytes::new(len));
                ncq.enqueue(Instant::ZERO, packet, &mut drops);
                drops.drain().for_each(drop);
                if kind < 3 || i % 2 == 0 {
                    let Some(packet) = ncq.dequeue(Instant::ZERO, &mut drops) else {
                        continue;
                    };
                    seen = seen.max(sent - came[packet.handle.0 as usize]);
                    sent += 1;
                }
            }
        }
        let most = most_before(window.into(), per_cent);
        prop_assert!(seen <= most, "{seen} before one, {most} allowed");
    }
}
