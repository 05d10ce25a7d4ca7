// SPDX-License-Identifier: MIT OR Apache-2.0
//! One-way delay to a receiver that reports arrival times by a clock of its own.
//!
//! Half of the shortest round trip, and the queue on the path to the receiver: the time by which packets took longer than the
//! quickest of late. Half of a round trip halves that queue too, and adds half of the one on the path back.

use makeway_core::units::{Duration, Instant};

/// Minima are of the last one to two of these: the receiver's clock drifts, and paths change. Chosen by us.
const SPAN: Duration = Duration::from_secs(20);

/// The longest queue of late falls by half in this time, some periods of a window that fills a queue and yields. Chosen by us.
const HALF_LIFE: f64 = 2.2;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct OneWay {
    round_trip: Least,
    transit: Least,
    /// The longest queue of late, and when it was so long.
    peak: Duration,
    at: Instant,
}

impl OneWay {
    /// A report came: the round trip without the time at the receiver, and the transits, from departure by our
    /// clock to arrival by the receiver's, in ns, of the packets that it told of.
    pub fn on_report(
        &mut self,
        now: Instant,
        round_trip: Option<Duration>,
        transits: impl Iterator<Item = i64> + Clone,
    ) {
        if let Some(round_trip) = round_trip {
            self.round_trip.take(now, round_trip.as_nanos() as i64);
        }
        let (Some(least), Some(most)) = (transits.clone().min(), transits.max()) else {
            return;
        };
        self.transit.take(now, least);
        let quickest = self.transit.get().unwrap_or(least);
        let queue = u64::try_from(most.saturating_sub(quickest)).unwrap_or(0);
        self.peak = self.queue(now).max(Duration::from_nanos(queue));
        self.at = now;
    }

    /// The estimate, once there is one.
    pub fn get(&self, now: Instant) -> Option<Duration> {
        let round_trip = u64::try_from(self.round_trip.get()?).ok()?;
        Some(Duration::from_nanos(round_trip / 2) + self.queue(now))
    }

    /// The shortest round trip of late, once there was one.
    pub fn round_trip(&self) -> Option<Duration> {
        let round_trip = u64::try_from(self.round_trip.get()?).ok()?;
        Some(Duration::from_nanos(round_trip))
    }

    fn queue(&self, now: Instant) -> Duration {
        let age = now.saturating_since(self.at).as_secs_f64();
        let left = self.peak.as_secs_f64() * 0.5_f64.powf(age / HALF_LIFE);
        Duration::from_nanos((left * 1e9) as u64)
    }
}

/// The least value of late.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    now: Option<i64>,
    before: Option<i64>,
    since: Instant,
}

impl Least {
    fn take(&mut self, now: Instant, value: i64) {
        if now.saturating_since(self.since) >= SPAN {
            self.before = self.now.take();
            self.since = now;
        }
        self.now = Some(self.now.map_or(value, |least| least.min(value)));
    }

    fn get(&self) -> Option<i64> {
        self.now.into_iter().chain(self.before).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_queue_on_the_way_there_counts_whole_and_one_on_the_way_back_not_at_all() {
        let mut one_way = OneWay::default();
        assert_eq!(one_way.get(at(0)), None);
        // 20 ms each way, by a receiver whose clock is 7 s ahead.
        let ms = |ms: i64| ms * 1_000_000;
        one_way.on_report(
            at(100),
            Some(Duration::from_millis(40)),
            [ms(7020)].into_iter(),
        );
        assert_eq!(one_way.get(at(100)), Some(Duration::from_millis(20)));
        let queued = [ms(7060), ms(7100)].into_iter();
        one_way.on_report(at(150), Some(Duration::from_millis(120)), queued);
        assert_eq!(one_way.get(at(150)), Some(Duration::from_millis(100)));
        // The queue has gone, and is still feared.
        one_way.on_report(
            at(200),
            Some(Duration::from_millis(140)),
            [ms(7020)].into_iter(),
        );
        let soon = one_way.get(at(200)).unwrap().as_millis_f64();
        assert!((98.0..100.0).contains(&soon), "{soon}");
        let later = one_way.get(at(2350)).unwrap().as_millis_f64();
        assert!((59.0..61.0).contains(&later), "{later}");
    }

    #[test]
    fn a_path_that_becomes_longer_is_believed_in_time() {
        let mut one_way = OneWay::default();
        for n in 0..1000 {
            let ms = if n < 200 { 20 } else { 50 };
            let trip = Some(Duration::from_millis(2 * ms));
            one_way.on_report(at(100 * n), trip, [ms as i64 * 1_000_000].into_iter());
        }
        let last = one_way.get(at(100_000)).unwrap().as_millis_f64();
        assert!((49.0..52.0).contains(&last), "{last}");
    }
}
