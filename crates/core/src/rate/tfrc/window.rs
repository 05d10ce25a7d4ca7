// SPDX-License-Identifier: MIT OR Apache-2.0
//! CCID 3's window counter: a clock of a quarter of an RTT in four bits of each packet (RFC 4342 §8.1).

use crate::units::{Duration, Instant};

/// From `from` to `to`, around the circle of 16.
pub fn distance(from: u8, to: u8) -> u8 {
    to.wrapping_sub(from) & 15
}

/// The sender's half: what to write in each packet's CCVal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounter {
    /// last_WC, and last_WC_time once a packet was sent.
    last: u8,
    since: Option<Instant>,
}

impl WindowCounter {
    /// The counter of a packet that leaves now; `rtt` is the sender's estimate. 0 while there is none.
    pub fn on_sent(&mut self, now: Instant, rtt: Option<Duration>) -> u8 {
        let since = *self.since.get_or_insert(now);
        let quarter = rtt.map_or(0, |rtt| rtt.as_nanos() / 4);
        if let Some(quarters) = now.saturating_since(since).as_nanos().checked_div(quarter)
            && quarters > 0
        {
            // The minimum is below 16.
            self.last = (self.last + quarters.min(5) as u8) & 15;
            self.since = Some(now);
        }
        self.last
    }

    /// A packet that was sent with this counter is acknowledged: later ones are at least 4 beyond.
    pub fn on_acknowledged(&mut self, now: Instant, window: u8) {
        let least = (window + 4) & 15;
        // Ahead by up to half of the circle.
        if (1..8).contains(&distance(self.last, least)) {
            self.last = least;
            self.since = Some(now);
        }
    }
}

/// The receiver's half: the RTT, of packets whose counters are a few apart.
#[derive(Clone, Debug, Default)]
pub struct WindowRtt {
    /// When the first packet with each counter came, T(I).
    first: [Option<Instant>; 16],
    latest: Option<u8>,
    rtt: Option<Duration>,
}

impl WindowRtt {
    /// A packet with this counter, 0 to 15, came.
    pub fn on_arrival(&mut self, now: Instant, window: u8) {
        let window = window & 15;
        let Some(latest) = self.latest else {
            self.latest = Some(window);
            self.first[usize::from(window)] = Some(now);
            return;
        };
        let ahead = distance(latest, window);
        if !(1..8).contains(&ahead) {
            return;
        }
        for skipped in 1..=ahead {
            self.first[usize::from((latest + skipped) & 15)] = None;
        }
        self.first[usize::from(window)] = Some(now);
        self.latest = Some(window);
        // T(K + D) - T(K) is D quarters; 4 before 3 before 2.
        let sample = [4u8, 3, 2].into_iter().find_map(|d| {
            let earlier = self.first[usize::from(window.wrapping_sub(d) & 15)]?;
            Some(now.saturating_since(earlier) * 4 / u64::from(d))
        });
        if let Some(sample) = sample {
            let rtt = self.rtt.map_or(sample, |rtt| (rtt * 9 + sample) / 10);
            self.rtt = Some(rtt);
        }
    }

    /// The latest counter.
    pub fn latest(&self) -> Option<u8> {
        self.latest
    }

    /// The estimate, once there is one.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn rfc_4342_8_1_the_counter_advances_by_quarters_and_by_five_at_most() {
        let rtt = Some(Duration::from_millis(100));
        let mut counter = WindowCounter::default();
        let sent: Vec<u8> = [0, 24, 25, 49, 75, 200, 1200, 1224, 2000, 3000]
            .map(|at| counter.on_sent(ms(at), rtt))
            .into();
        assert_eq!(sent, [0, 0, 1, 1, 3, 8, 13, 13, 2, 7]);
    }

    #[test]
    fn rfc_4342_8_1_no_counter_without_an_rtt() {
        let mut counter = WindowCounter::default();
        assert_eq!(counter.on_sent(ms(0), None), 0);
        assert_eq!(counter.on_sent(ms(5000), None), 0);
    }

    #[test]
    fn rfc_4342_8_1_an_acknowledgement_moves_it_four_beyond() {
        let mut counter = WindowCounter::default();
        let rtt = Some(Duration::from_millis(100));
        assert_eq!(counter.on_sent(ms(0), rtt), 0);
        counter.on_acknowledged(ms(10), 0);
        assert_eq!(counter.on_sent(ms(11), rtt), 4);
        // Beyond already.
        counter.on_acknowledged(ms(12), 15);
        assert_eq!(counter.on_sent(ms(13), rtt), 4);
    }

    /// The RFC's example: T7 - T3 is a sample.
    #[test]
    fn rfc_4342_8_1_rtt_of_window_counters() {
        let mut rtt = WindowRtt::default();
        for (at, window) in [(1, 9), (2, 9), (3, 10), (4, 10), (5, 11), (8, 13)] {
            rtt.on_arrival(ms(at), window);
        }
        // First 11 - 9, 2 quarters in 4 ms; then 13 - 9, 4 quarters in 7 ms.
        assert_eq!(rtt.rtt(), Some(Duration::from_micros(7900)));
        rtt.on_arrival(ms(9), 14);
        let expected = Duration::from_micros((9 * 7900 + 6000) / 10);
        assert_eq!(rtt.rtt(), Some(expected));
        // Older counters, late.
        rtt.on_arrival(ms(10), 13);
        assert_eq!(rtt.rtt(), Some(expected));
    }
}
