//! When a datagram source sends what: pure, from the scenario and a seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use makeway_core::random::Rng;
use makeway_core::units::{Bytes, Duration, Rate};
use rand_distr::{Distribution, Exp1, Pareto, StandardNormal};
use rand_pcg::Pcg64Mcg;

use crate::model::{Captured, Frame, Pace, Source};

/// Headers of each packet: IPv4 20, UDP 8, RTP 12 bytes.
pub const HEADERS: u64 = 40;
/// What follows the RTP header of each packet at least: our extension. Shorter ones are padded to it.
pub const LEAST_PAYLOAD: u64 = EXTENSION as u64;
/// RTP header extension (RFC 3550 section 5.3.1): its own 4 bytes, a stamp and a sequence number.
pub const EXTENSION: usize = 20;
/// The largest packet that IPv4 carries.
const LARGEST_PACKET: u64 = 65_535;
/// Largest IP packet of a replayed capture.
const MTU: u64 = 1500;
/// RTP clock in Hz (RFC 3551 for video).
const RTP_CLOCK: u64 = 90_000;
/// A jittered packet waits this many standard deviations on average, so that its delay can be
/// shorter as well as longer; chosen by us: 3 in 100 000 are cut off.
const OFFSET: f64 = 4.0;

/// One packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departure {
    /// From the start of the flow, in ns.
    pub at: u64,
    /// Least time after the packet before it, in ns, even when the sender is late: a stall of this
    /// machine must not make the burst that pacing is there to avoid. Zero where bursts belong to
    /// the source.
    pub gap: u64,
    /// Its place in the stream, from 0.
    pub seq: u64,
    /// What follows the RTP header, extension included, in bytes.
    pub payload: u64,
    /// RTP timestamp of its frame.
    pub timestamp: u32,
    /// Last of its frame.
    pub marker: bool,
}

/// The departures of a datagram source, endless but for a capture that is played once; `None` for a
/// bulk source. What is random depends on `seed` and `flow`, the flow's number, alone.
pub fn departures(
    source: &Source,
    seed: u64,
    flow: usize,
) -> Option<Box<dyn Iterator<Item = Departure> + Send>> {
    let rng = stream(seed, flow);
    Some(match source {
        Source::Bulk { .. } => return None,
        Source::Rtp {
            frames,
            period,
            payload,
            pace,
            jitter,
            ..
        } => {
            let packets = Paced::new(frames.clone(), *period, payload.get(), *pace);
            jittered(packets, *jitter, rng)
        }
        Source::Cbr {
            rate,
            payload,
            jitter,
        } => jittered(even(*rate, *payload), *jitter, rng),
        Source::Poisson {
            rate,
            payload,
            exponential,
        } => {
            let gap = spacing(*rate, *payload);
            let mut rng = rng;
            let mut at = 0.0;
            let (payload, exponential) = (payload.get().max(LEAST_PAYLOAD), *exponential);
            Box::new((0..).map(move |seq| {
                let unit: f64 = Exp1.sample(&mut rng);
                at += unit * gap;
                let payload = match exponential {
                    true => exponential_size(payload, &mut rng),
                    false => payload,
                };
                plain(at as u64, seq, payload)
            }))
        }
        Source::Pcap {
            packets, period, ..
        } => replay(Arc::clone(packets), *period),
        Source::OnOff {
            rate,
            payload,
            on,
            off,
            shape,
        } => {
            let gap = spacing(*rate, *payload);
            let payload = payload.get().max(LEAST_PAYLOAD);
            let times = [on, off].map(|mean| Times::new(*mean, *shape));
            Box::new(on_and_off(gap, payload, times, rng))
        }
    })
}

/// The random stream of a flow. Both halves of the generator's state are mixed: streams whose seeds
/// differ by a bit would be alike.
fn stream(seed: u64, flow: usize) -> Pcg64Mcg {
    let mut rng = Rng::new(seed ^ Rng::new(flow as u64).next_u64());
    Pcg64Mcg::new(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()))
}

/// A payload such that packets are exponential, of `payload` and headers on average.
fn exponential_size(payload: u64, rng: &mut Pcg64Mcg) -> u64 {
    let unit: f64 = Exp1.sample(rng);
    let packet = (unit * (payload + HEADERS) as f64) as u64;
    packet.clamp(HEADERS + LEAST_PAYLOAD, LARGEST_PACKET) - HEADERS
}

/// A distribution of times.
enum Times {
    /// With this mean in ns.
    Exponential(f64),
    Pareto(Pareto<f64>),
}

impl Times {
    fn new(mean: Duration, shape: Option<f64>) -> Self {
        let ns = mean.as_nanos() as f64;
        let pareto = shape.and_then(|shape| Pareto::new(ns * (shape - 1.0) / shape, shape).ok());
        pareto.map_or(Self::Exponential(ns), Self::Pareto)
    }

    fn sample(&self, rng: &mut Pcg64Mcg) -> f64 {
        match self {
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(rng);
                unit * mean
            }
            Self::Pareto(pareto) => pareto.sample(rng),
        }
    }
}

/// Bursts of as many packets as fit the time on, one at least, as the sources of ns-2.
fn on_and_off(
    gap: f64,
    payload: u64,
    [on, off]: [Times; 2],
    mut rng: Pcg64Mcg,
) -> impl Iterator<Item = Departure> + Send {
    let mut left = 0u64;
    let mut next = 0.0;
    (0..).map(move |seq| {
        if left == 0 {
            // A flow begins off: many of them are not in step.
            next += off.sample(&mut rng);
            left = ((on.sample(&mut rng) / gap).round() as u64).max(1);
        }
        let at = next;
        left -= 1;
        next += gap;
        Departure {
            gap: shortened(gap as u64),
            ..plain(at as u64, seq, payload)
        }
    })
}

/// Mean ns between packets of `payload` at `rate`, which counts IP packets.
fn spacing(rate: Rate, payload: Bytes) -> f64 {
    (payload.get().max(LEAST_PAYLOAD) + HEADERS) as f64 * 8e9 / rate.bps() as f64
}

fn even(rate: Rate, payload: Bytes) -> impl Iterator<Item = Departure> + Send + use<> {
    let gap = spacing(rate, payload);
    let payload = payload.get().max(LEAST_PAYLOAD);
    (0..).map(move |seq| Departure {
        gap: shortened(gap as u64),
        ..plain((seq as f64 * gap) as u64, seq, payload)
    })
}

/// What is left of a planned gap while a late sender catches up; chosen by us.
fn shortened(gap: u64) -> u64 {
    gap / 10 * 9
}

/// The packets of a capture, again after `period` if there is one. What offloads made longer than the
/// MTU is cut, all pieces at the packet's time; what is shorter than our headers is padded to them.
fn replay(
    packets: Arc<[Captured]>,
    period: Option<Duration>,
) -> Box<dyn Iterator<Item = Departure> + Send> {
    let rounds = match period {
        Some(_) => u64::MAX,
        None => 1,
    };
    let period = period.unwrap_or_default();
    let (mut round, mut next, mut sent) = (0, 0, 0);
    let mut seq = 0;
    Box::new(std::iter::from_fn(move || {
        if next == packets.len() {
            (round, next) = (round + 1, 0);
        }
        if round == rounds {
            return None;
        }
        let packet = packets.get(next)?;
        let at = (period * round + packet.at).as_nanos();
        let piece = (packet.bytes.get() - sent).min(MTU);
        sent += piece;
        let last = sent >= packet.bytes.get();
        if last {
            (next, sent) = (next + 1, 0);
        }
        let departure = Departure {
            marker: last,
            ..plain(at, seq, piece.max(HEADERS + LEAST_PAYLOAD) - HEADERS)
        };
        seq += 1;
        Some(departure)
    }))
}

fn plain(at: u64, seq: u64, payload: u64) -> Departure {
    Departure {
        at,
        gap: 0,
        seq,
        payload,
        timestamp: rtp_time(at),
        marker: false,
    }
}

fn rtp_time(ns: u64) -> u32 {
    (u128::from(ns) * u128::from(RTP_CLOCK) / 1_000_000_000) as u32
}

/// Delays each packet independently by a Gaussian time (paper section V.E). The mean delay is
/// [`OFFSET`] deviations; what would leave earlier than it came leaves at once. Packets overtake.
fn jittered(
    packets: impl Iterator<Item = Departure> + Send + 'static,
    deviation: Duration,
    mut rng: Pcg64Mcg,
) -> Box<dyn Iterator<Item = Departure> + Send> {
    if deviation == Duration::ZERO {
        return Box::new(packets);
    }
    let sigma = deviation.as_nanos() as f64;
    let mut packets = packets.peekable();
    let mut waiting = BinaryHeap::new();
    Box::new(std::iter::from_fn(move || {
        // No packet leaves before it comes, so what is due before the next one comes can go.
        while let Some(next) = packets.peek() {
            if waiting
                .peek()
                .is_some_and(|Reverse(top): &Reverse<Departure>| top.at <= next.at)
            {
                break;
            }
            let mut packet = packets.next()?;
            let normal: f64 = StandardNormal.sample(&mut rng);
            packet.gap = 0;
            packet.at += (sigma * (OFFSET + normal)).max(0.0) as u64;
            waiting.push(Reverse(packet));
        }
        waiting.pop().map(|Reverse(packet)| packet)
    }))
}

/// Frames cut in packets and spread by [`Pace`]; the trace repeats for ever.
struct Paced {
    frames: Arc<[Frame]>,
    /// After it the trace repeats, in ns.
    period: u64,
    payload: u64,
    pace: Pace,
    /// The frame that comes next, counted over all rounds.
    next: usize,
    ready: VecDeque<Departure>,
    seq: u64,
    /// When the last packet was due.
    last: u64,
}

impl Paced {
    fn new(frames: Arc<[Frame]>, period: Duration, payload: u64, pace: Pace) -> Self {
        Self {
            period: period.as_nanos().max(1_000_000),
            frames,
            payload: payload.max(LEAST_PAYLOAD),
            pace,
            next: 0,
            ready: VecDeque::new(),
            seq: 0,
            last: 0,
        }
    }

    /// Time and size of the n-th frame over all rounds.
    fn frame(&self, n: usize) -> (u64, u64) {
        let frame = self.frames[n % self.frames.len()];
        let round = (n / self.frames.len()) as u64 * self.period;
        (round + frame.at.as_nanos(), frame.bytes.get())
    }

    /// Makes the packets of the frames that leave between `from` and `from + length` ready.
    fn spread(&mut self, count: usize, from: u64, length: u64) {
        // Packets are spaced evenly, whatever their size: the short one that ends a frame must not
        // bring the next one close behind it.
        let cut = |n| self.frame(self.next + n).1.div_ceil(self.payload);
        let total: u64 = (0..count).map(cut).sum();
        let mut before = 0_u64;
        for _ in 0..count {
            let (due, mut left) = self.frame(self.next);
            self.next += 1;
            while left > 0 {
                let size = left.min(self.payload);
                left -= size;
                let share = u128::from(length) * u128::from(before) / u128::from(total.max(1));
                let at = from + share as u64;
                let gap = if length == 0 { 0 } else { at - self.last };
                self.last = at;
                self.ready.push_back(Departure {
                    at,
                    gap: shortened(gap),
                    seq: self.seq,
                    payload: size.max(LEAST_PAYLOAD),
                    timestamp: rtp_time(due),
                    marker: left == 0 && self.frame(self.next).0 != due,
                });
                self.seq += 1;
                before += 1;
            }
        }
    }
}

impl Iterator for Paced {
    type Item = Departure;

    fn next(&mut self) -> Option<Departure> {
        if self.frames.iter().all(|frame| frame.bytes == Bytes::ZERO) {
            return None;
        }
        while self.ready.is_empty() {
            let (at, _) = self.frame(self.next);
            match self.pace {
                Pace::Burst => self.spread(1, at, 0),
                Pace::Frame => {
                    let (after, _) = self.frame(self.next + 1);
                    self.spread(1, at, after.saturating_sub(at));
                }
                Pace::Slice(length) => {
                    let length = length.as_nanos().max(1);
                    let from = at / length * length;
                    let end = from + length;
                    let count = (0..)
                        .take_while(|n| self.frame(self.next + n).0 < end)
                        .count();
                    self.spread(count, from, length);
                }
            }
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Arc<[Frame]> {
        // 25 frames a second; each fifth is ten packets, the others two.
        (0..50)
            .map(|n| Frame {
                at: Duration::from_millis(40 * n),
                bytes: Bytes::new(if n % 5 == 0 { 10_000 } else { 2_000 }),
                kind: 'P',
            })
            .collect()
    }

    fn rtp(pace: Pace, jitter: Duration) -> Vec<Departure> {
        let source = Source::Rtp {
            trace: "trace".into(),
            frames: trace(),
            period: Duration::from_secs(2),
            payload: Bytes::new(1000),
            pace,
            jitter,
        };
        departures(&source, 1, 0).unwrap().take(900).collect()
    }

    fn gaps(packets: &[Departure]) -> Vec<u64> {
        packets.windows(2).map(|w| w[1].at - w[0].at).collect()
    }

    #[test]
    fn slices_are_sent_at_an_even_rate() {
        // 18 packets in each 200 ms.
        let packets = rtp(Pace::Slice(Duration::from_millis(200)), Duration::ZERO);
        for gap in gaps(&packets) {
            assert!(gap.abs_diff(200_000_000 / 18) < 2, "{gap} ns");
        }
    }

    #[test]
    fn the_short_packet_of_a_frame_has_the_same_spacing() {
        // Frames of 1000 and 100 bytes: 10 packets in each 200 ms.
        let frame = |n: u64| Frame {
            at: Duration::from_millis(40 * n),
            bytes: Bytes::new(1_100),
            kind: 'P',
        };
        let frames = (0_u64..5).map(frame).collect();
        let slice = Pace::Slice(Duration::from_millis(200));
        let packets: Vec<_> = Paced::new(frames, Duration::from_millis(200), 1000, slice)
            .take(10)
            .collect();
        assert!(packets.iter().any(|p| p.payload == 100));
        assert!(gaps(&packets).iter().all(|&gap| gap == 20_000_000));
    }

    #[test]
    fn bursts_leave_with_their_frame() {
        let packets = rtp(Pace::Burst, Duration::ZERO);
        assert!(packets[..10].iter().all(|p| p.at == 0));
        assert_eq!(packets[10].at, 40_000_000);
        assert!(packets[9].marker && !packets[8].marker);
    }

    #[test]
    fn a_frame_is_spread_until_the_next() {
        let packets = rtp(Pace::Frame, Duration::ZERO);
        assert!(gaps(&packets[..10]).iter().all(|&gap| gap == 4_000_000));
    }

    #[test]
    fn the_trace_repeats_after_its_length() {
        let packets = rtp(Pace::Burst, Duration::ZERO);
        // 180 packets in two seconds.
        assert_eq!(packets[180].at, 2_000_000_000);
        assert!(packets.iter().enumerate().all(|(n, p)| p.seq == n as u64));
    }

    #[test]
    fn source_jitter_has_its_deviation_and_leaves_in_order_of_time() {
        let plain = rtp(Pace::Frame, Duration::ZERO);
        let packets = rtp(Pace::Frame, Duration::from_millis(5));
        assert!(packets.is_sorted_by_key(|p| p.at));
        assert!(!packets.is_sorted_by_key(|p| p.seq));
        let known = packets.iter().filter(|p| p.seq < 900);
        let delays: Vec<f64> = known
            .map(|p| (p.at - plain[p.seq as usize].at) as f64 / 1e6)
            .collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        assert!((mean - 20.0).abs() < 0.6, "{mean} ms");
        assert!(
            (variance.sqrt() - 5.0).abs() < 0.5,
            "{} ms",
            variance.sqrt()
        );
    }

    fn replayed(packets: &[(u64, u64)], period: Option<Duration>) -> Vec<(u64, u64, u64)> {
        let packet = |&(ms, bytes): &(u64, u64)| Captured {
            at: Duration::from_millis(ms),
            bytes: Bytes::new(bytes),
        };
        let source = Source::Pcap {
            file: "capture.pcapng".into(),
            packets: packets.iter().map(packet).collect(),
            period,
        };
        let all = departures(&source, 1, 0).unwrap().take(9);
        all.map(|p| (p.at / 1_000_000, p.seq, p.payload + HEADERS))
            .collect()
    }

    #[test]
    fn a_capture_keeps_its_times_and_lengths() {
        let sent = replayed(&[(0, 1500), (0, 300), (7, 60)], None);
        assert_eq!(sent, [(0, 0, 1500), (0, 1, 300), (7, 2, 60)]);
        assert_eq!(replayed(&[], None), []);
    }

    #[test]
    fn short_packets_of_a_capture_are_padded_and_long_ones_cut() {
        let sent = replayed(&[(0, 0), (1, 52), (2, 3010), (3, 3000)], None);
        let lengths: Vec<_> = sent.iter().map(|(at, _, length)| (*at, *length)).collect();
        assert_eq!(
            lengths,
            [
                (0, 60),
                (1, 60),
                (2, 1500),
                (2, 1500),
                (2, 60),
                (3, 1500),
                (3, 1500)
            ]
        );
    }

    #[test]
    fn a_capture_repeats_after_its_period() {
        let sent = replayed(&[(0, 100), (4, 1700)], Some(Duration::from_millis(10)));
        let times: Vec<_> = sent.iter().map(|(at, ..)| *at).collect();
        assert_eq!(times, [0, 4, 4, 10, 14, 14, 20, 24, 24]);
        assert!(sent.iter().enumerate().all(|(n, p)| p.1 == n as u64));
    }

    #[test]
    fn poisson_and_cbr_keep_the_rate_of_ip_packets() {
        let (rate, payload) = (Rate::from_bps(1_000_000), Bytes::new(210));
        // 250 bytes each 2 ms.
        let cbr = Source::Cbr {
            rate,
            payload,
            jitter: Duration::ZERO,
        };
        assert_eq!(
            departures(&cbr, 1, 0).unwrap().nth(500).unwrap().at,
            1_000_000_000
        );
        for exponential in [false, true] {
            let poisson = Source::Poisson {
                rate,
                payload,
                exponential,
            };
            let packets: Vec<_> = departures(&poisson, 1, 0).unwrap().take(20_000).collect();
            let end = packets[19_999].at as f64 / 1e9;
            assert!((end - 40.0).abs() < 1.0, "{end} s");
            let bytes: u64 = packets.iter().map(|p| p.payload + HEADERS).sum();
            // The least packet of 64 B lifts a mean of 250 B by 7.
            let mean = bytes as f64 / 20_000.0 - if exponential { 7.3 } else { 0.0 };
            assert!((mean - 250.0).abs() < 5.0, "{mean} B");
        }
    }

    #[test]
    fn flows_are_independent_of_each_other() {
        // Arrivals of 100 flows in each ms: of a Poisson process the variance is the mean, known to 2.2 %
        // from 4000 of them.
        let source = Source::Poisson {
            rate: Rate::from_bps(200_000),
            payload: Bytes::new(210),
            exponential: false,
        };
        for seed in 1..=3 {
            let mut arrivals = vec![0.0f64; 4000];
            for flow in 0..100 {
                let times = departures(&source, seed, flow).unwrap();
                for at in times.map(|p| p.at / 1_000_000).take_while(|ms| *ms < 4000) {
                    arrivals[at as usize] += 1.0;
                }
            }
            let mean = arrivals.iter().sum::<f64>() / 4000.0;
            let variance = arrivals.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 3999.0;
            assert!((variance / mean - 1.0).abs() < 0.09, "{variance} {mean}");
        }
    }

    #[test]
    fn on_and_off_times_have_their_means() {
        // 1 Mbit/s in packets of 250 B, 100 ms on and 300 ms off: a quarter of the time, bursts of 50.
        for shape in [None, Some(2.5)] {
            let source = Source::OnOff {
                rate: Rate::from_bps(1_000_000),
                payload: Bytes::new(210),
                on: Duration::from_millis(100),
                off: Duration::from_millis(300),
                shape,
            };
            let packets: Vec<_> = departures(&source, 3, 0).unwrap().take(500_000).collect();
            let seconds = packets[499_999].at as f64 / 1e9;
            let rate = 500_000.0 * 2000.0 / seconds;
            assert!((rate / 250_000.0 - 1.0).abs() < 0.05, "{shape:?} {rate}");
            let bursts = gaps(&packets)
                .iter()
                .filter(|gap| **gap > 2_100_000)
                .count();
            let mean = 500_000.0 / bursts as f64;
            assert!((mean / 50.0 - 1.0).abs() < 0.05, "{shape:?} {mean}");
        }
    }
}
