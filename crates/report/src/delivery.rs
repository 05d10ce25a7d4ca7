// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fate of an application's datagrams, class by class: counted at both ends. Times are ns after the start of traffic.

use makeway_core::measure::Histogram;
use makeway_core::send::Outcome;
use makeway_core::units::Duration;

use crate::flow::{Tally, quantiles};
use crate::interval::Interval;
use crate::model::{ClassReport, FlowReport, Freezes, MediaReport, OccupancyReport, Quantiles};

/// Frames of a class that may be under way at once; an older one that arrives is not shown, nor those that depend on it. Chosen by us.
const UNDER_WAY: usize = 64;
/// A gap between two frames that are shown is a freeze from three of their periods on, and from a period and this on
/// (W3C, "Identifiers for WebRTC's Statistics API", `freezeCount`).
const FREEZE: u64 = 150_000_000;

/// Errors of estimates of packets that wait, by their size; the last are all from there on.
#[derive(Clone, Debug)]
pub struct Errors {
    sum: i64,
    sizes: [u64; Self::SIZES],
}

impl Default for Errors {
    fn default() -> Self {
        Self {
            sum: 0,
            sizes: [0; Self::SIZES],
        }
    }
}

impl Errors {
    const SIZES: usize = 256;

    /// Estimated and true number of queued packets.
    pub fn count(&mut self, estimate: u64, truth: u64) {
        self.sum += estimate as i64 - truth as i64;
        let size = estimate.abs_diff(truth).min(Self::SIZES as u64 - 1);
        self.sizes[size as usize] += 1;
    }

    /// `None` where nothing was estimated.
    fn report(&self) -> Option<OccupancyReport> {
        let estimates: u64 = self.sizes.iter().sum();
        let sizes = || self.sizes.iter().zip(0u32..);
        let quantile = |share: f64| {
            let rank = (share * estimates as f64).ceil() as u64;
            let mut up_to = 0;
            let mut at = sizes().skip_while(|(n, _)| {
                up_to += **n;
                up_to < rank
            });
            at.next().map_or(0.0, |(_, size)| f64::from(size))
        };
        let weighed: f64 = sizes().map(|(n, size)| *n as f64 * f64::from(size)).sum();
        (estimates > 0).then(|| OccupancyReport {
            estimates,
            mean_error: self.sum as f64 / estimates as f64,
            error: Quantiles {
                mean: weighed / estimates as f64,
                p50: quantile(0.5),
                p99: quantile(0.99),
                max: quantile(1.0),
            },
            within_two: self.sizes[..=2].iter().sum::<u64>() as f64 / estimates as f64,
        })
    }
}

/// Counts of one class. A datagram counts by the time of its creation.
#[derive(Clone, Debug)]
pub struct Class {
    name: &'static str,
    /// From a frame to the next; 0 where there are none.
    period: u64,
    /// Frames made, and the number of the latest.
    made: u64,
    latest: Option<u32>,
    offered: u64,
    sent: u64,
    sent_late: u64,
    expired: u64,
    evicted: u64,
    too_large: u64,
    received: u64,
    on_time: u64,
    delay: Histogram,
    frames: Frames,
}

/// Frames shown, and the gaps between them. A frame is decoded once all of it has arrived and the frames that it depends on are decoded,
/// and shown if that is before its deadline: a late frame is not shown, but those that depend on it are decoded.
#[derive(Clone, Debug)]
struct Frames {
    /// By the number modulo [`UNDER_WAY`].
    known: [Frame; UNDER_WAY],
    /// Frames of `known` that have arrived as a whole and are not decoded.
    waiting: u32,
    shown: u64,
    last: u64,
    freezes: u64,
    frozen: u64,
}

/// A frame under way.
#[derive(Clone, Copy, Debug)]
struct Frame {
    number: u32,
    /// Datagrams of it that arrived, of `parts`.
    came: u16,
    parts: u16,
    refers: [u8; 2],
    /// Its deadline, in ns.
    due: u64,
    /// Whether it was made in the measured interval.
    is_measured: bool,
    is_decoded: bool,
}

impl Frame {
    /// Stands for none.
    const NONE: u32 = u32::MAX;

    fn is_whole(&self) -> bool {
        self.came >= self.parts
    }
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// When the application made it.
    pub created: u64,
    /// When it came.
    pub at: u64,
    /// Its deadline.
    pub due: u64,
    /// The number of its frame in its class.
    pub frame: u32,
    /// How many datagrams the frame has.
    pub parts: u16,
    /// How many numbers back the frames are that it depends on; 0: none.
    pub refers: [u8; 2],
}

impl Class {
    /// Nothing yet. `period` is that of its frames, `None` where it has none.
    pub fn new(name: &'static str, period: Option<Duration>, interval: Interval) -> Self {
        Self {
            name,
            period: period.map_or(0, Duration::as_nanos),
            made: 0,
            latest: None,
            offered: 0,
            sent: 0,
            sent_late: 0,
            expired: 0,
            evicted: 0,
            too_large: 0,
            received: 0,
            on_time: 0,
            delay: Histogram::new(),
            frames: Frames {
                known: [Frame {
                    number: Frame::NONE,
                    came: 0,
                    parts: 0,
                    refers: [0; 2],
                    due: 0,
                    is_measured: false,
                    is_decoded: false,
                }; UNDER_WAY],
                waiting: 0,
                shown: 0,
                last: interval.from(),
                freezes: 0,
                frozen: 0,
            },
        }
    }

    /// The application made a datagram of the frame with this number; those of a frame come one after the other.
    pub fn offer(&mut self, interval: Interval, created: u64, frame: u32) {
        let is_measured = u64::from(interval.measures(created));
        self.offered += is_measured;
        if self.latest.replace(frame) != Some(frame) {
            self.made += is_measured;
        }
    }

    /// Its outcome at the sender.
    pub fn end(&mut self, interval: Interval, created: u64, outcome: Outcome) {
        if !interval.measures(created) {
            return;
        }
        match outcome {
            Outcome::Sent { late, .. } => {
                self.sent += 1;
                self.sent_late += u64::from(late);
            }
            // Orphans would come after frames that did not.
            Outcome::Expired | Outcome::Orphaned => self.expired += 1,
            Outcome::Evicted => self.evicted += 1,
            Outcome::TooLarge => self.too_large += 1,
            // Of later versions of core.
            _ => {}
        }
    }

    /// It came to the receiver.
    pub fn receive(&mut self, interval: Interval, came: Came) {
        let is_measured = interval.measures(came.created);
        if is_measured {
            self.received += 1;
            self.delay
                .record(Duration::from_nanos(came.at.saturating_sub(came.created)));
            self.on_time += u64::from(came.at <= came.due);
        }
        // Frames of the interval may depend on earlier ones.
        self.frames.receive(came, is_measured, self.period);
    }

    fn report(&self, tally: Tally) -> ClassReport {
        // A gap at the end is a freeze too, if it is long enough.
        let mut frames = self.frames.clone();
        let shown = frames.shown;
        frames.show(tally.ended, self.period);
        ClassReport {
            name: self.name.into(),
            offered: self.offered,
            sent: self.sent,
            sent_late: self.sent_late,
            expired: self.expired,
            evicted: self.evicted,
            too_large: self.too_large,
            received: self.received,
            on_time: self.on_time,
            delay_ms: quantiles(&self.delay),
            freezes: (self.period > 0).then(|| Freezes {
                made: self.made,
                frames: shown,
                count: frames.freezes,
                seconds: frames.frozen as f64 / 1e9,
            }),
        }
    }
}

impl Frames {
    /// A datagram arrived, perhaps the last of its frame.
    fn receive(&mut self, came: Came, is_measured: bool, period: u64) {
        let frame = &mut self.known[came.frame as usize % UNDER_WAY];
        if frame.number != came.frame {
            if frame.number != Frame::NONE {
                if frame.number > came.frame {
                    return;
                }
                self.waiting -= u32::from(frame.is_whole() && !frame.is_decoded);
            }
            *frame = Frame {
                number: came.frame,
                came: 0,
                parts: came.parts.max(1),
                refers: came.refers,
                due: came.due,
                is_measured,
                is_decoded: false,
            };
        }
        let was_whole = frame.is_whole();
        frame.came = frame.came.saturating_add(1);
        if was_whole || !frame.is_whole() {
            return;
        }
        self.waiting += 1;
        self.decode(came.frame, came.at, period);
        // Then those that waited for it, each after those that it depends on.
        let mut next = came.frame;
        for _ in 1..UNDER_WAY {
            if self.waiting == 0 {
                return;
            }
            next = next.wrapping_add(1);
            self.decode(next, came.at, period);
        }
    }

    /// Decodes the frame with this number if it is whole and all that it depends on is decoded; shows it unless it is late.
    fn decode(&mut self, number: u32, now: u64, period: u64) {
        let frame = self.known[number as usize % UNDER_WAY];
        if frame.number != number || frame.is_decoded || !frame.is_whole() {
            return;
        }
        let mut refers = frame.refers.iter().filter(|back| **back > 0);
        let can_be = refers.all(|back| {
            let needed = number.checked_sub(u32::from(*back));
            needed.is_some_and(|needed| {
                let known = &self.known[needed as usize % UNDER_WAY];
                known.number == needed && known.is_decoded
            })
        });
        if !can_be {
            return;
        }
        self.known[number as usize % UNDER_WAY].is_decoded = true;
        self.waiting -= 1;
        if frame.is_measured && now <= frame.due {
            self.show(now, period);
        }
    }

    fn show(&mut self, at: u64, period: u64) {
        let gap = at.saturating_sub(self.last);
        if gap >= (3 * period).max(period + FREEZE) {
            self.freezes += 1;
            self.frozen += gap;
        }
        self.shown += 1;
        self.last = self.last.max(at);
    }
}

impl Tally {
    /// The report of what became of each class, and the controller's rate by step.
    pub fn media(
        &self,
        report: &mut FlowReport,
        classes: &[Class],
        rates: &[f64],
        errors: &Errors,
    ) {
        report.rate_series_bps = rates.iter().take(self.steps()).copied().collect();
        report.media = Some(MediaReport {
            classes: classes.iter().map(|class| class.report(*self)).collect(),
            occupancy: errors.report(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn errors_are_told_by_their_size_and_their_sign() {
        let mut errors = Errors::default();
        assert_eq!(errors.report(), None);
        // +1, +1, 0, -3, and one that is off the scale.
        for (estimate, truth) in [(5, 4), (9, 8), (3, 3), (1, 4), (1000, 0)] {
            errors.count(estimate, truth);
        }
        let report = errors.report().unwrap();
        assert_eq!((report.estimates, report.within_two), (5, 0.6));
        assert_eq!(report.mean_error, 999.0 / 5.0);
        assert_eq!((report.error.p50, report.error.max), (1.0, 255.0));
        assert_eq!(report.error.mean, (1.0 + 1.0 + 3.0 + 255.0) / 5.0);
    }

    fn tally() -> Tally {
        let interval = Interval::new(Duration::from_millis(1000), Duration::from_millis(3000));
        Tally {
            interval,
            ended: interval.to(),
        }
    }

    /// Frames of two datagrams each 100 ms that take 50 ms, without those in `missing`, of which the second is late.
    fn video(missing: std::ops::Range<u32>) -> ClassReport {
        let tally = tally();
        let mut class = Class::new("video", Some(Duration::from_millis(100)), tally.interval);
        for frame in 0..30 {
            let created = u64::from(frame) * 100 * MS;
            for part in 0..2 {
                let late = part == 1 && missing.contains(&frame);
                class.offer(tally.interval, created, frame);
                class.end(
                    tally.interval,
                    created,
                    Outcome::Sent {
                        waited: Duration::ZERO,
                        late,
                    },
                );
                class.receive(
                    tally.interval,
                    Came {
                        created,
                        at: created + if late { 300 } else { 50 } * MS,
                        due: created + 200 * MS,
                        frame,
                        parts: 2,
                        refers: [0; 2],
                    },
                );
            }
        }
        class.report(tally)
    }

    #[test]
    fn what_was_made_before_the_measured_interval_does_not_count() {
        let all = video(0..0);
        assert_eq!(
            (all.offered, all.sent, all.received, all.on_time),
            (40, 40, 40, 40)
        );
        let freezes = all.freezes.unwrap();
        assert_eq!((freezes.made, freezes.frames), (20, 20));
        assert_eq!(all.delay_ms.max, 50.0);
    }

    #[test]
    fn a_frame_without_one_of_its_datagrams_is_not_shown() {
        let all = video(12..13);
        assert_eq!((all.sent_late, all.received, all.on_time), (1, 40, 39));
        let freezes = all.freezes.unwrap();
        // A gap of 200 ms is none of 300.
        assert_eq!((freezes.frames, freezes.count), (19, 0));
        assert_eq!((freezes.made, all.shown_share()), (20, Some(0.95)));
    }

    #[test]
    fn a_gap_of_three_periods_is_a_freeze() {
        let freezes = video(12..14).freezes.unwrap();
        assert_eq!(
            (freezes.frames, freezes.count, freezes.seconds),
            (18, 1, 0.3)
        );
    }

    #[test]
    fn a_gap_that_lasts_to_the_end_is_a_freeze() {
        // The last that is shown was made at 2600 ms and came at 2650.
        let freezes = video(27..30).freezes.unwrap();
        assert_eq!((freezes.count, freezes.seconds), (1, 0.35));
    }

    /// Frames of one datagram each 100 ms, of use for 200 ms, that depend on others as `refers` says; each arrives after `takes` ms, or
    /// never. The number of frames shown of the 20 that are measured, 10 to 29.
    fn shown(refers: fn(u32) -> [u8; 2], takes: impl Fn(u32) -> Option<u64>) -> u64 {
        let tally = tally();
        let mut class = Class::new("video", Some(Duration::from_millis(100)), tally.interval);
        let mut all: Vec<Came> = (0..30)
            .filter_map(|frame| {
                let created = u64::from(frame) * 100 * MS;
                Some(Came {
                    created,
                    at: created + takes(frame)? * MS,
                    due: created + 200 * MS,
                    frame,
                    parts: 1,
                    refers: refers(frame),
                })
            })
            .collect();
        all.sort_by_key(|came| (came.at, came.frame));
        for came in all {
            class.receive(tally.interval, came);
        }
        class.report(tally).freezes.unwrap().frames
    }

    /// A keyframe each tenth, all others need the one before.
    fn chain(frame: u32) -> [u8; 2] {
        [u8::from(!frame.is_multiple_of(10)), 0]
    }

    #[test]
    fn a_frame_is_shown_with_those_that_it_depends_on_alone() {
        let without = |lost: u32| move |frame: u32| (frame != lost).then_some(50_u64);
        assert_eq!(shown(chain, without(100)), 20);
        // Without 13, neither are 14 to 19; without the keyframe 20, none from it to 29.
        assert_eq!(shown(chain, without(13)), 13);
        assert_eq!(shown(chain, without(20)), 10);
        assert_eq!(shown(|_| [0; 2], without(13)), 19);
        // 9 was made before the measured time; 10 is a keyframe.
        assert_eq!(shown(chain, without(9)), 20);
        // Here none is: 5 is lost, and all later ones need it.
        assert_eq!(shown(|frame: u32| [u8::from(frame > 0), 0], without(5)), 0);
    }

    #[test]
    fn a_late_frame_is_not_shown_and_mends_the_chain() {
        let late = |ms: u64| move |frame: u32| Some(if frame == 13 { ms } else { 50 });
        // 13 comes at 1600 ms, when 14 is due and comes at 1450: 14 is shown with it, at its deadline.
        assert_eq!(shown(chain, late(300)), 19);
        // At 1601 ms 14 is late too.
        assert_eq!(shown(chain, late(301)), 18);
        // At 1900 ms: 13 to 16 are late, 17 and those after it are shown.
        assert_eq!(shown(chain, late(600)), 16);
    }

    #[test]
    fn a_frame_that_none_depends_on_is_lost_alone() {
        // I, P, B, B in the order of coding: a B needs the two before it that are no B, and nothing needs a B.
        fn group(frame: u32) -> [u8; 2] {
            match frame % 10 {
                0 => [0, 0],
                1 => [1, 0],
                2 => [1, 2],
                3 => [2, 3],
                4 | 7 => [3, 0],
                5 | 8 => [1, 4],
                _ => [2, 5],
            }
        }
        let without = |lost: u32| move |frame: u32| (frame != lost).then_some(50_u64);
        assert_eq!(shown(group, without(12)), 19);
        assert_eq!(shown(group, without(11)), 11);
        assert_eq!(shown(group, without(14)), 14);
    }

    #[test]
    fn outcomes_are_counted_each_by_its_name() {
        let tally = tally();
        let mut class = Class::new("audio", None, tally.interval);
        for outcome in [
            Outcome::Expired,
            Outcome::Evicted,
            Outcome::Evicted,
            Outcome::TooLarge,
        ] {
            class.end(tally.interval, 2000 * MS, outcome);
            class.end(tally.interval, 0, outcome);
        }
        let report = class.report(tally);
        assert_eq!(
            (report.expired, report.evicted, report.too_large),
            (1, 2, 1)
        );
        assert_eq!((report.freezes, report.shown_share()), (None, None));
    }
}
