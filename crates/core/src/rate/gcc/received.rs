// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates of arrivals: over the last half second (R_hat, §5.5), and of a train of packets.

/// Nanoseconds of a part of the window, and its parts: T = 0.5 s.
const PART: i64 = 50_000_000;
const PARTS: usize = 10;

/// R_hat, of whole parts of the window.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The newest part, which is not whole yet, and those before it.
    bytes: [u64; PARTS + 1],
    newest: Option<i64>,
    /// Whole parts since the first packet.
    whole: usize,
}

impl Received {
    pub fn new() -> Self {
        Self {
            bytes: [0; PARTS + 1],
            newest: None,
            whole: 0,
        }
    }

    /// A packet arrived then, in ns of the receiver's clock.
    pub fn packet(&mut self, came: i64, bytes: u64) {
        let part = came.div_euclid(PART);
        let ahead = part - *self.newest.get_or_insert(part);
        if ahead < -2 * PARTS as i64 {
            // The clock was set.
            *self = Self::new();
            return;
        }
        if ahead > 0 {
            let shift = (ahead as usize).min(PARTS + 1);
            self.bytes.rotate_right(shift % (PARTS + 1));
            self.bytes[..shift].fill(0);
            self.whole = self.whole.saturating_add(shift).min(PARTS);
            self.newest = Some(part);
        }
        if let Some(of) = self.bytes.get_mut(ahead.min(0).unsigned_abs() as usize) {
            *of += bytes;
        }
    }

    /// Bit/s, once a quarter of the window is there.
    pub fn rate(&self) -> Option<f64> {
        if self.whole < PARTS / 4 {
            return None;
        }
        let bytes: u64 = self.bytes[1..=self.whole].iter().sum();
        Some(bytes as f64 * 8e9 / (self.whole as f64 * PART as f64))
    }
}

/// The least packets and seconds of a train (those of libwebrtc).
const LEAST: (u32, f64) = (5, 0.015);
/// Received by this less than sent, a train has filled the path, and that part of it is taken (libwebrtc's).
const FILLED: (f64, f64) = (0.9, 0.95);

/// Packets in succession that left as fast as they might. Times are in s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Train {
    packets: u32,
    last: u64,
    /// Departure and arrival of the first and the last packet.
    first: (f64, f64),
    end: (f64, f64),
    /// Bits of the first packet, of the last, and of all.
    bits: (f64, f64, f64),
}

impl Train {
    /// A packet that left and came then, paced at `pace` bit/s; the rate of the train that is complete with it.
    pub fn packet(&mut self, sequence: u64, at: (f64, f64), bits: f64, pace: f64) -> Option<f64> {
        let gap = 1.5 * self.bits.1 / pace + 0.001;
        let goes_on = self.packets > 0 && sequence == self.last + 1 && at.0 - self.end.0 <= gap;
        if goes_on && at.1 >= self.end.1 {
            (self.last, self.end) = (sequence, at);
            self.packets += 1;
            self.bits = (self.bits.0, bits, self.bits.2 + bits);
            let rate = self.rate()?;
            *self = Self::begun(sequence, at, bits);
            return Some(rate);
        }
        *self = Self::begun(sequence, at, bits);
        None
    }

    fn begun(sequence: u64, at: (f64, f64), bits: f64) -> Self {
        Self {
            packets: 1,
            last: sequence,
            first: at,
            end: at,
            bits: (bits, bits, bits),
        }
    }

    fn rate(&self) -> Option<f64> {
        let span = (self.end.0 - self.first.0, self.end.1 - self.first.1);
        if self.packets < LEAST.0 || span.0 < LEAST.1 || span.1 <= 0.0 {
            return None;
        }
        let sent = (self.bits.2 - self.bits.1) / span.0;
        let received = (self.bits.2 - self.bits.0) / span.1;
        Some(if received < FILLED.0 * sent {
            FILLED.1 * received
        } else {
            sent.min(received)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_half_second() {
        let mut received = Received::new();
        let mut come = |from: i64, to: i64, bytes| {
            for ms in from..to {
                received.packet(ms * 1_000_000, bytes);
            }
            received.rate()
        };
        assert_eq!(come(0, 100, 125), None);
        assert_eq!(come(100, 1001, 125), Some(1e6));
        assert_eq!(come(1001, 1501, 250), Some(2e6 - 2e3));
        // Late ones count where they belong, and silence counts.
        assert_eq!(come(3000, 3001, 125), Some(0.0));
    }

    #[test]
    fn a_train_tells_the_rate_of_the_path_or_that_at_which_it_left() {
        for (apart, rate) in [(0.004, 2e6), (0.005, 1.6e6), (0.008, 0.95e6), (0.003, 2e6)] {
            let mut train = Train::default();
            let mut told = None;
            for n in 0..5 {
                assert_eq!(told, None);
                let at = (0.004 * n as f64, 1.0 + apart * n as f64);
                told = train.packet(n, at, 8000.0, 2e6);
            }
            let expected = if apart == 0.005 { 0.95 * rate } else { rate };
            let told = told.unwrap();
            assert!((told - expected).abs() < 1.0, "{apart} {told}");
            // With a loss in it, or a pause, there is none.
            for n in 6..10 {
                let at = (0.004 * n as f64, 1.0 + apart * n as f64);
                assert_eq!(train.packet(n, at, 8000.0, 2e6), None);
            }
            assert_eq!(train.packet(10, (0.2, 1.2), 8000.0, 2e6), None);
        }
    }
}
