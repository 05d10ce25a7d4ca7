//! What a discipline is made from, and its making.

use super::cake::{Cake, CakeParams};
use super::choke::Choke;
use super::codel::{CoDel, CoDelParams};
use super::confucius::{Confucius, ConfuciusParams};
use super::csfq::{Csfq, CsfqParams};
use super::fifo::Fifo;
use super::fq::Fq;
use super::fq_codel::{FqCoDel, FqCoDelParams};
use super::harvest::Harvest;
use super::hier::Hier;
use super::ncq::{LowRate, Ncq, NcqParams};
use super::order::Buckets;
use super::pfq::Pfq;
use super::prio::Prio;
use super::red::{Red, RedParams};
use super::rio::{Rio, RioParams};
use super::sqf::Sqf;
use super::tred::{Tred, TredParams};
use super::{Limits, Scheduler};
use crate::packet::{Packet, UserId};
use crate::ticket::Tsw;
use crate::units::{Bytes, Duration, Fraction, Rate};
use std::fmt;
use std::str::FromStr;

/// The disciplines by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discipline {
    /// First in, first out, drop-tail.
    Fifo,
    /// Fair queueing: deficit round robin, longest queue drop.
    Fq,
    /// Priority fair queueing: flows that are not backlogged first.
    Pfq,
    /// Shortest queue first, longest queue drop.
    Sqf,
    /// Fair queueing between users, shortest queue first between a user's flows.
    Hier,
    /// Random early detection.
    Red,
    /// Controlled delay.
    CoDel,
    /// Flow queue CoDel: fair queueing, new flows first, CoDel in each.
    FqCoDel,
    /// Fair queueing of users and of their flows, sparse flows first, CoDel and BLUE in each.
    Cake,
    /// Strict priority between users.
    Prio,
    /// Non-congestive queuing: short packets first, within a threshold.
    Ncq,
    /// Ticket-based random early detection.
    Tred,
    /// Random early detection with in and out.
    Rio,
    /// Random early detection that compares packets.
    Choke,
    /// Core-stateless fair queueing.
    Csfq,
    /// Random early detection that harvests tickets.
    Harvest,
    /// Confucius: new flows gain their share slowly.
    Confucius,
}

impl Discipline {
    /// Every discipline, in the order in which they are listed to people.
    pub const ALL: [Self; 17] = [
        Self::Fifo,
        Self::Fq,
        Self::Pfq,
        Self::Sqf,
        Self::Hier,
        Self::Red,
        Self::CoDel,
        Self::FqCoDel,
        Self::Cake,
        Self::Prio,
        Self::Ncq,
        Self::Tred,
        Self::Rio,
        Self::Choke,
        Self::Csfq,
        Self::Harvest,
        Self::Confucius,
    ];

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Fq => "fq",
            Self::Pfq => "pfq",
            Self::Sqf => "sqf",
            Self::Hier => "hier",
            Self::Red => "red",
            Self::CoDel => "codel",
            Self::FqCoDel => "fq-codel",
            Self::Cake => "cake",
            Self::Prio => "prio",
            Self::Ncq => "ncq",
            Self::Tred => "tred",
            Self::Rio => "rio",
            Self::Choke => "choke",
            Self::Csfq => "csfq",
            Self::Harvest => "harvest",
            Self::Confucius => "confucius",
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a discipline is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a discipline: choose {list}", list = choices())]
pub struct ParseDisciplineError(String);

fn choices() -> String {
    let names = Discipline::ALL.map(Discipline::name);
    match names.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

impl FromStr for Discipline {
    type Err = ParseDisciplineError;
    fn from_str(s: &str) -> Result<Self, ParseDisciplineError> {
        Self::ALL
            .into_iter()
            .find(|discipline| discipline.name() == s)
            .ok_or_else(|| ParseDisciplineError(s.into()))
    }
}

/// Which packet of the longest queue is given up when the buffer is full.
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

/// What a discipline is made from. [`build`] checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which one.
    pub discipline: Discipline,
    /// The most that it may hold.
    pub limits: Limits,
    /// Where longest queue drop takes its packet, in `fq`, `pfq`, `sqf`, `hier` and `confucius`.
    pub drop_from: DropFrom,
    /// Bytes that a flow (`fq`, `pfq`) or a user of weight 1 (`hier`) may send in a round; 64 B to
    /// 1 MiB.
    pub quantum: Bytes,
    /// Users of `hier`, `prio`, `csfq` and `cake`: every [`UserId`] is below it.
    pub users: u32,
    /// Weights of the users of `hier` and `csfq`, levels of those of `prio`, where they are not 1.
    pub weights: Vec<(UserId, u32)>,
    /// Of `red`, and of `choke`, `tred` and `harvest`, which are RED and something more.
    pub red: RedParams,
    /// Of `tred`, the rest; of `harvest` codec and window.
    pub tred: TredParams,
    /// Of `rio`.
    pub rio: RioParams,
    /// Of `csfq`.
    pub csfq: CsfqParams,
    /// Of `codel`.
    pub codel: CoDelParams,
    /// Of `fq-codel`.
    pub fq_codel: FqCoDelParams,
    /// Of `cake`.
    pub cake: CakeParams,
    /// Of `ncq`.
    pub ncq: NcqParams,
    /// Of `confucius`.
    pub confucius: ConfuciusParams,
}

impl Config {
    /// 1500 bytes of IP on Ethernet, with preamble, header, FCS and gap.
    pub const DEFAULT_QUANTUM: Bytes = Bytes::new(1538);

    /// The defaults: drop from the head of the longest queue, a quantum of one full Ethernet frame on
    /// the wire, as many users as flows ([`UserId::MOST`] at most), each of weight 1; for `red`, `codel`,
    /// `fq-codel` and `ncq` what was published with them.
    pub fn new(discipline: Discipline, limits: Limits) -> Self {
        Self {
            discipline,
            limits,
            drop_from: DropFrom::default(),
            quantum: Self::DEFAULT_QUANTUM,
            users: limits.flows.min(UserId::MOST),
            weights: Vec::new(),
            red: RedParams::default(),
            tred: TredParams::default(),
            rio: RioParams::default(),
            csfq: CsfqParams::default(),
            codel: CoDelParams::default(),
            fq_codel: FqCoDelParams::default(),
            cake: CakeParams::default(),
            ncq: NcqParams::default(),
            confucius: ConfuciusParams::default(),
        }
    }
}

/// Why no discipline can be made from a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The limit in packets is out of range.
    #[error("a limit of {0} packets is outside 1 to 2^30")]
    Packets(u32),
    /// The limit in bytes is out of range.
    #[error("a limit of {0} is outside 1 B to 4080 MiB")]
    Bytes(Bytes),
    /// The number of flows is out of range.
    #[error("{0} flows are outside 1 to 2^30")]
    Flows(u32),
    /// The quantum is out of range.
    #[error("a quantum of {0} is outside 64 B to 1 MiB")]
    Quantum(Bytes),
    /// The number of users is out of range.
    #[error("{0} users are outside 1 to 2^{bits}", bits = UserId::BITS)]
    Users(u32),
    /// A weight is out of range.
    #[error("a weight of {1} for user {0} is outside 1 to 65536")]
    Weight(u32, u32),
    /// A weight is given to a user that there is not.
    #[error("user {0} has a weight, but users are numbered below {1}")]
    NoSuchUser(u32, u32),
    /// A threshold of RED is out of range.
    #[error(
        "thresholds of {0} and {1} packets for red: the lower is at least 1, the upper above it and at most 2^30"
    )]
    Thresholds(u32, u32),
    /// The weight of RED's average is out of range.
    #[error("a weight of {0} for the average of red is outside 2^-20 to 1")]
    AverageWeight(Fraction),
    /// RED would never drop by chance.
    #[error("a drop probability of {0} for red is outside 2^-48 to 1")]
    DropProbability(Fraction),
    /// The mean packet of RED is out of range.
    #[error("a mean packet of {0} for red is outside 1 B to 16 MiB")]
    MeanPacket(Bytes),
    /// The line of RED has no rate.
    #[error("a line of {0} for red sends nothing: give its rate, or none")]
    LineRate(Rate),
    /// K of TRED is out of range.
    #[error("a K of {0} hundredths for tred is outside 101 to 10000")]
    TredK(u32),
    /// The exponent of TRED is out of range.
    #[error("an exponent of {0} for tred is outside 1 to 64")]
    TredExponent(u32),
    /// A time of TRED is out of range.
    #[error("a time of {0} for tred is outside 1ms to 1h")]
    TredTime(Duration),
    /// A window of CSFQ is out of range.
    #[error("a window of {0} for csfq is outside 1ms to 1h")]
    CsfqWindow(Duration),
    /// The line of CSFQ has no rate.
    #[error("a line of {0} for csfq sends nothing: give its rate, or none")]
    CsfqLineRate(Rate),
    /// The interval of CoDel is out of range.
    #[error("an interval of {0} is outside 1us to 4s")]
    Interval(Duration),
    /// The target of CoDel is out of range.
    #[error("a target of {0} is outside 1us to the interval of {1}")]
    Target(Duration, Duration),
    /// The round trip of CAKE is out of range.
    #[error("an rtt of {0} for cake is outside 20us to 4s")]
    CakeRtt(Duration),
    /// The line of CAKE has no rate.
    #[error("a line of {0} for cake sends nothing: give its rate, or none")]
    CakeLineRate(Rate),
    /// The length that short packets of NCQ are below is out of range.
    #[error("a length of {0} for the short packets of ncq is outside 1 B to 16 MiB")]
    ShortLength(Bytes),
    /// The window of NCQ is out of range.
    #[error("a window of {0} packets for ncq is outside 1 to 2^20")]
    Window(u32),
    /// NCQ's threshold is to follow its outcome, and can't.
    #[error("an extra wait of 0 for ncq would favour nobody: give a share above it, like 0.01")]
    ExtraWait,
    /// NCQ's threshold is to follow its outcome, which all that ever came would hide.
    #[error("an extra wait for ncq needs a window of packets to be measured in, like 1000")]
    ExtraWaitOfAll,
    /// The rate of NCQ's low-rate flows is zero.
    #[error("a low rate of {0} for ncq is nobody's: give one above it, or none")]
    LowRate(Rate),
    /// A time of Confucius is out of range.
    #[error("a time of {0} for confucius is outside 1ms to 1h")]
    ConfuciusTime(Duration),
    /// The burst of NCQ's low-rate flows is out of range.
    #[error("a burst of {0} for the low-rate flows of ncq is outside 1 B to 16 MiB")]
    Burst(Bytes),
}

impl Config {
    /// Whether [`build`] would make it.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        const MOST: u32 = 1 << 30;
        let Limits {
            packets,
            bytes,
            flows,
        } = self.limits;
        if !(1..=MOST).contains(&packets) {
            return Err(ConfigError::Packets(packets));
        }
        // With the largest packet on top, a backlog still fits 32 bits.
        if !(Bytes::new(1)..=Limits::MOST_BYTES).contains(&bytes) {
            return Err(ConfigError::Bytes(bytes));
        }
        if !(1..=MOST).contains(&flows) {
            return Err(ConfigError::Flows(flows));
        }
        for quantum in [self.quantum, self.fq_codel.quantum] {
            if !(64..=1 << 20).contains(&quantum.get()) {
                return Err(ConfigError::Quantum(quantum));
            }
        }
        if !(1..=UserId::MOST).contains(&self.users) {
            return Err(ConfigError::Users(self.users));
        }
        for &(UserId(user), weight) in &self.weights {
            if user >= self.users {
                return Err(ConfigError::NoSuchUser(user, self.users));
            }
            if !(1..=65_536).contains(&weight) {
                return Err(ConfigError::Weight(user, weight));
            }
        }
        self.red.check()?;
        self.tred.check()?;
        self.rio.inside.check()?;
        self.rio.outside.check()?;
        self.csfq.check()?;
        self.codel.check()?;
        self.fq_codel.codel.check()?;
        self.cake.check()?;
        self.confucius.check()?;
        self.ncq.check()
    }
}

impl RedParams {
    fn check(&self) -> Result<(), ConfigError> {
        if !(1 <= self.min && self.min < self.max && self.max <= 1 << 30) {
            return Err(ConfigError::Thresholds(self.min, self.max));
        }
        // The range for which `red` says how exact its average is.
        if !(Fraction::ratio(1, 1 << 20)..=Fraction::ONE).contains(&self.weight) {
            return Err(ConfigError::AverageWeight(self.weight));
        }
        if self.max_p == Fraction::default() {
            return Err(ConfigError::DropProbability(self.max_p));
        }
        if !(Bytes::new(1)..=Packet::MAX_LEN).contains(&self.mean_packet) {
            return Err(ConfigError::MeanPacket(self.mean_packet));
        }
        match self.rate {
            Some(rate) if rate.bps() == 0 => Err(ConfigError::LineRate(rate)),
            _ => Ok(()),
        }
    }
}

impl TredParams {
    fn check(&self) -> Result<(), ConfigError> {
        if !(101..=10_000).contains(&self.k) {
            return Err(ConfigError::TredK(self.k));
        }
        if !(1..=64).contains(&self.exponent) {
            return Err(ConfigError::TredExponent(self.exponent));
        }
        for time in [self.interval, self.window] {
            if !(Duration::from_millis(1)..=Tsw::MOST_WINDOW).contains(&time) {
                return Err(ConfigError::TredTime(time));
            }
        }
        Ok(())
    }
}

impl CsfqParams {
    fn check(&self) -> Result<(), ConfigError> {
        for window in [self.flow_window, self.window] {
            if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&window) {
                return Err(ConfigError::CsfqWindow(window));
            }
        }
        match self.rate {
            Some(rate) if rate.bps() == 0 => Err(ConfigError::CsfqLineRate(rate)),
            _ => Ok(()),
        }
    }
}

impl ConfuciusParams {
    fn check(&self) -> Result<(), ConfigError> {
        for time in [self.doubling, self.memory] {
            if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
                return Err(ConfigError::ConfuciusTime(time));
            }
        }
        Ok(())
    }
}

impl CoDelParams {
    fn check(&self) -> Result<(), ConfigError> {
        let least = Duration::from_micros(1);
        if !(least..=Self::MOST_INTERVAL).contains(&self.interval) {
            return Err(ConfigError::Interval(self.interval));
        }
        if !(least..=self.interval).contains(&self.target) {
            return Err(ConfigError::Target(self.target, self.interval));
        }
        Ok(())
    }
}

impl CakeParams {
    fn check(&self) -> Result<(), ConfigError> {
        let rtts = Duration::from_micros(20)..=CoDelParams::MOST_INTERVAL;
        if !rtts.contains(&self.rtt) {
            return Err(ConfigError::CakeRtt(self.rtt));
        }
        match self.rate {
            Some(rate) if rate.bps() == 0 => Err(ConfigError::CakeLineRate(rate)),
            _ => Ok(()),
        }
    }
}

impl NcqParams {
    fn check(&self) -> Result<(), ConfigError> {
        let lengths = Bytes::new(1)..=Packet::MAX_LEN;
        if !lengths.contains(&self.length) {
            return Err(ConfigError::ShortLength(self.length));
        }
        if let Some(window) = self.window
            && !(1..=1 << 20).contains(&window)
        {
            return Err(ConfigError::Window(window));
        }
        match (self.extra_wait, self.window) {
            (Some(share), _) if share == Fraction::default() => return Err(ConfigError::ExtraWait),
            (Some(_), None) => return Err(ConfigError::ExtraWaitOfAll),
            _ => {}
        }
        match self.low_rate {
            Some(LowRate { rate, .. }) if rate.bps() == 0 => Err(ConfigError::LowRate(rate)),
            Some(LowRate { burst, .. }) if !lengths.contains(&burst) => {
                Err(ConfigError::Burst(burst))
            }
            _ => Ok(()),
        }
    }
}

/// Makes the discipline that `config` describes; all its memory is allocated here.
///
/// # Errors
/// A value out of its range.
pub fn build(config: &Config) -> Result<Box<dyn Scheduler + Send>, ConfigError> {
    config.check()?;
    let Config {
        limits,
        drop_from,
        quantum,
        ..
    } = *config;
    Ok(match config.discipline {
        Discipline::Fifo => Box::new(Fifo::new(limits)),
        Discipline::Fq => Box::new(Fq::new(limits, quantum, drop_from)),
        Discipline::Pfq => Box::new(Pfq::new(limits, quantum, drop_from)),
        Discipline::Sqf => Box::new(Sqf::<Buckets>::new(limits, drop_from)),
        Discipline::Hier => {
            let mut hier = Hier::new(limits, config.users, quantum, drop_from);
            for (user, weight) in &config.weights {
                hier.set_weight(*user, *weight);
            }
            Box::new(hier)
        }
        Discipline::Red => Box::new(Red::new(limits, config.red.clone())),
        Discipline::CoDel => Box::new(CoDel::new(limits, config.codel)),
        Discipline::FqCoDel => Box::new(FqCoDel::new(limits, config.fq_codel)),
        Discipline::Cake => Box::new(Cake::new(limits, config.users, config.cake.clone())),
        Discipline::Prio => Box::new(Prio::new(limits, config.users, &config.weights)),
        Discipline::Ncq => Box::new(Ncq::new(limits, config.ncq.clone())),
        Discipline::Tred => Box::new(Tred::new(limits, config.red.clone(), config.tred)),
        Discipline::Rio => Box::new(Rio::new(limits, config.rio.clone())),
        Discipline::Choke => Box::new(Choke::new(limits, config.red.clone())),
        Discipline::Harvest => Box::new(Harvest::new(limits, config.red.clone(), config.tred)),
        Discipline::Confucius => Box::new(Confucius::new(limits, config.confucius, drop_from)),
        Discipline::Csfq => Box::new(Csfq::new(
            limits,
            config.csfq,
            config.users,
            &config.weights,
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::limits;

    #[test]
    fn a_discipline_reads_back_as_it_prints_and_others_are_refused_with_the_choices() {
        for discipline in Discipline::ALL {
            assert_eq!(discipline.to_string().parse(), Ok(discipline));
        }
        let error = "sfq".parse::<Discipline>().unwrap_err().to_string();
        for discipline in Discipline::ALL {
            assert!(error.contains(discipline.name()), "{error}");
        }
    }

    #[test]
    fn the_pages_of_disciplines_say_how_many_users_there_can_be() {
        let pages = [
            include_str!("../../../../docs/disciplines/hier.md"),
            include_str!("../../../../docs/disciplines/prio.md"),
        ];
        let range = format!("| users | 1 to 2^{} |", UserId::BITS);
        for page in pages {
            assert!(page.contains(&range), "{page}");
        }
        assert_eq!(UserId::MOST, 1 << UserId::BITS);
    }

    #[test]
    fn a_value_out_of_range_is_refused_and_named() {
        let good = Config::new(Discipline::Fifo, limits(50, 75_000));
        assert!(build(&good).is_ok());
        let refused = |change: fn(&mut Config)| {
            let mut config = good.clone();
            change(&mut config);
            build(&config).err().expect("refused").to_string()
        };
        assert!(refused(|c| c.limits.packets = 0).contains("0 packets"));
        assert!(refused(|c| c.limits.bytes = Bytes::ZERO).contains("0 B"));
        assert!(refused(|c| c.limits.flows = 0).contains("0 flows"));
        assert!(refused(|c| c.quantum = Bytes::new(63)).contains("63 B"));
        assert!(refused(|c| c.users = 0).contains("0 users"));
        assert!(refused(|c| c.users = UserId::MOST + 1).contains("outside 1 to 2^21"));
        assert!(refused(|c| c.weights.push((UserId(1), 0))).contains("weight of 0"));
        assert!(refused(|c| c.weights.push((UserId(64), 1))).contains("user 64"));
        assert!(refused(|c| c.fq_codel.quantum = Bytes::new(63)).contains("63 B"));
        assert!(refused(|c| c.red.min = 0).contains("0 and 15 packets"));
        assert!(refused(|c| c.red.max = 5).contains("5 and 5 packets"));
        let weight = |c: &mut Config| c.red.weight = Fraction::ratio(1, 1 << 21);
        assert!(refused(weight).contains("0.000000476837"));
        assert!(refused(|c| c.red.max_p = Fraction::default()).contains("probability of 0 "));
        assert!(refused(|c| c.red.mean_packet = Bytes::ZERO).contains("packet of 0 B"));
        assert!(refused(|c| c.red.rate = Some(Rate::from_bps(0))).contains("0bit"));
        assert!(refused(|c| c.tred.k = 100).contains("K of 100"));
        assert!(refused(|c| c.tred.exponent = 0).contains("exponent of 0"));
        assert!(refused(|c| c.tred.window = Duration::ZERO).contains("0ns"));
        assert!(refused(|c| c.tred.interval = Duration::from_secs(3601)).contains("3601s"));
        assert!(refused(|c| c.rio.inside.min = 0).contains("0 and 40 packets"));
        assert!(refused(|c| c.codel.interval = Duration::from_secs(5)).contains("5s"));
        assert!(refused(|c| c.codel.target = Duration::from_secs(1)).contains("of 1s"));
        assert!(refused(|c| c.fq_codel.codel.target = Duration::ZERO).contains("of 0ns"));
        assert!(refused(|c| c.cake.rtt = Duration::from_micros(19)).contains("19us"));
        assert!(refused(|c| c.cake.rate = Some(Rate::from_bps(0))).contains("0bit for cake"));
        let doubling = |c: &mut Config| c.confucius.doubling = Duration::from_micros(999);
        assert!(refused(doubling).contains("999us for confucius"));
        let memory = |c: &mut Config| c.confucius.memory = Duration::from_secs(3601);
        assert!(refused(memory).contains("3601s for confucius"));
        assert!(refused(|c| c.ncq.length = Bytes::ZERO).contains("length of 0 B"));
        assert!(refused(|c| c.ncq.window = Some(0)).contains("window of 0 packets"));
        assert!(refused(|c| c.ncq.window = Some(1 << 21)).contains("window of 2097152"));
        assert!(refused(|c| c.ncq.extra_wait = Some(Fraction::default())).contains("wait of 0"));
        assert!(refused(|c| c.ncq.extra_wait = Some(Fraction::ONE)).contains("needs a window"));
        let low_rate = |bps, bytes| LowRate {
            rate: Rate::from_bps(bps),
            burst: Bytes::new(bytes),
        };
        let mut config = good.clone();
        for (bps, bytes, name) in [(0, 1500, "rate of 0bit"), (1, 0, "burst of 0 B")] {
            config.ncq.low_rate = Some(low_rate(bps, bytes));
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
