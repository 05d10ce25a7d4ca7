// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's view of the receiver's gaps, and the next one to fill.
//!
//! Source: E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo, Y. Nishida, "A Conservative Loss
//! Recovery Algorithm Based on Selective Acknowledgment (SACK) for TCP", RFC 6675, section 4.
//!
//! | RFC | here |
//! | --- | --- |
//! | HighACK, HighData | `una`, `max`: one more, the next octet |
//! | HighRxt, RescueRxt | `rxt`: one more; `rescued` |
//! | `Update()` | [`Scoreboard::sacked`], [`Scoreboard::advance`] |
//! | `IsLost()` | below [`Scoreboard::lost_edge`] |
//! | `SetPipe()` | [`Scoreboard::pipe`] |
//! | `NextSeg()` | [`Scoreboard::next_lost`], [`Scoreboard::next_hole`], [`Scoreboard::rescue`] |
//!
//! Cost per acknowledgement: O(log n) for n ranges, as the counts are kept up to date.
//!
//! Departures: `IsLost()` asks for `DupThresh` ranges above, and it is true of all gaps below one of
//! which it is true; so an edge says it all. Ranges beyond the set's room are forgotten.

use super::ranges::Ranges;

/// Duplicate acknowledgements, or ranges above, that make a loss: RFC 5681 §3.2, RFC 6675 §2.
pub const DUP_THRESH: u32 = 3;

/// The sender's picture of the receiver's set.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    ranges: Ranges,
    mss: u64,
    una: u64,
    /// Gaps below this have been sent again.
    rxt: u64,
    /// Bytes in `ranges`.
    total: u64,
    /// Bytes in `ranges` below `rxt`.
    below_rxt: u64,
    rescued: bool,
}

impl Scoreboard {
    pub fn new(mss: u32, most_ranges: usize) -> Self {
        Self {
            ranges: Ranges::new(most_ranges),
            mss: u64::from(mss),
            una: 0,
            rxt: 0,
            total: 0,
            below_rxt: 0,
            rescued: false,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The range `start..end` has arrived. Returns the bytes that were not known to.
    pub fn sacked(&mut self, start: u64, end: u64) -> u64 {
        let start = start.max(self.una);
        // In two parts, so that each is counted on its side of `rxt`.
        let low = self.put(start, end.min(self.rxt));
        let high = self.put(start.max(self.rxt), end);
        self.below_rxt += low;
        self.total += low + high;
        low + high
    }

    fn put(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        self.ranges.insert(start, end).map_or(0, |(_, added)| added)
    }

    /// Everything before `una` is acknowledged.
    pub fn advance(&mut self, una: u64) {
        self.una = una;
        let removed = self.ranges.remove_below(una);
        self.total -= removed;
        if una >= self.rxt {
            self.rxt = una;
            self.below_rxt = 0;
        } else {
            self.below_rxt -= removed;
        }
    }

    /// A recovery begins, or sending starts over after a timeout: no gap has been filled yet.
    pub fn start_over(&mut self) {
        self.rxt = self.una;
        self.below_rxt = 0;
        self.rescued = false;
    }

    /// Everything before `at` that was missing has been sent again.
    pub fn resent_to(&mut self, at: u64) {
        if at > self.rxt {
            self.below_rxt += self.ranges.covered(self.rxt, at);
            self.rxt = at;
        }
    }

    /// Bytes that have arrived beyond the first gap.
    #[inline]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that have arrived below the point that retransmission has reached.
    pub fn below_resent(&self) -> u64 {
        self.below_rxt
    }

    /// `IsLost()` of the first missing byte.
    pub fn first_is_lost(&self) -> bool {
        self.lost_edge().0 > self.una
    }

    /// Missing bytes below the edge are lost: `DupThresh` ranges or more than `DupThresh - 1`
    /// segments have arrived beyond. And how many bytes have arrived beyond the edge.
    fn lost_edge(&self) -> (u64, u64) {
        let mut bytes = 0;
        for (n, (start, end)) in (1..).zip(self.ranges.descending()) {
            bytes += end - start;
            if n >= DUP_THRESH || bytes > u64::from(DUP_THRESH - 1) * self.mss {
                return (start, bytes);
            }
        }
        (self.una, self.total)
    }

    /// `SetPipe()`: an estimate of the bytes that are in the network.
    pub fn pipe(&self, max: u64) -> u64 {
        let (edge, arrived) = self.lost_edge();
        // (a) not lost, (b) sent again.
        (max - edge - arrived) + (self.rxt - self.una - self.below_rxt)
    }

    /// `NextSeg()` (1): the first lost segment that was not sent again, as offset and length.
    pub fn next_lost(&self) -> Option<(u64, u32)> {
        self.next_hole().filter(|hole| hole.0 < self.lost_edge().0)
    }

    /// `NextSeg()` (3): the first missing segment that was not sent again, lost or not.
    pub fn next_hole(&self) -> Option<(u64, u32)> {
        let (start, end) = self.ranges.gap(self.rxt)?;
        Some((start, (end - start).min(self.mss) as u32))
    }

    /// `NextSeg()` (4): the highest missing segment, once in a recovery, in case that segment's
    /// first retransmission is what keeps the acknowledgements away.
    pub fn rescue(&mut self, max: u64) -> Option<(u64, u32)> {
        if std::mem::replace(&mut self.rescued, true) {
            return None;
        }
        let mut end = max;
        let mut floor = self.una;
        for (s, e) in self.ranges.descending() {
            if e < end {
                floor = e;
                break;
            }
            end = s;
        }
        let start = floor.max(end.saturating_sub(self.mss));
        (start < end).then_some((start, (end - start) as u32))
    }

    /// The first missing bytes at or after `at`, at most a segment, as offset and length.
    pub fn missing_from(&self, at: u64, max: u64) -> (u64, u32) {
        let (start, end) = self.ranges.missing(at, max);
        (start, (end - start).min(self.mss) as u32)
    }

    /// Everything before is acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Where what has arrived ends.
    pub fn highest(&self) -> u64 {
        self.ranges.last().map_or(self.una, |range| range.1)
    }

    /// Ranges that have arrived beyond the first gap.
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Whether all of `start..end` has arrived.
    pub fn has(&self, start: u64, end: u64) -> bool {
        end <= self.una || self.arrived_between(start, end) == end - start
    }

    /// Bytes of `start..end` that have arrived, beyond the first gap.
    pub fn arrived_between(&self, start: u64, end: u64) -> u64 {
        self.ranges.covered(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Segments of 10 bytes; those named have arrived.
    fn board(una: u64, arrived: &[u64]) -> Scoreboard {
        let mut board = Scoreboard::new(10, 100);
        board.advance(una * 10);
        for n in arrived {
            board.sacked(n * 10, n * 10 + 10);
        }
        board
    }

    #[test]
    fn three_ranges_or_more_than_two_segments_above_make_a_loss() {
        assert!(!board(0, &[2, 3]).first_is_lost());
        assert!(board(0, &[2, 3, 4]).first_is_lost());
        assert!(!board(0, &[2, 4]).first_is_lost());
        let three = board(0, &[2, 4, 6]);
        assert!(three.first_is_lost());
        // Only one range and two segments lie above the gaps at 3 and 5.
        assert_eq!(three.lost_edge(), (20, 30));
    }

    #[test]
    fn gaps_are_filled_upward_then_those_that_may_still_come() {
        let mut board = board(0, &[1, 3, 4, 5, 7]);
        // More than two segments lie above 2, none too many above 6.
        assert_eq!(board.next_lost(), Some((0, 10)));
        board.resent_to(10);
        assert_eq!(board.next_lost(), Some((20, 10)));
        board.resent_to(30);
        assert_eq!(board.next_lost(), None);
        assert_eq!(board.next_hole(), Some((60, 10)));
        board.resent_to(70);
        assert_eq!(board.next_hole(), None);
        assert_eq!(board.rescue(100), Some((90, 10)));
        assert_eq!(board.rescue(100), None);
    }

    #[test]
    fn rescue_takes_the_highest_missing_segment() {
        assert_eq!(board(0, &[2, 3, 8, 9]).rescue(100), Some((70, 10)));
        assert_eq!(board(0, &[1, 2]).rescue(30), Some((0, 10)));
    }

    proptest! {
        /// The counts against the RFC's loops over every octet.
        #[test]
        fn pipe_is_the_sum_over_every_octet(
            ops in proptest::collection::vec((0u64..30, 0u8..6), 1..60)
        ) {
            const MSS: u64 = 3;
            let max = 100;
            let mut board = Scoreboard::new(MSS as u32, 100);
            let mut arrived = [false; 100];
            for (at, what) in ops {
                match what {
                    0 => {
                        let mut una = (board.una + at % 5).min(90);
                        while arrived[una as usize] { una += 1; }
                        board.advance(una);
                        arrived[..una as usize].fill(false);
                    }
                    1 => if let Some((seq, len)) = board.next_hole() {
                        board.resent_to(seq + u64::from(len));
                    },
                    2 if at == 0 => board.start_over(),
                    _ => {
                        let start = (at * MSS).max(board.una + 1);
                        let end = at * MSS + MSS;
                        board.sacked(start, end);
                        if start < end {
                            arrived[start as usize..end as usize].fill(true);
                        }
                    }
                }
                let is_lost = |octet: u64| {
                    let above = &arrived[octet as usize + 1..];
                    let runs = above.split(|a| !a).filter(|run| !run.is_empty()).count();
                    let bytes = above.iter().filter(|a| **a).count() as u64;
                    runs >= 3 || bytes > 2 * MSS
                };
                let mut pipe = 0;
                for octet in (board.una..max).filter(|&o| !arrived[o as usize]) {
                    pipe += u64::from(!is_lost(octet)) + u64::from(octet < board.rxt);
                }
                prop_assert_eq!(board.pipe(max), pipe);
                prop_assert_eq!(board.first_is_lost(), is_lost(board.una) && !arrived[board.una as usize]);
            }
        }
    }
}
