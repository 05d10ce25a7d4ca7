// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a stream that a receiver misses, and when it asks for them by generic NACKs (RFC 4585 §6.2.1).

use std::collections::VecDeque;

use makeway_core::units::{Duration, Instant};

/// Missing packets of a stream that are asked for; of more, the oldest are not. Chosen by us.
const MOST: usize = 256;
/// A packet may be overtaken for so long; chosen by us.
const PATIENCE: Duration = Duration::from_millis(5);
/// From one NACK to the next, so that single losses in a row share one. Chosen by us.
const PAUSE: Duration = Duration::from_millis(5);
/// From one request for a packet to the next. The sender refuses those within its round trip. Chosen by us.
const REPEAT: Duration = Duration::from_millis(50);
/// Requests for one packet; chosen by us.
const REQUESTS: u8 = 10;

#[derive(Clone, Copy, Debug)]
struct Miss {
    number: u64,
    next: Instant,
    left: u8,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Misses {
    /// By number.
    misses: VecDeque<Miss>,
    /// The number after the largest that came.
    next: Option<u64>,
    /// No NACK before.
    quiet_until: Instant,
}

impl Misses {
    /// A packet came, not as a retransmission.
    pub fn on_packet(&mut self, now: Instant, number: u64) {
        let next = *self.next.get_or_insert(number);
        if number < next {
            return self.settle(number);
        }
        let first = next.max(number.saturating_sub(MOST as u64));
        for number in first..number {
            if self.misses.len() == MOST {
                self.misses.pop_front();
            }
            self.misses.push_back(Miss {
                number,
                next: now + PATIENCE,
                left: REQUESTS,
            });
        }
        self.next = Some(number + 1);
    }

    /// A packet came again: it is asked for no longer.
    pub fn settle(&mut self, number: u64) {
        let at = self.misses.binary_search_by_key(&number, |m| m.number);
        if let Ok(at) = at {
            self.misses.remove(at);
        }
    }

    /// The largest number that came.
    pub fn highest(&self) -> Option<u64> {
        self.next.map(|next| next - 1)
    }

    /// Packets to ask for now, the oldest first.
    pub fn take(&mut self, now: Instant, mut ask: impl FnMut(u64)) {
        if now < self.quiet_until {
            return;
        }
        let mut is_asked = false;
        self.misses.retain_mut(|miss| {
            if miss.next > now {
                return true;
            }
            ask(miss.number);
            is_asked = true;
            miss.next = now + REPEAT;
            miss.left -= 1;
            miss.left > 0
        });
        if is_asked {
            self.quiet_until = now + PAUSE;
        }
    }

    /// When there are some.
    pub fn next(&self) -> Option<Instant> {
        let next = self.misses.iter().map(|miss| miss.next).min()?;
        Some(next.max(self.quiet_until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn asked(misses: &mut Misses, ms: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        misses.take(at(ms), |number| numbers.push(number));
        numbers
    }

    #[test]
    fn a_missing_packet_is_asked_for_until_it_comes() {
        let mut misses = Misses::default();
        for number in [10, 11, 14] {
            misses.on_packet(at(0), number);
        }
        assert_eq!(asked(&mut misses, 4), []);
        assert_eq!(misses.next(), Some(at(5)));
        assert_eq!(asked(&mut misses, 5), [12, 13]);
        assert_eq!(asked(&mut misses, 6), []);
        misses.on_packet(at(30), 12);
        assert_eq!(asked(&mut misses, 55), [13]);
        misses.settle(13);
        assert_eq!((misses.next(), misses.highest()), (None, Some(14)));
    }

    #[test]
    fn an_overtaken_packet_is_not_asked_for() {
        let mut misses = Misses::default();
        for number in [1, 3, 2, 4] {
            misses.on_packet(at(0), number);
        }
        assert_eq!(asked(&mut misses, 100), []);
    }

    /// Every second packet of a millisecond is lost.
    #[test]
    fn losses_in_a_row_share_a_nack() {
        let mut misses = Misses::default();
        let mut nacks = Vec::new();
        for ms in 0..30 {
            misses.on_packet(at(ms), 2 * ms);
            let numbers = asked(&mut misses, ms);
            nacks.extend((!numbers.is_empty()).then_some((ms, numbers.len())));
        }
        assert_eq!(nacks, [(6, 1), (11, 5), (16, 5), (21, 5), (26, 5)]);
    }

    #[test]
    fn a_packet_that_never_comes_is_given_up_and_a_long_gap_is_bounded() {
        let mut misses = Misses::default();
        misses.on_packet(at(0), 0);
        misses.on_packet(at(0), 1 << 40);
        let mut count = 0;
        for ms in 0..2000 {
            let numbers = asked(&mut misses, ms);
            assert!(numbers.len() <= MOST);
            count += numbers.len();
        }
        assert_eq!(count, MOST * usize::from(REQUESTS));
        assert_eq!(misses.next(), None);
    }
}
