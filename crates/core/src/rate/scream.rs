// SPDX-License-Identifier: MIT OR Apache-2.0
//! SCReAMv2: a window from losses, marks and the delay of the queue, and from it a rate for the encoder.
//!
//! Source: I. Johansson, M. Westerlund, M. Kühlewind, "Self-Clocked Rate Adaptation for Multimedia", Internet-Draft
//! draft-johansson-ccwg-rfc8298bis-screamv2, the editors' copy after -03 (the one with `VIRTUAL_RTT` and a `QDELAY_AVG_G` of 1/4). Sections
//! are its. The delay of the queue is RFC 6817's, the RTT RFC 6298's.
//!
//! | draft | here |
//! | --- | --- |
//! | ref_wnd, ref_wnd_i | `window`, `inflection`, in bytes |
//! | s_rtt | `path` |
//! | qdelay, qdelay_avg, qdelay_target | `qdelay`, `qdelay_avg`, `qdelay_target`, in seconds |
//! | l4s_alpha | `alpha` |
//! | max_bytes_in_flight, max_bytes_in_flight_prev | `most_in_flight`: this round trip, the one before |
//! | loss_detected, data_units_marked | `lost`, `marked`: since the last reaction |
//! | loss_event_rate | `loss_event_rate` |
//! | IS_L4S, MSS, REF_WND_OVERHEAD | [`ScreamParams::l4s`], [`ScreamParams::largest`], [`ScreamParams::overhead`] |
//! | TARGET_BITRATE_MIN, TARGET_BITRATE_MAX | [`ScreamParams::least`], [`ScreamParams::most`] |
//!
//! Cost: O(1) for a packet that leaves, O([`PacketReport::MOST`]) for a report, and O(200) each 50 ms.
//!
//! Departures, each where the draft leaves something open:
//! - rel_framesize_high (§4.3.2) is 1: a controller sees packets and no frames. `overhead` leaves room for large ones.
//! - Samples for the target of the delay (§4.2.1.4.1) are taken each 50 ms, and the loss event rate is smoothed over 50 round trips;
//!   the draft defines neither.
//! - The reordering window (§4.2.1.1) begins at 0, and an RTT of it counts at most (RFC 8985 §3.3.2).
//! - At the largest target the window only stops to grow (§4.2.2.2 has a history of bytes in flight, for which it refers to code).
//! - Before the first report pacing has no headroom, and the rate without an RTT counts one of 100 ms.
//! - After a timeout of RFC 6298 without a report, what is under way counts as gone, the window is the least, and one packet is under way
//!   at once until a report comes. The draft (§8) has a minimum rate, and no rule.
//! - Clocks that drift are not compensated.

mod delay;
mod params;

use super::observed::Observed;
use super::packets::PacketReport;
use super::sent::SentLog;
use super::timer::Pacer;
use super::{Feedback, FeedbackError, RateController};
use crate::units::{Duration, Instant, Rate};
use alloc::collections::VecDeque;
use delay::Norms;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

pub use params::ScreamParams;

/// QDELAY_TARGET_LO and QDELAY_TARGET_HI (§4.2.2), seconds.
const TARGET: (f64, f64) = (0.06, 0.4);
/// MIN_REF_WND, bytes.
const LEAST_WINDOW: f64 = 3000.0;
/// BYTES_IN_FLIGHT_HEAD_ROOM.
const HEAD_ROOM: f64 = 1.5;
/// BETA_LOSS, BETA_ECN.
const BETA: (f64, f64) = (0.7, 0.8);
/// POST_CONGESTION_DELAY_RTT.
const CAUTIOUS_RTTS: f64 = 100.0;
/// MUL_INCREASE_FACTOR.
const INCREASE: f64 = 0.02;
/// VIRTUAL_RTT, seconds.
const VIRTUAL_RTT: f64 = 0.025;
/// L4S_AVG_G_UP, L4S_AVG_G_DOWN (§4.2.1.3).
const ALPHA_GAIN: (f64, f64) = (1.0 / 8.0, 1.0 / 128.0);
/// QDELAY_AVG_G (§4.2.1.4).
const QDELAY_GAIN: f64 = 0.25;
/// RATE_PACE_MIN, bit/s, and PACKET_PACING_HEADROOM (§4.3.3).
const PACING: (f64, f64) = (50_000.0, 1.5);
/// BYTES_IN_FLIGHT_LIMIT, BYTES_IN_FLIGHT_LIMIT_COMPENSATION (§4.4).
const IN_FLIGHT_LIMIT: (f64, f64) = (0.9, 1.5);
/// PACKET_OVERHEAD, bytes.
const OVERHEAD: f64 = 20.0;

/// Between samples of the normalised delay; ours.
const SAMPLE: Duration = Duration::from_millis(50);
/// Weight of a round trip in the loss event rate; ours.
const LOSS_GAIN: f64 = 0.02;
/// RTT before a measurement; ours.
const UNKNOWN_RTT: f64 = 0.1;

/// A packet from the lowest outstanding one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Outstanding,
    /// A later packet arrived, which was told then.
    Missing(Instant),
    Arrived,
    /// Missing since then for longer than packets are reordered.
    Lost(Instant),
}

/// The sender's half.
#[derive(Clone, Debug)]
pub struct Scream {
    params: ScreamParams,
    path: Observed,
    fates: VecDeque<Fate>,
    /// Everything below has arrived or is lost for good.
    low: u64,
    /// The highest packet that arrived, and all payload up to it.
    acked: Option<u64>,
    acked_total: u64,
    reordering: Duration,
    is_silent: bool,
    window: f64,
    inflection: f64,
    most_in_flight: [f64; 2],
    round_began: Instant,
    qdelay: f64,
    qdelay_avg: f64,
    qdelay_avg_at: Instant,
    qdelay_target: f64,
    norms: Norms,
    norm_at: Instant,
    alpha: f64,
    alpha_at: Instant,
    /// Packets since then: all, marked.
    delivered: [u32; 2],
    lost: bool,
    marked: bool,
    lost_in_round: bool,
    loss_event_rate: f64,
    congested_at: Option<Instant>,
    reacted_at: Instant,
    inflection_at: Option<Instant>,
    target: f64,
    pacer: Pacer,
}

impl Scream {
    /// Nothing sent yet.
    pub fn new(params: ScreamParams) -> Self {
        let known = params.start;
        let window = known.map_or(0.0, |known| {
            known.rate.bps() as f64 / 8.0 * known.rtt.as_secs_f64()
        });
        let mut scream = Self {
            params,
            path: Observed::new(params.remembered, known),
            fates: VecDeque::with_capacity(params.remembered.min(SentLog::MOST) as usize),
            low: 0,
            acked: None,
            acked_total: 0,
            reordering: Duration::ZERO,
            is_silent: false,
            window: window.max(LEAST_WINDOW),
            inflection: 1.0,
            most_in_flight: [0.0; 2],
            round_began: Instant::ZERO,
            qdelay: 0.0,
            qdelay_avg: 0.0,
            qdelay_avg_at: Instant::ZERO,
            qdelay_target: TARGET.0,
            norms: Norms::new(),
            norm_at: Instant::ZERO,
            alpha: 0.0,
            alpha_at: Instant::ZERO,
            delivered: [0; 2],
            lost: false,
            marked: false,
            lost_in_round: false,
            loss_event_rate: 0.0,
            congested_at: None,
            reacted_at: Instant::ZERO,
            inflection_at: None,
            target: 0.0,
            pacer: Pacer::new(),
        };
        scream.target = match known {
            Some(known) => known.rate.bps() as f64,
            None => scream.bounded(8.0 * scream.window / UNKNOWN_RTT),
        };
        scream
    }

    /// The reference window, in bytes.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// The delay of the queue at which the window falls as at a mark of each packet (§4.2.1.4).
    pub fn delay_target(&self) -> Duration {
        Duration::from_nanos((self.qdelay_target * 1e9) as u64)
    }

    fn mss(&self) -> f64 {
        f64::from(self.params.largest.max(1))
    }

    fn s_rtt(&self) -> f64 {
        self.rtt().map_or(UNKNOWN_RTT, Duration::as_secs_f64)
    }

    fn bounded(&self, bps: f64) -> f64 {
        let (least, most) = (self.params.least.bps(), self.params.most.bps());
        bps.min(most as f64).max(least as f64)
    }

    /// §4.1.1: from the last one sent down to the highest that arrived.
    fn in_flight(&self) -> f64 {
        (self.path.sent.total() - self.acked_total) as f64
    }

    fn pace_bitrate(&self) -> f64 {
        let headroom = if self.acked.is_some() { PACING.1 } else { 1.0 };
        self.target.max(PACING.0) * headroom
    }

    fn index_of(&self, sequence: u64) -> Option<usize> {
        let at = sequence.checked_sub(self.low)? as usize;
        (at < self.fates.len()).then_some(at)
    }

    /// Notes the packets of a report: newly arrived ones, and the payload of those that were marked.
    fn arrive(&mut self, now: Instant, highest: u64, report: &PacketReport) -> f64 {
        let mut marked = 0.0;
        for packet in report.packets() {
            let sequence = highest - u64::from(packet.back);
            let Some(at) = self.index_of(sequence) else {
                continue;
            };
            match core::mem::replace(&mut self.fates[at], Fate::Arrived) {
                Fate::Arrived => continue,
                // §4.2.1.1: the window of reordering covers what was seen.
                Fate::Missing(since) | Fate::Lost(since) => {
                    self.reordering = self.reordering.max(now.saturating_since(since));
                }
                Fate::Outstanding => {}
            }
            self.delivered[0] += 1;
            if packet.marked {
                self.delivered[1] += 1;
                self.marked = true;
                let payload = self.path.sent.payload(sequence);
                marked += payload.map_or(self.mss(), |bytes| bytes as f64);
            }
        }
        marked
    }

    /// §4.2.1.1. A lost packet may still arrive for a while, so it is kept until as many have followed as a report may tell of.
    fn detect_losses(&mut self, now: Instant) {
        let below = self.acked.map_or(0, |acked| acked.saturating_sub(self.low)) as usize;
        // The window does not fall: one packet that came very late would hide each later loss for as long.
        let rtt = self.rtt().unwrap_or(self.reordering);
        let reordering = self.reordering.min(rtt);
        for fate in self.fates.iter_mut().take(below) {
            let since = match *fate {
                Fate::Outstanding => now,
                Fate::Missing(since) => since,
                Fate::Arrived | Fate::Lost(_) => continue,
            };
            *fate = Fate::Missing(since);
            if now.saturating_since(since) >= reordering {
                *fate = Fate::Lost(since);
                (self.lost, self.lost_in_round) = (true, true);
            }
        }
        let kept = PacketReport::MOST;
        while let Some(fate) = self.fates.front() {
            let is_old = self
                .acked
                .is_some_and(|acked| acked >= self.low + kept as u64);
            if *fate == Fate::Arrived || (matches!(fate, Fate::Lost(_)) && is_old) {
                self.fates.pop_front();
                self.low += 1;
            } else {
                break;
            }
        }
    }

    /// §4.2.1.3.
    fn update_alpha(&mut self, now: Instant) {
        let interval = self.s_rtt().min(0.01);
        if now.saturating_since(self.alpha_at).as_secs_f64() < interval || self.delivered[0] == 0 {
            return;
        }
        let marked = f64::from(self.delivered[1]) / f64::from(self.delivered[0]);
        self.alpha = if marked >= self.alpha {
            ALPHA_GAIN.0 * marked + (1.0 - ALPHA_GAIN.0) * self.alpha
        } else {
            (1.0 - ALPHA_GAIN.1) * self.alpha
        };
        self.alpha_at = now;
        self.delivered = [0; 2];
    }

    /// §4.2.1.4.
    fn update_qdelay(&mut self, now: Instant, qdelay: f64) {
        self.qdelay = qdelay;
        let interval = self.s_rtt().min(VIRTUAL_RTT);
        if now.saturating_since(self.qdelay_avg_at).as_secs_f64() >= interval {
            self.qdelay_avg = if qdelay < self.qdelay_avg {
                qdelay
            } else {
                QDELAY_GAIN * qdelay + (1.0 - QDELAY_GAIN) * self.qdelay_avg
            };
            self.qdelay_avg_at = now;
        }
        if now.saturating_since(self.norm_at) >= SAMPLE {
            self.norm_at = now;
            self.norms.push(qdelay / TARGET.0);
            self.adjust_target();
        }
    }

    /// §4.2.1.4.1: a flow that fills the queue, and reacts to loss alone, would starve this one.
    fn adjust_target(&mut self) {
        let variance = self.norms.variance();
        let new = (self.norms.mean(Norms::LATEST) + variance.sqrt()) * TARGET.0;
        let target = &mut self.qdelay_target;
        if self.loss_event_rate > 0.002 {
            *target = 1.5 * new;
        } else if variance < 0.2 {
            *target = new;
        } else if new < TARGET.0 {
            *target = new.max(*target * 0.5);
        } else {
            *target *= 0.9;
        }
        *target = target.clamp(TARGET.0, TARGET.1);
    }

    /// §4.2.2.1; gives scl_t, which holds back growth near the inflection point.
    fn reduce(&mut self, now: Instant) -> f64 {
        let s_rtt = self.s_rtt();
        let near = (self.window - self.inflection) / self.inflection * 8.0;
        let near = (near * near).clamp(0.1, 1.0);
        let ratio = (self.mss() / self.window).min(1.0);
        if self.lost || self.marked {
            self.congested_at = Some(now);
        }
        let since_reaction = now.saturating_since(self.reacted_at).as_secs_f64();
        if since_reaction < s_rtt.min(VIRTUAL_RTT) {
            return near;
        }
        let (is_loss, is_ce) = (self.lost, self.marked);
        (self.lost, self.marked) = (false, false);
        let half = self.qdelay_target / 2.0;
        // With the marks of L4S at work, delay is left to them.
        let least_alpha = 2.0 / self.target * self.mss() * 8.0 / s_rtt;
        let is_virtual = self.qdelay > half && !(is_ce || is_loss) && self.alpha < least_alpha;
        if !(is_loss || is_ce || is_virtual) {
            return near;
        }
        let is_old = |at: Instant| now.saturating_since(at).as_secs_f64() > 10.0 * s_rtt;
        if self.inflection_at.is_none_or(is_old) {
            self.inflection_at = Some(now);
            self.inflection = self.window;
        }
        let steady = (1.0 - ratio).max(0.5);
        if is_loss {
            self.window *= BETA.0;
        }
        if is_ce && self.params.l4s {
            let mut backoff = self.alpha / 2.0 * steady;
            if self.qdelay < self.qdelay_target * 0.25 {
                backoff *= near.max(0.25);
            }
            if since_reaction > 100.0 * s_rtt.max(VIRTUAL_RTT) {
                // Long without congestion the window may be far above what is in flight.
                self.window = self.window.min(self.most_in_flight[1]);
            }
            self.window *= 1.0 - backoff;
        } else if is_ce {
            self.window *= BETA.1;
        }
        if is_virtual {
            let above = ((self.qdelay_avg - half) / half).max(0.0);
            let alpha = (2.0 * least_alpha * above).min(1.0);
            self.window *= 1.0 - alpha / 2.0 * steady;
        }
        self.window = self.window.max(LEAST_WINDOW);
        self.reacted_at = now;
        near
    }

    /// §4.2.2.2, for newly acknowledged bytes that are not marked.
    fn increase(&mut self, now: Instant, acked: f64, near: f64) {
        let (mss, s_rtt) = (self.mss(), self.s_rtt());
        let ratio = (mss / self.window).min(1.0);
        let cautious = CAUTIOUS_RTTS * s_rtt.max(VIRTUAL_RTT);
        let since = self.congested_at.unwrap_or(Instant::ZERO);
        let post = (now.saturating_since(since).as_secs_f64() / cautious).min(1.0);
        let small_rtt = (s_rtt / VIRTUAL_RTT).min(1.0);
        let mut increment = acked * ratio * small_rtt * small_rtt;
        increment *= near.max(0.25) * (1.0 - ratio).max(0.5);
        if self.alpha < 0.0001 {
            increment *= (1.0 - self.qdelay_avg / (self.qdelay_target / 4.0)).max(0.1);
        }
        increment *= 1.0 + INCREASE * self.window / mss * post * near;
        let most = mss + self.most_in_flight[0].max(self.most_in_flight[1]) * HEAD_ROOM;
        let new = self.window + increment;
        if new <= most && self.target < self.params.most.bps() as f64 {
            self.window = new;
        }
    }

    /// §4.4.
    fn update_target(&mut self, in_flight_ratio: f64) {
        let mut scale = 1.0;
        if self.qdelay / self.qdelay_target > 0.25 && in_flight_ratio > IN_FLIGHT_LIMIT.0 {
            scale /= (in_flight_ratio / IN_FLIGHT_LIMIT.0).min(IN_FLIGHT_LIMIT.1);
        }
        let ratio = (self.mss() / self.window).min(1.0);
        scale *= 1.0 - (ratio - 0.1).clamp(0.0, 0.2);
        scale *= self.mss() / (self.mss() + OVERHEAD);
        self.target = self.bounded(scale * 8.0 * self.window / self.s_rtt());
    }

    /// The most bytes in flight, and the share of round trips with a loss.
    fn note_in_flight(&mut self, now: Instant) {
        if now.saturating_since(self.round_began).as_secs_f64() >= self.s_rtt() {
            self.round_began = now;
            self.most_in_flight = [0.0, self.most_in_flight[0]];
            let lost = core::mem::take(&mut self.lost_in_round);
            self.loss_event_rate += (f64::from(u8::from(lost)) - self.loss_event_rate) * LOSS_GAIN;
        }
        self.most_in_flight[0] = self.most_in_flight[0].max(self.in_flight());
    }
}

impl RateController for Scream {
    fn next_send(&self) -> Option<Instant> {
        let limit = self.window * f64::from(self.params.overhead) / 100.0;
        let remembered = self.fates.len() < SentLog::MOST as usize;
        let may = if self.is_silent {
            self.fates.is_empty()
        } else {
            self.in_flight() < limit
        };
        (may && remembered).then_some(self.pacer.next())
    }

    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        self.path.on_sent(now, sequence, bytes);
        self.fates.push_back(Fate::Outstanding);
        self.note_in_flight(now);
        // §4.3.3: t_pace.
        let pace = f64::from(bytes) * 8.0 / self.pace_bitrate();
        let interval = Duration::from_nanos((pace * 1e9) as u64);
        self.pacer.on_sent(now, interval);
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError> {
        let is_new = |sequence| {
            self.index_of(sequence)
                .is_some_and(|at| self.fates[at] != Fate::Arrived)
        };
        let checked = self.path.check(now, feedback, is_new)?;
        self.is_silent = false;
        let in_flight_ratio = self.in_flight() / self.window;
        self.note_in_flight(now);
        let marked = self.arrive(now, feedback.highest, checked.report);
        let is_newest = self.acked.is_none_or(|acked| feedback.highest > acked);
        let mut acked = 0.0;
        if is_newest {
            acked = checked.packet.total.saturating_sub(self.acked_total) as f64;
            self.acked = Some(feedback.highest);
            self.acked_total = self.acked_total.max(checked.packet.total);
            let qdelay = self.path.measure(now, &checked);
            self.update_qdelay(now, qdelay);
        }
        self.detect_losses(now);
        self.update_alpha(now);
        let near = self.reduce(now);
        self.increase(now, (acked - marked).max(0.0), near);
        self.update_target(in_flight_ratio);
        let waits = self.path.sent.total() > self.acked_total;
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
        self.fates.clear();
        self.low = self.path.sent.next();
        self.acked_total = self.path.sent.total();
        self.acked = self.low.checked_sub(1);
        self.is_silent = true;
        self.window = LEAST_WINDOW;
        self.update_target(0.0);
    }

    /// The pacing rate (§4.3.3): a window has room for it, and a larger frame leaves at it.
    fn rate(&self) -> Rate {
        Rate::from_bps(self.pace_bitrate() as u64)
    }

    fn target_rate(&self) -> Rate {
        Rate::from_bps(self.target as u64)
    }

    fn rtt(&self) -> Option<Duration> {
        self.path.rtt()
    }

    fn one_way(&self) -> Option<Duration> {
        self.path.one_way()
    }
}
