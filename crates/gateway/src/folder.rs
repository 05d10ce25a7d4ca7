// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder that processes of this program share, and the files in it. Nobody else may write there: what is read from it
//! steers a process with privileges.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// Root's folder, and that of a container's root whose `/run` is its own.
const OF_ROOT: &str = "/run/makeway";
/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Makes the folder if it is not there.
///
/// # Errors
/// Each folder that was tried, and what is wrong with it.
pub(crate) fn make() -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for folder in candidates() {
        match make_one(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => tried.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(tried.join("; "))
}

/// Folders that exist and that no other user may write to.
pub(crate) fn existing() -> Vec<PathBuf> {
    let safe = candidates().into_iter().filter(|one| check(one).is_ok());
    safe.collect()
}

/// Root has one. Everybody else, root of a user namespace among them, has that of the login session or else one below
/// the folder for temporary files.
fn candidates() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |run: fs::Metadata| run.uid() == user;
    if user == 0 && fs::symlink_metadata("/run").map_or(true, is_own) {
        return vec![OF_ROOT.into()];
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let runtime = runtime.map(|folder| Path::new(&folder).join("makeway"));
    let temporary = std::env::temp_dir().join(format!("makeway-{}", outside(user)));
    runtime.into_iter().chain([temporary]).collect()
}

/// The number that `user` has outside of this process's user namespace, where everybody may be 0.
fn outside(user: u32) -> u32 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines()
        .find_map(|line| outside_by(line, user))
        .unwrap_or(user)
}

/// By a line of a map: the first inside, the first outside, how many.
fn outside_by(line: &str, user: u32) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
    let mut field = || fields.next()?.ok();
    let (inside, outside, count) = (field()?, field()?, field()?);
    let nth = user.checked_sub(inside).filter(|nth| *nth < count)?;
    outside.checked_add(nth)
}

fn make_one(folder: &Path) -> io::Result<()> {
    let is_roots = folder == Path::new(OF_ROOT);
    DirBuilder::new()
        .recursive(is_roots)
        .mode(if is_roots { 0o755 } else { 0o700 })
        .create(folder)
        .or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
    check(folder)?;
    // It may be ours and still not be written to: root of a user namespace sees no other user.
    Ok(rustix::fs::access(folder, Access::WRITE_OK)?)
}

/// Whether the folder belongs to this user, and no other user may write to it or replace it.
fn check(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is no folder"));
    }
    check_owner(&found)?;
    let parent = fs::metadata(folder.parent().unwrap_or(Path::new("/")))?.mode();
    match parent & OTHERS_WRITE != 0 && parent & STICKY == 0 {
        true => Err(io::Error::other("others may rename it")),
        false => Ok(()),
    }
}

fn check_owner(found: &fs::Metadata) -> io::Result<()> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "it is another user's (number {})",
            found.uid()
        )));
    }
    match found.mode() & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(io::Error::other("others may write to it")),
    }
}

/// Opens a file of the folder, not what a link points to, for this user alone.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe must not hold us up either.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.custom_flags(flags).mode(0o600).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    check_owner(&found)?;
    Ok(file)
}

/// Content of a file of the folder; `None` if there is none.
///
/// # Errors
/// If it is another user's, a link, or longer than `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {most} bytes"))),
        false => Ok(Some(bytes)),
    }
}

/// Writes a file of the folder: a reader finds the old one or the new one, whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = half_written(path);
    remove(&new)?;
    open(&new, OpenOptions::new().write(true).create_new(true))?.write_all(bytes)?;
    fs::rename(&new, path)
}

/// Removes a file of the folder, and what a process that was killed had begun to write in its place.
#[cfg(feature = "bpf")]
pub(crate) fn discard(path: &Path) -> io::Result<()> {
    remove(&half_written(path))?;
    remove(path)
}

/// The text of a file of the folder, and its path; made by `make` if there is none. Nobody but this user reads it.
///
/// # Errors
/// If there is no folder, or the file cannot be read or written.
pub fn secret(
    name: &str,
    make: impl FnOnce() -> io::Result<String>,
) -> io::Result<(PathBuf, String)> {
    let path = self::make().map_err(io::Error::other)?.join(name);
    let found = read(&path, 1024)?.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = match found.filter(|text| !text.trim().is_empty()) {
        Some(text) => text.trim().to_owned(),
        None => {
            let text = make()?;
            write(&path, format!("{text}\n").as_bytes())?;
            text
        }
    };
    Ok((path, text))
}

fn half_written(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::stranger::as_stranger;

    #[test]
    fn a_user_is_known_by_the_number_outside() {
        assert_eq!(outside_by("         0          0 4294967295", 7), Some(7));
        assert_eq!(outside_by("0 1001 1", 0), Some(1001));
        assert_eq!(outside_by("0 1001 1", 1), None);
        assert_eq!(outside_by("nothing", 1), None);
    }

    #[test]
    fn a_folder_that_others_may_change_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("makeway");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(place.path(), 0o755);
        make_one(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        mode(&folder, 0o770);
        assert!(make_one(&folder).is_err(), "the group writes to it");
        mode(&folder, 0o755);
        check(&folder).unwrap();
        mode(place.path(), 0o777);
        assert!(make_one(&folder).is_err(), "anybody may rename it");
        mode(place.path(), 0o1777);
        check(&folder).unwrap();
        let link = place.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(make_one(&link).is_err(), "a link is followed");
    }

    #[test]
    fn a_link_a_pipe_an_open_and_an_endless_file_are_not_read() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        write(&at("file"), b"text").unwrap();
        assert_eq!(read(&at("file"), 4).unwrap().unwrap(), b"text");
        assert!(read(&at("file"), 3).is_err());
        assert!(read(&at("none"), 3).unwrap().is_none());
        assert_eq!(fs::metadata(at("file")).unwrap().mode() & 0o777, 0o600);
        symlink(at("file"), at("link")).unwrap();
        assert!(read(&at("link"), 4).is_err());
        assert!(open(&at("link"), OpenOptions::new().write(true)).is_err());
        let pipe = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
        // SAFETY: the path lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert!(read(&at("pipe"), 4).is_err());
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read(&at("file"), 4).is_err(), "others may write to it");
    }

    #[test]
    fn a_file_and_a_folder_of_another_user_are_not_used() {
        let place = tempfile::tempdir().unwrap();
        let (path, folder) = (place.path().join("file"), place.path().join("folder"));
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let make = || {
            let options = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            options
                .and_then(|mut file| file.write_all(b"text"))
                .unwrap();
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        };
        if as_stranger(make).is_none() {
            return;
        }
        for refused in [
            read(&path, 4).unwrap_err(),
            open(&path, OpenOptions::new().write(true)).unwrap_err(),
            make_one(&folder).unwrap_err(),
        ] {
            assert!(refused.to_string().contains("another user's"), "{refused}");
        }
    }

    #[test]
    fn a_file_is_the_old_one_or_the_new_one_and_nothing_is_left_of_a_half() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("near@1.qdisc");
        write(&path, b"old").unwrap();
        fs::write(half_written(&path), b"ha").unwrap();
        assert_eq!(read(&path, 9).unwrap().unwrap(), b"old");
        write(&path, b"new").unwrap();
        assert_eq!(read(&path, 9).unwrap().unwrap(), b"new");
        fs::write(half_written(&path), b"ha").unwrap();
        discard(&path).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
