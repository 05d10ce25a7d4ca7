// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending end: what to send and when. `acks` hears of arrivals, `loss` reacts to their absence.
//!
//! | RFC | here |
//! | --- | --- |
//! | SND.UNA, SND.NXT (RFC 9293) | `una`, `nxt` |
//! | HighData + 1 (RFC 6675) | `max`: above `nxt` while sending starts over after a timeout |
//! | FlightSize (RFC 5681 §2) | `max - una` |
//! | RecoveryPoint, `recover` | `recovery`, `recover` |

mod acks;
mod loss;
mod timer;

use super::congestion::Window;
use super::prr::Prr;
use super::rack::Rack;
use super::scoreboard::{DUP_THRESH, Scoreboard};
use super::{Config, Halved, LimitedTransmit, Recovery, Segment, Variant};
use makeway_core::rate::rto::{Rto, RtoParams};
use makeway_core::units::{Bytes, Duration, Instant};
use timer::{Probe, Timer};

/// Sends a stream of bytes.
#[derive(Clone, Debug)]
pub struct Sender {
    una: u64,
    nxt: u64,
    max: u64,
    /// Bytes that the application has given.
    end: u64,
    /// The receiver's window from `una` on.
    receive_window: u64,
    window: Window,
    mss: u32,
    variant: Variant,
    halved: Halved,
    counts_delivered: bool,
    timestamps: bool,
    limited_transmit: LimitedTransmit,
    ecn: bool,

    /// The first missing segment goes out before anything else, regardless of the window.
    retransmit: bool,
    /// The window, and nothing else, held back the last poll.
    cwnd_limited: bool,
    /// The next new segment says that a mark was heard.
    cwr: bool,
    dup_acks: u32,
    /// In fast recovery until this is acknowledged.
    recovery: Option<u64>,
    /// No fast retransmit before more than this is acknowledged (RFC 6582 §3.2).
    recover: Option<u64>,
    /// The first of partial acknowledgements was seen (RFC 6582 §3.2).
    partial: bool,
    /// No further reaction to marks before more than this is acknowledged (RFC 3168 §6.1.2).
    reduced_at: Option<u64>,
    /// `una` at the last timeout.
    timed_out_at: Option<u64>,
    scoreboard: Scoreboard,
    /// The window in a recovery, where it is not reduced at once.
    prr: Option<Prr>,
    /// Losses by the order of sending.
    rack: Option<Box<Rack>>,
    /// With `rack`: the recovery is from a timeout, and the window grows.
    slow_starts: bool,
    /// A tail loss probe is to go out, or has.
    probe: Probe,

    rto: Rto,
    /// A single segment may wait so long for its acknowledgement: TLP.max_ack_delay of RFC 8985 §7.2,
    /// in Linux the least timeout.
    max_ack_delay: Duration,
    /// The event at `expires`.
    timer: Timer,
    expires: Instant,
    last_sent: Instant,
    /// Without timestamps: the end of the segment that is timed, and when it was sent.
    timed: Option<(u64, Instant)>,
    stats: Stats,
}

/// Counters of a sender, in segments and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments sent, those sent again included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Fast retransmits, each of them the start of a recovery.
    pub fast_retransmits: u64,
    /// Reductions for congestion marks.
    pub ecn_reductions: u64,
}

impl Sender {
    /// A connection that stands open, with nothing to send.
    pub fn new(config: &Config) -> Self {
        let most_ranges = if config.variant.uses_sack() {
            config.most_ranges()
        } else {
            0
        };
        let mss = config.mss.max(1);
        let recovery = match config.variant.uses_sack() {
            true => config.recovery,
            false => Recovery::Sack,
        };
        Self {
            una: 0,
            nxt: 0,
            max: 0,
            end: 0,
            receive_window: u64::from(config.window_bytes()),
            window: Window::new(config),
            mss,
            variant: config.variant,
            halved: config.halved,
            counts_delivered: config.counts_delivered,
            timestamps: config.timestamps,
            limited_transmit: config.limited_transmit,
            ecn: config.ecn,
            retransmit: false,
            cwnd_limited: false,
            cwr: false,
            dup_acks: 0,
            recovery: None,
            recover: None,
            partial: false,
            reduced_at: None,
            timed_out_at: None,
            scoreboard: Scoreboard::new(mss, most_ranges),
            prr: (recovery != Recovery::Sack).then(Prr::default),
            rack: (recovery == Recovery::RackPrr).then(|| Box::new(Rack::new(mss, most_ranges))),
            slow_starts: false,
            probe: Probe::None,
            rto: Rto::new(RtoParams {
                initial: config.initial_rto,
                min: config.min_rto,
                max: config.max_rto,
                margin: config.min_rto_margin,
                tick: config.tick,
            }),
            max_ack_delay: config.min_rto,
            timer: Timer::Retransmission,
            expires: Instant::FAR_FUTURE,
            last_sent: Instant::ZERO,
            timed: None,
            stats: Stats::default(),
        }
    }

    /// Gives `bytes` more to send.
    pub fn send(&mut self, bytes: Bytes) {
        self.end = self.end.saturating_add(bytes.get());
    }

    /// There is always more to send.
    pub fn send_endless(&mut self) {
        self.end = u64::MAX;
    }

    /// The next segment that may leave now; call until there is none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if self.retransmit {
            return Some(self.retransmit_first(now));
        }
        if self.probe == Probe::Due {
            return self.probe_tail(now);
        }
        if self.recovery.is_some() && self.variant.uses_sack() {
            return self.next_in_recovery(now);
        }
        self.next_in_order(now)
    }

    /// When to call [`Sender::on_timeout`]; always something while data is outstanding.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        (self.expires != Instant::FAR_FUTURE).then_some(self.expires)
    }

    /// Whether everything that was given has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.una == self.end
    }

    /// Congestion window, inflated during Reno's and NewReno's fast recovery.
    pub fn cwnd(&self) -> Bytes {
        Bytes::new(self.window.cwnd)
    }

    /// Slow start threshold.
    pub fn ssthresh(&self) -> Bytes {
        Bytes::new(self.window.ssthresh)
    }

    /// Bytes taken to be in the network: sent and not acknowledged, less what is known to have
    /// arrived or to be lost.
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.flight())
    }

    /// Bytes acknowledged.
    pub fn acked(&self) -> Bytes {
        Bytes::new(self.una)
    }

    /// Payload of a full segment in bytes.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// Whether a fast recovery is under way.
    pub fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    /// Smoothed round-trip time, after a first measurement.
    pub fn srtt(&self) -> Option<Duration> {
        self.rto.srtt()
    }

    /// Retransmission timeout.
    pub fn rto(&self) -> Duration {
        self.rto.value()
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// New data, or after a timeout what is not known to have arrived, as the window allows.
    #[inline]
    fn next_in_order(&mut self, now: Instant) -> Option<Segment> {
        let (seq, len) = self.candidate();
        if len == 0 {
            self.cwnd_limited = false;
            return None;
        }
        if self.una == self.max {
            self.restart_if_idle(now);
        }
        if self.flight() + u64::from(len) > self.window.cwnd + self.allowance() {
            self.cwnd_limited = true;
            return None;
        }
        if seq + u64::from(len) > self.una + self.receive_window {
            self.cwnd_limited = false;
            return None;
        }
        self.nxt = seq + u64::from(len);
        if seq < self.max {
            self.scoreboard.resent_to(self.nxt);
        }
        Some(self.emit(now, seq, len))
    }

    /// The next segment of the stream, as offset and length.
    #[inline]
    fn candidate(&self) -> (u64, u32) {
        let mss = u64::from(self.mss);
        if self.nxt == self.max {
            return (self.nxt, (self.end - self.nxt).min(mss) as u32);
        }
        if self.scoreboard.is_empty() {
            return (self.nxt, (self.max - self.nxt).min(mss) as u32);
        }
        let (seq, len) = self.scoreboard.missing_from(self.nxt, self.max);
        if len > 0 {
            return (seq, len);
        }
        // The rest has arrived.
        (self.max, (self.end - self.max).min(mss) as u32)
    }

    /// RFC 3042: two segments beyond the window, one for each of the first duplicates. With
    /// selective acknowledgements RFC 6675 §5 (3) is the same through [`Sender::flight`].
    #[inline]
    fn allowance(&self) -> u64 {
        if self.dup_acks == 0
            || self.limited_transmit == LimitedTransmit::Off
            || self.recovery.is_some()
            || (self.nxt < self.max && !self.lets_out_again())
            || self.variant.uses_sack()
        {
            return 0;
        }
        u64::from(self.dup_acks.min(2)) * u64::from(self.mss)
    }

    /// Whether limited transmit lets out what was sent before.
    #[inline]
    fn lets_out_again(&self) -> bool {
        self.limited_transmit == LimitedTransmit::Any && self.dup_acks < DUP_THRESH
    }

    /// Bytes in the network, as each variant knows it.
    #[inline]
    fn flight(&self) -> u64 {
        if self.scoreboard.is_empty() && !(self.recovery.is_some() && self.variant.uses_sack()) {
            self.nxt - self.una
        } else if self.recovery.is_some() {
            self.pipe()
        } else if self.nxt < self.max {
            self.nxt - self.una - self.scoreboard.below_resent()
        } else if self.limited_transmit != LimitedTransmit::Off {
            self.max - self.una - self.scoreboard.total()
        } else {
            self.max - self.una
        }
    }

    /// RFC 5681 §4.1: after a timeout's time without data the window is no longer known to fit.
    fn restart_if_idle(&mut self, now: Instant) {
        let idle = now.saturating_since(self.last_sent);
        if self.max > 0 && idle > self.rto.value() {
            self.window.restart(idle);
        }
    }

    #[inline]
    fn emit(&mut self, now: Instant, seq: u64, len: u32) -> Segment {
        let end = seq + u64::from(len);
        let retransmitted = seq < self.max;
        let mut cwr = false;
        self.stats.sent += 1;
        if retransmitted {
            self.stats.retransmitted += 1;
            // Karn: nothing that was sent twice is timed.
            self.timed = None;
        } else {
            cwr = std::mem::take(&mut self.cwr);
            if !self.timestamps && self.timed.is_none() {
                self.timed = Some((end, now));
            }
        }
        self.max = self.max.max(end);
        if self.recovery.is_some()
            && let Some(prr) = &mut self.prr
        {
            prr.on_sent(u64::from(len));
        }
        // RFC 6298 (5.1).
        if self.expires == Instant::FAR_FUTURE {
            self.restart_timer(now);
        }
        self.last_sent = now;
        Segment {
            seq,
            len,
            retransmitted,
            cwr,
            sent_at: now,
        }
    }
}
