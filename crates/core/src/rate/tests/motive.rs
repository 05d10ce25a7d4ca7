// SPDX-License-Identifier: MIT OR Apache-2.0
//! SBPN2's reason to send late packets: the rate should not fall for lack of data. Whether it falls depends on the RFC.

use super::*;
use std::cell::Cell;
use std::rc::Rc;

/// The mean rate allowed to a sender that uses `share` of it, by what the equation allows at the loss of one packet in 100 that it had
/// before, and has still if `lossy`. The RTT is 100 ms.
fn allowed(params: TfrcParams, share: f64, lossy: bool) -> f64 {
    let params = TfrcParams {
        damping: false,
        ..params
    };
    let mut path = Path::new(Config::Tfrc(params), Duration::from_millis(50));
    path.lose = Box::new(|sequence| sequence % 100 == 99);
    path.run(Duration::from_secs(20));
    if !lossy {
        path.lose = Box::new(|_| false);
    }
    let waiting = Rc::new(Cell::new(0.0));
    let queue = Rc::clone(&waiting);
    path.has_data = Box::new(move |_| {
        let has = queue.get() >= 1.0;
        queue.set(queue.get() - f64::from(u8::from(has)));
        has
    });
    let mut sum = 0.0;
    for ms in 0..40_000 {
        let rate = path.controller.rate().bps() as f64 / 8000.0;
        waiting.set(waiting.get() + share * rate / 1000.0);
        path.run(Duration::from_millis(1));
        if ms >= 20_000 {
            sum += rate / 20_000.0;
        }
    }
    sum / equation::throughput(1.0, 0.1, 0.01)
}

/// The rows of docs/rate.md: share used, then RFC 3448, Linux and RFC 5348, without more losses and with.
#[test]
#[ignore = "prints a table: cargo test -p makeway-core --lib motive -- --ignored --nocapture"]
fn prints_the_table_of_the_documentation() {
    for share in [1.0, 0.6, 0.4, 0.25] {
        let of = |lossy| {
            let all = [
                TfrcParams::rfc3448(),
                TfrcParams::linux(),
                TfrcParams::default(),
            ];
            all.map(|params| format!("{:.3}", allowed(params, share, lossy)))
                .join(" | ")
        };
        println!("| {share:?} | {} | {} |", of(false), of(true));
    }
}

/// RFC 3448 allows min(X_Bps, 2 X_recv): all of it to a sender that uses more than half, and ever less to one that uses less. RFC 4342
/// holds the initial window of an RTT at pauses.
#[test]
fn rfc_3448_takes_away_what_is_not_used() {
    for lossy in [false, true] {
        for share in [0.4, 0.25] {
            assert!(allowed(TfrcParams::rfc3448(), share, lossy) < 0.01);
            assert!((0.1..0.35).contains(&allowed(TfrcParams::linux(), share, lossy)));
        }
    }
    for params in [TfrcParams::rfc3448(), TfrcParams::linux()] {
        let x = allowed(params, 0.6, true);
        assert!((x - 1.0).abs() < 0.02, "{x}");
    }
}

/// RFC 5348 keeps twice the earlier receive rate, 0.99 of the fair rate, for any used share of it.
#[test]
fn rfc_5348_keeps_what_is_not_used() {
    for share in [0.4, 0.25] {
        let x = allowed(TfrcParams::default(), share, false);
        assert!((x - 2.0 * 0.99).abs() < 0.03, "share {share}: {x}");
    }
}

/// But with each loss event it halves what it keeps, and then follows what is received, as RFC 3448 does.
#[test]
fn rfc_5348_takes_it_away_where_packets_are_lost() {
    for (share, least, most) in [(0.6, 0.95, 1.0), (0.4, 0.25, 0.45), (0.25, 0.1, 0.2)] {
        let x = allowed(TfrcParams::default(), share, true);
        assert!((least..=most).contains(&x), "share {share}: {x}");
    }
}
