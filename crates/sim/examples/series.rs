use makeway_sim::{Options, run};
use std::path::Path;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let s =
        makeway_scenario::load(Path::new(&args[0]), &args[1..]).unwrap_or_else(|e| panic!("{e}"));
    let rep = run(
        &s,
        &Options {
            replication: std::env::var("REP").map_or(1, |r| r.parse().unwrap()),
            ..Options::default()
        },
        |_| {},
    )
    .unwrap();
    let f = rep.flows.iter().find(|f| f.media.is_some()).unwrap();
    println!("step {}", f.series_step_s);
    for (i, (((r, g), l), d)) in f
        .rate_series_bps
        .iter()
        .zip(&f.goodput_series_bps)
        .zip(&f.loss_series)
        .zip(&f.delay_series_ms)
        .enumerate()
    {
        println!(
            "{:6.1} rate {:8.0} goodput {:8.0} loss {:.2} delay {:6.1}",
            i as f64 * f.series_step_s,
            r / 1e3,
            g / 1e3,
            l,
            d
        );
    }
    println!("{:?}", f.media);
}
