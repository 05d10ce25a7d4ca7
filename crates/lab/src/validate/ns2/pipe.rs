// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection over ns-2's two links, with losses that are known: a sender, 8 Mbit/s, then 800 kbit/s
//! with 100 ms each way, a receiver; acknowledgements of 40 B, and 8 B for each range.

use std::collections::VecDeque;

use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Ack, Config, Receiver, Segment, Sender};

const FAST: Rate = Rate::from_bps(8_000_000);
const SLOW: Rate = Rate::from_bps(800_000);
const DELAY: Duration = Duration::from_millis(100);

/// The first `n` segments that are sent when the packets `lost` are, counted from 0: when, in us, and the
/// number of each.
pub fn sent(config: &Config, lost: &[usize], n: usize) -> Vec<(u64, u64)> {
    let mss = u64::from(config.mss);
    let (mut sender, mut receiver) = (Sender::new(config), Receiver::new(config));
    sender.send_endless();
    let (mut near, mut far) = (Instant::ZERO, Instant::ZERO);
    // Data and acknowledgements under way, with the times of their arrival; order is kept.
    let mut data: VecDeque<(Instant, Segment)> = VecDeque::new();
    let mut acks: VecDeque<(Instant, Ack)> = VecDeque::new();
    let mut all = Vec::new();
    let mut now = Instant::ZERO;
    loop {
        while let Some(segment) = sender.poll_transmit(now) {
            if all.len() == n {
                return all;
            }
            all.push((now.as_nanos() / 1000, segment.seq / mss));
            let len = Bytes::new(u64::from(segment.len));
            near = near.max(now) + len / FAST;
            // Lost where the slow link begins.
            if !lost.contains(&(all.len() - 1)) {
                far = far.max(near) + len / SLOW;
                data.push_back((far + DELAY, segment));
            }
        }
        let arrival = data.front().map(|(at, _)| *at);
        let answer = acks.front().map(|(at, _)| *at);
        let Some(next) = [arrival, answer, sender.next_timeout()]
            .into_iter()
            .flatten()
            .min()
        else {
            return all;
        };
        now = next;
        if arrival == Some(now) {
            let segment = data.pop_front();
            let ack = segment.and_then(|(_, segment)| receiver.on_segment(now, &segment, false));
            acks.extend(ack.map(|ack| {
                let len = Bytes::new(40 + 8 * ack.sacked().count() as u64);
                (now + len / SLOW + DELAY + len / FAST, ack)
            }));
        } else if answer == Some(now) {
            if let Some((_, ack)) = acks.pop_front() {
                sender.on_ack(now, &ack);
            }
        } else {
            sender.on_timeout(now);
        }
    }
}
