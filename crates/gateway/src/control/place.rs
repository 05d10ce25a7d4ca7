// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an instance leaves its lock and its socket, and who may have them.
//!
//! Files are named after the interface and the inode of the network namespace. The lock is the
//! kernel's (`flock`), so a process that is killed gives it up; a file without a holder is rubbish.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

/// Why an interface cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Another instance has it.
    #[error(
        "another makeway runs on {interface} already (process {pid}): change it by `makeway up {interface} --set rate=20mbit`, or end it by `makeway down {interface}`"
    )]
    Held {
        /// The interface.
        interface: String,
        /// Its process.
        pid: String,
    },
    /// An instance has it that leaves its files elsewhere.
    #[error(
        "another makeway runs on {interface} already, started by another user or in a container: end that one first"
    )]
    Elsewhere {
        /// The interface.
        interface: String,
    },
    /// There is no folder for the lock.
    #[error(
        "no folder for the lock and the socket can be made ({tried}): set XDG_RUNTIME_DIR to one of yours"
    )]
    Folder {
        /// Each folder and what the system said.
        tried: String,
    },
    /// The system refused something else.
    #[error("{path}: {source}")]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The network namespace of the calling thread could not be named.
    #[error("cannot tell which network namespace this is: {0}")]
    Namespace(io::Error),
}

/// An interface of a network namespace, and the folder where its files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub folder: PathBuf,
    pub interface: String,
    pub namespace: u64,
}

/// The inode of the calling thread's network namespace.
pub(super) fn namespace() -> Result<u64, PlaceError> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(PlaceError::Namespace)?;
    Ok(namespace.ino())
}

/// Where files may be: /run/makeway for root, the user's runtime folder, one of the user's in the
/// folder for temporary files.
pub(super) fn folders() -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let root = (user == 0).then(|| "/run/makeway".into());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let runtime = runtime.map(|folder| Path::new(&folder).join("makeway"));
    let temporary = std::env::temp_dir().join(format!("makeway-{}", outside(user)));
    [root, runtime, Some(temporary)]
        .into_iter()
        .flatten()
        .collect()
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

/// Makes the first of [`folders`] that can be made and is ours.
pub(super) fn make_folder() -> Result<PathBuf, PlaceError> {
    let mut tried = Vec::new();
    for folder in folders() {
        match make(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => tried.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(PlaceError::Folder {
        tried: tried.join("; "),
    })
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)?;
    // In a folder for everybody's temporary files another user may have made it, or a link.
    let made = fs::symlink_metadata(folder)?;
    if !made.is_dir() || made.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is another user's"));
    }
    // It may be ours and still not be written to: root of a user namespace sees no other user.
    let probe = folder.join(format!(".{}", std::process::id()));
    File::create(&probe)?;
    fs::remove_file(probe)
}

impl Place {
    /// Places that somebody has or had, in every folder.
    pub fn all() -> Vec<Self> {
        Self::with(".lock")
    }

    /// Places that the kernel shapes, with or without a process.
    pub fn in_the_kernel() -> Vec<Self> {
        Self::with(".qdisc")
    }

    fn with(suffix: &str) -> Vec<Self> {
        let mut all = Vec::new();
        for folder in folders() {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten();
            let names = files.filter_map(|file| file.file_name().into_string().ok());
            all.extend(names.filter_map(|name| {
                let (interface, namespace) = name.strip_suffix(suffix)?.rsplit_once('@')?;
                Some(Self {
                    folder: folder.clone(),
                    interface: interface.into(),
                    namespace: namespace.parse().ok()?,
                })
            }));
        }
        all.sort_by(|a, b| (a.namespace, &a.interface).cmp(&(b.namespace, &b.interface)));
        all
    }

    pub fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Says what belongs to an interface that the kernel shapes.
    pub fn record(&self) -> PathBuf {
        self.file("qdisc")
    }

    fn lock_file(&self) -> PathBuf {
        self.file("lock")
    }

    fn file(&self, suffix: &str) -> PathBuf {
        let (interface, namespace) = (&self.interface, self.namespace);
        self.folder
            .join(format!("{interface}@{namespace}.{suffix}"))
    }

    /// Takes the interface; what another left in the files is still there.
    pub fn take(self) -> Result<Taken, PlaceError> {
        let path = self.lock_file();
        let system = |source| PlaceError::System {
            path: path.clone(),
            source,
        };
        let mut tries = 0;
        let lock = loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o644)
                .open(&path)
                .map_err(system)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Whoever had it may have removed the file between the two calls.
                Ok(()) if same_file(&file, &path) => break file,
                Ok(()) => {}
                // One that only looks whether it is held has it for an instant.
                Err(rustix::io::Errno::WOULDBLOCK) if tries < 5 => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(40));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(PlaceError::Held {
                        pid: self.holder(),
                        interface: self.interface,
                    });
                }
                Err(error) => return Err(system(error.into())),
            }
        };
        let name = self.reserve_name().inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        lock.set_len(0).map_err(system)?;
        writeln!(&lock, "{}", std::process::id()).map_err(system)?;
        Ok(Taken {
            place: self,
            _lock: lock,
            _name: name,
        })
    }

    /// The process that had it last, in digits.
    pub fn holder(&self) -> String {
        let pid = fs::read_to_string(self.lock_file()).unwrap_or_default();
        pid.trim().into()
    }

    /// Whether a living process has it.
    pub fn is_held(&self) -> bool {
        let Ok(file) = File::open(self.lock_file()) else {
            return false;
        };
        let looked = flock(&file, FlockOperation::NonBlockingLockShared);
        looked == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Removes the files if nobody has them: their namespace may be gone long since.
    pub fn discard_if_free(&self) {
        let path = self.lock_file();
        let Ok(file) = File::open(&path) else {
            return;
        };
        let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if free && same_file(&file, &path) {
            let _ = fs::remove_file(self.socket());
            let _ = fs::remove_file(path);
        }
    }

    /// An abstract socket name: it belongs to the network namespace, so it is seen by other users
    /// and by containers that share the namespace but not the folder.
    fn reserve_name(&self) -> Result<OwnedFd, PlaceError> {
        let name = format!("makeway/{}", self.interface);
        let system = |error: rustix::io::Errno| PlaceError::System {
            path: self.lock_file(),
            source: error.into(),
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
        let socket = socket.map_err(system)?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system)?;
        match bind(&socket, &address) {
            Ok(()) => Ok(socket),
            Err(rustix::io::Errno::ADDRINUSE) => Err(PlaceError::Elsewhere {
                interface: self.interface.clone(),
            }),
            Err(error) => Err(system(error)),
        }
    }
}

/// An interface that this process has, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    pub place: Place,
    _lock: File,
    _name: OwnedFd,
}

impl Drop for Taken {
    fn drop(&mut self) {
        // While the lock is still held, so that nobody else's files are removed.
        let _ = fs::remove_file(self.place.socket());
        let _ = fs::remove_file(self.place.lock_file());
    }
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path, interface: &str) -> Place {
        Place {
            folder: folder.into(),
            interface: format!("{interface}-{}", std::process::id()),
            namespace: 4_026_531_840,
        }
    }

    #[test]
    fn a_user_is_known_by_the_number_outside() {
        assert_eq!(outside_by("         0          0 4294967295", 7), Some(7));
        assert_eq!(outside_by("0 1001 1", 0), Some(1001));
        assert_eq!(outside_by("0 1001 1", 1), None);
        assert_eq!(outside_by("nothing", 1), None);
    }

    #[test]
    fn an_interface_is_had_once_and_free_again_after() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "once");
        let taken = place.clone().take().unwrap();
        assert!(place.is_held());
        let error = place.clone().take().unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(taken);
        assert!(!place.is_held());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        place.take().unwrap();
    }

    #[test]
    fn the_same_interface_is_refused_from_another_folder_too() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _taken = place(one.path(), "both").take().unwrap();
        let error = place(two.path(), "both").take().unwrap_err();
        assert!(matches!(error, PlaceError::Elsewhere { .. }), "{error}");
        assert!(!place(two.path(), "both").is_held());
    }

    #[test]
    fn files_without_a_holder_do_not_stand_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "stale");
        fs::write(place.lock_file(), "4194304\n").unwrap();
        assert!(!place.is_held());
        let taken = place.clone().take().unwrap();
        place.discard_if_free();
        assert!(place.lock_file().exists());
        drop(taken);
        fs::write(place.lock_file(), "4194304\n").unwrap();
        place.discard_if_free();
        assert!(!place.lock_file().exists());
    }
}
