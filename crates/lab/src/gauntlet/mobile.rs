// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links whose rate changes every second, as a mobile one's does: made from a seed.

use std::fmt::Write;

use makeway_core::random::Rng;

/// Kinds of links. Rates are about a mean; the extremes are chosen by us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mobile {
    /// Each rate is that of the second before times 0.7 to 1.4: a train that passes from cell to cell.
    Walk,
    /// Each rate is drawn anew, from a third of the mean to 5/3: fading, and others in the cell.
    Fade,
    /// A steady rate, and one second in eight at a twentieth of it: handovers.
    Handover,
    /// The mean, or for some seconds a third of it: in and out of a building.
    Shade,
}

impl Mobile {
    /// `[["1s", "9.1mbit"], ...]` for every second of `seconds`, about `mean` Mbit/s.
    pub fn steps(self, seed: u64, mean: f64, seconds: u32) -> String {
        let mut rng = Rng::new(seed);
        // Of 2^-32, so that it is below 1.
        let mut draw = move || f64::from(rng.next_u32()) / f64::from(u32::MAX);
        let (mut rate, mut text, mut shaded) = (mean, String::new(), false);
        for second in 1..seconds {
            rate = match self {
                Self::Walk => (rate * (0.7 + 0.7 * draw())).clamp(mean / 4.0, mean * 1.5),
                Self::Fade => mean * (1.0 + 4.0 * draw()) / 3.0,
                Self::Handover if draw() < 0.125 => mean / 20.0,
                Self::Handover => mean * (0.9 + 0.2 * draw()),
                Self::Shade => {
                    shaded ^= draw() < 0.3;
                    if shaded { mean / 3.0 } else { mean }
                }
            };
            let comma = if second > 1 { ", " } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}[\"{second}s\", \"{rate:.3}mbit\"]");
        }
        format!("[{text}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_a_link_whose_rates_stay_within_its_kind() {
        for (kind, least, most) in [
            (Mobile::Walk, 2.5, 15.0),
            (Mobile::Fade, 3.3, 16.7),
            (Mobile::Handover, 0.5, 11.0),
            (Mobile::Shade, 3.333, 10.0),
        ] {
            let text = kind.steps(7, 10.0, 60);
            assert_eq!(text, kind.steps(7, 10.0, 60));
            assert_ne!(text, kind.steps(8, 10.0, 60));
            let rates: Vec<f64> = text
                .split('"')
                .filter_map(|part| part.strip_suffix("mbit")?.parse().ok())
                .collect();
            assert_eq!(rates.len(), 59);
            assert!(
                rates.iter().all(|rate| (least..=most).contains(rate)),
                "{text}"
            );
            assert!(rates.windows(2).any(|pair| pair[0] != pair[1]), "{text}");
        }
    }
}
