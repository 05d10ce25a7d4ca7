//! The running instance: rules, datapaths, socket, and the loop that watches over them.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use makeway_core::framing::Cells;
use makeway_core::ticket::TicketRate;
use makeway_core::units::Rate;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::interface::{self, Interface, InterfaceError};
use super::place::{self, Place, PlaceError, Taken};
use super::privilege::{self, NotPermitted};
use super::protocol::{Answer, DirectionStatus, Request, Settings, Status, VERSION};
use crate::datapath::{
    AttachError, Change, Datapath, DatapathConfig, DatapathHandle, Leaving, Stats,
};
use crate::rules::{self, Direction, Rules, RulesError};

/// The first number tried for a packet queue: "MW", out of the way of people's own small numbers.
const FIRST_QUEUE: u16 = 0x4d57;
/// How often the interface and the datapaths are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long one client may keep the others waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Clone, Debug)]
pub struct UpConfig {
    /// The interface.
    pub interface: String,
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
    running: Vec<Running>,
    index: u32,
    sight: OwnedFd,
    // Last: the interface is given up when everything else is gone.
    taken: Taken,
}

/// One direction. The rules come first, so that nothing new comes to a datapath that ends.
#[derive(Debug)]
struct Running {
    rules: Rules,
    datapath: DatapathHandle,
    direction: Direction,
    config: DatapathConfig,
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
        for direction in Direction::BOTH {
            rules::remove(&config.interface, direction)?;
        }
        let running = config
            .directions
            .into_iter()
            .map(|(direction, config)| Running::start(&interface.name, direction, config))
            .collect::<Result<_, _>>()?;
        let listener = listen(&socket).map_err(failed)?;
        Ok(Self {
            listener,
            running,
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
        let stats = self.running.iter().map(|one| one.datapath.snapshot());
        let stats = stats.collect::<Result<Vec<_>, _>>();
        Ok(self.describe(stats.map_err(|error| error.to_string())?))
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
            if self.running.iter().any(|one| !one.datapath.is_running()) {
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
                .set(&settings)
                .and_then(|()| self.status())
                .map(Answer::Status),
            None => Err("this makeway does not know what was asked: it may be older, so end it by `makeway down` and start it again".into()),
        };
        let _ = write_answer(&stream, &answer.unwrap_or_else(Answer::Error));
        None
    }

    /// Changes every direction, or none.
    fn set(&self, settings: &Settings) -> Result<(), String> {
        let name = &self.taken.place.interface;
        let discipline = settings.discipline.as_deref().map(str::parse);
        let discipline = discipline
            .transpose()
            .map_err(|error: makeway_core::sched::ParseDisciplineError| error.to_string())?;
        let rates = [
            (Direction::Egress, settings.rate_bps, "upload", "rate"),
            (Direction::Ingress, settings.down_bps, "download", "down"),
        ];
        for (direction, rate, what, key) in rates {
            if rate == Some(0) {
                return Err(format!(
                    "{key}=0 would let nothing through: give a rate like 20mbit"
                ));
            }
            if rate.is_some() && !self.running.iter().any(|one| one.direction == direction) {
                return Err(format!(
                    "makeway on {name} does not shape the {what}: start it again with --{key}"
                ));
            }
        }
        let tickets = settings.tickets.map(|n| {
            let relabels = |one: &Running| matches!(one.config.tags.leaving, Leaving::Relabel(_));
            match TicketRate::new(n) {
                None => Err(format!("tickets={n} is not from 1 to {}", TicketRate::MOST)),
                Some(_) if !self.running.iter().any(relabels) => Err(format!(
                    "makeway on {name} trades no tickets: start it again with --tickets"
                )),
                Some(rate) => Ok(rate),
            }
        });
        let tickets = tickets.transpose()?;
        for one in &self.running {
            let rate = rates
                .iter()
                .find(|(direction, ..)| *direction == one.direction);
            let rate = rate.and_then(|(_, bps, ..)| *bps);
            let change = Change {
                rate: rate.map(|bps| Some(Rate::from_bps(bps))),
                discipline,
                tickets,
                ..Change::default()
            };
            one.datapath
                .set(change)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn end(self, ending: Ending, waiting: Option<UnixStream>) -> Outcome {
        let Self {
            listener,
            running,
            taken,
            ..
        } = self;
        drop(listener);
        let mut ending = ending;
        let mut status = header(&taken.place, &running);
        // All rules first: what is let go in one direction draws answers in the other.
        let (rules, rest): (Vec<_>, Vec<_>) = running
            .into_iter()
            .map(|one| (one.rules, (one.direction, one.config, one.datapath)))
            .unzip();
        drop(rules);
        for (direction, config, datapath) in rest {
            let queue = datapath.queue_num();
            match datapath.stop() {
                Ok(stats) => status
                    .directions
                    .push(describe(direction, queue, &config, stats)),
                Err(error) => ending = Ending::Failed(error.to_string()),
            }
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

    fn describe(&self, stats: Vec<Stats>) -> Status {
        let mut status = header(&self.taken.place, &self.running);
        for (one, stats) in self.running.iter().zip(stats) {
            let queue = one.datapath.queue_num();
            status
                .directions
                .push(describe(one.direction, queue, &one.config, stats));
        }
        status
    }
}

impl Running {
    fn start(
        interface: &str,
        direction: Direction,
        mut config: DatapathConfig,
    ) -> Result<Self, UpError> {
        config.queue_num = FIRST_QUEUE;
        config.any_queue = true;
        let datapath = Datapath::spawn(config.clone())?;
        Ok(Self {
            rules: Rules::install(interface, direction, datapath.queue_num())?,
            datapath,
            direction,
            config,
        })
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

fn header(place: &Place, running: &[Running]) -> Status {
    Status {
        version: VERSION,
        interface: place.interface.clone(),
        namespace: place.namespace,
        pid: std::process::id(),
        rules: running
            .first()
            .map(|one| one.rules.tool())
            .unwrap_or_default(),
        directions: Vec::new(),
    }
}

fn describe(
    direction: Direction,
    queue: u16,
    config: &DatapathConfig,
    stats: Stats,
) -> DirectionStatus {
    DirectionStatus {
        direction: direction.name().into(),
        queue,
        flows_by: config.identity.to_string(),
        users_by: config.users.to_string(),
        limit_packets: config.scheduler.limits.packets,
        limit_bytes: config.scheduler.limits.bytes.get(),
        overhead: config.framing.overhead,
        mpu: config.framing.mpu,
        cells: match config.framing.cells {
            Cells::None => "none",
            Cells::Atm => "atm",
            Cells::Ptm => "ptm",
        }
        .into(),
        tags_by: config.tags.to_string(),
        stats,
    }
}
