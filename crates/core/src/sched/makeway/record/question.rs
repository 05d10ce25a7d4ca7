// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test of a flow that goes first: whether it responds to loss, or takes all that there is.

use super::{HOG, Link, Past, Reason, Record, half_more};
use crate::sched::standing::Class;

/// A question takes one of 16 packets of at least [`ASKED_LEN`]: media and bulk, not the voice beside them.
pub(super) const ASKED_OF: u8 = 16;
pub(super) const ASKED_LEN: u32 = 512;

/// A question to a flow that goes first: does it respond to loss?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Question {
    #[default]
    None,
    /// In the window in which it was asked first.
    Asked,
    /// In the window that is compared.
    Waits,
    /// No more: in the window after, in which TCP over a short RTT has back what it gave.
    After,
}

impl Record {
    /// Whether the packet of `len` that comes is the question; it is in the window's counts.
    pub fn is_asked(&self, len: u32, past: &mut Past) -> bool {
        let is_open = matches!(self.question, Question::Asked | Question::Waits);
        // A flow whose packets are all small is asked with them.
        if !is_open || len < ASKED_LEN.min(self.came / self.arrivals.max(1)) {
            return false;
        }
        past.due = past.due.saturating_add(1);
        let is_asked = past.due >= ASKED_OF;
        if is_asked {
            past.due = 0;
        }
        is_asked
    }

    /// The question of a flow that goes first: why it is bulk, if it is. In standing, one that `resumes` after a silence brings what a stall held
    /// back, and less after it; one that `is_overdue` has been new for too long.
    pub(super) fn answer(
        &mut self,
        whole: bool,
        resumes: bool,
        is_overdue: bool,
        link: Link,
        past: &mut Past,
    ) -> Option<Reason> {
        let came = past.last;
        // After a burst, a stream falls back to what it has shown, which is no response.
        let before = match past.proven {
            0 => past.before,
            proven => past.before.min(proven / 3 * 2),
        };
        match self.question {
            _ if !whole => self.question = Question::None,
            Question::None => {
                let is_due = self.class == Class::New || !resumes;
                let had_room = past.beside * 16 <= link.sent * 15;
                if link.contended && had_room && came <= half_more(past.own) {
                    past.proven = past.proven.max(half_more(past.own));
                }
                let is_own = past.tested || !past.filled;
                // TCP that begins has lost a packet by now, or takes more than half.
                let is_known =
                    came <= past.proven && is_own || self.is_clean(past) && link.has_room();
                // Many that bring little each fill the link together.
                let may_be_asked = past.hogs || link.crowded && past.is_large;
                // Losses say nothing of a stream whose bursts are longer than the buffer. Alone on the link it could only be TCP.
                let others = link.sent.saturating_sub(u64::from(came));
                let has_company = others * HOG >= link.sent;
                let is_last = is_overdue && past.proven == 0 && past.hogs && has_company;
                let is_open = may_be_asked && !is_known && link.contended;
                if is_due && is_open || is_last {
                    // Those who have the link can't grow by the third that would tell.
                    let fills = link.standing * 4 > link.sent * 3;
                    if fills && self.class == Class::Standing {
                        return Some(Reason::Grew);
                    }
                    self.question = Question::Asked;
                    past.before = came;
                    past.due = ASKED_OF - 1;
                }
            }
            // TCP that loses a packet of 16 keeps five or so in its window.
            Question::Asked if came < before / 2 => return Some(Reason::RespondsToLoss),
            Question::Asked => {
                self.question = Question::Waits;
                past.before = past.before.max(came);
            }
            // It does not slow down, and takes what it gets: BBR.
            Question::Waits | Question::After if came / 4 > past.before / 3 => {
                return Some(Reason::Grew);
            }
            // A queue that TCP had as it was asked hides its response for as long as it lasts.
            Question::Waits | Question::After if u64::from(came) * 16 < u64::from(before) * 11 => {
                return Some(Reason::RespondsToLoss);
            }
            Question::Waits => {
                self.question = Question::After;
                // TCP over a short RTT falls so little, and has it back at once.
                let fell = u64::from(came) * 8 < u64::from(past.before) * 7;
                past.fell = if fell { came } else { u32::MAX };
            }
            Question::After if u64::from(past.fell) * 16 < u64::from(came) * 11 => {
                return Some(Reason::RespondsToLoss);
            }
            Question::After => {
                past.proven = half_more(came.max(past.before));
                (self.question, past.tested) = (Question::None, true);
            }
        }
        None
    }
}
