// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contract of every discipline under any operations, and exact equality with the naive reference.

mod reference;

use makeway_core::framing::{Cells, Framing};
use makeway_core::packet::UserId;
use makeway_core::sched::order::{Heaps, Tree};
use makeway_core::sched::sqf::Sqf;
use makeway_core::sched::{
    CakeParams, CoDelParams, ConfuciusParams, CsfqParams, Discipline, DropFrom, Isolation, Limits,
    LowRate, NcqParams, RedParams, RioParams, Scheduler, TredParams, build,
};
use makeway_core::ticket::{Codec, Scale};
use makeway_core::units::{Bytes, Duration, Fraction, Rate};
use proptest::prelude::*;
use reference::{Config, Op, check, check_alone};

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![
        3 => 1u32..2000,
        // Equal sizes make ties.
        3 => Just(500u32),
        // Beyond the window of the buckets.
        1 => 100_000u32..400_000,
    ];
    let tag = prop_oneof![3 => 0u16..4, 3 => 10u16..40, 1 => any::<u16>()];
    prop_oneof![
        5 => (any::<u32>(), any::<u32>(), size, proptest::bool::weighted(0.2), tag)
            .prop_map(|(flow, user, len, control, tag)| Op::Enqueue { flow, user, len, control, tag }),
        3 => Just(Op::Dequeue),
        1 => (0u64..1_000_000).prop_map(|ns| Op::Advance(Duration::from_nanos(ns))),
    ]
}

prop_compose! {
    /// Thresholds that the few packets of a test reach.
    fn red()(
        min in 1u32..6,
        over in 1u32..10,
        // Averages that follow the queue at once, soon and slowly.
        weight in prop_oneof![Just(1u64), 2u64..10, 10u64..1000, Just(1 << 20)],
        max_p in prop_oneof![Just(1u64), 2u64..20],
        gentle: bool,
        wait: bool,
        by_bytes: bool,
        mean in prop_oneof![1u64..10, 100u64..2000],
    ) -> RedParams {
        RedParams {
            min,
            max: min + over,
            weight: Fraction::ratio(1, weight),
            max_p: Fraction::ratio(1, max_p),
            gentle,
            wait,
            by_bytes,
            mean_packet: Bytes::new(mean),
            ..RedParams::default()
        }
    }
}

prop_compose! {
    /// Times as short as the steps between operations, and the published.
    fn codel()(
        interval in prop_oneof![3 => 1u64..3000, 1 => Just(100_000u64)],
        part in prop_oneof![1u64..20, 500u64..1000],
        mtu in prop_oneof![3 => Just(None), 1 => (0u64..3000).prop_map(Some)],
    ) -> CoDelParams {
        CoDelParams {
            target: Duration::from_micros((interval / part).max(1)),
            interval: Duration::from_micros(interval),
            mtu: mtu.map(Bytes::new),
            ecn: false,
        }
    }
}

prop_compose! {
    /// Round trips as short as the steps between operations, and lines on which a packet takes longer.
    fn cake()(
        rtt in prop_oneof![3 => 20u64..3000, 1 => Just(100_000u64)],
        flows: bool,
    ) -> CakeParams {
        CakeParams {
            rtt: Duration::from_micros(rtt),
            isolation: if flows { Isolation::Flows } else { Isolation::Dual },
            ecn: false,
        }
    }
}

prop_compose! {
    /// Every variant, with thresholds and windows that a few packets reach.
    fn ncq()(
        length in prop_oneof![Just(130u64), 1u64..2000],
        threshold in prop_oneof![0u64..=100, Just(50u64)],
        window in prop_oneof![Just(None), (1u32..40).prop_map(Some)],
        probabilistic: bool,
        extra_wait in prop_oneof![Just(None), (1u64..200).prop_map(Some)],
        control: bool,
        low_rate in prop_oneof![
            Just(None),
            (1_000_000u64..10_000_000_000, 1u64..4000).prop_map(Some),
        ],
        keep_order: bool,
        push_out: bool,
    ) -> NcqParams {
        NcqParams {
            length: Bytes::new(length),
            threshold: Fraction::ratio(threshold, 100),
            window,
            probabilistic,
            extra_wait: extra_wait.filter(|_| window.is_some()).map(|n| Fraction::ratio(n, 200)),
            control,
            low_rate: low_rate.map(|(bps, bytes)| LowRate {
                rate: Rate::from_bps(bps),
                burst: Bytes::new(bytes),
            }),
            keep_order,
            push_out,
        }
    }
}

prop_compose! {
    /// Links that a few packets congest, and some that none does.
    fn csfq()(
        edge: bool,
        // Of which 8000 is a multiple: sums of packets that come at once are exact, where they would be half way
        // between two labels.
        flow_window in prop_oneof![Just(1u64), Just(5), Just(100), Just(800)],
        window in prop_oneof![Just(1u64), 2u64..300],
        threshold in prop_oneof![Just(0u64), 1u64..5000],
    ) -> CsfqParams {
        CsfqParams {
            edge,
            flow_window: Duration::from_millis(flow_window),
            window: Duration::from_millis(window),
            threshold: Bytes::new(threshold),
        }
    }
}

prop_compose! {
    /// Times that the steps between operations reach, and that they do not.
    fn confucius()(
        doubling in prop_oneof![3 => 1u64..3, 1 => 3u64..100],
        memory in prop_oneof![3 => 1u64..4, 1 => 4u64..1000],
    ) -> ConfuciusParams {
        ConfuciusParams {
            doubling: Duration::from_millis(doubling),
            memory: Duration::from_millis(memory),
            ..ConfuciusParams::default()
        }
    }
}

prop_compose! {
    fn tred()(
        k in prop_oneof![Just(140u32), 101u32..1000],
        exponent in 1u32..8,
        interval in 1u64..100,
        window in 100u64..100_000,
    ) -> TredParams {
        TredParams {
            k,
            exponent,
            interval: Duration::from_millis(interval),
            window: Duration::from_millis(window),
            ..TredParams::default()
        }
    }
}

prop_compose! {
    /// Environments of disciplines: links that a few packets congest, that a packet takes longest on, and that none does.
    fn environment()(
        bits in 2u32..=16,
        logarithmic: bool,
        rate in prop_oneof![
            1 => Just(None),
            4 => (1u64..10_000_000_000).prop_map(Some),
            2 => (1_000_000u64..100_000_000_000).prop_map(Some),
        ],
        framing in prop_oneof![
            Just(Framing::default()),
            Just(Framing::ETHERNET),
            Just(Framing { overhead: 8, mpu: 0, cells: Cells::Atm }),
        ],
        seed: u64,
    ) -> (Codec, Option<Rate>, Framing, u64) {
        let scale = if logarithmic { Scale::Logarithmic } else { Scale::Linear };
        (Codec::new(bits, scale).expect("bits in range"), rate.map(Rate::from_bps), framing, seed)
    }
}

prop_compose! {
    fn config(discipline: Discipline)(
        packets in prop_oneof![1u32..12, 12u32..100],
        bytes in prop_oneof![1u64..20_000, 500_000u64..5_000_000],
        flows in 1u32..10,
        users in 1u32..5,
        weights in proptest::collection::vec((0u32..5, 1u32..5), 0..4),
        quantum in prop_oneof![64u64..600, 1500u64..4000],
        tail: bool,
        red in red(),
        tred in tred(),
        rio in [red(), red()],
        codel in codel(),
        csfq in csfq(),
        cake in cake(),
        ncq in ncq(),
        confucius in confucius(),
        (codec, rate, framing, seed) in environment(),
    ) -> Config {
        let limits = Limits { packets, bytes: Bytes::new(bytes), flows };
        let weights = weights.into_iter().map(|(user, weight)| (UserId(user % users), weight));
        Config {
            drop_from: if tail { DropFrom::Tail } else { DropFrom::Head },
            // The default and others, none among them.
            least_cost: Bytes::new(if seed.is_multiple_of(2) { 256 } else { seed / 2 % 600 }),
            quantum: Bytes::new(quantum),
            users,
            weights: weights.collect(),
            red,
            tred,
            rio: { let [inside, outside] = rio; RioParams { inside, outside } },
            csfq,
            codel,
            cake,
            ncq,
            confucius,
            codec,
            rate,
            framing,
            seed,
            ..Config::new(discipline, limits)
        }
    }
}

/// Flows and users inside what the configuration has.
fn fit(ops: &[Op], config: &Config) -> Vec<Op> {
    let fit = |op: &Op| match *op {
        Op::Enqueue {
            flow,
            user,
            len,
            control,
            tag,
        } => Op::Enqueue {
            flow: flow % config.limits.flows,
            user: user % config.users,
            len,
            control,
            tag,
        },
        other => other,
    };
    ops.iter().map(fit).collect()
}

fn built(config: &Config) -> Box<dyn Scheduler + Send> {
    build(&config.spec(), &config.env()).expect("a good configuration")
}

macro_rules! contract {
    ($($name:ident: $discipline:expr, $make:expr;)*) => {$(
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(400))]

                #[test]
                fn keeps_the_contract_and_equals_the_reference(
                    config in config($discipline),
                    ops in proptest::collection::vec(op(), 0..300),
                ) {
                    let ops = fit(&ops, &config);
                    check(&config, $make(&config), &ops);
                }
            }

            #[test]
            fn the_same_operations_give_the_same_trace() {
                assert!(reference::is_known($discipline), "no reference of {}", $discipline);
                let limits = Limits { packets: 100, bytes: Bytes::new(60_000), flows: 32 };
                let config = Config { users: 4, ..Config::new($discipline, limits) };
                let mut rng = makeway_core::workload::Rng::new(7);
                let ops: Vec<Op> = (0..5_000)
                    .map(|_| match rng.below(5) {
                        0..3 => Op::Enqueue {
                            flow: rng.below(32),
                            user: rng.below(4),
                            len: 1 + rng.below(1514),
                            control: rng.below(4) == 0,
                            tag: rng.below(40) as u16,
                        },
                        _ => Op::Dequeue,
                    })
                    .collect();
                let traces = [0, 1].map(|_| check(&config, $make(&config), &ops));
                assert_eq!(traces[0], traces[1]);
                assert!(traces[0].iter().any(|(_, why)| why.is_some()));
            }
        }
    )*};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A new discipline is held to this without a line of its own; a reference comes with a line below.
    #[test]
    fn every_discipline_keeps_the_contract(
        (config, ops) in (0..Discipline::ALL.len()).prop_flat_map(|n| {
            (config(Discipline::ALL[n]), proptest::collection::vec(op(), 0..300))
        }),
    ) {
        let ops = fit(&ops, &config);
        let traces = [0, 1].map(|_| check_alone(&config, built(&config), &ops));
        prop_assert_eq!(&traces[0], &traces[1]);
    }
}

contract! {
    fifo: Discipline::Fifo, built;
    fq: Discipline::Fq, built;
    pfq: Discipline::Pfq, built;
    sqf: Discipline::Sqf, built;
    hier: Discipline::Hier, built;
    red: Discipline::Red, built;
    codel: Discipline::CoDel, built;
    fq_codel: Discipline::FqCoDel, built;
    cake: Discipline::Cake, built;
    prio: Discipline::Prio, built;
    ncq: Discipline::Ncq, built;
    tred: Discipline::Tred, built;
    rio: Discipline::Rio, built;
    choke: Discipline::Choke, built;
    csfq: Discipline::Csfq, built;
    harvest: Discipline::Harvest, built;
    confucius: Discipline::Confucius, built;
    sqf_by_heaps: Discipline::Sqf, |c: &Config| Box::new(Sqf::<Heaps>::counting(c.limits, c.drop_from, c.least_cost.get() as u32, c.seed));
    sqf_by_tree: Discipline::Sqf, |c: &Config| Box::new(Sqf::<Tree>::counting(c.limits, c.drop_from, c.least_cost.get() as u32, c.seed));
}
