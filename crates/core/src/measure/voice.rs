// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quality of a call: the E-model of ITU-T G.107, with its transport-level form.

#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// The largest R of G.107 with all defaults: what is left of a call without delay and loss.
const BEST: f64 = 93.2;
/// G.711 without concealment of loss (R. Cole, J. Rosenbluth, "Voice over IP Performance Monitoring", 2001):
/// `gamma_1`, `gamma_2`, `gamma_3`.
const G711: [f64; 3] = [0.0, 30.0, 15.0];
/// `beta_1` and `beta_2`, per ms; `beta_3`, ms.
const DELAY: [f64; 3] = [0.024, 0.11, 177.3];

/// The E-model's R for G.711, `93.2 - Id - Ie`: 93.2 at best, above 80 what a telephone is like, below 50
/// unfit; below 0 for calls beyond words.
///
/// `delay_ms` is from mouth to ear, 0 or more, and `loss` the share of packets that are lost, 0 to 1.
pub fn r_factor(delay_ms: f64, loss: f64) -> f64 {
    BEST - delay_impairment(delay_ms) - loss_impairment(loss)
}

/// The same with 94.2 instead of 93.2: eq. (22) of Mamatas, Tsaoussidis, "Differentiating Services with
/// Non-Congestive Queuing (NCQ)", which takes it from Cole and Rosenbluth.
pub fn r_factor_ncq(delay_ms: f64, loss: f64) -> f64 {
    94.2 - delay_impairment(delay_ms) - loss_impairment(loss)
}

/// Mean opinion score of `r`, 1 (bad) to 4.5 (G.107, annex B). The paper's
/// `1 + 0.035 R + 7e-6 (100 - R)` lacks the factor `R (R - 60)`.
pub fn mos(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // Below 6.5 the cubic would fall under 1.
        r => (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0),
    }
}

/// Id: what delay takes.
fn delay_impairment(ms: f64) -> f64 {
    let [each, more, from] = DELAY;
    each * ms + more * (ms - from).max(0.0)
}

/// Ie: what G.711 and loss take.
fn loss_impairment(loss: f64) -> f64 {
    let [codec, scale, steep] = G711;
    codec + scale * (steep * loss).ln_1p()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_calls_have_their_known_quality() {
        // Computed independently of this project from G.107.
        for (delay, loss, r, score) in [
            (100.0, 0.0, 90.80, 4.358),
            (177.3, 0.0, 88.945, 4.312),
            (300.0, 0.0, 72.503, 3.712),
            (100.0, 0.02, 82.93, 4.130),
        ] {
            let got = r_factor(delay, loss);
            assert!((got - r).abs() < 0.005, "{delay} ms, {loss}: {got}");
            assert!(
                (mos(got) - score).abs() < 0.0006,
                "{delay} ms: {}",
                mos(got)
            );
            assert!((r_factor_ncq(delay, loss) - got - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn bounds_of_the_ratings_are_those_of_the_papers_table_2() {
        for (r, score) in [
            (90.0, 4.34),
            (80.0, 4.03),
            (70.0, 3.60),
            (60.0, 3.10),
            (50.0, 2.58),
        ] {
            assert!((mos(r) - score).abs() < 0.007, "{r}: {}", mos(r));
        }
        assert_eq!((mos(-5.0), mos(100.0), mos(120.0)), (1.0, 4.5, 4.5));
    }

    proptest! {
        #[test]
        fn more_delay_or_loss_is_never_better(
            delay in 0.0f64..2000.0, more in 0.0f64..500.0, loss in 0.0f64..0.5, again in 0.0f64..0.5,
        ) {
            let before = r_factor(delay, loss);
            for after in [r_factor(delay + more, loss), r_factor(delay, loss + again)] {
                prop_assert!(after <= before);
                prop_assert!(mos(after) <= mos(before) + 1e-12);
                prop_assert!((1.0..=4.5).contains(&mos(after)));
            }
        }
    }
}
