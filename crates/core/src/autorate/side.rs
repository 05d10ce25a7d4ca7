// SPDX-License-Identifier: MIT OR Apache-2.0
//! One direction of a link: how its rate falls, returns and searches.

use super::TICK;
use super::meter::Meter;
use super::path::{Excess, Voice, minus};
use super::{Bounds, Direction};
use crate::units::{Bytes, Duration, Instant, Rate};

/// Samples older than this say nothing of now.
const FRESH: Duration = Duration::from_millis(700);
/// Samples of one direction are preferred to those of both for this long.
const PREFERRED: Duration = Duration::from_secs(2);
/// Threshold of a path without noise.
const THRESHOLD: Duration = Duration::from_millis(4);
/// Threshold above which two samples are enough.
const CLEAR: u64 = 2;
/// The newest sample counts as this many times the one before at most, which is of another voice.
const TIMES: u64 = 2;
/// A queue that held packets this long ago limits the search.
const LIMITED: Duration = Duration::from_millis(150);
/// A direction that was backlogged this long ago is under load, and may be the reason of delay.
const LOADED: Duration = Duration::from_millis(1500);
/// So is one that carries this share of its rate, in millionths: the queue of a link that is slower than the rate is
/// not ours, and ours is empty then.
const LOAD: u64 = 250_000;
/// Nor does a queue limit the search that holds a burst now and then, but passes less than this share of the rate.
const USED: u64 = 500_000;
/// Window of those shares.
const LOAD_WINDOW: Duration = Duration::from_millis(500);
/// After so long without load the search begins anew.
const FORGET: Duration = Duration::from_secs(10);
/// Window of the delivered rate.
const WINDOW: Duration = Duration::from_millis(200);
/// Window of arrivals at the time of a cut: short, since older ones are of the link as it was; but of some packets.
const LATEST: Duration = Duration::from_millis(100);
const SOME: u64 = 16;
/// A delay below twice the threshold is of a rate that is not farther above the link's than to this share, in millionths.
const NEAR: u64 = 920_000;
/// Time in which a queue before the link is to be drained.
const DRAIN: Duration = Duration::from_millis(75);
/// Least and most share of the delivered rate that a cut takes, in millionths.
const CUT: (u64, u64) = (60_000, 600_000);
/// A cut that showed no effect is followed by one to this share of the rate, in millionths.
const AGAIN: u64 = 850_000;
/// One, in millionths.
const ONE: u64 = 1_000_000;
/// Time that a cut has to show an effect, beside the delay itself.
const PATIENCE: Duration = Duration::from_millis(350);
/// The rate after bloat lies below the delivered one by this, in millionths.
const BELOW: i64 = 60_000;
/// Time from there back to the delivered rate, CUBIC's K.
const RETURN: Duration = Duration::from_millis(800);
/// Longest of it: a link that stays is searched less often.
const LONGEST_RETURN: Duration = Duration::from_millis(2000);
/// A bound within this share of the last one is the same again, in millionths.
const SAME: u64 = 40_000;
/// Growth in a tick stops here, in millionths of the rate.
const STEEPEST: u64 = 50_000;
/// No link is taken to have fallen to less than one part in this and one of its rate at once.
const STEEPEST_FALL: u64 = 3;
/// Samples that are remembered.
const SAMPLES: usize = 3;
/// Bytes of packets of which a few may wait anywhere.
const PACKET: Bytes = Bytes::new(1514);

/// Phase of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The rate stays: no load, or no samples.
    Hold,
    /// Under load, at or above the rate that the link is known to deliver.
    Search,
    /// A queue before the link drains.
    Drain,
}

impl State {
    /// The name in a status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Search => "search",
            Self::Drain => "drain",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    path: u16,
    voice: Voice,
    excess: Excess,
}

/// A cut and its reason.
#[derive(Clone, Copy, Debug)]
struct Cut {
    at: Instant,
    /// Standing delay then, and the longest since: it grows until the cut is felt.
    standing: Duration,
    longest: Duration,
    /// The longest queue that the rate was lowered for, as samples told it.
    depth: Duration,
    /// Rate before the first cut.
    before: Rate,
    /// Cuts so far that left the delay where it was.
    vain: u8,
    /// Whether the link's rate was measured since.
    measured: bool,
}

#[derive(Clone, Debug)]
pub struct Side {
    direction: Direction,
    bounds: Bounds,
    rate: Rate,
    meter: Meter,
    now: Instant,
    ticked: Instant,
    backlogged: Option<Instant>,
    /// The newest first; of one direction, and of both.
    samples: [[Option<Sample>; SAMPLES]; 2],
    one_way: Option<Instant>,
    /// The last sample without a queue.
    clear: (Instant, Duration),
    /// Rate that the link delivers, as far as is known: CUBIC's W_max.
    delivered: Rate,
    /// Highest rate that is kept without samples: that at the end of a cut, or one that was given.
    unseen: Rate,
    /// Time under load since the search began.
    searched: Duration,
    returns: Duration,
    cut: Option<Cut>,
    state: State,
}

impl Side {
    pub fn new(now: Instant, direction: Direction, bounds: Bounds) -> Self {
        let rate = bounds.clamp(bounds.first);
        Self {
            direction,
            bounds,
            rate,
            meter: Meter::new(now),
            now,
            ticked: now,
            backlogged: None,
            samples: [[None; SAMPLES]; 2],
            one_way: None,
            clear: (now, Duration::ZERO),
            delivered: rate,
            unseen: rate,
            searched: RETURN,
            returns: RETURN,
            cut: None,
            state: State::Hold,
        }
    }

    pub fn direction(&self) -> Direction {
        self.direction
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn on_bytes(&mut self, bytes: Bytes) {
        self.meter.add(bytes);
    }

    pub fn on_backlog(&mut self, now: Instant, backlog: Bytes) {
        self.now = self.now.max(now);
        if backlog > PACKET {
            self.backlogged = Some(now);
        }
    }

    /// Whether the direction's own traffic may be the reason of delay.
    pub fn loaded(&self) -> bool {
        self.cut.is_some()
            || self.backlogged_within(LOADED)
            || self.meter.over(LOAD_WINDOW) > scale(self.rate, LOAD)
    }

    fn backlogged_within(&self, time: Duration) -> bool {
        self.backlogged
            .is_some_and(|at| self.now.saturating_since(at) <= time)
    }

    pub fn on_excess(
        &mut self,
        now: Instant,
        (path, voice): (u16, Voice),
        one_way: bool,
        excess: Excess,
    ) {
        self.now = self.now.max(now);
        if one_way {
            self.one_way = Some(now);
        }
        let samples = &mut self.samples[usize::from(!one_way)];
        let new = Sample {
            at: now,
            path,
            voice,
            excess,
        };
        // One voice counts once, unless it is the only one of late.
        let is_other = |sample: &Sample| sample.voice != voice;
        let is_fresh = |sample: &Sample| now.saturating_since(sample.at) <= FRESH;
        let mut all = samples.iter().flatten();
        if all.any(|sample| is_other(sample) && is_fresh(sample)) {
            for sample in samples.iter_mut() {
                sample.take_if(|sample| sample.voice == voice);
            }
        }
        let gap = samples.iter().position(Option::is_none);
        let gap = gap.unwrap_or(SAMPLES - 1);
        samples[..=gap].rotate_right(1);
        samples[0] = Some(new);
        if excess.delay < THRESHOLD + excess.noise + self.packet() {
            self.clear = (now, excess.delay);
        }
    }

    pub fn forget_samples(&mut self) {
        self.samples = [[None; SAMPLES]; 2];
        self.clear = (self.now, Duration::ZERO);
    }

    /// Samples of the others stay.
    pub fn forget_samples_of(&mut self, path: u16) {
        for samples in &mut self.samples {
            for sample in samples.iter_mut() {
                sample.take_if(|sample| sample.path == path);
            }
        }
    }

    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = self.bounds.clamp(rate);
        self.delivered = self.rate;
        self.unseen = self.rate;
        self.searched = self.returns;
        self.cut = None;
        self.state = State::Hold;
    }

    /// The samples that count now: of one direction where there are any.
    fn fresh(&self, now: Instant) -> impl Iterator<Item = Sample> + '_ {
        let has_one_way = self
            .one_way
            .is_some_and(|at| now.saturating_since(at) <= PREFERRED);
        self.samples[usize::from(!has_one_way)]
            .iter()
            .flatten()
            .copied()
            .filter(move |sample| now.saturating_since(sample.at) <= FRESH)
    }

    /// Times and excesses of the last two samples that count, the newest first. Where voices differ, the newest is bounded by the other: of a
    /// queue that grows steadily that one tells half as much, and no voice tells by itself how steeply it grows.
    fn pair(&self, now: Instant) -> Option<[(Instant, Duration); 2]> {
        let mut fresh = self.fresh(now);
        let (mut newest, before) = (fresh.next()?, fresh.next()?);
        if newest.voice != before.voice {
            newest.excess.delay = newest.excess.delay.min(before.excess.delay * TIMES);
        }
        Some([newest, before].map(|sample| (sample.at, sample.excess.delay)))
    }

    /// The least excess of the last samples: queueing adds to all of them, noise does not.
    pub fn standing(&self, now: Instant) -> Option<Duration> {
        let threshold = self.threshold(now);
        let mut least = NONE;
        let mut count = 0;
        for sample in self.fresh(now) {
            // Two samples far above the threshold are no noise.
            if count == 2 && least > threshold * CLEAR {
                break;
            }
            least = least.min(sample.excess.delay);
            count += 1;
        }
        (count >= 2).then_some(least)
    }

    /// Delay above which the link has bloat.
    fn threshold(&self, now: Instant) -> Duration {
        let noise = self.fresh(now).map(|sample| sample.excess.noise).max();
        THRESHOLD + noise.unwrap_or_default() * 2 + self.packet()
    }

    /// Time of a packet on the link. A cut is below the link's rate, and makes no packet longer there.
    fn packet(&self) -> Duration {
        PACKET / self.rate.max(self.delivered)
    }

    /// Moves on to `now`. Whether the delay turned out not to be ours: the paths take it as their baseline then.
    pub fn tick(&mut self, now: Instant) -> bool {
        // A caller that was late has no more than two ticks.
        let since = now.saturating_since(self.ticked).min(TICK * 2);
        self.ticked = now;
        self.now = self.now.max(now);
        self.meter.tick(now);
        let Some(standing) = self.standing(now) else {
            // No samples: hold. The delivered rate is known to some percent only, and of a rate that is one percent above the link's
            // nobody would see the queue grow.
            self.state = State::Hold;
            if self.rate > self.unseen && self.loaded() {
                self.rate = self.unseen;
                self.searched = Duration::ZERO;
            }
            return false;
        };
        let threshold = self.threshold(now);
        match self.cut {
            Some(cut) => self.drain(now, standing, threshold, cut),
            None if standing > threshold && self.loaded() => {
                self.cut(now, standing);
                false
            }
            None => {
                self.search(standing, threshold, since);
                false
            }
        }
    }

    fn search(&mut self, standing: Duration, threshold: Duration, since: Duration) {
        let is_used = self.meter.over(LOAD_WINDOW) >= scale(self.rate, USED);
        if !self.backlogged_within(LIMITED) || !is_used {
            self.state = State::Hold;
            if !self.backlogged_within(FORGET) {
                // The link may be another one now: back to its last known rate, without a start from below.
                self.searched = self.returns;
            }
            return;
        }
        self.state = State::Search;
        if standing > threshold / 2 && self.searched >= self.returns {
            return;
        }
        self.searched += since;
        let rate = self.cubic();
        let steepest = scale(self.rate, ONE + STEEPEST);
        self.rate = self.bounds.clamp(rate.min(steepest).max(self.rate));
    }

    /// RFC 9438 §4.2: `W_max` and below it for K, then above.
    fn cubic(&self) -> Rate {
        let [searched, returns] =
            [self.searched, self.returns].map(|time| (time.as_nanos() / 1000) as i64);
        // In thousandths of K.
        let x = ((searched - returns) * 1000 / returns.max(1)).clamp(-1000, 20_000);
        let above = BELOW * x * x / 1000 * x / 1_000_000;
        scale(self.delivered, ONE.saturating_add_signed(above))
    }

    /// Bloat: the rate falls to a share of the delivered one.
    fn cut(&mut self, now: Instant, standing: Duration) {
        let delivered = self.estimate(now);
        let same = scale(self.delivered, SAME);
        let apart = self.delivered.max(delivered).bps() - self.delivered.min(delivered).bps();
        self.returns = match apart <= same.bps() {
            true => (self.returns * 5 / 4).min(LONGEST_RETURN),
            false => RETURN,
        };
        self.cut = Some(Cut {
            at: now,
            standing,
            longest: standing,
            depth: standing,
            before: self.rate,
            vain: 0,
            measured: false,
        });
        self.lower(delivered, self.ahead(now, delivered, standing));
    }

    /// The queue before the link as it is at `now`. The newest sample tells of the time at which its probe left; since then the queue has
    /// grown as the rate is above the link's.
    fn ahead(&self, now: Instant, delivered: Rate, standing: Duration) -> Duration {
        let Some([newest, _]) = self.pair(now) else {
            return standing;
        };
        let age = (now.saturating_since(newest.0) + newest.1).min(FRESH);
        let above = u128::from(self.rate.bps().saturating_sub(delivered.bps()));
        // In thousandths.
        let growth = above * 1000 / u128::from(delivered.bps().max(1));
        let growth = growth.min(u128::from(STEEPEST_FALL) * 1000) as u64;
        standing.max(newest.1 + age * growth / 1000)
    }

    fn lower(&mut self, delivered: Rate, standing: Duration) {
        self.state = State::Drain;
        self.delivered = self.bounds.clamp(delivered);
        self.unseen = self.after_cut();
        let share =
            u128::from(standing.as_nanos()) * u128::from(ONE) / u128::from(DRAIN.as_nanos());
        let share = (share.min(u128::from(ONE)) as u64).clamp(CUT.0, CUT.1);
        self.rate = self.bounds.clamp(scale(self.delivered, ONE - share));
    }

    /// The rate at the end of a cut.
    fn after_cut(&self) -> Rate {
        self.bounds.clamp(scale(self.delivered, ONE - BELOW as u64))
    }

    /// Rate of the link. Downwards the link is before us, so it is the rate of arrivals. Upwards a queue grows by the
    /// part that is sent too fast: of a delay that rises by `s` in a second, the link takes `1 / (1 + s)`.
    fn estimate(&self, now: Instant) -> Rate {
        match (self.direction, self.pair(now)) {
            (Direction::Up, Some([newest, _])) => {
                let apart = newest.0.saturating_since(self.clear.0);
                let some = Bytes::new(SOME * PACKET.get()) / self.rate;
                let sent = self.meter.over(apart.max(TICK).max(some)).min(self.rate);
                let rate = taken(sent, [newest, self.clear]);
                match newest.1 < self.threshold(now) * 2 {
                    true => rate.max(scale(sent, NEAR)),
                    false => rate,
                }
            }
            _ => {
                let some = Bytes::new(SOME * PACKET.get()) / self.rate;
                self.meter.over(LATEST.max(some)).min(self.rate)
            }
        }
    }

    fn drain(&mut self, now: Instant, standing: Duration, threshold: Duration, cut: Cut) -> bool {
        self.state = State::Drain;
        // Of the last three samples one may be of before the link was full, and the threshold rises as the rate falls.
        let says_gone = |sample: Sample| sample.at > cut.at && sample.excess.delay < threshold;
        if self.fresh(now).any(says_gone) {
            self.cut = None;
            self.searched = Duration::ZERO;
            self.rate = self.after_cut();
            return false;
        }
        let arrivals = self.meter.over(WINDOW);
        let mut cut = cut;
        cut.longest = cut.longest.max(standing);
        let is_longer = standing > cut.depth;
        cut.depth = cut.depth.max(standing);
        self.cut = Some(cut);
        if is_longer {
            // The samples that made the cut had left before the queue was as long. From here on they count, and not what was expected: if that
            // was too much, the rate rises.
            self.lower(self.delivered, standing);
        }
        // The time that the newest sample tells of: a probe has waited as long as the queue was. A standing delay is of two samples.
        let Some([newest, before]) = self.pair(now) else {
            return false;
        };
        let told = newest.0 - newest.1;
        if self.direction == Direction::Up && cut.vain == 0 && told < cut.at {
            // It left before the cut: it and the one before tell how fast the queue grew.
            let rate = taken(cut.before, [newest, before]);
            if newest.1 > before.1 && newest.1 > cut.standing && rate < self.delivered {
                cut.depth = newest.1;
                self.cut = Some(cut);
                self.lower(rate, newest.1);
            }
            return false;
        }
        if !cut.measured && now.saturating_since(cut.at) >= WINDOW {
            cut.measured = true;
            self.cut = Some(cut);
            // While a queue is left for sure, arrivals from the link are its rate.
            if self.direction == Direction::Down && standing > threshold * 2 {
                self.lower(self.delivered.min(arrivals), standing);
            }
        }
        if told < cut.at + PATIENCE {
            return false;
        }
        // A link with a queue delivers at its own rate, and so do senders that have not followed yet. Arrivals that are nearer to our rate are
        // of senders that have: they are above it by the packets that our queue drops.
        let fell = standing <= cut.longest / 4 * 3;
        let rose = standing == cut.longest && standing > cut.standing / 4 * 5 + THRESHOLD;
        let middle = Rate::from_bps(u64::midpoint(self.rate.bps(), self.delivered.bps()));
        let followed = self.direction == Direction::Up || arrivals <= middle;
        let vain = match (fell || rose, followed) {
            (true, _) => 0,
            (false, true) => cut.vain + 1,
            (false, false) => cut.vain,
        };
        if vain >= 2 {
            self.cut = None;
            self.searched = Duration::ZERO;
            self.delivered = cut.before;
            self.unseen = cut.before;
            self.rate = cut.before;
            return true;
        }
        self.cut = Some(Cut {
            at: now,
            standing,
            longest: standing,
            depth: standing,
            vain,
            measured: false,
            ..cut
        });
        let delivered = match (rose, fell || !followed) {
            (true, _) => self.estimate(now).min(scale(self.delivered, AGAIN)),
            (false, true) => self.delivered,
            (false, false) => scale(self.delivered, AGAIN),
        };
        self.lower(delivered, standing);
        false
    }
}

const NONE: Duration = Duration::from_nanos(u64::MAX);

/// Rate that the link takes of `sent`, of two samples, the newest first, while its queue grows. A packet more is no growth: on a slow link
/// each waits for the rest of one.
fn taken(sent: Rate, [newest, before]: [(Instant, Duration); 2]) -> Rate {
    let packet = PACKET / sent.max(Rate::from_bps(1));
    let grown = minus(minus(newest.1, before.1), packet);
    let apart = newest.0.saturating_since(before.0);
    // A probe that waits longer has left earlier by the difference.
    let rising = minus(apart, grown).max(TICK);
    let grown = grown.min(rising * STEEPEST_FALL);
    let bits = u128::from(sent.bps()) * u128::from(rising.as_nanos());
    Rate::from_bps((bits / u128::from((rising + grown).as_nanos())) as u64)
}

/// Some millionths of `rate`.
fn scale(rate: Rate, millionths: u64) -> Rate {
    let bps = u128::from(rate.bps()) * u128::from(millionths) / u128::from(ONE);
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}
