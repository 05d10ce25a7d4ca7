// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keyframes that an encoder makes after its sender has dropped a frame, without which the next frames cannot be decoded.
//!
//! The next frame is a keyframe, or the first one that is [`GAP`] behind the last keyframe. The trace goes on as it
//! would, so that its own keyframes come as well. No later frame needs one that is older than the last keyframe: its drop makes none.
//! The encoder does not distinguish frames by kind: a dropped `B`, to which none refers, makes a keyframe too.

use crate::model::{Keyframes, Traffic};

/// Least time from a keyframe to one that the trace does not have, in ns. Chosen by us: a sender that drops one keyframe would drop another at once.
const GAP: u64 = 1_000_000_000;

/// State of an encoder.
#[derive(Clone, Debug)]
pub(super) struct Forced {
    /// Mean size of the trace's keyframes; `None`: it makes no others.
    bytes: Option<f64>,
    /// When it made the last keyframe.
    last: Option<u64>,
    is_wanted: bool,
    /// Whether the next frame is one that the trace does not have.
    is_next: bool,
}

impl Forced {
    pub fn new(traffic: &Traffic) -> Self {
        let bytes = match traffic {
            Traffic::Coded {
                frames,
                keyframes: Keyframes::OnRefusal,
                ..
            } => {
                let keys = frames.iter().filter(|frame| frame.kind == 'I');
                let bytes: u64 = keys.clone().map(|frame| frame.bytes.get()).sum();
                Some(bytes as f64 / keys.count().max(1) as f64)
            }
            _ => None,
        };
        Self {
            bytes,
            last: None,
            is_wanted: false,
            is_next: false,
        }
    }

    /// A frame made at `at` was dropped.
    pub fn refuse(&mut self, at: u64) {
        self.is_wanted |= self.last.is_none_or(|last| last <= at);
    }

    /// The next frame is made at `at`, and of `kind` in the trace: its size before it is scaled, where it is another.
    pub fn next(&mut self, at: u64, kind: char) -> Option<f64> {
        let is_due = self.last.is_none_or(|last| at >= last.saturating_add(GAP));
        let forced = self
            .bytes
            .filter(|_| kind != 'I' && self.is_wanted && is_due);
        self.is_next = forced.is_some();
        if self.is_next || kind == 'I' {
            self.last = Some(at);
            self.is_wanted = false;
        }
        forced
    }

    /// Kind of the next frame, which is `kind` in the trace.
    pub fn kind(&self, kind: char) -> char {
        if self.is_next { 'I' } else { kind }
    }
}
