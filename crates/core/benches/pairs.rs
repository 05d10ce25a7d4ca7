// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cases of `makeway-lab bench core`, each `waves` or `pairs` or `overload`, discipline and flows.

use divan::Bencher;
use makeway_core::sched::order::{Heaps, Tree};
use makeway_core::sched::sqf::Sqf;
use makeway_core::sched::{Discipline, DropFrom, Drops, Scheduler};
use makeway_core::workload::{Bench, Case};

fn main() {
    divan::main();
}

const FLOWS: [u32; 4] = [1, 64, 1024, 65_536];
const PAIRS: u64 = 100_000;

fn measure(bencher: Bencher, mut bench: Bench, mut scheduler: Box<dyn Scheduler + Send>) {
    let mut drops = Drops::with_capacity(16);
    bench.prefill(&mut *scheduler);
    bencher
        .counter(divan::counter::ItemsCount::new(PAIRS))
        .bench_local(|| bench.run(&mut *scheduler, &mut drops, PAIRS));
}

/// Every discipline, for every number of flows.
fn cases() -> impl Iterator<Item = (Discipline, u32)> {
    let each = |discipline| FLOWS.map(|flows| (discipline, flows));
    Discipline::ALL.into_iter().flat_map(each)
}

macro_rules! disciplines {
    ($($case:ident)*) => {$(
        mod $case {
            use super::*;

            fn bench(flows: u32) -> Bench {
                let case = Case::ALL.into_iter().find(|case| case.name() == stringify!($case));
                Bench::new(case.expect("a case"), flows, 1)
            }

            #[divan::bench(args = cases())]
            fn disciplines(bencher: Bencher, (discipline, flows): (Discipline, u32)) {
                let bench = bench(flows);
                let scheduler = bench.build(discipline);
                measure(bencher, bench, scheduler);
            }

            #[divan::bench(args = FLOWS)]
            fn sqf_heaps(bencher: Bencher, flows: u32) {
                let bench = bench(flows);
                let limits = bench.env().limits;
                let sqf = Sqf::<Heaps>::new(limits, DropFrom::Head, 1);
                measure(bencher, bench, Box::new(sqf));
            }

            #[divan::bench(args = FLOWS)]
            fn sqf_tree(bencher: Bencher, flows: u32) {
                let bench = bench(flows);
                let limits = bench.env().limits;
                let sqf = Sqf::<Tree>::new(limits, DropFrom::Head, 1);
                measure(bencher, bench, Box::new(sqf));
            }
        }
    )*};
}

disciplines! { pairs waves overload }
