// SPDX-License-Identifier: MIT OR Apache-2.0
//! Departures of a datagram source, times and sizes: pure, from the scenario and a seed.

mod application;
mod jitter;
mod on_off;
mod paced;

use std::sync::Arc;

use makeway_core::random::Rng;
use makeway_core::units::{Bytes, Duration, Rate};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::model::{Captured, Source};
use jitter::jittered;
use on_off::{Times, on_and_off};
use paced::Paced;

pub use application::{Unit, Units};

/// Headers of each packet: IPv4 20, UDP 8, RTP 12 bytes.
pub const HEADERS: u64 = 40;
/// Least content after the RTP header of each packet: our extension. Shorter ones are padded to it.
pub const LEAST_PAYLOAD: u64 = EXTENSION as u64;
/// RTP header extension (RFC 3550 section 5.3.1): its own 4 bytes, a stamp and a sequence number.
pub const EXTENSION: usize = 20;
/// The largest packet that IPv4 carries.
const LARGEST_PACKET: u64 = 65_535;
/// Largest IP packet of a replayed capture.
const MTU: u64 = 1500;
/// RTP clock in Hz (RFC 3551 for video).
const RTP_CLOCK: u64 = 90_000;
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
    /// Bytes after the RTP header, extension included.
    pub payload: u64,
    /// RTP timestamp of its frame.
    pub timestamp: u32,
    /// Last of its frame.
    pub marker: bool,
}

/// The departures of a datagram source, endless but for a capture that is played once; `None` for a
/// bulk source, and for media, whose sender decides of them ([`Units`]). The random streams depend on `seed` and `flow`, the flow's number, alone.
pub fn departures(
    source: &Source,
    seed: u64,
    flow: usize,
) -> Option<Box<dyn Iterator<Item = Departure> + Send>> {
    let rng = stream(seed, flow);
    Some(match source {
        Source::Bulk { .. } | Source::Media(_) => return None,
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
        Source::Sensor {
            payload, pulses, ..
        } => {
            let (pulses, payload) = (Arc::clone(pulses), payload.get().max(LEAST_PAYLOAD));
            Box::new((0..pulses.len()).map(move |n| plain(pulses[n].as_nanos(), n as u64, payload)))
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

/// Part of a planned gap kept while a late sender catches up; chosen by us.
fn shortened(gap: u64) -> u64 {
    gap / 10 * 9
}

/// The packets of a capture, again after `period` if there is one. Packets that offloads made longer than the
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

/// RTP time of a moment.
pub fn rtp_time(ns: u64) -> u32 {
    (u128::from(ns) * u128::from(RTP_CLOCK) / 1_000_000_000) as u32
}

#[cfg(test)]
mod tests;
