// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets under way.

use makeway_core::fetch::fetch;
use makeway_core::packet::{Ecn, Handle, Packet, Tag};
use makeway_core::rate::Feedback;
use makeway_core::units::Instant;

use crate::tcp::{Ack, Segment};

/// A packet of a flow, in one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Transit {
    /// The flow it belongs to.
    pub flow: u32,
    /// The port that it goes through next, as a place in the list of all ways.
    pub step: u32,
    /// Length from the network header on, in bytes.
    pub len: u32,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Its tickets, or its place in a profile.
    pub tag: Tag,
    /// Stations that may still pass it on.
    pub ttl: u8,
    /// Its contents.
    pub body: Body,
}

const _: () = assert!(size_of::<Transit>() == 64);

/// Contents of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// TCP data.
    Segment(Segment),
    /// A packet of a stream.
    Datagram {
        /// Its place in the stream.
        seq: u64,
        /// When it was sent.
        sent: Instant,
        /// RTP time of its frame.
        timestamp: u32,
        /// Last of its frame.
        marker: bool,
    },
    /// A packet of a sender of its own.
    Media(makeway_endpoints::Packet),
    /// A TCP acknowledgement.
    Ack(Ack),
    /// The receiver's report; it is in [`Arena::feedback`].
    Feedback(u32),
}

impl Body {
    /// Whether it goes from the receiver to the sender.
    #[inline(always)]
    pub fn is_back(&self) -> bool {
        matches!(self, Self::Ack(_) | Self::Feedback(_))
    }
}

/// Packets from which fetching ahead pays: 64 bytes each fill a second-level cache of 256 KiB. Chosen
/// by us.
const FETCH_FROM: usize = 4096;

/// Slots for packets. It grows to the most that were under way at once, and stays there.
#[derive(Clone, Debug)]
pub struct Arena {
    slots: Vec<Transit>,
    free: Vec<u32>,
    /// Feedback under way, too large for a slot.
    feedback: Vec<Feedback>,
    free_feedback: Vec<u32>,
}

impl Arena {
    /// Room for `n` packets before the first allocation.
    pub fn with_capacity(n: usize) -> Self {
        Self {
            slots: Vec::with_capacity(n),
            free: Vec::with_capacity(n),
            feedback: Vec::new(),
            free_feedback: Vec::new(),
        }
    }

    /// Takes a packet in.
    #[inline(always)]
    pub fn insert(&mut self, packet: Transit) -> Handle {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = packet;
                Handle(slot)
            }
            None => {
                self.slots.push(packet);
                // Bounded by the queues' limits, the flows' windows, and what streams send in a link's delay.
                Handle(self.slots.len() as u32 - 1)
            }
        }
    }

    /// Asks the processor for a packet that will be looked at soon.
    #[inline(always)]
    pub fn fetch(&self, handle: Handle) {
        if self.slots.len() >= FETCH_FROM {
            fetch(&self.slots, handle.0);
        }
    }

    /// Looks at a packet.
    #[inline(always)]
    pub fn get(&self, handle: Handle) -> &Transit {
        &self.slots[handle.0 as usize]
    }

    /// Looks at a packet, to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Transit {
        &mut self.slots[handle.0 as usize]
    }

    /// Marks a packet; whether it was not marked before.
    pub fn mark(&mut self, handle: Handle) -> bool {
        let ecn = &mut self.get_mut(handle).ecn;
        std::mem::replace(ecn, Ecn::Marked) != Ecn::Marked
    }

    /// Takes over tag and mark of `packet` from a queue; whether it was marked there.
    #[inline(always)]
    pub fn carry(&mut self, packet: &Packet) -> bool {
        let marked = packet.ecn() == Ecn::Marked && self.mark(packet.handle);
        if packet.tag() != Tag(0) {
            // Perhaps another than it came with.
            self.get_mut(packet.handle).tag = packet.tag();
        }
        marked
    }

    /// How many of the packets under way are as `is` says.
    pub fn count(&self, is: impl Fn(&Transit) -> bool) -> u64 {
        let all = self.slots.iter().filter(|transit| is(transit)).count();
        let gone = self
            .free
            .iter()
            .filter(|slot| is(&self.slots[**slot as usize]));
        (all - gone.count()) as u64
    }

    /// Takes a packet out.
    #[inline(always)]
    pub fn remove(&mut self, handle: Handle) -> Transit {
        self.free.push(handle.0);
        let transit = self.slots[handle.0 as usize];
        if let Body::Feedback(place) = transit.body {
            self.free_feedback.push(place);
        }
        transit
    }

    /// Body of a packet with `feedback`.
    pub fn carrying(&mut self, feedback: Feedback) -> Body {
        Body::Feedback(match self.free_feedback.pop() {
            Some(place) => {
                self.feedback[place as usize] = feedback;
                place
            }
            None => {
                self.feedback.push(feedback);
                self.feedback.len() as u32 - 1
            }
        })
    }

    /// Feedback in a packet of that body, or that was in it until another was taken in.
    pub fn feedback(&self, place: u32) -> &Feedback {
        &self.feedback[place as usize]
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Packets under way.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
