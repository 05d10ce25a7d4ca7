// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of Mahimahi (R. Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015): each line is a
//! millisecond at which a link may send 1500 B, and the trace begins again after its last line.

use std::sync::Arc;

use makeway_core::units::{Bytes, Duration, Rate};

use crate::changes::OUTAGE;
use crate::model::Changes;

/// Chosen by us: ten million tenths of a second.
const LATEST_MS: u64 = 1_000_000_000;
/// A rate is that of a tenth of a second; chosen by us.
const BIN_MS: u64 = 100;

/// Times at which a link sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// Milliseconds of a round in order, each once, with their numbers of opportunities. The last is not 0.
    times: Arc<[(u32, u32)]>,
}

impl Opportunities {
    /// Bytes on the wire that may leave at one of them.
    pub const SIZE: Bytes = Bytes::new(1500);

    /// Reads the lines of a trace, each with its number. On error: the line, and what is wrong.
    pub(crate) fn read<'a>(
        lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Self, (usize, String)> {
        let mut times: Vec<(u32, u32)> = Vec::new();
        let (mut last, mut end) = (0, 1);
        for (n, line) in lines {
            end = n;
            let Some(ms) = line.parse::<u64>().ok().filter(|ms| *ms >= last) else {
                return Err((
                    n,
                    format!("`{line}` should be a time in ms, no earlier than the one before"),
                ));
            };
            if ms > LATEST_MS {
                return Err((n, format!("{ms} ms is beyond {LATEST_MS} ms")));
            }
            last = ms;
            match times.last_mut() {
                Some((known, count)) if u64::from(*known) == ms => *count += 1,
                _ => times.push((ms as u32, 1)),
            }
        }
        if last == 0 {
            return Err((end, "the trace has no length: its last line is 0 ms".into()));
        }
        Ok(Self {
            times: times.into(),
        })
    }

    /// Opportunities of one round.
    pub fn count(&self) -> u64 {
        self.times.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Length of a round: the time of its last opportunity.
    pub fn period(&self) -> Duration {
        let last = self.times.last().map_or(1, |(ms, _)| *ms);
        Duration::from_millis(u64::from(last))
    }

    /// The `n`th time from 0, all rounds counted, and its number of opportunities. Times do not fall; 0 ms of a round is the last
    /// time of the round before.
    pub fn nth(&self, n: u64) -> (Duration, u32) {
        let in_round = self.times.len() as u64;
        let (ms, count) = self.times[(n % in_round) as usize];
        let at = Duration::from_millis(u64::from(ms));
        (at + self.period() * (n / in_round), count)
    }

    /// The rate of each tenth of a second of a round, of which the last may be shorter.
    pub fn rates(&self) -> Changes {
        // Number of a tenth of a second, and its bits; those without any are left out.
        let mut bins: Vec<(u64, u64)> = Vec::new();
        for (ms, count) in &*self.times {
            // The opportunity at a multiple of the bin ends it.
            let bin = u64::from(*ms).saturating_sub(1) / BIN_MS;
            let sent = u64::from(*count) * Self::SIZE.get() * 8;
            match bins.last_mut() {
                Some((known, bits)) if *known == bin => *bits += sent,
                _ => bins.push((bin, sent)),
            }
        }
        let last = self.period().as_nanos() / 1_000_000;
        let mut steps: Vec<(Duration, Rate)> = Vec::new();
        let mut outage_from = 0;
        for (n, bits) in bins {
            let from = n * BIN_MS;
            if outage_from < n {
                steps.push((Duration::from_millis(outage_from * BIN_MS), OUTAGE));
            }
            outage_from = n + 1;
            let rate = Rate::from_bps(bits * 1000 / (last - from).min(BIN_MS));
            steps.push((Duration::from_millis(from), rate));
        }
        Changes {
            // One rate for ever needs no change.
            every: (steps.len() > 1).then(|| self.period()),
            steps,
            opportunities: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Opportunities {
        Opportunities::read((1..).zip(text.lines())).unwrap()
    }

    #[test]
    fn times_go_on_from_round_to_round() {
        let trace = trace("0\n3\n3\n3\n10\n");
        assert_eq!(
            (trace.count(), trace.period()),
            (5, Duration::from_millis(10))
        );
        let times: Vec<_> = (0..7).map(|n| trace.nth(n)).collect();
        let at = |ms, count| (Duration::from_millis(ms), count);
        let expected = [
            at(0, 1),
            at(3, 3),
            at(10, 1),
            at(10, 1),
            at(13, 3),
            at(20, 1),
            at(20, 1),
        ];
        assert_eq!(times, expected);
    }

    #[test]
    fn rates_are_those_of_tenths_of_a_second() {
        let rates = trace("50\n50\n100\n310\n").rates();
        let steps: Vec<_> = (rates.steps.iter())
            .map(|(at, rate)| (at.as_nanos() / 1_000_000, rate.bps()))
            .collect();
        // 36 kbit in the first, nothing in two, 12 kbit in the 10 ms that are left.
        assert_eq!(steps, [(0, 360_000), (100, 1), (300, 1_200_000)]);
        assert_eq!(rates.every, Some(Duration::from_millis(310)));
    }
}
