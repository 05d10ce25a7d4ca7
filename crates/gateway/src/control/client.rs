// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other side: finds instances, asks them, cleans up after one that was killed.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};

use super::place::{self, Place, PlaceError};
use super::privilege::{self, NotPermitted};
use super::protocol::{Answer, Request, Settings, Status};
use super::{engine, instance};
use crate::bpf::{BpfError, Shaped};
use crate::rules::{self, Direction, RulesError};

/// How long an instance may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Stopping takes the rules away first, by tools that may hang.
const PATIENCE_TO_STOP: Duration = Duration::from_secs(30);
/// Another qdisc has to be loaded, which takes a slow processor some seconds.
const PATIENCE_TO_CHANGE: Duration = Duration::from_secs(60);
/// How often a request is made of an instance that ends the connection without an answer, as it does when this process stood
/// still for a second between connecting and asking.
const TRIES: u32 = 3;
/// Bytes of the longest answer: 1024 flows in each direction take less than one.
const LONGEST: usize = 8 << 20;
const OTHER_VERSION: &str =
    "the running makeway is of another version: end it by `makeway down`, then start it again";

/// Why an instance could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// None runs.
    #[error("no makeway runs on {interface}: start it by `makeway up {interface} --rate 20mbit`")]
    NotRunning {
        /// The interface.
        interface: String,
    },
    /// It is another user's.
    #[error("makeway runs on {interface} for another user: ask with sudo")]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// It runs and says nothing.
    #[error(
        "makeway on {interface} does not answer ({source}): end it by `kill {pid}`, then `makeway down {interface}`"
    )]
    Silent {
        /// The interface.
        interface: String,
        /// Its process.
        pid: String,
        /// The system's error.
        source: io::Error,
    },
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// The kernel shapes it, and does not tell.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The place where it would be could not be looked at.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// Why an interface could not be cleaned.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// The running instance did not stop.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The rules need a privilege.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    /// The interface is somebody else's.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The rules could not be removed.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The qdiscs in the kernel could not be read.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Something could not be undone.
    #[error("{interface} is not as it was: {what}")]
    Left {
        /// The interface.
        interface: String,
        /// The object, and why.
        what: String,
    },
}

/// State that [`down`] found.
#[derive(Debug)]
pub enum Down {
    /// A running instance, which has ended.
    Stopped(Box<Status>),
    /// Remains of a killed instance; the directions of which rules were there.
    Cleaned(Vec<Direction>),
    /// Qdiscs in the kernel without a process; the last counters.
    Unloaded(Box<Status>),
    /// Nothing.
    Nothing,
}

/// An instance that answered.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its answer.
    pub status: Status,
    /// Whether it is in the network namespace of the calling thread.
    pub here: bool,
}

/// All that shapes on this machine.
#[derive(Debug, Default)]
pub struct All {
    /// Instances that answered, and qdiscs without a process; those of this network namespace first.
    pub found: Vec<Found>,
    /// Interfaces of others, which run, and why they did not.
    pub silent: Vec<(String, AskError)>,
}

/// Every instance of which the user may see the files, and what the kernel shapes without one. They are asked at the same time, so
/// that one that does not answer delays the others by nothing, and hides none.
///
/// # Errors
/// If the folder of instances cannot be read.
pub fn all() -> Result<All, AskError> {
    let namespace = place::namespace()?;
    let mut all = All::default();
    let held: Vec<Place> = Place::all().into_iter().filter(Place::is_held).collect();
    let answers: Vec<_> = thread::scope(|scope| {
        let asked = held
            .iter()
            .map(|place| scope.spawn(|| ask_at(place, &Request::Status)));
        let asked: Vec<_> = asked.collect();
        let joined = asked.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|answer| answer.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    for (place, answer) in held.iter().zip(answers) {
        match answer {
            Ok(Answer::Status(status)) => all.found.push(Found {
                status,
                here: place.namespace == namespace,
            }),
            Ok(other) => all
                .silent
                .push((place.interface.clone(), unexpected(other))),
            // It ended since we looked.
            Err(AskError::NotRunning { .. }) => {}
            Err(error) => all.silent.push((place.interface.clone(), error)),
        }
    }
    for place in Place::in_the_kernel() {
        if place.is_held() {
            continue;
        }
        let here = place.namespace == namespace;
        match in_the_kernel(&place) {
            Ok(status) => all
                .found
                .extend(status.map(|status| Found { status, here })),
            Err(error) => all.silent.push((place.interface, error)),
        }
    }
    all.found.sort_by_key(|found| !found.here);
    Ok(all)
}

/// Qdiscs in the kernel where no process runs.
fn in_the_kernel(place: &Place) -> Result<Option<Status>, AskError> {
    let Some(shaped) = Shaped::open(place)? else {
        return Ok(None);
    };
    let directions = shaped.directions()?;
    let backend = shaped.backend();
    Ok(Some(instance::without_process(place, backend, directions)))
}

/// The place of an interface of this network namespace that the kernel shapes.
fn place_in_the_kernel(interface: &str) -> Result<Option<Place>, PlaceError> {
    let namespace = place::namespace()?;
    let mut places = Place::in_the_kernel().into_iter();
    Ok(places.find(|place| place.namespace == namespace && place.interface == interface))
}

/// Whether the kernel shapes `interface` of this network namespace, and so goes on if its instance is killed.
pub fn is_in_the_kernel(interface: &str) -> bool {
    place_in_the_kernel(interface).is_ok_and(|place| place.is_some())
}

/// Counters of the instance of `interface` in this network namespace.
///
/// # Errors
/// If none runs, or it cannot be asked.
pub fn status(interface: &str) -> Result<Status, AskError> {
    match ask(interface, &Request::Status) {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(other) => Err(unexpected(other)),
        Err(error @ AskError::NotRunning { .. }) => {
            let place = place_in_the_kernel(interface)?;
            let status = place.map_or(Ok(None), |place| in_the_kernel(&place));
            status?.ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Changes the instance of `interface` in this network namespace.
///
/// # Errors
/// If none runs, or it refuses; then nothing has changed.
pub fn set(interface: &str, settings: Settings) -> Result<Status, AskError> {
    match ask(interface, &Request::Set(settings.clone())) {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(other) => Err(unexpected(other)),
        Err(error @ AskError::NotRunning { .. }) => {
            let place = place_in_the_kernel(interface)?.ok_or(error)?;
            set_without_process(place, &settings)?;
            status(interface)
        }
        Err(error) => Err(error),
    }
}

/// Changes what the kernel shapes where no process runs. Meanwhile no instance starts, and nobody else changes it.
fn set_without_process(place: Place, settings: &Settings) -> Result<(), AskError> {
    let taken = place.take()?;
    let interface = &taken.place.interface;
    let shaped = Shaped::open(&taken.place)?;
    let mut shaped = shaped.ok_or_else(|| AskError::NotRunning {
        interface: interface.clone(),
    })?;
    engine::set_in_the_kernel(&mut shaped, interface, settings, &mut || ())
        .map_err(AskError::Refused)
}

/// Ends the instance of `interface` in this network namespace and waits until it has ended, also one that is starting or ending
/// already; where none runs, takes away what one that was killed left.
///
/// # Errors
/// If it does not answer, or if the rules cannot be taken away.
pub fn down(interface: &str) -> Result<Down, DownError> {
    let end = Instant::now() + PATIENCE_TO_STOP;
    loop {
        match ask(interface, &Request::Stop) {
            Ok(Answer::Stopped(status)) => return Ok(Down::Stopped(Box::new(status))),
            Ok(other) => return Err(unexpected(other).into()),
            Err(AskError::NotRunning { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match clean(interface) {
            // One has it that does not listen yet, or no longer.
            Err(DownError::Place(PlaceError::Held { .. })) if Instant::now() < end => {}
            done => return done,
        }
    }
}

/// Takes away what a killed instance left.
fn clean(interface: &str) -> Result<Down, DownError> {
    privilege::check(interface)?;
    let namespace = place::namespace()?;
    let left = Place::in_the_kernel().into_iter().chain(Place::all());
    let mut left =
        left.filter(|place| place.namespace == namespace && place.interface == interface);
    let place = match left.next() {
        Some(place) => place,
        None => Place {
            folder: place::make_folder()?,
            interface: interface.into(),
            namespace,
        },
    };
    // Held, so that no new instance makes rules while the old ones are removed.
    let taken = place.take()?;
    Place::all().iter().for_each(Place::discard_if_free);
    if let Some(shaped) = Shaped::open(&taken.place)? {
        let backend = shaped.backend();
        let (directions, failed) = shaped.end();
        if !failed.is_empty() {
            return Err(DownError::Left {
                interface: interface.into(),
                what: failed.join("; "),
            });
        }
        let status = instance::without_process(&taken.place, backend, directions);
        return Ok(Down::Unloaded(Box::new(status)));
    }
    // Of one that was killed before it wrote its record.
    Shaped::sweep(&taken.place)?;
    let mut removed = Vec::new();
    for direction in Direction::BOTH {
        if rules::remove(interface, direction)? {
            removed.push(direction);
        }
    }
    Ok(match removed.is_empty() {
        true => Down::Nothing,
        false => Down::Cleaned(removed),
    })
}

/// Asks the instance of `interface` in this network namespace.
fn ask(interface: &str, request: &Request) -> Result<Answer, AskError> {
    let namespace = place::namespace()?;
    let running = Place::all().into_iter().find(|place| {
        place.namespace == namespace && place.interface == interface && place.is_held()
    });
    match running {
        Some(place) => ask_at(&place, request),
        None => Err(AskError::NotRunning {
            interface: interface.into(),
        }),
    }
}

fn ask_at(place: &Place, request: &Request) -> Result<Answer, AskError> {
    if let Request::Set(settings) = request
        && settings.version() > 1
        && let Answer::Status(running) = ask_at(place, &Request::Status)?
        && running.version < settings.version()
    {
        return Err(AskError::Refused(OTHER_VERSION.into()));
    }
    let interface = place.interface.clone();
    let silent = |source| AskError::Silent {
        interface: place.interface.clone(),
        pid: place.holder(),
        source,
    };
    let patience = match request {
        Request::Stop => PATIENCE_TO_STOP,
        Request::Set(settings) if !settings.is_of_rates() => PATIENCE_TO_CHANGE,
        _ => PATIENCE,
    };
    let end = Instant::now() + patience;
    let mut tries = 1;
    let answer = loop {
        let stream = match connected(place, end) {
            Ok(stream) => stream,
            Err(error) => match error.kind() {
                ErrorKind::PermissionDenied => return Err(AskError::NotPermitted { interface }),
                // It is about to start or to end.
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                    return Err(AskError::NotRunning { interface });
                }
                _ => return Err(silent(error)),
            },
        };
        match exchange(stream, request, end) {
            Ok(answer) => break answer,
            // Each request has the same effect when it is made twice.
            Err(error) if was_dropped(&error) && tries < TRIES => tries += 1,
            Err(error) => return Err(silent(error)),
        }
    };
    serde_json::from_slice(&answer).map_err(|_| AskError::Refused(OTHER_VERSION.into()))
}

/// Whether the instance ended the connection.
fn was_dropped(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// Connects to this user's own.
fn connected(place: &Place, end: Instant) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(place.socket())?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            // Many ask at once.
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if sockopt::socket_peercred(&socket)?.uid != rustix::process::geteuid() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn exchange(mut stream: UnixStream, request: &Request, end: Instant) -> io::Result<Vec<u8>> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut line = Vec::new();
    // Up to the end of the connection: that of one that stops is the end of its process.
    loop {
        let is_whole = line.last() == Some(&b'\n');
        if is_whole && !matches!(request, Request::Stop) {
            break;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() && !is_whole {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut buffer = [0; 1 << 16];
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => line.extend(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) if is_whole => break,
            Err(error) => return Err(error),
        }
        if line.len() > LONGEST {
            return Err(io::Error::other(format!(
                "its answer is longer than {LONGEST} bytes"
            )));
        }
    }
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(line)
}

fn unexpected(answer: Answer) -> AskError {
    AskError::Refused(match answer {
        Answer::Error(why) => why,
        _ => OTHER_VERSION.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use rustix::net::Shutdown;

    use super::*;
    use crate::stranger::as_stranger;

    fn place(folder: &Path) -> Place {
        Place {
            folder: folder.into(),
            interface: "wan0".into(),
            namespace: 1,
        }
    }

    /// Asks an instance that ends `dropped` connections without an answer.
    fn asked_of_one_that_drops(dropped: u32) -> Result<Answer, AskError> {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let listener = UnixListener::bind(place.socket()).unwrap();
        asked_of(&place, &listener, dropped)
    }

    fn asked_of(place: &Place, listener: &UnixListener, dropped: u32) -> Result<Answer, AskError> {
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    let Ok((mut stream, _)) = listener.accept() else {
                        break;
                    };
                    if n < dropped {
                        continue;
                    }
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line).unwrap();
                    if line.is_empty() {
                        continue;
                    }
                    let answer = Answer::Status(Status::default());
                    serde_json::to_writer(&stream, &answer).unwrap();
                    stream.write_all(b"\n").unwrap();
                }
            });
            let answer = ask_at(place, &Request::Status);
            // Nobody is waited for any more.
            rustix::net::shutdown(listener, Shutdown::Both).unwrap();
            answer
        })
    }

    /// The answer of an instance of this version, which refuses nothing, and all that it was asked.
    fn asked_of_version(
        version: u32,
        request: &Request,
    ) -> (Result<Answer, AskError>, Vec<Request>) {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let listener = UnixListener::bind(place.socket()).unwrap();
        thread::scope(|scope| {
            let instance = scope.spawn(|| {
                let mut asked = Vec::new();
                while let Ok((mut stream, _)) = listener.accept() {
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line).unwrap();
                    asked.push(serde_json::from_str(&line).unwrap());
                    let answer = Answer::Status(Status {
                        version,
                        ..Status::default()
                    });
                    serde_json::to_writer(&stream, &answer).unwrap();
                    stream.write_all(b"\n").unwrap();
                }
                asked
            });
            let answer = ask_at(&place, request);
            rustix::net::shutdown(&listener, Shutdown::Both).unwrap();
            (answer, instance.join().unwrap())
        })
    }

    #[test]
    fn an_older_instance_is_not_asked_for_settings_that_it_would_leave_out() {
        let rate = Settings {
            rate_bps: Some(5_000_000),
            ..Settings::default()
        };
        let framed = Settings {
            overhead: Some(18),
            ..rate.clone()
        };
        for (version, settings, is_set) in [
            (1, rate, true),
            (1, framed.clone(), false),
            (2, framed, true),
        ] {
            let request = Request::Set(settings);
            let (answer, asked) = asked_of_version(version, &request);
            assert_eq!(asked.contains(&request), is_set, "{asked:?}");
            let error = answer.err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert_eq!(error.contains("of another version"), !is_set, "{error}");
        }
    }

    #[test]
    fn another_users_instance_is_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let place = place(folder.path());
        let bound = as_stranger(|| UnixListener::bind(place.socket()).unwrap());
        let Some(listener) = bound else { return };
        let answer = asked_of(&place, &listener, 0);
        assert!(
            matches!(answer, Err(AskError::NotPermitted { .. })),
            "{answer:?}"
        );
    }

    #[test]
    fn a_request_without_an_answer_is_made_again_and_not_for_ever() {
        for dropped in 0..TRIES {
            let answer = asked_of_one_that_drops(dropped);
            assert!(matches!(answer, Ok(Answer::Status(_))), "{answer:?}");
        }
        let answer = asked_of_one_that_drops(TRIES);
        assert!(matches!(answer, Err(AskError::Silent { .. })), "{answer:?}");
    }
}
