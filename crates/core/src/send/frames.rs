// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which frames lost a part, and where the parts of the others wait.

use super::queue::{NIL, Slot};
use super::{Datagram, Outcome};
use alloc::vec::Vec;

/// Frames of a class that are known at once: the latest.
pub(super) const OPEN: usize = 16;

/// The frames of all classes; grows to the largest class that was used, 256 at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames(Vec<Class>);

#[derive(Clone, Copy, Debug)]
struct Class {
    /// A ring: the latest is `latest`, the one before it is in front of it.
    frames: [Option<Frame>; OPEN],
    latest: u8,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    number: u32,
    /// The last part to come of those that wait.
    part: Slot,
    /// Outcome of the first dropped part.
    lost: Option<Outcome>,
}

impl Frames {
    /// The last waiting part, and the outcome of the first dropped part. An unknown frame becomes known.
    pub fn open(&mut self, datagram: &Datagram) -> (Slot, Option<Outcome>) {
        let Some(number) = datagram.frame else {
            return (NIL, None);
        };
        if let Some(frame) = self.find(datagram) {
            return (frame.part, frame.lost);
        }
        let class = usize::from(datagram.class);
        if self.0.len() <= class {
            self.0.resize(class + 1, Class::EMPTY);
        }
        let class = &mut self.0[class];
        class.latest = (class.latest + 1) % OPEN as u8;
        class.frames[usize::from(class.latest)] = Some(Frame {
            number,
            part: NIL,
            lost: None,
        });
        (NIL, None)
    }

    /// A part of an open frame waits in `slot`.
    pub fn add(&mut self, datagram: &Datagram, slot: Slot) {
        if let Some(frame) = self.find(datagram) {
            frame.part = slot;
        }
    }

    /// The part in `slot` has gone; `before` is the one that came before it of those that wait.
    pub fn remove(&mut self, datagram: &Datagram, slot: Slot, before: Slot) {
        if let Some(frame) = self.find(datagram)
            && frame.part == slot
        {
            frame.part = before;
        }
    }

    /// A part was dropped.
    pub fn lose(&mut self, datagram: &Datagram, outcome: Outcome) {
        if let Some(frame) = self.find(datagram) {
            frame.lost.get_or_insert(outcome);
        }
    }

    fn find(&mut self, datagram: &Datagram) -> Option<&mut Frame> {
        let number = datagram.frame?;
        let class = self.0.get_mut(usize::from(datagram.class))?;
        let latest = usize::from(class.latest);
        let at = (0..OPEN)
            .map(|back| (latest + OPEN - back) % OPEN)
            .find(|at| class.frames[*at].is_some_and(|frame| frame.number == number))?;
        class.frames[at].as_mut()
    }
}

impl Class {
    const EMPTY: Self = Self {
        frames: [None; OPEN],
        latest: 0,
    };
}
