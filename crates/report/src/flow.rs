// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a flow's two ends, and the report of them. Times are ns after the start of traffic.

use makeway_core::measure::{Arrival, Histogram, Ipdv, Sequence, mos, r_factor};
use makeway_core::units::{Duration, Instant};

use crate::interval::Interval;
use crate::model::{DatagramReport, FlowReport, Quantiles, QueueingReport, VoiceReport};

/// The one-way delay up to which most do not notice it in a conversation (ITU-T G.114).
pub const IN_TIME: Duration = Duration::from_millis(150);

/// Counters of the sender of a datagram flow.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Packets sent inside the measured interval.
    pub measured: u64,
    /// Packets by step.
    pub steps: Vec<u64>,
}

impl Sent {
    /// Nothing yet.
    pub fn new(interval: Interval) -> Self {
        Self {
            measured: 0,
            steps: interval.steps(),
        }
    }

    /// A packet was sent at `at`.
    pub fn count(&mut self, interval: Interval, at: u64) {
        self.measured += u64::from(interval.measures(at));
        if let Some(step) = self.steps.get_mut(interval.step_of(at)) {
            *step += 1;
        }
    }
}

/// Counters of the receiver of a datagram flow.
#[derive(Clone, Debug)]
pub struct Received {
    /// Packets sent inside the measured interval.
    pub measured: u64,
    /// Measured packets with a one-way delay of [`IN_TIME`] at most.
    pub in_time: u64,
    /// Arrivals inside the measured interval.
    pub bytes: Bytes,
    /// Packets by the step in which they were sent.
    pub steps: Vec<u64>,
    /// Largest one-way delay in ns by the step in which the packet was sent.
    pub delay_steps: Vec<u64>,
    /// One-way delay of measured packets.
    pub delay: Histogram,
    /// Delay variation of measured packets.
    pub ipdv: Ipdv,
    seen: Sequence,
}

impl Received {
    /// Nothing yet.
    pub fn new(interval: Interval) -> Self {
        Self {
            measured: 0,
            in_time: 0,
            bytes: Bytes::new(interval),
            steps: interval.steps(),
            delay_steps: interval.steps(),
            delay: Histogram::new(),
            ipdv: Ipdv::new(),
            seen: Sequence::new(),
        }
    }

    /// Packet `seq`, sent at `sent` with `payload` bytes, arrived at `now`; whether for the first time.
    pub fn count(
        &mut self,
        interval: Interval,
        seq: u64,
        payload: u64,
        sent: u64,
        now: u64,
    ) -> bool {
        if self.seen.on_packet(seq) == Arrival::Duplicate {
            return false;
        }
        let delay = now.saturating_sub(sent);
        if interval.measures(sent) {
            self.measured += 1;
            self.in_time += u64::from(delay <= IN_TIME.as_nanos());
            self.delay.record(Duration::from_nanos(delay));
            let (sent, now) = (Instant::from_nanos(sent), Instant::from_nanos(now));
            self.ipdv.on_packet(seq, sent, now);
        }
        self.bytes.count(interval, payload, now);
        let step = interval.step_of(sent);
        if let (Some(n), Some(most)) = (self.steps.get_mut(step), self.delay_steps.get_mut(step)) {
            *n += 1;
            *most = delay.max(*most);
        }
        true
    }
}

/// Payload that arrived.
#[derive(Clone, Debug)]
pub struct Bytes {
    /// Inside the measured interval.
    pub measured: u64,
    /// By step.
    pub steps: Vec<u64>,
}

impl Bytes {
    /// None yet.
    pub fn new(interval: Interval) -> Self {
        Self {
            measured: 0,
            steps: interval.steps(),
        }
    }

    /// `bytes` arrived at `now`.
    #[inline]
    pub fn count(&mut self, interval: Interval, bytes: u64, now: u64) {
        if interval.measures(now) {
            self.measured += bytes;
        }
        if let Some(step) = self.steps.get_mut(interval.step_of(now)) {
            *step += bytes;
        }
    }
}

/// Buckets of [`Delays`]: 16 in each power of two from 2^17 ns (0.13 ms) to 2^33 (8.6 s), the last for all beyond.
const BUCKETS: usize = 256;
const SUB_BITS: u32 = 4;
const FIRST_BITS: u32 = 17;

/// One-way delays of a flow, of which there may be very many: a coarse distribution in 1 KiB, within 1/32.
#[derive(Clone, Debug)]
pub struct Delays {
    count: u64,
    /// Ns.
    sum: u64,
    least: u64,
    most: u64,
    buckets: Box<[u32; BUCKETS]>,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            least: u64::MAX,
            most: 0,
            buckets: Box::new([0; BUCKETS]),
        }
    }
}

impl Delays {
    /// A packet took `ns`.
    #[inline]
    pub fn count(&mut self, ns: u64) {
        let counted = ns.max(1 << FIRST_BITS);
        let power = counted.ilog2();
        let sub = counted >> (power - SUB_BITS) & ((1 << SUB_BITS) - 1);
        let bucket = ((power - FIRST_BITS) << SUB_BITS) as usize | sub as usize;
        let bucket = &mut self.buckets[bucket.min(BUCKETS - 1)];
        *bucket = bucket.saturating_add(1);
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
        self.sum = self.sum.saturating_add(ns);
        self.count += 1;
    }

    /// Above the least; `None` without packets.
    pub fn queueing(&self) -> Option<QueueingReport> {
        let above = |ns: f64| (ns - self.least as f64) / 1e6;
        (self.count > 0).then(|| QueueingReport {
            mean_ms: above(self.sum as f64 / self.count as f64),
            p50_ms: above(self.quantile(0.5)),
            p99_ms: above(self.quantile(0.99)),
            max_ms: above(self.most as f64),
        })
    }

    /// The middle of the bucket of the packet with rank `q`, within what was counted.
    fn quantile(&self, q: f64) -> f64 {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let is_there = |n: &u32| {
            below += u64::from(*n);
            below >= rank
        };
        let bucket = self.buckets.iter().position(is_there).unwrap_or(0) as u64;
        let power = (bucket >> SUB_BITS) as u32 + FIRST_BITS;
        let width = 1u64 << (power - SUB_BITS);
        let sub = bucket & ((1 << SUB_BITS) - 1);
        let middle = (1u64 << power) + sub * width + width / 2;
        middle.clamp(self.least, self.most) as f64
    }
}

/// Puts what was counted into reports: a measured interval, and when the run really ended.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// The interval that was planned.
    pub interval: Interval,
    /// The end of traffic, earlier than planned if the run was cut short.
    pub ended: u64,
}

impl Tally {
    /// Measured seconds.
    pub fn seconds(&self) -> f64 {
        self.ended.saturating_sub(self.interval.from()) as f64 / 1e9
    }

    /// The report of a bulk flow that received `bytes`.
    pub fn bulk(&self, report: &mut FlowReport, bytes: &Bytes) {
        report.series_step_s = self.interval.step().as_secs_f64();
        report.goodput_bps = per_second(bytes.measured, self.seconds());
        let steps = bytes.steps[..self.steps()].iter().enumerate();
        report.goodput_series_bps = steps
            .map(|(n, &bytes)| per_second(bytes, self.interval.step_length(n) as f64 / 1e9))
            .collect();
    }

    /// The report of a datagram flow.
    pub fn datagram(&self, report: &mut FlowReport, sent: &Sent, received: &Received) {
        self.bulk(report, &received.bytes);
        let steps = sent.steps.iter().zip(&received.steps).take(self.steps());
        report.loss_series = steps.map(|(&sent, &came)| lost(sent, came)).collect();
        let delays = received.delay_steps.iter().take(self.steps());
        report.delay_series_ms = delays.map(|&ns| ns as f64 / 1e6).collect();
        report.datagrams = Some(DatagramReport {
            sent: sent.measured,
            received: received.measured,
            loss: lost(sent.measured, received.measured),
            on_time: match sent.measured {
                0 => 0.0,
                sent => received.in_time as f64 / sent as f64,
            },
            delay_ms: quantiles(&received.delay),
            ipdv_ms: quantiles(received.ipdv.absolute()),
        });
        let delay = &received.delay;
        let above = |d: Duration| d.as_millis_f64() - delay.min().as_millis_f64();
        report.queueing = (delay.count() > 0).then(|| QueueingReport {
            mean_ms: above(delay.mean()),
            p50_ms: above(delay.quantile(0.5)),
            p99_ms: above(delay.quantile(0.99)),
            max_ms: above(delay.max()),
        });
    }

    /// How a datagram flow sounds that is a call of `encoder_delay`.
    pub fn voice(&self, report: &mut FlowReport, encoder_delay: Duration) {
        report.voice = report.datagrams.as_ref().map(|datagrams| {
            let mouth_to_ear_ms = encoder_delay.as_millis_f64() + datagrams.delay_ms.mean;
            let r_factor = r_factor(mouth_to_ear_ms, datagrams.loss);
            VoiceReport {
                mouth_to_ear_ms,
                r_factor,
                mos: mos(r_factor),
            }
        });
    }

    /// Tasks done by the end of each step, of those done in it.
    pub fn tasks(&self, report: &mut FlowReport, steps: &[u64]) {
        let mut done = 0;
        let steps = steps.iter().take(self.steps());
        report.tasks_series = steps
            .map(|tasks| {
                done += tasks;
                done as f64
            })
            .collect();
    }

    /// Steps that the series have.
    pub fn steps(&self) -> usize {
        let ended = self.ended.div_ceil(self.interval.step().as_nanos()) as usize;
        ended.min(self.interval.steps().len())
    }
}

fn lost(sent: u64, received: u64) -> f64 {
    match sent {
        0 => 0.0,
        sent => 1.0 - received as f64 / sent as f64,
    }
}

/// Bit/s of `bytes` in `seconds`; zero in no time.
pub fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

/// A histogram in brief.
pub fn quantiles(histogram: &Histogram) -> Quantiles {
    Quantiles {
        mean: histogram.mean().as_millis_f64(),
        p50: histogram.quantile(0.5).as_millis_f64(),
        p99: histogram.quantile(0.99).as_millis_f64(),
        max: histogram.max().as_millis_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let interval = Interval::new(Duration::ZERO, Duration::from_millis(400));
        Tally {
            interval,
            ended: interval.to(),
        }
    }

    /// Packets every 20 ms that take 50 ms and `more[n]`; those of `None` are lost.
    fn stream(more: &[Option<u64>]) -> FlowReport {
        let tally = tally();
        let (mut sent, mut received) = (Sent::new(tally.interval), Received::new(tally.interval));
        for (n, more) in (0..).zip(more) {
            let at = n * 20_000_000;
            sent.count(tally.interval, at);
            if let Some(ms) = more {
                received.count(tally.interval, n, 80, at, at + (50 + ms) * 1_000_000);
            }
        }
        let mut report = FlowReport::default();
        tally.datagram(&mut report, &sent, &received);
        report
    }

    #[test]
    fn a_call_is_judged_by_its_delay_its_loss_and_its_encoder() {
        let mut report = stream(&[Some(0), None, Some(80), Some(40)]);
        tally().voice(&mut report, Duration::from_millis(10));
        let call = report.voice.unwrap();
        assert_eq!(call.mouth_to_ear_ms, 100.0);
        // 93.2 - 2.4 - 30 ln(1 + 15 / 4)
        assert!((call.r_factor - 44.055).abs() < 0.001, "{call:?}");
        assert!((call.mos - mos(call.r_factor)).abs() < 1e-12);
    }

    #[test]
    fn queueing_is_above_the_least_delay_whoever_counts_it() {
        let queueing = stream(&[Some(0), Some(80), Some(40)]).queueing.unwrap();
        assert_eq!((queueing.mean_ms, queueing.max_ms), (40.0, 80.0));
        let mut delays = Delays::default();
        assert_eq!(delays.queueing(), None);
        for ms in [90, 50, 130] {
            delays.count(ms * 1_000_000);
        }
        let other = delays.queueing().unwrap();
        assert_eq!((other.mean_ms, other.max_ms), (40.0, 80.0));
        assert!((other.p50_ms - 40.0).abs() < 90.0 / 32.0, "{other:?}");
        assert!((other.p99_ms - 80.0).abs() < 130.0 / 32.0, "{other:?}");
    }

    #[test]
    fn a_coarse_quantile_is_within_a_thirty_second_and_no_delay_is_beyond_the_buckets() {
        for ns in [
            131_073,
            140_000,
            999_999,
            1_000_000,
            77_777_777,
            8_000_000_000,
        ] {
            let mut delays = Delays::default();
            for ns in [1, ns, ns + 1, ns + 2, u64::MAX] {
                delays.count(ns);
            }
            let middle = delays.quantile(0.5);
            assert!(
                (middle / ns as f64 - 1.0).abs() <= 1.0 / 32.0,
                "{ns}: {middle}"
            );
        }
        let mut delays = Delays::default();
        for ns in [0, 5] {
            delays.count(ns);
        }
        assert_eq!(delays.quantile(0.99), 5.0);
    }

    #[test]
    fn tasks_done_add_up_over_the_steps() {
        let mut report = FlowReport::default();
        tally().tasks(&mut report, &[0, 2, 0, 1]);
        assert_eq!(report.tasks_series, [0.0, 2.0, 2.0, 3.0]);
    }
}
