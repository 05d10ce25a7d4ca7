// SPDX-License-Identifier: MIT OR Apache-2.0
//! A policy chosen by its name.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use super::fifo::Fifo;
use super::late_last::LateLast;
use super::prio::Prio;
use super::sbpn1::Sbpn1;
use super::sbpn2::Sbpn2;
use super::weighted::Weighted;
use super::when_full::DiscardWhenFull;
use super::{Key, Policy, Waiting, WhenFull, WhenLate};
use crate::param::one_of;

/// One of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyPolicy {
    /// `fifo`: first in, first out.
    Fifo(Fifo),
    /// `prio`: by class.
    Prio(Prio),
    /// `sbpn1`: by class and deadline; late ones are dropped.
    Sbpn1(Sbpn1),
    /// `sbpn2`: by class and deadline; late ones are dropped unless the queue is otherwise empty.
    Sbpn2(Sbpn2),
    /// `weighted`: by a score of class, deadline and size.
    Weighted(Weighted),
    /// `when-full`: by class and deadline; late ones are dropped when the queue is full.
    WhenFull(DiscardWhenFull),
    /// `late-last`: by class and deadline; late ones leave last, and go first when the queue is full.
    LateLast(LateLast),
}

impl AnyPolicy {
    /// Every policy with its defaults, in the order in which they are listed to people.
    pub fn all() -> [Self; 7] {
        [
            Self::Fifo(Fifo),
            Self::Prio(Prio),
            Self::Sbpn1(Sbpn1::default()),
            Self::Sbpn2(Sbpn2::default()),
            Self::Weighted(Weighted::default()),
            Self::WhenFull(DiscardWhenFull),
            Self::LateLast(LateLast),
        ]
    }

    /// The name in files and on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fifo(_) => "fifo",
            Self::Prio(_) => "prio",
            Self::Sbpn1(_) => "sbpn1",
            Self::Sbpn2(_) => "sbpn2",
            Self::Weighted(_) => "weighted",
            Self::WhenFull(_) => "when-full",
            Self::LateLast(_) => "late-last",
        }
    }
}

impl Default for AnyPolicy {
    /// `sbpn2`; `docs/which-sender.md` compares it with the others.
    fn default() -> Self {
        Self::Sbpn2(Sbpn2::default())
    }
}

macro_rules! each {
    ($policy:expr, $p:ident => $what:expr) => {
        match $policy {
            AnyPolicy::Fifo($p) => $what,
            AnyPolicy::Prio($p) => $what,
            AnyPolicy::Sbpn1($p) => $what,
            AnyPolicy::Sbpn2($p) => $what,
            AnyPolicy::Weighted($p) => $what,
            AnyPolicy::WhenFull($p) => $what,
            AnyPolicy::LateLast($p) => $what,
        }
    };
}

impl Policy for AnyPolicy {
    #[inline]
    fn key(&self, waiting: &Waiting) -> Key {
        each!(self, policy => policy.key(waiting))
    }

    fn when_full(&self) -> WhenFull {
        each!(self, policy => policy.when_full())
    }

    #[inline]
    fn when_late(&self) -> WhenLate {
        each!(self, policy => policy.when_late())
    }
}

impl fmt::Display for AnyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a policy is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a policy of a sender: choose {list}",
    list = one_of(&AnyPolicy::all().map(|policy| policy.name()))
)]
pub struct ParsePolicyError(String);

impl FromStr for AnyPolicy {
    type Err = ParsePolicyError;
    fn from_str(s: &str) -> Result<Self, ParsePolicyError> {
        Self::all()
            .into_iter()
            .find(|policy| policy.name() == s)
            .ok_or_else(|| ParsePolicyError(s.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_by_the_name_that_it_prints() {
        for policy in AnyPolicy::all() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "sbpn".parse::<AnyPolicy>().unwrap_err().to_string();
        for policy in AnyPolicy::all() {
            assert!(error.contains(policy.name()), "{error}");
        }
    }
}
