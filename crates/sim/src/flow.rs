//! The two ends of a flow.

use makeway_core::units::Instant;
use makeway_report::flow::{Bytes, Received, Sent};
use makeway_scenario::departures::Departure;

use crate::tcp::{Receiver, Sender};

/// A flow of the scenario.
pub struct Flow {
    /// Where its packets' way begins in the list of all ways: forth, and back.
    pub ways: [u32; 2],
    /// When it begins.
    pub start: Instant,
    /// When its sender falls silent.
    pub stop: Instant,
    /// What it is.
    pub kind: Kind,
}

/// What a flow is.
pub enum Kind {
    /// A TCP connection.
    Tcp(Box<Tcp>),
    /// A stream of datagrams.
    Stream(Box<Stream>),
}

/// A TCP connection, established when it begins.
pub struct Tcp {
    /// The end that sends.
    pub sender: Sender,
    /// The end that receives.
    pub receiver: Receiver,
    /// Bytes that were delivered in order when we last looked.
    pub delivered: u64,
    /// Those, in the measured interval and by step.
    pub bytes: Bytes,
}

/// A stream of datagrams, and what its ends count.
pub struct Stream {
    /// What is sent next.
    pub next: Option<Departure>,
    /// What is sent after that.
    pub departures: Box<dyn Iterator<Item = Departure> + Send>,
    /// Counted by the sender.
    pub sent: Sent,
    /// Counted by the receiver.
    pub received: Received,
}
