// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that send an interface's packets to a queue: nftables or iptables, the first that works.
//!
//! Everything is under names that tell whose it is, so that [`remove`] finds it regardless of its maker. Every
//! rule has `bypass`: with nobody listening on the queue, packets go on.

mod tools;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use tools::{Tool, tools};

/// The fwmark of packets that are to be marked as RFC 3168 says, from their verdict to the rule behind it. Chosen by us:
/// `mwce` in ASCII. A packet that has a fwmark already is not marked.
const MARKING: u32 = u32::from_be_bytes(*b"mwce");

/// Which packets of an interface.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Direction {
    /// Packets that leave by it: POSTROUTING.
    #[default]
    Egress,
    /// Packets that arrive by it: PREROUTING.
    Ingress,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Egress, Self::Ingress];

    /// `egress` or `ingress`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }

    const fn hook(self) -> &'static str {
        match self {
            Self::Egress => "postrouting",
            Self::Ingress => "prerouting",
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Egress => 'o',
            Self::Ingress => 'i',
        }
    }
}

/// Reason why a rule could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The name would mean something else to the tools.
    #[error("`{0}` cannot be an interface in a rule: it has one of + * \" \\ or a space")]
    Name(String),
    /// Neither nftables nor iptables is there.
    #[error("neither nft nor iptables is installed: install the package nftables or iptables")]
    NoTool,
    /// Every tool that is there failed.
    #[error(
        "no rule could be made for {interface} ({tried}): the kernel needs CONFIG_NFT_QUEUE (`modprobe nft_queue`) for nft or CONFIG_NETFILTER_XT_TARGET_NFQUEUE (`modprobe xt_NFQUEUE`) for iptables"
    )]
    Refused {
        /// The interface.
        interface: String,
        /// Each tool and what it said.
        tried: String,
    },
    /// The process may not.
    #[error(
        "the rules for {interface} need CAP_NET_ADMIN in this network namespace: run with sudo"
    )]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// The rules could not be removed.
    #[error(
        "the rules for {interface} could not be removed ({said}); traffic passes, as no process reads their queue"
    )]
    Left {
        /// The interface.
        interface: String,
        /// The tool and what it said.
        said: String,
    },
    /// The network namespace of the calling thread could not be named.
    #[error("cannot open the network namespace of this thread: {0}")]
    Namespace(#[from] io::Error),
}

/// Rules in force. They are removed when this is dropped, on any thread.
#[derive(Debug)]
pub struct Rules {
    chain: Chain,
    tool: Tool,
    marks: Marks,
    forgotten: bool,
}

/// Rules behind the queue's that mark packets as congested.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Marks {
    /// Nothing here can.
    None,
    /// They are in the table of the queue's rule.
    Beside,
    /// They are in a table of nftables, and the queue's rule is of iptables.
    Apart(Tool),
}

impl Rules {
    /// Sends the packets of `interface` in `direction`, IPv4 and IPv6, to queue `queue_num`. The
    /// rules are of the network namespace of the calling thread; the interface need not exist yet.
    ///
    /// Old rules of the same name are replaced.
    ///
    /// # Errors
    /// If none of the tools that are installed can do it; then nothing has changed.
    pub fn install(
        interface: &str,
        direction: Direction,
        queue_num: u16,
    ) -> Result<Self, RulesError> {
        let chain = Chain::new(interface, direction)?;
        let tools = tools();
        if tools.is_empty() {
            return Err(RulesError::NoTool);
        }
        let mut tried = Vec::new();
        for tool in &tools {
            match tool.install(&chain, queue_num) {
                Ok(true) => {
                    return Ok(Self {
                        chain,
                        tool: tool.clone(),
                        marks: Marks::Beside,
                        forgotten: false,
                    });
                }
                Ok(false) => {
                    let marks = marks_apart(&chain, tool, &tools);
                    return Ok(Self {
                        chain,
                        tool: tool.clone(),
                        marks,
                        forgotten: false,
                    });
                }
                Err(said) => tried.push(format!("{}: {said}", tool.name())),
            }
        }
        let all = tried.join("; ");
        let interface = interface.to_owned();
        if all.contains("Operation not permitted") || all.contains("Permission denied") {
            return Err(RulesError::NotPermitted { interface });
        }
        Err(RulesError::Refused {
            interface,
            tried: all,
        })
    }

    /// The tool that made them: `nft`, `iptables-nft`, `iptables-legacy`.
    pub fn tool(&self) -> String {
        self.tool.name()
    }

    /// The fwmark that a verdict gives a packet which these rules mark as congested (RFC 3168 §5), and then take the fwmark
    /// off; `None` where nftables is not installed, or cannot change headers.
    pub fn marking(&self) -> Option<u32> {
        (self.marks != Marks::None).then_some(MARKING)
    }

    /// Takes them away.
    ///
    /// # Errors
    /// If they are still there.
    pub fn remove(mut self) -> Result<(), RulesError> {
        self.forgotten = true;
        self.undo()
    }

    /// The queue's rule first: until then verdicts give fwmarks.
    fn undo(&self) -> Result<(), RulesError> {
        let queue = self.tool.undo(&self.chain);
        let marks = match &self.marks {
            Marks::Apart(nft) => nft.undo(&self.chain),
            Marks::None | Marks::Beside => Ok(()),
        };
        queue.and(marks)
    }

    /// Leaves the rules where they are, for a namespace that ends with everything in it.
    pub fn forget(mut self) {
        self.forgotten = true;
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        if !self.forgotten {
            // Those that stay let everything pass.
            let _ = self.undo();
        }
    }
}

/// Rules that mark, where the queue's are of `tool` and cannot.
fn marks_apart(chain: &Chain, tool: &Tool, tools: &[Tool]) -> Marks {
    let mut others = tools.iter().filter(|other| *other != tool);
    let apart = others.find(|other| other.mark(chain));
    apart.cloned().map_or(Marks::None, Marks::Apart)
}

/// Takes away what [`Rules::install`] of any process made for `interface` in the network namespace of
/// the calling thread; whether there was something.
///
/// # Errors
/// For a name that no rule can have, and if they are still there.
pub fn remove(interface: &str, direction: Direction) -> Result<bool, RulesError> {
    let chain = Chain::new(interface, direction)?;
    let mut found = false;
    for tool in tools() {
        found |= tool.remove(&chain)?;
    }
    Ok(found)
}

/// Whether rules for `interface` are in place, regardless of their maker.
///
/// # Errors
/// For a name that no rule can have.
pub fn installed(interface: &str, direction: Direction) -> Result<bool, RulesError> {
    let chain = Chain::new(interface, direction)?;
    Ok(tools().iter().any(|tool| tool.has(&chain)))
}

/// The tools that are installed, the best first.
pub(crate) fn tool_names() -> Vec<String> {
    tools().iter().map(Tool::name).collect()
}

/// Our chain of rules: its name, and the interface, the direction and the namespace that it is for.
#[derive(Debug)]
struct Chain {
    interface: String,
    direction: Direction,
    name: String,
    namespace: OwnedFd,
}

impl Chain {
    fn new(interface: &str, direction: Direction) -> Result<Self, RulesError> {
        let odd = |c: char| matches!(c, '+' | '*' | '"' | '\\' | '/') || c.is_whitespace();
        if interface.is_empty() || interface.len() > 15 || interface.contains(odd) {
            return Err(RulesError::Name(interface.into()));
        }
        // 28 characters are the most that a chain's name can have.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let named = match interface.chars().all(plain) {
            true => interface.to_owned(),
            // FNV-1a, for names that the tools do not take.
            false => format!(
                "x{:08x}",
                interface.bytes().fold(0x811c_9dc5u32, |h, b| {
                    (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
                })
            ),
        };
        Ok(Self {
            interface: interface.into(),
            direction,
            name: format!("makeway-{}-{named}", direction.letter()),
            namespace: File::open("/proc/thread-self/ns/net")?.into(),
        })
    }
}

impl Chain {
    /// Whether the calling thread is in the chain's namespace; entering another one needs
    /// CAP_SYS_ADMIN, which a program with file capabilities does not have.
    fn is_here(&self) -> bool {
        let here = std::fs::metadata("/proc/thread-self/ns/net");
        let there = rustix::fs::fstat(&self.namespace);
        match (here, there) {
            (Ok(here), Ok(there)) => here.ino() == there.st_ino,
            _ => false,
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_means_more_than_itself_is_refused() {
        for name in ["eth+", "a b", "\"", "*", "", "sixteen-letters-", "a/b"] {
            let error = Chain::new(name, Direction::Egress).unwrap_err();
            assert!(matches!(error, RulesError::Name(_)), "{name}: {error}");
        }
    }

    #[test]
    fn names_of_chains_fit_whatever_the_interface() {
        for name in ["wan0", "fifteen-letters", "ünïcödé", "eth0.100", "a:b@c"] {
            let chain = Chain::new(name, Direction::Ingress).unwrap();
            assert!(chain.name.len() <= 28, "{}", chain.name);
            assert!(chain.name.is_ascii() && !chain.name.contains('@'));
        }
    }
}
