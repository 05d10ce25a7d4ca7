// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows with a sender of their own: packets one way, feedback the other.

use makeway_core::packet::Ecn;
use makeway_core::units::{Instant, Rate};
use makeway_endpoints::MediaFlow;
use makeway_endpoints::observe::Observation;

use super::{World, set_lazily};
use crate::arena::{Body, Transit};
use crate::flow::Kind;
use crate::trace::Trace;

impl<T: Trace> World<T> {
    /// The sender of a flow, and when it falls silent.
    fn media(&mut self, number: u32) -> Option<(&mut MediaFlow, Instant)> {
        let flow = &mut self.flows[number as usize];
        match &mut flow.kind {
            Kind::Media(media) => Some((media, flow.stop)),
            _ => None,
        }
    }

    /// Begins to observe the sender of a flow; whether its rate is set from outside.
    pub fn observe(&mut self, number: u32) -> bool {
        let now = self.now;
        self.media(number)
            .is_some_and(|(media, _)| media.observe(now))
    }

    /// The interval of an observed flow until `now`, which is not before the last event.
    pub fn observation(&mut self, now: Instant, number: u32) -> Option<Observation> {
        let (media, _) = self.media(number)?;
        media.observation(now)
    }

    /// The sender of a flow may send at `rate` from `now` on, which is not before the last event.
    #[cold]
    pub fn set_sender_rate(&mut self, now: Instant, number: u32, rate: Rate) {
        self.now = self.now.max(now);
        let (now, interval) = (self.now, self.interval);
        let source = self.sources().send(number);
        let start = self.flows[number as usize].start;
        let Some((media, _)) = self.media(number) else {
            return;
        };
        // With the same rate nothing moves, not even the order of simultaneous events; before its start a flow waits for that.
        if media.set_rate(now, rate, interval) && start < now {
            let next = media.next_from(now);
            self.agenda.set_or_clear(source, next);
        }
    }

    /// The application makes something, a packet may be sent, or a timer has run out.
    pub(super) fn wake_media(&mut self, number: u32) {
        let source = self.sources().send(number);
        let (now, interval) = (self.now, self.interval);
        let Some((media, stop)) = self.media(number) else {
            return;
        };
        if now >= stop {
            return self.agenda.clear(source);
        }
        media.wake(now, interval);
        while let Some((media, _)) = self.media(number) {
            let ecn = media.ecn();
            match media.transmit(now, interval) {
                Some((len, packet)) => self.send(number, len, ecn, Body::Media(packet)),
                None => {
                    let next = media.next();
                    return self.agenda.set_or_clear(source, next);
                }
            }
        }
    }

    /// A packet of such a flow, or feedback, has come to its end.
    pub(super) fn deliver_media(&mut self, transit: Transit) {
        let (number, now, interval) = (transit.flow, self.now, self.interval);
        match transit.body {
            Body::Media(packet) => {
                if let Some((media, _)) = self.media(number) {
                    let marked = transit.ecn == Ecn::Marked;
                    media.arrive(now, transit.len, marked, packet, interval);
                    self.report(number);
                }
            }
            Body::Feedback(place) => {
                let feedback = *self.arena.feedback(place);
                if let Some((media, _)) = self.media(number) {
                    media.heed(now, &feedback, interval);
                    self.wake_media(number);
                }
            }
            _ => {}
        }
    }

    /// The receiver sends what feedback is due, and sets its timer.
    pub(super) fn report(&mut self, number: u32) {
        let (source, now) = (self.sources().receive(number), self.now);
        while let Some((media, stop)) = self.media(number) {
            if now >= stop {
                return self.agenda.clear(source);
            }
            let Some((len, feedback)) = media.report(now) else {
                let due = media.report_at();
                return set_lazily(&mut self.agenda, source, due);
            };
            if media.estimates() {
                let waiting = self.at_radios(number);
                if let Some((media, _)) = self.media(number) {
                    media.note_waiting(waiting);
                }
            }
            let body = self.arena.carrying(feedback);
            self.send(number, len, Ecn::NotCapable, body);
        }
    }

    /// Packets of such a flow that wait at radios or are on the air.
    fn at_radios(&self, number: u32) -> u64 {
        let is_there = |transit: &Transit| {
            transit.flow == number
                && matches!(transit.body, Body::Media(_))
                && self.ways[transit.step as usize - 1].port >= self.wired
        };
        self.arena.count(is_there)
    }

    /// The receiver's timer may have run out.
    pub(super) fn report_due(&mut self, number: u32) {
        let source = self.sources().receive(number);
        let due = self.media(number).and_then(|(media, _)| media.report_at());
        match due {
            Some(due) if due > self.now => self.agenda.set(source, due),
            _ => {
                self.agenda.clear(source);
                self.report(number);
            }
        }
    }
}
