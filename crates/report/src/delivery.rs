// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fate of an application's datagrams, class by class: counted at both ends. Times are ns after the start of traffic.

use makeway_core::measure::Histogram;
use makeway_core::send::Outcome;
use makeway_core::units::Duration;

use crate::flow::{Tally, quantiles};
use crate::interval::Interval;
use crate::model::{ClassReport, FlowReport, Freezes, MediaReport, OccupancyReport, Quantiles};

/// Frames of a class that may be under way at once; what is older when it comes is not shown. Chosen by us.
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

/// Which frames come as a whole and on time, and how long nothing does.
#[derive(Clone, Debug)]
struct Frames {
    /// Number and datagrams on time, by the number modulo [`UNDER_WAY`].
    came: [(u32, u16); UNDER_WAY],
    shown: u64,
    last: u64,
    freezes: u64,
    frozen: u64,
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// When the application made it.
    pub created: u64,
    /// When it came.
    pub at: u64,
    /// Whether that was before its deadline.
    pub on_time: bool,
    /// The number of its frame in its class.
    pub frame: u32,
    /// How many datagrams the frame has.
    pub parts: u16,
}

impl Class {
    /// Nothing yet. `period` is that of its frames, `None` where it has none.
    pub fn new(name: &'static str, period: Option<Duration>, interval: Interval) -> Self {
        Self {
            name,
            period: period.map_or(0, Duration::as_nanos),
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
                came: [(u32::MAX, 0); UNDER_WAY],
                shown: 0,
                last: interval.from(),
                freezes: 0,
                frozen: 0,
            },
        }
    }

    /// The application made a datagram.
    pub fn offer(&mut self, interval: Interval, created: u64) {
        self.offered += u64::from(interval.measures(created));
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
        if !interval.measures(came.created) {
            return;
        }
        self.received += 1;
        self.delay
            .record(Duration::from_nanos(came.at.saturating_sub(came.created)));
        if came.on_time {
            self.on_time += 1;
            if self.frames.complete(came) {
                self.frames.show(came.at, self.period);
            }
        }
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
                frames: shown,
                count: frames.freezes,
                seconds: frames.frozen as f64 / 1e9,
            }),
        }
    }
}

impl Frames {
    /// A datagram came on time; whether its frame is complete with it.
    fn complete(&mut self, came: Came) -> bool {
        let (frame, parts) = &mut self.came[came.frame as usize % UNDER_WAY];
        if *frame != came.frame {
            (*frame, *parts) = (came.frame, 0);
        }
        *parts += 1;
        *parts == came.parts
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
                class.offer(tally.interval, created);
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
                        on_time: !late,
                        frame,
                        parts: 2,
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
        assert_eq!(all.freezes.unwrap().frames, 20);
        assert_eq!(all.delay_ms.max, 50.0);
    }

    #[test]
    fn a_frame_without_one_of_its_datagrams_is_not_shown() {
        let all = video(12..13);
        assert_eq!((all.sent_late, all.received, all.on_time), (1, 40, 39));
        let freezes = all.freezes.unwrap();
        // A gap of 200 ms is none of 300.
        assert_eq!((freezes.frames, freezes.count), (19, 0));
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
        assert_eq!(report.freezes, None);
    }
}
