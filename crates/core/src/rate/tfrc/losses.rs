// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which packets are lost, and which losses are one loss event (RFC 5348 §5.1, §5.2; RFC 4342 §10.2).

use super::history::LossHistory;
use super::window;
use crate::rate::Arrival;
use crate::units::{Duration, Instant};

/// Later packets that must come before one counts as lost (RFC 5348 §5.1).
const NDUPACK: usize = 3;

/// Makes loss events of arrivals.
#[derive(Clone, Debug)]
pub struct Losses {
    /// Loss intervals so far.
    pub history: LossHistory,
    /// Everything below is received or lost.
    next: u64,
    /// The last that was received below `next`.
    before: Option<Seen>,
    /// Packets received above `next`, in the order of numbers.
    above: [Seen; NDUPACK],
    len: usize,
    event: Event,
}

/// A packet that was received.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sequence: u64,
    at: Instant,
    window: u8,
    marked: bool,
}

/// The last loss event.
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    /// When its first packet came or would have come, T_old.
    at: Instant,
    /// C(X_prev): the window counter of the last packet before it.
    window: u8,
    /// Whether a packet has come since whose counter is more than 4 beyond.
    over: bool,
}

/// Rule that joins losses into one loss event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// They come within this time, R: zero while it is not known.
    Time(Duration),
    /// No packet between them has a window counter more than 4 beyond (RFC 4342 §10.2).
    Windows,
}

impl Losses {
    /// No sender comes so far; one that says so is not believed.
    const MOST: u64 = 1 << 62;

    /// Nothing received yet.
    pub fn new(discounting: bool) -> Self {
        Self {
            history: LossHistory::new(discounting),
            next: 0,
            before: None,
            above: [Seen::default(); NDUPACK],
            len: 0,
            event: Event::default(),
        }
    }

    /// A packet came. `initial` is the length of the first loss interval, if the first loss event shows now. Whether the
    /// packet is new: not a duplicate, nor one that counts as lost already.
    pub fn on_arrival(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        spacing: Spacing,
        initial: impl Fn() -> f64,
    ) -> bool {
        let seen = Seen {
            sequence: arrival.sequence,
            at: now,
            window: arrival.window.unwrap_or(0),
            marked: arrival.marked,
        };
        let waiting = &self.above[..self.len];
        let place = waiting.partition_point(|s| s.sequence < seen.sequence);
        let known = waiting
            .get(place)
            .is_some_and(|s| s.sequence == seen.sequence);
        if seen.sequence < self.next || known || seen.sequence > Self::MOST {
            return false;
        }
        self.above[place..].rotate_right(1);
        self.above[place] = seen;
        self.len += 1;
        while let Some(&first) = self.above[..self.len].first() {
            if first.sequence > self.next {
                // A mark makes losses before it certain (RFC 5348 §5.1).
                let certain = self.len == NDUPACK || seen.marked && first.sequence <= seen.sequence;
                if !certain {
                    break;
                }
                self.lost(first, spacing, &initial);
            }
            if first.marked {
                self.congested(first.sequence, first.at, spacing, &initial);
            }
            if window::distance(self.event.window, first.window) > 4 {
                self.event.over = true;
            }
            self.above.rotate_left(1);
            self.len -= 1;
            self.before = Some(first);
            self.next = first.sequence + 1;
        }
        true
    }

    /// First undecided number: above it are up to two packets, and holes below them (Skip Length of RFC 4342 §8.6.1 is the
    /// distance from the highest received to here).
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Everything from `next` to before `after` is lost.
    fn lost(&mut self, after: Seen, spacing: Spacing, initial: &impl Fn() -> f64) {
        let (first, last) = (self.next, after.sequence - 1);
        let before = self.before.unwrap_or(Seen {
            at: after.at,
            ..Seen::default()
        });
        // RFC 5348 §5.2: lost packets would have come evenly between the two that came.
        let gap = u128::from(after.at.saturating_since(before.at).as_nanos());
        let steps = u128::from(after.sequence - before.sequence);
        let at = |sequence: u64| {
            let step = u128::from(sequence - before.sequence);
            // At most the gap, so it fits.
            before.at + Duration::from_nanos((gap * step / steps) as u64)
        };
        self.congested(first, at(first), spacing, initial);
        if let Spacing::Time(rtt) = spacing
            && gap > 0
        {
            // Only the last few intervals count: a long gap is not walked through.
            let few = Duration::from_nanos(rtt.as_nanos().max((gap / steps) as u64)) * 32;
            let late = after.at.saturating_since(before.at + few);
            let late = before.sequence + step_after(late, gap, steps);
            loop {
                let since = (self.event.at + rtt).saturating_since(before.at);
                let next = (before.sequence + step_after(since, gap, steps)).max(late);
                if next > last {
                    break;
                }
                self.congested(next, at(next), spacing, initial);
            }
        }
        self.history.extend(last);
    }

    /// Packet `sequence` is lost or marked: a new loss event, or part of the last.
    fn congested(
        &mut self,
        sequence: u64,
        at: Instant,
        spacing: Spacing,
        initial: &impl Fn() -> f64,
    ) {
        let new = self.history.is_empty()
            || match spacing {
                Spacing::Time(rtt) => self.event.at + rtt < at,
                Spacing::Windows => self.event.over,
            };
        if !new {
            self.history.extend(sequence);
            return;
        }
        self.history.begin(sequence, initial);
        self.event = Event {
            at,
            window: self.before.map_or(0, |before| before.window),
            over: false,
        };
    }
}

/// The first of `steps` even steps of `gap` nanoseconds that is later than `since`, by a nanosecond or more.
fn step_after(since: Duration, gap: u128, steps: u128) -> u64 {
    let step = ((u128::from(since.as_nanos()) + 1) * steps).div_ceil(gap.max(1));
    u64::try_from(step).unwrap_or(u64::MAX / 2)
}
