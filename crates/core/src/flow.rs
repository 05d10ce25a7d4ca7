// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows: identity, keys read from headers, and the exact table of flows.
//!
//! Source: T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic",
//! ICC 2011, section III.A: a flow is the 5-tuple or a part of it, as the link's place asks.

mod control;
mod ecn;
mod key;
mod table;
mod tag;

use alloc::string::String;
pub use control::{Sequence, is_control};
pub use ecn::ecn;
pub use key::FlowKey;
pub use table::{FlowTable, Held};
pub use tag::{set_tag, tag};

use core::fmt;
use core::str::FromStr;

/// Flow key: the fields that two packets of one flow share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// Addresses, protocol and ports: one connection.
    #[default]
    FiveTuple,
    /// Source address, protocol and source port: one application, with any peers (upstream).
    SrcPort,
    /// Source address.
    SrcHost,
    /// Destination address.
    DstHost,
    /// Both addresses, in their direction.
    HostPair,
}

impl Identity {
    /// Every choice, in the order in which they are listed to people.
    pub const ALL: [Self; 5] = [
        Self::FiveTuple,
        Self::SrcPort,
        Self::SrcHost,
        Self::DstHost,
        Self::HostPair,
    ];

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FiveTuple => "5-tuple",
            Self::SrcPort => "src-port",
            Self::SrcHost => "src-host",
            Self::DstHost => "dst-host",
            Self::HostPair => "host-pair",
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a flow identity is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a flow identity: choose 5-tuple, src-port, src-host, dst-host or host-pair")]
pub struct ParseIdentityError(String);

impl FromStr for Identity {
    type Err = ParseIdentityError;
    fn from_str(s: &str) -> Result<Self, ParseIdentityError> {
        Self::ALL
            .into_iter()
            .find(|identity| identity.name() == s)
            .ok_or_else(|| ParseIdentityError(s.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back_as_it_prints() {
        for identity in Identity::ALL {
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
    }

    #[test]
    fn an_unknown_identity_is_refused_with_the_choices() {
        let error = "host".parse::<Identity>().unwrap_err().to_string();
        for identity in Identity::ALL {
            assert!(error.contains(identity.name()), "{error}");
        }
    }
}
