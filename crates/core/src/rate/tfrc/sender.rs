// SPDX-License-Identifier: MIT OR Apache-2.0
//! TFRC's sender (RFC 5348 §4).
//!
//! | RFC | here |
//! | --- | --- |
//! | X, X_inst, X_Bps | `x`, [`Tfrc::instantaneous`], `x_bps`, in bytes per second |
//! | X_recv_set | `x_recv_set` |
//! | R, R_sqmean | `rtt`, `rtt_sqmean`, in seconds |
//! | p | `p` |
//! | tld | `doubled` |
//! | t_i, t_ipi, t_delta | `nominal`, [`Tfrc::interval`], [`Tfrc::early`] |
//! | NotLimited1, NotLimited2 | `all_sent` of each packet |
//! | s, t_mbi | [`Tfrc::segment`], [`T_MBI`] |
//!
//! Departures, each for safety: one feedback packet no more than doubles X (four times, with faster restart), where it is at least
//! the initial rate, and X_inst is at most twice X; an RTT counts as 100 us at least, as in Linux, and as half of the shortest time
//! that a report took ([`SentLog::rtt`]).

use super::equation;
use super::faster_restart::FasterRestart;
use super::params::{Revision, SegmentSize, TfrcParams};
use crate::rate::sent::{SentLog, SentPacket};
use crate::rate::{Feedback, FeedbackError, RateController, Report};
use crate::units::{Duration, Instant, Rate};
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// t_mbi: the longest time between packets, in seconds (RFC 5348 §4.3).
const T_MBI: f64 = 64.0;

/// q and q2 (RFC 5348 §4.3, §4.5).
const Q: f64 = 0.9;

/// See the module.
#[derive(Clone, Debug)]
pub struct Tfrc {
    params: TfrcParams,
    sent: SentLog,
    /// Mean payload of a packet, once one was sent.
    mean: Option<f64>,
    x: f64,
    x_bps: f64,
    x_recv_set: ReceiveRates,
    rtt: Option<f64>,
    rtt_sqmean: f64,
    rtt_sample: f64,
    p: f64,
    doubled: Instant,
    nominal: Option<Instant>,
    timer: Option<Instant>,
    /// Nothing was sent since the nofeedback timer was set.
    idle: bool,
    /// Highest and held of the last feedback.
    last: Option<(u64, Duration)>,
    /// The shortest RTT so far, in seconds.
    rtt_min: f64,
    fast: FasterRestart,
    /// X for an encoder: see [`Tfrc::smoothen`].
    smooth: f64,
    /// The last feedback reported a higher p than the one before.
    rising: bool,
}

impl Tfrc {
    /// Nothing sent yet.
    pub fn new(params: TfrcParams) -> Self {
        let first_rtt = params.first_rtt.map(|rtt| rtt.as_secs_f64());
        let first = first_rtt.unwrap_or(0.0);
        let mut tfrc = Self {
            params,
            sent: SentLog::new(params.remembered),
            mean: None,
            x: match params.start {
                Some(start) => start.rate.bps() as f64 / 8.0,
                None => f64::from(params.largest),
            },
            x_bps: f64::INFINITY,
            x_recv_set: ReceiveRates::default(),
            rtt: first_rtt,
            rtt_sqmean: first.sqrt(),
            rtt_sample: first,
            p: 0.0,
            doubled: Instant::ZERO,
            nominal: None,
            timer: None,
            idle: true,
            last: None,
            rtt_min: f64::INFINITY,
            fast: FasterRestart::default(),
            smooth: 0.0,
            rising: false,
        };
        tfrc.smooth = tfrc.x;
        tfrc
    }

    /// X follows R, which follows each RTT. An encoder gets a sixteenth of each change with a report, half of a fall by more than a
    /// quarter, and nothing of X_inst. Chosen by us.
    fn smoothen(&mut self) {
        let is_fall = self.x < 0.75 * self.smooth;
        self.smooth += (self.x - self.smooth) / if is_fall { 2.0 } else { 16.0 };
    }

    /// s, in bytes.
    fn segment(&self) -> f64 {
        let largest = f64::from(self.params.largest);
        match self.params.segment {
            SegmentSize::Largest => largest,
            SegmentSize::Mean(_) => self.mean.unwrap_or(largest),
        }
    }

    /// How many bytes of s a byte of payload is: with [`SegmentSize::Largest`] each packet counts as one of the largest.
    fn scale(&self) -> f64 {
        self.mean.map_or(1.0, |mean| self.segment() / mean)
    }

    /// How many bytes of s a byte that was received is. X allows packets, each as one of s; so where packets become shorter than
    /// the mean, X_recv in bytes would hold back a sender that sends all that it may, more with each report. Linux has it so.
    fn received_scale(&self, highest: u64, packet: SentPacket) -> f64 {
        if self.params.revision != Revision::Rfc5348 {
            return self.scale();
        }
        let last = self
            .last
            .map(|(last, _)| last)
            .filter(|last| *last < highest);
        let since = last.and_then(|last| Some((last, self.sent.packet(last).ok()?.total)));
        let (packets, bytes) = match since {
            Some((last, total)) => (highest - last, packet.total - total),
            None => return self.scale(),
        };
        self.segment() * packets as f64 / bytes.max(packets) as f64
    }

    /// W_init / R (RFC 5348 §4.2, RFC 4342 §5); in RFC 3448 one packet per RTT.
    fn initial_rate(&self, rtt: f64) -> f64 {
        let mss = f64::from(self.params.largest);
        let window = match self.params.revision {
            Revision::Rfc3448 => self.segment(),
            Revision::Rfc4342 | Revision::Rfc5348 => (4.0 * mss).min((2.0 * mss).max(4380.0)),
        };
        window / rtt
    }

    /// The least rate in slow start (§4.3 of both RFCs).
    fn slow_start_floor(&self, rtt: f64) -> f64 {
        match self.params.revision {
            Revision::Rfc3448 | Revision::Rfc4342 => self.segment() / rtt,
            Revision::Rfc5348 => self.initial_rate(rtt),
        }
    }

    /// X_inst (RFC 5348 §4.5).
    fn instantaneous(&self) -> f64 {
        if !self.params.damping || self.rtt.is_none() {
            return self.x;
        }
        let factor = self.rtt_sqmean / self.rtt_sample.sqrt();
        let x = self.x * factor.min(2.0);
        x.max(self.segment() / T_MBI)
    }

    /// t_ipi (RFC 5348 §4.6).
    fn interval(&self) -> Duration {
        seconds(self.segment() / self.instantaneous())
    }

    /// t_delta (RFC 5348 §8.3).
    fn early(&self) -> Duration {
        let rtt = self.rtt.map_or(Duration::ZERO, seconds);
        self.interval().min(self.params.granularity).min(rtt) / 2
    }

    /// max(4 R, 2 s / X), or 2 s at first (RFC 5348 §4.2, §4.3 step 3).
    fn timeout(&self) -> Duration {
        let rto = self.rtt.map_or(2.0, |rtt| 4.0 * rtt);
        seconds(rto.max(2.0 * self.segment() / self.x)).max(self.params.least_timeout)
    }

    fn restart_timer(&mut self, now: Instant) {
        self.timer = Some(now + self.timeout());
        self.idle = true;
    }

    /// Step 4 of RFC 5348 §4.3, with the limit that the receive rate sets.
    fn update(&mut self, now: Instant, rtt: f64, recv_limit: f64) {
        let raise = if self.params.faster_restart { 4.0 } else { 2.0 };
        let limit = recv_limit.min(raise * self.x.max(self.initial_rate(rtt)));
        if self.p > 0.0 {
            self.x_bps = equation::throughput(self.segment(), rtt, self.p);
            self.x = self.x_bps.min(limit).max(self.segment() / T_MBI);
        } else if now.saturating_since(self.doubled) >= seconds(rtt) {
            self.x = (2.0 * self.x).min(limit).max(self.slow_start_floor(rtt));
            self.doubled = now;
        }
    }

    /// recv_limit (RFC 5348 §4.3 step 4). `limited`: over the whole interval the sender was limited by its data.
    fn receive_limit(
        &mut self,
        now: Instant,
        rtt: f64,
        received: f64,
        p: f64,
        limited: bool,
    ) -> f64 {
        match self.params.revision {
            Revision::Rfc3448 => {
                self.x_recv_set.replace(now, received);
                2.0 * received
            }
            // RFC 4342 §5.1: not below the initial rate for a pause.
            Revision::Rfc4342 => {
                self.x_recv_set.replace(now, received);
                match self.idle {
                    true => self.initial_rate(rtt).max(2.0 * received),
                    false => 2.0 * received,
                }
            }
            Revision::Rfc5348 if !limited => {
                self.x_recv_set.update(now, received, seconds(2.0 * rtt));
                2.0 * self.x_recv_set.largest()
            }
            Revision::Rfc5348 if p > self.p => {
                self.x_recv_set.halve();
                self.x_recv_set.maximize(now, 0.85 * received);
                self.x_recv_set.largest()
            }
            Revision::Rfc5348 => {
                self.x_recv_set.maximize(now, received);
                2.0 * self.x_recv_set.largest()
            }
        }
    }

    /// The nofeedback timer of RFC 5348 §4.4.
    fn halve_5348(&mut self, now: Instant, rtt: f64) {
        let received = self.x_recv_set.largest();
        let recover = match self.params.faster_restart {
            true => 2.0 * self.initial_rate(rtt),
            false => self.initial_rate(rtt),
        };
        let slow = match self.p > 0.0 {
            true => received < recover,
            false => self.x < 2.0 * recover,
        };
        if slow && self.idle {
            return;
        }
        if self.p == 0.0 {
            self.x = (self.x / 2.0).max(self.segment() / T_MBI);
        } else if self.x_bps > 2.0 * received {
            self.update_limits(now, rtt, received);
        } else {
            self.update_limits(now, rtt, self.x_bps / 2.0);
        }
    }

    /// The nofeedback timer of RFC 3448 §4.4; with RFC 4342 §5.1 the rate stays above the initial one in a pause.
    fn halve_3448(&mut self, now: Instant, rtt: f64) {
        let received = self.x_recv_set.largest();
        let few = received < 4.0 * self.segment() / rtt;
        if self.idle && few && self.params.revision == Revision::Rfc3448 {
            return;
        }
        let limit = match self.p == 0.0 || self.x_bps > 2.0 * received {
            true => (received / 2.0).max(self.segment() / (2.0 * T_MBI)),
            false => self.x_bps / 4.0,
        };
        let limit = self.receive_limit(now, rtt, limit, self.p, false);
        self.update(now, rtt, limit);
    }

    /// Update_Limits of RFC 5348 §4.4.
    fn update_limits(&mut self, now: Instant, rtt: f64, timer_limit: f64) {
        let timer_limit = timer_limit.max(self.segment() / T_MBI);
        self.x_recv_set.replace(now, timer_limit / 2.0);
        self.update(now, rtt, timer_limit);
    }

    /// The next packet may leave an interval later; unused send times count for one RTT (RFC 5348 §4.6).
    fn take_send_time(&mut self, now: Instant) {
        let interval = self.interval();
        let credit = self.rtt.filter(|_| self.params.credit);
        let credit = credit.map_or(Duration::ZERO, seconds);
        let credit = Duration::from_nanos(credit.as_nanos().saturating_sub(interval.as_nanos()));
        self.nominal = Some(match self.nominal {
            Some(nominal) => (nominal + interval).max(now - credit),
            None => now,
        });
    }
}

impl RateController for Tfrc {
    fn next_send(&self) -> Option<Instant> {
        let Some(nominal) = self.nominal else {
            return Some(Instant::ZERO);
        };
        Some(nominal + self.interval() - self.early())
    }

    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        debug_assert_eq!(sequence, self.sent.next());
        let bytes_now = f64::from(bytes.max(1));
        let weight = match self.params.segment {
            SegmentSize::Largest => 1.0 / 16.0,
            SegmentSize::Mean(packets) => 1.0 / f64::from(packets.max(1)),
        };
        // The mean of all, until they are as many: a call's first packet may be H.264's delimiter, of two bytes. Linux begins with the first.
        let weight = match self.params.revision {
            Revision::Rfc4342 => weight,
            _ => f64::max(weight, 1.0 / (sequence + 1) as f64),
        };
        self.mean = Some(match self.mean {
            Some(mean) => mean + (bytes_now - mean) * weight,
            None => bytes_now,
        });
        self.sent.push(now, bytes);
        if self.nominal.is_none() && self.params.start.is_none() {
            // RFC 5348 §4.2: one packet in a second, until there is an RTT.
            self.x = self.segment() / self.rtt.unwrap_or(1.0);
            self.smooth = self.x;
        }
        self.take_send_time(now);
        if self.next_send().is_some_and(|next| next > now) {
            self.sent.note_all_sent();
        }
        if self.timer.is_none() {
            self.restart_timer(now);
        }
        self.idle = false;
    }

    fn on_skipped(&mut self, now: Instant) {
        self.take_send_time(now);
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError> {
        let Report::LossEvents { rate: p, received } = feedback.report else {
            return Err(FeedbackError::WrongKind);
        };
        let packet = self.sent.packet(feedback.highest)?;
        let this = (feedback.highest, feedback.held);
        if self.last.is_some_and(|last| this <= last) {
            return Err(FeedbackError::Stale);
        }
        let sample = self.sent.rtt(now, packet, feedback.held)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(FeedbackError::OutOfRange("loss event rate"));
        }
        let shortest = self.rtt_min.min(sample.as_secs_f64());
        let received = received.bps() as f64 / 8.0;
        // Nobody receives more in an RTT than all that was sent; with some room for what receivers take for an RTT.
        if received * shortest > 4.0 * self.sent.bytes_until(packet) as f64 {
            return Err(FeedbackError::OutOfRange("receive rate"));
        }
        let sample = sample.as_secs_f64().max(1e-4);
        let scale = self.received_scale(feedback.highest, packet);
        self.sent.note_report(now, packet);
        self.last = Some(this);
        // RFC 5348 §8.2.1, with the record of each packet instead of two times.
        let old = packet.at - seconds(self.rtt.unwrap_or(0.0));
        let limited = packet.all_sent.is_none_or(|at| at <= old);
        let received = received * scale;
        self.rtt_sample = sample;
        self.rtt_min = self.rtt_min.min(sample);
        match self.rtt {
            None => {
                // RFC 5348 §4.2, instead of step 4.
                self.rtt = Some(sample);
                self.rtt_sqmean = sample.sqrt();
                self.doubled = now;
                self.x = match self.params.start {
                    Some(_) => self.x.max(self.initial_rate(sample)),
                    None => self.initial_rate(sample),
                };
                if self.params.revision != Revision::Rfc5348 {
                    self.x_recv_set.replace(now, received);
                }
                self.p = p;
                if p > 0.0 {
                    self.update(now, sample, f64::INFINITY);
                }
                self.smooth = self.x;
            }
            Some(rtt) => {
                let rtt = Q * rtt + (1.0 - Q) * sample;
                self.rtt = Some(rtt);
                self.rtt_sqmean = Q * self.rtt_sqmean + (1.0 - Q) * sample.sqrt();
                let limited = limited && received > 0.0;
                let mut limit = self.receive_limit(now, rtt, received, p, limited);
                let congested = p > self.p || self.rising;
                if self.params.faster_restart && !(limited && p > self.p) {
                    limit = self.fast.limit(now, received, congested, limit);
                }
                self.rising = p > self.p;
                self.p = p;
                self.update(now, rtt, limit);
                self.smoothen();
            }
        }
        self.restart_timer(now);
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timer
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        // One that no report has confirmed is none.
        let rtt = self.rtt.filter(|_| self.last.is_some());
        match (rtt, self.params.revision) {
            // RFC 5348 §4.4: a sender that was idle keeps its rate.
            (None, Revision::Rfc5348) if self.idle => {}
            (None, _) => self.x = (self.x / 2.0).max(self.segment() / T_MBI),
            (Some(rtt), Revision::Rfc5348) => self.halve_5348(now, rtt),
            (Some(rtt), _) => self.halve_3448(now, rtt),
        }
        self.smooth = self.smooth.min(self.x);
        self.restart_timer(now);
    }

    fn rate(&self) -> Rate {
        Rate::from_bps((self.instantaneous() / self.scale() * 8.0) as u64)
    }

    fn target_rate(&self) -> Rate {
        Rate::from_bps((self.smooth / self.scale() * 8.0) as u64)
    }

    fn rtt(&self) -> Option<Duration> {
        let start = self.params.start.map(|start| start.rtt);
        self.rtt.map(seconds).or(start)
    }
}

/// X_recv_set: receive rates and when they were reported (RFC 5348 §4.3, §8.2.2).
#[derive(Clone, Debug, Default)]
struct ReceiveRates {
    rates: [(Instant, f64); Self::N],
    len: usize,
}

impl ReceiveRates {
    /// N of RFC 5348 §8.2.2.
    const N: usize = 3;

    /// Infinity while nothing was reported.
    fn largest(&self) -> f64 {
        let rates = self.rates[..self.len].iter().map(|(_, rate)| *rate);
        rates.reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    fn replace(&mut self, now: Instant, rate: f64) {
        self.rates[0] = (now, rate);
        self.len = 1;
    }

    fn maximize(&mut self, now: Instant, rate: f64) {
        let rate = match self.len {
            0 => rate,
            _ => self.largest().max(rate),
        };
        self.replace(now, rate);
    }

    fn update(&mut self, now: Instant, rate: f64, age: Duration) {
        self.rates.rotate_right(1);
        self.rates[0] = (now, rate);
        let kept = self.rates[..(self.len + 1).min(Self::N)].iter();
        self.len = kept
            .take_while(|(at, _)| now.saturating_since(*at) <= age)
            .count();
    }

    fn halve(&mut self) {
        for (_, rate) in &mut self.rates[..self.len] {
            *rate /= 2.0;
        }
    }
}

/// This number of seconds, limited to the longest time there is.
fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9) as u64)
}
