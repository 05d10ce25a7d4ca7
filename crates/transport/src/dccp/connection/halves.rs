// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both half-connections: what is remembered of packets sent, and of those that came.

use std::collections::VecDeque;

use makeway_core::rate::tfrc::TfrcReceiver;
use makeway_core::rate::{AckRanges, Arrival, Feedback, Report, Reporter};
use makeway_core::units::{Duration, Instant, Rate};

use crate::dccp::option::{Opt, loss_event_rate, options};
use crate::dccp::wire::Packet;
use crate::dccp::{Ccid, Seq};

/// Which of the own packets had data: controllers count those alone, from 0.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Number and CCVal of data packets, the oldest first.
    packets: VecDeque<(Seq, u8)>,
    /// How many were sent before those.
    forgotten: u64,
}

impl Sent {
    /// Packets that it remembers: what is older is of no use to a controller.
    const MOST: usize = 8192;

    /// A packet with data leaves.
    pub fn push(&mut self, seq: Seq, ccval: u8) {
        if self.packets.len() == Self::MOST {
            self.packets.pop_front();
            self.forgotten += 1;
        }
        self.packets.push_back((seq, ccval));
    }

    /// How many data packets were sent up to `seq`.
    fn until(&self, seq: Seq) -> u64 {
        let behind = |&(sent, _): &(Seq, u8)| seq.since(sent) >= 0;
        self.forgotten + self.packets.partition_point(behind) as u64
    }

    /// CCVal of the last data packet up to `seq`.
    pub fn ccval(&self, seq: Seq) -> Option<u8> {
        let at = self.until(seq).checked_sub(self.forgotten + 1)?;
        self.packets.get(at as usize).map(|&(_, ccval)| ccval)
    }
}

/// Feedback in an acknowledgement for a controller; `None` where it tells nothing that this CCID can use.
pub fn feedback(
    ccid: &Ccid,
    sent: &Sent,
    ack: Seq,
    given: &[u8],
    received: impl Iterator<Item = (Seq, Seq)>,
) -> Option<Feedback> {
    let highest = sent.until(ack).checked_sub(1)?;
    let (mut held, mut rate, mut intervals, mut x_recv) = (None, None, None, None);
    for (_, option) in options(given) {
        match option {
            Opt::ElapsedTime(time) => held = Some(time),
            Opt::TimestampEcho(_, time) => held = held.or(Some(time)),
            Opt::LossEventRate(u32::MAX) => rate = Some(0.0),
            Opt::LossEventRate(inverse) => rate = Some(1.0 / f64::from(inverse)),
            Opt::LossIntervals(data) => intervals = Some(loss_event_rate(data).unwrap_or(0.0)),
            Opt::ReceiveRate(bytes) => x_recv = Some(Rate::from_bps(u64::from(bytes) * 8)),
            _ => {}
        }
    }
    let report = match ccid {
        // RFC 4342 §6. Linux leaves Loss Intervals out, so Loss Event Rate is as good; and an Elapsed Time of zero too.
        Ccid::Three(_) => Report::LossEvents {
            rate: rate.or(intervals)?,
            received: x_recv?,
        },
        Ccid::Two(_) => Report::Acks(acks(sent, received)?),
    };
    Some(Feedback {
        highest,
        held: held.unwrap_or(Duration::ZERO),
        report,
    })
}

/// Ranges of data packets; those that only packets without data part are one.
fn acks(sent: &Sent, received: impl Iterator<Item = (Seq, Seq)>) -> Option<AckRanges> {
    let mut ranges = AckRanges::default();
    let mut open: Option<(u64, u64)> = None;
    for (first, last) in received {
        // Numbers from `first` up to, but without, `end`.
        let (first, end) = (sent.until(first.plus(-1)), sent.until(last));
        if first >= end {
            continue;
        }
        open = match open {
            Some((from, to)) if from == end => Some((first, to)),
            Some((from, to)) => {
                if !ranges.push(from, to) {
                    return Some(ranges);
                }
                Some((first, end - 1))
            }
            None => Some((first, end - 1)),
        };
    }
    let (from, to) = open?;
    ranges.push(from, to);
    Some(ranges)
}

/// The receiver: the half-connection whose data comes here.
#[derive(Debug, Default)]
pub struct Receiver {
    numbers: Numbers,
    half: Half,
}

#[derive(Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "one per connection")]
enum Half {
    /// CCID 2, and before it is settled (RFC 4341 §6): data packets since the last acknowledgement, when the next is due.
    #[default]
    Waiting,
    Two {
        count: u64,
        due: Option<Instant>,
    },
    Three {
        tfrc: TfrcReceiver,
        /// Feedback that waits for a packet: p and X_recv.
        feedback: Option<(f64, Rate)>,
    },
}

impl Receiver {
    /// As long as TCP holds an acknowledgement back.
    const DELAY: Duration = Duration::from_millis(200);

    /// The first packet of the other end had this number.
    pub fn begin(&mut self, isr: Seq) {
        self.numbers.highest = isr;
    }

    /// The other end's CCID is settled.
    pub fn establish(&mut self, ccid: u8) {
        self.half = match ccid {
            3 => Half::Three {
                tfrc: TfrcReceiver::new(true),
                feedback: None,
            },
            _ => Half::Two {
                count: 0,
                due: None,
            },
        };
    }

    /// A valid packet came, with what its NDP Count says.
    pub fn on_packet(&mut self, now: Instant, packet: &Packet<'_>, ndp: Option<u64>, ratio: u64) {
        let before = self.numbers.highest;
        let data = packet.kind.is_data();
        let number = self.numbers.on_packet(packet.seq, data, ndp);
        match &mut self.half {
            Half::Waiting => {}
            Half::Two { count, due } => {
                *count += u64::from(data);
                if data {
                    let in_order = packet.seq == before.plus(1);
                    let at_once = !in_order || *count >= ratio.max(1);
                    let at = if at_once { now } else { now + Self::DELAY };
                    *due = Some(due.map_or(at, |due| due.min(at)));
                }
            }
            Half::Three { tfrc, .. } => {
                if let Some(sequence) = number {
                    tfrc.on_arrival(
                        now,
                        Arrival {
                            sequence,
                            bytes: packet.data.len() as u32,
                            rtt: None,
                            window: Some(packet.ccval),
                            marked: false,
                        },
                    );
                }
            }
        }
    }

    /// Makes feedback that is due.
    pub fn poll(&mut self, now: Instant) {
        if let Half::Three { tfrc, feedback } = &mut self.half
            && let Some(new) = tfrc.poll_feedback(now)
            && let Report::LossEvents { rate, received } = new.report
        {
            *feedback = Some((rate, received));
        }
    }

    /// Whether an acknowledgement is due.
    pub fn is_due(&self, now: Instant) -> bool {
        match &self.half {
            Half::Waiting => false,
            Half::Two { due, .. } => due.is_some_and(|at| at <= now),
            Half::Three { feedback, .. } => feedback.is_some(),
        }
    }

    /// When one is, unless a packet comes before.
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.half {
            Half::Waiting => None,
            Half::Two { due, .. } => *due,
            Half::Three { tfrc, .. } => tfrc.next_timeout(),
        }
    }

    /// Appends the options of an acknowledgement; `held` is the time since the acknowledged packet came.
    pub fn write(&mut self, held: Duration, out: &mut Vec<u8>) {
        match &mut self.half {
            Half::Waiting => {}
            Half::Two { count, due } => {
                (*count, *due) = (0, None);
                Opt::ElapsedTime(held).write(out);
            }
            Half::Three { tfrc, feedback } => {
                let Some((p, received)) = feedback.take() else {
                    return;
                };
                Opt::ElapsedTime(held).write(out);
                let inverse = if p > 0.0 {
                    (1.0 / p).ceil() as u32
                } else {
                    u32::MAX
                };
                Opt::LossEventRate(inverse).write(out);
                let (skip, intervals) = tfrc.loss_intervals();
                let mut data = vec![skip.min(3) as u8];
                for interval in intervals.take(9) {
                    let field = |n: u64| (n.min((1 << 23) - 1) as u32).to_be_bytes();
                    for figure in [interval.lossless, interval.lossy, interval.length as u64] {
                        data.extend(&field(figure)[1..]);
                    }
                }
                Opt::LossIntervals(&data).write(out);
                let bytes = u32::try_from(received.bps() / 8).unwrap_or(u32::MAX);
                Opt::ReceiveRate(bytes).write(out);
            }
        }
    }
}

/// Numbers of the data packets that come, from 0: packets without data take part in sequence numbers, not in these.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    highest: Seq,
    /// Data packets up to the highest, those that are missing included.
    count: u64,
}

impl Numbers {
    /// A packet came, and `ndp` without data were sent directly before it. Its number, if it has data.
    fn on_packet(&mut self, seq: Seq, data: bool, ndp: Option<u64>) -> Option<u64> {
        let ahead = seq.since(self.highest);
        let Ok(gap) = u64::try_from(ahead - 1) else {
            // It comes late; that packets without data came in between is rare enough.
            return self
                .count
                .checked_sub(1 + ahead.unsigned_abs())
                .filter(|_| data);
        };
        // A missing packet had data, unless its successor says otherwise (RFC 4342 §6.1).
        self.count += gap - ndp.unwrap_or(0).min(gap) + u64::from(data);
        self.highest = seq;
        data.then(|| self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_packets_are_numbered_without_those_between() {
        let mut numbers = Numbers {
            highest: Seq::new(9),
            count: 0,
        };
        let mut on = |seq, data, ndp| numbers.on_packet(Seq::new(seq), data, ndp);
        assert_eq!(on(10, true, None), Some(0));
        assert_eq!(on(11, false, None), None);
        assert_eq!(on(12, true, None), Some(1));
        // Two are missing, one of which had no data.
        assert_eq!(on(15, true, Some(1)), Some(3));
        assert_eq!(on(13, true, None), Some(1));
        assert_eq!(on(16, true, None), Some(4));
    }

    #[test]
    fn ack_vectors_become_ranges_of_data_packets() {
        let mut sent = Sent::default();
        for seq in [10, 11, 13, 14, 16] {
            sent.push(Seq::new(seq), 3);
        }
        let ranges = |list: &[(u64, u64)]| {
            let list = list.iter().map(|&(a, b)| (Seq::new(a), Seq::new(b)));
            acks(&sent, list).map(|r| r.iter().collect::<Vec<_>>())
        };
        // 12 had no data: that it is missing parts nothing.
        assert_eq!(ranges(&[(13, 16), (9, 11)]), Some(vec![(0, 4)]));
        assert_eq!(
            ranges(&[(16, 16), (13, 13), (10, 10)]),
            Some(vec![(4, 4), (2, 2), (0, 0)])
        );
        assert_eq!(ranges(&[(12, 12)]), None);
        assert_eq!(sent.ccval(Seq::new(12)), Some(3));
        assert_eq!(sent.ccval(Seq::new(9)), None);
    }
}
