// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audio and video over a rate that is too low for both: each datagram has a class and a deadline, and ends with an outcome.
//! `cargo run -p makeway-core --example sender`
//!
//! The loop is that of the owner of a socket: it sends what `poll_transmit` gives, reads events, and sleeps until `poll_timeout` or until
//! the application or the receiver says something. Here time is a number.
use makeway_core::rate::fixed::Fixed;
use makeway_core::send::sbpn2::Sbpn2;
use makeway_core::send::{Config, Datagram, Event, Outcome, Sender};
use makeway_core::units::{Duration, Instant, Rate};

const STEP: Duration = Duration::from_millis(20);
const NAMES: [&str; 2] = ["audio", "video"];

fn main() {
    let config = Config {
        one_way: Some(Duration::from_millis(30)),
        ..Config::default()
    };
    let rate = Fixed::new(Rate::from_bps(500_000));
    let mut sender = Sender::new(config, rate, Sbpn2::default());
    let mut sent = [0; 2];
    let mut now = Instant::ZERO;
    for n in 0..250_u32 {
        // Each 20 ms: 160 B of audio, due within 100 ms, and 1300 B of video, within 200 ms: 584 kbit/s.
        for (class, len, ms) in [(0, 160, 100), (1, 1300, 200)] {
            let deadline = now + Duration::from_millis(ms);
            let frame = None;
            sender.enqueue(
                now,
                Datagram {
                    class,
                    len,
                    deadline,
                    frame,
                },
                n,
            );
        }
        let next = now + STEP;
        while let Some(due) = sender.poll_timeout().filter(|due| *due < next) {
            now = now.max(due);
            // To the socket: `transmit.payload` under the number `transmit.sequence`.
            if let Some(transmit) = sender.poll_transmit(now) {
                sent[usize::from(transmit.datagram.class)] += 1;
            }
        }
        while let Some(event) = sender.poll_event() {
            if let Event::Outcome(id, datagram, Outcome::Expired) = event {
                let name = NAMES[usize::from(datagram.class)];
                println!(
                    "{} ms: {name} {} would be late and is not sent",
                    now.as_nanos() / 1_000_000,
                    id.0
                );
            }
        }
        now = next;
    }
    for (name, sent) in NAMES.iter().zip(sent) {
        println!("{name}: {sent} of 250 sent");
    }
}
