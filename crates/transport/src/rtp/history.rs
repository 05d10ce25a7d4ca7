// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record of sent packets, to be compared with the receiver's reports; and the receiver's clock.

use makeway_core::units::{Duration, Instant};
use thiserror::Error;

/// More packets could not be told apart by 16 bits.
pub(super) const MOST_BITS: u32 = 15;
/// A report on a packet that left this long ago may still come; chosen by us.
const LATEST: Duration = Duration::from_secs(4);

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its number among all packets of the sender.
    pub sequence: u64,
    pub at: Instant,
    /// Index of its stream, and its RTP sequence number there.
    pub stream: u8,
    pub rtp: u16,
    /// Payload.
    pub bytes: u32,
    /// Whether a report told its arrival before.
    pub arrived: bool,
}

/// A receiver's report on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Of one that was sent and not reported as arrived before.
    New(Sent),
    /// Of one that is known to have arrived.
    Again,
    /// Of one that was sent so long ago that it is forgotten.
    Forgotten,
}

/// The last packets that were sent. Its memory is taken when it is made.
#[derive(Clone, Debug)]
pub(super) struct History {
    packets: Box<[Option<Sent>]>,
    /// By stream and RTP sequence number: the number among all.
    by_rtp: Vec<Box<[u64]>>,
    next: u64,
    /// Packets that are remembered where they leave quickly.
    most: usize,
}

impl History {
    /// Remembers 2^`bits` packets, and up to 2^`most` where they leave quickly; 2^15 at most.
    pub fn new(streams: usize, bits: u32, most: u32) -> Self {
        let len = 1 << bits.min(MOST_BITS);
        Self {
            most: 1 << most.min(MOST_BITS),
            packets: vec![None; len].into_boxed_slice(),
            by_rtp: vec![vec![0; len].into_boxed_slice(); streams],
            next: 0,
        }
    }

    /// Takes the next packet: numbers come in order, without gaps.
    pub fn push(&mut self, sent: Sent) {
        let mut mask = self.packets.len() - 1;
        if let Some(oldest) = self.packets[sent.sequence as usize & mask]
            && mask + 1 < self.most
            && sent.at.saturating_since(oldest.at) < LATEST
        {
            self.grow();
            mask = self.packets.len() - 1;
        }
        self.next = sent.sequence + 1;
        self.packets[sent.sequence as usize & mask] = Some(sent);
        if let Some(numbers) = self.by_rtp.get_mut(usize::from(sent.stream)) {
            numbers[usize::from(sent.rtp) & mask] = sent.sequence;
        }
    }

    /// Twice the room.
    #[cold]
    fn grow(&mut self) {
        let len = self.packets.len() * 2;
        let streams = self.by_rtp.len();
        let old = std::mem::replace(&mut self.packets, vec![None; len].into_boxed_slice());
        self.by_rtp = vec![vec![0; len].into_boxed_slice(); streams];
        for sent in old.into_iter().flatten() {
            self.packets[sent.sequence as usize & (len - 1)] = Some(sent);
            let numbers =
                &mut self.by_rtp[usize::from(sent.stream)][usize::from(sent.rtp) & (len - 1)];
            *numbers = (*numbers).max(sent.sequence);
        }
    }

    /// The full number of a packet with these last 16 bits; `None`: it was not sent yet.
    pub fn extend(&self, sequence: u16) -> Option<u64> {
        let last = self.next.checked_sub(1)?;
        let behind = (last as u16).wrapping_sub(sequence);
        (behind < 0x8000)
            .then(|| last.checked_sub(behind.into()))
            .flatten()
    }

    /// A packet by its number, which was sent.
    pub fn told(&self, sequence: u64) -> Told {
        let found = self.packets[sequence as usize & (self.packets.len() - 1)];
        match found.filter(|sent| sent.sequence == sequence) {
            None => Told::Forgotten,
            Some(sent) if sent.arrived => Told::Again,
            Some(sent) => Told::New(sent),
        }
    }

    /// The number of a packet by its stream and RTP sequence number; `None` if it is not remembered.
    pub fn by_rtp(&self, stream: usize, rtp: u16) -> Option<u64> {
        let mask = self.packets.len() - 1;
        let sequence = self.by_rtp.get(stream)?[usize::from(rtp) & mask];
        let sent = self.packets[sequence as usize & mask]?;
        let found = sent.sequence == sequence && sent.rtp == rtp;
        (found && usize::from(sent.stream) == stream).then_some(sequence)
    }

    /// It is known to have arrived; whether that is new.
    pub fn arrived(&mut self, sequence: u64) -> bool {
        let mask = self.packets.len() - 1;
        match &mut self.packets[sequence as usize & mask] {
            Some(sent) if sent.sequence == sequence => !std::mem::replace(&mut sent.arrived, true),
            _ => false,
        }
    }
}

/// The receiver's clock is not ours: its first report is put here, so that what came before it has a time too.
const FIRST_REPORT: i64 = 60_000_000_000;
/// How far its clock may go from ours after that; chosen by us. Reports beyond it are no reports of now.
const TOLERANCE: u64 = 10_000_000_000;

/// A report whose time cannot be that of a report that comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("has a time that lies {0} from what the receiver's clock can show")]
pub(super) struct WrongTime(pub Duration);

/// Time stamps of reports, which count in their own unit from an unknown start and wrap, as an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteClock {
    /// Ns after which the time stamp begins again.
    wraps: u64,
    /// The last stamp, unwrapped, in ns.
    last: Option<i64>,
    /// Added to unwrapped stamps.
    shift: i64,
    /// Our time at the first report.
    first: Instant,
}

impl RemoteClock {
    pub fn new(wraps: Duration) -> Self {
        Self {
            wraps: wraps.as_nanos(),
            last: None,
            shift: 0,
            first: Instant::ZERO,
        }
    }

    /// The instant, in ns, of a report that comes at `now` with the stamp `ns`, below the wrap. [`RemoteClock::accept`] keeps it.
    pub fn read(&self, now: Instant, ns: u64) -> Result<i64, WrongTime> {
        let Some(last) = self.last else {
            return Ok(FIRST_REPORT);
        };
        let wraps = self.wraps as i64;
        let step = (ns as i64 - last.rem_euclid(wraps)).rem_euclid(wraps);
        let step = if step > wraps / 2 { step - wraps } else { step };
        let at = last + step + self.shift;
        let ours = FIRST_REPORT + now.saturating_since(self.first).as_nanos() as i64;
        match at.abs_diff(ours) {
            wrong if wrong > TOLERANCE => Err(WrongTime(Duration::from_nanos(wrong))),
            _ => Ok(at),
        }
    }

    /// The report that was read was one.
    pub fn accept(&mut self, now: Instant, ns: u64, at: i64) {
        if self.last.is_none() {
            self.first = now;
            self.shift = FIRST_REPORT - ns as i64;
        }
        self.last = Some(at - self.shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sequence: u64, stream: u8, rtp: u16) -> Sent {
        Sent {
            sequence,
            at: Instant::ZERO,
            stream,
            rtp,
            bytes: 1,
            arrived: false,
        }
    }

    #[test]
    fn sixteen_bits_are_the_last_packet_with_them_that_was_sent() {
        let mut history = History::new(1, 4, 4);
        assert_eq!(history.extend(0), None);
        history.push(sent(0, 0, 9));
        assert_eq!((history.extend(0), history.extend(1)), (Some(0), None));
        assert_eq!(history.extend(0xffff), None);
        history.push(sent(70_000, 0, 9));
        assert_eq!(history.extend(70_000_u64 as u16), Some(70_000));
        assert_eq!(history.extend(70_001_u64 as u16), None);
        assert_eq!(history.extend(69_999_u64 as u16), Some(69_999));
    }

    #[test]
    fn a_packet_arrives_once_and_is_forgotten_later() {
        let mut history = History::new(1, 2, 2);
        for n in 0..4 {
            history.push(sent(n, 0, n as u16));
        }
        assert_eq!(history.told(1), Told::New(sent(1, 0, 1)));
        assert!(history.arrived(1) && !history.arrived(1));
        assert_eq!(history.told(1), Told::Again);
        history.push(sent(4, 0, 4));
        assert_eq!(history.told(0), Told::Forgotten);
        assert!(!history.arrived(0));
        assert_eq!(history.told(4), Told::New(sent(4, 0, 4)));
    }

    #[test]
    fn packets_that_leave_quickly_are_remembered_for_long() {
        let mut history = History::new(2, 4, MOST_BITS);
        for n in 0..1000 {
            let at = Instant::from_nanos(n * 100_000);
            let (stream, rtp) = ((n % 2) as u8, (n / 2) as u16);
            history.push(Sent {
                at,
                ..sent(n, stream, rtp)
            });
        }
        for n in 0..1000 {
            assert!(matches!(history.told(n), Told::New(sent) if sent.sequence == n));
            assert_eq!(history.by_rtp(n as usize % 2, (n / 2) as u16), Some(n));
        }
        for n in 1000..200_000 {
            history.push(sent(n, 0, n as u16));
        }
        assert_eq!(history.packets.len(), 1 << MOST_BITS);
    }

    #[test]
    fn streams_have_their_own_numbers() {
        let mut history = History::new(2, 4, 4);
        history.push(sent(0, 0, 65_535));
        history.push(sent(1, 1, 65_535));
        history.push(sent(2, 0, 0));
        assert_eq!(history.by_rtp(0, 65_535), Some(0));
        assert_eq!(history.by_rtp(1, 65_535), Some(1));
        assert_eq!(history.by_rtp(0, 0), Some(2));
        assert_eq!(history.by_rtp(1, 0), None);
        assert_eq!(history.by_rtp(2, 0), None);
    }

    #[test]
    fn a_receivers_clock_goes_on_past_its_wrap_and_may_not_jump() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut clock = RemoteClock::new(Duration::from_millis(60_000));
        let mut report = |now, stamp: u64| {
            let ns = stamp * 1_000_000;
            let at = clock.read(now, ns)?;
            clock.accept(now, ns, at);
            Ok::<_, WrongTime>(at / 1_000_000)
        };
        assert_eq!(report(at(500), 59_950), Ok(60_000));
        assert_eq!(report(at(600), 50), Ok(60_100));
        assert_eq!(report(at(550), 0), Ok(60_050));
        assert!(report(at(700), 20_050).is_err());
        assert_eq!(report(at(700), 150), Ok(60_200));
    }
}
