// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurement: idle, a download, an upload, with probes all the time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::request::{Count, OK, Word, read_line};
use crate::result::{Latency, Measured, Phase, Probe, latency, load, rate_of};
use crate::server::COUNTS;
use crate::socket::{Until, connected};

/// Threads that probe, and the time from one's probe to its next: 20 probes in a second at most, about 80 kbit/s.
const PROBERS: u32 = 4;
const PERIOD: Duration = Duration::from_millis(200);
/// Longest time of a connection, from the first packet to the end of the server's answer; a probe without an answer is lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most counts of a connection: those of 100 s, and a server ends an upload after 20.
const MOST_COUNTS: usize = 1000;
/// Most characters of a server's answer that are shown.
const MOST_WORDS: usize = 200;
/// Margin of a measurement beyond its phases: connections of its loads, and a busy machine.
const MARGIN: Duration = Duration::from_secs(20);
/// Share of a phase with load before its probes count.
const RAMP: f64 = 0.25;
/// Longest time for the queue of a phase to drain before the next.
const MOST_DRAIN: Duration = Duration::from_secs(8);

/// Plan of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Server behind the link.
    pub server: SocketAddr,
    /// Its token.
    pub token: String,
    /// Interface of the link, where routes would choose another.
    pub interface: Option<String>,
    /// Duration without load.
    pub idle: Duration,
    /// Duration of the download, and of the upload.
    pub load: Duration,
    /// Connections of the load.
    pub connections: u32,
    /// Limit in bytes of a direction, which then ends early.
    pub most_bytes: u64,
}

impl Plan {
    /// Usual plan: 3 s and twice 8 s, four connections, 1 GB in each direction at most.
    pub fn new(server: SocketAddr, token: String) -> Self {
        Self {
            server,
            token,
            interface: None,
            idle: Duration::from_secs(3),
            load: Duration::from_secs(8),
            connections: 4,
            most_bytes: 1_000_000_000,
        }
    }

    /// Bound of a measurement, once answers that are awaited have come or their 3 s are over; then the rates that were taken
    /// off for it come back.
    pub fn longest(&self) -> Duration {
        // The last probe of each phase as well, and the first connection.
        self.idle + 2 * (self.load + MOST_DRAIN + PATIENCE) + PATIENCE + MARGIN
    }
}

/// Progress of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// The phase that begins.
    pub phase: Phase,
    /// Its duration.
    pub duration: Duration,
}

/// Reason why a link was not measured.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The server cannot be reached.
    #[error(
        "the server {server} cannot be reached: {source}; start it there by `makeway tune --serve 0.0.0.0:8482`"
    )]
    Unreachable {
        /// Its address.
        server: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The server refuses.
    #[error("the server {server} refuses: {why}")]
    Refused {
        /// Its address.
        server: SocketAddr,
        /// Its answer.
        why: String,
    },
    /// The load broke off.
    #[error("the {phase} broke off: {source}", phase = if *upload { "upload" } else { "download" })]
    Broken {
        /// Direction of the load.
        upload: bool,
        /// The system's error.
        source: io::Error,
    },
    /// Nothing arrived.
    #[error("nothing arrived in the {0}: is the interface the one that leads to the server?")]
    Nothing(&'static str),
    /// No such host.
    #[error("`{0}` is no host: write 198.51.100.7, or example.net:8482")]
    NoHost(String),
    /// No token.
    #[error("{file}: {why}")]
    Token {
        /// File of the token.
        file: String,
        /// The fault.
        why: String,
    },
    /// The measurement took longer than the bound.
    #[error(
        "the server {server} is too slow: the measurement did not end within {} s; try another one, or when it is less busy",
        longest.as_secs()
    )]
    TooLong {
        /// Its address.
        server: SocketAddr,
        /// The bound.
        longest: Duration,
    },
    /// The measurement was stopped.
    #[error("stopped")]
    Stopped,
}

/// State shared by all threads of a measurement.
struct Shared<'p> {
    plan: &'p Plan,
    began: Instant,
    stop: &'p AtomicBool,
    /// Current phase, 0 to 2; a probe belongs to the one in which it began.
    phase: AtomicU64,
    ends: AtomicBool,
    probes: Mutex<Vec<Probe>>,
}

const PHASES: [Phase; 3] = [Phase::Idle, Phase::Download, Phase::Upload];

impl Shared<'_> {
    fn phase(&self) -> Phase {
        PHASES[self.phase.load(Ordering::Relaxed) as usize % PHASES.len()]
    }

    /// Continues unless the measurement was stopped or is too long.
    fn goes_on(&self) -> Result<(), LineError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LineError::Stopped);
        }
        let longest = self.plan.longest();
        match self.began.elapsed() < longest {
            true => Ok(()),
            false => Err(LineError::TooLong {
                server: self.plan.server,
                longest,
            }),
        }
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Probes that began from `from_s` on, in order.
    fn since(&self, from_s: f64) -> Vec<Probe> {
        let probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<Probe> = (probes.iter())
            .filter(|one| one.at_s >= from_s)
            .copied()
            .collect();
        found.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        found
    }
}

/// Opens a connection for `word`; returns the server's answer with it.
fn ask(plan: &Plan, word: Word) -> io::Result<(TcpStream, String)> {
    let end = Instant::now() + PATIENCE;
    let mut stream = connected(plan.server, plan.interface.as_deref(), PATIENCE)?;
    stream.write_all(word.line(&plan.token).as_bytes())?;
    let answer = read_line(&mut Until {
        stream: &stream,
        end,
    })?;
    Ok((stream, answer))
}

/// Opens a connection for `word`.
fn open(plan: &Plan, word: Word) -> Result<TcpStream, LineError> {
    let server = plan.server;
    let unreachable = |source| LineError::Unreachable { server, source };
    let (stream, answer) = ask(plan, word).map_err(unreachable)?;
    // Timeout of each read of a load.
    let timeout = stream.set_read_timeout(Some(PATIENCE));
    timeout.map_err(unreachable)?;
    match answer == OK.trim_end() {
        true => Ok(stream),
        // The text is shown on a terminal.
        false => Err(LineError::Refused {
            server,
            why: answer.escape_debug().take(MOST_WORDS).collect(),
        }),
    }
}

/// Mean of two round trips in ms.
fn probe(plan: &Plan) -> Option<f64> {
    let began = Instant::now();
    ask(plan, Word::Ping).ok()?;
    Some(began.elapsed().as_secs_f64() * 1e3 / 2.0)
}

fn prober(shared: &Shared<'_>, number: u32) {
    let mut due = shared.began + PERIOD * number / PROBERS;
    while !shared.ends.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let (at_s, phase) = (shared.now_s(), shared.phase());
        let ms = probe(shared.plan);
        let mut probes = shared.probes.lock().unwrap_or_else(PoisonError::into_inner);
        probes.push(Probe { at_s, phase, ms });
        drop(probes);
        due += PERIOD;
        // A probe that took longer is followed by the next at its next turn.
        while due < Instant::now() {
            due += PERIOD;
        }
    }
}

/// Reads what arrives until the connection ends.
fn receive(stream: &mut TcpStream, counter: &AtomicU64) -> io::Result<()> {
    let mut chunk = vec![0; 65_536];
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            bytes => counter.fetch_add(bytes as u64, Ordering::Relaxed),
        };
    }
}

/// Reads what the server has counted until the connection ends.
fn counted(stream: &mut TcpStream, counter: &AtomicU64, counts: &Counts) -> io::Result<()> {
    let mut before = 0;
    let mut message = [0; 16];
    for _ in 0..MOST_COUNTS {
        stream.read_exact(&mut message)?;
        let Count { bytes, at } = Count::parse(message);
        counter.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
        before = bytes;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.push((at, bytes));
    }
    let server = stream.peer_addr()?;
    Err(io::Error::other(format!(
        "the server {server} sends more than {MOST_COUNTS} counts of a connection, and ten in a second are usual"
    )))
}

/// Times and bytes so far.
type Counts = Mutex<Vec<(Duration, u64)>>;

fn fill(stream: &mut TcpStream) -> io::Result<()> {
    let chunk = [0; 16_384];
    loop {
        stream.write_all(&chunk)?;
    }
}

/// A download or an upload; payload in bit/s.
fn run_load(shared: &Shared<'_>, word: Word) -> Result<f64, LineError> {
    let plan = shared.plan;
    let streams: Vec<TcpStream> = (0..plan.connections)
        .map(|_| {
            shared.goes_on()?;
            open(plan, word)
        })
        .collect::<Result<_, _>>()?;
    let upload = word == Word::Up;
    let broken = |source| LineError::Broken { upload, source };
    let counter = AtomicU64::new(0);
    let of_server: Vec<Counts> = streams.iter().map(|_| Counts::default()).collect();
    let ending = AtomicBool::new(false);
    let failed = Mutex::new(None);
    let began = Instant::now();
    let mut counts = vec![(Duration::ZERO, 0)];
    thread::scope(|scope| {
        for (stream, of_server) in streams.iter().zip(&of_server) {
            let told = |done: io::Result<()>| {
                // At the end each connection breaks off.
                if let (Err(error), false) = (done, ending.load(Ordering::Relaxed)) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                }
            };
            let (reads, counter) = (stream.try_clone(), &counter);
            scope.spawn(move || {
                told(reads.and_then(|mut stream| match upload {
                    true => counted(&mut stream, counter, of_server),
                    false => receive(&mut stream, counter),
                }));
            });
            if upload {
                let writes = stream.try_clone();
                scope.spawn(move || told(writes.and_then(|mut stream| fill(&mut stream))));
            }
        }
        while began.elapsed() < plan.load && shared.goes_on().is_ok() {
            thread::sleep(COUNTS);
            let bytes = counter.load(Ordering::Relaxed);
            counts.push((began.elapsed(), bytes));
            let failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if bytes > plan.most_bytes || failed.is_some() {
                break;
            }
        }
        ending.store(true, Ordering::Relaxed);
        for stream in &streams {
            // Packets that wait here are dropped: those that wait in the link are enough to drain.
            let _ = set_socket_linger(stream.as_fd(), Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    shared.goes_on()?;
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(broken(error));
    }
    let bps = match upload {
        false => rate_of(&counts),
        // Each connection by itself, by the server's clock.
        true => (of_server.into_iter())
            .map(|one| rate_of(&one.into_inner().unwrap_or_else(PoisonError::into_inner)))
            .sum(),
    };
    match bps {
        bps if bps > 0.0 => Ok(bps),
        _ if upload => Err(LineError::Nothing("upload")),
        _ => Err(LineError::Nothing("download")),
    }
}

/// Waits until the queue of a load has drained: two probes near the idle ones.
fn drain(shared: &Shared<'_>, idle: &Latency) {
    let end = Instant::now() + MOST_DRAIN;
    let near = idle.p90_ms * 1.5 + 5.0;
    let mut good = 0;
    while good < 2 && Instant::now() < end && shared.goes_on().is_ok() {
        good = match probe(shared.plan) {
            Some(ms) if ms < near => good + 1,
            _ => 0,
        };
    }
}

fn rest(shared: &Shared<'_>, time: Duration) -> Result<(), LineError> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        shared.goes_on()?;
        thread::sleep(COUNTS.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// Measures a link; `told` hears of each phase as it begins.
///
/// # Errors
/// The server cannot be reached, refuses or breaks off; it is too slow ([`Plan::longest`]); `stop` was set.
pub fn measure(
    plan: &Plan,
    stop: &AtomicBool,
    mut told: impl FnMut(Stage),
) -> Result<Measured, LineError> {
    // A fault is reported at once.
    drop(open(plan, Word::Ping)?);
    let shared = Shared {
        plan,
        began: Instant::now(),
        stop,
        phase: AtomicU64::new(0),
        ends: AtomicBool::new(false),
        probes: Mutex::default(),
    };
    let mut measured = thread::scope(|scope| {
        for number in 0..PROBERS {
            let shared = &shared;
            scope.spawn(move || prober(shared, number));
        }
        let measured = phases(&shared, &mut told);
        shared.ends.store(true, Ordering::Relaxed);
        measured
    })?;
    measured.probes = shared.since(0.0);
    Ok(measured)
}

fn phases(shared: &Shared<'_>, told: &mut impl FnMut(Stage)) -> Result<Measured, LineError> {
    let plan = shared.plan;
    told(Stage {
        phase: Phase::Idle,
        duration: plan.idle,
    });
    rest(shared, plan.idle)?;
    let idle = latency(&shared.since(0.0));
    let mut loads = [Default::default(); 2];
    for (n, word) in [Word::Down, Word::Up].into_iter().enumerate() {
        let phase = PHASES[n + 1];
        told(Stage {
            phase,
            duration: plan.load,
        });
        shared.phase.store(n as u64 + 1, Ordering::Relaxed);
        let from_s = shared.now_s();
        let bps = run_load(shared, word)?;
        let to_s = shared.now_s();
        // Probes that began under load are answered meanwhile; those that begin now see a queue that drains: they are shown, and do not count.
        drain(shared, &idle);
        let mut probes = shared.since(from_s + RAMP * (to_s - from_s));
        probes.retain(|one| one.at_s < to_s);
        loads[n] = load(bps, &probes, &idle);
    }
    let [download, upload] = loads;
    Ok(Measured {
        idle,
        download,
        upload,
        probes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_load_ends_when_the_measurement_has_taken_too_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::sleep(Duration::from_millis(100));
                let _ = stream.write_all(OK.as_bytes());
                // A load that goes on, however slowly.
                thread::spawn(move || {
                    while stream.write_all(&[0]).is_ok() {
                        thread::sleep(Duration::from_millis(500));
                    }
                });
            }
        });
        // One probe, which is there in time and has 8 s of load before it.
        for connections in [200, 1] {
            let plan = Plan {
                connections,
                ..Plan::new(server, "token".into())
            };
            let stop = AtomicBool::new(false);
            let almost = plan.longest() - Duration::from_secs(1);
            let shared = Shared {
                plan: &plan,
                began: Instant::now().checked_sub(almost).unwrap(),
                stop: &stop,
                phase: AtomicU64::new(1),
                ends: AtomicBool::new(false),
                probes: Mutex::default(),
            };
            let began = Instant::now();
            let told = run_load(&shared, Word::Down);
            assert!(matches!(told, Err(LineError::TooLong { .. })), "{told:?}");
            assert!(began.elapsed() < Duration::from_secs(6));
        }
    }
}
