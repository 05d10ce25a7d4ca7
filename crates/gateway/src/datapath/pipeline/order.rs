// SPDX-License-Identifier: MIT OR Apache-2.0
//! One verdict for many packets: the condition.

/// Whether the verdicts of this round can be one, "accept all up to the last": they accept packets in
/// the order in which the kernel has them, and no packet before the last is held back.
#[derive(Default)]
pub(super) struct Order {
    plain: bool,
    first: bool,
    last: u32,
    /// The packets since nothing was held: the first, how many came, how many have their verdict, the
    /// latest of those counted from the first, and whether the identifiers skip one.
    base: u32,
    came: u32,
    answered: u32,
    latest: u32,
    gap: bool,
}

impl Order {
    /// A round begins; `plain` where no verdict waits from before.
    pub(super) fn begin(&mut self, plain: bool) {
        self.plain = plain;
        self.first = true;
    }

    pub(super) fn came(&mut self, id: u32) {
        if self.came == self.answered {
            (self.base, self.came, self.answered) = (id, 0, 0);
            (self.latest, self.gap) = (0, false);
        }
        self.gap |= id.wrapping_sub(self.base) != self.came;
        self.came = self.came.wrapping_add(1);
    }

    pub(super) fn accepted(&mut self, id: u32) {
        // Identifiers count up and wrap.
        let later = self.first || id.wrapping_sub(self.last) < 1 << 31;
        self.plain &= later;
        self.first = false;
        self.last = id;
        self.answer(id);
    }

    /// It was dropped or rewritten: no range says that.
    pub(super) fn changed(&mut self, id: u32) {
        self.plain = false;
        self.answer(id);
    }

    fn answer(&mut self, id: u32) {
        self.answered = self.answered.wrapping_add(1);
        self.latest = self.latest.max(id.wrapping_sub(self.base));
    }

    /// Accept all up to this one.
    pub(super) fn range(&self) -> Option<u32> {
        let last = self.last.wrapping_sub(self.base);
        // If the last is the latest, all that were answered are up to it; if they are as many as came
        // up to it, none is held.
        let whole = !self.gap && last == self.latest && last.wrapping_add(1) == self.answered;
        let is_range = self.plain && (self.came == self.answered || whole);
        is_range.then_some(self.last)
    }
}
