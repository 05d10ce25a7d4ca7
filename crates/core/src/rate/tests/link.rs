// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link with a queue, and an encoder that follows the target of a controller over it.

use crate::rate::packets::PacketsReceiver;
use crate::rate::{Arrival, Feedback, RateController, Reporter};
use crate::units::Instant;
use std::collections::VecDeque;

/// A link, its queue, and an encoder that makes the target in frames of 40 ms.
pub struct Link<C> {
    pub controller: C,
    reporter: PacketsReceiver,
    ms: u64,
    pub bps: f64,
    /// One way, without the queue; the longest queue; a queue of others.
    pub delay: f64,
    pub longest: f64,
    pub others: f64,
    /// Which packets and reports are lost.
    pub loses: fn(u64) -> bool,
    pub loses_report: fn(u64) -> bool,
    /// When the link is free, s.
    free: f64,
    encoded: f64,
    sent: u64,
    reports: u64,
    there: VecDeque<(f64, Arrival)>,
    back: VecDeque<(f64, Feedback)>,
    queued: Vec<f64>,
    delivered: f64,
}

impl<C: RateController> Link<C> {
    pub fn new(mbit: f64, controller: C) -> Self {
        Self {
            controller,
            reporter: PacketsReceiver::default(),
            ms: 0,
            bps: mbit * 1e6,
            delay: 0.03,
            longest: 1.0,
            others: 0.0,
            loses: |_| false,
            loses_report: |_| false,
            free: 0.0,
            encoded: 0.0,
            sent: 0,
            reports: 0,
            there: VecDeque::new(),
            back: VecDeque::new(),
            queued: Vec::new(),
            delivered: 0.0,
        }
    }

    /// Until then; mean and 99th percentile of the queue's delay in ms, and the share of the link that was used.
    pub fn until(&mut self, seconds: u64) -> (f64, f64, f64) {
        let from = self.ms;
        self.queued.clear();
        self.delivered = 0.0;
        while self.ms < seconds * 1000 {
            self.step();
        }
        self.queued.sort_by(f64::total_cmp);
        let mean = self.queued.iter().sum::<f64>() / self.queued.len() as f64;
        let p99 = self.queued[self.queued.len() * 99 / 100];
        let span = (self.ms - from) as f64 / 1000.0;
        (
            mean * 1000.0,
            p99 * 1000.0,
            self.delivered / span / self.bps,
        )
    }

    /// From one second to another the queue is short in the mean and the link is used; the 99th percentile of its delay in ms.
    #[track_caller]
    pub fn expect_short_queue(&mut self, from: u64, to: u64) -> f64 {
        if self.ms < from * 1000 {
            self.until(from);
        }
        let (mean, p99, used) = self.until(to);
        let bps = self.bps;
        assert!(mean < 60.0 && used > 0.7, "{bps} bit/s: {mean} ms, {used}");
        p99
    }

    fn step(&mut self) {
        self.ms += 1;
        let s = self.ms as f64 / 1000.0;
        let at = |s: f64| Instant::from_nanos((s * 1e9) as u64);
        let now = at(s);
        if self.ms.is_multiple_of(40) {
            let frame = self.controller.target_rate().bps() as f64 * 0.04 / 8.0;
            // An encoder drops frames before it is a second behind.
            if self.encoded < frame * 25.0 {
                self.encoded += frame;
            }
        }
        while self.encoded >= 1.0 && self.controller.next_send().is_some_and(|due| due <= now) {
            let bytes = self.encoded.min(1000.0) as u32;
            self.encoded -= f64::from(bytes);
            self.controller.on_sent(now, self.sent, bytes);
            self.free = self.free.max(s + self.others);
            let queued = self.free - s;
            if queued <= self.longest && !(self.loses)(self.sent) {
                self.free += f64::from(bytes) * 8.0 / self.bps;
                self.queued.push(queued);
                self.delivered += f64::from(bytes) * 8.0;
                let arrival = Arrival {
                    sequence: self.sent,
                    bytes,
                    rtt: None,
                    window: None,
                    marked: false,
                };
                self.there.push_back((self.free + self.delay, arrival));
            }
            self.sent += 1;
        }
        while let Some((came, arrival)) = self.there.pop_front_if(|(came, _)| *came <= s) {
            self.reporter.on_arrival(at(came), arrival);
            self.report(came);
        }
        self.report(s);
        while let Some((_, feedback)) = self.back.pop_front_if(|(came, _)| *came <= s) {
            self.controller
                .on_feedback(now, &feedback)
                .expect("it is true");
        }
        if self.controller.next_timeout().is_some_and(|due| due <= now) {
            self.controller.on_timeout(now);
        }
    }

    fn report(&mut self, s: f64) {
        let now = Instant::from_nanos((s * 1e9) as u64);
        if let Some(feedback) = self.reporter.poll_feedback(now) {
            self.reports += 1;
            if !(self.loses_report)(self.reports) {
                self.back.push_back((s + self.delay, feedback));
            }
        }
    }
}
