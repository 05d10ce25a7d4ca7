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
    /// The application's number of it; of an RTX packet, the number of its original among all.
    pub id: u64,
    pub at: Instant,
    /// Index of its stream, and its RTP sequence number there.
    pub stream: u8,
    pub rtp: u16,
    /// Payload.
    pub bytes: u32,
    /// Whether a report told its arrival before.
    pub arrived: bool,
    /// Whether the reporter was told of an arrival because no report spoke of it.
    pub assumed: bool,
}

/// A receiver's report on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Report of a packet that was sent and not reported as arrived before.
    New(Sent),
    /// Report of a packet that is known to have arrived.
    Again,
    /// Report of a packet that was sent so long ago that it is forgotten.
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

    /// No report will speak of it: the packet, unless it is forgotten or its arrival was told.
    pub fn assume(&mut self, sequence: u64) -> Option<Sent> {
        let mask = self.packets.len() - 1;
        let sent = self.packets[sequence as usize & mask].as_mut()?;
        let is_open = sent.sequence == sequence && !sent.arrived && !sent.assumed;
        sent.assumed |= is_open;
        is_open.then_some(*sent)
    }

    /// A packet, unless it is forgotten or known to have arrived.
    pub fn missing(&self, stream: usize, rtp: u16) -> Option<Sent> {
        let sequence = self.by_rtp(stream, rtp)?;
        let sent = self.packets[sequence as usize & (self.packets.len() - 1)]?;
        (!sent.arrived).then_some(sent)
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
/// How far a report may be behind its expected time; chosen by us. Networks delay no report for longer.
const LATE: i64 = 10_000_000_000;
/// How far it may be before it: by as much as the first one came late, GStreamer's by half a second. Chosen by us.
const EARLY: i64 = 1_000_000_000;
/// The receiver's clock may run faster or slower than ours by one part in this, several times what oscillators do; chosen by us.
const DRIFT: i64 = 1000;
/// Reports in succession that agree on another time, by which the receiver's clock has another zero: it was started again, or either
/// machine slept. How near they must be in ns. Both chosen by us.
const AGREEING: u32 = 3;
const NEAR: u64 = 1_000_000_000;

/// A report whose time cannot be that of a report that comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("has a time that lies {0} from what the receiver's clock can show")]
pub(super) struct WrongTime(pub Duration);

/// Time stamps of reports, which count in their own unit from an unknown start and wrap, as an instant.
///
/// A report that comes at `now` is expected at the same time after the last believed one by which `now` is after that. So silence of
/// any length, drift of any duration and wraps in between change nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteClock {
    /// Ns after which the time stamp begins again.
    wraps: i64,
    /// The last believed report.
    last: Option<Believed>,
    /// Refused reports in succession that agree: how far off the earliest, and how many.
    jump: (i64, u32),
}

#[derive(Clone, Copy, Debug)]
struct Believed {
    /// When it came, by our clock, and its expected time by the receiver's.
    now: Instant,
    at: i64,
    /// Added to stamps, modulo the wrap.
    shift: i64,
}

impl Believed {
    fn expected(&self, now: Instant) -> i64 {
        let since = now.saturating_since(self.now).as_nanos();
        self.at
            .saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }
}

impl RemoteClock {
    pub fn new(wraps: Duration) -> Self {
        Self {
            wraps: i64::try_from(wraps.as_nanos()).unwrap_or(i64::MAX),
            last: None,
            jump: (0, 0),
        }
    }

    /// The instant, in ns, of a report that comes at `now` with the stamp `ns`, below the wrap. [`RemoteClock::accept`] keeps it.
    pub fn read(&mut self, now: Instant, ns: u64) -> Result<i64, WrongTime> {
        let ns = ns as i64;
        let Some(last) = &mut self.last else {
            return Ok(FIRST_REPORT);
        };
        let expected = last.expected(now);
        // The nearest time with this stamp.
        let off = (ns.wrapping_add(last.shift).wrapping_sub(expected)).rem_euclid(self.wraps);
        let off = if off > self.wraps / 2 {
            off - self.wraps
        } else {
            off
        };
        if (-LATE..=EARLY).contains(&off) {
            return Ok(expected + off);
        }
        let (other, agreeing) = self.jump;
        self.jump = match off.abs_diff(other) <= NEAR {
            true => (other.max(off), agreeing + 1),
            false => (off, 1),
        };
        if self.jump.1 < AGREEING {
            return Err(WrongTime(Duration::from_nanos(off.unsigned_abs())));
        }
        // The earliest was delayed least, so that none of them seems to be before its time.
        let (earliest, _) = std::mem::take(&mut self.jump);
        last.shift = last.shift.wrapping_sub(earliest);
        Ok(expected + (off - earliest))
    }

    /// The report that was read was one.
    pub fn accept(&mut self, now: Instant, ns: u64, at: i64) {
        self.jump = (0, 0);
        self.last = Some(match self.last {
            None => Believed {
                now,
                at,
                shift: at - ns as i64,
            },
            Some(last) => {
                let expected = last.expected(now);
                let since = now.saturating_since(last.now).as_nanos() as i64 / DRIFT;
                Believed {
                    now: now.max(last.now),
                    at: expected + (at - expected).clamp(-since, since),
                    shift: last.shift,
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sequence: u64, stream: u8, rtp: u16) -> Sent {
        Sent {
            sequence,
            id: sequence,
            at: Instant::ZERO,
            stream,
            rtp,
            bytes: 1,
            arrived: false,
            assumed: false,
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

    const STAMP: Duration = Duration::from_secs(65_536);

    /// A report each 10 s of a receiver whose clock says `theirs` of our seconds, for `hours`: how far off the last was.
    fn run(hours: u64, theirs: impl Fn(f64) -> f64) -> Result<f64, WrongTime> {
        let mut clock = RemoteClock::new(STAMP);
        let mut off = 0.0;
        for n in 0..hours * 360 {
            let now = Instant::from_nanos(n * 10_000_000_000);
            let ns = (theirs(n as f64 * 10.0) * 1e9) as u64 % STAMP.as_nanos();
            let at = clock.read(now, ns)?;
            clock.accept(now, ns, at);
            off = (at - FIRST_REPORT) as f64 / 1e9 - n as f64 * 10.0;
        }
        Ok(off)
    }

    /// 50 ppm are 10 s after 55 h.
    #[test]
    fn a_clock_that_drifts_is_followed_for_ever() {
        for ppm in [50.0, -50.0, 200.0] {
            let off = run(200, |s| 1e7 + s * (1.0 + ppm / 1e6)).unwrap();
            let drift = 200.0 * 3600.0 * ppm / 1e6;
            assert!((off - drift).abs() < 0.1, "{ppm}: {off}, {drift}");
        }
    }

    /// A call that is on hold for longer than half of the wrap, or than several.
    #[test]
    fn silence_of_any_length_is_no_jump() {
        for hours in [1, 10, 40] {
            let mut clock = RemoteClock::new(STAMP);
            let pause = hours * 3_600_000_000_000;
            for now in [0, 100_000_000, pause, pause + 100_000_000] {
                let stamp = (now + 5_000_000_000) % STAMP.as_nanos();
                let at = clock.read(Instant::from_nanos(now), stamp);
                assert_eq!(at, Ok(FIRST_REPORT + now as i64), "{hours} h");
                clock.accept(Instant::from_nanos(now), stamp, at.unwrap());
            }
        }
    }

    /// Reads reports that come at a time with a stamp: both, and what it gives, in ms.
    fn reader() -> impl FnMut(u64, u64) -> Result<i64, WrongTime> {
        let mut clock = RemoteClock::new(STAMP);
        move |now, stamp| {
            let (now, ns) = (Instant::from_nanos(now * 1_000_000), stamp * 1_000_000);
            let at = clock.read(now, ns);
            if let Ok(at) = at {
                clock.accept(now, ns, at);
            }
            at.map(|at| (at - FIRST_REPORT) / 1_000_000)
        }
    }

    /// Our machine slept for 5 s, or the receiver's clock was set forward. No network makes a report early.
    #[test]
    fn a_report_that_comes_early_has_another_zero_and_a_late_one_has_not() {
        let mut read = reader();
        assert_eq!(read(0, 900_000), Ok(0));
        // The first came late by half a second.
        assert_eq!(read(50, 900_550), Ok(550));
        assert!(read(100, 905_100).is_err());
        assert!(read(150, 905_150).is_err());
        assert_eq!(read(200, 905_200), Ok(200));
        assert_eq!(read(5250, 905_250), Ok(250));
    }

    /// A receiver that was started again, or whose machine slept: reports that agree are its new time.
    #[test]
    fn a_clock_with_another_zero_is_believed_from_the_third_report_on() {
        let mut read = reader();
        assert_eq!(read(0, 900_000), Ok(0));
        assert_eq!(read(50, 900_050), Ok(50));
        // Lies that do not agree change nothing.
        assert!(read(100, 20_000).is_err());
        assert!(read(150, 400_000).is_err());
        assert!(read(200, 700_000).is_err());
        assert_eq!(read(250, 900_250), Ok(250));
        assert!(read(300, 7).is_err());
        assert!(read(350, 55).is_err());
        assert_eq!(read(400, 107), Ok(400));
        assert_eq!(read(450, 150), Ok(443));
    }
}
