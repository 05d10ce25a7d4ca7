// SPDX-License-Identifier: MIT OR Apache-2.0
//! nft and iptables: the commands that make our rules, find them and take them away, each run in the rules' network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Chain, Direction, MARKING, RulesError};
use crate::{folder, tool};

/// How long a tool may take: 5 s, chosen by us. One that waits for another's lock or for a kernel that hangs is killed.
const LIMIT: Duration = Duration::from_secs(5);

/// A tool that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Nft(PathBuf),
    /// `iptables*` and its `ip6tables*` if the kernel has IPv6.
    Iptables(PathBuf, Option<PathBuf>),
}

/// The tools that are installed, the best first.
pub(super) fn tools() -> Vec<Tool> {
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
    pub(super) fn name(&self) -> String {
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
    pub(super) fn install(&self, chain: &Chain, queue_num: u16) -> Result<bool, String> {
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

    /// Adds rules that mark and none that queues; whether this tool can.
    pub(super) fn mark(&self, chain: &Chain) -> bool {
        match self {
            Self::Nft(nft) => run(chain, nft, &["-f", "-"], &table(chain, None, true)).is_ok(),
            Self::Iptables(..) => false,
        }
    }

    /// Removes what [`Self::install`] made: one run of each tool where nobody has changed it since.
    pub(super) fn undo(&self, chain: &Chain) -> Result<(), RulesError> {
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
    pub(super) fn remove(&self, chain: &Chain) -> Result<bool, RulesError> {
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

    pub(super) fn has(&self, chain: &Chain) -> bool {
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
}
