// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description of a discipline: its parameters, which its own file lists, and its environment.

use super::{Discipline, Limits, Scheduler, Spec};
use crate::framing::Framing;
use crate::packet::UserId;
use crate::param::{self, Choice, Ranged, Refusal, Visitor, flag, one_of};
use crate::ticket::Codec;
use crate::units::{Bytes, Rate};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Description of a discipline, in its own file. Its parameters have the defaults of [`Default`].
pub(super) trait Describe: Default {
    /// In files and on the command line.
    const NAME: &'static str;
    /// Other names that are understood.
    const ALIASES: &'static [&'static str] = &[];
    /// Order of service, for lists of disciplines.
    const ABOUT: &'static str;
    /// Whether `bpf/` has a program of it.
    const IN_THE_KERNEL: bool = false;

    /// Its needs, and its changes to packets.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Its parameters on an access link, where its gains there do not rest on the defaults.
    fn on_a_link() -> Self {
        Self::default()
    }

    /// The key of a parameter whose value its program in `bpf/` does not have.
    fn not_in_the_kernel(&self) -> Option<&'static str> {
        None
    }

    /// Shows its parameters to `visit`.
    fn fields(&mut self, visit: &mut Visitor<'_>) {
        let _ = visit;
    }

    /// Conditions between two parameters.
    ///
    /// # Errors
    /// Why two values do not go together.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Makes it; all its memory is allocated here. Everything has been checked.
    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send>;

    /// Code of the tags of its packets, where tickets are written by `domain`.
    fn codec(&self, domain: Codec) -> Codec {
        domain
    }
}

/// Needs of a discipline: facts about packets, and its changes to them. A world that lacks one of them refuses the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Asks for the user of a packet.
    pub users: bool,
    /// Asks for the weights of users.
    pub weights: bool,
    /// Asks for the tag of a packet.
    pub reads_tags: bool,
    /// Changes the tags of packets.
    pub writes_tags: bool,
    /// Asks whether a packet carries data of its own.
    pub control: bool,
    /// Packets of a flow may leave in another order than they came.
    pub reorders: bool,
    /// Needs the rate of its link, by which it drops.
    pub link_rate: bool,
    /// Needs the framing of its link, by which it tells the length of an IP packet from that on the wire.
    pub framing: bool,
    /// A full buffer drops from the flow with the longest queue; of those that share between users, of the user that holds the most.
    pub drops_longest: bool,
}

/// Environment of a discipline: limits, users, link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Env {
    /// The most that it may hold.
    pub limits: Limits,
    /// Every [`UserId`] is below it.
    pub users: u32,
    /// Weights of users, or the levels of `prio`, where they are not 1.
    pub weights: Vec<(UserId, u32)>,
    /// Rate of the link; `None`: it has none.
    pub rate: Option<Rate>,
    /// Bytes of an IP packet on the wire, where packets are given with their length there.
    pub framing: Framing,
    /// Code of tags.
    pub codec: Codec,
    /// Seed of its chances, and of what is random in its order of flows; secret where strangers send.
    pub seed: u64,
}

impl Env {
    /// As many users as flows ([`UserId::MOST`] at most), each of weight 1; no rate, no framing, 8 bits of ticket, a seed that everybody knows.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            users: limits.flows.min(UserId::MOST),
            weights: Vec::new(),
            rate: None,
            framing: Framing::default(),
            codec: Codec::default(),
            seed: 1,
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        const MOST: u32 = 1 << 30;
        let Limits {
            packets,
            bytes,
            flows,
        } = self.limits;
        if !(1..=MOST).contains(&packets) {
            return Err(SpecError::Packets(packets));
        }
        // With the largest packet on top, a backlog still fits 32 bits.
        if !(Bytes::new(1)..=Limits::MOST_BYTES).contains(&bytes) {
            return Err(SpecError::Bytes(bytes));
        }
        if !(1..=MOST).contains(&flows) {
            return Err(SpecError::Flows(flows));
        }
        if !(1..=UserId::MOST).contains(&self.users) {
            return Err(SpecError::Users(self.users));
        }
        for &(UserId(user), weight) in &self.weights {
            if user >= self.users {
                return Err(SpecError::NoSuchUser(user, self.users));
            }
            if !(1..=65_536).contains(&weight) {
                return Err(SpecError::Weight(user, weight));
            }
        }
        match self.rate {
            Some(rate) if rate.bps() == 0 => Err(SpecError::LinkRate(rate)),
            _ => Ok(()),
        }
    }
}

impl Spec {
    /// Changes a parameter to `text`.
    ///
    /// # Errors
    /// The discipline has no such parameter, or the value is outside its range.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SpecError> {
        let discipline = self.discipline();
        param::set(|visit| self.fields(visit), key, text)
            .map_err(|refusal| SpecError::Parameter(discipline, refusal))
    }

    /// Whether [`build`] would make it.
    ///
    /// # Errors
    /// A value outside its range, or two that do not go together.
    pub fn check(&self) -> Result<(), SpecError> {
        let mut own = self.clone();
        param::check(|visit| own.fields(visit))
            .map_err(|refusal| SpecError::Parameter(self.discipline(), refusal))?;
        self.relations().map_err(SpecError::Relation)
    }
}

/// Makes the discipline; all its memory is allocated here.
///
/// # Errors
/// A value outside its range.
pub fn build(spec: &Spec, env: &Env) -> Result<Box<dyn Scheduler + Send>, SpecError> {
    env.check()?;
    spec.check()?;
    Ok(spec.make(env))
}

/// Why no discipline can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The limit in packets is out of range.
    #[error("a limit of {0} packets is outside 1 to 2^30: write for example 1000 packets")]
    Packets(u32),
    /// The limit in bytes is out of range.
    #[error("a limit of {0} is outside 1 B to 4080 MiB: write for example 256kB")]
    Bytes(Bytes),
    /// The number of flows is out of range.
    #[error("{0} flows are outside 1 to 2^30: write for example 1024")]
    Flows(u32),
    /// The number of users is out of range.
    #[error("{0} users are outside 1 to 2^{bits}: write for example 256", bits = UserId::BITS)]
    Users(u32),
    /// A weight is out of range.
    #[error("a weight of {1} for user {0} is outside 1 to 65536: write for example 2")]
    Weight(u32, u32),
    /// A weight names a user beyond the number of users.
    #[error("user {0} has a weight, but users are numbered below {1}")]
    NoSuchUser(u32, u32),
    /// The link has no rate.
    #[error("a link of {0} sends nothing: give its rate, or none")]
    LinkRate(Rate),
    /// A parameter does not exist, or has a value outside its range.
    #[error("{}", parameter(*.0, .1))]
    Parameter(Discipline, Refusal),
    /// Two values do not go together.
    #[error("{0}")]
    Relation(String),
    /// The place does not have what the discipline needs.
    #[error("{0} cannot run here: {1}")]
    NotHere(Discipline, &'static str),
}

fn parameter(discipline: Discipline, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unknown { .. } => format!("{discipline} has {refusal}"),
        Refusal::Value { .. } => refusal.to_string(),
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a discipline is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a discipline: choose {list}", list = one_of(&Discipline::ALL.map(Discipline::name)))]
pub struct ParseDisciplineError(String);

impl FromStr for Discipline {
    type Err = ParseDisciplineError;
    fn from_str(s: &str) -> Result<Self, ParseDisciplineError> {
        Self::ALL
            .into_iter()
            .find(|one| one.name() == s || one.aliases().contains(&s))
            .ok_or_else(|| ParseDisciplineError(s.into()))
    }
}

/// End of the longest queue from which a full buffer drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropFrom {
    /// The oldest. The sender learns of the loss a whole queue earlier, and the packets behind the
    /// gap draw the duplicate acknowledgements that repair it without a timeout; of live media the
    /// stalest packet goes (T. V. Lakshman, A. Neidhardt, T. Ott, "The drop from front strategy in
    /// TCP and in TCP over ATM", INFOCOM 1996).
    #[default]
    Head,
    /// The newest: with one flow this is drop-tail.
    Tail,
}

/// 1500 bytes of IP on Ethernet, with preamble, header, FCS and gap.
pub(super) const FULL_FRAME: Bytes = Bytes::new(1538);

/// The parameter `drop_from`.
pub(super) fn drop_from(value: &mut DropFrom, visit: &mut Visitor<'_>) {
    let names = &[("head", DropFrom::Head), ("tail", DropFrom::Tail)];
    visit(
        "drop_from",
        "the packet of the longest queue that a full buffer drops",
        &mut Choice(value, names),
    );
}

/// The parameter `ecn`.
pub(super) fn ecn(value: &mut bool, visit: &mut Visitor<'_>) {
    visit(
        "ecn",
        "packets that understand a mark are marked instead of dropped early",
        &mut flag(value),
    );
}

/// The parameter `quantum`.
pub(super) fn quantum(value: &mut Bytes, visit: &mut Visitor<'_>) {
    visit(
        "quantum",
        "bytes of a turn",
        &mut Ranged(value, Bytes::new(64)..=Bytes::new(1 << 20)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;
    use crate::sched::testing::{limits, packet};
    use crate::sched::{Drops, RedParams};
    use crate::units::Instant;

    #[test]
    fn a_discipline_reads_back_as_it_prints_and_others_are_refused_with_the_choices() {
        for discipline in Discipline::ALL {
            assert_eq!(discipline.to_string().parse(), Ok(discipline));
            assert_eq!(discipline.spec().discipline(), discipline);
            let on_a_link = discipline.on_a_link();
            assert_eq!(
                (on_a_link.discipline(), on_a_link.check()),
                (discipline, Ok(()))
            );
            for alias in discipline.aliases() {
                assert_eq!(alias.parse(), Ok(discipline));
            }
        }
        let error = "sfq".parse::<Discipline>().unwrap_err().to_string();
        for discipline in Discipline::ALL {
            assert!(error.contains(discipline.name()), "{error}");
        }
    }

    #[test]
    fn every_parameter_reads_back_as_it_shows_and_refuses_what_is_no_value() {
        for discipline in Discipline::ALL {
            let mut fields = Vec::new();
            let mut spec = discipline.spec();
            assert_eq!(spec.check(), Ok(()), "{discipline}");
            spec.fields(&mut |key, about, slot| {
                assert!(!about.is_empty() && !slot.allowed().is_empty(), "{key}");
                fields.push((key.to_owned(), slot.shown()));
            });
            for (key, shown) in fields {
                let mut again = spec.clone();
                if !shown.is_empty() {
                    assert_eq!(again.set(&key, &shown), Ok(()), "{discipline} {key}");
                }
                assert_eq!(again, spec, "{discipline} {key}");
                let error = again.set(&key, "-1x").unwrap_err().to_string();
                assert!(
                    error.contains(&format!("`{key}` is -1x: write ")),
                    "{error}"
                );
                assert_eq!(again, spec, "{discipline} {key}");
            }
            let error = spec.set("red.mni", "5").unwrap_err().to_string();
            let said = format!("{discipline} has no parameter `red.mni`");
            assert!(error.contains(&said), "{error}");
        }
    }

    #[test]
    fn a_full_buffer_drops_from_the_longest_queue_of_a_discipline_that_says_so() {
        for discipline in Discipline::ALL {
            let spec = discipline.spec();
            let mut env = Env::new(limits(20, 75_000));
            env.rate = Some(Rate::from_bps(10_000_000));
            let mut scheduler = build(&spec, &env).unwrap();
            let mut drops = Drops::default();
            // The oldest packet and the newest are of flow 1, which holds 5; flow 0 holds 15.
            for n in 0..20 {
                let flow = u32::from(n < 5);
                scheduler.enqueue(Instant::ZERO, packet(n, flow, 100), &mut drops);
            }
            assert_eq!(drops.drain().count(), 0, "{discipline}");
            scheduler.enqueue(Instant::ZERO, packet(20, 1, 100), &mut drops);
            let dropped = drops.drain().next().map(|(pkt, _)| pkt.flow);
            let longest = spec.needs().drops_longest;
            assert_eq!(dropped, Some(FlowId((!longest).into())), "{discipline}");
        }
    }

    #[test]
    fn the_framing_of_the_link_changes_the_order_of_a_discipline_that_says_so() {
        // Four long packets, then one of 140 B on the wire: of 102 B as an IP packet where the link adds 38 B.
        let order = |discipline: Discipline, overhead| {
            let mut env = Env::new(limits(20, 75_000));
            env.rate = Some(Rate::from_bps(10_000_000));
            env.framing.overhead = overhead;
            let mut scheduler = build(&discipline.spec(), &env).unwrap();
            let mut drops = Drops::default();
            for n in 0..5 {
                let short = n == 4;
                let len = if short { 140 } else { 1500 };
                scheduler.enqueue(Instant::ZERO, packet(n, short.into(), len), &mut drops);
            }
            let sent = std::iter::from_fn(|| scheduler.dequeue(Instant::ZERO, &mut drops));
            sent.map(|pkt| pkt.handle.0).collect::<Vec<_>>()
        };
        for discipline in Discipline::ALL {
            let changes = order(discipline, 0) != order(discipline, 38);
            assert_eq!(changes, discipline.spec().needs().framing, "{discipline}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_refused_and_named() {
        let env = Env::new(limits(50, 75_000));
        let fifo = Discipline::Fifo.spec();
        assert!(build(&fifo, &env).is_ok());
        let refused = |change: fn(&mut Env)| {
            let mut env = env.clone();
            change(&mut env);
            build(&fifo, &env).err().expect("refused").to_string()
        };
        assert!(refused(|e| e.limits.packets = 0).contains("0 packets"));
        assert!(refused(|e| e.limits.bytes = Bytes::ZERO).contains("0 B"));
        assert!(refused(|e| e.limits.flows = 0).contains("0 flows"));
        assert!(refused(|e| e.users = 0).contains("0 users"));
        assert!(refused(|e| e.users = UserId::MOST + 1).contains("outside 1 to 2^21"));
        assert!(refused(|e| e.weights.push((UserId(1), 0))).contains("weight of 0"));
        assert!(refused(|e| e.weights.push((UserId(64), 1))).contains("user 64"));
        assert!(refused(|e| e.rate = Some(Rate::from_bps(0))).contains("0bit"));

        let refused = |discipline: &str, key: &str, text: &str| {
            let discipline: Discipline = discipline.parse().unwrap();
            let mut spec = discipline.spec();
            let set = spec.set(key, text).and_then(|()| spec.check());
            set.unwrap_err().to_string()
        };
        for (discipline, key, text, said) in [
            ("fq", "quantum", "63B", "a size from 64B to 1048576B"),
            ("red", "red.min", "0", "a whole number from 1 to"),
            ("red", "red.max", "5", "must be below the upper"),
            ("red", "red.weight", "0", "from 0.000000953674 to 1"),
            ("red", "red.max_p", "0", "a number from"),
            ("choke", "red.mean_packet", "0B", "a size from 1B"),
            ("tred", "tred.k", "1", "a number from 1.01 to 100"),
            ("tred", "tred.exponent", "0", "from 1 to 64"),
            ("harvest", "tred.window", "0s", "a time from 1ms to 3600s"),
            ("tred", "tred.interval", "3601s", "a time from 1ms to 3600s"),
            ("rio", "rio.in.min", "40", "`rio.in.max` 40"),
            ("codel", "codel.interval", "5s", "from 1us to 4s"),
            (
                "fq-codel",
                "codel.target",
                "1s",
                "may not exceed the interval",
            ),
            ("cake", "cake.rtt", "19us", "from 20us to 4s"),
            ("cake", "cake.isolation", "hosts", "dual or flows"),
            ("confucius", "confucius.memory", "999us", "from 1ms"),
            ("ncq", "ncq.length", "0B", "a size from 1B"),
            ("ncq", "ncq.window", "0", "from 1 to 1048576"),
            ("ncq", "ncq.extra_wait", "0", "a number from"),
            ("ncq", "ncq.extra_wait", "1", "needs a window"),
            (
                "ncq",
                "ncq.low_rate.rate",
                "1bit",
                "`ncq.low_rate.burst` is missing",
            ),
            (
                "ncq",
                "ncq.low_rate.burst",
                "1B",
                "`ncq.low_rate.rate` is missing",
            ),
        ] {
            let error = refused(discipline, key, text);
            assert!(error.contains(said), "{key} = {text}: {error}");
        }
        // A discipline minds its own parameters only.
        let mut bad = RedParams::default();
        bad.min = bad.max;
        assert!(build(&Spec::Red(bad), &env).is_err());
    }
}
