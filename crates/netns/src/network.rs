// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes and links of a scenario as namespaces and veth pairs, built by netlink.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use makeway_scenario::model::Scenario;
use makeway_scenario::routes::{self, Hop};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use rustix::net::{AddressFamily, SocketType};

use crate::namespace::Namespace;
use crate::offload;
use crate::topology::{interface, link_address, node_address};

/// Packets a veth may hold; never reached, since the queue that counts is ours.
const TX_QUEUE: u32 = 1000;
/// Ethernet's.
const MTU: u32 = 1500;

/// The part that could not be built.
#[derive(Debug, thiserror::Error)]
#[error("cannot build {what}: {source}")]
pub struct BuildError {
    what: String,
    source: io::Error,
}

/// Namespaces in the order of the scenario's nodes; dropped, they are gone.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Namespace>,
}

impl Network {
    /// Builds all of it.
    ///
    /// # Errors
    /// [`BuildError`] names the node or the link, with the kernel's own reason.
    pub fn build(scenario: &Scenario) -> Result<Self, BuildError> {
        let fault = |what: &str, name: &str, source| BuildError {
            what: format!("{what} `{name}`"),
            source,
        };
        let mut nodes = Vec::with_capacity(scenario.nodes.len());
        for (index, node) in scenario.nodes.iter().enumerate() {
            let forwards = routes::degree(scenario, index) > 1;
            let made = Namespace::create().and_then(|namespace| {
                namespace.run(|| prepare_node(index, forwards))?;
                Ok(namespace)
            });
            nodes.push(made.map_err(|source| fault("node", &node.name, source))?);
        }
        let network = Self { nodes };
        for (index, link) in scenario.links.iter().enumerate() {
            network
                .add_link(index, link.ends)
                .map_err(|source| fault("link", &link.name, source))?;
        }
        for (index, hops) in routes::routes(scenario).iter().enumerate() {
            network.nodes[index]
                .run(|| add_routes(index, hops))
                .map_err(|source| fault("routes of", &scenario.nodes[index].name, source))?;
        }
        Ok(network)
    }

    /// The namespace of a node.
    pub fn node(&self, index: usize) -> &Namespace {
        &self.nodes[index]
    }

    fn add_link(&self, index: usize, ends: [usize; 2]) -> io::Result<()> {
        let peer = self.nodes[ends[1]].as_raw_fd();
        let [here, there] = [interface(index, 0), interface(index, 1)];
        self.nodes[ends[0]].run(|| {
            netlink(async |handle| {
                let pair = LinkVeth::new(&here, &there).build();
                handle.link().add(pair).execute().await?;
                let moved = LinkUnspec::new_with_name(&there).setns_by_fd(peer);
                handle.link().set(moved.build()).execute().await
            })
        })?;
        for (end, name) in [here.as_str(), there.as_str()].into_iter().enumerate() {
            self.nodes[ends[end]].run(|| raise(name, link_address(index, end)))?;
        }
        Ok(())
    }
}

/// Settings of the namespace itself, its loopback and the node's own address.
fn prepare_node(node: usize, forwards: bool) -> io::Result<()> {
    // Neighbour discovery would be noise in the measurements.
    for scope in ["all", "default"] {
        sysctl(&format!("ipv6/conf/{scope}/disable_ipv6"), "1").or_else(absent)?;
        sysctl(&format!("ipv4/conf/{scope}/rp_filter"), "0")?;
    }
    sysctl("ipv4/ip_forward", if forwards { "1" } else { "0" })?;
    // One transfer must not teach the next: each run starts from the same state.
    sysctl("ipv4/tcp_no_metrics_save", "1").or_else(absent)?;
    raise("lo", node_address(node))
}

/// Gives an interface its address and sets it up.
fn raise(name: &str, address: Ipv4Addr) -> io::Result<()> {
    let loopback = name == "lo";
    if !loopback {
        offload::off(name)?;
    }
    let id = index_of(name)?;
    netlink(async |handle| {
        let prefix = if loopback { 32 } else { 31 };
        let addresses = handle.address();
        addresses
            .add(id, IpAddr::V4(address), prefix)
            .execute()
            .await?;
        let mut up = LinkUnspec::new_with_index(id).up();
        if !loopback {
            up = up.mtu(MTU).txqueuelen(TX_QUEUE);
        }
        handle.link().set(up.build()).execute().await
    })
}

fn add_routes(node: usize, hops: &[Option<Hop>]) -> io::Result<()> {
    let mut routes = Vec::with_capacity(hops.len());
    for (to, hop) in hops.iter().enumerate() {
        let Some(hop) = hop else { continue };
        let (link, end) = (hop.port / 2, hop.port % 2);
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(node_address(to), 32)
            .gateway(link_address(link, 1 - end))
            .output_interface(index_of(&interface(link, end))?)
            .pref_source(node_address(node));
        routes.push(route.build());
    }
    netlink(async |handle| {
        for route in routes {
            handle.route().add(route).execute().await?;
        }
        Ok(())
    })
}

/// Runs requests over a netlink socket of the calling thread's namespace.
pub(crate) fn netlink<T>(
    requests: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error>,
) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        requests(handle).await.map_err(|error| match error {
            rtnetlink::Error::NetlinkError(message) => message.to_io(),
            other => io::Error::other(other),
        })
    })
}

pub(crate) fn index_of(interface: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(rustix::net::netdevice::name_to_index(socket, interface)?)
}

/// `/proc/sys/net` shows the settings of the calling thread's namespace.
fn sysctl(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))
}

/// Has the connections that the calling thread's namespace opens ask for ECN; all accept it when asked.
pub(crate) fn ask_for_ecn() -> io::Result<()> {
    sysctl("ipv4/tcp_ecn", "1")
}

/// A setting that this kernel does not have needs no value.
fn absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
