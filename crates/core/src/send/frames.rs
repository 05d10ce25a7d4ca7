// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that lost a part, and slots of the parts of the others.

use super::queue::{NIL, Slot};
use super::{Datagram, Outcome};
use alloc::vec::Vec;

/// Frames of a class that are known at once: the latest.
pub(super) const OPEN: usize = 16;

/// Place of a frame that came as a whole: it is not among them.
pub(super) const WHOLE: u8 = u8::MAX;

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

/// An open frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its last waiting part.
    pub part: Slot,
    /// Outcome of the first dropped part.
    pub lost: Option<Outcome>,
    /// Its place among those of its class.
    pub at: u8,
}

impl Open {
    const NONE: Self = Self {
        part: NIL,
        lost: None,
        at: 0,
    };

    /// A frame that comes as a whole, with its last part that waits.
    pub const fn whole(part: Slot) -> Self {
        Self {
            part,
            at: WHOLE,
            ..Self::NONE
        }
    }
}

impl Frames {
    /// The frame of a datagram. An unknown one becomes known.
    #[inline(always)]
    pub fn open(&mut self, datagram: &Datagram) -> Open {
        let Some(number) = datagram.frame else {
            return Open::NONE;
        };
        if let Some((at, frame)) = self.find(datagram) {
            return Open {
                part: frame.part,
                lost: frame.lost,
                at,
            };
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
        Open {
            at: class.latest,
            ..Open::NONE
        }
    }

    /// A part of the frame that is open at `at` waits in `slot`.
    #[inline(always)]
    pub fn add(&mut self, datagram: &Datagram, at: u8, slot: Slot) {
        if let Some(frame) = self.at(datagram, at) {
            frame.part = slot;
        }
    }

    /// The part in `slot` has gone, whose frame was open at `at`; `before` is the one that came before it of those that wait.
    #[inline(always)]
    pub fn remove(&mut self, datagram: &Datagram, at: u8, slot: Slot, before: Slot) {
        // Another frame may be there now: it has other parts.
        if let Some(frame) = self.at(datagram, at)
            && frame.part == slot
        {
            frame.part = before;
        }
    }

    /// A part was dropped.
    pub fn lose(&mut self, datagram: &Datagram, outcome: Outcome) {
        if let Some((_, frame)) = self.find(datagram) {
            frame.lost.get_or_insert(outcome);
        }
    }

    #[inline(always)]
    fn at(&mut self, datagram: &Datagram, at: u8) -> Option<&mut Frame> {
        datagram.frame?;
        let class = self.0.get_mut(usize::from(datagram.class))?;
        class.frames.get_mut(usize::from(at))?.as_mut()
    }

    #[inline(always)]
    fn find(&mut self, datagram: &Datagram) -> Option<(u8, &mut Frame)> {
        let number = datagram.frame?;
        let class = self.0.get_mut(usize::from(datagram.class))?;
        // Most parts come one after the other, so that their frame is the latest.
        for back in 0..OPEN as u8 {
            let at = class.latest.wrapping_sub(back) % OPEN as u8;
            if class.frames[usize::from(at)].is_some_and(|frame| frame.number == number) {
                return Some((at, class.frames[usize::from(at)].as_mut()?));
            }
        }
        None
    }
}

impl Class {
    const EMPTY: Self = Self {
        frames: [None; OPEN],
        latest: 0,
    };
}
