use makeway_sim::{Options, run};
use std::path::Path;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let file = &args[0];
    let runs: u64 = args[1].parse().unwrap();
    // remaining: axis=v1,v2,... then policies, then sets after --
    let (axis, values) = args[2].split_once('=').unwrap();
    let policies: Vec<&str> = args[3].split(',').collect();
    let sets = &args[4..];
    println!(
        "{:>8} {:>10} | aud on  recv | vid on  recv | exp evic | tcp kbit  call kbit | frz  p99a",
        axis.rsplit('.').next().unwrap(),
        "policy"
    );
    for v in values.split(',') {
        for p in &policies {
            let mut set: Vec<String> = sets.to_vec();
            set.push(format!("{axis}={v}"));
            let (pol, extra) = p.split_once('+').unwrap_or((p, ""));
            set.push(format!("flow.call.policy={pol}"));
            if !extra.is_empty() {
                set.push(extra.into());
            }
            let s = makeway_scenario::load(Path::new(file), &set).unwrap_or_else(|e| panic!("{e}"));
            let mut acc = [0.0; 10];
            for r in 1..=runs {
                let rep = run(
                    &s,
                    &Options {
                        replication: r,
                        ..Options::default()
                    },
                    |_| {},
                )
                .unwrap();
                let f = rep.flows.iter().find(|f| f.media.is_some()).unwrap();
                let m = f.media.as_ref().unwrap();
                let (a, b) = (&m.classes[0], &m.classes[1]);
                let pc = |x: u64, c: u64| 100.0 * x as f64 / c as f64;
                let x = [
                    pc(a.on_time, a.offered),
                    pc(a.received, a.offered),
                    pc(b.on_time, b.offered),
                    pc(b.received, b.offered),
                    (a.expired + b.expired) as f64,
                    (a.evicted + b.evicted) as f64,
                    rep.flows
                        .iter()
                        .filter(|f| f.kind == "bulk")
                        .map(|f| f.goodput_bps / 1e3)
                        .sum(),
                    f.goodput_bps / 1e3,
                    b.freezes.map_or(0.0, |f| f.count as f64),
                    a.delay_ms.p99,
                ];
                for i in 0..10 {
                    acc[i] += x[i] / runs as f64;
                }
            }
            println!(
                "{v:>8} {p:>10} | {:6.2} {:6.2} | {:6.2} {:6.2} | {:5.0} {:5.0} | {:7.0} {:7.0} | {:4.0} {:5.0}",
                acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7], acc[8], acc[9]
            );
        }
    }
}
