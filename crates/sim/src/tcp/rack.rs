// SPDX-License-Identifier: MIT OR Apache-2.0
//! Losses by the order of departures: a segment is lost if a later one has
//! arrived.
//!
//! Source: Y. Cheng, N. Cardwell, N. Dukkipati, P. Jha, "The RACK-TLP Loss Detection Algorithm for TCP",
//! RFC 8985, section 6, as Linux has it (`net/ipv4/tcp_recovery.c`).
//!
//! | RFC | here |
//! | --- | --- |
//! | RACK.segment, `RACK_sent_after()` | [`Rack::edge`] for first transmissions, the order of `again` for others |
//! | RACK.reo_wnd | nothing in a recovery, or once three segments have arrived beyond; else a quarter of RACK.min_RTT ([`Rack::patience`]) |
//! | RACK.min_RTT | `min_rtt`, of the whole connection |
//!
//! Departures: the reordering window does not adapt (step 4), for want of duplicate selective
//! acknowledgements; an order of sending stands for the times of it, which differ only if acknowledgements
//! overtake each other.

use std::collections::VecDeque;

use super::ranges::Ranges;
use super::scoreboard::Scoreboard;
use makeway_core::units::Duration;

/// A sender's state of loss detection. Outside of a recovery only the least round trip counts.
#[derive(Clone, Debug)]
pub struct Rack {
    mss: u64,
    /// Smallest RTT of the whole connection.
    min_rtt: Option<Duration>,
    /// First transmissions that begin below this are lost, unless they have arrived.
    edge: u64,
    /// Bytes that have arrived beyond the first gap, and `again`.
    filled: Ranges,
    /// Bytes in `filled`.
    total: u64,
    /// Sent again and not known to have arrived nor to be lost, in the order of sending.
    again: VecDeque<Again>,
    /// Bytes in `again`.
    resent: u64,
}

/// A retransmission.
#[derive(Clone, Copy, Debug)]
struct Again {
    start: u64,
    end: u64,
    /// First offset that was first sent after it.
    max: u64,
}

/// Loss information of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Something is lost that was not known to be.
    pub lost: bool,
    /// Among it, something that had been sent again.
    pub lost_again: bool,
}

impl Rack {
    pub fn new(mss: u32, most_ranges: usize) -> Self {
        Self {
            mss: u64::from(mss),
            min_rtt: None,
            edge: 0,
            filled: Ranges::new(most_ranges),
            total: 0,
            again: VecDeque::with_capacity(8),
            resent: 0,
        }
    }

    /// A round trip was measured.
    #[inline]
    pub fn on_round_trip(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// How long what has arrived beyond a gap is taken for reordered.
    pub fn patience(&self) -> Duration {
        self.min_rtt.unwrap_or(Duration::ZERO) / 4
    }

    /// A recovery begins: what was sent before something that has arrived is lost.
    pub fn begin(&mut self, board: &Scoreboard) {
        self.edge = board.highest();
        self.filled.copy(board.ranges());
        self.total = board.total();
        self.again.clear();
        self.resent = 0;
    }

    /// The timer has expired: everything below `max` that has not arrived is lost.
    pub fn begin_after_timeout(&mut self, board: &Scoreboard, max: u64) {
        self.begin(board);
        self.edge = max;
    }

    /// The range `start..end` has arrived, beyond a gap.
    pub fn arrived(&mut self, start: u64, end: u64) {
        self.total += self.filled.insert(start, end).map_or(0, |(_, new)| new);
    }

    /// An acknowledgement was entered into `board`, and its ranges here.
    pub fn update(&mut self, board: &Scoreboard) -> News {
        let before = self.edge.max(board.una());
        self.total -= self.filled.remove_below(board.una());
        let mut news = News::default();
        // `filled` without what has arrived is what was sent again and has not.
        let mut arrived = self
            .resent
            .saturating_sub(self.total.saturating_sub(board.total()));
        while arrived > 0
            && let Some(first) = self.again.pop_front()
        {
            let bytes = first.end - first.start;
            self.resent -= bytes;
            if board.has(first.start, first.end) {
                arrived = arrived.saturating_sub(bytes);
                self.edge = self.edge.max(first.max);
            } else {
                self.lose_again(&first);
                news.lost_again = true;
            }
        }
        self.edge = self.edge.max(board.highest());
        while let Some(first) = self.again.front().copied()
            && first.max < board.highest()
        {
            self.again.pop_front();
            self.resent -= first.end - first.start;
            self.lose_again(&first);
            news.lost_again = true;
        }
        let missing = self.edge - before - board.arrived_between(before, self.edge);
        news.lost = news.lost_again || missing > 0;
        news
    }

    fn lose_again(&mut self, lost: &Again) {
        self.filled.remove(lost.start, lost.end);
        self.total -= lost.end - lost.start;
    }

    /// The first lost segment that is to be sent again, as offset and length.
    pub fn next_lost(&self, una: u64) -> Option<(u64, u32)> {
        let (start, end) = self.filled.missing(una, self.edge);
        (start < end).then(|| (start, (end - start).min(self.mss) as u32))
    }

    /// The range `start..end` was sent again, when everything below `max` had been sent once.
    pub fn on_resent(&mut self, start: u64, end: u64, max: u64) {
        self.arrived(start, end);
        self.resent += end - start;
        self.again.push_back(Again { start, end, max });
    }

    /// Whether the first gap was filled after everything that has arrived was sent.
    pub fn first_is_younger(&self, board: &Scoreboard) -> bool {
        let first = self.again.front();
        first.is_some_and(|first| first.start == board.una() && first.max >= board.highest())
    }

    /// Bytes that are taken to be in the network, of those below `max`.
    pub fn pipe(&self, board: &Scoreboard, max: u64) -> u64 {
        max - self.edge - board.arrived_between(self.edge, max) + self.resent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Segments of 10 bytes, of which those named have arrived, and a recovery from there.
    fn recovery(arrived: &[u64]) -> (Scoreboard, Rack) {
        let mut board = Scoreboard::new(10, 100);
        for n in arrived {
            board.sacked(n * 10, n * 10 + 10);
        }
        let mut rack = Rack::new(10, 100);
        rack.begin(&board);
        (board, rack)
    }

    fn arrives(board: &mut Scoreboard, rack: &mut Rack, segment: u64) -> News {
        board.sacked(segment * 10, segment * 10 + 10);
        rack.arrived(segment * 10, segment * 10 + 10);
        rack.update(board)
    }

    #[test]
    fn all_gaps_below_what_has_arrived_are_lost_at_once() {
        let (board, mut rack) = recovery(&[2, 3, 5]);
        let mut lost = Vec::new();
        while let Some((start, _)) = rack.next_lost(0) {
            rack.on_resent(start, start + 10, 80);
            lost.push(start / 10);
        }
        assert_eq!(lost, [0, 1, 4]);
        // 6 and 7 for the first time, three again.
        assert_eq!(rack.pipe(&board, 80), 50);
    }

    #[test]
    fn a_retransmission_is_lost_when_one_sent_later_arrives() {
        let (mut board, mut rack) = recovery(&[2, 3, 5]);
        for n in [0, 1, 4] {
            rack.on_resent(n * 10, n * 10 + 10, 80);
        }
        let news = arrives(&mut board, &mut rack, 4);
        assert_eq!((news.lost, news.lost_again), (true, true));
        // Earlier new segments are lost too: 6 and 7.
        assert_eq!(rack.pipe(&board, 80), 0);
        assert_eq!(rack.next_lost(0), Some((0, 10)));
    }

    #[test]
    fn a_retransmission_is_lost_when_new_data_sent_later_arrives() {
        let (mut board, mut rack) = recovery(&[2, 3, 5]);
        rack.on_resent(0, 10, 80);
        assert!(!arrives(&mut board, &mut rack, 6).lost_again);
        assert!(!arrives(&mut board, &mut rack, 7).lost_again);
        assert_eq!(rack.next_lost(0), Some((10, 10)));
        assert!(arrives(&mut board, &mut rack, 8).lost_again);
        assert_eq!(rack.next_lost(0), Some((0, 10)));
    }

    #[test]
    fn what_is_acknowledged_is_not_lost() {
        let (mut board, mut rack) = recovery(&[2, 3, 5]);
        for n in [0, 1, 4] {
            rack.on_resent(n * 10, n * 10 + 10, 80);
        }
        board.advance(40);
        assert_eq!(
            rack.update(&board),
            News {
                lost: true,
                lost_again: false
            }
        );
        // 6 and 7 were sent before 1 was again, 4 after.
        assert_eq!(rack.next_lost(40), Some((60, 10)));
        assert_eq!(rack.pipe(&board, 80), 10);
    }

    #[test]
    fn after_a_timeout_everything_that_has_not_arrived_is_lost() {
        let (board, mut rack) = recovery(&[2]);
        rack.begin_after_timeout(&board, 50);
        assert_eq!(rack.pipe(&board, 50), 0);
        let mut lost = Vec::new();
        while let Some((start, _)) = rack.next_lost(0) {
            rack.on_resent(start, start + 10, 50);
            lost.push(start / 10);
        }
        assert_eq!(lost, [0, 1, 3, 4]);
        assert_eq!(rack.pipe(&board, 50), 40);
    }

    proptest! {
        /// Against a list of all that was sent, in the order of sending.
        #[test]
        fn lost_is_what_was_sent_before_something_that_has_arrived(
            window in 4u64..30,
            first in 1u64..4,
            ops in proptest::collection::vec((0u8..4, 0usize..40), 1..80),
        ) {
            let mut board = Scoreboard::new(1, 100);
            let mut rack = Rack::new(1, 100);
            // Segments in the order of sending, and where something has arrived last.
            let mut sent: Vec<u64> = (0..window).collect();
            let mut arrived = [false; 200];
            let mut max = window;
            board.sacked(first, first + 1);
            arrived[first as usize] = true;
            let mut latest = first as usize;
            rack.begin(&board);
            for (what, n) in ops {
                match what {
                    0 if max < 190 => {
                        sent.push(max);
                        max += 1;
                    }
                    1 => if let Some((seq, len)) = rack.next_lost(board.una()) {
                        prop_assert_eq!(len, 1);
                        rack.on_resent(seq, seq + 1, max);
                        sent.push(seq);
                    },
                    _ => {
                        // Something under way arrives, regardless of earlier packets: later it would count as
                        // the copy that was sent last.
                        let under_way: Vec<usize> = (latest + 1..sent.len())
                            .filter(|&at| !arrived[sent[at] as usize])
                            .filter(|&at| !sent[at + 1..].contains(&sent[at]))
                            .collect();
                        if let Some(&at) = under_way.get(n % under_way.len().max(1)) {
                            latest = at;
                            arrived[sent[at] as usize] = true;
                            let una = arrived.iter().take_while(|a| **a).count() as u64;
                            if una > sent[at] {
                                board.advance(una);
                            } else {
                                board.sacked(sent[at], sent[at] + 1);
                                rack.arrived(sent[at], sent[at] + 1);
                            }
                            rack.update(&board);
                        }
                    }
                }
                let is_lost = |seq: u64| {
                    let last = sent.iter().rposition(|s| *s == seq).unwrap();
                    !arrived[seq as usize] && last < latest
                };
                let missing = (0..max).filter(|seq| !arrived[*seq as usize]);
                let (lost, under_way): (Vec<u64>, Vec<u64>) = missing.partition(|seq| is_lost(*seq));
                prop_assert_eq!(rack.next_lost(board.una()).map(|l| l.0), lost.first().copied());
                prop_assert_eq!(rack.pipe(&board, max), under_way.len() as u64);
            }
        }
    }
}
