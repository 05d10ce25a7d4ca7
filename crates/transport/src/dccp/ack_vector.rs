// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ack Vectors (RFC 4340 §11.4): what the receiver of CCID 2 keeps and tells, and how the sender reads it.

use std::collections::VecDeque;

use super::Seq;
use super::option::Opt;

const RECEIVED: u8 = 0;
const NOT_RECEIVED: u8 = 3;

/// Which packets came, from the highest downwards.
#[derive(Clone, Debug, Default)]
pub struct AckVector {
    highest: Seq,
    /// States from `highest` downwards.
    states: VecDeque<bool>,
    /// The own packet that carried a vector last, and the highest that this one told.
    told: Option<(Seq, Seq)>,
}

impl AckVector {
    /// Packets that it keeps; older ones have been told often enough.
    const MOST: usize = 4096;
    /// Bytes of runs that a packet tells; what is older is left out.
    const MOST_RUNS: usize = 253;

    /// A valid packet came.
    pub fn on_received(&mut self, seq: Seq) {
        if self.states.is_empty() {
            self.highest = seq;
            self.states.push_front(true);
            return;
        }
        let ahead = seq.since(self.highest);
        if ahead > 0 {
            // Sequence windows bound the gap; a wider one leaves nothing to remember.
            for gap in (0..ahead.min(Self::MOST as i64)).rev() {
                self.states.push_front(gap == 0);
            }
            self.highest = seq;
            self.states.truncate(Self::MOST);
        } else if let Some(state) = self.states.get_mut(ahead.unsigned_abs() as usize) {
            *state = true;
        }
    }

    /// Appends the option for a packet with the number `seq` that acknowledges the highest.
    pub fn write(&mut self, seq: Seq, out: &mut Vec<u8>) {
        let mut runs = Vec::new();
        let mut states = self.states.iter().peekable();
        while let Some(&state) = states.next() {
            let mut more = 0;
            while more < 63 && states.next_if(|&&next| next == state).is_some() {
                more += 1;
            }
            if runs.len() == Self::MOST_RUNS {
                break;
            }
            runs.push(if state { RECEIVED } else { NOT_RECEIVED } << 6 | more);
        }
        Opt::AckVector(&runs).write(out);
        self.told = Some((seq, self.highest));
    }

    /// The other end has received the packet `ack` of this end: it knows what that one told.
    pub fn on_acknowledged(&mut self, ack: Seq) {
        if let Some((seq, highest)) = self.told
            && seq == ack
        {
            let newer = self.highest.since(highest).unsigned_abs() as usize;
            self.states.truncate(newer + 1);
            self.told = None;
        }
    }
}

/// Ranges of packets that came, first and last of each, the latest first, of the vectors of a packet that acknowledges `ack`.
pub fn received<'a>(
    ack: Seq,
    vectors: impl Iterator<Item = &'a [u8]> + 'a,
) -> impl Iterator<Item = (Seq, Seq)> + 'a {
    let mut next = ack;
    vectors.flatten().filter_map(move |&run| {
        let last = next;
        next = last.plus(-1 - i64::from(run & 63));
        (run >> 6 < NOT_RECEIVED - 1).then(|| (next.plus(1), last))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::option::options;
    use super::*;

    /// RFC 4340 §11.4.
    #[test]
    fn the_vector_of_the_rfc() {
        let ranges = received(Seq::new(100), [&[0, 192, 3, 64, 5][..]].into_iter());
        let ranges: Vec<_> = ranges
            .map(|(first, last)| (first.get(), last.get()))
            .collect();
        assert_eq!(ranges, [(100, 100), (95, 98), (94, 94), (88, 93)]);
    }

    proptest! {
        #[test]
        fn a_vector_tells_what_came(steps in proptest::collection::vec(-3..8i64, 1..100)) {
            let (mut vector, mut at) = (AckVector::default(), Seq::new((1 << 48) - 50));
            let first = at;
            let mut came = Vec::new();
            for step in steps {
                let seq = at.plus(step);
                at = at.max(seq);
                if seq.since(first) >= 0 {
                    vector.on_received(seq);
                    came.push(seq);
                }
            }
            prop_assume!(!came.is_empty());
            let mut bytes = Vec::new();
            vector.write(Seq::new(7), &mut bytes);
            let Some((_, Opt::AckVector(runs))) = options(&bytes).next() else { panic!() };
            let highest = came.iter().copied().reduce(Seq::max).unwrap();
            let told: Vec<_> = received(highest, [runs].into_iter()).collect();
            let lowest = came[0];
            for n in 0..=highest.since(lowest) {
                let seq = highest.plus(-n);
                let is_told = told.iter().any(|&(first, last)| seq.within(first, last));
                prop_assert_eq!(is_told, came.contains(&seq), "{:?}", seq);
            }
            vector.on_acknowledged(Seq::new(7));
            prop_assert_eq!(vector.states.len(), 1);
        }
    }
}
