// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender that always has data, a path of fixed delay in both directions, and the fate of each packet by the test.

use crate::rate::{
    AnyController, AnyReporter, Arrival, Config, Feedback, RateController, Report, Reporter,
};
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

pub struct Path {
    pub now: Instant,
    pub controller: AnyController,
    pub reporter: AnyReporter,
    /// Which packets are lost.
    pub lose: Box<dyn FnMut(u64) -> bool>,
    /// Which are marked.
    pub mark: Box<dyn FnMut(u64) -> bool>,
    /// Whether there is something to send.
    pub has_data: Box<dyn FnMut(Instant) -> bool>,
    /// The receiver's claim of its holding time of a packet.
    pub claim: Box<dyn FnMut(Duration) -> Duration>,
    /// Payload of each packet.
    pub bytes: u32,
    pub sent: u64,
    pub delivered: u64,
    pub feedback: Vec<(Instant, Feedback)>,
    delay: Duration,
    there: VecDeque<(Instant, Arrival)>,
    back: VecDeque<(Instant, Feedback)>,
}

impl Path {
    pub fn new(config: Config, delay: Duration) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            now,
            controller: config.controller(),
            reporter: config.reporter(),
            lose: Box::new(|_| false),
            mark: Box::new(|_| false),
            has_data: Box::new(|_| true),
            claim: Box::new(|held| held),
            bytes: 1000,
            sent: 0,
            delivered: 0,
            feedback: Vec::new(),
            delay,
            there: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    /// The last loss event rate that was reported.
    pub fn reported_p(&self) -> f64 {
        match self.feedback.last().map(|(_, feedback)| feedback.report) {
            Some(Report::LossEvents { rate, .. }) => rate,
            _ => 0.0,
        }
    }

    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.step();
            let soon = self.now + Duration::from_nanos(1);
            // A sender without data asks for some each millisecond.
            let asks = self.now + Duration::from_millis(1);
            let send = self.controller.next_send();
            let next = [
                send.map(|at| if at > self.now { at } else { asks }),
                self.controller.next_timeout(),
                self.reporter.next_timeout(),
                self.there.front().map(|(at, _)| *at),
                self.back.front().map(|(at, _)| *at),
            ];
            let next = next.into_iter().flatten().min().unwrap_or(end);
            self.now = next.max(soon).min(end);
        }
    }

    /// The receiver never answers: packets in the first 999 ms, and seconds of those until 130 s, by RFC 6298's timeouts.
    pub fn run_into_silence(&mut self) -> (u64, Vec<u64>) {
        self.lose = Box::new(|_| true);
        let began = self.now;
        self.run(Duration::from_millis(999));
        let first = self.sent;
        let mut at = Vec::new();
        while self.now < began + Duration::from_secs(130) {
            let sent = self.sent;
            self.run(Duration::from_millis(10));
            if self.sent > sent {
                at.push(self.now.saturating_since(began).as_nanos() / 1_000_000_000);
            }
        }
        (first, at)
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some((_, arrival)) = self.there.pop_front_if(|(at, _)| *at <= now) {
            self.delivered += 1;
            self.reporter.on_arrival(now, arrival);
            self.report();
        }
        self.report();
        while let Some((_, feedback)) = self.back.pop_front_if(|(at, _)| *at <= now) {
            let held = (self.claim)(feedback.held);
            let honest = held == feedback.held;
            let claimed = Feedback { held, ..feedback };
            if let Err(why) = self.controller.on_feedback(now, &claimed) {
                assert!(!honest, "feedback of our own is true: {why}");
            }
            self.feedback.push((now, feedback));
        }
        if self.controller.next_timeout().is_some_and(|at| at <= now) {
            self.controller.on_timeout(now);
        }
        while self.controller.next_send().is_some_and(|at| at <= now) {
            if !(self.has_data)(now) {
                self.controller.on_nothing_to_send(now);
                break;
            }
            self.controller.on_sent(now, self.sent, self.bytes);
            if !(self.lose)(self.sent) {
                let arrival = Arrival {
                    sequence: self.sent,
                    bytes: self.bytes,
                    rtt: self.controller.rtt(),
                    window: None,
                    marked: (self.mark)(self.sent),
                };
                self.there.push_back((now + self.delay, arrival));
            }
            self.sent += 1;
        }
    }

    fn report(&mut self) {
        if let Some(feedback) = self.reporter.poll_feedback(self.now) {
            self.back.push_back((self.now + self.delay, feedback));
        }
    }
}
