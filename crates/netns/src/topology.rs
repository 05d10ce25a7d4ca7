// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of a scenario: pure, so that they can be tested without a kernel.

use std::net::Ipv4Addr;

use makeway_scenario::wire::address;
pub use makeway_scenario::wire::node_address;

/// Nodes, known by an address on their loopback, and links are numbered inside 10.78.0.0/16 and
/// 10.77.0.0/16.
pub const MOST: usize = 32_000;

/// The address of one end of a link: a /31 of 10.77.0.0/16.
pub fn link_address(link: usize, end: usize) -> Ipv4Addr {
    address(77, 2 * link + end)
}

/// The name of the interface at one end of a link; the same in every namespace, so that logs
/// and rules can be read.
pub fn interface(link: usize, end: usize) -> String {
    format!("mw{link}{}", ["a", "b"][end])
}
