// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts that answer probes of ICMP: which are asked, and when. The tap sees probes and answers; this only counts.

use std::collections::VecDeque;
use std::net::IpAddr;

use makeway_core::units::{Duration, Instant};

use super::packet::DAY_MS;
use super::sources::Sample;

/// Most that are asked at a time; others of the list stand by.
pub const MOST_ASKED: usize = 6;
/// Time between two probes of a reflector, under load and without.
const EVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));
/// One that is silent is asked this often.
const SILENT_EVERY: Duration = Duration::from_secs(5);
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(3);
/// Probes without an answer after which a reflector is silent: two seconds under load.
const MOST_LOST: u32 = 10;
/// Probes for timestamps without an answer after which echoes are asked for.
const MOST_UNSTAMPED: u32 = 5;
/// Delays of one direction begin here, since clocks differ by any constant.
const BASE_NS: i64 = DAY_MS as i64 * 1_000_000;

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each direction apart (RFC 792, type 13).
    Timestamp,
    /// There and back.
    Echo,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Echo => "echo",
        }
    }
}

/// A probe under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u16,
    sent: Instant,
    /// When it left our queue, and the ns of the day then.
    left: Option<(Instant, i64)>,
    kind: Kind,
}

/// A reflector.
#[derive(Clone, Debug)]
pub struct Reflector {
    pub address: IpAddr,
    pub kind: Kind,
    /// Answers so far, and probes without one.
    pub answers: u64,
    pub lost: u64,
    /// Probes since the last answer.
    lost_in_row: u32,
    pub is_silent: bool,
    next: Instant,
    under_way: VecDeque<Probe>,
}

/// A probe that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub to: IpAddr,
    pub number: u16,
    pub kind: Kind,
}

/// The list.
#[derive(Debug)]
pub struct Reflectors {
    pub all: Vec<Reflector>,
    number: u16,
}

impl Reflectors {
    pub fn new(now: Instant, addresses: &[IpAddr]) -> Self {
        let each = addresses.iter().enumerate();
        let all = each.map(|(n, address)| Reflector {
            address: *address,
            kind: match address {
                IpAddr::V4(_) => Kind::Timestamp,
                IpAddr::V6(_) => Kind::Echo,
            },
            answers: 0,
            lost: 0,
            lost_in_row: 0,
            is_silent: false,
            // Evenly apart.
            next: now + EVERY.0 * n as u64 / MOST_ASKED as u64,
            under_way: VecDeque::new(),
        });
        Self {
            all: all.collect(),
            number: 0,
        }
    }

    /// Probes that are due. `is_busy`: the link carries traffic.
    pub fn due(&mut self, now: Instant, is_busy: bool) -> Vec<Due> {
        let (mut due, mut asked) = (Vec::new(), 0);
        for one in &mut self.all {
            one.forget(now);
            let every = match (one.is_silent, is_busy) {
                (true, _) => SILENT_EVERY,
                (false, true) => EVERY.0,
                (false, false) => EVERY.1,
            };
            if !one.is_silent {
                asked += 1;
                if asked > MOST_ASKED {
                    // It stands by.
                    continue;
                }
            }
            // Traffic that begins is not waited for.
            one.next = one.next.min(now + every);
            if one.next > now {
                continue;
            }
            one.next = (one.next + every).max(now + every / 2);
            self.number = self.number.wrapping_add(1);
            one.under_way.push_back(Probe {
                number: self.number,
                sent: now,
                left: None,
                kind: one.kind,
            });
            due.push(Due {
                to: one.address,
                number: self.number,
                kind: one.kind,
            });
        }
        due
    }

    /// A probe has left our queue at `at`, which was `day_ns` of the day.
    pub fn departed(&mut self, to: IpAddr, number: u16, at: Instant, day_ns: i64) {
        let mut all = self.all.iter_mut();
        if let Some(one) = all.find(|one| one.address == to)
            && let Some(probe) = one
                .under_way
                .iter_mut()
                .find(|probe| probe.number == number)
        {
            probe.left.get_or_insert((at, day_ns));
        }
    }

    /// Its answer has arrived before our queue: its delays.
    pub fn answered(
        &mut self,
        from: IpAddr,
        number: u16,
        stamps: Option<[u32; 2]>,
        at: Instant,
        day_ns: i64,
    ) -> Option<Sample> {
        let place = self.all.iter().position(|one| one.address == from)?;
        let one = &mut self.all[place];
        let mut found = one.under_way.iter();
        let found = found.position(|probe| probe.number == number)?;
        let probe = one.under_way.remove(found)?;
        one.answers += 1;
        one.lost_in_row = 0;
        one.is_silent = false;
        let (left, left_day_ns) = probe.left?;
        let sample = Sample {
            path: place as u16,
            voice: None,
            one_way: [None; 2],
            both: Some(at.saturating_since(left)),
        };
        if probe.kind == Kind::Echo {
            return Some(sample);
        }
        // The highest bit marks a clock that counts something else; one that answers before it was asked has the bytes of its stamps in
        // another order.
        let stamps = stamps.filter(|[got, sent]| {
            let took = i64::from(*sent) - i64::from(*got);
            (*got).max(*sent) < DAY_MS && took.rem_euclid(i64::from(DAY_MS)) < 1000
        });
        let Some([got, sent]) = stamps else {
            one.kind = Kind::Echo;
            return Some(sample);
        };
        let up = around(i64::from(got) * 1_000_000 - left_day_ns);
        let down = around(day_ns - i64::from(sent) * 1_000_000);
        Some(Sample {
            one_way: [up, down].map(|ns| Some(Duration::from_nanos(ns))),
            ..sample
        })
    }
}

impl Reflector {
    fn forget(&mut self, now: Instant) {
        while let Some(probe) = self.under_way.front()
            && now.saturating_since(probe.sent) > PATIENCE
        {
            self.under_way.pop_front();
            self.lost += 1;
            self.lost_in_row += 1;
        }
        if self.kind == Kind::Timestamp && self.answers == 0 && self.lost_in_row >= MOST_UNSTAMPED {
            // Some answer echoes alone.
            self.kind = Kind::Echo;
            self.lost_in_row = 0;
        }
        if self.lost_in_row >= MOST_LOST {
            self.is_silent = true;
        }
    }
}

/// A difference of times of the day, for clocks that differ by less than half a day; never negative.
fn around(ns: i64) -> u64 {
    let day = BASE_NS;
    let nearest = (ns + day / 2).rem_euclid(day) - day / 2;
    (nearest + day) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(1_000_000_000_000 + ms * 1_000_000)
    }

    fn addresses(count: u8) -> Vec<IpAddr> {
        (1..=count).map(|n| IpAddr::from([192, 0, 2, n])).collect()
    }

    const DAY_NS: i64 = BASE_NS;

    #[test]
    fn each_is_asked_five_times_in_a_second_of_load_and_once_without() {
        let mut all = Reflectors::new(at_ms(0), &addresses(8));
        let mut count = |from: u64, is_busy: bool| {
            let ticks = (0..20).map(|n| at_ms(from + n * 50));
            let sent: Vec<Due> = ticks.flat_map(|now| all.due(now, is_busy)).collect();
            // All are answered, so that none is silent.
            for due in &sent {
                all.departed(due.to, due.number, at_ms(from), 0);
                all.answered(due.to, due.number, Some([0, 0]), at_ms(from), 0);
            }
            sent.iter().filter(|due| due.to == addresses(1)[0]).count()
        };
        assert_eq!(count(0, true), 5);
        assert_eq!(count(1000, true), 5);
        assert_eq!(count(2000, false), 1);
        assert_eq!(count(3000, false), 1);
        // Traffic begins.
        assert!((4..=5).contains(&count(4000, true)));
        let asked: Vec<u64> = all.all.iter().map(|one| one.answers).collect();
        assert!(asked[..6].iter().all(|answers| *answers > 15), "{asked:?}");
        assert_eq!(asked[6..], [0, 0]);
    }

    #[test]
    fn one_that_is_silent_is_replaced_and_comes_back() {
        let mut all = Reflectors::new(at_ms(0), &addresses(7));
        let mut asked = [0; 7];
        for ms in (0..20_000).step_by(50) {
            let now = at_ms(ms);
            for due in all.due(now, true) {
                let place = all
                    .all
                    .iter()
                    .position(|one| one.address == due.to)
                    .unwrap();
                asked[place] += 1;
                all.departed(due.to, due.number, now, 0);
                // The third never answers until 15 s.
                if place != 2 || ms > 15_000 {
                    all.answered(due.to, due.number, Some([5, 5]), now, 0);
                }
            }
        }
        assert!(asked[6] > 20, "{asked:?}");
        assert!(
            !all.all[2].is_silent && all.all[2].lost > 10,
            "{:?}",
            all.all[2]
        );
        // Of timestamps it has answered none, so it is asked for echoes.
        assert_eq!(all.all[2].kind, Kind::Echo);
        assert_eq!(all.all[3].kind, Kind::Timestamp);
    }

    #[test]
    fn directions_are_apart_over_midnight_and_strange_stamps_are_not_believed() {
        let mut all = Reflectors::new(at_ms(0), &addresses(1));
        let to = addresses(1)[0];
        let mut ask = |stamps: [u32; 2], day_ns: i64, back_ms: u64| {
            let left = at_ms(back_ms * 1000);
            let due = all.due(left, true)[0];
            all.departed(to, due.number, left, day_ns);
            let back = at_ms(back_ms * 1000 + back_ms);
            let day = (day_ns + back_ms as i64 * 1_000_000).rem_euclid(DAY_NS);
            let told = all.answered(to, due.number, Some(stamps), back, day);
            let told = told.unwrap();
            assert_eq!(told.both, Some(Duration::from_millis(back_ms)));
            let ms = |one: Duration| one.as_millis_f64() - f64::from(DAY_MS);
            told.one_way.map(|one| one.map(ms))
        };
        let is = |told: [Option<f64>; 2], up: f64, down: f64| {
            let near = |got: Option<f64>, ms: f64| (got.unwrap() - ms).abs() < 1e-6;
            assert!(near(told[0], up) && near(told[1], down), "{told:?}");
        };
        // 10 ms up and 14 ms down, on the same clock, just before midnight.
        is(ask([6, 6], DAY_NS - 4_000_000, 24), 10.0, 14.0);
        // Its clock is an hour behind: the same, but for a constant.
        let hour = 3_600_000;
        let stamp = DAY_MS - hour + 10;
        let behind = f64::from(hour);
        is(ask([stamp, stamp], 0, 30), 10.0 - behind, 20.0 + behind);
        assert_eq!(ask([0x8000_0001, 0x8000_0001], 0, 40), [None; 2]);
        assert_eq!(all.all[0].kind, Kind::Echo);
    }
}
