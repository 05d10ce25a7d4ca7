// SPDX-License-Identifier: MIT OR Apache-2.0
//! The over-use detector of Google congestion control (§5.4), with its adaptive threshold. Times are in ms.

/// del_var_th(0), and its bounds.
const THRESHOLD: (f64, f64, f64) = (12.5, 6.0, 600.0);
/// overuse_time_th.
const OVERUSE_TIME: f64 = 10.0;
/// K_u, K_d, by ms.
const K: (f64, f64) = (0.01, 0.00018);
/// A gradient by more than this above the threshold does not move it.
const OUTLIER: f64 = 15.0;
/// Time between groups for the threshold, at most: a longer one would take it beyond the gradient; ours.
const LONGEST: f64 = 100.0;

/// The state of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The queue neither grows nor shrinks.
    Normal,
    /// The queue grows.
    Overuse,
    /// The queue shrinks.
    Underuse,
}

/// Compares gradients with a threshold.
#[derive(Clone, Debug)]
pub struct Detector {
    threshold: f64,
    m: f64,
    /// Since the gradient has been above the threshold; `None`: it is not.
    above: Option<f64>,
    signal: Signal,
}

impl Detector {
    pub fn new() -> Self {
        Self {
            threshold: THRESHOLD.0,
            m: 0.0,
            above: None,
            signal: Signal::Normal,
        }
    }

    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// A gradient m(i), and the time since the one before.
    pub fn update(&mut self, m: f64, between: f64) -> Signal {
        let is_rising = m >= self.m;
        self.m = m;
        self.signal = if m > self.threshold {
            let above = self.above.map_or(0.0, |above| above + between);
            self.above = Some(above);
            match above >= OVERUSE_TIME && is_rising {
                true => Signal::Overuse,
                // Over-use that is not signalled is no reason for another signal.
                false if self.signal == Signal::Underuse => Signal::Normal,
                false => self.signal,
            }
        } else {
            self.above = None;
            if m < -self.threshold {
                Signal::Underuse
            } else {
                Signal::Normal
            }
        };
        self.adapt(m.abs(), between.clamp(0.0, LONGEST));
        self.signal
    }

    fn adapt(&mut self, m: f64, between: f64) {
        if m - self.threshold > OUTLIER {
            return;
        }
        let k = if m < self.threshold { K.1 } else { K.0 };
        let new = self.threshold + between * k * (m - self.threshold);
        self.threshold = new.clamp(THRESHOLD.1, THRESHOLD.2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_use_is_signalled_after_ten_ms_and_while_the_gradient_rises() {
        let mut detector = Detector::new();
        assert_eq!(detector.update(20.0, 20.0), Signal::Normal);
        assert_eq!(detector.update(21.0, 9.0), Signal::Normal);
        assert_eq!(detector.update(22.0, 1.0), Signal::Overuse);
        let mut detector = Detector::new();
        detector.update(25.0, 20.0);
        assert_eq!(detector.update(24.0, 20.0), Signal::Normal, "it falls");
        assert_eq!(detector.update(-30.0, 20.0), Signal::Underuse);
        assert_eq!(detector.update(0.0, 20.0), Signal::Normal);
    }

    /// §5.4: quickly up, slowly down, not by outliers, 6 to 600.
    #[test]
    fn the_threshold_follows_the_gradient_by_k_u_and_k_d() {
        let mut detector = Detector::new();
        detector.update(22.5, 10.0);
        assert!((detector.threshold - 13.5).abs() < 1e-9);
        detector.update(3.5, 10.0);
        assert!((detector.threshold - (13.5 - 0.018)).abs() < 1e-9);
        let before = detector.threshold;
        detector.update(before + 15.1, 10.0);
        assert_eq!(detector.threshold.to_bits(), before.to_bits());
        for _ in 0..100_000 {
            detector.update(0.0, 20.0);
        }
        assert_eq!(detector.threshold.to_bits(), 6.0_f64.to_bits());
    }
}
