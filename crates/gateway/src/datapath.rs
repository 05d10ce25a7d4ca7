// SPDX-License-Identifier: MIT OR Apache-2.0
//! The datapath: a packet queue of the kernel, our scheduler and shaper, verdicts.
//!
//! Packets stay in the kernel; their headers come here ([`nfqueue`]), a pipeline without clock and
//! socket decides which goes when, and the verdict sends it on. One thread for each queue.

pub mod baseline;
mod connection;
mod impair;
mod message;
pub mod nfqueue;
mod pipeline;
mod runner;
pub(crate) mod sojourn;
mod stats;
mod tags;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::packet::UserId;
use makeway_core::sched::{Discipline, Env, Limits, Spec, SpecError};
use makeway_core::ticket::TicketRate;
use makeway_core::units::Rate;

pub use connection::Translated;
pub use impair::Impairments;
#[doc(hidden)] // For `fuzz/`.
pub use message::parse as parse_message;
pub use message::{Message, Queued};
pub use nfqueue::BindError;
pub use runner::{DatapathError, DatapathHandle};
pub use stats::{FlowStats, Sojourn, SojournCounts, Stats, TagStats, Traffic, reason};
pub use tags::{Leaving, Rule, Share, TagConfig};

use pipeline::Pipeline;

/// Configuration of a datapath. It alone decides the memory, for any traffic.
#[derive(Clone, Debug)]
pub struct DatapathConfig {
    /// Number of the packet queue, in the network namespace of the calling thread.
    pub queue_num: u16,
    /// Whether the next free number is as good.
    pub any_queue: bool,
    /// The discipline.
    pub spec: Spec,
    /// The most that it may hold.
    pub limits: Limits,
    /// Rate on the wire; `None`: packets never wait for the link. Not zero.
    pub rate: Option<Rate>,
    /// Bytes of a packet on the wire.
    pub framing: Framing,
    /// Flow key.
    pub identity: Identity,
    /// User key, where the discipline has any.
    pub users: Identity,
    /// Weights of users by address; 1 where none is given.
    pub weights: Vec<(IpAddr, u32)>,
    /// Tickets on packets.
    pub tags: TagConfig,
    /// Delay and loss behind the shaper.
    pub impairments: Impairments,
    /// Seed of the impairments, of the drops of `red` and of the flow table's hash; secret where
    /// strangers send.
    pub seed: u64,
}

impl DatapathConfig {
    /// Queue `queue_num` and no other; flows by 5-tuple, users by source host, no framing, no
    /// impairments, a seed that everybody knows.
    pub fn new(queue_num: u16, spec: Spec, limits: Limits, rate: Option<Rate>) -> Self {
        Self {
            queue_num,
            any_queue: false,
            spec,
            limits,
            rate,
            framing: Framing::default(),
            identity: Identity::FiveTuple,
            users: Identity::SrcHost,
            weights: Vec::new(),
            tags: TagConfig::default(),
            impairments: Impairments::default(),
            seed: 1,
        }
    }

    /// Whether a flow or a user is known by its destination's address, which address translation may replace behind the queue.
    fn names_destinations(&self) -> bool {
        let keys = [self.identity, self.users];
        keys.into_iter().any(pipeline::names_destination)
    }

    /// Flows that are known: each packet that is held may be of a flow of its own, and then there are still ids for those that hold none.
    fn flows(&self) -> u32 {
        let holding = self.limits.packets;
        let idle = holding.clamp(2, IDLE);
        self.limits.flows.max(holding.saturating_add(idle))
    }

    /// Users that are known: likewise, beside those with a weight, whose ids are theirs.
    fn known_users(&self) -> u32 {
        let weights = u32::try_from(self.weights.len()).unwrap_or(u32::MAX);
        self.flows().saturating_add(weights).min(UserId::MOST)
    }

    /// Packets up to which the limit may rise while it runs, beside `weights` users with a weight, whose ids are theirs.
    pub(crate) fn room(&self, weights: usize) -> u32 {
        let weights = u32::try_from(weights).unwrap_or(u32::MAX);
        let users = self.known_users().saturating_sub(weights);
        // User 0 has an id, and is nobody.
        let known = self.flows().min(users).saturating_sub(1);
        // The kernel's queue has room for those on the way to us.
        known.min(self.limits.packets.saturating_add(ON_THE_WAY / 2))
    }

    /// Why a datapath that runs cannot have its discipline.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        self.spec.check()?;
        let writes = self.tags.leaving == Leaving::AsScheduled;
        pipeline::check_place(&self.spec, self.rate, writes)
    }

    /// Environment of the discipline, but for its users.
    pub(crate) fn env(&self) -> Env {
        Env {
            rate: self.rate,
            framing: self.framing,
            codec: self.tags.codec,
            seed: self.seed,
            ..Env::new(self.limits)
        }
    }
}

/// Parameters in which `spec` differs from [`Discipline::on_a_link`], by their keys, as they are written.
pub fn chosen(spec: &Spec) -> BTreeMap<String, String> {
    let shown = |mut spec: Spec| {
        let mut all = BTreeMap::new();
        spec.fields(&mut |key, _, slot| {
            all.insert(key.to_owned(), slot.shown());
        });
        all
    };
    let default = shown(spec.discipline().on_a_link());
    let mut own = shown(spec.clone());
    own.retain(|key, value| default.get(key) != Some(&*value));
    own
}

/// A change to a running datapath; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// A new rate, or no rate at all.
    pub rate: Option<Option<Rate>>,
    /// Another discipline with its parameters, or the same with others: made anew, so that it knows flows by their packets alone.
    pub spec: Option<Spec>,
    /// Other limits, but for the number of flows; the discipline is made anew.
    pub limits: Option<Limits>,
    /// Weights of users by address, all of them; a discipline that takes weights only when it is made is made anew.
    pub weights: Option<Vec<(IpAddr, u32)>>,
    /// Instead of `spec`: another discipline, with the limits of the old; with the parameters of the start if it is that of the start, else
    /// those of [`Discipline::on_a_link`].
    pub discipline: Option<Discipline>,
    /// Another framing, for packets that come from now on.
    pub framing: Option<Framing>,
    /// Another rate of tickets that the next hop issues, where the link relabels.
    pub tickets: Option<TicketRate>,
    /// The fwmark that the rules behind the queue turn into a mark of congestion ([`Rules::marking`]), or none: then what
    /// would be marked is dropped, as at the start.
    ///
    /// [`Rules::marking`]: crate::rules::Rules::marking
    pub marking: Option<Option<u32>>,
}

/// Most flows without packets that are known besides as many as can hold some.
const IDLE: u32 = 1 << 16;
/// Packets on their way to us wait in the kernel too. We hold the limit, not the kernel.
const ON_THE_WAY: u32 = 4096;

/// Why a datapath could not start.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] SpecError),
    /// No link has a rate of zero.
    #[error("a rate of 0 would let nothing through: give a rate like 20mbit")]
    NoRate,
    /// The packet queue could not be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The thread could not be made.
    #[error("the datapath's thread could not start: {0}")]
    Thread(io::Error),
}

/// Starts datapaths.
#[derive(Debug)]
pub struct Datapath;

impl Datapath {
    /// Takes the queue in the calling thread's network namespace and runs on a thread of its own.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, on a kernel without packet queues, if the number is taken, and for a
    /// configuration that cannot be.
    pub fn spawn(config: DatapathConfig) -> Result<DatapathHandle, AttachError> {
        if config.rate.is_some_and(|rate| rate.bps() == 0) {
            return Err(AttachError::NoRate);
        }
        let pipeline = Pipeline::new(runner::now(), &config)?;
        let limit = pipeline.most_held().saturating_add(ON_THE_WAY);
        let asked = nfqueue::Asked {
            copied: match config.tags.writes() {
                true => nfqueue::Copied::Whole,
                false => nfqueue::Copied::Headers,
            },
            connections: config.names_destinations(),
        };
        let queue = match config.any_queue {
            true => nfqueue::Queue::bind_free(config.queue_num, limit, asked)?,
            false => nfqueue::Queue::bind(config.queue_num, limit, asked)?,
        };
        DatapathHandle::start(queue, pipeline).map_err(AttachError::Thread)
    }
}
