// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk with a system of Debian's own packages, which a guest boots with systemd as its first process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::mirror;
use super::{VmError, file, find, output};

/// Room for the system and for packages that a test installs; a sparse file.
const SIZE: &str = "1536M";

/// An image of ext4 with Debian's suite of this machine, systemd, and `packages` with all that they depend on.
///
/// It is made below `cache` once, by mmdebstrap, which takes root here. It is never written: see [`copy`].
///
/// # Errors
/// Errors of the host: no mmdebstrap, no mirror.
pub fn debian(packages: &[&str], cache: &Path) -> Result<PathBuf, VmError> {
    let suite = suite().ok_or(VmError::NotListed)?;
    let all = format!("systemd-sysv,{}", packages.join(","));
    let image = cache.join(format!("system-{suite}-{}.ext4", all.replace(',', "-")));
    if image.is_file() {
        return Ok(image);
    }
    let makes = find("mmdebstrap", "mmdebstrap")?;
    let formats = find("mke2fs", "e2fsprogs")?;
    fs::create_dir_all(cache).map_err(|error| file(cache, error))?;
    let place = tempfile::tempdir_in(cache).map_err(|error| file(cache, error))?;
    let [root, made] = ["root", "image"].map(|name| place.path().join(name));
    let mut make = Command::new(makes);
    // The first boot would ask for them; lists of packages are a third of the size, and nothing is fetched in a guest.
    let hooks = [
        "echo 0123456789abcdef0123456789abcdef >\"$1/etc/machine-id\"",
        "echo guest >\"$1/etc/hostname\"",
        "rm -rf \"$1/var/lib/apt/lists\"/* \"$1/var/cache/apt\"/*.bin \"$1/usr/share/doc\"/* \"$1/usr/share/locale\"/*",
        "chroot \"$1\" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer",
    ];
    make.args(["--quiet", "--variant=minbase", "--mode=root"])
        .arg(format!("--include={all}"))
        .args(hooks.map(|hook| format!("--customize-hook={hook}")))
        .arg(suite)
        .arg(&root)
        .arg(mirror()?)
        .env("TMPDIR", place.path());
    output(&mut make)?;
    let mut format = Command::new(formats);
    format
        .args(["-q", "-t", "ext4", "-d"])
        .args([&root, &made])
        .arg(SIZE);
    output(&mut format)?;
    // Whole or not at all, also for another process that does the same.
    fs::rename(&made, &image).map_err(|error| file(&image, error))?;
    Ok(image)
}

/// A copy of `image` at `to`, which has each of `files` (of this machine, and its place there; the folder must be there) as well.
///
/// # Errors
/// Errors of the host.
pub fn copy(image: &Path, to: &Path, files: &[(&Path, &str)]) -> Result<(), VmError> {
    output(Command::new("cp").arg("--sparse=always").args([image, to]))?;
    let writes = find("debugfs", "e2fsprogs")?;
    for (from, place) in files {
        let request = format!("write {} {place}", from.display());
        output(Command::new(&writes).args(["-w", "-R", &request]).arg(to))?;
    }
    Ok(())
}

/// Debian's suite of this machine.
fn suite() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let mut lines = text.lines();
    let name = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(name.trim_matches('"').to_owned())
}
