// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lock and socket of an instance: their folder, and its owner and mode.
//!
//! Files are named after the interface and the inode of the network namespace. The lock is the
//! kernel's (`flock`), which releases it when the process is killed; a file without a holder is rubbish.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    sockopt,
};

use crate::folder;

/// Reason why an interface cannot be used.
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
    /// No folder for the lock.
    #[error(
        "no usable folder for lock and socket ({tried}): it must belong to this user and be writable by no other"
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
        /// The system's error.
        source: io::Error,
    },
    /// The network namespace of the calling thread could not be named.
    #[error("cannot tell which network namespace this is: {0}")]
    Namespace(io::Error),
}

/// An interface of a network namespace, and the folder where its files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub folder: PathBuf,
    pub interface: String,
    pub namespace: u64,
}

/// The inode of the calling thread's network namespace.
pub(super) fn namespace() -> Result<u64, PlaceError> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(PlaceError::Namespace)?;
    Ok(namespace.ino())
}

/// Makes the folder, if it is not there.
pub(super) fn make_folder() -> Result<PathBuf, PlaceError> {
    folder::make().map_err(|tried| PlaceError::Folder { tried })
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
        for folder in folder::existing() {
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
    #[cfg(feature = "bpf")]
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
    pub(super) fn take(self) -> Result<Taken, PlaceError> {
        let path = self.lock_file();
        let system = |source| PlaceError::System {
            path: path.clone(),
            source,
        };
        let (mut tries, mut replaced) = (0, 0);
        let lock = loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = folder::open(&path, &mut options).map_err(system)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Its holder may have removed the file between the two calls.
                Ok(()) if same_file(&file, &path) => break file,
                Ok(()) if replaced < 100 => replaced += 1,
                Ok(()) => {
                    return Err(system(io::Error::other(
                        "another file comes in its place each time",
                    )));
                }
                // One that only looks whether it is held has it for an instant.
                Err(Errno::WOULDBLOCK) if tries < 5 => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(40));
                }
                Err(Errno::WOULDBLOCK) => {
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
            name,
        })
    }

    /// The process that had it last, in digits.
    pub fn holder(&self) -> String {
        let pid = folder::read(&self.lock_file(), 32).ok().flatten();
        String::from_utf8_lossy(&pid.unwrap_or_default())
            .trim()
            .into()
    }

    /// Whether a living process has it.
    pub fn is_held(&self) -> bool {
        let Ok(file) = self.open_lock() else {
            return false;
        };
        let looked = flock(&file, FlockOperation::NonBlockingLockShared);
        looked == Err(Errno::WOULDBLOCK)
    }

    fn open_lock(&self) -> io::Result<File> {
        folder::open(&self.lock_file(), OpenOptions::new().read(true))
    }

    /// Removes the files if nobody has them: their namespace may be gone long since.
    pub fn discard_if_free(&self) {
        let path = self.lock_file();
        let Ok(file) = self.open_lock() else {
            return;
        };
        let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if free && same_file(&file, &path) {
            let _ = fs::remove_file(self.socket());
            let _ = fs::remove_file(self.file("new"));
            let _ = fs::remove_file(path);
        }
    }

    /// An abstract socket name: it belongs to the network namespace, so it is seen by other users and by containers that
    /// share the namespace but not the folder. Anybody may take such a name; only root's or this user's counts.
    fn reserve_name(&self) -> Result<Option<OwnedFd>, PlaceError> {
        let name = format!("makeway/{}", self.interface);
        let system = |error: Errno| PlaceError::System {
            path: self.lock_file(),
            source: error.into(),
        };
        let socket = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(system)
        };
        let own = socket()?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system)?;
        match bind(&own, &address) {
            Ok(()) => {
                listen(&own, 8).map_err(system)?;
                return Ok(Some(own));
            }
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(system(error)),
        }
        // One of ours listens as soon as it has the name.
        for _ in 0..5 {
            let other = socket()?;
            match connect(&other, &address) {
                Ok(()) => {
                    let owner = sockopt::socket_peercred(&other).map_err(system)?.uid;
                    if owner.is_root() || owner == rustix::process::geteuid() {
                        return Err(PlaceError::Elsewhere {
                            interface: self.interface.clone(),
                        });
                    }
                    return Ok(None);
                }
                Err(Errno::AGAIN | Errno::CONNREFUSED) => thread::sleep(Duration::from_millis(10)),
                Err(_) => break,
            }
        }
        Ok(None)
    }
}

/// An interface that this process has, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    pub place: Place,
    _lock: File,
    name: Option<OwnedFd>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Before the lock's file goes: the next one has a file of its own from then on, and would take the name for another user's.
        drop(self.name.take());
        // While the lock is still held, so that nobody else's files are removed.
        let _ = fs::remove_file(self.place.socket());
        // Of a record that somebody was killed over.
        let _ = fs::remove_file(self.place.file("new"));
        let _ = fs::remove_file(self.place.lock_file());
    }
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stranger::as_stranger;

    fn place(folder: &Path, interface: &str) -> Place {
        Place {
            folder: folder.into(),
            interface: format!("{interface}-{}", std::process::id()),
            namespace: 4_026_531_840,
        }
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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        in_time(|| (!place.is_held()).then(|| drop(had(&place))));
    }

    /// Tries again: a process that another test starts has copies of the lock and of the socket until its exec.
    fn in_time<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
        for _ in 0..200 {
            thread::sleep(Duration::from_millis(10));
            if let Some(done) = attempt() {
                return done;
            }
        }
        panic!("it is not free");
    }

    /// Takes it.
    fn had(place: &Place) -> Taken {
        in_time(|| place.clone().take().ok())
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
    fn a_stranger_who_takes_the_name_keeps_nobody_from_the_interface() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "name");
        let address = format!("makeway/{}", place.interface);
        let address = SocketAddrUnix::new_abstract_name(address.as_bytes()).unwrap();
        let socket = |kind| {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
            in_time(|| bind(&socket, &address).ok());
            socket
        };
        // It is bound and does not listen, or is no socket of ours: it has no process.
        for kind in [SocketType::SEQPACKET, SocketType::DGRAM] {
            let stranger = socket(kind);
            drop(had(&place));
            drop(stranger);
        }
        let listens = || {
            let other = socket(SocketType::SEQPACKET);
            listen(&other, 8).unwrap();
            other
        };
        if let Some(stranger) = as_stranger(listens) {
            drop(had(&place));
            drop(stranger);
        }
        // This one is ours.
        let _other = listens();
        let error = place.take().unwrap_err();
        assert!(matches!(error, PlaceError::Elsewhere { .. }), "{error}");
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "link");
        let precious = folder.path().join("precious");
        // As strict as any of ours: only the link is wrong.
        folder::write(&precious, b"keep").unwrap();
        std::os::unix::fs::symlink(&precious, place.lock_file()).unwrap();
        let refused = place.clone().take().unwrap_err();
        let PlaceError::System { source, .. } = &refused else {
            panic!("{refused}");
        };
        assert_eq!(source.raw_os_error(), Some(libc::ELOOP), "{refused}");
        assert!(!place.is_held());
        assert_eq!(place.holder(), "");
        place.discard_if_free();
        assert_eq!(fs::read_to_string(precious).unwrap(), "keep");
    }

    #[test]
    fn files_without_a_holder_do_not_stand_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "stale");
        folder::write(&place.lock_file(), b"4194304\n").unwrap();
        assert!(!place.is_held());
        let taken = place.clone().take().unwrap();
        place.discard_if_free();
        assert!(place.lock_file().exists());
        drop(taken);
        folder::write(&place.lock_file(), b"4194304\n").unwrap();
        place.discard_if_free();
        assert!(!place.lock_file().exists());
    }
}
