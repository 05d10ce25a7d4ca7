// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a session's events, for a log.

use makeway_core::rate::{RateController, Reporter};
use makeway_core::send::{Datagram, DatagramId, Policy};
use makeway_core::units::Instant;

use super::Sending;
use crate::rtp::log::{Packet, Record, State};

impl<C: RateController, Q: Reporter, P: Policy> Sending<C, Q, P> {
    /// Records events from now on, which [`Sending::poll_record`] gives.
    pub(in crate::rtp) fn start_recording(&mut self) {
        self.recorder.get_or_insert_default();
    }

    /// The next record, of events until now.
    pub(in crate::rtp) fn poll_record(&mut self, now: Instant) -> Option<Record> {
        let state = State {
            rate: self.rate(),
            target: self.sender.rate().target_rate(),
            backlog: self.backlog(),
            rtt: self.rtt(),
        };
        let recorder = self.recorder.as_mut()?;
        if recorder.wants_state(now) {
            recorder.on_state(now, state);
        }
        recorder.next()
    }

    /// Records events that are still to be read by [`Sending::poll_event`]: the sender keeps a limited number, and a long frame can have more.
    pub(in crate::rtp) fn record_events(&mut self, now: Instant) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        while let Some(event) = self.sender.poll_event() {
            recorder.on_event(now, &event);
            self.recorded.push_back(event);
        }
    }

    /// The call has ended: packets that wait and packets in flight are recorded.
    pub(in crate::rtp) fn record_end(&mut self, now: Instant) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end(now);
        }
    }

    pub(super) fn record_created(
        &mut self,
        now: Instant,
        stream: usize,
        id: DatagramId,
        datagram: &Datagram,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.on_created(Packet {
                id,
                ssrc: self.lines[stream].stream.ssrc,
                class: datagram.class,
                bytes: datagram.len,
                created: now,
                deadline: datagram.deadline,
                sent: None,
            });
        }
    }
}
