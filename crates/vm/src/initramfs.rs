// SPDX-License-Identifier: MIT OR Apache-2.0
//! An archive that the kernel unpacks as its first file system: cpio in the `newc` format.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Command;

use super::{VmError, file};

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// Files by their path in the guest, without the leading slash.
#[derive(Debug, Default)]
pub struct Initramfs {
    files: BTreeMap<String, (Vec<u8>, bool)>,
}

impl Initramfs {
    /// Adds a file, which replaces one of the same path.
    pub fn add(&mut self, path: &str, content: Vec<u8>, executable: bool) {
        self.files.insert(path.into(), (content, executable));
    }

    /// Adds a program of the host to `/bin`, and the libraries that it is linked to where the host has them.
    pub fn program(&mut self, path: &Path) -> Result<(), VmError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.linked(&format!("bin/{name}"), path)
    }

    /// Adds a file of the host where the host has it, and the libraries that it is linked to.
    pub fn in_place(&mut self, path: &Path) -> Result<(), VmError> {
        let to = path.to_string_lossy();
        self.linked(to.trim_start_matches('/'), path)
    }

    fn linked(&mut self, to: &str, path: &Path) -> Result<(), VmError> {
        self.copy(to, path)?;
        if !self.is_elf(to) {
            return Ok(());
        }
        // `ldd` fails for a static program, which needs nothing.
        let listed = Command::new("ldd").arg(path).output();
        let listed = listed.map(|out| out.stdout).unwrap_or_default();
        for line in String::from_utf8_lossy(&listed).lines() {
            let library = line.split_whitespace().find(|word| word.starts_with('/'));
            if let Some(library) = library {
                self.copy(library.trim_start_matches('/'), Path::new(library))?;
            }
        }
        Ok(())
    }

    fn is_elf(&self, path: &str) -> bool {
        let added = self.files.get(path);
        added.is_some_and(|(content, _)| content.starts_with(b"\x7fELF"))
    }

    fn copy(&mut self, to: &str, from: &Path) -> Result<(), VmError> {
        let mut content = fs::read(from).map_err(|error| file(from, error))?;
        content.truncate(loaded(&content).unwrap_or(content.len()));
        self.add(to, content, true);
        Ok(())
    }

    /// Writes the archive.
    pub fn write(&self, to: &Path) -> Result<(), VmError> {
        let write = || {
            let mut out = BufWriter::new(File::create(to)?);
            let mut made = BTreeMap::new();
            entry(&mut out, "dev", DIRECTORY, (0, 0), &[])?;
            entry(&mut out, "dev/console", CHARACTER_DEVICE, (5, 1), &[])?;
            for (path, (content, executable)) in &self.files {
                for (end, _) in path.match_indices('/') {
                    if made.insert(&path[..end], ()).is_none() {
                        entry(&mut out, &path[..end], DIRECTORY, (0, 0), &[])?;
                    }
                }
                let mode = if *executable { EXECUTABLE } else { REGULAR };
                entry(&mut out, path, mode, (0, 0), content)?;
            }
            entry(&mut out, "TRAILER!!!", 0, (0, 0), &[])?;
            out.flush()
        };
        write().map_err(|error| file(to, error))
    }
}

/// Length of a program up to the last byte that its program headers name. Debug information and symbols follow there, most of a
/// debug build, and a translated guest takes seconds to unpack them. `None` for anything but a 64-bit little-endian ELF file.
fn loaded(elf: &[u8]) -> Option<usize> {
    let number = |at: usize, size: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(elf.get(at..at.checked_add(size)?)?);
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    // The file header, as far as the program headers; of those, `p_offset` and `p_filesz`.
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut end = table.checked_add(size.checked_mul(count)?)?;
    for n in 0..count {
        let header = table + n * size;
        end = end.max(number(header + 8, 8)?.checked_add(number(header + 32, 8)?)?);
    }
    (end <= elf.len()).then_some(end)
}

/// One file: a header of hexadecimal figures, its name, its content, each filled up to four bytes.
fn entry(
    out: &mut impl Write,
    name: &str,
    mode: u32,
    device: (u32, u32),
    content: &[u8],
) -> io::Result<()> {
    let (inode, owner, links, time) = (0, 0, 1, 0);
    let size = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let length = name.len() as u32 + 1;
    write!(out, "070701")?;
    for figure in [
        inode, mode, owner, owner, links, time, size, 0, 0, device.0, device.1, length, 0,
    ] {
        write!(out, "{figure:08x}")?;
    }
    out.write_all(name.as_bytes())?;
    let fill = |length: usize| &[0; 4][..length.wrapping_neg() % 4];
    out.write_all(&[0])?;
    out.write_all(fill(110 + name.len() + 1))?;
    out.write_all(content)?;
    out.write_all(fill(content.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_its_symbols_runs() {
        let this = fs::read(std::env::current_exe().expect("a test knows its own file"));
        let mut this = this.expect("this program is read");
        let whole = this.len();
        this.truncate(loaded(&this).expect("this program is ELF"));
        assert!(
            this.len() < whole * 3 / 4,
            "{} of {whole} bytes",
            this.len()
        );
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, this).expect("it is written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("it may run");
        let ended = Command::new(path)
            .arg("--list")
            .output()
            .expect("it starts");
        assert!(
            String::from_utf8_lossy(&ended.stdout).contains("a_program_without_its_symbols_runs")
        );
    }

    #[test]
    fn a_damaged_program_is_copied_whole() {
        let mut elf = vec![0; 200];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for (at, value) in [(32, 0xff), (39, 0xff), (54, 0xff), (56, 0xff)] {
            elf[at] = value;
            let end = loaded(&elf);
            assert!(end.is_none_or(|end| end <= elf.len()), "{at}: {end:?}");
        }
        assert_eq!(loaded(b"#!/bin/sh"), None);
        assert_eq!(loaded(&[]), None);
    }
}
