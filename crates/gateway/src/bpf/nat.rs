// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts behind address translation as users of a qdisc: `bpf/nat.bpf.c`, which looks a packet's connection up right before it is queued.
//!
//! A program hangs on the device that has the qdisc by a link of tcx (Linux 6.6), pinned beside the qdisc's maps: it goes with its pin,
//! or with the device. Neither a qdisc nor a filter is made for it.
//!
//! Loading takes CAP_SYS_ADMIN: the kernel gives types of modules, by which functions of modules are called, to nobody else. A process
//! without it takes the programs that one with it has pinned ([`pinned`]).

pub(super) mod pinned;

use std::ffi::CString;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use bytemuck::bytes_of;
use libbpf_rs::query::{LinkInfo, LinkTypeInfo};
use libbpf_rs::{MapCore, MapHandle, ObjectBuilder, ProgramHandle};
use makeway_core::flow::Identity;
use rustix::thread::{CapabilitySet, capabilities};

use super::config::{Config, Stamps};
use super::layout;
use super::names_of;
use super::qdisc::write;
use crate::protocol::{CONNTRACK, NO_CONNECTIONS};
use crate::rules::Direction;

pub(super) const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nat.bpf.o"));
/// The section of [`layout::Nat`].
const VALUES: &str = ".rodata.nat";
/// Names of the programs, for egress packets and for ingress packets.
const PROGRAMS: [&str; 2] = ["nat_departs", "nat_arrives"];
/// Name of a link's pin, in the folder of its qdisc.
const PIN: &str = "nat";

/// Reason why users are addresses of packets, as a part of a sentence.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoNat {
    /// There is nobody to ask.
    #[error("{}", NO_CONNECTIONS)]
    NoConnections,
    /// The kernel cannot.
    #[error(
        "this kernel's nf_conntrack cannot be asked by programs, which takes CONFIG_DEBUG_INFO_BTF_MODULES"
    )]
    NotAskable,
    /// This process may not, and nothing is pinned for it.
    #[error("loading needs CAP_SYS_ADMIN")]
    NotPermitted,
    /// An older or newer makeway pinned its own.
    #[error("loading needs CAP_SYS_ADMIN, and the pinned programs are another version's")]
    OtherVersion,
    /// Others may have changed what is pinned.
    #[error("loading needs CAP_SYS_ADMIN, and {0}")]
    NotPrivate(String),
    /// The kernel or libbpf refused.
    #[error("the kernel refused the program nat: {0}")]
    Refused(libbpf_rs::Error),
    /// Pins that cannot be read or made.
    #[error("the pinned program nat: {0}")]
    Pins(libbpf_rs::Error),
    /// It is loaded, and not on the device.
    #[error("the kernel did not attach the program nat: {0}")]
    NotAttached(io::Error),
}

/// The key that has the near host of a direction alone, whose address may be translated: the source of an upload, the destination of a
/// download.
fn near(direction: Direction) -> Identity {
    match direction {
        Direction::Egress => Identity::SrcHost,
        Direction::Ingress => Identity::DstHost,
    }
}

/// Whether the near host of a direction is in a key.
pub(super) fn names_hosts(config: &Config, direction: Direction) -> bool {
    let names = |identity| identity == near(direction) || identity == Identity::HostPair;
    names(config.identity) || (config.spec.needs().users && names(config.users))
}

/// Whether a program is beside the qdisc whose pins are in `folder`.
pub(super) fn is_beside(folder: &Path) -> bool {
    fs::exists(folder.join(PIN)).unwrap_or(false)
}

/// The programs, loaded: those of this process, for its interface alone, or those that are pinned.
#[derive(Debug)]
pub(super) struct Nat {
    /// In the order of [`PROGRAMS`].
    programs: [ProgramHandle; 2],
    map: MapHandle,
    values: layout::Nat,
}

impl Nat {
    /// Loads the programs, or takes those that are pinned where this process may not.
    ///
    /// # Errors
    /// The reason why qdiscs do without.
    pub fn get() -> Result<Self, NoNat> {
        check()?;
        match may_load() {
            true => Self::load(),
            false => pinned::open(),
        }
    }

    fn load() -> Result<Self, NoNat> {
        let random = RandomState::new();
        let values = layout::Nat {
            word: random.hash_one(0) | 1,
            seed: random.hash_one(1),
        };
        let mut builder = ObjectBuilder::default();
        let mut open = builder.open_memory(OBJECT).map_err(NoNat::Refused)?;
        for mut map in open.maps_mut() {
            if map.name() == VALUES {
                write(&mut map, 0, bytes_of(&values));
            }
        }
        let object = open.load().map_err(NoNat::Refused)?;
        let missing = || NoNat::Refused(io::Error::from(io::ErrorKind::InvalidData).into());
        let program = |name: &str| {
            let mut all = object.progs_mut();
            let found = all.find(|one| one.name() == name);
            ProgramHandle::try_from(&found.ok_or_else(missing)?).map_err(NoNat::Refused)
        };
        let map = object.maps().find(|map| map.name() == VALUES);
        let map = MapHandle::try_from(&map.ok_or_else(missing)?);
        Ok(Self {
            programs: [program(PROGRAMS[0])?, program(PROGRAMS[1])?],
            map: map.map_err(NoNat::Refused)?,
            values,
        })
    }

    /// Stamps that a qdisc of a direction is to believe.
    pub fn stamps(&self, direction: Direction) -> Stamps {
        Stamps {
            word: self.values.word,
            seed: self.values.seed,
            near: near(direction),
        }
    }

    /// Lets the program of a direction see the packets that a device sends, until its pin in `folder`, that of a qdisc, is removed.
    ///
    /// # Errors
    /// The reason why the qdisc does without.
    pub fn attach(&self, direction: Direction, index: u32, folder: &Path) -> Result<(), NoNat> {
        let [departs, arrives] = &self.programs;
        let program = match direction {
            Direction::Egress => departs,
            Direction::Ingress => arrives,
        };
        let link = match tcx(program, index) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                former(program, index, folder)
            }
            made => made,
        };
        // Dropped without a pin, it is detached.
        let pinned = link.and_then(|link| pin(&link, &folder.join(PIN)));
        pinned.map_err(NoNat::NotAttached)
    }
}

/// Whether connections can be asked for on this kernel.
fn check() -> Result<(), NoNat> {
    if !Path::new(CONNTRACK).exists() {
        return Err(NoNat::NoConnections);
    }
    let files = ["/sys/kernel/btf/nf_conntrack", "/sys/kernel/btf/vmlinux"];
    match files.into_iter().any(has_lookup) {
        true => Ok(()),
        false => Err(NoNat::NotAskable),
    }
}

/// Whether a file of types names the function that looks a connection up.
fn has_lookup(file: &str) -> bool {
    let types = fs::read(file).unwrap_or_default();
    names_of(&types).is_some_and(|mut names| names.any(|name| name == b"bpf_skb_ct_lookup"))
}

fn may_load() -> bool {
    let have = capabilities(None).map(|sets| sets.effective);
    have.is_ok_and(|sets| sets.contains(CapabilitySet::SYS_ADMIN))
}

/// Attaches a program behind those that the device has at tcx.
fn tcx(program: &ProgramHandle, index: u32) -> io::Result<OwnedFd> {
    let (fd, device) = (program.as_fd().as_raw_fd(), index.cast_signed());
    let place = libbpf_sys::BPF_TCX_EGRESS;
    // SAFETY: the program is open as long as `program` lives; NULL stands for no options.
    owned(unsafe { libbpf_sys::bpf_link_create(fd, device, place, ptr::null()) })
}

/// The link by which the device has the program already: that of a qdisc which is replaced, pinned beside `folder`. The kernel attaches
/// a program to a device once.
fn former(program: &ProgramHandle, index: u32, folder: &Path) -> io::Result<OwnedFd> {
    let pins = folder.parent().unwrap_or(folder);
    for entry in fs::read_dir(pins)?.flatten() {
        let Ok(link) = get(&entry.path().join(PIN)) else {
            continue;
        };
        let is_it = LinkInfo::from_fd(link.as_fd()).is_ok_and(|link| {
            let is_here = matches!(&link.info, LinkTypeInfo::Tcx(tcx) if tcx.ifindex == index);
            is_here && link.prog_id == program.id()
        });
        if is_it {
            return Ok(link);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path lives until the call returns.
    owned(unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) })
}

fn pin(link: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path lives until the call returns, and the link is open.
    let answer = unsafe { libbpf_sys::bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) };
    match answer {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// A descriptor that libbpf made, or its error.
fn owned(answer: libc::c_int) -> io::Result<OwnedFd> {
    if answer < 0 {
        return Err(io::Error::from_raw_os_error(-answer));
    }
    // SAFETY: it was made for this call, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(answer) })
}

#[cfg(test)]
mod tests {
    use makeway_core::sched::{Discipline, Limits};
    use makeway_core::units::Bytes;

    use super::*;

    #[test]
    fn a_connection_is_asked_for_where_the_near_host_is_a_key() {
        let limits = Limits {
            packets: 100,
            bytes: Bytes::new(150_000),
            flows: 64,
        };
        let names = |discipline: Discipline, identity, users, direction| {
            let config = Config {
                identity,
                users,
                ..Config::new(discipline.spec(), limits)
            };
            names_hosts(&config, direction)
        };
        let five = Identity::FiveTuple;
        for (direction, near, far) in [
            (Direction::Egress, Identity::SrcHost, Identity::DstHost),
            (Direction::Ingress, Identity::DstHost, Identity::SrcHost),
        ] {
            for with_users in [Discipline::Makeway, Discipline::Hier] {
                assert!(names(with_users, five, near, direction));
                assert!(names(with_users, five, Identity::HostPair, direction));
                assert!(!names(with_users, five, far, direction));
            }
            // It has no users.
            assert!(!names(Discipline::Sqf, five, near, direction));
            assert!(names(Discipline::Sqf, near, far, direction));
            assert!(!names(Discipline::Sqf, Identity::SrcPort, near, direction));
        }
    }

    #[test]
    fn the_object_has_a_program_of_each_direction() {
        let mut builder = ObjectBuilder::default();
        let open = builder.open_memory(OBJECT).unwrap();
        let mut names: Vec<_> = open.progs().map(|one| one.name().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["nat_arrives", "nat_departs"]);
        let is_there = open.maps().any(|map| map.name() == VALUES);
        assert!(is_there, "{VALUES}");
    }
}
