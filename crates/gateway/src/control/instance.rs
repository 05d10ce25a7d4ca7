// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running instance: the holder of the packets, a socket, and the loop that watches over them.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::engine::Engine;
use super::interface::{self, Interface, InterfaceError};
use super::offloads::Warnings;
use super::place::{self, Place, PlaceError, Taken};
use super::privilege::{self, NotPermitted};
use super::protocol::{Answer, Backend, DirectionStatus, Request, Status, VERSION};
use super::server::{Server, Waiting};
use super::watchdog::{LOOK, Watchdog};
use crate::autorate::status::RateEvent;
use crate::autorate::{self, Steering};
use crate::bpf::BpfError;
use crate::datapath::{AttachError, DatapathConfig, DatapathError};
use crate::rules::{Direction, RulesError};

/// Configuration of an instance.
#[derive(Clone, Debug)]
pub struct UpConfig {
    /// The interface.
    pub interface: String,
    /// Holder of the packets.
    pub backend: Backend,
    /// Each direction that is shaped; the numbers of the queues are chosen here.
    pub directions: Vec<(Direction, DatapathConfig)>,
    /// Rates follow the link, from those of the directions on.
    pub autorate: Option<autorate::Config>,
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
    /// The datapath ended.
    #[error(transparent)]
    Datapath(#[from] DatapathError),
    /// No rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Not in the kernel.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Remains of an earlier instance could not be undone.
    #[error("{interface} is still shaped by an earlier makeway: {what}")]
    Left {
        /// The interface.
        interface: String,
        /// The remains, and why.
        what: String,
    },
    /// No process to watch this one.
    #[error("the watchdog could not start: {0}")]
    Watchdog(io::Error),
    /// No sources of delay.
    #[error("{0}; shape without `autorate`, or start it with that privilege")]
    Autorate(io::Error),
    /// No socket.
    #[error("cannot listen at {path}: {source}")]
    Socket {
        /// Its path.
        path: String,
        /// The system's error.
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
    /// The interface is gone, or has another name.
    InterfaceGone,
    /// It could not go on; why.
    Failed(String),
}

/// Remainder of an instance; a client's `stop` returns when it is dropped.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// The last counters.
    pub status: Status,
    _waiting: Option<Waiting>,
}

/// A running gateway on one interface. Dropped, it takes its rules away and lets go what it holds.
#[derive(Debug)]
pub struct Instance {
    server: Server,
    engine: Engine,
    steering: Option<Steering>,
    warnings: RefCell<Warnings>,
    index: u32,
    sight: OwnedFd,
    // Last: the interface is released when everything else is gone.
    taken: Taken,
}

impl Instance {
    /// Takes the interface, cleans what a killed instance left there, and starts.
    ///
    /// # Errors
    /// For a missing interface, one that another instance has, without CAP_NET_ADMIN,
    /// without packet queues in the kernel or a tool for the rules.
    pub fn start(config: UpConfig) -> Result<Self, UpError> {
        let interface = Interface::find(&config.interface)?;
        privilege::check(&config.interface)?;
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
        // Last what changes the interface.
        let server = Server::new(&socket).map_err(failed)?;
        let sight = interface::socket().map_err(failed)?;
        let asked = config.autorate.clone();
        let engine = Engine::start(config, &interface, &taken.place)?;
        let steering = asked.map(|asked| -> Result<_, UpError> {
            let traffic = engine.traffic();
            let traffic = traffic.map_err(|why| UpError::Autorate(io::Error::other(why)))?;
            Steering::start(&asked, &interface, &traffic).map_err(UpError::Autorate)
        });
        let steering = match steering.transpose() {
            Ok(steering) => steering,
            Err(error) => {
                engine.end();
                return Err(error);
            }
        };
        Ok(Self {
            server,
            engine,
            steering,
            warnings: RefCell::default(),
            index: interface.index,
            sight,
            taken,
        })
    }

    /// Counters so far.
    ///
    /// # Errors
    /// If a datapath has ended by itself: why.
    pub fn status(&self) -> Result<Status, String> {
        status(
            &self.taken.place,
            &self.engine,
            self.steering.as_ref(),
            &mut self.warnings.borrow_mut(),
        )
    }

    /// Leaves the interface as it is, for the kernel to go on; false if its packets wait in this process.
    pub fn detach(self) -> bool {
        matches!(self.engine, Engine::Kernel(_))
    }

    /// Ends it at once.
    pub fn stop(self) -> Outcome {
        self.end(Ending::Quit, None)
    }

    /// Runs until somebody asks it to stop, `quit` becomes readable, or it cannot go on. `alive` is called some times a second,
    /// as long as every thread is at work, with the changes of rates since the last time.
    ///
    /// Where packets wait for this process, another is started that kills it if it stands still for 2 to 2.25 s.
    ///
    /// # Errors
    /// If the other process cannot be started; then everything is taken away again.
    pub fn run(
        mut self,
        quit: impl AsFd,
        mut alive: impl FnMut(&[RateEvent]),
    ) -> Result<Outcome, UpError> {
        let watchdog = match self.engine {
            Engine::Kernel(_) => None,
            Engine::Queues { .. } => Some(Watchdog::start().map_err(UpError::Watchdog)?),
        };
        let (ending, waiting) = self.attend(quit.as_fd(), |events| {
            watchdog.as_ref().inspect(|dog| dog.feed());
            alive(events);
        });
        // From here on nothing comes to wait for this process.
        drop(watchdog);
        Ok(self.end(ending, waiting))
    }

    /// Until there is a reason to end; the client that waits for it.
    fn attend(
        &mut self,
        quit: std::os::fd::BorrowedFd<'_>,
        mut alive: impl FnMut(&[RateEvent]),
    ) -> (Ending, Option<Waiting>) {
        let mut next = Instant::now();
        let mut told = 0;
        loop {
            let mut left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if let Some(ending) = self.look() {
                    return (ending, None);
                }
                let events = self.steering.iter().flat_map(|one| one.events_after(told));
                let events: Vec<_> = events.cloned().collect();
                told = events.last().map_or(told, |last| last.number);
                alive(&events);
                next = Instant::now() + LOOK;
            }
            if let Some(ending) = self.steer() {
                return (ending, None);
            }
            left = self
                .steering
                .as_ref()
                .map_or(left, |one| left.min(one.left()));
            let is_asked = {
                let mut fds = vec![PollFd::from_borrowed_fd(quit, PollFlags::IN)];
                let asks = self.server.waits_for();
                fds.extend(asks.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
                match poll(&mut fds, Some(&timespec(left))) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return (Ending::Failed(error.to_string()), None),
                }
                if !fds[0].revents().is_empty() {
                    return (Ending::Quit, None);
                }
                fds.iter().any(|fd| !fd.revents().is_empty())
            };
            // Also to leave those that say nothing.
            if (is_asked || left.is_zero())
                && let Some(waiting) = self.serve(&mut || alive(&[]))
            {
                return (Ending::Asked, Some(waiting));
            }
        }
    }

    /// Why it cannot go on, if it cannot.
    fn look(&mut self) -> Option<Ending> {
        if interface::index_now(&self.sight, &self.taken.place.interface) != Some(self.index) {
            return Some(Ending::InterfaceGone);
        }
        self.engine.check().err().map(Ending::Failed)
    }

    /// Sets the rates that autorate asks for, when it is time; why it cannot go on, if it cannot.
    fn steer(&mut self) -> Option<Ending> {
        let steering = self.steering.as_mut().filter(|one| one.left().is_zero())?;
        let set = self.engine.traffic().and_then(|traffic| {
            let settings = steering.tick(&traffic);
            settings.map_or(Ok(()), |new| {
                // Rates alone take no time.
                self.engine
                    .set(&self.taken.place.interface, &new, &mut || ())
            })
        });
        set.err().map(Ending::Failed)
    }

    /// Answers requests; returns the client that asks for the end. `alive` is called where an answer takes long.
    fn serve(&mut self, alive: &mut dyn FnMut()) -> Option<Waiting> {
        let Self {
            server,
            engine,
            steering,
            taken,
            warnings,
            ..
        } = self;
        server.serve(|request| {
            let done = match request {
                Request::Set(settings) => {
                    let done = engine.set(&taken.place.interface, &settings, alive);
                    if let (Ok(()), Some(steering)) = (&done, &mut *steering) {
                        steering.set(&settings);
                    }
                    done
                }
                _ => Ok(()),
            };
            let steering = steering.as_ref();
            let answer = done
                .and_then(|()| status(&taken.place, engine, steering, &mut warnings.borrow_mut()));
            answer.map_or_else(Answer::Error, Answer::Status)
        })
    }

    fn end(self, ending: Ending, waiting: Option<Waiting>) -> Outcome {
        let Self {
            server,
            engine,
            taken,
            ..
        } = self;
        drop(server);
        let (mut ending, mut waiting) = (ending, waiting);
        let mut status = header(&taken.place, &engine);
        let (directions, failed) = engine.end();
        status.directions = directions;
        if !failed.is_empty() {
            let failed = failed.join("; ");
            ending = Ending::Failed(match ending {
                Ending::Failed(why) => format!("{why}; {failed}"),
                _ => failed,
            });
        }
        drop(taken);
        if let Some(waiting) = &mut waiting {
            waiting.tell(&match &ending {
                Ending::Failed(why) => Answer::Error(format!("it has ended, but {why}")),
                _ => Answer::Stopped(status.clone()),
            });
        }
        Outcome {
            ending,
            status,
            _waiting: waiting,
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Counters so far.
fn status(
    place: &Place,
    engine: &Engine,
    steering: Option<&Steering>,
    warnings: &mut Warnings,
) -> Result<Status, String> {
    let directions = engine.directions()?;
    let mut status = header(place, engine);
    status.autorate = steering.map(Steering::status);
    if matches!(engine, Engine::Kernel(_)) {
        status.warnings = warnings.of(&place.interface, engine.backend(), &directions);
    }
    status.directions = directions;
    Ok(status)
}

/// Qdiscs in the kernel without a process.
pub(super) fn without_process(
    place: &Place,
    backend: Backend,
    directions: Vec<DirectionStatus>,
) -> Status {
    // Its interfaces may not be seen from here.
    let is_here = place::namespace().is_ok_and(|here| here == place.namespace);
    let warnings = is_here.then(|| Warnings::default().of(&place.interface, backend, &directions));
    Status {
        version: VERSION,
        interface: place.interface.clone(),
        namespace: place.namespace,
        backend,
        warnings: warnings.unwrap_or_default(),
        directions,
        ..Status::default()
    }
}

fn header(place: &Place, engine: &Engine) -> Status {
    Status {
        version: VERSION,
        interface: place.interface.clone(),
        namespace: place.namespace,
        pid: std::process::id(),
        backend: engine.backend(),
        why: engine.why(),
        warnings: Vec::new(),
        rules: engine.rules(),
        directions: Vec::new(),
        autorate: None,
    }
}
