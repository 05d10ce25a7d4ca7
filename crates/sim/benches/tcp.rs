// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender and a receiver side by side, with nothing between them: the cost of a data segment, its
//! acknowledgement included. `lossless` loses none, `lossy` one in a hundred.

use divan::Bencher;
use makeway_core::units::{Bytes, Duration, Instant};
use makeway_sim::tcp::{Ack, Config, Receiver, Segment, Sender, Variant};
use std::collections::VecDeque;

fn main() {
    divan::main();
}

const SEGMENTS: u64 = 100_000;

struct Connection {
    sender: Sender,
    receiver: Receiver,
    data: VecDeque<Segment>,
    acks: VecDeque<Ack>,
    now: Instant,
    sent: u64,
}

impl Connection {
    fn new(config: &Config) -> Self {
        let mut sender = Sender::new(config);
        sender.send_endless();
        Self {
            sender,
            receiver: Receiver::new(config),
            data: VecDeque::with_capacity(4096),
            acks: VecDeque::with_capacity(4096),
            now: Instant::ZERO,
            sent: 0,
        }
    }

    /// Sends `segments`, of which each `loss`th is lost; one arrives each 10 us.
    fn run(&mut self, segments: u64, loss: u64) {
        let end = self.sent + segments;
        while self.sent < end {
            self.now += Duration::from_micros(10);
            self.sender.on_timeout(self.now);
            while let Some(segment) = self.sender.poll_transmit(self.now) {
                self.sent += 1;
                if !self.sent.is_multiple_of(loss) {
                    self.data.push_back(segment);
                }
            }
            if let Some(segment) = self.data.pop_front()
                && let Some(ack) = self.receiver.on_segment(self.now, &segment, false)
            {
                self.acks.push_back(ack);
            }
            self.acks.extend(self.receiver.on_timeout(self.now));
            if let Some(ack) = self.acks.pop_front() {
                self.sender.on_ack(self.now, &ack);
            }
        }
    }
}

fn measure(bencher: Bencher, config: &Config, loss: u64) {
    let config = Config {
        window: Bytes::new(100 * u64::from(config.mss)),
        ..*config
    };
    let mut connection = Connection::new(&config);
    bencher
        .counter(divan::counter::ItemsCount::new(SEGMENTS))
        .bench_local(|| connection.run(SEGMENTS, loss));
}

#[divan::bench(args = Variant::LOSS_BASED)]
fn lossless(bencher: Bencher, variant: Variant) {
    measure(bencher, &Config::linux(variant), u64::MAX);
}

#[divan::bench(args = Variant::LOSS_BASED)]
fn lossy(bencher: Bencher, variant: Variant) {
    measure(bencher, &Config::linux(variant), 100);
}

#[divan::bench(args = Variant::LOSS_BASED)]
fn ns2(bencher: Bencher, variant: Variant) {
    measure(bencher, &Config::ns2(variant), u64::MAX);
}
