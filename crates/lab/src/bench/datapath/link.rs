// SPDX-License-Identifier: MIT OR Apache-2.0
//! A veth pair between two namespaces, and what the kernel counts at its far end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::datapath::baseline::AcceptAll;
use makeway_gateway::datapath::{Datapath, DatapathConfig, DatapathHandle};
use makeway_gateway::rules::{Direction, Rules};
use makeway_netns::network::Network;
use makeway_netns::topology::interface;
use makeway_scenario::model;

/// The queue between the two ends.
const QUEUE: u16 = 1;

/// Two namespaces, the link between them, and the rule that sends the egress of the near one to a
/// queue. All of it goes with the process.
pub struct Link {
    network: Network,
    counters: File,
    interface: String,
}

/// Ingress of the far interface until an instant.
pub struct Arrived {
    pub at: Instant,
    pub bytes: u64,
    pub packets: u64,
}

impl Link {
    pub fn new() -> anyhow::Result<Self> {
        let network = Network::build(&scenario())?;
        let (near, far) = (interface(0, 0), interface(0, 1));
        network
            .node(0)
            .run(|| Rules::install(&near, Direction::Egress, QUEUE).map_err(io::Error::other))
            .context("cannot send packets to a queue")?
            .forget();
        let counters = network
            .node(1)
            .run(|| File::open("/proc/thread-self/net/dev"))?;
        Ok(Self {
            network,
            counters,
            interface: far,
        })
    }

    /// Runs `f` at the end that sends.
    pub fn near<T: Send>(&self, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.network.node(0).run(f)
    }

    /// Runs `f` at the end that receives.
    pub fn far<T: Send>(&self, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.network.node(1).run(f)
    }

    /// SQF at the near end.
    pub fn datapath(&self, rate: Option<Rate>) -> anyhow::Result<DatapathHandle> {
        let limits = Limits {
            packets: 1000,
            bytes: Bytes::new(2_000_000),
            flows: 2048,
        };
        let config = DatapathConfig {
            // The counters of an interface include the link header, and nothing else.
            framing: Framing {
                overhead: 14,
                ..Framing::default()
            },
            ..DatapathConfig::new(QUEUE, Discipline::Sqf.spec(), limits, rate)
        };
        Ok(self.near(|| Datapath::spawn(config).map_err(io::Error::other))?)
    }

    /// The loop that accepts everything, in the same place.
    pub fn accept_all(&self) -> anyhow::Result<AcceptAll> {
        Ok(self.near(|| AcceptAll::spawn(QUEUE).map_err(io::Error::other))?)
    }

    /// Ingress so far.
    pub fn arrived(&self) -> anyhow::Result<Arrived> {
        let mut text = [0; 4096];
        let n = self.counters.read_at(&mut text, 0)?;
        let at = Instant::now();
        let text = std::str::from_utf8(&text[..n])?;
        let fields = text.lines().find_map(|line| {
            let (name, fields) = line.split_once(':')?;
            (name.trim() == self.interface).then_some(fields)
        });
        let mut fields = fields
            .context("the far interface is gone")?
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0));
        Ok(Arrived {
            at,
            bytes: fields.next().unwrap_or(0),
            packets: fields.next().unwrap_or(0),
        })
    }

    /// Waits for the next packet, so that a slow rate is not measured in fractions of packets.
    pub fn next_arrival(&self) -> anyhow::Result<Arrived> {
        let before = self.arrived()?;
        let end = before.at + Duration::from_secs(1);
        loop {
            sleep(Duration::from_micros(50));
            let now = self.arrived()?;
            if now.packets > before.packets {
                return Ok(now);
            }
            anyhow::ensure!(now.at < end, "no packet came by the link for a second");
        }
    }
}

/// Two nodes and a link with nothing in its way.
fn scenario() -> model::Scenario {
    let node = |name: &str| model::Node { name: name.into() };
    let egress = || model::Egress {
        rate: None,
        tick: None,
        framing: Framing::default(),
        queue: model::Queue {
            spec: Discipline::Fifo.spec(),
            limits: Limits {
                packets: 1000,
                bytes: Bytes::new(2_000_000),
                flows: 1,
            },
            flows: Identity::FiveTuple,
            users: Identity::SrcHost,
            weights: Default::default(),
            qdisc: None,
        },
        delay: Default::default(),
        jitter: Default::default(),
        loss: Default::default(),
        changes: Default::default(),
        tickets: None,
        measure: false,
    };
    model::Scenario {
        title: "bench datapath".into(),
        duration: makeway_core::units::Duration::from_secs(1),
        warmup: makeway_core::units::Duration::ZERO,
        seed: 1,
        nodes: vec![node("near"), node("far")],
        links: vec![model::Link {
            name: "link".into(),
            ends: [0, 1],
            egress: [egress(), egress()],
        }],
        wlans: Vec::new(),
        set: Default::default(),
        tags: Default::default(),
        flows: Vec::new(),
    }
}
