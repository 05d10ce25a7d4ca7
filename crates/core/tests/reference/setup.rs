// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on a discipline, and its parameters.

use makeway_core::framing::Framing;
use makeway_core::packet::UserId;
use makeway_core::sched::{
    CakeParams, ChokeParams, CoDelParams, ConfuciusParams, CsfqParams, Discipline, DropFrom, Env,
    FqCoDelParams, FqParams, HarvestParams, HierParams, Limits, NcqParams, PfqParams, RedParams,
    RioParams, Spec, SqfParams, TredParams,
};
use makeway_core::ticket::Codec;
use makeway_core::units::{Bytes, Duration, Rate};

/// Operations on a discipline.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Enqueue {
        flow: u32,
        user: u32,
        len: u32,
        control: bool,
        tag: u16,
    },
    Dequeue,
    Advance(Duration),
}

impl Op {
    /// Operations from a fuzzer's bytes, five for each.
    #[allow(dead_code)]
    pub fn read(bytes: &[u8], config: &Config) -> Vec<Op> {
        let op = |b: &[u8]| match b[0] % 8 {
            0..4 => Op::Enqueue {
                flow: u32::from(b[1]) % config.limits.flows,
                user: u32::from(b[2]) % config.users,
                len: (1 + u32::from(b[3]) + u32::from(b[4]) * 7) << (b[0] >> 6 << 2),
                control: b[1] >= 128,
                tag: u16::from(b[3]) << (b[0] >> 3 & 7) >> 7,
            },
            4..7 => Op::Dequeue,
            _ => Op::Advance(Duration::from_nanos(u64::from(b[1]) << (b[2] % 32))),
        };
        bytes.chunks_exact(5).map(op).collect()
    }
}

/// Parameters of every discipline, so that one strategy makes them all.
#[derive(Clone, Debug)]
pub struct Config {
    pub discipline: Discipline,
    pub limits: Limits,
    pub drop_from: DropFrom,
    /// Parameter of `sqf`.
    pub least_cost: Bytes,
    pub quantum: Bytes,
    pub users: u32,
    pub weights: Vec<(UserId, u32)>,
    pub red: RedParams,
    /// Its own parameters of RED are not looked at.
    pub tred: TredParams,
    pub codec: Codec,
    pub rio: RioParams,
    pub csfq: CsfqParams,
    pub codel: CoDelParams,
    pub cake: CakeParams,
    pub ncq: NcqParams,
    pub confucius: ConfuciusParams,
    pub rate: Option<Rate>,
    pub framing: Framing,
    pub seed: u64,
}

impl Config {
    pub fn new(discipline: Discipline, limits: Limits) -> Self {
        let env = Env::new(limits);
        Self {
            discipline,
            limits,
            drop_from: DropFrom::default(),
            least_cost: SqfParams::default().least_cost,
            quantum: FqParams::default().quantum,
            users: env.users,
            weights: Vec::new(),
            red: RedParams::default(),
            tred: TredParams::default(),
            codec: env.codec,
            rio: RioParams::default(),
            csfq: CsfqParams::default(),
            codel: CoDelParams::default(),
            cake: CakeParams::default(),
            ncq: NcqParams::default(),
            confucius: ConfuciusParams::default(),
            rate: None,
            framing: Framing::default(),
            seed: env.seed,
        }
    }

    pub fn env(&self) -> Env {
        Env {
            users: self.users,
            weights: self.weights.clone(),
            rate: self.rate,
            framing: self.framing,
            codec: self.codec,
            seed: self.seed,
            ..Env::new(self.limits)
        }
    }

    pub fn spec(&self) -> Spec {
        let (quantum, drop_from, red) = (self.quantum, self.drop_from, self.red.clone());
        match self.discipline {
            Discipline::Fq => Spec::Fq(FqParams { quantum, drop_from }),
            Discipline::Pfq => Spec::Pfq(PfqParams { quantum, drop_from }),
            Discipline::Sqf => Spec::Sqf(SqfParams {
                drop_from,
                least_cost: self.least_cost,
            }),
            Discipline::Hier => Spec::Hier(HierParams { quantum, drop_from }),
            Discipline::Red => Spec::Red(red),
            Discipline::CoDel => Spec::CoDel(self.codel),
            Discipline::FqCoDel => Spec::FqCoDel(FqCoDelParams {
                quantum,
                codel: self.codel,
            }),
            Discipline::Cake => Spec::Cake(self.cake.clone()),
            Discipline::Ncq => Spec::Ncq(self.ncq.clone()),
            Discipline::Tred => Spec::Tred(TredParams {
                red,
                ..self.tred.clone()
            }),
            Discipline::Rio => Spec::Rio(self.rio.clone()),
            Discipline::Choke => Spec::Choke(ChokeParams { red }),
            Discipline::Csfq => Spec::Csfq(self.csfq),
            Discipline::Harvest => Spec::Harvest(HarvestParams {
                red,
                window: self.tred.window,
            }),
            Discipline::Confucius => Spec::Confucius(ConfuciusParams {
                drop_from,
                ..self.confucius
            }),
            other => other.spec(),
        }
    }
}
