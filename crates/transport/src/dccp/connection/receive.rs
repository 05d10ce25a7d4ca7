// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrivals: the steps of RFC 4340 §8.5.

use bytes::Bytes;
use makeway_core::send::{Policy, Sender};
use makeway_core::units::{Duration, Instant};

use super::halves::feedback;
use super::{Connection, Event, State, stray};
use crate::dccp::feature::{self, End};
use crate::dccp::option::{Opt, options};
use crate::dccp::wire::{Kind, Packet, Reset};
use crate::dccp::{Seq, ack_vector};

impl<P: Policy> Connection<P> {
    /// Takes the bytes of a packet, from DCCP's header on. A malformed or invalid packet changes nothing but counters.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8]) {
        // Step 1.
        let inward = self.ends.inward();
        let ports = (self.ends.remote, self.ends.local);
        let packet = Packet::decode(bytes, &inward);
        let Some(mut packet) = packet.ok().filter(|p| (p.source, p.destination) == ports) else {
            self.stats.malformed += 1;
            return;
        };
        // Step 2.
        if self.state >= State::TimeWait {
            self.stray = stray(&packet, &self.ends.outward, Reset::NO_CONNECTION, [0; 3]);
            return;
        }
        // Step 4.
        if self.state == State::Request {
            let (low, high) = self.ack_window();
            let answers = matches!(packet.kind, Kind::Response { .. } | Kind::Reset { .. });
            if !(answers && packet.kind.ack().is_some_and(|ack| ack.within(low, high))) {
                self.stats.invalid += 1;
                let data = [packet.kind.number(), 0, 0];
                self.stray = stray(&packet, &self.ends.outward, Reset::PACKET_ERROR, data);
                return;
            }
            (self.isr, self.gsr) = (packet.seq, packet.seq);
            self.receiver.begin(packet.seq);
        }
        // Step 6, first half.
        if packet.short {
            if self.features.value(feature::ALLOW_SHORT, End::Remote) == 0 {
                self.stats.invalid += 1;
                return;
            }
            packet.seq = Seq::extend(packet.seq.short(), self.gsr);
            let long = |ack: Seq| Seq::extend(ack.short(), self.gss);
            packet.kind = match packet.kind {
                Kind::Ack { ack } => Kind::Ack { ack: long(ack) },
                Kind::DataAck { ack } => Kind::DataAck { ack: long(ack) },
                kind => kind,
            };
        }
        if !self.is_valid(&packet) || self.is_unexpected(&packet) {
            self.stats.invalid += 1;
            let ack = match packet.kind {
                Kind::Sync { .. } | Kind::SyncAck { .. } => return,
                Kind::Reset { .. } => self.gsr,
                _ => packet.seq,
            };
            return self.sync(now, ack);
        }
        if packet.seq.since(self.gsr) >= 0 {
            self.gsr = packet.seq;
            self.gsr_at = now;
        }
        let sync = matches!(packet.kind, Kind::Sync { .. });
        if let Some(ack) = packet.kind.ack().filter(|_| !sync) {
            self.gar = self.gar.max(ack);
        }
        self.stats.received += 1;
        self.unacknowledged = true;
        self.process(now, &packet);
    }

    /// [SWL, SWH] (§7.5.1).
    fn sequence_window(&self) -> (Seq, Seq) {
        let width = self.features.value(feature::SEQUENCE_WINDOW, End::Remote) as i64;
        let low = self.gsr.plus(1 - width / 4);
        let since = self.gsr.since(self.isr);
        let begins = (0..width).contains(&since);
        let low = if begins { low.max(self.isr) } else { low };
        (low, self.gsr.plus((width * 3 + 3) / 4))
    }

    /// [AWL, AWH] (§7.5.1).
    pub(super) fn ack_window(&self) -> (Seq, Seq) {
        let width = self.features.value(feature::SEQUENCE_WINDOW, End::Local) as i64;
        let low = self.gss.plus(1 - width);
        let begins = (-1..width).contains(&self.gss.since(self.iss));
        (if begins { low.max(self.iss) } else { low }, self.gss)
    }

    /// Steps 5 and 6: the table of §7.5.3.
    fn is_valid(&self, packet: &Packet<'_>) -> bool {
        let (mut low, high) = self.sequence_window();
        let (mut ack_low, ack_high) = self.ack_window();
        match packet.kind {
            Kind::CloseReq { .. } | Kind::Close { .. } => {
                low = self.gsr.plus(1);
                ack_low = self.gar;
            }
            // In REQUEST its number was taken for GSR just now.
            Kind::Reset { .. } if self.state != State::Request => {
                low = self.gsr.plus(1);
                ack_low = self.gar;
            }
            Kind::Sync { ack } | Kind::SyncAck { ack } => {
                return packet.seq.since(low) >= 0 && ack.within(ack_low, ack_high);
            }
            _ => {}
        }
        let acknowledged = packet.kind.ack();
        packet.seq.within(low, high) && acknowledged.is_none_or(|ack| ack.within(ack_low, ack_high))
    }

    /// Step 7.
    fn is_unexpected(&self, packet: &Packet<'_>) -> bool {
        let after_open = self.osr.is_some_and(|osr| packet.seq.since(osr) >= 0);
        match packet.kind {
            Kind::CloseReq { .. } => self.server,
            Kind::Response { .. } => self.server || self.state >= State::Open && after_open,
            Kind::Request { .. } => !self.server || self.state >= State::Open && after_open,
            Kind::Data => self.state == State::Respond,
            _ => false,
        }
    }

    fn process(&mut self, now: Instant, packet: &Packet<'_>) {
        // Step 8.
        if matches!(packet.kind, Kind::Response { .. }) {
            // Its Changes, of an earlier one perhaps, come again.
            self.features.forget_confirms();
            self.cookie.clear();
        }
        if let Err((code, data)) = self.process_options(now, packet) {
            return self.reset(code, data);
        }
        self.vector.on_received(packet.seq);
        if let Some(ack) = packet.kind.ack() {
            self.vector.on_acknowledged(ack);
        }
        match packet.kind {
            // Step 9.
            Kind::Reset { code, .. } => {
                self.end(State::TimeWait, code);
                self.again = Some((now + Self::TIME_WAIT, Self::TIME_WAIT));
                return;
            }
            // Step 10.
            Kind::Response { .. } if self.state == State::Request => {
                self.state = State::PartOpen;
                self.ask(now, Self::ACK_AGAIN);
                self.establish();
            }
            _ => {}
        }
        // Step 11.
        if self.state == State::Respond {
            if matches!(packet.kind, Kind::Request { .. }) {
                self.pending.handshake = true;
                if self.again.is_none() {
                    self.ask(now, Self::LONGEST);
                }
            } else {
                self.establish();
                self.open(now, packet.seq);
            }
        }
        // Step 12.
        if self.state == State::PartOpen {
            match packet.kind {
                Kind::Response { .. } => self.pending.ack = true,
                Kind::Sync { .. } => {}
                _ => {
                    self.features.forget_confirms();
                    self.open(now, packet.seq);
                }
            }
        }
        match packet.kind {
            // Step 13.
            Kind::CloseReq { .. } if self.state < State::CloseReq => {
                self.state = State::Closing;
                self.pending.handshake = true;
                self.ask(now, self.rtt().unwrap_or(Self::REQUEST_AGAIN / 2) * 2);
            }
            // Step 14.
            Kind::Close { .. } => return self.reset(Reset::CLOSED, [0; 3]),
            // Step 15.
            Kind::Sync { .. } => self.pending.sync_ack = Some(packet.seq),
            _ => {}
        }
        self.process_acknowledgement(now, packet);
        // Step 16.
        let ndp = options(packet.options).find_map(|(_, option)| match option {
            Opt::NdpCount(count) => Some(count),
            _ => None,
        });
        let ratio = self.features.value(feature::ACK_RATIO, End::Remote);
        self.receiver.on_packet(now, packet, ndp, ratio);
        if packet.kind.is_data() {
            if self.events.len() < Self::UNREAD {
                let data = Bytes::copy_from_slice(packet.data);
                self.events.push_back(Event::Received(data));
            } else {
                self.stats.unread += 1;
            }
        }
    }

    fn process_options(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
    ) -> Result<(), (Reset, [u8; 3])> {
        let data = packet.kind == Kind::Data;
        for (mandatory, option) in options(packet.options) {
            match option {
                _ if data && !option.fits_data() => {}
                Opt::LooseMandatory => return Err((Reset::OPTION_ERROR, [1, 0, 0])),
                Opt::Unknown(number, bytes) if mandatory && !data => {
                    let byte = |n| bytes.get(n).copied().unwrap_or(0);
                    return Err((Reset::MANDATORY_ERROR, [number, byte(0), byte(1)]));
                }
                // Only a Response sets them (§8.1.4); they go back as they came, or not at all.
                Opt::InitCookie(cookie) if matches!(packet.kind, Kind::Response { .. }) => {
                    if self.cookie.len() + cookie.len() + 2 > Self::MOST_COOKIES {
                        let byte = |n| cookie.get(n).copied().unwrap_or(0);
                        let data = [option.number(), byte(0), byte(1)];
                        return Err((Reset::OPTION_ERROR, data));
                    }
                    option.write(&mut self.cookie);
                }
                Opt::Timestamp(stamp) => self.echo = Some((stamp, now)),
                _ => {}
            }
        }
        if data {
            return Ok(());
        }
        let changes = options(packet.options);
        self.features
            .receive(packet.seq, packet.kind.ack(), changes)
    }

    /// Features are agreed upon: both halves can begin.
    fn establish(&mut self) {
        let ours = self.features.value(feature::CCID, End::Local);
        if ours != u64::from(self.config.ccid.number()) {
            return self.reset(Reset::OPTION_ERROR, [32, feature::CCID, ours as u8]);
        }
        let theirs = self.features.value(feature::CCID, End::Remote);
        self.receiver.establish(theirs as u8);
        if let Some(policy) = self.policy.take() {
            let rate = self.config.ccid.rate().controller();
            self.sender = Some(Sender::new(self.config.sender, rate, policy));
        }
        self.events.push_back(Event::Established);
    }

    fn open(&mut self, now: Instant, seq: Seq) {
        if self.state >= State::Open {
            return;
        }
        self.osr = Some(seq);
        self.state = State::Open;
        self.again = None;
        if self.features.is_changing() {
            self.ask(now, Self::ACK_AGAIN);
        }
    }

    fn sync(&mut self, now: Instant, ack: Seq) {
        let (since, count) = self.syncs;
        self.syncs = if now.saturating_since(since) >= Duration::from_secs(1) {
            (now, 1)
        } else if count < Self::SYNCS {
            (since, count + 1)
        } else {
            return;
        };
        self.pending.sync = Some(ack);
    }

    /// Acknowledgements in the packet of those that this end sent.
    fn process_acknowledgement(&mut self, now: Instant, packet: &Packet<'_>) {
        let (Kind::Ack { ack } | Kind::DataAck { ack }, Some(sender)) =
            (packet.kind, &mut self.sender)
        else {
            return;
        };
        if let Some(ccval) = self.sent.ccval(ack) {
            self.window.on_acknowledged(now, ccval);
        }
        let vectors = options(packet.options).filter_map(|(_, option)| match option {
            Opt::AckVector(runs) => Some(runs),
            _ => None,
        });
        let ranges = ack_vector::received(ack, vectors);
        if let Some(feedback) = feedback(&self.config.ccid, &self.sent, ack, packet.options, ranges)
        {
            match sender.handle_feedback(now, &feedback) {
                Ok(()) => self.stats.feedback += 1,
                Err(_) => self.stats.refused += 1,
            }
            self.relay();
        }
    }
}
