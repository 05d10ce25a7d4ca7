// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reach of signals between stations.

/// Antennas of ns-2 (mac/wireless-phy, propagation): 0.28183815 W at 914 MHz, 1.5 m above ground, gain 1.
const WATTS: f64 = 0.281_838_15;
const HEIGHT: f64 = 1.5;
const WAVELENGTH: f64 = 299_792_458.0 / 914e6;

/// Reception of another station's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    /// Nothing.
    Deaf,
    /// Energy: the channel is busy.
    Energy,
    /// It can be understood.
    Frame,
}

/// Reception of each station's signal at each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    stations: usize,
    /// By sender, then by listener: sense, and power in any one unit.
    pairs: Vec<(Sense, f64)>,
}

impl Reach {
    /// Everybody understands everybody, all equally loud.
    pub fn everybody(stations: usize) -> Self {
        Self {
            stations,
            pairs: vec![(Sense::Frame, 1.0); stations * stations],
        }
    }

    /// Stations at `places`, in m, over flat ground: understood up to `range`, heard up to `sense`. Power falls with
    /// the square of the distance up to 4π h² / λ (86 m), then with its fourth power (two-ray ground
    /// reflection; T. S. Rappaport, "Wireless Communications", section 4.6), as in ns-2, whose defaults are 250 and 550 m.
    pub fn two_ray(places: &[[f64; 2]], range: f64, sense: f64) -> Self {
        let pair = |a: &[f64; 2], b: &[f64; 2]| {
            let [x, y] = [a[0] - b[0], a[1] - b[1]];
            let square = x * x + y * y;
            let sensed = match square {
                d if d <= range * range => Sense::Frame,
                d if d <= sense * sense => Sense::Energy,
                _ => Sense::Deaf,
            };
            (sensed, power(square))
        };
        let pairs = places
            .iter()
            .flat_map(|from| places.iter().map(move |to| pair(from, to)));
        Self {
            stations: places.len(),
            pairs: pairs.collect(),
        }
    }

    /// How many stations there are.
    pub fn stations(&self) -> usize {
        self.stations
    }

    /// Whether `to` understands `from` where nobody else sends.
    pub fn understands(&self, from: usize, to: usize) -> bool {
        self.of(from, to).0 == Sense::Frame
    }

    pub(super) fn of(&self, from: usize, to: usize) -> (Sense, f64) {
        self.pairs[from * self.stations + to]
    }
}

/// Power in W at a distance of which this is the square; no more than at 1 m.
fn power(square: f64) -> f64 {
    let square = square.max(1.0);
    let crossover = 4.0 * std::f64::consts::PI * HEIGHT * HEIGHT / WAVELENGTH;
    if square < crossover * crossover {
        let ratio = WAVELENGTH / (4.0 * std::f64::consts::PI);
        WATTS * ratio * ratio / square
    } else {
        WATTS * (HEIGHT * HEIGHT) * (HEIGHT * HEIGHT) / (square * square)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_at_a_distance_is_that_of_ns2() {
        // RXThresh_ and CSThresh_ of ns-2's defaults, for 250 and 550 m.
        for (metres, watts) in [(250.0_f64, 3.652e-10), (550.0, 1.559e-11)] {
            let got = power(metres * metres);
            assert!((got / watts - 1.0).abs() < 1e-3, "{metres} m: {got:e}");
        }
        // Both laws meet.
        let [near, far] = [86.15, 86.25].map(|d: f64| power(d * d));
        assert!((near / far - 1.0).abs() < 0.02, "{near:e} {far:e}");
    }

    #[test]
    fn stations_hear_as_far_as_they_should() {
        let places = [[0.0, 0.0], [250.0, 0.0], [0.0, 550.0], [0.0, 551.0]];
        let reach = Reach::two_ray(&places, 250.0, 550.0);
        let from_first = [1, 2, 3].map(|to| reach.of(0, to).0);
        assert_eq!(from_first, [Sense::Frame, Sense::Energy, Sense::Deaf]);
        assert_eq!(reach.of(1, 2).0, Sense::Deaf);
    }
}
