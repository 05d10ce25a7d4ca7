// SPDX-License-Identifier: MIT OR Apache-2.0
//! Qdiscs instead of a datapath: at the sending end of a link shaper and queue, at the receiving end netem, which delays and
//! loses.
//!
//! The queue is our discipline as a BPF qdisc, or else one of Linux's own. A link's rate is kept by ours and by `cake` themselves, and
//! for all others by `tbf` above them. Delay and loss come behind it, as on a wire: by
//! `netem` on an `ifb` that takes in what arrives. Lengths are those on the wire, by a size table (`tc-stab(8)`).

#[cfg(not(feature = "bpf"))]
#[path = "qdisc/absent.rs"]
mod ours;
#[cfg(feature = "bpf")]
mod ours;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::time::Instant;

use futures_util::TryStreamExt;
use makeway_core::flow::Identity;
use makeway_core::framing::{Cells, Framing};
use makeway_core::param::one_of;
use makeway_core::sched::{
    CakeParams, CoDelParams, Discipline, DualPi2Params, Env, Isolation, Spec,
};
use makeway_core::units::{Bytes, Duration, Rate};
use makeway_gateway::datapath::Stats;
use makeway_scenario::model::{Egress, Queue, Scenario};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcStats2};
use rtnetlink::{LinkIfb, LinkUnspec};

use crate::namespace::Namespace;
use crate::network::{index_of, netlink};
use ours::Ours;

/// Bytes of each frame that the kernel counts besides the IP packet.
const ETHERNET_HEADER: i32 = 14;
/// The largest IP packet of these links.
const MTU: u64 = 1500;
/// Time whose bytes `tbf` sends at once if its timer was late; two packets at least. Chosen by us: timers of a translated guest are late by
/// less, and the rate is kept.
const BURST: Duration = Duration::from_millis(2);
/// Stands for "no limit", which `tbf` cannot express.
const OUTAGE_BPS: u64 = 1000;
/// Kernel memory of a packet of the largest size, by which `cake` counts.
const PACKET_MEMORY: u64 = 2304;
/// More than a link ever has under way.
const WIRE_PACKETS: &str = "100000";

/// A qdisc at the egress of an interface.
#[derive(Debug)]
pub(crate) struct Qdisc {
    node: Namespace,
    interface: String,
    index: u32,
    pub(crate) discipline: String,
    does: Does,
    rate: Rate,
    since: Instant,
}

/// One of our qdiscs, or one of Linux's.
#[derive(Debug)]
enum Does {
    Ours(Ours),
    Linux(Root),
}

/// The words of tc that make it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    size_table: Vec<String>,
    /// Kind and options of what queues.
    kind: Vec<String>,
    /// The largest packet on the wire.
    largest: Bytes,
}

/// Why this kernel cannot do what the egress asks for.
pub(crate) fn refusal(egress: &Egress) -> Option<String> {
    let why = if egress.jitter > Duration::ZERO {
        "a qdisc that adds jitter changes the order of packets: leave `jitter` out"
    } else if egress.framing.cells == Cells::Ptm {
        "Linux's size tables have no PTM: write `cells` \"atm\" or \"none\""
    } else if egress.tickets.is_some() {
        "a qdisc of Linux writes no tickets: leave `tickets` out"
    } else if !egress.queue.weights.is_empty()
        && egress.queue.spec.needs().weights
        && !is_ours(&egress.queue)
    {
        "Linux's qdiscs give users no weights: leave `weights` out"
    } else if egress.rate.is_some() && !is_ours(&egress.queue) {
        return kind(&egress.queue).err();
    } else {
        return None;
    };
    Some(why.into())
}

fn is_ours(queue: &Queue) -> bool {
    queue.qdisc.is_none() && ours::has_program(queue.spec.discipline())
}

/// Linux's own qdiscs that a scenario takes: each kind once.
pub fn kinds(scenario: &Scenario) -> Vec<String> {
    let mut kinds = Vec::new();
    let egresses = scenario.links.iter().flat_map(|link| &link.egress);
    for egress in egresses.filter(|egress| egress.rate.is_some() && !is_ours(&egress.queue)) {
        let words = kind(&egress.queue).unwrap_or_default();
        kinds.extend(words.into_iter().next());
    }
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Kind and options of what queues.
fn kind(queue: &Queue) -> Result<Vec<String>, String> {
    if let Some(words) = &queue.qdisc {
        return Ok(words.clone());
    }
    if let Some(words) = linuxs(queue) {
        return words.map_err(str::to_owned);
    }
    let has_one = |discipline: &Discipline| {
        let spec = discipline.spec();
        let queue = Queue {
            spec,
            ..queue.clone()
        };
        ours::has_program(*discipline) || linuxs(&queue).is_some()
    };
    let names = Discipline::ALL.into_iter().filter(has_one);
    let names: Vec<_> = names.map(Discipline::name).collect();
    Err(format!(
        "its discipline is in no kernel: choose {}, or write one of Linux's, as `qdisc = \"sfq\"`",
        one_of(&names)
    ))
}

/// Kind and options of Linux's own qdisc of this discipline, if Linux has one.
fn linuxs(queue: &Queue) -> Option<Result<Vec<String>, &'static str>> {
    let limits = queue.limits;
    let [packets, bytes] = [limits.packets.to_string(), limits.bytes.get().to_string()];
    let by_bytes = limits.bytes.get() < u64::from(limits.packets) * MTU;
    if let Some(why) = asks_for_more(queue, by_bytes) {
        return Some(Err(why));
    }
    let words = match &queue.spec {
        Spec::Fifo(_) if by_bytes => vec!["bfifo".into(), "limit".into(), bytes],
        Spec::Fifo(_) => vec!["pfifo".into(), "limit".into(), packets],
        Spec::CoDel(params) => codel("codel", packets, params),
        Spec::FqCoDel(params) => {
            let mut words = codel("fq_codel", packets, &params.codel);
            words.extend(["quantum".into(), params.quantum.get().to_string()]);
            words
        }
        Spec::Cake(params) => return Some(cake(params, queue)),
        Spec::DualPi2(params) => return Some(dualpi2(params, &packets, by_bytes)),
        _ => return None,
    };
    Some(Ok(words))
}

/// Why Linux's qdisc of this discipline would not do what the queue says.
fn asks_for_more(queue: &Queue, by_bytes: bool) -> Option<&'static str> {
    let is_by_flow = matches!(queue.spec, Spec::FqCoDel(_) | Spec::Cake(_));
    if is_by_flow && queue.flows != Identity::FiveTuple {
        return Some(
            "Linux's fq_codel and cake know flows by their 5-tuple only: leave `flows` out",
        );
    }
    let codel = match &queue.spec {
        Spec::CoDel(params) => params,
        Spec::FqCoDel(params) => &params.codel,
        _ => return None,
    };
    if codel.mtu.is_some() {
        return Some("Linux's codel takes `mtu` from the interface: leave `codel.mtu` out");
    }
    by_bytes.then_some(
        "Linux's codel and fq_codel have a limit in packets only: write one, as `limit = \"100 packets\"`",
    )
}

fn cake(params: &CakeParams, queue: &Queue) -> Result<Vec<String>, &'static str> {
    if !params.ecn {
        return Err("Linux's cake marks every packet that understands marks: leave `ecn` out");
    }
    let isolation = match (params.isolation, queue.users) {
        (Isolation::Flows, _) => "flows",
        (Isolation::Dual, Identity::SrcHost) => "dual-srchost",
        (Isolation::Dual, _) => "dual-dsthost",
    };
    let us = params.rtt.as_nanos() / 1000;
    let packets = u64::from(queue.limits.packets) * PACKET_MEMORY;
    let memory = packets.min(queue.limits.bytes.get());
    let words = format!("cake besteffort rtt {us}us {isolation} memlimit {memory}");
    Ok(words.split(' ').map(str::to_owned).collect())
}

/// `tc` makes the period and both gains of these two times, by the same equations as ours.
fn dualpi2(
    params: &DualPi2Params,
    packets: &str,
    by_bytes: bool,
) -> Result<Vec<String>, &'static str> {
    if by_bytes {
        return Err(
            "Linux's dualpi2 has a limit in packets only: write one, as `limit = \"100 packets\"`",
        );
    }
    if params.target > params.rtt {
        return Err(
            "Linux's dualpi2 aims at no longer delay than the longest usual RTT: write `dualpi2.target` <= `dualpi2.rtt`",
        );
    }
    let [rtt, target] = [params.rtt, params.target].map(us);
    let words = format!("dualpi2 limit {packets} max_rtt {rtt} typical_rtt {target}");
    Ok(words.split(' ').map(str::to_owned).collect())
}

fn us(time: Duration) -> String {
    format!("{}us", time.as_nanos() / 1000)
}

fn codel(kind: &str, packets: String, params: &CoDelParams) -> Vec<String> {
    let ecn = if params.ecn { "ecn" } else { "noecn" };
    let [target, interval] = [params.target, params.interval].map(us);
    [
        "limit", &packets, "target", &target, "interval", &interval, ecn,
    ]
    .iter()
    .fold(vec![kind.to_owned()], |mut words, word| {
        words.push((*word).to_owned());
        words
    })
}

impl Root {
    fn new(egress: &Egress) -> Result<Self, String> {
        Ok(Self {
            size_table: size_table(egress.framing),
            kind: kind(&egress.queue)?,
            largest: egress.framing.wire(Bytes::new(MTU)),
        })
    }

    /// Whether it keeps a rate by itself.
    fn shapes(&self) -> bool {
        self.kind.first().is_some_and(|kind| kind == "cake")
    }

    /// The commands that make it, or with `change` give it another rate.
    fn commands(&self, verb: &str, interface: &str, rate: Rate) -> Vec<Vec<String>> {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let bps = rate.bps().max(OUTAGE_BPS);
        let mut root = words(format!("qdisc {verb} dev {interface} root handle 1:"));
        root.extend(self.size_table.iter().cloned());
        if self.shapes() {
            // The size table has counted the overhead.
            root.extend(words(format!("cake bandwidth {bps}bit raw")));
            root.extend(self.kind[1..].iter().cloned());
            return vec![root];
        }
        let burst = (rate * BURST).get().max(2 * self.largest.get());
        root.extend(words(format!(
            "tbf rate {bps}bit burst {burst} limit 1000000000"
        )));
        // A new rate of tbf gives a FIFO below it the limit of its own.
        let mut child = words(format!("qdisc {verb} dev {interface} parent 1:1 handle 2:"));
        child.extend(self.kind.iter().cloned());
        vec![root, child]
    }
}

/// From the length of the frame to that on the wire, to the byte.
fn size_table(framing: Framing) -> Vec<String> {
    let overhead = framing.overhead - ETHERNET_HEADER;
    let layer = match framing.cells {
        Cells::Atm => "atm",
        _ => "ethernet",
    };
    let mpu = framing.mpu;
    format!("stab mtu 2047 tsize 2048 mpu {mpu} overhead {overhead} linklayer {layer}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

impl Qdisc {
    /// In place at `interface` of `node`, of a link with a rate. `env` and `weights`, by address, are for a discipline of ours.
    pub(crate) fn install(
        node: &Namespace,
        interface: &str,
        egress: &Egress,
        rate: Rate,
        env: &Env,
        weights: &[(IpAddr, u32)],
    ) -> io::Result<Self> {
        let (does, commands) = match is_ours(&egress.queue) {
            true => {
                let ours = Ours::load(egress, rate, env, weights)?;
                let add = format!("qdisc add dev {interface} root {}", ours.kind());
                let words = add.split(' ').map(str::to_owned).collect();
                (Does::Ours(ours), vec![words])
            }
            false => {
                let root = Root::new(egress).map_err(io::Error::other)?;
                let commands = root.commands("add", interface, rate);
                (Does::Linux(root), commands)
            }
        };
        let index = node.run(|| {
            commands.iter().try_for_each(|words| tc(words))?;
            index_of(interface)
        })?;
        let discipline = match &does {
            Does::Ours(_) => format!("{} (BPF)", egress.queue.spec.discipline()),
            Does::Linux(root) => root.kind.first().cloned().unwrap_or_default(),
        };
        Ok(Self {
            node: node.another()?,
            interface: interface.into(),
            index,
            discipline,
            does,
            rate,
            since: Instant::now(),
        })
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) -> io::Result<()> {
        self.rate = rate;
        match &self.does {
            Does::Ours(qdisc) => qdisc.set_rate(rate),
            Does::Linux(root) => {
                let commands = root.commands("change", &self.interface, rate);
                self.node
                    .run(|| commands.iter().try_for_each(|words| tc(words)))
            }
        }
    }

    /// The kernel's counters.
    pub(crate) fn stats(&self) -> io::Result<Stats> {
        let mut stats = Stats {
            rate_bps: Some(self.rate.bps()),
            seconds: self.since.elapsed().as_secs_f64(),
            ..Stats::default()
        };
        if let Does::Ours(qdisc) = &self.does {
            qdisc.count(&mut stats)?;
            return Ok(stats);
        }
        let index = self.index as i32;
        let attributes = self.node.run(|| {
            netlink(async |handle| {
                let mut listed = handle.qdisc().get().index(index).execute();
                while let Some(message) = listed.try_next().await? {
                    if message.header.index == index && message.header.parent == TcHandle::ROOT {
                        return Ok(message.attributes);
                    }
                }
                Ok(Vec::new())
            })
        })?;
        let counted = attributes
            .into_iter()
            .filter_map(|attribute| match attribute {
                TcAttribute::Stats2(counted) => Some(counted),
                _ => None,
            });
        for part in counted.flatten() {
            match part {
                TcStats2::Basic(basic) => {
                    stats.packets_out = u64::from(basic.packets);
                    stats.bytes_out = basic.bytes;
                }
                TcStats2::Queue(queue) => {
                    stats.backlog_packets = u64::from(queue.qlen);
                    stats.backlog_bytes = u64::from(queue.backlog);
                    stats.drops = BTreeMap::from([("qdisc".into(), u64::from(queue.drops))]);
                }
                _ => {}
            }
        }
        stats.packets_in = stats.packets_out + stats.dropped() + stats.backlog_packets;
        Ok(stats)
    }
}

/// Delays and loses what comes to `interface` of `node`, as its egress at the far end says.
pub(crate) fn wire(node: &Namespace, interface: &str, egress: &Egress) -> io::Result<()> {
    let delay = egress.delay.as_nanos() / 1000;
    let percent = |share: f64| format!("{}%", share * 100.0);
    let mut netem = format!("netem limit {WIRE_PACKETS} delay {delay}us");
    if !egress.loss.is_none() {
        let loss = egress.loss;
        let [p, r, bad, good] = [loss.p, loss.r, loss.bad, loss.good].map(percent);
        netem += &format!(" loss gemodel {p} {r} {bad} {good}");
    }
    let inside = format!("{interface}w");
    node.run(|| {
        netlink(async |handle| {
            let links = handle.link();
            links.add(LinkIfb::new(&inside).build()).execute().await?;
            let up = LinkUnspec::new_with_name(&inside).up();
            links.set(up.build()).execute().await
        })?;
        for command in [
            format!("qdisc add dev {inside} root {netem}"),
            format!("qdisc add dev {interface} ingress"),
            format!(
                "filter add dev {interface} parent ffff: matchall action mirred egress redirect dev {inside}"
            ),
        ] {
            tc(&command.split(' ').collect::<Vec<_>>())?;
        }
        Ok(())
    })
}

fn tc(words: &[impl AsRef<std::ffi::OsStr>]) -> io::Result<()> {
    let mut tc = Command::new("tc");
    let output = tc.args(words).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{tc:?}: {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::sched::Limits;

    #[test]
    fn cake_is_linuxs_with_one_tin_and_as_many_packets() {
        let limits = Limits {
            packets: 100,
            bytes: Bytes::new(7_300_000),
            flows: 1,
        };
        let mut queue = Queue {
            spec: Spec::Cake(CakeParams::default()),
            limits,
            flows: Identity::FiveTuple,
            users: Identity::SrcHost,
            weights: BTreeMap::new(),
            qdisc: None,
        };
        let words = |queue: &Queue| kind(queue).map(|words| words.join(" "));
        let dual = "cake besteffort rtt 100000us dual-srchost memlimit 230400";
        assert_eq!(words(&queue), Ok(dual.into()));
        queue.spec.set("cake.isolation", "flows").unwrap();
        queue.limits.bytes = Bytes::new(150_000);
        let flows = "cake besteffort rtt 100000us flows memlimit 150000";
        assert_eq!(words(&queue), Ok(flows.into()));
        queue.spec.set("ecn", "false").unwrap();
        assert!(words(&queue).unwrap_err().contains("`ecn`"));
    }

    const OF_LINUX: [Discipline; 4] = [
        Discipline::CoDel,
        Discipline::FqCoDel,
        Discipline::Cake,
        Discipline::DualPi2,
    ];

    fn plain(discipline: Discipline) -> Queue {
        Queue {
            spec: discipline.spec(),
            limits: Limits {
                packets: 100,
                bytes: Bytes::new(7_300_000),
                flows: 1,
            },
            flows: Identity::FiveTuple,
            users: Identity::DstHost,
            weights: BTreeMap::new(),
            qdisc: None,
        }
    }

    #[test]
    fn dualpi2_has_the_times_of_which_tc_makes_period_and_gains() {
        let mut queue = plain(Discipline::DualPi2);
        let expected = "dualpi2 limit 100 max_rtt 100000us typical_rtt 15000us";
        assert_eq!(kind(&queue).unwrap().join(" "), expected);
        queue.spec.set("dualpi2.target", "101ms").unwrap();
        assert!(kind(&queue).unwrap_err().contains("`dualpi2.rtt`"));
    }

    #[test]
    fn a_parameter_of_linuxs_qdiscs_reaches_tc_or_is_refused() {
        for discipline in OF_LINUX {
            let words = kind(&plain(discipline)).unwrap();
            let mut fields = Vec::new();
            let mut spec = discipline.spec();
            spec.fields(&mut |key, _, slot| fields.push((key.to_owned(), slot.shown())));
            for (key, shown) in fields {
                let mut queue = plain(discipline);
                let others = ["true", "false", "flows", "7ms", "777B"];
                let is_changed = others
                    .into_iter()
                    .any(|text| text != shown && queue.spec.set(&key, text).is_ok());
                assert!(is_changed, "{discipline} {key}");
                assert_ne!(kind(&queue), Ok(words.clone()), "{discipline} {key}");
            }
        }
    }

    #[test]
    fn a_flow_key_or_a_limit_that_linuxs_qdiscs_lack_is_refused() {
        for discipline in OF_LINUX {
            for flows in Identity::ALL {
                let mut queue = plain(discipline);
                queue.flows = flows;
                // One queue, and two by marks, ask for no flow.
                let is_by_flow = matches!(discipline, Discipline::FqCoDel | Discipline::Cake);
                let is_theirs = !is_by_flow || flows == Identity::FiveTuple;
                match kind(&queue) {
                    Ok(_) => assert!(is_theirs, "{discipline} {flows}"),
                    Err(why) => assert!(!is_theirs && why.contains("`flows`"), "{why}"),
                }
            }
            let mut queue = plain(discipline);
            queue.limits.bytes = Bytes::new(60_000);
            match kind(&queue) {
                // Its memory is bounded by bytes.
                Ok(words) => assert!(words.contains(&"60000".to_owned()), "{words:?}"),
                Err(why) => assert!(why.contains("`limit = "), "{why}"),
            }
        }
        let mut queue = plain(Discipline::FqCoDel);
        queue.spec.set("codel.mtu", "1500B").unwrap();
        assert!(kind(&queue).unwrap_err().contains("`codel.mtu`"));
    }

    fn commands(kind: &str, framing: Framing, verb: &str) -> Vec<String> {
        let root = Root {
            size_table: size_table(framing),
            kind: kind.split(' ').map(str::to_owned).collect(),
            largest: framing.wire(Bytes::new(MTU)),
        };
        let commands = root.commands(verb, "mw0a", Rate::from_bps(20_000_000));
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn cake_shapes_and_all_others_lie_below_tbf() {
        let stab = "stab mtu 2047 tsize 2048 mpu 84 overhead 24 linklayer ethernet";
        assert_eq!(
            commands("cake nat", Framing::ETHERNET, "add"),
            [format!(
                "qdisc add dev mw0a root handle 1: {stab} cake bandwidth 20000000bit raw nat"
            )]
        );
        // 2 ms of 20 Mbit/s; two packets would be less.
        assert_eq!(
            commands("sfq limit 100", Framing::ETHERNET, "change"),
            [
                format!(
                    "qdisc change dev mw0a root handle 1: {stab} tbf rate 20000000bit burst 5000 limit 1000000000"
                ),
                "qdisc change dev mw0a parent 1:1 handle 2: sfq limit 100".into()
            ]
        );
    }

    #[test]
    fn an_ip_packet_without_overhead_is_less_than_its_frame() {
        let bare = commands("sfq", Framing::default(), "add");
        assert!(
            bare[0].contains("mpu 0 overhead -14 linklayer ethernet"),
            "{bare:?}"
        );
        let cells = Framing {
            overhead: 32,
            mpu: 0,
            cells: Cells::Atm,
        };
        let adsl = commands("sfq", cells, "add");
        assert!(adsl[0].contains("overhead 18 linklayer atm"), "{adsl:?}");
    }
}
