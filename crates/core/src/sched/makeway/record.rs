// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a flow's behaviour, and the class that follows from it: the rules of the table in [`super`], as functions of
//! time, arrivals and losses.

mod question;

use crate::sched::standing::{Class, Reason, Standing};
use crate::units::{Duration, Instant};
use question::{ASKED_LEN, Question};

/// How long a flow is on trial, of which the second half without an offence makes it stand; and half of how long it
/// may stay new at all.
const TRIAL: Duration = Duration::from_secs(2);
/// A queue that has not been empty for longer stands.
pub(crate) const STANDS: Duration = Duration::from_millis(250);
/// Time for which the queue of a flow may stand: at first, which congestion control that responds to delay needs, and the most.
const CREDIT: i64 = Duration::from_secs(2).as_nanos() as i64;
const CREDIT_MOST: i64 = Duration::from_secs(8).as_nanos() as i64;
/// Seconds in which the queue does not stand that earn one in which it may.
const EARNS: u64 = 4;
/// Seconds of good standing that take a demerit away.
const REDEEMS: Duration = Duration::from_secs(8);
/// Demerits of a flow at first, and at most: 2^n seconds without an offence bring a bulk flow up.
const DEMERITS: u8 = 2;
const DEMERITS_MOST: u8 = 6;
/// Up to here, 2^n seconds as bulk do.
const PAROLE: u8 = 2;
/// Windows in which a flow's bytes are counted are of 2^29 ns, half a second.
pub const WINDOW_BITS: u32 = 29;
/// TCP's rate (Floyd and Fall 1999) that many times over is no TCP's.
const NO_TCP: u64 = 8;
/// The least RTT that is believed, and the longest wait that counts, in units of 2^16 ns: 20 ms and 500 ms.
const RTT_LEAST: u64 = Duration::from_millis(20).as_nanos() >> 16;
const WAIT_MOST: u64 = Duration::from_millis(500).as_nanos() >> 16;
/// Packets of a window and starving windows in a row from which the test is trusted; as many times as many if the flow brings more than TCP would, but
/// not [`NO_TCP`] times as much.
const PACKETS: u32 = 16;
const WINDOWS: u8 = 2;
const COUNTS: u8 = 4;
/// Each time that a flow grew on probation doubles the windows of the next, so often at most: to 17 s.
const GREW_MOST: u8 = 4;
/// No flow is asked below this part of the link, unless those in standing are crowded and its packets are large.
const HOG: u64 = 8;
/// A new flow that is no smaller and has not come to standing in twice [`TRIAL`] is asked in the next window, and is bulk then if it was not.
const LATEST: Duration = Duration::from_secs(5);
/// Windows in a row in which a bulk flow loses half of its packets and does not fit, after which it floods.
const FLOODS: u8 = 4;
/// Silent windows for which a flow in standing may bring later what it could have brought in them, at most.
const SILENT_MOST: u32 = 8;

/// The link's departures in the last whole window, and its load now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// Bytes.
    pub sent: u64,
    /// Bytes of flows in good standing, and of new ones, among `sent`.
    pub standing: u64,
    pub new: u64,
    /// Whether the buffer was never empty in that window: bulk waits, or those that go first have more than the link.
    pub contended: bool,
    /// Whether it was empty, and no bulk flow had packets waiting.
    pub quiet: bool,
    /// Whether it was never empty, and flows in standing had packets waiting for all of that window; or those hold most of the buffer.
    pub crowded: bool,
    /// Bytes of flows that rose to standing or probation in that window or since, of which `standing` has none or a part.
    pub raised: u64,
    /// Whether bulk flows of other users have packets waiting, or had while packets of flows in standing left, in that window or since.
    pub others: bool,
}

impl Link {
    /// Flows that go before bulk leave half to it, and could have more.
    fn has_room(&self) -> bool {
        (self.standing + self.new) * 2 <= self.sent
    }

    /// A flow that brings `came` in a window can go first beside those in standing: within 9/10 of the link. While bulk of other users
    /// waits, which is owed 3/8, it is 3/5, where those in standing bring an eighth that they could lose.
    fn fits(&self, came: u32) -> bool {
        let standing = self.standing + self.raised;
        let part = match self.others && standing * 8 > self.sent {
            true => 6,
            false => 9,
        };
        !self.crowded && (standing + u64::from(came)) * 10 <= self.sent * part
    }
}

/// One flow's, of which each packet reads all: 56 bytes, which fit a line of the cache. The rest of it is [`Past`].
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Since when it is in its class, or has a demerit less.
    since: Instant,
    /// Since when it has had packets waiting.
    busy: Instant,
    /// When a packet of it last came or left.
    seen: Instant,
    /// Packets that wait.
    pub packets: u32,
    /// The window, and what came in it: bytes, packets, the shortest wait in units of 2^16 ns; [`Past`] has those lost.
    window: u32,
    came: u32,
    arrivals: u32,
    wait: u32,
    pub class: Class,
    known: bool,
    question: Question,
    demerits: u8,
    /// Ns for which its queue may still stand, in standing or on probation.
    credit: i64,
}

/// Earlier behaviour of a flow, which is read as a window or its class ends.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// When it last lost a packet to a queue, was marked, or had a queue that stood.
    offence: Instant,
    /// Since when it is in its class, and why: to be read, and nothing follows from it.
    entered: Instant,
    reason: Reason,
    /// Bytes of all that went first in the windows of `own`, of which each counts twice as much as the one before.
    beside: u64,
    /// Bytes in the window before.
    last: u32,
    /// The most bytes that it brought in a window that was not crowded; in standing this grows by an eighth in a window at most.
    peak: u32,
    /// Bytes of a window above which the flow is asked: half as much again as it has shown.
    proven: u32,
    /// Packets that were lost in this window.
    losses: u32,
    /// Packets that waited as the window began.
    held: u32,
    /// The most bytes that it brought in each of two windows in a row while it could have brought more.
    own: u32,
    /// The most that `own` grows to in standing beside bulk: twice what it was at first. TCP goes on growing.
    own_most: u32,
    /// Bytes of the window in which it was asked last.
    before: u32,
    /// Bytes of the window that was compared, if it fell by an eighth.
    fell: u32,
    starved: u8,
    /// How often it grew on probation, at most [`GREW_MOST`].
    grew: u8,
    /// Large packets since one was taken to ask.
    due: u8,
    /// Silent windows before this one, at most [`SILENT_MOST`].
    silent: u8,
    /// Windows in a row that make a flood, at most [`FLOODS`].
    drowned: u8,
    /// In the last window it brought more than [`HOG`] of the link.
    hogs: bool,
    /// In the last window its packets had [`ASKED_LEN`] on average.
    is_large: bool,
    /// The buffer took a packet of it while it had more than half of the link and no bulk waited: what it brought then is as much as there was.
    filled: bool,
    /// It passed a test, or probation.
    tested: bool,
}

/// The window of `now`.
pub fn window(now: Instant) -> u32 {
    // 2^61 ns are 73 years.
    (now.as_nanos() >> WINDOW_BITS) as u32
}

/// Half as much again.
fn half_more(bytes: u32) -> u32 {
    bytes.saturating_add(bytes / 2)
}

impl Past {
    /// Bulk that ignores its losses, and does not fit.
    pub fn floods(&self) -> bool {
        self.drowned == FLOODS
    }

    /// Bytes that it may bring in a window: those of the last one, or its peak. Of packets that are rare, few or none may be in one window.
    pub fn most(&self) -> u32 {
        self.last.max(self.peak)
    }

    /// Bytes that it brings in a window: those of the last one, as far as it has brought or shown them before.
    pub fn usual(&self) -> u32 {
        self.last.min(self.peak.max(self.proven))
    }

    /// It lost `packets`, or was marked.
    pub fn on_loss(&mut self, now: Instant, packets: u32) {
        self.losses += packets;
        self.offence = now;
    }

    /// A full buffer took a packet of it while no bulk waited, and the link sent `sent` in the last window.
    pub fn on_full(&mut self, sent: u64) {
        self.filled |= u64::from(self.last) * 2 > sent;
    }
}

impl Record {
    /// A packet comes: whether the flow is unknown, or has been silent for so long that it is.
    pub fn is_forgotten(&self, now: Instant) -> bool {
        let silent = now.saturating_since(self.seen);
        self.packets == 0 && (!self.known || silent > self.class.remembered())
    }

    /// A new flow; what it did wrong is not forgotten.
    pub fn begin(&mut self, now: Instant, past: &mut Past) {
        *past = Past {
            entered: now,
            offence: now,
            ..Past::default()
        };
        *self = Self {
            known: true,
            demerits: if self.known { self.demerits } else { DEMERITS },
            since: now,
            busy: now,
            seen: now,
            credit: CREDIT,
            window: window(now),
            wait: u32::MAX,
            ..Self::default()
        };
    }

    /// Credit for the time since the last packet, before the next comes or goes.
    pub fn account(&mut self, now: Instant, past: &mut Past) {
        let stands_from = match self.packets {
            0 => now,
            _ => (self.busy + STANDS).max(self.seen).min(now),
        };
        let good = stands_from.saturating_since(self.seen).as_nanos();
        let stood = now.saturating_since(stands_from).as_nanos();
        if stood > 0 {
            past.offence = now;
        }
        // Of others it begins anew as they come to go first.
        if self.goes_first() {
            // Both are below 2^63.
            self.credit = (self.credit + (good / EARNS) as i64).min(CREDIT_MOST) - stood as i64;
        }
        self.seen = now;
    }

    /// Whether it is in good standing or on probation.
    pub fn goes_first(&self) -> bool {
        self.class.goes_first()
    }

    /// Whether it is new and has lost nothing.
    fn is_clean(&self, past: &Past) -> bool {
        self.class == Class::New && past.offence == self.since
    }

    /// Whether its queue stands.
    pub fn stands(&self, now: Instant) -> bool {
        self.packets > 0 && now.saturating_since(self.busy) > STANDS
    }

    /// A packet of `len` came.
    pub fn on_arrival(&mut self, len: u32) {
        self.came = self.came.saturating_add(len);
        self.arrivals += 1;
    }

    /// And waits.
    pub fn on_queued(&mut self, now: Instant) {
        if self.packets == 0 {
            self.busy = now;
        }
        self.packets += 1;
    }

    /// A packet that waited for `wait` leaves; in standing, its queue does not stand if that is less than `short`.
    pub fn on_departure(&mut self, now: Instant, wait: Duration, short: Duration) {
        if self.goes_first() && wait < short {
            self.busy = now;
        }
        let wait = (wait.as_nanos() >> 16).min(WAIT_MOST) as u32;
        self.wait = self.wait.min(wait);
    }

    /// Since when it is in its class, or has a demerit less.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Since when it has had packets waiting.
    pub fn busy(&self) -> Instant {
        self.busy
    }

    /// Whether [`judge`](Self::judge) would change nothing, on any link: mostly it would, and need not be called.
    pub fn is_settled(&self, now: Instant, past: &Past) -> bool {
        let age = now.saturating_since(self.since);
        window(now) == self.window
            && match self.class {
                Class::New => age <= TRIAL && !self.stands(now),
                Class::Standing => {
                    let usual = past.peak.saturating_add(past.peak / 4);
                    let is_usual = self.came <= usual.max(past.proven);
                    is_usual && self.credit > 0 && age <= REDEEMS
                }
                Class::Bulk => {
                    let sentence = Duration::from_secs(1 << self.demerits);
                    let clean = now.saturating_since(past.offence);
                    clean <= sentence && (self.demerits > PAROLE || age <= sentence)
                }
                Class::Probation => false,
            }
    }

    /// The class that it should be in, as a packet of it comes.
    pub fn judge(&mut self, now: Instant, link: Link, past: &mut Past) -> Class {
        let asked = self.turn_window(now, link, past);
        let verdict = asked.map_or_else(|| self.by_queue(now, link, past), |(class, _)| class);
        if verdict != self.class {
            let reason = match (asked, self.class, verdict) {
                (Some((_, reason)), ..) => reason,
                (None, Class::Probation, Class::Standing) => Reason::Starved,
                (None, _, Class::New) => Reason::Released,
                (None, _, Class::Standing) => Reason::NoQueue,
                (None, Class::New, _) if !self.stands(now) => Reason::Unproven,
                (None, ..) => {
                    let stood = now.saturating_since(self.busy).as_nanos() / 1_000_000;
                    Reason::StandingQueue(u32::try_from(stood).unwrap_or(u32::MAX))
                }
            };
            self.change(now, verdict, reason, past);
        }
        verdict
    }

    /// Makes a new flow that waits bulk, as an arrival would; whether it did.
    pub fn waits_in_vain(&mut self, now: Instant, past: &mut Past) -> bool {
        let falls = self.stands(now);
        if falls {
            let stood = now.saturating_since(self.busy).as_nanos() / 1_000_000;
            let stood = u32::try_from(stood).unwrap_or(u32::MAX);
            self.change(now, Class::Bulk, Reason::StandingQueue(stood), past);
        }
        falls
    }

    /// Its class, why, and since when; `None` before its first packet.
    pub fn standing(&self, past: &Past) -> Option<Standing> {
        self.known.then_some(Standing {
            class: self.class,
            reason: past.reason,
            since: past.entered,
        })
    }

    /// By its queue and its losses.
    fn by_queue(&mut self, now: Instant, link: Link, past: &mut Past) -> Class {
        let age = now.saturating_since(self.since);
        let clean = now.saturating_since(past.offence);
        let asked = self.question != Question::None;
        let fits = !link.contended || link.fits(past.most());
        match self.class {
            Class::New if self.stands(now) => Class::Bulk,
            Class::New if age > TRIAL && clean > TRIAL / 2 && !asked && fits => Class::Standing,
            // Asked, it went on: its losses are the doing of others that begin.
            Class::New if age > TRIAL * 2 && !asked => match past.proven > 0 && fits {
                true => Class::Standing,
                false if past.hogs && age <= LATEST => Class::New,
                false => Class::Bulk,
            },
            Class::Standing | Class::Probation if self.credit <= 0 => Class::Bulk,
            Class::Probation if age > TRIAL * 2 => {
                (past.grew, past.tested) = (0, true);
                Class::Standing
            }
            Class::Standing if age > REDEEMS => {
                self.demerits = self.demerits.saturating_sub(1);
                self.since = now;
                Class::Standing
            }
            Class::Bulk => {
                let sentence = Duration::from_secs(1 << self.demerits);
                let parole = self.demerits <= PAROLE && age > sentence;
                let is_its_own = !past.hogs || past.last <= half_more(past.own);
                match clean > sentence && is_its_own || parole {
                    true => Class::New,
                    false => Class::Bulk,
                }
            }
            same => same,
        }
    }

    /// By what it brought in the window that ended.
    fn turn_window(
        &mut self,
        now: Instant,
        link: Link,
        past: &mut Past,
    ) -> Option<(Class, Reason)> {
        let at = window(now);
        let exceeds = self.exceeds(link, past);
        if at == self.window && exceeds {
            return Some((Class::Bulk, Reason::Grew));
        }
        if at == self.window {
            return self.grows(link, past).then(|| {
                past.grew = (past.grew + 1).min(GREW_MOST);
                (Class::Bulk, Reason::Grew)
            });
        }
        let whole = at == self.window + 1;
        let came = self.came;
        // TCP that overshot falls; a stream goes on.
        let steady = u64::from(came) * 4 >= u64::from(past.last) * 3 && past.last > 0;
        // Packets by which its queue is longer than at the window's begin: a deep buffer keeps what a shallow one drops.
        let grown = self.packets.saturating_sub(past.held);
        let starves = if whole && steady {
            self.starves(grown, past)
        } else {
            0
        };
        let resumes = past.last == 0;
        let drowns = whole && self.arrivals >= PACKETS && past.losses * 2 >= self.arrivals;
        if !link.crowded {
            let most = match self.class {
                Class::New => u32::MAX,
                // Each of its windows was crowded so far.
                _ if past.peak == 0 => u32::MAX,
                _ => past.peak.saturating_add(past.peak / 8),
            };
            past.peak = past.peak.max(came.min(most));
        }
        past.silent = at.wrapping_sub(self.window + 1).min(SILENT_MOST) as u8;
        let has_room = link.quiet || link.has_room();
        if whole && has_room && matches!(self.class, Class::New | Class::Standing) {
            let most = match self.class {
                Class::Standing if !link.quiet => past.own_most,
                _ => u32::MAX,
            };
            let brought = came.min(past.last).min(most);
            past.own = past.own.max(brought);
            past.beside = past.beside.midpoint(link.standing + link.new);
        }
        past.last = if whole { came } else { 0 };
        past.is_large = whole && came / self.arrivals.max(1) >= ASKED_LEN;
        past.hogs = whole && link.sent > 0 && u64::from(came) * HOG >= link.sent;
        past.starved = if starves > 0 {
            past.starved + starves
        } else {
            0
        };
        (
            self.window,
            self.came,
            self.arrivals,
            past.losses,
            self.wait,
        ) = (at, 0, 0, 0, u32::MAX);
        past.held = self.packets;
        if self.class == Class::Bulk {
            let windows = (WINDOWS * COUNTS) << past.grew;
            past.starved = past.starved.min(windows);
            let fits = link.fits(came);
            past.drowned = match drowns && !fits {
                true => (past.drowned + 1).min(FLOODS),
                false => 0,
            };
            let rises = past.starved == windows && fits;
            return rises.then(|| {
                past.proven = half_more(came);
                (Class::Probation, Reason::Starved)
            });
        }
        (past.starved, past.drowned) = (0, 0);
        if whole && exceeds {
            return Some((Class::Bulk, Reason::Grew));
        }
        if self.class == Class::Probation {
            return None;
        }
        let is_overdue = self.class == Class::New && now.saturating_since(self.since) > TRIAL * 2;
        let reason = self.answer(whole, resumes, is_overdue, link, past)?;
        Some((Class::Bulk, reason))
    }

    /// In standing while those are crowded, it has brought a quarter more than it ever did while they were not: flows that stand by sending
    /// next to nothing cannot take the link together. After a silence it may bring what was held back. One with half of
    /// their traffic is for the question.
    fn exceeds(&self, link: Link, past: &Past) -> bool {
        let is_most = u64::from(past.last.max(self.came)) * 2 >= link.standing;
        let windows = 1 + u32::from(past.silent);
        let usual = past
            .peak
            .saturating_add(past.peak / 4)
            .saturating_mul(windows);
        self.class == Class::Standing
            && link.crowded
            && !is_most
            && self.came > usual.max(past.proven)
    }

    /// On probation, it has brought more in this window than it does in one when it starves. Its arrivals follow its share, so their
    /// rate is not its own: TCP that overshot, or that ignores loss. It may after a silence, when it brings what a stall held back.
    fn grows(&self, link: Link, past: &Past) -> bool {
        let hogs = u64::from(self.came) * HOG >= link.sent;
        self.class == Class::Probation && past.last > 0 && hogs && self.came > past.proven
    }

    /// Whether it starves in this window, and then how much that counts, 1 or [`COUNTS`]. It brings more than TCP would at its loss and its RTT
    /// (Floyd and Fall 1999: `1.22 / (RTT sqrt(p))` packets a second), or [`NO_TCP`] times as much, squared: `arrivals unserved > (1.22 window / RTT)^2`.
    /// Its queue has `grown` by packets that are as good as lost: TCP's grows by one in a round trip, or ends its slow start before the second
    /// window, since CoDel drops after 100 ms.
    fn starves(&self, grown: u32, past: &Past) -> u8 {
        let rtt = u64::from(self.wait).min(WAIT_MOST) + RTT_LEAST;
        let unserved = u64::from(past.losses) + u64::from(grown);
        let product = u64::from(self.arrivals) * unserved;
        let exceeds = |times: u64| {
            let windows = times * (1 << (WINDOW_BITS - 16)) / rtt;
            product * 100 > windows * windows * 149
        };
        let loses = |part: u64| unserved * part >= u64::from(self.arrivals);
        // In such loss TCP waits for timeouts.
        let drowns = self.arrivals >= PACKETS * 2 && past.losses * 4 >= self.arrivals * 3;
        match self.arrivals >= PACKETS {
            true if drowns || loses(4) && exceeds(NO_TCP) => COUNTS,
            true if loses(5) && exceeds(1) => 1,
            _ => 0,
        }
    }

    fn change(&mut self, now: Instant, class: Class, reason: Reason, past: &mut Past) {
        if class == Class::Bulk {
            self.demerits = (self.demerits + 1).min(DEMERITS_MOST);
            self.question = Question::None;
        }
        if (self.class, class) != (Class::Probation, Class::Standing) {
            self.credit = CREDIT;
        }
        if class == Class::Standing {
            past.own_most = past.own.max(past.last).saturating_mul(2);
        }
        (self.class, self.since, past.offence, past.starved) = (class, now, now, 0);
        (past.entered, past.reason) = (now, reason);
    }
}

#[cfg(test)]
mod tests;
