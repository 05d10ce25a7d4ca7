// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ad hoc On-Demand Distance Vector routing (RFC 3561): routes over stations that hear only their neighbours.
//!
//! - [`Message`]: RREQ, RREP, RERR;
//! - [`Router`]: what one station knows and does.
//!
//! Sans-IO: the owner asks for a [`Router::route`], gives it the packets that have none to
//! [`Router::hold`], sends what [`Router::poll`] has, and tells what comes and which neighbour does not
//! answer.
//!
//! | RFC 3561 | here |
//! | --- | --- |
//! | routing table, 2 and 6.2 | `Route`, one for each station |
//! | RREQ ID and the buffer of those seen, 6.3, 6.5 | `Seen` |
//! | expanding ring search, 6.4 | `Search` |
//! | detection by the link layer, 6.10 | [`Router::broken`] |
//!
//! Chosen where the RFC leaves it open: no HELLO messages, since the link layer tells; no local repair (6.12), the
//! source asks again; no gratuitous RREP (6.6.3). A broadcast waits a random time of
//! up to 10 ms first (RFC 5148), or all who heard a RREQ would repeat it in the same moment.
//!
//! Departures: a table has a place for each station, so entries are never deleted and sequence numbers never
//! forgotten (that DELETE_PERIOD, 15 s, may end too early is a known cause of loops); a RREQ counts as seen
//! for ever, not for PATH_DISCOVERY_TIME; a RERR has [`Errors::MOST`] destinations at most, and what is more goes in another.

mod message;
mod route;
mod router;

pub use message::{Errors, Message, Reply, Request};
pub use router::{Counts, Router};

use makeway_core::units::Duration;

// RFC 3561 section 10, with its names.
const ACTIVE_ROUTE_TIMEOUT: Duration = Duration::from_millis(3000);
const MY_ROUTE_TIMEOUT: Duration = Duration::from_millis(6000);
const NET_DIAMETER: u8 = 35;
const NODE_TRAVERSAL_TIME: Duration = Duration::from_millis(40);
const NET_TRAVERSAL_TIME: Duration = Duration::from_millis(2 * 40 * NET_DIAMETER as u64);
const RERR_RATELIMIT: usize = 10;
const RREQ_RATELIMIT: usize = 10;
const RREQ_RETRIES: u32 = 2;
const TIMEOUT_BUFFER: u8 = 2;
const TTL_START: u8 = 1;
const TTL_INCREMENT: u8 = 2;
const TTL_THRESHOLD: u8 = 7;

/// Packets that a station holds while ways for them are sought; as ns-2 has it.
const HELD: usize = 64;
/// Messages that wait to be sent. Chosen by us.
const OUTBOX: usize = 64;
/// Before a broadcast, at most; as ns-2 has it.
const JITTER: Duration = Duration::from_millis(10);
