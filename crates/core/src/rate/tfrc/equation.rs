// SPDX-License-Identifier: MIT OR Apache-2.0
//! The throughput of TCP, by the loss event rate (RFC 5348 §3.1).

#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// f(p) of `X_Bps = s / (R f(p))`, with b = 1 and t_RTO = 4 R (RFC 5348 §8.1). Grows with `p`, from 0 at 0.
pub fn f(p: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// X_Bps: bytes per second for segments of `s` bytes, a round-trip time of `r` seconds and loss event rate `p`.
pub fn throughput(s: f64, r: f64, p: f64) -> f64 {
    s / (r * f(p))
}

/// The loss event rate at which f is `target`; 1 where no rate is large enough. By halving in sqrt(p), in which f is
/// nearly straight: 60 steps, exact to the last digits of a float.
pub fn inverse(target: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if f(middle * middle) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    high * high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computed with 50 digits from RFC 5348 §3.1.
    #[test]
    fn rfc_5348_3_1_values_of_f() {
        let table = [
            (0.0001, 8172.0),
            (0.001, 26052.0),
            (0.002, 37172.0),
            (0.01, 89021.0),
            (0.05, 271_305.0),
            (0.1, 564_939.0),
            (0.2, 1_863_717.0),
            (1.0, 243_315_981.0),
        ];
        for (p, million) in table {
            assert!((f(p) * 1e6 - million).abs() < 1.0, "f({p}) = {}", f(p));
        }
    }

    #[test]
    fn rfc_5348_3_1_bytes_per_second() {
        assert_eq!(throughput(1460.0, 0.1, 0.01).round(), 164_005.0);
        assert_eq!(throughput(1460.0, 0.1, 0.05).round(), 53_814.0);
    }

    /// Half a packet per RTT is f(p) = 2.
    #[test]
    fn rfc_5348_6_3_1_half_a_packet_per_rtt() {
        let p = inverse(2.0);
        assert!((p - 0.20643).abs() < 5e-6, "{p}");
        assert!((1.0 / p - 4.844).abs() < 5e-4);
    }

    #[test]
    fn no_loss_event_rate_is_above_one() {
        assert_eq!(inverse(1e9), 1.0);
    }

    proptest! {
        #[test]
        fn the_inverse_of_f_is_its_inverse(exponent in -7.0..0.0_f64) {
            let p = 10.0_f64.powf(exponent);
            let back = inverse(f(p));
            prop_assert!((back / p - 1.0).abs() < 1e-9, "{p} {back}");
        }
    }
}
