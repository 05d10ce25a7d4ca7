// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission at the receiver: requests for missing packets, and the originals in RTX packets (RFC 4588).

use makeway_core::measure::{Arrival, Sequence};
use makeway_core::units::Instant;
use rtcp_types::{Nack, TransportFeedback};
use rtp_types::RtpPacket;

use super::{Received, Receiving, push};
use crate::rtp::extension::Extensions;
use crate::rtp::misses::Misses;
use crate::rtp::rtx::{self, Rtx};

/// How far an original may be behind the largest number that came, and how far before it (the end of a stream may be sent again for a
/// report of its loss). Others are refused. Chosen by us.
const BEHIND: u64 = 1 << 14;
const BEFORE: u64 = 256;

/// Retransmission of one stream.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    /// The packets that were given to the application, which gets each once.
    given: Sequence,
    misses: Misses,
}

impl Repair {
    pub fn new() -> Self {
        Self {
            given: Sequence::new(),
            misses: Misses::default(),
        }
    }

    /// The original came; whether its retransmission did not come before.
    pub fn on_packet(&mut self, now: Instant, number: u64) -> bool {
        self.misses.on_packet(now, number);
        self.given.on_packet(number) != Arrival::Duplicate
    }

    /// The number of an original by its last 16 bits; RTX has no say in where the stream is.
    fn extend(&self, osn: u16) -> Option<u64> {
        let highest = self.misses.highest()?;
        let step = osn.wrapping_sub(highest as u16) as i16;
        let number = highest.checked_add_signed(step.into())?;
        let near = highest.saturating_sub(BEHIND)..=highest + BEFORE;
        near.contains(&number).then_some(number)
    }

    /// The retransmission came; whether its original, or another, did not come before.
    fn on_repair(&mut self, number: u64) -> bool {
        self.misses.settle(number);
        self.given.on_packet(number) != Arrival::Duplicate
    }
}

impl Receiving {
    /// The RTX stream of a packet, if it is one; an error, of one that was not agreed on.
    pub(super) fn rtx_of(&self, packet: &RtpPacket<'_>) -> Result<Option<Rtx>, ()> {
        let (ssrc, payload_type) = (packet.ssrc(), packet.payload_type());
        let mut streams = self.config.rtx.iter();
        match streams.find(|rtx| rtx.ssrc == ssrc) {
            Some(rtx) => Ok(Some(*rtx)),
            None if self.has_rtx_type(payload_type) => Err(()),
            None => Ok(None),
        }
    }

    fn has_rtx_type(&self, payload_type: u8) -> bool {
        let mut streams = self.config.rtx.iter();
        streams.any(|rtx| rtx.payload_type == payload_type)
    }

    /// Takes an RTX packet, and gives its original if that did not come before.
    pub(super) fn repair<'a>(
        &'a mut self,
        now: Instant,
        datagram: &[u8],
        packet: &RtpPacket<'_>,
        ecn: u8,
        rtx: &Rtx,
    ) -> Option<(&'a Received, RtpPacket<'a>)> {
        let Ok(osn) = rtx::osn(rtx, packet) else {
            self.refused += 1;
            return None;
        };
        self.rtp(now, packet, ecn)?;
        let mut lines = self.lines.iter_mut();
        let line = lines.find(|line| line.received.ssrc == rtx.media_ssrc);
        let number = line
            .as_ref()
            .and_then(|line| line.repair.as_ref()?.extend(osn));
        let (Some(line), Some(number)) = (line, number) else {
            self.refused += 1;
            return None;
        };
        let repair = line.repair.as_mut()?;
        if !repair.on_repair(number) {
            line.received.repeated += 1;
            return None;
        }
        let restored = rtx::restore(rtx, datagram, packet, &mut self.restored).is_ok();
        let original = RtpPacket::parse(&self.restored).ok().filter(|_| restored);
        let Some(original) = original else {
            self.refused += 1;
            return None;
        };
        line.received.repaired += 1;
        let said = Extensions::of(&original);
        line.measure_delay(self.config.ntp.at(now), &original, &said);
        Some((&line.received, original))
    }

    /// Makes a NACK of each stream that misses packets and has not ended.
    pub(super) fn ask(&mut self, now: Instant) {
        for line in self.lines.iter_mut().filter(|line| line.ended.is_none()) {
            let Some(repair) = &mut line.repair else {
                continue;
            };
            let mut nack = Some(Nack::builder());
            let mut is_empty = true;
            repair.misses.take(now, |number| {
                is_empty = false;
                nack = nack.take().map(|n| n.add_rtp_sequence(number as u16));
            });
            let Some(nack) = nack.filter(|_| !is_empty) else {
                continue;
            };
            let packet = TransportFeedback::builder(&nack)
                .sender_ssrc(self.config.ssrc)
                .media_ssrc(line.received.ssrc);
            push(&mut self.ready, &packet);
        }
    }

    /// When a NACK is due.
    pub(super) fn next_request(&self) -> Option<Instant> {
        let lines = self.lines.iter().filter(|line| line.ended.is_none());
        let repairs = lines.filter_map(|line| line.repair.as_ref());
        repairs.filter_map(|repair| repair.misses.next()).min()
    }
}
