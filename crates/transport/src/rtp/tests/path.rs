// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call over a path in simulated time.

use super::*;

/// Keeps what the controller would hear.
#[derive(Clone, Debug, Default)]
pub struct Listening(pub Vec<(Instant, u64)>);

impl Reporter for Listening {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        self.0.push((now, arrival.sequence));
    }

    fn poll_feedback(&mut self, _now: Instant) -> Option<Feedback> {
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

/// A way there and a way back of `delay` each, that may lose packets of RTP.
pub struct Path {
    pub sending: Sending<Fixed, Listening, Fifo>,
    pub receiving: Receiving,
    pub delay: Duration,
    /// Datagrams under way, by arrival and number: to the receiver or not.
    pub under_way: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    pub number: u64,
    pub lost: u64,
    /// Whether the packet with this number is lost.
    pub loses: fn(u64) -> bool,
    /// Whether the datagram of the receiver with this number is lost.
    pub loses_report: fn(u64) -> bool,
    pub arrived: Vec<(Instant, u16)>,
    /// How far the receiver's clock is before ours.
    pub ahead: Duration,
    /// The next millisecond.
    pub ms: u64,
}

impl Path {
    pub fn new(feedback: FeedbackKind, delay: Duration, loses: fn(u64) -> bool) -> Self {
        let fixed = Fixed::new(Rate::from_bps(20_000_000));
        let sending = Sending::new(sending_config(), fixed, Listening::default(), Fifo);
        Self {
            sending: sending.unwrap(),
            receiving: Receiving::new(receiving_config(feedback)),
            delay,
            under_way: BTreeMap::new(),
            number: 0,
            lost: 0,
            loses,
            loses_report: |_| false,
            arrived: Vec::new(),
            ahead: Duration::ZERO,
            ms: 0,
        }
    }

    /// Until `end`: audio each 20 ms, video each 40 ms, until `quiet`.
    pub fn run(&mut self, quiet: u64, end: u64) {
        let mut out = Vec::new();
        for ms in std::mem::replace(&mut self.ms, end)..end {
            let now = at_ms(ms);
            let theirs = now + self.ahead;
            let frame = |stream, len: usize| Frame {
                stream,
                deadline: now + Duration::from_millis(100),
                payload: Bytes::from(vec![7; len]),
            };
            if ms < quiet && ms % 20 == 0 {
                self.sending.send(now, &frame(0, 80)).unwrap();
            }
            if ms < quiet && ms % 40 == 0 {
                self.sending.send(now, &frame(1, 5000)).unwrap();
            }
            while let Some((&key, _)) = self.under_way.first_key_value()
                && key.0 <= now
            {
                let (there, datagram) = self.under_way.remove(&key).unwrap();
                if there {
                    if let Some((_, packet)) = self.receiving.handle(theirs, &datagram, 0) {
                        self.arrived.push((now, packet.sequence_number()));
                    }
                } else {
                    self.sending.handle(now, &datagram);
                }
            }
            self.sending.handle_timeout(now);
            while self.sending.poll_transmit(now, &mut out).is_some() {
                self.number += 1;
                let lost = (self.loses)(self.number) && !rtcp::is_rtcp(&out);
                self.lost += u64::from(lost);
                if !lost {
                    let key = (now + self.delay, self.number);
                    self.under_way.insert(key, (true, out.clone()));
                }
            }
            while self.receiving.poll_transmit(theirs, &mut out) {
                self.number += 1;
                if (self.loses_report)(self.number) {
                    continue;
                }
                let key = (now + self.delay, self.number);
                self.under_way.insert(key, (false, out.clone()));
            }
            while self.sending.poll_event().is_some() {}
        }
    }
}
