// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controllers and reporters over a path of their own: closed forms, and what must hold for each of them.

mod abrc;
mod application;
mod ccid2;
mod forged;
mod gcc;
mod link;
mod motive;
mod ns2;
mod path;
mod ranges;
mod scream;
mod tfrc_receiver;
mod tfrc_sender;

use super::tfrc::{TfrcParams, equation};
use super::*;
use path::Path;

/// Packets per second after settling, and the last p, where of each `n` packets the last `burst` are lost; the RTT is 100 ms.
fn settled(params: TfrcParams, n: u64, burst: u64) -> (f64, f64) {
    let mut path = Path::new(Config::Tfrc(params), Duration::from_millis(50));
    path.lose = Box::new(move |sequence| sequence % n >= n - burst);
    path.run(Duration::from_secs(100));
    let before = path.sent;
    path.run(Duration::from_secs(200));
    ((path.sent - before) as f64 / 200.0, path.reported_p())
}

/// X = s / (R f(p)) where each n-th packet is lost (RFC 5348 §3.1).
#[test]
fn rfc_5348_3_1_the_rate_settles_at_the_equation() {
    for n in [20, 100, 1000] {
        let (rate, p) = settled(TfrcParams::default(), n, 1);
        assert!((p * n as f64 - 1.0).abs() < 0.01, "1 in {n}: p {p}");
        let expected = equation::throughput(1.0, 0.1, 1.0 / n as f64);
        assert!(
            (rate / expected - 1.0).abs() < 0.03,
            "1 in {n}: {rate} packet/s, expected {expected}"
        );
    }
}
