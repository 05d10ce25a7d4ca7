// SPDX-License-Identifier: MIT OR Apache-2.0
//! The link's departures in windows of half a second, and the waits that its rate excuses.

use super::Class;
use super::FULL_FRAME;
use super::record::{Link, WINDOW_BITS, window};
use crate::units::{Duration, Instant};

/// A packet in standing that waited longer is late wherever it goes, if its queue stands.
/// At 2 Mbit/s one frame of a call takes 40 ms; with 50 ms a browser saw no delay to respond to, but loss (docs/browser.md).
const DEADLINE: Duration = Duration::from_millis(75);
/// On a slow link it is the time of `DEADLINE_FRAMES` full frames, and no longer than `DEADLINE_MOST`: a burst takes its time there, and congestion control that
/// responds to delay has to see some.
const DEADLINE_FRAMES: u64 = 16;
const DEADLINE_MOST: Duration = Duration::from_millis(125);
/// A queue in standing that lets a packet go after less than the time of `SHORT` full frames, `DEADLINE_MOST` at most, does not stand.
const SHORT: u64 = 4;

/// Bytes sent in this window and in the last: all, those in standing, and those of new flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    window: u32,
    now: [u64; 3],
    last: [u64; 3],
    /// Whether nothing waited at some time, and whether bulk did.
    idled: bool,
    idled_last: bool,
    bulk: bool,
    bulk_last: bool,
    /// Whether none of those in standing waited at some time.
    none_first: bool,
    none_first_last: bool,
    /// Whether a packet went first while bulk of other users waited.
    owes: bool,
    owes_last: bool,
    /// Bytes of flows that rose to standing or probation in this window and in the last.
    raised: [u64; 2],
    /// Time that a full frame took in the last window in which the link was busy.
    frame: Duration,
}

/// Packets that wait: all, those of flows in standing, those of bulk flows.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub all: u32,
    pub standing: u32,
    pub bulk: u32,
}

impl Meter {
    /// A packet comes or goes.
    pub fn turn(&mut self, now: Instant) {
        let at = window(now);
        if at == self.window {
            return;
        }
        let next = at == self.window + 1;
        self.last = if next { self.now } else { [0; 3] };
        self.idled_last = self.idled || !next;
        self.bulk_last = self.bulk;
        if self.last[0] > 0 && !self.idled_last {
            self.frame = Duration::from_nanos((FULL_FRAME.get() << WINDOW_BITS) / self.last[0]);
        }
        self.none_first_last = self.none_first || !next;
        self.raised = [0, if next { self.raised[0] } else { 0 }];
        (self.window, self.now, self.idled, self.bulk) = (at, [0; 3], false, false);
        (self.owes_last, self.owes) = (self.owes && next, false);
        self.none_first = false;
    }

    /// A packet comes to an empty buffer, which may have been empty since an earlier window.
    pub fn on_begin(&mut self) {
        self.idled = true;
    }

    /// A packet of `len` bytes of a flow in `class` left, and these wait behind it.
    pub fn on_departure(&mut self, class: Class, len: u64, waiting: Waiting) {
        self.now[0] += len;
        self.idled |= waiting.all == 0;
        self.none_first |= waiting.standing == 0;
        self.bulk |= waiting.bulk > 0 || class == Class::Bulk;
        match class {
            Class::Standing | Class::Probation => self.now[1] += len,
            Class::New => self.now[2] += len,
            Class::Bulk => {}
        }
    }

    /// A packet in standing goes while bulk of other users waits.
    pub fn on_owed(&mut self) {
        self.owes = true;
    }

    /// A flow that brought `bytes` in a window rose to standing or probation.
    pub fn on_raised(&mut self, bytes: u32) {
        self.raised[0] += u64::from(bytes);
    }

    /// The link as a flow is judged by it.
    pub fn link(&self) -> Link {
        let [sent, standing, new] = self.last;
        let contended = !self.idled_last;
        Link {
            sent,
            standing,
            new,
            contended,
            quiet: self.idled_last && !self.bulk_last,
            crowded: contended && !self.none_first_last,
            raised: self.raised[0] + self.raised[1],
            others: self.owes || self.owes_last,
        }
    }

    /// Bytes that left in the last whole window.
    pub fn sent(&self) -> u64 {
        self.last[0]
    }

    /// Time that a full frame took in the last window in which the link was busy.
    pub fn frame(&self) -> Duration {
        self.frame
    }

    /// The longest that a packet in standing waits in a queue that stands: 75 to 125 ms.
    pub fn deadline(&self) -> Duration {
        (self.frame * DEADLINE_FRAMES).clamp(DEADLINE, DEADLINE_MOST)
    }

    /// A queue in standing that lets a packet go sooner does not stand: 125 ms at most, however slow the link is or a stall made it.
    pub fn short(&self) -> Duration {
        (self.frame * SHORT).min(DEADLINE_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A meter after a window of departures at `bit_per_s`.
    fn busy(bit_per_s: u64) -> Meter {
        let mut meter = Meter::default();
        let len = (bit_per_s << WINDOW_BITS) / 8_000_000_000;
        let waiting = Waiting {
            all: 2,
            standing: 1,
            bulk: 1,
        };
        meter.on_departure(Class::Standing, len, waiting);
        meter.turn(Instant::from_nanos(1 << WINDOW_BITS));
        meter
    }

    #[test]
    fn waits_that_are_excused_have_bounds_on_every_link() {
        let table = [
            (100_000, 125, 125),
            (390_000, 125, 125),
            (1_000_000, 125, 49),
            (2_000_000, 98, 24),
            (10_000_000, 75, 4),
            (1_000_000_000, 75, 0),
        ];
        for (rate, deadline, short) in table {
            let meter = busy(rate);
            let waits = [meter.deadline(), meter.short()].map(|wait| wait.as_nanos() / 1_000_000);
            assert_eq!(waits, [deadline, short], "at {rate} bit/s");
        }
    }

    #[test]
    fn a_link_that_was_busy_for_a_window_is_contended_with_or_without_bulk() {
        for bulk in [0, 1] {
            let waiting = Waiting {
                all: 1,
                standing: 1,
                bulk,
            };
            let mut meter = Meter::default();
            meter.on_departure(Class::Standing, 1500, waiting);
            meter.turn(Instant::from_nanos(1 << WINDOW_BITS));
            assert!(meter.link().contended);
            meter.on_begin();
            meter.turn(Instant::from_nanos(2 << WINDOW_BITS));
            assert!(!meter.link().contended);
        }
    }

    #[test]
    fn a_window_in_which_nothing_waited_says_nothing_of_the_rate() {
        let mut meter = busy(10_000_000);
        let short = meter.short();
        let waiting = Waiting {
            all: 0,
            standing: 0,
            bulk: 0,
        };
        meter.on_departure(Class::New, 1500, waiting);
        meter.turn(Instant::from_nanos(2 << WINDOW_BITS));
        assert_eq!(meter.short(), short);
        assert!(meter.link().quiet && !meter.link().contended);
    }
}
