// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that a source delays by chance.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use makeway_core::units::Duration;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

use super::Departure;

/// A jittered packet waits this many standard deviations on average, so that its delay can be
/// shorter as well as longer; chosen by us: 3 in 100 000 are cut off.
const OFFSET: f64 = 4.0;

/// Delays each packet independently by a Gaussian time (paper section V.E). The mean delay is
/// [`OFFSET`] deviations; what would leave earlier than it came leaves at once. Packets overtake.
pub fn jittered(
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
