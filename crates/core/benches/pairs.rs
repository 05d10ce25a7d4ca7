//! The cases of `makeway-lab bench core`, each `waves` or `pairs` or `overload`, discipline and flows.

use divan::Bencher;
use makeway_core::sched::order::{Heaps, Tree};
use makeway_core::sched::sqf::Sqf;
use makeway_core::sched::{Discipline, Drops, Scheduler, build};
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

macro_rules! disciplines {
    ($($case:ident)*) => {$(
        mod $case {
            use super::*;

            fn bench(flows: u32) -> Bench {
                let case = Case::ALL.into_iter().find(|case| case.name() == stringify!($case));
                Bench::new(case.expect("a case"), flows, 1)
            }

            fn discipline(bencher: Bencher, which: Discipline, flows: u32) {
                let bench = bench(flows);
                let scheduler = build(&bench.config(which)).expect("a good configuration");
                measure(bencher, bench, scheduler);
            }

            #[divan::bench(args = FLOWS)]
            fn fifo(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Fifo, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn fq(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Fq, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn pfq(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Pfq, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn sqf(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Sqf, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn hier(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Hier, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn prio(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Prio, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn red(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Red, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn choke(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Choke, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn csfq(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Csfq, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn harvest(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Harvest, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn confucius(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Confucius, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn codel(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::CoDel, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn fq_codel(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::FqCoDel, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn cake(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Cake, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn ncq(bencher: Bencher, flows: u32) {
                discipline(bencher, Discipline::Ncq, flows);
            }

            #[divan::bench(args = FLOWS)]
            fn sqf_heaps(bencher: Bencher, flows: u32) {
                let bench = bench(flows);
                let config = bench.config(Discipline::Sqf);
                let sqf = Sqf::<Heaps>::new(config.limits, config.drop_from);
                measure(bencher, bench, Box::new(sqf));
            }

            #[divan::bench(args = FLOWS)]
            fn sqf_tree(bencher: Bencher, flows: u32) {
                let bench = bench(flows);
                let config = bench.config(Discipline::Sqf);
                let sqf = Sqf::<Tree>::new(config.limits, config.drop_from);
                measure(bencher, bench, Box::new(sqf));
            }
        }
    )*};
}

disciplines! { pairs waves overload }
