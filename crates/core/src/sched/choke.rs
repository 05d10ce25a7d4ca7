// SPDX-License-Identifier: MIT OR Apache-2.0
//! CHOKe: RED that compares. While the average queue is above the lower threshold, an arriving packet meets one that
//! is drawn from the queue by chance; if they are of the same flow, both go. A flow that fills the queue meets itself
//! the oftenest, and no state is kept for any.
//!
//! Source: R. Pan, B. Prabhakar, K. Psounis, "CHOKe, A Stateless Active Queue Management Scheme for Approximating
//! Fair Bandwidth Allocation", INFOCOM 2000, Fig. 1.
//!
//! | paper | here |
//! | --- | --- |
//! | `avg`, `min_th`, `max_th`, `p` | those of [`super::red`] |
//! | drop candidate | [`Choke::draw`] |
//! | drop both | [`DropReason::Match`] |
//!
//! Cost per packet: RED's, and while it compares two draws at most in the mean. Packets leave holes where they are
//! taken from the middle; when holes are more than packets, all are closed at once.
//!
//! Departures from the paper: none. Packets that meet their like do not count between RED's drops, as in Linux's
//! `sch_choke`; one candidate is drawn, not several.

use super::red::{Early, RedParams};
use super::spec::Describe;
use super::{Backlog, Drops, Env, Limits, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::Visitor;
use crate::random::Rng;
use crate::units::Instant;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;

/// Its parameters are those of RED.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChokeParams {
    /// Parameters of RED.
    pub red: RedParams,
}

impl Describe for ChokeParams {
    const NAME: &'static str = "choke";
    const ABOUT: &'static str = "as red, and packets that meet one of their flow are dropped";

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        self.red.all_fields(visit);
    }

    fn check(&self) -> Result<(), String> {
        self.red.check("red")
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Choke::new(env, self.red.clone()))
    }
}

/// RED that compares arrivals with queued packets.
#[derive(Clone, Debug)]
pub struct Choke {
    /// In order of arrival. The first is no hole, and no more than half are.
    queue: VecDeque<Option<Packet>>,
    held: Backlog,
    limits: Limits,
    early: Early,
    rng: Rng,
}

impl Choke {
    /// An empty queue.
    pub fn new(env: &Env, params: RedParams) -> Self {
        let limits = env.limits;
        Self {
            // One more than packets and as many holes: a hole is made before holes are counted.
            queue: VecDeque::with_capacity(2 * limits.packets as usize + 1),
            held: Backlog::default(),
            limits,
            rng: Rng::new(!env.seed),
            early: Early::new(env, params),
        }
    }

    /// Where a packet waits that is drawn by chance, if any waits.
    fn draw(&mut self) -> Option<usize> {
        if self.held.packets == 0 {
            return None;
        }
        loop {
            let at = self.rng.below(self.queue.len() as u32) as usize;
            if self.queue[at].is_some() {
                return Some(at);
            }
        }
    }

    fn remove(&mut self, at: usize) -> Option<Packet> {
        let pkt = self.queue.get_mut(at)?.take()?;
        self.held.packets -= 1;
        self.held.bytes -= pkt.len();
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
        }
        if self.queue.len() > 2 * self.held.packets as usize {
            self.queue.retain(Option::is_some);
        }
        Some(pkt)
    }
}

impl Scheduler for Choke {
    fn enqueue(&mut self, now: Instant, mut pkt: Packet, drops: &mut Drops) {
        let refusal = self.limits.refusal(self.held, &pkt);
        if refusal == Some(DropReason::TooLarge) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        self.early.estimate(now, self.held);
        if self.early.is_on()
            && let Some(at) = self.draw()
            && self.queue[at].is_some_and(|candidate| candidate.flow == pkt.flow)
            && let Some(candidate) = self.remove(at)
        {
            if self.held.packets == 0 {
                self.early.emptied(now);
            }
            drops.push(candidate, DropReason::Match);
            return drops.push(pkt, DropReason::Match);
        }
        if let Some(reason) = self.early.judge(pkt.len())
            && !self.early.marks(&mut pkt, reason)
        {
            return drops.push(pkt, reason);
        }
        if let Some(reason) = refusal {
            self.early.refused();
            return drops.push(pkt, reason);
        }
        self.held.packets += 1;
        self.held.bytes += pkt.len();
        self.queue.push_back(Some(pkt));
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let sent = self.remove(0)?;
        if self.held.packets == 0 {
            self.early.emptied(now);
        }
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        (self.held.packets > 0).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet};
    use crate::units::Fraction;

    /// Above the lower threshold from the second packet on, and nothing is dropped for the average itself.
    fn choke() -> Choke {
        let red = RedParams {
            min: 1,
            max: 1000,
            weight: Fraction::ONE,
            max_p: Fraction::ratio(1, 1 << 40),
            ..RedParams::default()
        };
        Choke::new(&Env::new(limits(1000, 1_000_000)), red)
    }

    #[test]
    fn what_meets_its_like_goes_with_it() {
        let mut choke = choke();
        let mut drops = Drops::default();
        choke.enqueue(Instant::ZERO, packet(0, 7, 100), &mut drops);
        choke.enqueue(Instant::ZERO, packet(1, 7, 100), &mut drops);
        let gone: Vec<_> = drops.drain().map(|(p, why)| (p.handle.0, why)).collect();
        assert_eq!(gone, [(0, DropReason::Match), (1, DropReason::Match)]);
        assert_eq!(choke.backlog(), Backlog::default());
    }

    #[test]
    fn below_the_threshold_nobody_is_compared() {
        let red = RedParams::default();
        let mut choke = Choke::new(&Env::new(limits(100, 100_000)), red);
        let mut drops = Drops::default();
        for n in 0..40 {
            choke.enqueue(Instant::ZERO, packet(n, 0, 100), &mut drops);
        }
        assert!(drops.is_empty());
    }

    #[test]
    fn a_flow_is_met_as_often_as_it_has_packets_wherever_they_are() {
        // Ten packets, two of flow 1, holes between them: an arrival of flow 1 meets it in a fifth of all cases.
        let mut met = 0;
        let mut choke = choke();
        let mut drops = Drops::default();
        let cases = 20_000;
        for _ in 0..cases {
            while choke.remove(0).is_some() {}
            for n in 0..14 {
                let flow = if n == 3 || n == 12 { 1 } else { 100 + n };
                choke.held.packets += 1;
                choke.held.bytes += packet(n, flow, 100).len();
                choke.queue.push_back(Some(packet(n, flow, 100)));
            }
            for at in [1, 4, 5, 9] {
                choke.remove(at);
            }
            choke.enqueue(Instant::ZERO, packet(99, 1, 100), &mut drops);
            met += drops.drain().count() / 2;
        }
        // Five standard deviations of the binomial are 283.
        assert!((met as i64 - cases / 5).abs() < 283, "{met}");
    }

    #[test]
    fn holes_are_bounded_by_packets() {
        let mut choke = choke();
        let mut drops = Drops::default();
        let mut rng = Rng::new(3);
        let room = choke.queue.capacity();
        for n in 0..100_000 {
            choke.enqueue(Instant::ZERO, packet(n, rng.below(8), 100), &mut drops);
            if rng.below(100) == 0 {
                choke.dequeue(Instant::ZERO, &mut drops);
            }
            drops.drain().for_each(drop);
            assert!(choke.queue.len() <= 2 * choke.held.packets as usize);
            assert_eq!(
                choke.queue.iter().flatten().count() as u32,
                choke.held.packets
            );
        }
        assert_eq!(choke.queue.capacity(), room);
    }
}
