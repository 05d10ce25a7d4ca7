// SPDX-License-Identifier: MIT OR Apache-2.0
//! CoDel as a machine that is asked of one packet after the other.

use makeway_core::packet::Packet;
use makeway_core::sched::CoDelParams;
use makeway_core::units::{Duration, Instant};

/// One queue's.
#[derive(Clone, Default)]
pub struct CoDel {
    /// When the sojourn times went above the target.
    above_since: Option<Instant>,
    dropping: bool,
    count: u32,
    last_count: u32,
    drop_next: Instant,
    /// Outcome of the packet before this one.
    last: Last,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Last {
    #[default]
    Sent,
    /// The first drop of a cycle: the next packet is sent in any case.
    Began,
    /// A later drop: if the queue still stands, the next one is due.
    Dropped,
}

impl CoDel {
    /// Whether `pkt`, which was at the head, is sent; else it is dropped, and the next one is asked of.
    /// `stands` if more than a packet is behind it.
    pub fn sends(
        &mut self,
        now: Instant,
        pkt: &Packet,
        stands: bool,
        params: &CoDelParams,
    ) -> bool {
        let long = now.saturating_since(pkt.arrived) >= params.target;
        let mut ok_to_drop = false;
        if long && stands {
            match self.above_since {
                Some(since) => ok_to_drop = now.saturating_since(since) >= params.interval,
                None => self.above_since = Some(now),
            }
        } else {
            self.above_since = None;
        }
        let last = std::mem::take(&mut self.last);
        match last {
            Last::Began => {
                let delta = i64::from(self.count) - i64::from(self.last_count);
                let since = now.as_nanos() as i128 - i128::from(self.drop_next.as_nanos());
                let soon = since < 16 * i128::from(params.interval.as_nanos());
                self.count = if delta > 1 && soon { delta as u32 } else { 1 };
                self.last_count = self.count;
                self.dropping = true;
                self.drop_next = now + law(params.interval, self.count);
                return true;
            }
            Last::Dropped if ok_to_drop => self.drop_next += law(params.interval, self.count),
            _ => {}
        }
        if self.dropping && ok_to_drop && now >= self.drop_next {
            self.count += 1;
            self.last = Last::Dropped;
            return false;
        }
        if !self.dropping && ok_to_drop {
            self.last = Last::Began;
            return false;
        }
        self.dropping &= ok_to_drop;
        true
    }

    /// It was asked for a packet and had none.
    pub fn empty(&mut self) {
        self.above_since = None;
        self.dropping = false;
    }
}

/// The longest time that is no longer than `interval / sqrt(count)`.
pub fn law(interval: Duration, count: u32) -> Duration {
    let square = u128::from(interval.as_nanos()).pow(2);
    let fits = |ns: u64| u128::from(ns).pow(2) * u128::from(count) <= square;
    let (mut yes, mut no) = (0, interval.as_nanos() + 1);
    while no - yes > 1 {
        let middle = (yes + no) / 2;
        if fits(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Duration::from_nanos(yes)
}
