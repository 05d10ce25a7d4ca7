// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between neighbours (RFC 3561 section 5). Stations have numbers instead of addresses.

use makeway_core::units::Duration;

/// IPv4 and UDP.
const HEADERS: u32 = 28;

/// A message of AODV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks for a route.
    Request(Request),
    /// There is a route.
    Reply(Reply),
    /// There is none any more.
    Error(Errors),
}

/// RREQ (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Hops that it may go on; of the IP header.
    pub ttl: u8,
    /// Hops from its originator.
    pub hops: u8,
    /// The originator's number of it.
    pub id: u32,
    /// The destination.
    pub to: u16,
    /// The latest sequence number known of it; none: flag U.
    pub to_seq: Option<u32>,
    /// The originator.
    pub from: u16,
    /// Its sequence number.
    pub from_seq: u32,
}

/// RREP (5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Hops to the destination.
    pub hops: u8,
    /// The destination.
    pub to: u16,
    /// Its sequence number.
    pub to_seq: u32,
    /// Originator of the request.
    pub from: u16,
    /// How long the way is good.
    pub lifetime: Duration,
}

/// RERR (5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    count: u8,
    list: [(u16, u32); Errors::MOST],
}

impl Errors {
    /// Destinations in one message.
    pub const MOST: usize = 8;

    /// Message with the first of `broken`, as many as fit.
    pub(super) fn of(broken: &[(u16, u32)]) -> Self {
        let mut errors = Self::default();
        for (place, one) in errors.list.iter_mut().zip(broken) {
            *place = *one;
            errors.count += 1;
        }
        errors
    }

    /// Destinations that cannot be reached, with their sequence numbers.
    pub fn list(&self) -> &[(u16, u32)] {
        &self.list[..usize::from(self.count)]
    }
}

impl Message {
    /// Bytes from the IP header on.
    pub fn bytes(&self) -> u32 {
        HEADERS
            + match self {
                Self::Request(_) => 24,
                Self::Reply(_) => 20,
                Self::Error(errors) => 4 + 8 * u32::from(errors.count),
            }
    }
}
