// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that a process with CAP_SYS_ADMIN has loaded and pinned (`makeway pin-nat`), for those without it: the units of the package run
//! it before them.
//!
//! The pins are for root alone, in a folder named by a hash of the object: another version's are not taken. They are made in a folder
//! beside it, which then gets that name, so that nobody finds a half of them.

use std::fs::{self, DirBuilder};
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::process;

use bytemuck::pod_read_unaligned;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramHandle};
use siphasher::sip::SipHasher13;

use super::{Nat, NoNat, OBJECT, PROGRAMS, check, may_load};
use crate::bpf::pins::{check_pins, remove};
use crate::bpf::record::PINS;
use crate::bpf::{BpfError, is_supported, layout};

/// The folder below [`PINS`]. That of an interface has an `@`.
const FOLDER: &str = "nat";
/// Name of the pin of [`layout::Nat`].
const VALUES: &str = "values";

/// Name of the folder with the pins of this version.
fn version() -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(OBJECT);
    format!("{:016x}", hasher.finish())
}

/// Takes the programs that are pinned.
///
/// # Errors
/// If there are none of this version, or others than root may have put them there.
pub(super) fn open() -> Result<Nat, NoNat> {
    open_in(&Path::new(PINS).join(FOLDER))
}

fn open_in(folder: &Path) -> Result<Nat, NoNat> {
    let own = folder.join(version());
    for one in [folder, own.as_path()] {
        match check_private(one) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let has_other = fs::read_dir(folder).is_ok_and(|mut all| all.next().is_some());
                return Err(match has_other {
                    true => NoNat::OtherVersion,
                    false => NoNat::NotPermitted,
                });
            }
            Err(error) => return Err(NoNat::NotPrivate(format!("{}: {error}", one.display()))),
            Ok(()) => {}
        }
    }
    let program = |name: &str| ProgramHandle::from_pinned_path(own.join(name));
    let [departs, arrives] = PROGRAMS.map(program);
    let map = MapHandle::from_pinned_path(own.join(VALUES)).map_err(NoNat::Pins)?;
    let values = map.lookup(&[0; 4], MapFlags::ANY).map_err(NoNat::Pins)?;
    let values = values.filter(|value| value.len() == size_of::<layout::Nat>());
    let missing = || NoNat::Pins(io::Error::from(io::ErrorKind::InvalidData).into());
    Ok(Nat {
        programs: [departs.map_err(NoNat::Pins)?, arrives.map_err(NoNat::Pins)?],
        values: pod_read_unaligned(&values.ok_or_else(missing)?),
        map,
    })
}

/// Whether a folder is this user's, and nobody else's to enter.
fn check_private(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    match found.is_dir() && is_own && found.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(io::Error::other("it is not root's alone")),
    }
}

/// Loads the programs and pins them, unless those of this version are; a sentence about it.
///
/// # Errors
/// If this process may not, or the kernel refuses.
pub fn pin() -> Result<String, BpfError> {
    if !is_supported() {
        return Ok("nothing to pin: this kernel has no BPF qdiscs".into());
    }
    if let Err(why @ (NoNat::NoConnections | NoNat::NotAskable)) = check() {
        return Ok(format!("nothing to pin: {why}"));
    }
    check_pins()?;
    let folder = Path::new(PINS).join(FOLDER);
    let own = folder.join(version());
    let refused = |why: NoNat| BpfError::NoNat(why.to_string());
    let found = open_in(&folder);
    if found.is_err() {
        if !may_load() {
            return Err(refused(NoNat::NotPermitted));
        }
        let what = "pinning the program nat";
        let system = |source| BpfError::System { what, source };
        // Whole folders alone have that name: somebody has taken one of its pins away.
        if matches!(found, Err(NoNat::Pins(_))) {
            remove(&own).map_err(system)?;
        }
        let nat = Nat::load().map_err(refused)?;
        make(&folder, &own, |new| keep(nat, new)).map_err(system)?;
        open_in(&folder).map_err(refused)?;
    }
    let place = own.display();
    Ok(format!("programs of hosts behind NAT: pinned at {place}"))
}

/// Makes the folder `own` in `folder` with what `fill` puts there, for this user alone, and takes away those of other versions.
fn make(folder: &Path, own: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    if let Some(pins) = folder.parent() {
        fs::create_dir_all(pins)?;
    }
    // Others may have filled it. One that is not there may be made meanwhile.
    if check_private(folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
        remove(folder)?;
    }
    let new = folder.join(format!("new{}", process::id()));
    remove(&new)?;
    let mut private = DirBuilder::new();
    private.recursive(true).mode(0o700).create(&new)?;
    let made = fill(&new).and_then(|()| {
        for entry in fs::read_dir(folder)?.flatten() {
            // Another process may be at work on its own.
            let is_whole = !entry.file_name().to_string_lossy().starts_with("new");
            if is_whole && check_private(own).is_err() {
                remove(&entry.path())?;
            }
        }
        fs::rename(&new, own)
    });
    // One that came first has the same programs.
    let _ = remove(&new);
    match made {
        Err(_) if check_private(own).is_ok() => Ok(()),
        made => made,
    }
}

fn keep(mut nat: Nat, folder: &Path) -> io::Result<()> {
    let pinned = PROGRAMS.iter().zip(&nat.programs);
    for (name, program) in pinned {
        program.pin(folder.join(name)).map_err(io::Error::other)?;
    }
    let values = nat.map.pin(folder.join(VALUES));
    values.map_err(io::Error::other)
}

/// Removes the pins, unless the kernel shapes an interface: its next process may want them. A sentence about it.
///
/// # Errors
/// If they stay.
pub fn unpin() -> io::Result<String> {
    unpin_in(Path::new(PINS))
}

fn unpin_in(pins: &Path) -> io::Result<String> {
    let mut entries = fs::read_dir(pins).into_iter().flatten().flatten();
    let shaped = entries.find(|entry| entry.file_name().to_string_lossy().contains('@'));
    if let Some(shaped) = shaped {
        return Ok(format!(
            "programs of hosts behind NAT stay: the kernel shapes an interface by {}",
            shaped.path().display()
        ));
    }
    remove(&pins.join(FOLDER))?;
    Ok("programs of hosts behind NAT: none is pinned".into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(path: &Path, mode: u32) {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn pins_of_another_version_and_those_that_others_may_change_are_not_taken() {
        let place = tempfile::tempdir().unwrap();
        let pins = place.path().join("nat");
        let why = || open_in(&pins).unwrap_err().to_string();
        assert_eq!(why(), "loading needs CAP_SYS_ADMIN");
        folder(&pins, 0o700);
        assert_eq!(why(), "loading needs CAP_SYS_ADMIN");
        folder(&pins.join("0123456789abcdef"), 0o700);
        assert!(why().ends_with("the pinned programs are another version's"));
        let own = pins.join(version());
        for (outer, inner) in [(0o755, 0o700), (0o720, 0o700), (0o700, 0o701)] {
            folder(&pins, outer);
            folder(&own, inner);
            let why = why();
            assert!(why.ends_with("it is not root's alone"), "{outer:o}: {why}");
        }
        folder(&own, 0o700);
        // Private, and nothing is in it.
        assert!(why().starts_with("the pinned program nat: "), "{}", why());
    }

    #[test]
    fn a_folder_of_pins_is_whole_private_and_of_one_version() {
        let place = tempfile::tempdir().unwrap();
        let pins = place.path().join("makeway/nat");
        let own = pins.join("own");
        folder(&pins, 0o755);
        folder(&pins.join("other"), 0o700);
        let fill = |new: &Path| fs::write(new.join("file"), "");
        // One that fails leaves nothing of its own.
        let fails = |_: &Path| Err(io::Error::other("no"));
        assert!(make(&pins, &own, fails).is_err());
        assert_eq!(fs::read_dir(&pins).unwrap().count(), 0);
        folder(&pins.join("other"), 0o700);
        make(&pins, &own, fill).unwrap();
        let names: Vec<_> = fs::read_dir(&pins).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(own.join("file").exists());
        for one in [&pins, &own] {
            check_private(one).unwrap();
        }
        // A second one, which saw none a moment ago.
        make(&pins, &own, fill).unwrap();
        assert_eq!(fs::read_dir(&pins).unwrap().count(), 1);
    }

    #[test]
    fn pins_stay_while_the_kernel_shapes_an_interface() {
        let place = tempfile::tempdir().unwrap();
        let pins = place.path();
        assert!(unpin_in(&pins.join("none")).is_ok());
        folder(&pins.join("nat/own"), 0o700);
        folder(&pins.join("wan0-3@4026531840"), 0o700);
        assert!(unpin_in(pins).unwrap().contains("stay"));
        assert!(pins.join("nat/own").exists());
        fs::remove_dir(pins.join("wan0-3@4026531840")).unwrap();
        unpin_in(pins).unwrap();
        assert_eq!(fs::read_dir(pins).unwrap().count(), 0);
    }
}
