// SPDX-License-Identifier: MIT OR Apache-2.0
//! TFRC beside that of ns-2.35 (Agent/TFRC), whose figures `ns2.tcl` prints: packets per second, 1000 bytes each, an RTT of 100 ms, no
//! queue.
//!
//! ns-2's loss intervals are three to four packets longer: it counts from where it detects a loss. With n + 4 instead of n the
//! equation gives its rates to 0.1 % from n = 100 on, and with n that of ours.

use super::*;
use crate::random::Rng;

/// One packet in n lost: n, and what ns-2 settles at: `ns ns2.tcl list N 1000`.
const EVERY_NTH: [(u64, f64); 5] = [
    (20, 40.14),
    (50, 76.18),
    (100, 114.70),
    (200, 167.53),
    (1000, 384.67),
];

/// Each packet lost with this chance, in thousandths: `ns ns2.tcl rate P 4000`.
const AT_RANDOM: [(u32, f64); 2] = [(5, 175.08), (10, 123.45)];

#[test]
fn rates_of_ns_2_at_each_nth_packet_lost() {
    for (n, theirs) in EVERY_NTH {
        let (ours, _) = settled(TfrcParams::default(), n, 1);
        let expected = equation::throughput(1.0, 0.1, 1.0 / n as f64);
        let longer = equation::throughput(1.0, 0.1, 1.0 / (n as f64 + 4.0));
        println!("| 1 in {n} | {expected:.2} | {ours:.2} | {theirs:.2} | {longer:.2} |");
        assert!((ours / expected - 1.0).abs() < 0.002, "1 in {n}: {ours}");
        assert!(
            ours < theirs && theirs < longer * 1.001,
            "1 in {n}: {ours}, ns-2 {theirs}, {longer}"
        );
    }
}

/// Three packets in a row are one loss event, in ns-2 and here.
#[test]
fn three_losses_in_a_row_are_as_one() {
    let (one, _) = settled(TfrcParams::default(), 100, 1);
    let (three, _) = settled(TfrcParams::default(), 100, 3);
    assert!((three / one - 1.0).abs() < 0.001, "{one} {three}");
}

#[test]
fn rates_of_ns_2_at_random_loss() {
    for (thousandths, theirs) in AT_RANDOM {
        let mut path = Path::new(
            Config::Tfrc(TfrcParams::default()),
            Duration::from_millis(50),
        );
        let mut rng = Rng::new(7);
        path.lose = Box::new(move |_| rng.below(1000) < thousandths);
        path.run(Duration::from_secs(100));
        let before = path.sent;
        path.run(Duration::from_secs(2000));
        let ours = (path.sent - before) as f64 / 2000.0;
        println!("| 0.{thousandths:03} | | {ours:.1} | {theirs:.1} | |");
        assert!(
            (ours / theirs - 1.0).abs() < 0.03,
            "{thousandths} in 1000: {ours}, ns-2 {theirs}"
        );
    }
}
