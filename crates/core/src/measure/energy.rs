// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Energy Potential index: how much of the energy that a transfer took was well spent.

/// How much of the difference counts. The sources leave both to the reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyWeights {
    /// `a`: share of overhead (headers, retransmissions and losses), 0 to 1.
    pub wasted: f64,
    /// `b`: of the time that the radio was on and could have sent, 0 to 1.
    pub idle: f64,
}

impl Default for EnergyWeights {
    /// Chosen by us: 1 and 1, so that sending in vain costs as much as not sending; then EP is
    /// `goodput / most`.
    fn default() -> Self {
        Self {
            wasted: 1.0,
            idle: 1.0,
        }
    }
}

/// `EP = 1 - (a (throughput - goodput) + b (most - throughput)) / most`, all in the same unit,
/// `0 <= goodput <= throughput <= most`. From 0 to 1 if both weights are.
///
/// `most` is the largest throughput that the channel allows. `None` if it is not above 0. Source: Mamatas,
/// Tsaoussidis, "Differentiating Services with Non-Congestive Queuing (NCQ)", section 5.2.2.
pub fn energy_potential(
    goodput: f64,
    throughput: f64,
    most: f64,
    weights: EnergyWeights,
) -> Option<f64> {
    let wasted = weights.wasted * (throughput - goodput);
    let idle = weights.idle * (most - throughput);
    (most > 0.0).then(|| 1.0 - (wasted + idle) / most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn with_both_weights_it_is_the_share_of_the_channel_that_was_of_use() {
        let got = energy_potential(3.0, 4.0, 10.0, EnergyWeights::default());
        assert!((got.unwrap() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn each_weight_counts_its_own_loss() {
        let of = |wasted, idle| {
            energy_potential(3.0, 4.0, 10.0, EnergyWeights { wasted, idle }).unwrap()
        };
        assert!((of(1.0, 0.0) - 0.9).abs() < 1e-12);
        assert!((of(0.0, 1.0) - 0.4).abs() < 1e-12);
        assert_eq!(of(0.0, 0.0), 1.0);
    }

    #[test]
    fn no_channel_has_no_potential() {
        assert_eq!(
            energy_potential(0.0, 0.0, 0.0, EnergyWeights::default()),
            None
        );
    }

    proptest! {
        #[test]
        fn it_is_from_0_to_1_and_grows_with_goodput(
            sent in 0.0f64..1.0, useful in 0.0f64..1.0, more in 0.0f64..1.0,
            wasted in 0.0f64..=1.0, idle in 0.0f64..=1.0,
        ) {
            let weights = EnergyWeights { wasted, idle };
            let goodput = sent * useful;
            let [low, high] = [goodput, goodput + (sent - goodput) * more]
                .map(|g| energy_potential(g, sent, 1.0, weights).unwrap());
            prop_assert!((-1e-12..=1.0 + 1e-12).contains(&low));
            prop_assert!(low <= high + 1e-12);
        }
    }
}
