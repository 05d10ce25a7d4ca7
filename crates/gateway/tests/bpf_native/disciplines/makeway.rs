// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway`: operations at random as for the others, and a minute of sources whose behaviour changes, so that flows go
//! through all classes.

use std::mem::discriminant;

use makeway_core::sched::{Class, Reason, Standing};

use super::*;

/// The events of `struct record` that say the same: why in the order of `enum why`.
pub fn told(
    Standing {
        class,
        reason,
        since,
    }: Standing,
) -> [(u32, u32, u64); 2] {
    let class = Class::ALL.iter().position(|one| *one == class).unwrap();
    let is_it = |one: &Reason| discriminant(one) == discriminant(&reason);
    let why = layout::WHY.iter().position(is_it).unwrap() as u32;
    let stood = match reason {
        Reason::StandingQueue(ms) => ms,
        _ => 0,
    };
    [
        (STANDING, class as u32 | why << 8, since.as_nanos()),
        (STOOD, 0, stood.into()),
    ]
}

static MAKEWAY: LazyLock<Native> = LazyLock::new(|| Native::discipline("makeway"));

/// A source sends packets of one size in bursts.
#[derive(Clone, Debug)]
struct Source {
    host: u8,
    /// In parts of a second: silence before it begins.
    begins: u64,
    /// Each for a while: ms, packets of a burst, bytes of a packet, and the rate in 64ths of the link's.
    phases: Vec<(u64, u32, u32, u64)>,
}

/// A source that is asked, and changes its rate in the windows in which its answer is read.
fn asked() -> impl Strategy<Value = Source> {
    let step = vec(5u64..14, 4..12);
    (0u8..4, 6u64..24, 3u64..9, step).prop_map(|(host, part, before, steps)| {
        let phase = |part| (537, 1, 1200, part);
        let same = (0..before).map(|_| phase(part));
        let then = steps.iter().map(|eighths| phase(part * eighths / 8));
        Source {
            host,
            begins: 0,
            phases: same.chain(then).collect(),
        }
    })
}

fn sources() -> impl Strategy<Value = Vec<Source>> {
    let rate = prop_oneof![3 => 1u64..8, 3 => 8u64..40, 1 => 40u64..90];
    let burst = prop_oneof![4 => Just(1u32), 2 => 2..6u32, 1 => 6..40u32];
    let len = prop_oneof![60..300u32, 500..530u32, 1000..1500u32];
    let time = prop_oneof![1 => 100u64..1500, 3 => 1500u64..9000, 1 => 9000u64..40_000];
    let phase = prop_oneof![
        1 => (time.clone(), Just(1), Just(100), Just(0)),
        6 => (time, burst, len, rate)
    ];
    let one = (0u8..4, 0u64..20_000, vec(phase, 1..8)).prop_map(|(host, begins, phases)| Source {
        host,
        begins,
        phases,
    });
    let several = (vec(one, 1..8), vec(asked(), 0..3));
    several.prop_map(|(sources, asked)| [sources, asked].concat())
}

/// A stream, bulk of one host or two, and many that stand by small packets and come with more at the same time, for as long as they are to.
fn crowds() -> impl Strategy<Value = Vec<Source>> {
    let crowd = (
        8u64..60,
        1u64..12,
        60u32..1400,
        3_000u64..12_000,
        2_000u64..20_000,
    );
    (crowd, 0u8..2, 10u64..30).prop_map(|((count, part, len, from, lasts), host, stream)| {
        let always = |host, burst, len, part| Source {
            host,
            begins: 0,
            phases: vec![(60_000, burst, len, part)],
        };
        let one = |n| Source {
            host: 2,
            begins: n * 20,
            phases: vec![
                (from, 1, 60, 1),
                (2_500, 1, 60, 0),
                (lasts, 1, len, part),
                (60_000, 1, 60, 1),
            ],
        };
        let steady = [always(0, 4, 1000, stream), always(host, 8, 1400, 60)];
        steady.into_iter().chain((0..count).map(one)).collect()
    })
}

/// Streams whose bursts wait for each other, of which some are larger for a while than those that age, and bulk.
fn bursts() -> impl Strategy<Value = Vec<Source>> {
    let stream = (0u64..2000, 2u32..12, 200u32..1500, 6u64..22, 1u64..4);
    let streams = vec(stream, 2..6);
    (streams, 0u8..3, 20u64..70).prop_map(|(streams, host, bulk)| {
        let flood = Source {
            host,
            begins: 5_000,
            phases: vec![(60_000, 4, 1400, bulk)],
        };
        let each = streams.into_iter();
        let each = each.map(|(begins, burst, len, part, times)| Source {
            host: 0,
            begins,
            phases: vec![
                (12_000, burst, len, part),
                (12_000, burst, len, part * times),
                (60_000, 1, len, part),
            ],
        });
        each.chain([flood]).collect()
    })
}

/// Flows that are cut, and then let the link idle.
fn pausing() -> impl Strategy<Value = Vec<Source>> {
    let overload = (600u64..2500, 1u32..5, 68u64..110);
    let time = prop_oneof![4 => 40u64..2500, 1 => 2500u64..12_000];
    let rest = (time, prop_oneof![1 => Just(0u64), 3 => 4u64..40]);
    let cycles = vec((overload, rest, 900u32..1500), 3..14);
    let one = (0u8..3, 0u64..4000, cycles).prop_map(|(host, begins, cycles)| {
        let phases = cycles
            .into_iter()
            .flat_map(|((ms, burst, part), (rest, little), len)| {
                [(ms, burst, len, part), (rest, 1, len, little)]
            });
        Source {
            host,
            begins,
            phases: phases.collect(),
        }
    });
    vec(one, 1..3)
}

/// Their bytes over a link of `bps` in a minute, with a departure whenever the link is free, or was not for `late` ns.
fn ops(sources: &[Source], bps: u64, late: u64) -> Vec<Op> {
    const MS: u64 = 1_000_000;
    const END: u64 = 60_000 * MS;
    const BEGIN: u64 = 1_000_000_000;
    let mut arrivals = Vec::new();
    for (flow, source) in (0..).zip(sources) {
        let mut from = source.begins * MS;
        for &(ms, burst, len, part) in &source.phases {
            let end = (from + ms * MS).min(END);
            let rate = bps * part / 64;
            // At least a few bursts a minute.
            let every = match rate {
                0 => u64::MAX,
                rate => u64::from(burst * len) * 8_000_000_000 / rate,
            };
            while part > 0 && from < end {
                arrivals.extend((0..burst).map(|_| (from, flow, len, source.host)));
                from += every.max(1);
            }
            from = end;
        }
    }
    arrivals.sort_by_key(|&(at, ..)| at);
    let mut ops = Vec::new();
    let mut free = 0;
    for (n, (at, flow, len, host)) in (0..).zip(arrivals) {
        // A departure as soon as the last packet was sent: each takes as long as a full one.
        while free <= at {
            ops.push(Op {
                now: BEGIN + free,
                what: DEQUEUE,
                ..Op::zeroed()
            });
            free += 12_000 * 1_000_000_000 / bps + late;
        }
        ops.push(Op {
            now: BEGIN + at,
            ..packet(n, flow, len, host)
        });
    }
    ops
}

/// One flow over a link of 1 Mbit/s: ms, and its rate in 64ths of the link's.
fn of_one(phases: &[(u64, u64)]) -> Vec<Op> {
    let phases = phases.iter().map(|&(ms, part)| (ms, 1, 1500, part));
    let source = Source {
        host: 0,
        begins: 0,
        phases: phases.collect(),
    };
    ops(&[source], 1_000_000, 0)
}

/// A link on which nothing overflows.
fn roomy() -> Link {
    let limits = Limits {
        packets: 2000,
        bytes: Bytes::new(1 << 24),
        flows: FLOWS,
    };
    Link {
        spec: Discipline::Makeway.spec(),
        env: Env {
            users: USERS,
            ..Env::new(limits)
        },
        rate: None,
        framing: Framing::default(),
        weights: [0; HOSTS],
        flows_by: FIVE_TUPLE,
    }
}

/// When CoDel drops packets, and how long they waited, in ms.
fn cuts(link: &Link, ops: &[Op]) -> Vec<(u64, u64)> {
    const MS: u64 = 1_000_000;
    let came = ops.iter().filter(|op| op.what == ENQUEUE);
    let came: Vec<u64> = came.map(|op| op.now).collect();
    let why = REASONS.iter().position(|one| *one == DropReason::Sojourn);
    let cut = (DROPPED, why.unwrap() as u64);
    let events = core(link, ops);
    // `BUSY` is the last event of an operation.
    let each = events.split_inclusive(|event| event.told == BUSY);
    let mut cuts = Vec::new();
    for (op, events) in ops.iter().zip(each) {
        let dropped = events
            .iter()
            .filter(|event| (event.told, event.value) == cut);
        cuts.extend(dropped.map(|event| {
            let waited = op.now - came[event.packet as usize];
            ((op.now - ops[0].now) / MS, waited / MS)
        }));
    }
    cuts
}

/// The ms of overload of a flow, in 72/64 of the link, in which CoDel cuts it.
const OVERLOAD: u64 = 1500;

#[test]
fn a_target_is_lifted_in_steps_until_the_flow_is_not_cut_or_silent() {
    // Sent after overload, and the shortest wait of a packet that CoDel drops from then on.
    let parts = [
        ((1500, 16), 20..40),
        ((1500, 16), 40..80),
        // In 8 s a step less.
        ((10_000, 16), 80..100),
        // It is forgotten.
        ((3200, 0), 40..80),
        ((0, 0), 20..40),
    ];
    let phases = parts.iter().flat_map(|(then, _)| [(OVERLOAD, 72), *then]);
    let ops = of_one(&phases.collect::<Vec<_>>());
    let cuts = cuts(&roomy(), &ops);
    let mut from = 0;
    for ((ms, _), range) in parts {
        let until = from + OVERLOAD + ms;
        let these = cuts.iter().filter(|(at, _)| (from..until).contains(at));
        let least = these.map(|(_, waited)| *waited).min().unwrap();
        assert!(range.contains(&least), "{least} ms, {range:?}");
        from = until;
    }
    check_ops(&MAKEWAY, &roomy(), ops).unwrap();
}

/// After a cut the flow keeps the link busy, then lets it idle, sends little and is cut again: times on both sides of those of the rule.
#[test]
fn a_lift_has_the_bounds_of_cores() {
    let idle = (56..96).step_by(2).map(|ms| [0, ms, 0]);
    let busy = (1000..2200).step_by(60).map(|ms| [ms, 200, 0]);
    let light = (7000..8600).step_by(80).map(|ms| [0, 200, ms]);
    for [busy, idle, light] in idle.chain(busy).chain(light) {
        let phases = [
            (1000, 72),
            (busy, 64),
            (idle, 0),
            (light, 16),
            (OVERLOAD, 72),
        ];
        check_ops(&MAKEWAY, &roomy(), of_one(&phases)).unwrap();
    }
}

/// A packet of a flow that has one pair of addresses, if it goes to one host.
fn packet(n: u32, flow: u32, len: u32, host: u8) -> Op {
    let mut bytes = headers(4, len, None, host);
    let [.., high, low] = flow.to_be_bytes();
    bytes[12..16].copy_from_slice(&[172, 16, high, low]);
    Op {
        what: ENQUEUE,
        packet: n,
        hash: (flow + 1).wrapping_mul(0x9e37_79b9),
        flow,
        len,
        bytes,
        ..Op::zeroed()
    }
}

/// A packet waits from 10 to 13 s, and flows that come once have all other entries of the table. At 41 s a new flow replaces one of them.
#[test]
fn a_flow_in_standing_is_known_for_30_s_from_its_last_departure_on() {
    const MS: u64 = 1_000_000;
    let mut link = roomy();
    link.env.limits.packets = 2;
    link.env.limits.flows = 3;
    let stands = (0..250).map(|n| (20 * n, Some(0)));
    let stands = stands.flat_map(|(ms, flow)| [(ms, flow), (ms, None)]);
    let then = [
        (10_000, Some(0)),
        (13_000, None),
        (14_000, Some(1)),
        (14_000, None),
        (15_000, Some(2)),
        (15_000, None),
        (41_000, Some(3)),
        (41_000, None),
        (41_100, Some(0)),
    ];
    // A packet of this flow arrives, or one departs.
    let ops: Vec<Op> = (0..)
        .zip(stands.chain(then))
        .map(|(n, (ms, flow))| Op {
            now: 1000 * MS + ms * MS,
            ..match flow {
                Some(flow) => packet(n, flow, 200, 0),
                None => Op {
                    what: DEQUEUE,
                    ..Op::zeroed()
                },
            }
        })
        .collect();
    let events = core(&link, &ops);
    let last = events.iter().rfind(|event| event.told == STANDING).unwrap();
    let class = Class::ALL[(last.packet & 0xff) as usize];
    assert_eq!(class, Class::Standing);
    check_ops(&MAKEWAY, &link, ops).unwrap();
}

/// The first of the flows that stay with a user.
const STAYS: u32 = 990;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn does_what_core_does(link in link(Discipline::Makeway), operations in operations()) {
        let mut ops = super::ops(&operations);
        for op in ops.iter_mut().filter(|op| op.what == ENQUEUE) {
            op.bytes = packet(0, op.flow, op.len, (op.flow % 5) as u8).bytes;
        }
        check_ops(&MAKEWAY, &link, ops)?;
    }

    #[test]
    fn counts_by_the_framing_of_the_moment(
        link in link(Discipline::Makeway),
        sources in sources(),
        bps in 200_000u64..1_500_000,
        framings in vec(framing(), 1..5),
    ) {
        let link = Link { rate: None, ..link };
        change::framings(&MAKEWAY, &link, ops(&sources, bps, 0), &framings)?;
    }

    #[test]
    fn weighs_users_by_the_weights_of_the_moment(
        link in link(Discipline::Makeway),
        sources in sources(),
        bps in 200_000u64..1_500_000,
        weights in vec((0u8..4, 1u32..9), 1..8),
    ) {
        let link = Link { rate: None, ..link };
        check_ops(&MAKEWAY, &link, change::weighed(ops(&sources, bps, 0), &weights))?;
    }

    #[test]
    fn keeps_the_limits_of_the_moment(
        link in link(Discipline::Makeway),
        sources in sources(),
        bps in 200_000u64..1_500_000,
        limits in change::limits(),
    ) {
        let link = Link { rate: None, ..link };
        change::limited(&MAKEWAY, link, ops(&sources, bps, 0), &limits)?;
    }

    /// Flows are hosts that send to several users. Each user has a flow that stays with it: core's keeps its turn without any, and the
    /// program's begins anew (the header of `makeway.bpf.c`).
    #[test]
    fn a_flow_belongs_to_the_user_of_the_packet_that_made_it_active(
        link in link(Discipline::Makeway),
        operations in operations(),
    ) {
        let link = Link { flows_by: SRC_HOST, ..link };
        let mut ops = super::ops(&operations);
        for op in ops.iter_mut().filter(|op| op.what == ENQUEUE) {
            op.flow = op.flow.min(STAYS - 1);
            let to = packet(0, op.flow, op.len, (op.packet % 5) as u8);
            (op.hash, op.bytes) = (to.hash, to.bytes);
        }
        let stay = (0..5).map(|user| Op {
            now: ops[0].now,
            ..packet(0, STAYS + user, 100, user as u8)
        });
        let mut ops: Vec<Op> = stay.chain(ops.iter().copied()).collect();
        (0..).zip(&mut ops).for_each(|(n, op)| op.packet = n);
        check_ops(&MAKEWAY, &link, ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn does_what_core_does_for_a_minute(
        link in link(Discipline::Makeway),
        sources in sources(),
        bps in 200_000u64..1_500_000,
        late in prop_oneof![4 => Just(0), 1 => 0u64..20_000_000],
    ) {
        let link = Link { rate: None, ..link };
        check_ops(&MAKEWAY, &link, ops(&sources, bps, late))?;
    }

    #[test]
    fn does_what_core_does_while_those_in_standing_are_crowded(
        link in link(Discipline::Makeway),
        sources in crowds(),
        bps in 500_000u64..1_500_000,
    ) {
        let link = Link { rate: None, ..link };
        check_ops(&MAKEWAY, &link, ops(&sources, bps, 0))?;
    }

    #[test]
    fn does_what_core_does_while_bursts_wait_for_each_other(
        link in link(Discipline::Makeway),
        sources in bursts(),
        bps in 500_000u64..1_500_000,
    ) {
        let link = Link { rate: None, ..link };
        check_ops(&MAKEWAY, &link, ops(&sources, bps, 0))?;
    }

    #[test]
    fn does_what_core_does_while_the_link_idles_after_cuts(
        link in link(Discipline::Makeway),
        sources in pausing(),
        bps in 500_000u64..1_500_000,
    ) {
        let link = Link { rate: None, ..link };
        check_ops(&MAKEWAY, &link, ops(&sources, bps, 0))?;
    }

    /// In a table that is too small for the flows that come, some of which send one packet, and some of which stand.
    #[test]
    fn forgets_the_flow_that_core_forgets(
        link in link(Discipline::Makeway),
        sources in sources(),
        asked in vec(asked(), 0..3),
        strangers in vec(0u64..60_000, 0..400),
        steady in vec(4_000u64..60_000, 0..12),
        (packets, more) in (1u32..12, 1u32..6),
        bps in 200_000u64..1_500_000,
    ) {
        let mut link = Link { rate: None, ..link };
        link.env.limits.packets = packets;
        // A packet that is too large is refused before its flow is looked for, and in core after it.
        link.env.limits.bytes = Bytes::new(1 << 24);
        link.env.limits.flows = packets + more;
        let stranger = |begins| Source { host: 0, begins, phases: vec![(1, 1, 100, 1)] };
        // From when their time is over they are forgotten first.
        let stands = |(n, lasts)| Source { host: 0, begins: n * 300, phases: vec![(lasts, 1, 200, 1)] };
        let one_user = |source| Source { host: 0, ..source };
        let sources = sources.into_iter().chain(asked).map(one_user);
        let strangers = strangers.into_iter().map(stranger);
        let sources: Vec<_> = sources.chain((0u64..).zip(steady).map(stands)).chain(strangers).collect();
        check_ops(&MAKEWAY, &link, ops(&sources, bps, 0))?;
    }
}
