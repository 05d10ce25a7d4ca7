// SPDX-License-Identifier: MIT OR Apache-2.0
//! Google congestion control: a rate from the gradient of the delay, another from losses, and the lesser of the two.
//!
//! Source: S. Holmer, H. Lundin, G. Carlucci, L. De Cicco, S. Mascolo, "A Google Congestion Control Algorithm for Real-Time
//! Communication", Internet-Draft draft-ietf-rmcat-gcc-02, 2016. Sections are its.
//!
//! | draft | here |
//! | --- | --- |
//! | d(i), burst_time | `arrival::Variation::d`, `arrival::Groups` |
//! | m_hat(i), z(i), k(i), e(i), q, var_v_hat(i), chi, f_max | `arrival::Filter` |
//! | del_var_th(i), K_u, K_d, overuse_time_th | `overuse::Detector` |
//! | A_hat(i), eta, alpha, beta; R_hat(i) | `control::ByDelay`; `received::Received` |
//! | As_hat(i), p | `by_losses`, from `control::by_losses` |
//!
//! Cost: O(1) for a packet that leaves, O([`PacketReport::MOST`]) for a report and for each group of packets.
//!
//! Departures:
//! - The threshold is compared with m(i) times the number of groups so far, [`GccParams::gain`] of them at most. m(i) alone reaches 12.5
//!   ms, the first threshold, only where the queue grows by that much with each group. libwebrtc multiplies so; a gain of 1 is the text.
//! - Packets leave at [`GccParams::pacing`] times the target, each by itself; the draft has groups of 5 ms at the target. Faster, as in
//!   libwebrtc, frames make a queue of their own, whose noise slows the filter.
//! - 3 sqrt(var_v_hat) bounds z(i) from below as well. A group of a burst ends after 100 ms. No more than 100 ms between groups count for the
//!   threshold, since with K_u a longer time takes it beyond m(i).
//! - Near the maximum A_hat grows by 1000 bit/s a second at least. The draft has 1000 bit/s with each update, of which it has no rate.
//! - A_hat is never lowered by R_hat, only kept from growing beyond 1.5 R_hat, so that a pause of the application costs nothing.
//!   In Decrease it does not rise.
//! - Losses are judged when 20 packets are due, a round trip after the last time at the earliest. The draft has each report of RTCP, which
//!   come less often than ours. As_hat grows from the rate that was used, so that it does not wander off where delay decides.
//! - Probes (the draft has none): packets leave at twice the pace until the queue grows first, unless a rate is known, and from 5 s after it has grown or a probe
//!   has counted. A train of five packets and 15 ms tells the rate at which it left or arrived, the lesser. A_hat grows to that, and at
//!   most doubles; As_hat grows with it where losses do not hold it. There is no padding: a sender whose frames are shorter is not probed.
//! - After a timeout of RFC 6298 without a report A_hat is halved, and one packet is under way at once until a report comes.
//! - Where m(i) is above the threshold and falls, the signal stays. Marks are not looked at.

mod arrival;
mod control;
mod exp;
mod overuse;
mod params;
mod received;

use super::observed::Observed;
use super::packets::PacketReport;
use super::timer::Pacer;
use super::{Feedback, FeedbackError, RateController};
use crate::units::{Duration, Instant, Rate};
use arrival::{Filter, Groups};
use control::{ByDelay, by_losses, grows};
use overuse::{Detector, Signal};
use received::{Received, Train};

pub use params::GccParams;

/// RTT before a measurement, in s; ours.
const UNKNOWN_RTT: f64 = 0.1;
/// Packets over which losses are judged at least; ours.
const JUDGED: u64 = 20;
/// Between probes, and after over-use; ours.
const PROBE: Duration = Duration::from_secs(5);
/// Pace of a probe, by that of other packets; ours.
const PROBE_GAIN: f64 = 2.0;

/// The sender's half.
#[derive(Clone, Debug)]
pub struct Gcc {
    params: GccParams,
    path: Observed,
    /// The highest packet that arrived; bit k: whether the one k below it did.
    highest: Option<u64>,
    arrived: u128,
    /// No report before a timeout: packets from this one on.
    silent: Option<u64>,
    groups: Groups,
    filter: Filter,
    detector: Detector,
    received: Received,
    train: Train,
    /// When a probe may count; `None`: always, as the queue has not grown yet.
    probe_from: Option<Instant>,
    by_delay: ByDelay,
    by_losses: f64,
    /// Whether losses let As_hat grow when they were last judged.
    grows: bool,
    /// Packets below are judged; how many arrived since; when that was.
    judged: u64,
    counted: u64,
    judged_at: Instant,
    updated_at: Option<Instant>,
    pacer: Pacer,
}

impl Gcc {
    /// Nothing sent yet.
    pub fn new(params: GccParams) -> Self {
        let first = params.start.map_or(params.first, |known| known.rate);
        let mut gcc = Self {
            params,
            path: Observed::new(params.remembered, params.start),
            highest: None,
            arrived: 0,
            silent: None,
            groups: Groups::default(),
            filter: Filter::new(),
            detector: Detector::new(),
            received: Received::new(),
            train: Train::default(),
            probe_from: None,
            by_delay: ByDelay::new(0.0),
            by_losses: f64::INFINITY,
            grows: false,
            judged: 0,
            counted: 0,
            judged_at: Instant::ZERO,
            updated_at: None,
            pacer: Pacer::new(),
        };
        gcc.by_delay.rate = gcc.bounded(first.bps() as f64);
        gcc
    }

    /// A_hat, the rate by delay.
    #[cfg(test)]
    pub(crate) fn rate_by_delay(&self) -> Rate {
        Rate::from_bps(self.by_delay.rate as u64)
    }

    fn bounded(&self, bps: f64) -> f64 {
        let (least, most) = (self.params.least.bps(), self.params.most.bps());
        bps.min(most as f64).max(least as f64)
    }

    fn target(&self) -> f64 {
        let losses = match self.params.losses {
            true => self.by_losses,
            false => f64::INFINITY,
        };
        self.bounded(self.by_delay.rate.min(losses))
    }

    fn pace(&self) -> f64 {
        self.target() * f64::from(self.params.pacing) / 100.0
    }

    fn may_probe(&self, now: Instant) -> bool {
        self.params.probes && self.probe_from.is_none_or(|from| from <= now)
    }

    /// Whether a packet is new: above the highest, or a gap shortly below it.
    fn is_new(&self, sequence: u64) -> bool {
        let Some(highest) = self.highest else {
            return true;
        };
        match highest.checked_sub(sequence) {
            None => true,
            Some(back) => back < 128 && (self.arrived >> back) & 1 == 0,
        }
    }

    fn note(&mut self, sequence: u64) {
        match self.highest {
            Some(highest) if sequence <= highest => self.arrived |= 1 << (highest - sequence),
            before => {
                let ahead = before.map_or(128, |highest| sequence - highest);
                let older = u32::try_from(ahead).ok();
                let older = older.and_then(|ahead| self.arrived.checked_shl(ahead));
                self.arrived = older.unwrap_or(0) | 1;
                self.highest = Some(sequence);
            }
        }
    }

    /// Packets of a report, in the order of arrival; over-use if a group showed it, else the last group's signal.
    fn arrive(&mut self, now: Instant, highest: u64, report: &PacketReport) -> Option<Signal> {
        let mut signal = None;
        for of in report.packets() {
            let sequence = highest - u64::from(of.back);
            if !self.is_new(sequence) {
                continue;
            }
            self.note(sequence);
            self.counted += 1;
            let Ok(packet) = self.path.sent.packet(sequence) else {
                continue;
            };
            let came = report.arrival(of);
            // The longest, where the packet before is forgotten.
            let payload = self.path.sent.payload(sequence);
            let bytes = payload.unwrap_or(self.params.largest.into());
            self.received.packet(came, bytes);
            let left = packet.at.as_nanos() as f64;
            let at = (left / 1e9, came as f64 / 1e9);
            let pace = self.pace();
            if let Some(rate) = self.train.packet(sequence, at, bytes as f64 * 8.0, pace) {
                self.probed(now, rate);
            }
            if let Some(variation) = self.groups.packet(left / 1e6, came as f64 / 1e6) {
                let m = self.filter.update(variation);
                let groups = self.filter.count().min(self.params.gain as usize);
                let new = self.detector.update(m * groups as f64, variation.arrival);
                signal = match signal {
                    Some(Signal::Overuse) => signal,
                    _ => Some(new),
                };
            }
        }
        signal
    }

    fn probed(&mut self, now: Instant, rate: f64) {
        let known = self.by_delay.rate;
        if self.may_probe(now) && self.detector.signal() == Signal::Normal && rate > known {
            self.by_delay.rate = self.bounded(rate.min(2.0 * known));
            // A train without a loss says nothing of losses of some percent.
            if self.grows {
                self.by_losses = self.by_losses.max(self.by_delay.rate);
            }
            self.probe_from = self.probe_from.map(|_| now + PROBE);
        }
    }

    /// §5.5.
    fn update(&mut self, now: Instant, signal: Signal) {
        let since = self.updated_at.replace(now);
        let since = since.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        let rtt = self.rtt().map_or(UNKNOWN_RTT, Duration::as_secs_f64);
        self.by_delay
            .update(signal, self.received.rate(), rtt, since);
        self.by_delay.rate = self.bounded(self.by_delay.rate);
        if signal == Signal::Overuse {
            self.probe_from = Some(now + PROBE);
        }
    }

    /// §6.
    fn judge(&mut self, now: Instant) {
        let due = self.highest.map_or(0, |highest| highest + 1) - self.judged;
        let rtt = self.rtt().unwrap_or(Duration::ZERO);
        if due < JUDGED || now.saturating_since(self.judged_at) < rtt {
            return;
        }
        let p = (1.0 - self.counted as f64 / due as f64).max(0.0);
        let used = self.target();
        let last = match self.by_losses.is_finite() {
            true => self.by_losses,
            false => used,
        };
        self.by_losses = self.bounded(by_losses(last, used, p));
        self.grows = grows(p);
        (self.judged, self.counted, self.judged_at) = (self.judged + due, 0, now);
    }
}

impl RateController for Gcc {
    fn next_send(&self) -> Option<Instant> {
        let may = self.silent.is_none_or(|from| from == self.path.sent.next());
        may.then_some(self.pacer.next())
    }

    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        self.path.on_sent(now, sequence, bytes);
        if sequence == 0 && self.params.start.is_some() {
            self.probe_from = Some(now + PROBE);
        }
        let faster = if self.may_probe(now) { PROBE_GAIN } else { 1.0 };
        let pace = f64::from(bytes) * 8.0 / (self.pace() * faster);
        let interval = Duration::from_nanos((pace * 1e9) as u64);
        self.pacer.on_sent(now, interval);
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError> {
        let is_new = |sequence| self.is_new(sequence);
        let checked = self.path.check(now, feedback, is_new)?;
        self.silent = None;
        if self
            .highest
            .is_none_or(|highest| feedback.highest > highest)
        {
            self.path.measure(now, &checked);
        }
        if let Some(signal) = self.arrive(now, feedback.highest, checked.report) {
            self.update(now, signal);
        }
        self.judge(now);
        let waits = self.path.sent.next() > self.highest.map_or(0, |highest| highest + 1);
        self.path.timeout.on_report(now, waits);
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.path.timeout.at()
    }

    fn on_timeout(&mut self, now: Instant) {
        if !self.path.timeout.expires(now) {
            return;
        }
        self.silent = Some(self.path.sent.next());
        self.by_delay.rate = self.bounded(self.by_delay.rate / 2.0);
    }

    /// The pacing rate: a larger frame leaves at it.
    fn rate(&self) -> Rate {
        Rate::from_bps(self.pace() as u64)
    }

    fn target_rate(&self) -> Rate {
        Rate::from_bps(self.target() as u64)
    }

    fn rtt(&self) -> Option<Duration> {
        self.path.rtt()
    }

    fn one_way(&self) -> Option<Duration> {
        self.path.one_way()
    }
}
