// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sender reports, and what the receiver's reports say of loss and of the round trip (RFC 3550 §6.4).

use makeway_core::rate::{FeedbackError, RateController, Reporter};
use makeway_core::send::Policy;
use makeway_core::units::{Duration, Instant};
use rtcp_types::{ReportBlock, SenderReport};

use super::Sending;
use crate::rtp::feedback::Rejected;
use crate::rtp::rtcp::{self, from_compact};

/// Sender reports that are remembered: one may answer an earlier one while the last is on its way.
pub(super) const REPORTS: usize = 4;

impl<C: RateController, Q: Reporter, P: Policy> Sending<C, Q, P> {
    /// Report blocks of the receiver: loss, and the time from our report to theirs.
    pub(super) fn blocks<'a>(
        &mut self,
        now: Instant,
        blocks: impl Iterator<Item = ReportBlock<'a>>,
    ) -> Result<(), Rejected> {
        let mut result = Ok(());
        for block in blocks {
            let mut lines = self.lines.iter();
            let Some(at) = lines.position(|line| line.stream.ssrc == block.ssrc()) else {
                continue; // of a source that it hears beside us
            };
            self.stats.streams[at].loss = Some(f64::from(block.fraction_lost()) / 256.0);
            let last = block.last_sender_report_timestamp();
            let held = from_compact(block.delay_since_last_sender_report_timestamp());
            match self.round_trip(now, last, held) {
                Ok(Some(rtt)) => self.stats.rtcp_rtt = Some(rtt),
                Ok(None) => {}
                Err(why) => result = result.and(Err(why)),
            }
        }
        result
    }

    /// From our sender report with this compact NTP time to an answer that comes now and was held for so long; `None` where there was
    /// none, or one that is older than those that are remembered.
    fn round_trip(
        &self,
        now: Instant,
        last: u32,
        held: Duration,
    ) -> Result<Option<Duration>, Rejected> {
        if last == 0 {
            return Ok(None);
        }
        let mut reports = self.reports.iter().flatten();
        let latest = *reports.clone().next().ok_or(Rejected::WrongReport)?;
        let Some(sent) = reports.find(|&&ntp| rtcp::compact(ntp) == last) else {
            let is_later = last.wrapping_sub(rtcp::compact(latest)) < 1 << 31;
            return if is_later {
                Err(Rejected::WrongReport)
            } else {
                Ok(None)
            };
        };
        let away = rtcp::ntp_between(*sent, self.ntp.at(now));
        let rtt = u64::try_from(away - held.as_nanos() as i64);
        let rtt = rtt.map_err(|_| FeedbackError::HeldTooLong)?;
        Ok(Some(Duration::from_nanos(rtt)))
    }

    /// Sender reports of all streams that have sent, who they are, and BYE at the end (RFC 3550 §6.1).
    pub(super) fn report(&mut self, now: Instant, out: &mut Vec<u8>) {
        let ntp = self.ntp.at(now);
        let ssrcs = || {
            let originals = self.lines.iter().map(|line| line.stream.ssrc);
            originals.chain(self.rtx.ssrcs())
        };
        let mut written = Ok(());
        for (line, stats) in self.lines.iter().zip(self.stats().streams) {
            let report = SenderReport::builder(line.stream.ssrc)
                .ntp_timestamp(ntp)
                .rtp_timestamp(line.timestamp(now))
                .packet_count(stats.outcomes.sent as u32)
                .octet_count(stats.bytes.get() as u32);
            written = written.and_then(|()| rtcp::append(out, &report));
        }
        for line in &self.rtx.lines {
            let report = SenderReport::builder(line.rtx.ssrc)
                .ntp_timestamp(ntp)
                .rtp_timestamp(self.lines[line.stream].timestamp(now))
                .packet_count(line.packets)
                .octet_count(line.bytes as u32);
            written = written.and_then(|()| rtcp::append(out, &report));
        }
        written = written.and_then(|()| rtcp::append(out, &rtcp::sdes(ssrcs(), &self.cname)));
        if self.is_closing {
            written = written.and_then(|()| rtcp::append(out, &rtcp::bye(ssrcs())));
            self.is_closing = false;
        }
        debug_assert!(
            written.is_ok(),
            "the configuration was checked: {written:?}"
        );
        self.reports.rotate_right(1);
        self.reports[0] = Some(ntp);
    }
}
