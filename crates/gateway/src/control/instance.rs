// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running instance: what holds the packets, a socket, and the loop that watches over them.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::engine::{Backend, Engine};
use super::interface::{self, Interface, InterfaceError};
use super::offloads;
use super::place::{self, Place, PlaceError, Taken};
use super::privilege::{self, NotPermitted};
use super::protocol::{Answer, DirectionStatus, Request, Status, VERSION};
use crate::bpf::BpfError;
use crate::datapath::{AttachError, DatapathConfig};
use crate::rules::{Direction, RulesError};

/// How often the interface and the datapaths are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long one client may keep the others waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Clone, Debug)]
pub struct UpConfig {
    /// The interface.
    pub interface: String,
    /// What is to hold the packets.
    pub backend: Backend,
    /// Each direction that is shaped; the numbers of the queues are chosen here.
    pub directions: Vec<(Direction, DatapathConfig)>,
}

/// Why an instance could not start. Then nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// No such interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A privilege is missing.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    /// Another has the interface.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No datapath.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// No rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Not in the kernel.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// No socket.
    #[error("cannot listen at {path}: {source}")]
    Socket {
        /// Its path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `makeway down` asked.
    Asked,
    /// The caller's file descriptor became readable.
    Quit,
    /// The interface is gone.
    InterfaceGone,
    /// It could not go on; why.
    Failed(String),
}

/// What is left of an instance. Whoever asked it to stop waits until this is dropped.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// The last counters.
    pub status: Status,
    _waiting: Option<UnixStream>,
}

/// A running gateway on one interface. Dropped, it takes its rules away and lets go what it holds.
#[derive(Debug)]
pub struct Instance {
    listener: UnixListener,
    engine: Engine,
    index: u32,
    sight: OwnedFd,
    // Last: the interface is given up when everything else is gone.
    taken: Taken,
}

impl Instance {
    /// Takes the interface, cleans what a killed instance left there, and starts.
    ///
    /// # Errors
    /// For an interface that there is not, one that another instance has, without CAP_NET_ADMIN,
    /// without packet queues in the kernel or a tool for the rules.
    pub fn start(config: UpConfig) -> Result<Self, UpError> {
        let interface = Interface::find(&config.interface)?;
        privilege::check(&config.interface)?;
        privilege::pass_on();
        let place = Place {
            folder: place::make_folder()?,
            interface: config.interface.clone(),
            namespace: place::namespace()?,
        };
        let taken = place.take()?;
        Place::all().iter().for_each(Place::discard_if_free);
        let socket = taken.place.socket();
        let failed = |source| UpError::Socket {
            path: socket.display().to_string(),
            source,
        };
        let engine = Engine::start(config, &interface, &taken.place)?;
        let listener = listen(&socket).map_err(failed)?;
        Ok(Self {
            listener,
            engine,
            index: interface.index,
            sight: interface::socket().map_err(failed)?,
            taken,
        })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// If a datapath has ended by itself: why.
    pub fn status(&self) -> Result<Status, String> {
        let status = header(&self.taken.place, &self.engine);
        let directions = self.engine.directions()?;
        Ok(match self.engine {
            Engine::Kernel(_) => Self::in_the_kernel(&self.taken.place, status.pid, directions),
            Engine::Queues { .. } => Status {
                directions,
                ..status
            },
        })
    }

    /// What there is to say of what the kernel shapes, for the process `pid` or, if that is 0, for none.
    pub(super) fn in_the_kernel(
        place: &Place,
        pid: u32,
        directions: Vec<DirectionStatus>,
    ) -> Status {
        Status {
            version: VERSION,
            interface: place.interface.clone(),
            namespace: place.namespace,
            pid,
            backend: Backend::Bpf.to_string(),
            warnings: match place::namespace().is_ok_and(|here| here == place.namespace) {
                true => offloads::warnings(&place.interface, &directions),
                // Its interfaces are not seen from here.
                false => Vec::new(),
            },
            directions,
            ..Status::default()
        }
    }

    /// Gives the interface up and leaves it as it is, for the kernel to go on; whether it can.
    pub fn detach(self) -> bool {
        matches!(self.engine, Engine::Kernel(_))
    }

    /// Runs until somebody asks it to stop, `quit` becomes readable, or it cannot go on.
    pub fn run(self, quit: impl AsFd) -> Outcome {
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.as_nanos() as i64,
        };
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(quit.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&tick)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return self.end(Ending::Failed(error.to_string()), None),
            }
            let [quitting, asked] = fds.map(|fd| !fd.revents().is_empty());
            if quitting {
                return self.end(Ending::Quit, None);
            }
            if interface::index_now(&self.sight, &self.taken.place.interface) != Some(self.index) {
                return self.end(Ending::InterfaceGone, None);
            }
            if !self.engine.is_running() {
                return self.end(Ending::Failed("its datapath has ended".into()), None);
            }
            if asked && let Some(stream) = self.serve() {
                return self.end(Ending::Asked, Some(stream));
            }
        }
    }

    /// Answers one client; its connection, if it asks to stop.
    fn serve(&self) -> Option<UnixStream> {
        let (stream, _) = self.listener.accept().ok()?;
        // A client that is slow or says nothing is left; it sees its connection end.
        let request = read_request(&stream).ok()?;
        let answer = match request {
            Some(Request::Stop) => return Some(stream),
            Some(Request::Status) => self.status().map(Answer::Status),
            Some(Request::Set(settings)) => self
                .engine
                .set(&self.taken.place.interface, &settings)
                .and_then(|()| self.status())
                .map(Answer::Status),
            None => Err("this makeway does not know what was asked: it may be older, so end it by `makeway down` and start it again".into()),
        };
        let _ = write_answer(&stream, &answer.unwrap_or_else(Answer::Error));
        None
    }

    fn end(self, ending: Ending, waiting: Option<UnixStream>) -> Outcome {
        let Self {
            listener,
            engine,
            taken,
            ..
        } = self;
        drop(listener);
        let mut ending = ending;
        let mut status = header(&taken.place, &engine);
        let (directions, failed) = engine.end();
        status.directions = directions;
        if !failed.is_empty() {
            ending = Ending::Failed(failed.join("; "));
        }
        drop(taken);
        if let Some(stream) = &waiting {
            let _ = write_answer(stream, &Answer::Stopped(status.clone()));
        }
        Outcome {
            ending,
            status,
            _waiting: waiting,
        }
    }
}

fn listen(path: &std::path::Path) -> io::Result<UnixListener> {
    // Of an instance that was killed: the lock is ours.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// `None` for a line that is no request of this version.
fn read_request(stream: &UnixStream) -> io::Result<Option<Request>> {
    const LONGEST: u64 = 4096;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    if BufReader::new(stream).take(LONGEST).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line).ok())
}

fn write_answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn header(place: &Place, engine: &Engine) -> Status {
    Status {
        version: VERSION,
        interface: place.interface.clone(),
        namespace: place.namespace,
        pid: std::process::id(),
        backend: engine.backend().to_string(),
        why: engine.why(),
        warnings: Vec::new(),
        rules: engine.rules(),
        directions: Vec::new(),
    }
}
