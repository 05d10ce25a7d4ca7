// SPDX-License-Identifier: MIT OR Apache-2.0
//! RED with in and out: two sets of RED's parameters over one FIFO. Packets outside their service profile are dropped
//! by the average of all that is held, earlier and more often; those inside by the average of their own.
//!
//! Source: D. Clark, W. Fang, "Explicit Allocation of Best-Effort Packet Delivery Service", IEEE/ACM
//! Transactions on Networking 6(4), 1998, section III.B; called RIO-C in ns-2. Writer of in and out on packets:
//! [`crate::ticket::Meter`].
//!
//! | paper | here |
//! | --- | --- |
//! | `avg_in`, `P_in` | `inside` |
//! | `avg_total`, `P_out` | `outside` |
//! | packets in the queue that are in | `held_in` |
//!
//! Cost per packet: O(1), RED's, and one average more for a packet that is in.
//!
//! Departures from the paper: each average counts idle time as [`super::red`] does, that of packets inside from when
//! the last of them left.

use super::fifo::Fifo;
use super::red::{Early, RedParams};
use super::spec::Describe;
use super::{Backlog, Drops, Env, Needs, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::Visitor;
use crate::ticket::OUT;
use crate::units::{Fraction, Instant};
use alloc::boxed::Box;
use alloc::string::String;

/// How RIO drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RioParams {
    /// Packets inside their profile.
    pub inside: RedParams,
    /// All others.
    pub outside: RedParams,
}

impl Default for RioParams {
    /// ns-2's examples of DiffServ: 20 and 40 packets, max_p 0.02 inside, 10 and 20, 0.1 outside; neither gentle nor
    /// `wait`.
    fn default() -> Self {
        let params = |min, max, per_cent| RedParams {
            min,
            max,
            max_p: Fraction::ratio(per_cent, 100),
            gentle: false,
            wait: false,
            ..RedParams::default()
        };
        Self {
            inside: params(20, 40, 2),
            outside: params(10, 20, 10),
        }
    }
}

impl Describe for RioParams {
    const NAME: &'static str = "rio";
    const ABOUT: &'static str =
        "as red, with thresholds of their own for packets outside their profile";

    fn needs(&self) -> Needs {
        Needs {
            reads_tags: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        self.inside.fields("rio.in", visit);
        self.outside.fields("rio.out", visit);
    }

    fn check(&self) -> Result<(), String> {
        self.inside.check("rio.in")?;
        self.outside.check("rio.out")
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Rio::new(env, self.clone()))
    }
}

/// RED with in and out.
#[derive(Clone, Debug)]
pub struct Rio {
    fifo: Fifo,
    inside: Early,
    outside: Early,
    held_in: Backlog,
}

impl Rio {
    /// An empty queue.
    pub fn new(env: &Env, params: RioParams) -> Self {
        let outside = Env {
            seed: !env.seed,
            ..env.clone()
        };
        Self {
            fifo: Fifo::new(env.limits),
            inside: Early::new(env, params.inside),
            outside: Early::new(&outside, params.outside),
            held_in: Backlog::default(),
        }
    }
}

fn is_in(pkt: &Packet) -> bool {
    pkt.tag() != OUT
}

impl Scheduler for Rio {
    fn enqueue(&mut self, now: Instant, mut pkt: Packet, drops: &mut Drops) {
        let refusal = self.fifo.refusal(&pkt);
        if refusal == Some(DropReason::TooLarge) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        self.outside.estimate(now, self.fifo.backlog());
        let own = if is_in(&pkt) {
            self.inside.estimate(now, self.held_in);
            &mut self.inside
        } else {
            &mut self.outside
        };
        if let Some(reason) = own.judge(pkt.len())
            && !own.marks(&mut pkt, reason)
        {
            return drops.push(pkt, reason);
        }
        if let Some(reason) = refusal {
            own.refused();
            return drops.push(pkt, reason);
        }
        if is_in(&pkt) {
            self.held_in.packets += 1;
            self.held_in.bytes += pkt.len();
        }
        self.fifo.enqueue(now, pkt, drops);
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let sent = self.fifo.pop()?;
        if is_in(&sent) {
            self.held_in.packets -= 1;
            self.held_in.bytes -= sent.len();
            if self.held_in.packets == 0 {
                self.inside.emptied(now);
            }
        }
        if self.fifo.backlog().packets == 0 {
            self.outside.emptied(now);
        }
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.fifo.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet};
    use crate::ticket::IN;

    /// Drops of packets inside and outside, of a thousand in turn each, beside a queue that stays at `held`.
    fn drops_at(held: u32) -> [usize; 2] {
        let mut params = RioParams::default();
        for red in [&mut params.inside, &mut params.outside] {
            red.weight = Fraction::ONE;
        }
        let mut rio = Rio::new(&Env::new(limits(100, 1_000_000)), params);
        let mut drops = Drops::default();
        let mut lost = [0; 2];
        for n in 0..2000 {
            while rio.backlog().packets > held {
                rio.dequeue(Instant::ZERO, &mut drops);
            }
            let tag = if n % 2 == 0 { IN } else { OUT };
            rio.enqueue(Instant::ZERO, packet(n, 0, 1000).with_tag(tag), &mut drops);
            for (pkt, _) in drops.drain().filter(|(pkt, _)| pkt.handle.0 > 100) {
                lost[usize::from(!is_in(&pkt))] += 1;
            }
        }
        lost
    }

    #[test]
    fn what_is_outside_goes_first() {
        assert_eq!(drops_at(9), [0, 0]);
        let [inside, outside] = drops_at(18);
        assert_eq!(inside, 0);
        assert!(outside > 50, "{outside}");
        // Above the upper threshold of those outside, where nothing of theirs is left, packets inside are held alone.
        let [inside, outside] = drops_at(25);
        assert!(inside > 0 && inside < 30, "{inside}");
        assert!(outside > 900, "{outside}");
    }
}
