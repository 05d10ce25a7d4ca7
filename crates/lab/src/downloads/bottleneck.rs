// SPDX-License-Identifier: MIT OR Apache-2.0
//! Server, router and client in namespaces; `makeway up` on the router's interface to the client.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::{self, Bytes, Rate};
use makeway_gateway::control::client;
use makeway_gateway::datapath::{Datapath, DatapathConfig, DatapathHandle, Impairments, Stats};
use makeway_gateway::rules::{Direction, Rules};
use makeway_netns::namespace::Namespace;
use makeway_netns::network::Network;
use makeway_netns::topology::interface;
use rustix::process::{Pid, Signal, kill_process};

const SERVER: usize = 0;
const ROUTER: usize = 1;
pub const CLIENT: usize = 2;

/// The flow is required and never sent.
const SCENARIO: &str = r#"
duration = "1s"
[node.server]
[node.router]
[node.client]
[link.server]
between = ["server", "router"]
[link.line]
between = ["router", "client"]
[flow.none]
kind = "bulk"
from = "server"
to = "client"
"#;

/// The network with its `makeway up`.
pub struct Bottleneck {
    network: Network,
    /// Delays acknowledgements.
    _delay: Option<DatapathHandle>,
    _up: Process,
    interface: String,
}

/// A process that is ended when this is dropped.
pub struct Process(Child);

impl Bottleneck {
    /// Everything in its place, with no traffic yet.
    pub fn start(rate: Rate, discipline: &str, rtt: units::Duration) -> anyhow::Result<Self> {
        let scenario = makeway_scenario::parse(SCENARIO, "downloads", Path::new(""), &[])?;
        let network = Network::build(&scenario)?;
        let delay = match rtt {
            units::Duration::ZERO => None,
            rtt => Some(network.node(CLIENT).run(|| delay(rtt))?),
        };
        let interface = interface(1, 0);
        let line =
            format!("up {interface} --rate {rate} --discipline {discipline} --backend nfqueue");
        let mut up = start(network.node(ROUTER), &line)?;
        // Two lines when it is ready.
        let mut out = BufReader::new(up.0.stdout.take().context("piped")?);
        for _ in 0..2 {
            let mut said = String::new();
            if out.read_line(&mut said)? == 0 {
                up.0.stderr
                    .take()
                    .context("piped")?
                    .read_to_string(&mut said)?;
                bail!("makeway {line}: {}", said.trim());
            }
        }
        Ok(Self {
            network,
            _delay: delay,
            _up: up,
            interface,
        })
    }

    pub fn server(&self) -> &Namespace {
        self.network.node(SERVER)
    }

    pub fn client(&self) -> &Namespace {
        self.network.node(CLIENT)
    }

    /// Counters of `makeway up` so far.
    pub fn stats(&self) -> anyhow::Result<Stats> {
        let ask = || client::status(&self.interface).map_err(io::Error::other);
        let status = self.network.node(ROUTER).run(ask)?;
        let egress = status.directions.into_iter().next();
        Ok(egress.context("one direction is shaped")?.stats)
    }
}

/// Delays the client's packets.
fn delay(rtt: units::Duration) -> io::Result<DatapathHandle> {
    let limits = Limits {
        packets: 10_000,
        bytes: Bytes::new(20_000_000),
        flows: 1024,
    };
    let datapath = Datapath::spawn(DatapathConfig {
        any_queue: true,
        impairments: Impairments {
            delay: rtt,
            ..Impairments::default()
        },
        ..DatapathConfig::new(0, Discipline::Fifo.spec(), limits, None)
    });
    let datapath = datapath.map_err(io::Error::other)?;
    Rules::install(&interface(1, 1), Direction::Egress, datapath.queue_num())
        .map_err(io::Error::other)?
        // They end with the namespace.
        .forget();
    Ok(datapath)
}

/// This program's subcommand of `makeway` in `namespace`.
pub fn start(namespace: &Namespace, line: &str) -> anyhow::Result<Process> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command
        .args(line.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = namespace.run(|| command.spawn());
    Ok(Process(
        child.with_context(|| format!("cannot start {line}"))?,
    ))
}

impl Process {
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Everything that it says until it ends.
    pub fn output(mut self) -> anyhow::Result<String> {
        let (mut said, mut why) = (String::new(), String::new());
        self.0
            .stdout
            .take()
            .context("piped")?
            .read_to_string(&mut said)?;
        self.0
            .stderr
            .take()
            .context("piped")?
            .read_to_string(&mut why)?;
        let status = self.0.wait()?;
        anyhow::ensure!(status.success(), "{status}: {}", why.trim());
        Ok(said)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        let _ = kill_process(self.id(), Signal::TERM);
        // One that was stopped.
        let _ = kill_process(self.id(), Signal::CONT);
        for _ in 0..200 {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
