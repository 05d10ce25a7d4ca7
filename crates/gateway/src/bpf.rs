// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disciplines in the kernel: `bpf/*.bpf.c`, loaded as qdiscs (Linux 6.17 and newer, with NET_SCH_BPF; docs/kernel.md).
//!
//! One object is loaded for one qdisc, with maps of its own and a tc kind of its own name. [`Qdisc::load`] registers the
//! kind; [`Qdisc::pin`] keeps it, and the maps by which it is told and asked, when this process ends; `tc qdisc replace`
//! by that name puts it on an interface. [`Shaped`] does all of it for an interface, and removes it again.

mod cake;
mod config;
#[doc(hidden)] // For the tests of the same C as a program.
pub mod layout;
mod nat;
mod netlink;
#[doc(hidden)]
pub mod params;
mod pins;
mod qdisc;
pub mod record;
mod shaped;
mod stats;
#[doc(hidden)]
pub mod weights;

pub use cake::Cake;
pub use config::{Config, Stamps};
pub use layout::Counters;
pub use nat::pinned::{pin as pin_nat, unpin as unpin_nat};
pub use qdisc::Qdisc;
pub use shaped::{Plan, Shaped};

use std::sync::OnceLock;
use std::{fs, io};

use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::Bytes;

/// Reason why there is no qdisc.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel cannot.
    #[error(
        "this kernel has no BPF qdiscs: they need Linux 6.17 or newer with CONFIG_NET_SCH_BPF; with an older kernel, the kernel's own cake shapes by `backend = \"cake\"` or --backend cake"
    )]
    Unsupported,
    /// There is no such program.
    #[error("{0} has no program for the kernel: choose {names}", names = names())]
    NoProgram(Discipline),
    /// A limit does not fit.
    #[error("{what} is {asked}: a qdisc in the kernel holds 1 to {most}")]
    Limit {
        /// Name of the limit.
        what: &'static str,
        /// The request.
        asked: u64,
        /// The most allowed.
        most: u64,
    },
    /// An option that only the datapath in user space has.
    #[error("the BPF program does not support {0}: use --backend nfqueue")]
    Option(String),
    /// An option that the kernel's cake has not.
    #[error("{0} is not in the kernel's cake: use --backend nfqueue, or leave it out")]
    NotInCake(String),
    /// The kernel cannot.
    #[error("this kernel has no cake: it needs CONFIG_NET_SCH_CAKE (`modprobe sch_cake`)")]
    NoCake,
    /// The settings of one that runs are not known.
    #[error(
        "an older makeway started {0} and left no list of its settings: end it by `makeway down {0}`, then start it again"
    )]
    NoSettings(String),
    /// Somebody put another qdisc there.
    #[error(
        "{device} has the qdisc {kind}, which somebody put there instead of makeway's: end makeway by `makeway down {interface}`, then start it again"
    )]
    Replaced {
        /// The interface.
        interface: String,
        /// The device that had the qdisc.
        device: String,
        /// Name in tc.
        kind: String,
    },
    /// There is nowhere to pin.
    #[error("no BPF file system is at /sys/fs/bpf: `mount -t bpf bpf /sys/fs/bpf`")]
    NoBpfFs,
    /// `makeway down` could not restore the present qdisc.
    #[error(
        "{interface} has the qdisc {kind}, which could not be restored afterwards: remove it with `tc qdisc del dev {interface} root`, or use --backend nfqueue"
    )]
    NotRestorable {
        /// The interface.
        interface: String,
        /// Name in tc.
        kind: String,
    },
    /// The record of the former qdiscs cannot be read.
    #[error(
        "{file} does not say what makeway changed on {interface} ({why}). End it with the makeway that wrote it, or by hand and in this order: `tc qdisc del dev {interface} root`, `tc filter del dev {interface} ingress pref 19799`, `ip link del mwifbN` if there is one, `rm -r /sys/fs/bpf/makeway/{interface}-*`, `rm {file}`"
    )]
    Record {
        /// The interface.
        interface: String,
        /// Its record.
        file: String,
        /// The fault.
        why: String,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// The request.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Hosts behind address translation cannot be known.
    #[error("users behind NAT: {0}")]
    NoNat(String),
    /// This process may load none.
    #[error(
        "this process may not load programs into the kernel, which takes CAP_BPF and CAP_PERFMON outside of any user namespace: run with sudo"
    )]
    NotPermitted,
    /// The kernel or libbpf refused.
    #[error("{what}: {source}")]
    Refused {
        /// The request.
        what: String,
        /// The library's error.
        source: libbpf_rs::Error,
    },
}

impl BpfError {
    /// Whether the kernel knows another qdisc by that name.
    fn is_taken(&self) -> bool {
        use libbpf_rs::ErrorKind;
        matches!(self, Self::Refused { source, .. } if source.kind() == ErrorKind::AlreadyExists)
    }
}

/// The programs, by the name of their discipline.
const PROGRAMS: [(&str, &[u8]); 7] = [
    (
        "fifo",
        include_bytes!(concat!(env!("OUT_DIR"), "/fifo.bpf.o")),
    ),
    ("fq", include_bytes!(concat!(env!("OUT_DIR"), "/fq.bpf.o"))),
    (
        "hier",
        include_bytes!(concat!(env!("OUT_DIR"), "/hier.bpf.o")),
    ),
    (
        "makeway",
        include_bytes!(concat!(env!("OUT_DIR"), "/makeway.bpf.o")),
    ),
    (
        "ncq",
        include_bytes!(concat!(env!("OUT_DIR"), "/ncq.bpf.o")),
    ),
    (
        "sqf",
        include_bytes!(concat!(env!("OUT_DIR"), "/sqf.bpf.o")),
    ),
    (
        "tred",
        include_bytes!(concat!(env!("OUT_DIR"), "/tred.bpf.o")),
    ),
];

fn names() -> String {
    PROGRAMS.map(|(name, _)| name).join(", ")
}

fn program(discipline: Discipline) -> Result<&'static [u8], BpfError> {
    let found = PROGRAMS.iter().find(|(name, _)| *name == discipline.name());
    found
        .map(|(_, object)| *object)
        .ok_or(BpfError::NoProgram(discipline))
}

/// Whether there is a program of the discipline.
pub fn has_program(discipline: Discipline) -> bool {
    program(discipline).is_ok()
}

/// Loads a qdisc and lets it go: whether `discipline` could be had.
///
/// # Errors
/// Why not.
pub(crate) fn try_one(discipline: Discipline) -> Result<(), BpfError> {
    if !is_supported() {
        return Err(BpfError::Unsupported);
    }
    pins::check_pins()?;
    let limits = Limits {
        packets: 50,
        bytes: Bytes::new(75_000),
        flows: 64,
    };
    let config = Config::new(discipline.spec(), limits);
    // A kind of its own: others may be in use.
    Qdisc::load(
        &format!("mwdoctor{}", std::process::id() % 1_000_000),
        &config,
    )
    .map(drop)
}

/// Name of an interface's root qdisc; `None` if the kernel does not tell.
pub(crate) fn root_qdisc(index: u32) -> Option<String> {
    let all = netlink::qdiscs(index).ok()?;
    all.into_iter()
        .find(netlink::Found::is_root)
        .map(|one| one.kind)
}

/// Whether this kernel has BPF qdiscs: whether its types, the file of 5 MB and more, name a function that they alone call.
pub fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
        names_of(&types).is_some_and(|mut names| names.any(|name| name == b"bpf_qdisc_skb_drop"))
    })
}

/// The names in a file of types, in BTF (the kernel's Documentation/bpf/btf.rst): libbpf would build a table of all types first.
/// `None` if it is none, or of the other byte order.
fn names_of(btf: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let number = |at: usize| {
        let bytes = btf.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let is_btf = btf.get(..2)? == 0xeb9f_u16.to_ne_bytes();
    // Names end in a zero. Their place is counted from the end of the header.
    let begin = number(4)?.checked_add(number(16)?)?;
    let names = btf.get(begin..begin.checked_add(number(20)?)?)?;
    is_btf.then(|| names.split(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_disciplines_names_those_with_a_program() {
        let page = include_str!("../../../docs/disciplines.md");
        let names = PROGRAMS.map(|(name, _)| format!("`{name}`")).join(", ");
        let row = format!("| [`makeway up`](kernel.md) with BPF qdiscs | {names} |");
        assert!(page.contains(&row), "{row}");
    }

    #[test]
    fn names_of_types_are_found_and_a_damaged_file_has_none() {
        let names = b"\0int\0bpf_qdisc_skb_drop\0";
        let header = [24, 0, 8, 8, names.len() as u32].map(u32::to_ne_bytes);
        let start = [
            &0xeb9f_u16.to_ne_bytes()[..],
            &[1, 0],
            header.as_flattened(),
        ]
        .concat();
        let whole = [&start[..], &[7; 8], names].concat();
        let found: Vec<&[u8]> = names_of(&whole).unwrap().collect();
        assert_eq!(found, [&b""[..], b"int", b"bpf_qdisc_skb_drop", b""]);
        for end in 0..whole.len() {
            assert!(names_of(&whole[..end]).is_none(), "{end}");
        }
        let far = [&start[..16], &[255; 8], &whole[24..]].concat();
        assert!(names_of(&far).is_none());
        assert!(names_of(&[&[0, 0], &whole[2..]].concat()).is_none());
    }

    #[test]
    fn a_kernel_without_bpf_qdiscs_is_pointed_to_its_cake() {
        // `why` of a status, and `qdiscs` of the doctor: the fault, then the repair.
        let said = BpfError::Unsupported.to_string();
        let (fault, repair) = said.split_once(": ").unwrap();
        assert_eq!(fault, "this kernel has no BPF qdiscs");
        assert!(repair.contains("backend = \"cake\""), "{repair}");
    }
}
