// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF file system, in which the kernel keeps qdiscs and programs: whether it is there, and removal of pins.

use std::fs;
use std::io;
use std::path::Path;

use super::BpfError;
use super::record::PINS;

/// Whether there is a BPF file system to pin in.
///
/// # Errors
/// If there is none.
pub(super) fn check_pins() -> Result<(), BpfError> {
    /// `BPF_FS_MAGIC` of <linux/magic.h>.
    const BPF_FS: u32 = 0xcafe_4a11;
    let root = Path::new(PINS).parent().unwrap_or(Path::new("/"));
    let found = rustix::fs::statfs(root);
    match found.is_ok_and(|found| found.f_type as u32 == BPF_FS) {
        true => Ok(()),
        false => Err(BpfError::NoBpfFs),
    }
}

/// Removes a folder with the pins in it. A missing one needs no removal.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
