// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that send an interface's packets to a queue: nftables or iptables, the first that works.
//!
//! Everything is under names that tell whose it is, so that [`remove`] finds it regardless of its maker. Every
//! rule has `bypass`: with nobody listening on the queue, packets go on.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{folder, tool};

/// How long a tool may take: 5 s, chosen by us. One that waits for another's lock or for a kernel that hangs is killed.
const LIMIT: Duration = Duration::from_secs(5);

/// The fwmark of packets that are to be marked as RFC 3168 says, from their verdict to the rule behind it. Chosen by us:
/// `mwce` in ASCII. A packet that has a fwmark already is not marked.
const MARKING: u32 = u32::from_be_bytes(*b"mwce");

/// Which packets of an interface.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Those that leave by it: POSTROUTING.
    #[default]
    Egress,
    /// Those that come by it: PREROUTING.
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

/// Why no rule could be made, or one not be taken away.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The name would mean something else to the tools.
    #[error(
        "`{0}` is no interface name that a rule can be made for: it has one of + * \" \\ or a space"
    )]
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
    /// They are still there.
    #[error(
        "the rules for {interface} could not be taken away ({said}); with nobody at their queue traffic passes by them"
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

/// Rules that are in place. They are taken away when this is dropped, on any thread.
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
    let apart = others.find_map(|other| match other {
        Tool::Nft(nft) => {
            let done = run(chain, nft, &["-f", "-"], &table(chain, None, true));
            done.is_ok().then(|| Marks::Apart(other.clone()))
        }
        Tool::Iptables(..) => None,
    });
    apart.unwrap_or(Marks::None)
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

/// A tool that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tool {
    Nft(PathBuf),
    /// `iptables*` and its `ip6tables*` if the kernel has IPv6.
    Iptables(PathBuf, Option<PathBuf>),
}

/// The tools that are installed, the best first.
fn tools() -> Vec<Tool> {
    let mut tools = Vec::new();
    tools.extend(tool::find("nft").map(Tool::Nft));
    for suffix in ["-nft", "", "-legacy"] {
        let Some(v4) = tool::find(&format!("iptables{suffix}")) else {
            continue;
        };
        let v6 = tool::find(&format!("ip6tables{suffix}"))
            .filter(|_| Path::new("/proc/thread-self/net/if_inet6").exists());
        let tool = Tool::Iptables(v4, v6);
        // Plain `iptables` is most often a link to one of the other two.
        if !suffix.is_empty() || !tools.iter().any(|other| tool.same(other)) {
            tools.push(tool);
        }
    }
    tools
}

impl Tool {
    fn name(&self) -> String {
        let (Self::Nft(path) | Self::Iptables(path, _)) = self;
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether plain `iptables` is the program that `other` is too.
    fn same(&self, other: &Self) -> bool {
        let (Self::Iptables(a, _), Self::Iptables(b, _)) = (self, other) else {
            return false;
        };
        if let (Ok(a), Ok(b)) = (a.canonicalize(), b.canonicalize())
            && a == b
        {
            return true;
        }
        let version = |path: &Path| {
            let mut command = Command::new(path);
            let output = tool::run(command.arg("--version"), b"", LIMIT).ok()?;
            Some(output.stdout)
        };
        version(a) == version(b)
    }

    /// Replaces an old rule by ours; whether they can mark. Where it fails nothing is left.
    fn install(&self, chain: &Chain, queue_num: u16) -> Result<bool, String> {
        match self {
            Self::Nft(nft) => {
                let mut marks = true;
                let mut done = run(
                    chain,
                    nft,
                    &["-f", "-"],
                    &table(chain, Some(queue_num), marks),
                );
                if done.as_ref().is_err_and(|said| !is_late(said)) {
                    marks = false;
                    done = run(
                        chain,
                        nft,
                        &["-f", "-"],
                        &table(chain, Some(queue_num), marks),
                    );
                }
                // All of it or nothing, but for one that was killed: nobody knows how far it came.
                if done.as_ref().is_err_and(|said| is_late(said)) {
                    let _ = self.remove(chain);
                }
                done.map(|()| marks)
            }
            Self::Iptables(v4, v6) => {
                let (name, interface) = (&chain.name, &chain.interface);
                let letter = chain.direction.letter();
                let hook = chain.direction.hook().to_ascii_uppercase();
                let script = format!(
                    "*mangle\n:{name} - [0:0]\n\
                     -A {name} -j NFQUEUE --queue-num {queue_num} --queue-bypass\n\
                     -A {hook} -{letter} {interface} -j {name}\nCOMMIT\n"
                );
                self.remove(chain).map_err(|error| error.to_string())?;
                for program in [Some(v4), v6.as_ref()].into_iter().flatten() {
                    if let Err(said) = restore(chain, program, &script) {
                        // Of IPv4, where IPv6 failed.
                        let _ = self.remove(chain);
                        return Err(said);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Removes what [`Self::install`] made: one run of each tool where nobody has changed it since.
    fn undo(&self, chain: &Chain) -> Result<(), RulesError> {
        if let Self::Iptables(v4, v6) = self {
            let mut programs = [Some(v4), v6.as_ref()].into_iter().flatten();
            let script = removal(chain);
            match programs.try_for_each(|program| restore(chain, program, &script)) {
                Ok(()) => return Ok(()),
                Err(said) if is_late(&said) => return Err(self.left(chain, &said)),
                Err(_) => {}
            }
        }
        self.remove(chain).map(drop)
    }

    fn left(&self, chain: &Chain, said: &str) -> RulesError {
        RulesError::Left {
            interface: chain.interface.clone(),
            said: format!("{}: {said}", self.name()),
        }
    }

    /// Removes all that this tool has under our name; whether there was something.
    fn remove(&self, chain: &Chain) -> Result<bool, RulesError> {
        let left = |said: String| self.left(chain, &said);
        match self {
            Self::Nft(nft) => {
                match run(chain, nft, &["delete", "table", "inet", &chain.name], "") {
                    Ok(()) => Ok(true),
                    Err(said) if said.contains("No such file") => Ok(false),
                    Err(said) if is_late(&said) || self.has(chain) => Err(left(said)),
                    // It cannot be used here, so it made nothing either.
                    Err(_) => Ok(false),
                }
            }
            Self::Iptables(v4, v6) => {
                let mut found = false;
                for program in [Some(v4), v6.as_ref()].into_iter().flatten() {
                    found |= remove_chain(chain, program).map_err(left)?;
                }
                Ok(found)
            }
        }
    }

    fn has(&self, chain: &Chain) -> bool {
        let name = &chain.name;
        match self {
            Self::Nft(nft) => run(chain, nft, &["list", "table", "inet", name], "").is_ok(),
            Self::Iptables(v4, v6) => [Some(v4), v6.as_ref()]
                .into_iter()
                .flatten()
                .any(|p| run(chain, p, &["-w", "-t", "mangle", "-n", "-L", name], "").is_ok()),
        }
    }
}

/// Takes our chain of iptables or ip6tables away, and all that leads to it; whether it was there.
fn remove_chain(chain: &Chain, program: &Path) -> Result<bool, String> {
    let ask = |arguments: &[&str]| {
        let arguments = [&["-w", "-t", "mangle"], arguments].concat();
        run(chain, program, &arguments, "")
    };
    match ask(&["-n", "-L", &chain.name]) {
        Ok(()) => {}
        Err(said) if is_late(&said) => return Err(said),
        Err(_) => return Ok(false),
    }
    match restore(chain, program, &removal(chain)) {
        Ok(()) => return Ok(true),
        Err(said) if is_late(&said) => return Err(said),
        Err(_) => {}
    }
    let hook = chain.direction.hook().to_ascii_uppercase();
    let side = format!("-{}", chain.direction.letter());
    // More than one leads to it: each start that was killed may have left another.
    for _ in 0..64 {
        if ask(&["-D", &hook, &side, &chain.interface, "-j", &chain.name]).is_err() {
            break;
        }
    }
    ask(&["-F", &chain.name])?;
    ask(&["-X", &chain.name])?;
    Ok(true)
}

/// Commands that replace our table of nftables: adding an old table again is no error, deleting a missing
/// one is. One chain has the queue, one behind it `marks` packets as congested.
fn table(chain: &Chain, queue_num: Option<u16>, marks: bool) -> String {
    let Chain {
        name, interface, ..
    } = chain;
    let hook = chain.direction.hook();
    let side = match chain.direction {
        Direction::Egress => "oifname",
        Direction::Ingress => "iifname",
    };
    let marking = match marks {
        true => format!(
            "chain marks {{\n\
             type filter hook {hook} priority mangle + 1; policy accept;\n\
             {side} \"{interface}\" meta mark {MARKING:#x} ip ecn set ce meta mark set 0\n\
             {side} \"{interface}\" meta mark {MARKING:#x} ip6 ecn set ce meta mark set 0\n}}\n"
        ),
        false => String::new(),
    };
    // `queue` is a word of nft's own.
    let packets = queue_num.map(|number| {
        format!(
            "chain packets {{\n\
             type filter hook {hook} priority mangle; policy accept;\n\
             {side} \"{interface}\" queue num {number} bypass\n}}\n"
        )
    });
    let packets = packets.unwrap_or_default();
    format!(
        "add table inet {name}\ndelete table inet {name}\ntable inet {name} {{\n{packets}{marking}}}\n"
    )
}

/// Commands that take our chain of iptables away, and the one rule that leads to it: all of them or none.
fn removal(chain: &Chain) -> String {
    let Chain {
        name, interface, ..
    } = chain;
    let hook = chain.direction.hook().to_ascii_uppercase();
    let letter = chain.direction.letter();
    format!("*mangle\n-D {hook} -{letter} {interface} -j {name}\n-F {name}\n-X {name}\nCOMMIT\n")
}

/// Has the `-restore` of iptables or ip6tables do the commands of `script`.
fn restore(chain: &Chain, program: &Path, script: &str) -> Result<(), String> {
    let restore = with_suffix(program, "-restore");
    run(chain, &restore, &["-w", "--noflush"], script)
}

fn with_suffix(program: &Path, suffix: &str) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Runs a tool in the chain's namespace; what it said if it failed.
fn run(chain: &Chain, program: &Path, arguments: &[&str], input: &str) -> Result<(), String> {
    let namespace = chain.namespace.as_raw_fd();
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(lock) = lock_file() {
        command.env("XTABLES_LOCKFILE", lock);
    }
    if !chain.is_here() {
        // SAFETY: between fork and exec only `setns` is called, which is async-signal-safe, and
        // the error is made without allocating.
        unsafe {
            command.pre_exec(move || match libc::setns(namespace, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
    let output = match tool::run(&mut command, input.as_bytes(), LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(LATE.into()),
        Err(error) => return Err(format!("cannot run {}: {error}", program.display())),
        Ok(output) => output,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| !line.trim().is_empty());
    Err(line.unwrap_or("it failed and said nothing").trim().into())
}

const LATE: &str = "it did not end within 5 s and was killed";

fn is_late(said: &str) -> bool {
    said == LATE
}

/// A lock file that can be written, where iptables' own cannot: in a user namespace.
fn lock_file() -> Option<PathBuf> {
    let own = Path::new("/run/xtables.lock");
    if File::options().append(true).create(true).open(own).is_ok() {
        return None;
    }
    Some(folder::make().ok()?.join("xtables.lock"))
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
    fn nft_reads_our_table() {
        let Some(nft) = tool::find("nft") else {
            return makeway_testing::skip("nft is not installed: install the package nftables");
        };
        for direction in Direction::BOTH {
            let chain = Chain::new("wan0.7", direction).unwrap();
            // Checked, and not done. A kernel without queues, and a user who may not, refuse later than this.
            for marks in [false, true] {
                let table = table(&chain, Some(7), marks);
                let said = run(&chain, &nft, &["--check", "-f", "-"], &table);
                assert!(!said.is_err_and(|said| said.contains("syntax error")));
            }
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
