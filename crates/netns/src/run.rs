// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: network, queues, sockets, traffic, report.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use makeway_core::units::{Duration, Instant};
use makeway_endpoints::MediaFlow;
use makeway_report::interval::{Interval, Progress};
use makeway_report::model::Report;
use makeway_scenario::departures::{Units, departures};
use makeway_scenario::model::{Changes, Egress, Flow, Link, Queue, Scenario, Share, Source, Tcp};
use makeway_scenario::routes::routes;
use makeway_scenario::wire::{self, Rtp};

use crate::bulk::{self, Demand, Fetched, Offer};
use crate::clock::Epoch;
use crate::datagram::{self, Content, Received, Sent, Stream};
use crate::egress::{self, QueueError};
use crate::network::{BuildError, Network, ask_for_ecn};
use crate::results::STALL_MS;
use crate::sender::{self, Carried, Plan};
use crate::steer::Ports;
use crate::topology::{MOST, node_address};
use crate::{qdisc, results};

/// From the start of the threads to the start of traffic, so that all are ready.
const HEAD_START: u64 = 100_000_000;
/// Longest wait for packets under way; and what is added to the longest way that is possible.
const DRAIN_MOST: Duration = Duration::from_secs(10);
const DRAIN_SPARE: Duration = Duration::from_millis(300);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Set to true from anywhere, it ends the run early, with a report of what there was.
    pub stop: Arc<AtomicBool>,
    /// Payload of `rtp` streams; zeros by default.
    pub content: Vec<Content>,
    /// Implementation of the queues.
    pub backend: Backend,
    /// Ends the run as soon as the machine stalls for longer than it bears; the report is not complete then.
    pub only_calm: bool,
    /// Stall of the machine in ms that it bears [default: [`STALL_MS`]].
    pub bears_ms: Option<f64>,
}

/// Queues at a link's ends: our datapath or qdiscs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A datapath of this process: the disciplines themselves.
    #[default]
    Nfqueue,
    /// Qdiscs of the kernel.
    Kernel,
}

/// A report, and which packets arrived.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// For each flow of the scenario, which packets arrived; empty for bulk.
    pub arrivals: Vec<Arrivals>,
}

/// Which packets of a datagram stream arrived, by sequence number from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals(pub(crate) Vec<u64>);

impl Arrivals {
    /// Whether packet `seq` arrived.
    pub fn has(&self, seq: u64) -> bool {
        let word = usize::try_from(seq / 64).ok().and_then(|n| self.0.get(n));
        word.is_some_and(|word| word & (1 << (seq % 64)) != 0)
    }
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It is too large for the plan of addresses.
    #[error("{what} {count} is above {MOST}, the most that a scenario may have in this world")]
    TooLarge {
        /// `nodes`, `links` or `flows`.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// There are no radios.
    #[error(
        "the world netns has no radio channel `{name}`: leave [wlan.{name}] out, or run it with --world sim"
    )]
    Wlan {
        /// The channel.
        name: String,
    },
    /// Its links send at any time.
    #[error(
        "the world netns has no timer as coarse as that of link `{name}`: leave `tick` out, or run it with --world sim"
    )]
    Tick {
        /// The link.
        name: String,
    },
    /// The kernel, or this process, cannot queue so.
    #[error("link `{link}`: {why}")]
    Queueing {
        /// The link.
        link: String,
        /// The fault.
        why: String,
    },
    /// Only a model of TCP, or of a source, can do it.
    #[error("{place}: flow `{flow}`: the world netns {what}, or run it with --world sim")]
    OnlyModelled {
        /// Where it was written.
        place: String,
        /// The flow.
        flow: String,
        /// The missing part, and the change to make.
        what: &'static str,
    },
    /// No path of links leads from a sender to its receiver.
    #[error("flow `{flow}`: no chain of links leads from `{from}` to `{to}`")]
    NoPath {
        /// Its name.
        flow: String,
        /// Its sender.
        from: String,
        /// Its receiver.
        to: String,
    },
    /// Namespaces, interfaces or routes.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The sockets of a flow.
    #[error("flow `{flow}`: {source}")]
    Flow {
        /// Its name.
        flow: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A thread of senders or receivers.
    #[error("traffic could not go on: {0}")]
    Traffic(#[from] io::Error),
}

/// Runs `scenario` in namespaces of its own and reports. Nothing is left when it returns, or dies.
/// Several runs may go side by side.
///
/// # Errors
/// [`RunError`] says what could not be built or started. A stop is no error: the report of what
/// there was says that it is not complete.
pub fn run(
    scenario: &Scenario,
    options: Options,
    progress: impl FnMut(Progress),
) -> Result<Report, RunError> {
    run_in_full(scenario, options, progress).map(|outcome| outcome.report)
}

/// As [`run`], and tells which packets arrived.
///
/// # Errors
/// As [`run`].
pub fn run_in_full(
    scenario: &Scenario,
    options: Options,
    progress: impl FnMut(Progress),
) -> Result<Outcome, RunError> {
    run_with(scenario, options, progress, None)
}

/// Called every so often with the queues.
type Steer<'s> = Option<(Duration, &'s mut dyn FnMut(&mut Ports<'_>))>;

fn run_with(
    scenario: &Scenario,
    options: Options,
    progress: impl FnMut(Progress),
    steer: Steer<'_>,
) -> Result<Outcome, RunError> {
    check(scenario, options.backend)?;
    let network = Network::build(scenario)?;
    let sockets = Sockets::open(scenario, &network)?;
    let mut queues = egress::start(scenario, &network, options.backend)?;
    let interval = Interval::new(scenario.warmup, scenario.duration);
    let traffic = carry(
        scenario,
        sockets,
        &mut queues,
        interval,
        &options,
        progress,
        steer,
    )?;
    results::outcome(scenario, traffic, queues, interval, &options)
}

/// As [`run`], and calls `each` every `step` with the queues, whose rates it may set.
///
/// # Errors
/// As [`run`].
pub fn run_steered(
    scenario: &Scenario,
    options: Options,
    step: Duration,
    mut each: impl FnMut(&mut Ports<'_>),
) -> Result<Report, RunError> {
    let steer = Some((step, &mut each as &mut dyn FnMut(&mut Ports<'_>)));
    run_with(scenario, options, |_| {}, steer).map(|outcome| outcome.report)
}

/// Whether `scenario` can run here, its queues by `backend`; builds nothing.
///
/// # Errors
/// [`RunError`]: what this world lacks.
pub fn check(scenario: &Scenario, backend: Backend) -> Result<(), RunError> {
    if let Some(wlan) = scenario.wlans.first() {
        return Err(RunError::Wlan {
            name: wlan.name.clone(),
        });
    }
    let ticks = |link: &&Link| link.egress.iter().any(|egress| egress.tick.is_some());
    if let Some(link) = scenario.links.iter().find(ticks) {
        return Err(RunError::Tick {
            name: link.name.clone(),
        });
    }
    for link in &scenario.links {
        let refusal = |egress: &Egress| match backend {
            _ if egress.changes.opportunities.is_some() => Some(Changes::NOT_HERE.into()),
            Backend::Kernel => qdisc::refusal(egress),
            Backend::Nfqueue => egress.queue.qdisc.as_ref().map(|_| Queue::NOT_HERE.into()),
        };
        if let Some(why) = link.egress.iter().find_map(refusal) {
            return Err(RunError::Queueing {
                link: link.name.clone(),
                why,
            });
        }
    }
    for (what, count) in [
        ("nodes", scenario.nodes.len()),
        ("links", scenario.links.len()),
        ("flows", scenario.flows.len()),
    ] {
        if count > MOST {
            return Err(RunError::TooLarge { what, count });
        }
    }
    let routes = routes(scenario);
    for flow in &scenario.flows {
        let port = flow
            .shared_port
            .then_some("gives each flow a port: leave `shared_port` out");
        let what = not_here(&flow.source)
            .or(port)
            .or_else(|| not_written(scenario, flow.share, backend))
            .or_else(|| not_alike(scenario, flow));
        if let Some(what) = what {
            return Err(RunError::OnlyModelled {
                place: flow.place.clone(),
                flow: flow.name.clone(),
                what,
            });
        }
        if flow.from == flow.to || routes[flow.from][flow.to].is_none() {
            return Err(RunError::NoPath {
                flow: flow.name.clone(),
                from: scenario.nodes[flow.from].name.clone(),
                to: scenario.nodes[flow.to].name.clone(),
            });
        }
    }
    Ok(())
}

/// Properties of a source that this world lacks.
fn not_here(source: &Source) -> Option<&'static str> {
    match source {
        Source::Bulk { tcp, .. } if !is_kernels(tcp) => {
            Some("has the kernel's TCP: leave all but `mss`, `window` and `ecn` of `tcp` out")
        }
        Source::Bulk { think: Some(_), .. } => Some("repeats no task: leave `think` out"),
        Source::Bulk { every: Some(_), .. } => Some("repeats no task: leave `every` out"),
        Source::Poisson {
            exponential: true, ..
        } => Some("sends packets of one size: leave `sizes` out"),
        _ => None,
    }
}

/// Whether the kernel's TCP can be made so.
fn is_kernels(tcp: &Tcp) -> bool {
    let Tcp {
        mss, window, ecn, ..
    } = *tcp;
    let made = Tcp {
        mss,
        window,
        ecn,
        ..Tcp::default()
    };
    *tcp == made
}

/// ECN of a flow's TCP, if others that end at the same node differ: the kernel asks for it in a whole namespace or not.
fn not_alike(scenario: &Scenario, flow: &Flow) -> Option<&'static str> {
    let ecn = |flow: &Flow| match &flow.source {
        Source::Bulk { tcp, .. } => Some(tcp.ecn),
        _ => None,
    };
    let own = ecn(flow)?;
    let mut others = scenario.flows.iter().filter(|other| other.to == flow.to);
    let differs = others.any(|other| ecn(other).is_some_and(|ecn| ecn != own));
    differs.then_some("has one setting of ECN for all TCP that a node receives: give its flows the same `tcp.ecn`")
}

/// Tags that this world does not write on packets.
fn not_written(
    scenario: &Scenario,
    share: Option<Share>,
    backend: Backend,
) -> Option<&'static str> {
    match share? {
        Share::Tickets(_) if backend == Backend::Kernel => {
            Some("with qdiscs writes no tickets on packets: leave `tickets` out")
        }
        Share::Profile(_) => Some("writes no profiles on packets: leave `profile` out"),
        Share::Tickets(_) if scenario.tags.by_receiver => {
            Some("brings no tickets back on acknowledgements: leave `tags.by` out")
        }
        Share::Tickets(_) => None,
    }
}

/// Open sockets of all flows, each in its node's namespace, in the order of the scenario.
#[derive(Default)]
struct Sockets {
    offers: Vec<Offer>,
    demands: Vec<Demand>,
    senders: Vec<(usize, UdpSocket)>,
    receivers: Vec<UdpSocket>,
    plans: Vec<Plan>,
}

impl Sockets {
    fn open(scenario: &Scenario, network: &Network) -> Result<Self, RunError> {
        let mut sockets = Self::default();
        for index in 0..scenario.flows.len() {
            sockets
                .add(scenario, network, index)
                .map_err(|source| RunError::Flow {
                    flow: scenario.flows[index].name.clone(),
                    source,
                })?;
        }
        Ok(sockets)
    }

    fn add(&mut self, scenario: &Scenario, network: &Network, index: usize) -> io::Result<()> {
        let flow = &scenario.flows[index];
        let [from, to] = [network.node(flow.from), network.node(flow.to)];
        let port = wire::port(index);
        let at = |node| SocketAddrV4::new(node_address(node), port);
        match &flow.source {
            Source::Bulk {
                congestion_control,
                bytes,
                tcp,
                ..
            } => {
                let here = at(flow.from);
                if tcp.ecn {
                    to.run(ask_for_ecn)?;
                }
                self.offers.push(Offer {
                    listener: from.run(|| bulk::listen(here, congestion_control, tcp))?,
                    stop: flow.stop.unwrap_or(scenario.duration).as_nanos(),
                    bytes: bytes.map(|bytes| bytes.get()),
                });
                self.demands.push(Demand {
                    socket: to.run(|| bulk::dial(node_address(flow.to), tcp))?,
                    to: here,
                    start: flow.start.as_nanos(),
                });
            }
            source => {
                let open = |address| {
                    let socket = UdpSocket::bind(address)?;
                    datagram::prepare(&socket)?;
                    io::Result::Ok(socket)
                };
                let receiver = to.run(|| open(at(flow.to)))?;
                let sender = from.run(|| open(at(flow.from)))?;
                sender.connect(at(flow.to))?;
                let Source::Media(media) = source else {
                    self.receivers.push(receiver);
                    self.senders.push((index, sender));
                    return Ok(());
                };
                receiver.connect(at(flow.from))?;
                let units = Units::new(media, scenario.seed, index);
                let start = Instant::ZERO + flow.start;
                let interval = Interval::new(scenario.warmup, scenario.duration);
                self.plans.push(Plan {
                    media: MediaFlow::new(media, units, start, interval),
                    sockets: [sender, receiver],
                    times: times(scenario, flow),
                });
            }
        }
        Ok(())
    }
}

/// From when to when a flow sends, in ns after the epoch.
fn times(scenario: &Scenario, flow: &Flow) -> [u64; 2] {
    let stop = flow.stop.unwrap_or(scenario.duration);
    [flow.start, stop.min(scenario.duration)].map(Duration::as_nanos)
}

/// Counters of senders and receivers, in the order of the scenario's flows of their kind.
pub(crate) struct Traffic {
    pub(crate) sent: Vec<Sent>,
    pub(crate) received: Vec<Received>,
    pub(crate) fetched: Vec<Fetched>,
    pub(crate) carried: Vec<Carried>,
    /// How late a sender was at worst.
    pub(crate) late: Duration,
    /// When it ended, in ns after the start.
    pub(crate) ended: u64,
    pub(crate) complete: bool,
}

/// Runs all traffic and looks after the queues meanwhile.
fn carry(
    scenario: &Scenario,
    sockets: Sockets,
    queues: &mut [egress::Queue],
    interval: Interval,
    options: &Options,
    progress: impl FnMut(Progress),
    steer: Steer<'_>,
) -> Result<Traffic, RunError> {
    let halt = AtomicBool::new(false);
    let until = AtomicU64::new(u64::MAX);
    let late = Latest::default();
    let epoch = Epoch::after(HEAD_START);
    let Sockets {
        offers,
        demands,
        senders,
        receivers,
        plans,
    } = sockets;
    let (halt, until, late, receivers) = (&halt, &until, &late, &receivers);
    thread::scope(|scope| {
        let serving = scope.spawn(move || bulk::serve(offers, epoch, halt));
        let fetching = scope.spawn(move || bulk::fetch(demands, epoch, interval, halt));
        let receiving = scope.spawn(move || match receivers.is_empty() {
            true => Ok(Vec::new()),
            false => datagram::receive(receivers, epoch, interval, until),
        });
        let carrying: Vec<_> = plans
            .into_iter()
            .map(|plan| {
                scope.spawn(move || sender::carry(plan, epoch, interval, halt, until, late))
            })
            .collect();
        let sending: Vec<_> = senders
            .iter()
            .filter_map(|(index, socket)| {
                let flow = &scenario.flows[*index];
                let packets = departures(&flow.source, scenario.seed, *index)?;
                let plan = times(scenario, flow);
                let stream = Stream {
                    ssrc: Rtp::ssrc(*index),
                    content: options.content.iter().find(|c| c.flow == flow.name),
                    latest: late,
                };
                Some(scope.spawn(move || {
                    datagram::send(socket, packets, stream, plan, epoch, interval, halt)
                }))
            })
            .collect();
        let watched = watch(queues, epoch, interval, options, late, progress, steer);
        halt.store(true, Ordering::Relaxed);
        let ended = epoch.elapsed().min(interval.to());
        let drain = (egress::longest_way(scenario) + DRAIN_SPARE).min(DRAIN_MOST);
        until.store(epoch.elapsed() + drain.as_nanos(), Ordering::Relaxed);
        let sent = sending.into_iter().map(join).collect();
        let carried: io::Result<Vec<Carried>> = carrying.into_iter().map(join).collect();
        let (served, fetched, received) = (join(serving), join(fetching), join(receiving));
        let complete = watched?;
        served?;
        Ok(Traffic {
            sent,
            received: received?,
            fetched: fetched?,
            carried: carried?,
            late: late.get(),
            ended,
            complete,
        })
    })
}

/// How late a sender was at worst, while they run.
#[derive(Debug, Default)]
pub(crate) struct Latest(AtomicU64);

impl Latest {
    pub(crate) fn record(&self, late: Duration) {
        self.0.fetch_max(late.as_nanos(), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Samples the queues step by step, and changes their rates. False if the run was stopped early.
fn watch(
    queues: &mut [egress::Queue],
    epoch: Epoch,
    interval: Interval,
    options: &Options,
    late: &Latest,
    mut progress: impl FnMut(Progress),
    mut steer: Steer<'_>,
) -> Result<bool, QueueError> {
    const TICK: u64 = 100_000_000;
    let step = interval.step().as_nanos();
    let mut began = false;
    let mut at = 0;
    let pace = steer
        .as_ref()
        .map_or(TICK, |(step, _)| step.as_nanos().clamp(1, TICK));
    loop {
        let queues_ms = queues.iter().map(egress::Queue::late_ms);
        let worst = queues_ms.fold(late.get().as_millis_f64(), f64::max);
        let is_in_vain = options.only_calm && worst > options.bears_ms.unwrap_or(STALL_MS);
        let awake = !is_in_vain && epoch.sleep_until(at, &options.stop);
        if let (true, Some((_, each))) = (awake, &mut steer) {
            let mut failed = None;
            let now = Instant::from_nanos(epoch.elapsed());
            each(&mut Ports::new(queues, now, &mut failed));
            failed.map_or(Ok(()), Err)?;
        }
        if awake && at < interval.to() && !at.is_multiple_of(TICK) {
            at = (at + pace)
                .min(at.next_multiple_of(TICK))
                .min(interval.to());
            continue;
        }
        if !began && (at >= interval.from() || !awake) {
            began = true;
            queues.iter_mut().try_for_each(egress::Queue::begin)?;
        }
        if !awake || at >= interval.to() {
            queues.iter_mut().try_for_each(egress::Queue::end)?;
            return Ok(awake);
        }
        if at.is_multiple_of(step) {
            queues.iter_mut().try_for_each(egress::Queue::sample)?;
        }
        queues.iter_mut().try_for_each(|queue| queue.follow(at))?;
        progress(Progress {
            elapsed: Duration::from_nanos(at),
            duration: Duration::from_nanos(interval.to()),
        });
        at = (at + pace).min(interval.to());
    }
}
