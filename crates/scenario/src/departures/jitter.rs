// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that a source delays by chance.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use makeway_core::units::Duration;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

use super::Departure;
use crate::model::{Jitter, Jittered};

/// A jittered packet waits this many standard deviations on average, so that its delay can be
/// shorter as well as longer; chosen by us: 3 in 100 000 are cut off.
const OFFSET: f64 = 4.0;

/// Packets that leave at other times than planned (SQF paper, section V.E), in order of time.
pub fn jittered(
    packets: impl Iterator<Item = Departure> + Send + 'static,
    jitter: Jitter,
    rng: Pcg64Mcg,
) -> Box<dyn Iterator<Item = Departure> + Send> {
    if jitter.deviation == Duration::ZERO {
        return Box::new(packets);
    }
    let sigma = jitter.deviation.as_nanos() as f64;
    match jitter.of {
        Jittered::Delay => overtaking(packets, sigma, rng),
        Jittered::Order => in_order(packets, sigma, rng),
        Jittered::Gap => apart(packets, sigma, rng),
    }
}

/// Time of a packet that waits a Gaussian time, [`OFFSET`] deviations on average.
fn delayed(at: u64, sigma: f64, rng: &mut Pcg64Mcg) -> u64 {
    let normal: f64 = StandardNormal.sample(rng);
    at + (sigma * (OFFSET + normal)).max(0.0) as u64
}

/// Each is delayed, and those that would overtake wait for the others.
fn in_order(
    packets: impl Iterator<Item = Departure> + Send + 'static,
    sigma: f64,
    mut rng: Pcg64Mcg,
) -> Box<dyn Iterator<Item = Departure> + Send> {
    let mut last = 0;
    Box::new(packets.map(move |packet| {
        last = delayed(packet.at, sigma, &mut rng).max(last);
        Departure {
            at: last,
            gap: 0,
            ..packet
        }
    }))
}

/// The planned times between packets are made longer or shorter, each for itself.
fn apart(
    packets: impl Iterator<Item = Departure> + Send + 'static,
    sigma: f64,
    mut rng: Pcg64Mcg,
) -> Box<dyn Iterator<Item = Departure> + Send> {
    let (mut planned, mut last) = (0, 0);
    Box::new(packets.map(move |packet| {
        let normal: f64 = StandardNormal.sample(&mut rng);
        let gap = packet.at.saturating_sub(planned) as f64 + sigma * normal;
        planned = packet.at;
        last += gap.max(0.0) as u64;
        Departure {
            at: last,
            gap: 0,
            ..packet
        }
    }))
}

/// Each is delayed on its own; a packet that would leave earlier than it came leaves at once.
fn overtaking(
    packets: impl Iterator<Item = Departure> + Send + 'static,
    sigma: f64,
    mut rng: Pcg64Mcg,
) -> Box<dyn Iterator<Item = Departure> + Send> {
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
            packet.gap = 0;
            packet.at = delayed(packet.at, sigma, &mut rng);
            waiting.push(Reverse(packet));
        }
        waiting.pop().map(|Reverse(packet)| packet)
    }))
}
